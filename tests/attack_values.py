"""Ways to spoil what a file says: values of JSON, model files, tables, images.

As in ``attacks``, each takes the bytes of a valid file and a generator. What is wrong here has got
past the checksums.
"""

import gzip
import io
import json
from copy import deepcopy
from functools import cache
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.svm import SVC

from attacks import ARRAYS, BYTES, NAMES, PICKLE, any_of, members_of, one_of, zipped
from mpda.io.models._archive import write_archive

# --- JSON -----------------------------------------------------------------------------------------

VALUES = (
    *(None, True, -1, 0, 3, 2.5, 10**30, 10**400, 1e308, -1e308, "", "x", "\ud800", "<script>"),
    *("a\nb\x1b[2J", "x" * 5000, [], {}, [[]], [0, 1], [None], [{}], {"a": {}}, [10**12, 10**12]),
    *("os:system", "builtins:eval", "sklearn.base:BaseEstimator", "mpda:MPDA", "<O8", "|V9", "1.5"),
    *(
        "sklearn.cluster:KMeans",
        "mpda.partition.tree:SplitTree",
        "__class__",
        "_fit_X",
        "\0",
        [1e308] * 3,
    ),
    *({"tuple": []}, {"array": 0}, {"array": [0]}, {"int": "0x1"}, {"float": "inf"}, {"a": 1}),
    *(
        {"estimator": {}},
        {"record": {"class": "mpda.discriminant.class_contribution:Plan", "fields": {}}},
    ),
    *(
        {"numpy": ["<f8", ""]},
        {"numpy": ["<U1", "ffffffff"]},
        {"bytes": "zz"},
        {"items": [[[], 1]]},
    ),
    {"masked": {"data": ["x" * 20_000, *"y" * 20_000], "mask": None}},
    {"function": ["mpda.model_selection.selection_rules:RULES", "robust"]},
    {"objects": {"shape": [3], "values": []}},
    {"objects": {"shape": [10**15, 0], "values": []}},
)


def nodes(said):
    """Every place in a value of JSON, as the container and the key."""
    for key, value in said.items() if isinstance(said, dict) else enumerate(said):
        yield said, key
        if isinstance(value, dict | list):
            yield from nodes(value)


def with_other_values(said, rng):
    """The value of JSON with a place or two changed, removed, renamed or made deep."""
    said = json.loads(json.dumps(said))
    for _ in range([1, 1, 1, 2, 5][rng.integers(5)]):
        places = list(nodes(said))
        if not places:
            return said
        container, key = places[rng.integers(len(places))]
        action = rng.random()
        if action < 0.7:
            container[key] = deepcopy(VALUES[rng.integers(len(VALUES))])
        elif action < 0.8:
            del container[key]
        elif action < 0.9 and isinstance(container, dict):
            names = ("x", "fit", "_tree", "steps", "estimator", "__init__", "_fit_X", "")
            container[names[rng.integers(len(names))]] = container.pop(key)
        else:
            for _ in range(int(rng.integers(1, 150))):
                container[key] = [container[key]]
    return json.loads(json.dumps(said))


def _strange_text(said, rng):
    """Text that is no JSON, or such as no honest program writes."""
    text = json.dumps(said)
    found = (
        *("[" * 50_000, '{"a":' * 50_000, "9" * 5000, "NaN", "1e999", '{"version": NaN}', "{}", ""),
        *(
            text.replace(":", ": 1e999, " + '"z":', 1),
            text + text,
            text[:-1],
            text.replace('"', "'"),
        ),
        *(text.replace("{", '{"format": 1, ', 1), "\ufeff" + text, text.replace(",", ",,", 1)),
        *("[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, f'"{"x" * 10**6}"', "-Infinity"),
    )
    return found[rng.integers(len(found))].encode()


def other_json(whole, rng):
    said = with_other_values(json.loads(whole), rng)
    return json.dumps(said).encode()


def strange_json(whole, rng):
    return _strange_text(json.loads(whole), rng)


DOCUMENTS = {each.__name__: each for each in (other_json, strange_json)}


def other_lines(whole, rng):
    """Lines of which some are spoilt, and each is a value of JSON."""
    lines = [json.loads(line) for line in whole.splitlines()]
    made = [with_other_values(each, rng) if rng.random() < 0.7 else each for each in lines]
    return b"".join(json.dumps(each).encode() + b"\n" for each in made)


def strange_lines(whole, rng):
    lines = [
        _strange_text(json.loads(line), rng) if rng.random() < 0.5 else line
        for line in whole.splitlines()
    ]
    return b"\n".join(lines)


LINES = {each.__name__: each for each in (other_lines, strange_lines)}


# --- Model files ----------------------------------------------------------------------------------


def model_file(header, arrays):
    """A model file with everything made to agree with its header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    checksum = f"{sha256(text).hexdigest()}\n".encode()
    members = [("header.json", text), ("header.sha256", checksum), *arrays]
    file = io.BytesIO()
    write_archive(file, [(name, [content]) for name, content in members])
    return file.getvalue()


def other_model(whole, rng):
    members = members_of(whole)
    return model_file(with_other_values(json.loads(members[0][1]), rng), members[2:])


def strange_model(whole, rng):
    members = members_of(whole)
    return model_file(_strange_text(json.loads(members[0][1]), rng), members[2:])


def other_array_in_model(whole, rng):
    """Another array, with a header that says its checksum."""
    (_, text), _, *arrays = members_of(whole)
    said = json.loads(text)
    if not arrays:
        return whole[:-1]
    place = one_of(arrays, rng)
    content = any_of({**ARRAYS, **BYTES}, rng)(arrays[place][1], rng)
    arrays[place] = (arrays[place][0], content)
    said["arrays"][place]["sha256"] = sha256(content).hexdigest()
    if rng.random() < 0.5 and content[:6] == b"\x93NUMPY":
        said["arrays"][place] |= _said_in(content)
    return model_file(said, arrays)


def _said_in(content):
    """What the header of an array says, in the words of a model file, where it says something."""
    try:
        found = np.lib.format.read_magic(file := io.BytesIO(content))
        shape, fortran, dtype = np.lib.format._read_array_header(file, found)
    except Exception:  # whatever was done to it
        return {}
    return {"shape": list(shape), "dtype": dtype.str, "order": "F" if fortran else "C"}


def other_names_in_model(whole, rng):
    """One array under another name, in a file that is right in all else."""
    (_, text), _, *arrays = members_of(whole)
    names = [name for name in NAMES if name.isascii() and len(name) < 60]
    name = names[rng.integers(len(names))]
    if not arrays:
        return model_file(text, [(name, PICKLE)])
    place = one_of(arrays, rng)
    arrays[place] = (name, arrays[place][1])
    return model_file(text, arrays)


FOREIGN = (
    *("os:system", "builtins:eval", "subprocess:Popen", "pickle:Unpickler", "mpda:load", "x"),
    *("sklearn.svm:SVC", "sklearn.pipeline:FeatureUnion", "sklearn.base:BaseEstimator", "os:path"),
    *(
        "mpda.io.models:load",
        "sklearn.preprocessing:FunctionTransformer",
        "mpda.partition.tree:SplitTree",
    ),
)


def foreign_class(whole, rng):
    """A class that is real and not one of a model, at the top or inside."""
    (_, text), _, *arrays = members_of(whole)
    said = json.loads(text)
    path = FOREIGN[rng.integers(len(FOREIGN))]
    estimator = said["model"]["estimator"]
    if rng.random() < 0.5:
        said["class"] = estimator["class"] = path
    else:
        svm = {"class": "sklearn.svm:SVC", "parameters": SVC().get_params(), "fitted": {}}
        patches = {"labels": [], "linearity": [], "tree": None}
        estimator["fitted"]["a_"] = [
            {"estimator": svm},
            {"estimator": {"class": path, "parameters": {}, "fitted": {}}},
            {"record": {"class": "mpda.partition.tree:Partition", "fields": patches}},
            {"record": {"class": path, "fields": {}}},
            {"function": ["os:environ", "PATH"]},
        ][rng.integers(5)]
    return model_file(said, arrays)


MODEL_FILES = {
    each.__name__: each
    for each in (
        *(other_model, strange_model, other_array_in_model, other_names_in_model),
        foreign_class,
    )
}


# --- Tables ---------------------------------------------------------------------------------------


def other_cells(whole, rng):
    """A table of text with odd cells, lines and signs."""
    odd = (
        *(
            b"",
            b"nan",
            b"inf",
            b"1e999",
            b"-1e400",
            b"9" * 400,
            b"\0",
            b"\xff\xfe",
            b'"',
            b'""',
            b"'",
        ),
        *(b"x" * 5000, b"1" * 140_000, b"\r", b"\n\n", b",,,", b";", b"\t", b"=cmd()", b"0x10"),
        *(b"1_000", b"True", b"1+2j", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"2020-01-01", b"\x1b[2J"),
    )
    lines = whole.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(lines)))
        cells = lines[place].split(b",")
        cells[rng.integers(len(cells))] = odd[rng.integers(len(odd))]
        lines[place] = b",".join(cells) * int(rng.integers(1, 3))
    return b"\n".join(lines)


TEXTS = {"other_cells": other_cells}


def spoilt_inside(whole, rng):
    """A packed table of text that is wrong inside, with a checksum that is right."""
    return gzip.compress(any_of({**BYTES, **TEXTS}, rng)(gzip.decompress(whole), rng), 1)


PACKED = {"spoilt_inside": spoilt_inside}


def packed(text):
    return gzip.compress(text, mtime=0)


class _Unpickled(pa.ExtensionType):
    """A type as pyarrow once kept it: by a pickle that every reader opened."""

    def __init__(self):
        super().__init__(pa.float64(), "arrow.py_extension_type")

    def __arrow_ext_serialize__(self):
        return PICKLE

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


# pyarrow 15 has none yet.
VIEWS = pa.string_view() if hasattr(pa, "string_view") else pa.string()


def other_columns(whole, rng):
    """A table whose columns are of odd types, written by an honest program."""
    n = int(rng.integers(0, 9))
    odd = (
        *(pa.nulls(n), pa.array([[1.0]] * n), pa.array([{"a": 1}] * n), pa.array([b"\xff"] * n)),
        *(pa.array(["1.5"] * n), pa.array(["x\n\x1b"] * n), pa.array([2**63] * n, pa.uint64())),
        *(pa.array([0] * n, pa.timestamp("ns")), pa.array([10**6] * n, pa.date32())),
        *(pa.array([1] * n, pa.decimal256(60, 5)), pa.array(np.full(n, 0.1, np.float16))),
        *(pa.array(["a"] * n).dictionary_encode(), pa.array([1] * n, pa.duration("s"))),
        *(
            pa.array([True, None] * n)[:n],
            pa.array([[["x"]]] * n),
            pa.array([b""] * n, pa.binary(0)),
        ),
        *(pa.array([2**62] * n, pa.time64("ns")), pa.array(["x"] * n, VIEWS)),
        pa.ExtensionArray.from_storage(_Unpickled(), pa.array([0.5] * n, pa.float64())),
        pa.RunEndEncodedArray.from_arrays([n], pa.array([1.0])) if n else pa.nulls(0),
    )
    names = ["x0", "y", "x1", "x1", "", "__index_level_0__", "a\nb", "c" * 3000]
    chosen = [odd[i] for i in rng.integers(len(odd), size=rng.integers(1, 5))]
    table = pa.table(chosen, names=[names[i] for i in rng.integers(len(names), size=len(chosen))])
    said = [
        {"index_columns": ["x0"], "columns": [], "column_indexes": []},
        {"index_columns": [{"kind": "range", "start": 0, "stop": 10**15, "step": 1}]},
        {"index_columns": 5, "columns": [{"name": "y", "numpy_type": "object"}]},
    ][rng.integers(3)]
    if rng.random() < 0.5:
        table = table.replace_schema_metadata({"pandas": json.dumps(said), "x": b"\xff"})
    file = io.BytesIO()
    if whole[:4] == b"PAR1":
        try:
            pq.write_table(table, file)
        except (
            pa.ArrowNotImplementedError,
            pa.ArrowInvalid,
            OSError,
        ):  # what Parquet has no type for
            pq.write_table(pa.table({"y": pa.nulls(n)}), file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


COLUMNS = {"other_columns": other_columns}


# --- Images ---------------------------------------------------------------------------------------


def _picture(shape=(128, 128), kind=np.uint8, form="PNG"):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros(shape, kind)).save(file, form)
    return file.getvalue()


@cache
def images():
    return zipped([(f"coil/obj{i}__{j}.png", _picture()) for i in (1, 2) for j in range(3)])


def other_images(whole, rng):
    names = ("obj1__0.png", "../../obj1__0.png", "/obj99999__1.png", "obj1__" + "9" * 5000 + ".png")
    pictures = (
        *(_picture((64, 64)), _picture((128, 128, 3)), _picture((128, 128, 4)), PICKLE, b""),
        *(_picture(form="GIF"), _picture((3000, 3000)), _picture(kind=bool), _picture(form="TIFF")),
        BYTES[list(BYTES)[rng.integers(len(BYTES))]](_picture(), rng),
    )
    drawn = rng.integers(len(pictures), size=3)
    return zipped([(names[rng.integers(len(names))], pictures[i]) for i in drawn])


IMAGES = {"other_images": other_images}


# --- Reports --------------------------------------------------------------------------------------


@cache
def results():
    """A small one with every section."""
    curve = {"method": "MPDA", "dimensions": [1, 2], "error": [9.0, 4.0], "low": [8.0, 3.0]}
    points = [[0.1 * i, float(i % 5), 1.0] for i in range(12)]
    row = {"method": "MPDA", "error": 4.0, "spread": 1.0, "low": 3.0, "high": 5.0, "best": True}
    return {
        **{"format": "mpda results", "version": 1, "title": "a", "summary": ["b"]},
        "made": {"command": "mpda fit", "at": "2026-11-15T20:00:00", "versions": {"mpda": "1"}},
        "data": {"name": "a", "n_samples": 12, "classes": [{"label": "x", "count": 12}]},
        "comparison": {
            "problems": [
                {
                    "name": "a",
                    "rows": [row, {"method": "1-NN", "error": 9.0}],
                    "curves": [{**curve, "high": [10.0, 5.0], "chosen": 2, "chosen_error": 4.0}],
                }
            ]
        },
        "model": {
            **{"method": "MPDA", "n_components": 2, "eigenvalues": [2.0, 1.0]},
            "steps": [{"name": "MPDA", "parameters": {"alpha": 0.1}}],
            **{"features": ["a", "b"], "weights": [[1.0, 2.0], [0.5, -1.0]], "image_shape": [1, 2]},
        },
        "embedding": {
            **{"points": points, "codes": [i % 2 for i in range(12)], "labels": ["x", "y"]},
            **{"rows": list(range(12)), "wrong": [i == 3 for i in range(12)], "n_all": 20},
        },
        "partition": {
            "classes": [{"label": "x", "patches": 2, "sizes": [6, 6], "linearity": [1.1, 1.2]}],
            "shown": {
                **{"label": "x", "points": [each[:2] for each in points]},
                "patches": [i // 6 for i in range(12)],
            },
        },
        "confusion": {"labels": ["x", "y"], "counts": [[5, 1], [0, 6]]},
    }


@cache
def rows():
    about = {"problem": "digits", "status": "done", "dimensions": [1, 2, 3], "n_test": 100}
    about |= {"cv_dimension": 2, "seconds": 1.0, "fit_seconds": 0.1, "parameters": {}}
    made = [
        {**about, "task": f"{method}{seed}", "method": method, "seed": seed, "wrong": [9, seed, 3]}
        for method in ("1-NN", "MPDA", "PCA")
        for seed in (1, 2, 3)
    ]
    return b"".join(json.dumps(each).encode() + b"\n" for each in made)
