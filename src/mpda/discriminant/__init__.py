"""The objective of MPDA, in reading order."""
