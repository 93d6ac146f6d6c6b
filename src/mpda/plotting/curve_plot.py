"""Error against the number of components, with confidence bands.

Curves come from a fitted `DiscriminantSearchCV`, from arrays of errors, or as `ErrorCurve` from
`mpda.assessment`, which also computes the bands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mpda._lib.array_types import Floats
from mpda.assessment.error_statistics import ErrorCurve, average_error_curves
from mpda.plotting.axes import OUTSIDE, Display, get_axes
from mpda.plotting.styles import Style, display_name, make_styles

# Curves whose legend fits inside the axes; the legend of more curves stands on the right.
_MAX_LEGEND_INSIDE = 6
# Curves with at most this many points get markers, which would merge into a band otherwise.
_MAX_MARKERS = 12


class CurveDisplay(Display):
    """Error in per cent against the number of components, with 95 % confidence bands.

    Parameters
    ----------
    curves : sequence of ErrorCurve
        One for each method.
    measure : str, default="error"
        Title of the vertical axis, without its unit.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    ax_ : matplotlib axes
        Axes of the last plot.
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
        """Draw the curve of a fitted search, or several curves.

        Parameters
        ----------
        estimator : DiscriminantSearchCV, or mapping of names to curves
            Fitted search, or curves as described for `plot_curve`.
        name : str, default=None
            Name of a single search in the legend; None takes the class of the searched method.
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        CurveDisplay
            With ``figure_`` and ``ax_``.
        """
        sources = estimator
        if not isinstance(estimator, Mapping):
            sources = {_method_name(estimator) if name is None else name: estimator}
        curves = [_make_curve(str(key), source) for key, source in sources.items()]
        return cls(curves, measure=_measure_name(sources)).plot(ax, title=title)

    def upper_limit(self) -> float:
        """Return the upper end of the error axis in per cent.

        A single component may be far worse than all larger numbers. The axis ends at 2.5 times
        the best error of the worst method, or 10 points above it, so the differences between
        methods stay visible.

        Returns
        -------
        float
            At least 1.
        """
        errors = [curve.error[np.isfinite(curve.error)] for curve in self.curves]
        best = max((float(values.min()) for values in errors if values.size), default=1.0)
        bands = [curve.high for curve in self.curves if curve.high is not None]
        highest = max(self.largest_error, _largest(bands))
        return max(min(1.08 * highest, max(2.5 * best, best + 10.0)), 1.0)

    @property
    def largest_error(self) -> float:
        """Largest error of any curve in per cent, 0 if there is none."""
        return _largest([curve.error for curve in self.curves])

    def plot(self, ax: Any = None, *, title: str | None = None) -> Self:
        """Draw with matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a figure.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        CurveDisplay
            With ``figure_`` and ``ax_``.
        """
        outside = len(self.curves) > _MAX_LEGEND_INSIDE
        axis = get_axes(ax, width=8.0 if outside else 6.0, height=4.2)
        axis.grid(alpha=0.25, linewidth=0.5)
        for curve, style in zip(self.curves, make_styles(len(self.curves)), strict=True):
            if curve.component_counts.size:
                _draw_curve(axis, curve, style)
            else:
                level = {"color": "0.45", "linestyle": style.line}
                axis.axhline(curve.error[0], label=display_name(curve.name), **level)
        axis.set(xlabel="number of components", ylabel=f"{self.measure} in %")
        axis.xaxis.get_major_locator().set_params(integer=True)
        # From zero, so that the heights of two curves have the ratio of their errors.
        axis.set_ylim(0.0, self.upper_limit())
        axis.legend(frameon=False, fontsize=8, **(OUTSIDE if outside else {}))
        return self._finish(axis, title)


def _largest(arrays: Sequence[Floats]) -> float:
    """Return the largest finite number, 0 if there is none."""
    return max(
        (float(values[np.isfinite(values)].max(initial=0.0)) for values in arrays), default=0.0
    )


def _draw_curve(axis: Any, curve: ErrorCurve, style: Style) -> None:
    """Draw the line, the band and the ring at the selected number of components."""
    label = display_name(curve.name)
    look: dict[str, Any] = {"color": style.color, "linestyle": style.line}
    if curve.component_counts.size <= _MAX_MARKERS:
        look |= {"marker": style.marker, "markersize": 4.5}
    if curve.selected is not None:
        label += f" (selected: {round(curve.selected, 1):g})"
    axis.plot(curve.component_counts, curve.error, linewidth=1.8, label=label, **look)
    if curve.low is not None and curve.high is not None:
        band = {"color": style.color, "alpha": 0.15, "linewidth": 0.0}
        axis.fill_between(curve.component_counts, curve.low, curve.high, **band)
    if (point := curve.selected_point()) is not None:
        ring = {"color": style.color, "edgecolors": "black", "linewidths": 1.2}
        # Above all lines and bands, which matplotlib draws at 2 or less.
        axis.scatter(*point, s=70, marker=style.marker, zorder=4, **ring)


def plot_curve(curves: Any, *, ax: Any = None, title: str | None = None) -> Any:
    """Draw errors against the number of components.

    Parameters
    ----------
    curves : DiscriminantSearchCV, or mapping of names to curves
        A fitted search gives the mean error over folds at its best parameters, with a mark at the
        number of components it chose. In a mapping each curve is such a search; errors from 0 to 1
        for 1, 2, .. components, as ``classification_curve`` returns; an array of these with one row
        for each fold or split; or one number, drawn as a level line. Rows give 95 % intervals by
        Student's t. They are too narrow for folds, which share training samples.
    ax : matplotlib axes, default=None
        Where to draw; None makes a figure.
    title : str, default=None
        Title of the axes.

    Returns
    -------
    matplotlib.figure.Figure
        Figure with the plot.

    Examples
    --------
    >>> from mpda.plotting import plot_curve
    >>> figure = plot_curve({"one": [0.3, 0.2, 0.1], "two": [[0.4, 0.2], [0.3, 0.1]]})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['one', 'two']
    """
    return CurveDisplay.from_estimator(curves, ax=ax, title=title).figure_


def _method_name(search: Any) -> str:
    """Return the class name of the searched estimator, or of the last step of a pipeline."""
    step = getattr(search, "estimator", search)
    if getattr(step, "steps", None):
        step = step.steps[-1][1]
    return type(step).__name__


def _measure_name(sources: Mapping[Any, Any]) -> str:
    """Return "error" for accuracies, "1 - f1_macro" for another score, "1 - score" for several."""
    # A scorer may be a function, whose name would say nothing to a reader of the axis.
    scorings = {getattr(source, "scoring", "accuracy") for source in sources.values()}
    if "accuracy" in scorings or not scorings:
        return "error"
    scoring = scorings.pop()
    return f"1 - {scoring}" if not scorings and isinstance(scoring, str) else "1 - score"


def _make_curve(name: str, source: Any) -> ErrorCurve:
    """Return the curve of a fitted search, or of errors from 0 to 1."""
    if hasattr(source, "cv_results_"):
        return _curve_of_search(name, source)
    try:
        errors = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        text = f"a fitted search or errors, got {type(source).__name__}"
        raise TypeError(f"curves[{name!r}] must be {text}.") from error
    if errors.ndim > 2 or errors.size == 0:
        shapes = "(n_components,) or (n_folds, n_components)"
        raise ValueError(f"curves[{name!r}] must have shape {shapes}, got {errors.shape}.")
    low, high = np.nanmin(errors), np.nanmax(errors)
    if low < 0.0 or high > 1.0:
        text = f"curves[{name!r}] must hold errors from 0 to 1, got {low:g} to {high:g}."
        raise ValueError(f"{text} Divide per cent by 100.")
    if errors.ndim == 0:
        return ErrorCurve(name, np.empty(0), 100.0 * errors[None])
    rows = np.atleast_2d(errors)
    return average_error_curves(name, np.arange(1.0, rows.shape[1] + 1.0), rows)


def _curve_of_search(name: str, search: Any) -> ErrorCurve:
    """Return the errors for all numbers of components at the best other parameters."""
    table, best = search.cv_results_, search.best_params_
    # In a pipeline the parameter has the name of its step before it, such as lfda__n_components.
    key = next((k for k in best if k.rsplit("__", 1)[-1] == "n_components"), None)
    if key is None:
        raise ValueError(f"curves: the search {name!r} did not vary n_components.")
    # Only the round and the stage of the best row: others had fewer samples or other folds.
    steps = [table[name] for name in ("iter", "stage") if name in table]
    # A grid may be a list of dictionaries, whose points have different parameters. The missing ones
    # are replaced by an object that equals no value.
    rows = [
        i
        for i, point in enumerate(table["params"])
        if all(step[i] == step[search.best_index_] for step in steps)
        and all(_equal(point.get(k, _equal), v) for k, v in best.items() if k != key)
    ]
    component_counts = np.array([table["params"][i][key] for i in rows], dtype=np.float64)
    scores = np.array([table[f"split{i}_test_score"][rows] for i in range(search.n_splits_)])
    order = np.argsort(component_counts, kind="stable")  # a grid may list its values in any order
    curve = average_error_curves(name, component_counts[order], 1.0 - scores[:, order])
    return replace(curve, selected=float(best[key]))


def _equal(left: Any, right: Any) -> bool:
    """Return True if two parameter values are equal; estimators are compared by identity."""
    return left is right or bool(np.all(left == right))
