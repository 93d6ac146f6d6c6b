"""Error against the number of components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import Floats
from mpda.assessment import ErrorCurve, average_error_curves
from mpda.plotting._canvas import axes_for, figure_of, tidy
from mpda.plotting.styles import Style, display_name, make_styles

# Curves whose legend has room among them; that of more stands beside the axes.
_INSIDE = 6


class CurveDisplay:
    """Error in per cent against the number of components, with 95 % intervals as bands.

    Parameters
    ----------
    curves : sequence of ErrorCurve
    measure : str, default="error"
        What is drawn, for the axis.

    Attributes
    ----------
    figure_, ax_
        The figure and the axes of the last plot.
    """

    def __init__(self, curves: Sequence[ErrorCurve], *, measure: str = "error") -> None:
        if len(curves) == 0:
            raise ValueError("curves must hold at least one curve, got none.")
        self.curves = list(curves)
        self.measure = measure

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, title: str | None = None
    ) -> Self:
        """Draw the curve of a fitted ``DiscriminantSearchCV``."""
        made = {_name(estimator) if name is None else name: estimator}
        return cls(_curves(made), measure=_measure(made)).plot(ax, title=title)

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw on the axes, or on those of a new figure."""
        many = len(self.curves) > _INSIDE
        axis = axes_for(ax, width=8.0 if many else 6.0, height=4.2)
        tidy(axis)
        axis.grid(alpha=0.25, linewidth=0.5)
        for curve, style in zip(self.curves, make_styles(len(self.curves)), strict=True):
            if curve.dimensions.size:
                _draw(axis, curve, style)
            else:
                name = display_name(curve.name)
                axis.axhline(curve.error[0], color="0.45", linestyle=style.line, label=name)
        axis.set(xlabel="number of components", ylabel=f"{self.measure} in %")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(0.0, top_error(curve.error for curve in self.curves))
        if title is not None:
            axis.set_title(title, fontsize=11)
        beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
        axis.legend(frameon=False, fontsize=8, **(beside if many else {}))
        self.ax_, self.figure_ = axis, figure_of(axis)
        return self


def plot_curve(curves: Any, *, ax: Any = None, title: str | None = None) -> Any:
    """Draw errors against the number of components.

    Parameters
    ----------
    curves : DiscriminantSearchCV, or mapping of names to curves
        A fitted search gives the mean error over folds at its best parameters, with a mark at the
        number of components it chose. In a mapping each curve is such a search; errors from 0 to 1
        for 1, 2, .. components, as ``classification_curve`` returns; an array of these with one row
        for each fold or split; or one number, drawn as a level line. Rows give 95 % intervals by
        Student's t; folds share samples, so these are a guide and not exact.
    ax : matplotlib axes, default=None
        Where to draw; None makes a figure.
    title : str, default=None

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from mpda.plotting import plot_curve
    >>> figure = plot_curve({"one": [0.3, 0.2, 0.1], "two": [[0.4, 0.2], [0.3, 0.1]]})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['one', 'two']
    """
    made = curves if isinstance(curves, Mapping) else {_name(curves): curves}
    return CurveDisplay(_curves(made), measure=_measure(made)).plot(ax, title=title).figure_


def _name(search: Any) -> str:
    """What a curve is called that came without a name: the method that was searched."""
    step = getattr(search, "estimator", search)
    if getattr(step, "steps", None):
        step = step.steps[-1][1]
    return type(step).__name__


def _curves(given: Mapping[Any, Any]) -> list[ErrorCurve]:
    made = []
    for name, values in given.items():
        if hasattr(values, "cv_results_"):
            made.append(_of_search(str(name), values))
        elif hasattr(values, "fit"):
            raise ValueError(
                f"curves: {type(values).__name__} has no cv_results_. Give a fitted "
                "DiscriminantSearchCV, or errors by number of components."
            )
        else:
            made.append(_of_errors(str(name), values))
    return made


def _measure(given: Mapping[Any, Any]) -> str:
    """What the curves show: an error, or what a search by another score leaves to 1."""
    scores = {getattr(values, "scoring", "accuracy") for values in given.values()}
    scoring = scores.pop() if len(scores) == 1 else "accuracy" if "accuracy" in scores else "score"
    if scoring == "accuracy":
        return "error"
    return f"1 - {scoring}" if isinstance(scoring, str) else "1 - score"


def _of_search(name: str, search: Any) -> ErrorCurve:
    """The scores at all numbers of components, the other parameters as chosen."""
    table = search.cv_results_
    best = search.best_params_
    key = next((k for k in best if k.rsplit("__", 1)[-1] == "n_components"), None)
    if key is None:
        raise ValueError(f"curves: the search {name!r} did not vary n_components.")
    others = {k: v for k, v in best.items() if k != key}
    rows = [
        i
        for i, point in enumerate(table["params"])
        if all(_same(point.get(k, _same), v) for k, v in others.items())
    ]
    dimensions = np.array([table["params"][i][key] for i in rows], dtype=np.float64)
    scores = np.array([table[f"split{i}_test_score"][rows] for i in range(search.n_splits_)])
    order = np.argsort(dimensions, kind="stable")
    return average_error_curves(name, dimensions[order], 1.0 - scores[:, order], float(best[key]))


def _same(left: Any, right: Any) -> bool:
    """Whether two values of a parameter are one; estimators as parameters are by identity."""
    return left is right or bool(np.all(left == right))


def _of_errors(name: str, values: Any) -> ErrorCurve:
    try:
        errors = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"curves[{name!r}] must be a fitted search or errors from 0 to 1, got "
            f"{type(values).__name__}."
        ) from error
    if errors.ndim > 2 or errors.size == 0:
        raise ValueError(
            f"curves[{name!r}] must have one dimension (components) or two (folds x components), "
            f"got shape {errors.shape}."
        )
    if np.nanmin(errors) < 0.0 or np.nanmax(errors) > 1.0:
        raise ValueError(
            f"curves[{name!r}] must hold errors from 0 to 1, got {np.nanmin(errors):g} to "
            f"{np.nanmax(errors):g}. Divide per cent by 100."
        )
    if errors.ndim == 0:
        return ErrorCurve(name, np.empty(0), 100.0 * errors[None])
    rows = np.atleast_2d(errors)
    return average_error_curves(name, np.arange(1.0, rows.shape[1] + 1.0), rows)


def _draw(axis: Any, curve: ErrorCurve, style: Style) -> None:
    sparse = {"marker": style.marker, "markersize": 4.5} if curve.dimensions.size <= 12 else {}
    label = display_name(curve.name)
    if curve.chosen is not None:
        label += f" (chosen: {round(curve.chosen, 1):g})"
    axis.plot(
        curve.dimensions,
        curve.error,
        color=style.color,
        linestyle=style.line,
        linewidth=1.8,
        label=label,
        **sparse,
    )
    if curve.low is not None and curve.high is not None:
        band = {"color": style.color, "alpha": 0.15, "linewidth": 0.0}
        axis.fill_between(curve.dimensions, curve.low, curve.high, **band)
    if curve.chosen is not None:
        height = curve.chosen_error
        if height is None:
            height = np.interp(curve.chosen, curve.dimensions, curve.error)
        axis.scatter(
            [curve.chosen],
            [height],
            s=70,
            marker=style.marker,
            color=style.color,
            edgecolors="black",
            linewidths=1.2,
            zorder=4,
        )


def top_error(errors: Iterable[Floats]) -> float:
    """Where the axis of errors in per cent ends, one array a method: a little above what matters.

    One component alone may be far worse than the rest.
    """
    finite = [each[np.isfinite(each)] for each in errors]
    least = max((float(each.min()) for each in finite if each.size), default=1.0)
    highest = max((float(each.max()) for each in finite if each.size), default=1.0)
    return max(min(1.08 * highest, max(2.5 * least, least + 10.0)), 1.0)
