"""Model files: fitted models that are kept without pickle and loaded without running code."""

from mpda.io.models._model_files import header, load, save

__all__ = ["header", "load", "save"]
