"""Refinement of a linear map for nearest neighbours: candidates, loss and optimiser."""
