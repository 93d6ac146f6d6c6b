"""Model files that are damaged, foreign, made to deceive, or of another version."""

import io
import json
import pickle
import random
import zipfile
from hashlib import sha256

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import mpda
from model_cases import NAMES, X, deep_list, fitted, refuse_difference, saved
from mpda.exceptions import ModelFileError, ModelVersionWarning
from mpda.io.models import _archive, header, load, save


@pytest.fixture
def file(tmp_path):
    """A small model file."""
    return saved(fitted(make_pipeline(mpda.GramPCA(2), KNeighborsClassifier(1))), tmp_path)


def with_header(path, change, arrays=lambda members: members):
    """The file with a header that was changed, and everything else made to agree with it."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    said = json.loads(members[0][1])
    said = change(said) or said
    text = said if isinstance(said, bytes) else json.dumps(said).encode("utf-8", "surrogatepass")
    checksum = f"{sha256(text).hexdigest()}\n".encode()
    members = [("header.json", text), ("header.sha256", checksum), *arrays(members[2:])]
    with path.open("wb") as out:
        _archive.write_archive(out, [(name, [content]) for name, content in members])
    return path


def test_no_byte_may_change(file):
    whole = file.read_bytes()
    chance = random.Random(0)
    load(file)
    assert len(whole) < 8000
    for place in range(0, len(whole), 9):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(ModelFileError, match=r"model\.mpda "):
            load(file)


def test_no_byte_may_be_missing_or_added(file):
    whole = file.read_bytes()
    chance = random.Random(1)
    for place in [*range(0, 100), *range(100, len(whole), 31), *range(len(whole) - 90, len(whole))]:
        file.write_bytes(whole[:place])
        with pytest.raises(ModelFileError):
            load(file)
    for _ in range(150):
        start, end = sorted(chance.randrange(len(whole) + 1) for _ in range(2))
        piece = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        changed = chance.choice(
            [
                whole[:start] + piece + whole[start:],
                whole[:start] + whole[end + 1 :],
                whole[:start] + whole[start : end + 1] * 2 + whole[end + 1 :],
                whole + piece,
                whole + whole,
                whole[end:] + whole[:end] if 0 < end < len(whole) else whole[1:],
            ]
        )
        file.write_bytes(changed)
        with pytest.raises(ModelFileError):
            load(file)


ODD = [
    *(None, True, -1, 0, 3, 10**30, 1e308, "", "x", "fit", "__class__", "<O8", "|V9", "<f8"),
    *(
        "os:system",
        "mpda:MPDA",
        "sklearn.pipeline:Pipeline",
        [],
        {},
        [[]],
        [0, 1],
        [10**12, 10**12],
    ),
    *({"tuple": []}, {"array": 0}, {"array": [0]}, {"int": "0x1"}, {"float": "inf"}, {"a": 1}),
    *(
        {"estimator": {}},
        {"record": {"class": "mpda.discriminant.class_contribution:Plan", "fields": {}}},
    ),
    *({"numpy": ["<f8", ""]}, {"bytes": "zz"}, {"items": [[[], 1]]}, {"masked": {"data": 1}}),
    {"function": ["mpda.model_selection.selection_rules:RULES", "robust"]},
    {"objects": {"shape": [3], "values": []}},
]


def nodes(said):
    """Every place in a value of JSON, as the container and the key."""
    items = said.items() if isinstance(said, dict) else enumerate(said)
    for key, value in items:
        yield said, key
        if isinstance(value, dict | list):
            yield from nodes(value)


def outcome(read, path):
    """Whether a file is read or refused; any other error is not caught."""
    try:
        read(path)
    except ModelFileError as error:
        refusal = str(error)
    except ModelVersionWarning as warning:
        refusal = str(warning)
    else:
        return "model"
    assert refusal.startswith(f"{path} ")
    assert "\n" not in refusal
    return "refusal"


def test_whatever_a_header_says_it_is_a_model_or_a_refusal(file):
    whole = file.read_bytes()
    chance = random.Random(2)
    outcomes = {"model": 0, "refusal": 0}
    for _ in range(400):

        def change(said):
            container, key = chance.choice(list(nodes(said)))
            action = chance.choice(["replace", "replace", "remove", "rename"])
            if action == "replace":
                container[key] = chance.choice(ODD)
            elif action == "remove":
                del container[key]
            elif isinstance(container, dict):
                container[chance.choice(["x", "fit", "_tree", "steps", "estimator"])] = (
                    container.pop(key)
                )

        file.write_bytes(whole)
        with_header(file, change)
        outcomes[outcome(load, file)] += 1
        outcome(header, file)
    assert min(outcomes.values()) > 30  # both happen


def estimator_of(said):
    return said["model"]["estimator"]


def step_of(said, number):
    return estimator_of(said)["parameters"]["steps"][number]["tuple"][1]["estimator"]


def changed_dtype(kind):
    def change(said):
        said["arrays"][0]["dtype"] = kind

    return change


def changed_shape(said):
    said["arrays"][0]["shape"][0] += 1


CRAFTED = {
    "newer": (lambda s: s.update(version=2), r"made by a newer mpda .*upgrade"),
    "format": (lambda s: s.update(format="other"), "no model file of mpda"),
    "class": (lambda s: s.update({"class": "os:system"}), "class that is not known: 'os:system'"),
    "class of a step": (
        lambda s: step_of(s, 0).update({"class": "builtins:eval"}),
        "class that is not known: 'builtins:eval'",
    ),
    "class that is no estimator": (
        lambda s: step_of(s, 0).update({"class": "mpda.partition.tree:SplitTree"}),
        "class that is not known",
    ),
    "method": (
        lambda s: step_of(s, 0)["fitted"].update(transform=1),
        "sets 'transform', which no fit of GramPCA does",
    ),
    "dunder": (lambda s: step_of(s, 0)["fitted"].update(__class__=1), "sets '__class__'"),
    "class attribute": (lambda s: step_of(s, 0)["fitted"].update(_on_devices=1), "'_on_devices'"),
    "property": (lambda s: step_of(s, 0)["fitted"].update(_n_features_out=1), "'_n_features_out'"),
    "no name": (lambda s: step_of(s, 0)["fitted"].update({"a b_": 1}), "sets 'a b_'"),
    "tree": (lambda s: step_of(s, 1)["fitted"].update(_tree=None), "sets '_tree'"),
    "parameter too many": (
        lambda s: step_of(s, 0)["parameters"].update(callback=1),
        "sets 'callback', which is no parameter of GramPCA",
    ),
    "parameter too few": (
        lambda s: step_of(s, 0)["parameters"].pop("n_components") and None,
        "lacks the parameter n_components of GramPCA",
    ),
    "memory": (
        lambda s: estimator_of(s)["parameters"].update(memory="/tmp/cache"),
        "names a cache as memory",
    ),
    "objects": (changed_dtype("|O"), r"array of a kind that model files never have: .\|O"),
    "objects of some size": (changed_dtype("|O8"), "array of a kind that model files never have"),
    "records": (changed_dtype("|V8"), "array of a kind that model files never have"),
    "other number": (changed_dtype("<i8"), "0.npy does not say what it holds"),
    "larger than the member": (changed_shape, "has not the size of its array"),
    "function": (
        lambda s: step_of(s, 0)["fitted"].update(a_={"function": ["os:environ", "HOME"]}),
        "names a function that is not known: 'os:environ'",
    ),
    "array twice": (
        lambda s: step_of(s, 0)["fitted"].update(a_={"array": 0}, b_={"array": 0}),
        "no array for one place",
    ),
    "array nowhere": (
        lambda s: step_of(s, 0)["fitted"].pop("mean_") and None,
        "array that belongs to nothing",
    ),
    "overlap": (
        lambda s: s["arrays"][0].update(strides=[0, 0]),
        "describes an array that cannot be",
    ),
    "far apart": (
        lambda s: s["arrays"][0].update(strides=[10**9, 1]),
        "describes an array that cannot be",
    ),
    "strides of another shape": (
        lambda s: s["arrays"][0].update(strides=[1]),
        "does not describe a model",
    ),
    "name twice": (
        lambda s: json.dumps(s).replace('"format"', '"format": 1, "format"', 1).encode(),
        "header cannot be read",
    ),
    "deep lists": (lambda s: b"[" * 100_000 + b"]" * 100_000, "header cannot be read"),
    "deep dicts": (lambda s: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "header cannot be read"),
    "deep values": (
        lambda s: step_of(s, 0)["fitted"].update(a_=deep_list(300)),
        "nested too deep",
    ),
    "long number": (lambda s: b'{"version": ' + b"9" * 5000 + b"}", "header cannot be read"),
    "no json": (lambda s: b"\x80\x04", "header cannot be read"),
    "nan": (lambda s: b'{"a": NaN}', "header cannot be read"),
    "no object": (lambda s: b"[]", "no model file of mpda"),
}


@pytest.mark.parametrize(("change", "line"), CRAFTED.values(), ids=CRAFTED.keys())
def test_what_was_made_to_deceive_is_refused(change, line, file):
    with pytest.raises(ModelFileError, match=line):
        load(with_header(file, change))


def test_arrays_that_are_not_those_of_the_header(file):
    whole = file.read_bytes()
    for change, line in (
        (lambda found: found[:-1], "members are not those"),
        (lambda found: [*found, found[0]], "members are not those"),
        (lambda found: [*found, ("more.txt", b"")], "members are not those"),
        (lambda found: [("../0.npy", found[0][1]), *found[1:]], "members are not those"),
        (lambda found: found[::-1], "members are not those"),
        (lambda found: [("0.npy", found[0][1] + b"\0"), *found[1:]], "not the size of its array"),
        (lambda found: [("0.npy", b"\0" * len(found[0][1])), *found[1:]], "does not say what"),
    ):
        file.write_bytes(whole)
        with pytest.raises(ModelFileError, match=line):
            load(with_header(file, lambda said: None, change))


def zipped(compression, members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return content.getvalue()


def foreign():
    arrays = io.BytesIO()
    np.savez(arrays, X=X)
    yield "npz", arrays.getvalue(), "no model file of mpda"
    array = io.BytesIO()
    np.save(array, X)
    yield "npy", array.getvalue(), "no zip archive"
    yield "pickle", pickle.dumps(mpda.LFDA()), "no zip archive"
    yield "empty", b"", "no zip archive"
    yield "text", b"a,b\n1,2\n", "no zip archive"
    yield "empty zip", zipped(zipfile.ZIP_STORED, []), "no zip archive"
    yield "skops", zipped(zipfile.ZIP_STORED, [("schema.json", "{}")]), "header.json is not first"
    bomb = zipped(zipfile.ZIP_DEFLATED, [("header.json", "0" * 10**7)])
    yield "bomb", bomb, "compressed members"
    alone = io.BytesIO()
    _archive.write_archive(alone, [("header.json", [b"{}"])])
    yield "header alone", alone.getvalue(), "header.sha256 is missing"


FOREIGN = {kind: about for kind, *about in foreign()}


# Named by hand: the time of day stands in archives, and two processes would not agree on names.
@pytest.mark.parametrize(("content", "line"), FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files(content, line, tmp_path):
    path = tmp_path / "model.mpda"
    path.write_bytes(content)
    for read in (load, header):
        with pytest.raises(ModelFileError, match=rf"model\.mpda .*{line}"):
            read(path)


def test_a_file_that_was_zipped_anew_is_refused(file):
    with zipfile.ZipFile(file) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for compression, line in (
        (zipfile.ZIP_DEFLATED, "compressed members"),
        (zipfile.ZIP_STORED, "damaged: the header of a member"),  # with dates
    ):
        file.write_bytes(zipped(compression, members))
        with pytest.raises(ModelFileError, match=line):
            load(file)


def test_files_that_are_not_there_keep_their_error(tmp_path):
    for read in (load, header):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none.mpda")
        with pytest.raises(OSError, match=str(tmp_path)):
            read(tmp_path)


@pytest.mark.parametrize("limit", ["LARGE", "_MANY"])
def test_large_archives(limit, tmp_path, monkeypatch):
    model = fitted(mpda.MPDA(2, n_neighbors=4))
    monkeypatch.setattr(_archive, limit, 8 if limit == "_MANY" else 300)
    path = saved(model, tmp_path)
    refuse_difference(model, load(path))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) > 8
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ModelFileError):
            load(path)


def set_version(name, version):
    def change(said):
        said["versions"][name] = version

    return change


def test_other_versions(file, tmp_path):
    own = tmp_path / "own.mpda"
    save(fitted(mpda.GramPCA(2)), own)
    load(with_header(own, set_version("scikit-learn", "1.0.2")))  # has no part of it
    load(with_header(own, set_version("numpy", "1.0.0")))
    major, minor = mpda.__version__.split(".")[:2]
    load(with_header(own, set_version("mpda", f"{major}.{minor}.999")))
    with pytest.warns(ModelVersionWarning, match=r"own\.mpda was saved with mpda 9\.9\.0"):
        load(with_header(own, set_version("mpda", "9.9.0")))
    with pytest.warns(ModelVersionWarning, match=r"saved with scikit-learn 1\.0\.2, and this is"):
        load(with_header(file, set_version("scikit-learn", "1.0.2")))


def test_a_parameter_that_another_version_did_not_have_is_at_its_default(file):
    def change(said):
        said["versions"]["scikit-learn"] = "1.0.2"
        del step_of(said, 1)["parameters"]["leaf_size"]
        step_of(said, 1)["fitted"].pop("radius")

    with pytest.warns(ModelVersionWarning):
        loaded = load(with_header(file, change))
    assert loaded[-1].leaf_size == 30


def test_sums_are_most_of_a_file(tmp_path):
    """Four matrices d x d are kept for partial_fit, and the map itself."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(120, 40)) + np.repeat(np.eye(3, 40) * 9, 40, axis=0)
    path = saved(fitted(mpda.MPDA(2, n_neighbors=4), wide, np.repeat(NAMES, 40)), tmp_path)
    matrices = 4 * 40 * 40 * 8
    assert matrices < path.stat().st_size < matrices + 25_000
