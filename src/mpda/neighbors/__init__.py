"""Neighbour lists and graphs."""
