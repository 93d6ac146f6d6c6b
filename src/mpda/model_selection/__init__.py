"""A search over parameters and numbers of components, and folds that hold out whole classes."""

from mpda.model_selection.search_cv import DiscriminantSearchCV, classification_curve
from mpda.model_selection.unseen_classes import UnseenClassFolds

__all__ = ["DiscriminantSearchCV", "UnseenClassFolds", "classification_curve"]
