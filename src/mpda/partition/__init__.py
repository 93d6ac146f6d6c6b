"""The manifold partition of a class into patches."""
