"""The public estimators, one a file; each is a shell over functions of the package."""
