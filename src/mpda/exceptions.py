"""The warnings and errors that mpda raises."""


class SmallClassWarning(UserWarning):
    """A class has too few samples for ``n_neighbors``, so it uses fewer neighbours."""


class SingularFormError(ValueError):
    """The within-class form is singular where classes differ: the eigenvalues are infinite."""
