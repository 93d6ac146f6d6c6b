"""A search over parameters and numbers of components."""

from mpda.model_selection.search_cv import DiscriminantSearchCV, classification_curve

__all__ = ["DiscriminantSearchCV", "classification_curve"]
