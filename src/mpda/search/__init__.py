"""The parts of the search over parameters: its grid, the walk over it, and the scores."""
