"""Results for reports, made from bundled data: digits as images, wine with text labels."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpda import LFDA, MPDA
from mpda.assessment import average_error_curves
from mpda.model_selection import classification_curve

MADE = {
    "command": "mpda fit digits.csv --label digit --method mpda --out model.mpda",
    "at": "2026-11-15T20:00:00+00:00",
    "versions": {"python": "3.11.7", "mpda": "0.1.0", "numpy": "2.4.6", "scikit-learn": "1.9.1"},
    "machine": "2 cores, x86_64",
}


@cache
def digits_results(every=4):
    X, y = load_digits(return_X_y=True)
    X, y = X[::every], y[::every]
    names = [f"pixel {i // 8},{i % 8}" for i in range(64)]
    model = make_pipeline(MPDA(n_components=10))
    return results("digits.csv", "digit", X, y.astype(str), names, model, image_shape=[8, 8])


@cache
def wine_results():
    wine = load_wine()
    labels = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
    model = make_pipeline(StandardScaler(), MPDA(n_components=3))
    return results("wine.csv", "cultivar", wine.data, labels, wine.feature_names, model)


def results(name, label, X, y, features, model, image_shape=None):
    """What a command would collect, by short ways; the numbers are real."""
    model.fit(X, y)
    step = model[-1]
    classes, codes = np.unique(y, return_inverse=True)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    curves, rows = comparison(X, y, folds)
    Z = model.transform(X)[:, :3]
    guess = cross_val_predict(make_pipeline(model, KNeighborsClassifier(1)), X, y, cv=folds)
    main = next(row for row in rows if row["method"] == "MPDA")
    shown = classes[np.argmax(np.bincount(codes))]
    return {
        "format": "mpda results",
        "version": 1,
        "made": MADE,
        "title": f"{name}: MPDA",
        "summary": [
            f"With MPDA, {main['error']:.1f} of 100 samples get a wrong class.",
            f"It needs {main['components']:g} numbers for each sample in place of {X.shape[1]}.",
        ],
        "data": {
            "name": name,
            "n_samples": len(X),
            "n_features": X.shape[1],
            "label": label,
            "classes": [
                {"label": c, "count": int(n)}
                for c, n in zip(classes.tolist(), np.bincount(codes), strict=True)
            ],
        },
        "comparison": {
            "how": "4-fold cross-validation; the number of components is that of least error.",
            "problems": [{"name": name, "rows": rows, "curves": curves}],
        },
        "model": {
            "method": "MPDA",
            "n_components": int(step.components_.shape[0]),
            "steps": [
                {"name": type(each).__name__, "parameters": each.get_params()}
                for each in (each for _, each in model.steps)
            ],
            "eigenvalues": step.eigenvalues_.tolist(),
            "component_names": step.get_feature_names_out().tolist(),
            "features": list(features),
            "weights": (step.components_ * model[:-1].transform(X).std(axis=0)).tolist()
            if len(model) > 1
            else (step.components_ * X.std(axis=0)).tolist(),
            "image_shape": image_shape,
        },
        "embedding": {
            "how": f"{len(X)} samples that the map was fitted to.",
            "n_all": len(X),
            "component_names": step.get_feature_names_out().tolist()[:3],
            "points": Z.tolist(),
            "codes": codes.tolist(),
            "labels": classes.tolist(),
            "rows": list(range(len(X))),
            "wrong": (guess != y).tolist(),
        },
        "partition": partition(model, X, y, classes, shown),
        "confusion": {
            "how": "1-NN in the components of MPDA, 4-fold cross-validation.",
            "labels": classes.tolist(),
            "counts": confusion_matrix(y, guess).tolist(),
        },
    }


def comparison(X, y, folds):
    scaled = X if X.shape[1] == 64 else StandardScaler().fit_transform(X)
    errors = {"MPDA": [], "LFDA": [], "LDA": []}
    methods = {"MPDA": MPDA(), "LFDA": LFDA(alpha=0.1), "LDA": LinearDiscriminantAnalysis()}
    plain = []
    for train, test in folds:
        for name, method in methods.items():
            found = method.fit(scaled[train], y[train])
            errors[name].append(
                classification_curve(found, scaled[train], y[train], scaled[test], y[test])
            )
        nearest = KNeighborsClassifier(1).fit(scaled[train], y[train])
        plain.append(1.0 - nearest.score(scaled[test], y[test]))
    rows = [row("1-NN", np.array(plain), X.shape[1], np.array(plain))]
    curves = []
    for name, found in errors.items():
        width = min(len(each) for each in found)
        table = np.array([each[:width] for each in found])
        best = int(table.mean(axis=0).argmin())
        rows.append(row(name, table[:, best], best + 1, np.array(plain)))
        curve = average_error_curves(name, np.arange(1.0, width + 1), table)
        curves.append(
            {
                "method": name,
                "dimensions": curve.dimensions.astype(int).tolist(),
                "error": curve.error.tolist(),
                "low": curve.low.tolist(),
                "high": curve.high.tolist(),
                "chosen": best + 1,
            }
        )
    least = min(each["error"] for each in rows)
    for each in rows:
        each["best"] = each["error"] == least
    return curves, rows


def row(method, errors, components, plain):
    mean, spread = 100 * errors.mean(), 100 * errors.std(ddof=1)
    return {
        "method": method,
        "error": mean,
        "spread": spread,
        "low": max(mean - 1.6 * spread, 0.0),
        "high": mean + 1.6 * spread,
        "splits": len(errors),
        "beside": None if method == "1-NN" else mean - 100 * plain.mean(),
        "components": float(components),
        "best": False,
        "seconds": 0.012,
    }


def partition(model, X, y, classes, shown):
    step, seen = model[-1], model[:-1].transform(X) if len(model) > 1 else X
    mine = y == shown
    points = seen[mine] - seen[mine].mean(axis=0)
    plane = points @ np.linalg.svd(points, full_matrices=False)[2][:2].T
    found = []
    for label in classes:
        patches = np.flatnonzero(step.patch_classes_ == label)
        found.append(
            {
                "label": label,
                "patches": int(patches.size),
                "sizes": np.bincount(step.patch_labels_)[patches].tolist(),
                "linearity": step.patch_linearity_[patches].tolist(),
            }
        )
    labels = step.patch_labels_[mine]
    return {
        "classes": found,
        "shown": {
            "label": shown,
            "points": plane.tolist(),
            "patches": (labels - labels.min()).tolist(),
            "how": "First two principal components of the class.",
        },
    }
