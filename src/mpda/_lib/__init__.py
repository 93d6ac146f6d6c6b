"""Functions that know array libraries, threads, files and parameter checks, not the mathematics."""
