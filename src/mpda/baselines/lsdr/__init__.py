"""Least-squares dimensionality reduction."""
