"""Data sets: the catalogue, the way through directory, cache and source, and what is refused."""

import hashlib
import io
import json
import os
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import sklearn.datasets._openml as openml
from sklearn.datasets import load_digits, load_wine

from mpda.exceptions import DatasetError, DatasetWarning
from mpda.experiments import datasets
from mpda.experiments.datasets import DATASETS, _catalogue, column_names, load
from mpda.experiments.datasets._catalogue import Dataset, FirstOf, ImageArchive, OpenML
from mpda.experiments.datasets._checksum import checksum

REAL = Path(os.environ.get("MPDA_DATA", "no data"))  # read before the tests hide the variable


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No data set and no cache of this machine."""
    monkeypatch.delenv("MPDA_DATA", raising=False)
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server():
    """A local HTTP server; what it gives is put into its ``pages``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.server.pages.get(self.path)
            self.server.asked.append(self.path)
            self.send_response(200 if found is not None else 404)
            body = found or b"nothing here"
            length = self.server.said_length or len(body)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.pages, running.asked, running.said_length = {}, [], None
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def catalogue(monkeypatch):
    """Lets a test put entries of its own into the catalogue."""
    entries = dict(DATASETS)
    for module in (_catalogue, datasets):
        monkeypatch.setattr(module, "DATASETS", MappingProxyType(entries))
    return entries


def small(n=12, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(np.float32), np.arange(n) % 3


def entry(X, y, source=None, name="toy", **changes):
    n_classes = len(np.unique(y))
    made = Dataset(name, name, *X.shape, n_classes, "free", "us", checksum(X, y), source)
    return replace(made, **changes)


def test_the_catalogue_has_every_data_set_of_the_experiments():
    assert set(DATASETS) == {
        *("digits", "coil20", "coil100", "face_detection", "mnist_2k2k", "mnist"),
        *("optdigits", "semeion", "vehicle", "usps", "wine"),
    }
    for name, each in DATASETS.items():
        assert each.name == name
        assert each.licence
        assert each.citation
        assert len(bytes.fromhex(each.checksum)) == 32
    with pytest.raises(ValueError, match=r"name must be one of 'digits', .* got 'iris'"):
        load("iris")


@pytest.mark.parametrize(("name", "loader"), [("digits", load_digits), ("wine", load_wine)])
def test_some_come_with_scikit_learn(name, loader):
    X, y = load(name)
    np.testing.assert_array_equal(X, loader().data)
    np.testing.assert_array_equal(y, loader().target)
    features, classes = column_names(name)
    assert features == loader().feature_names
    assert classes == [str(each) for each in loader().target_names]


def test_columns_without_names_are_numbered():
    features, classes = column_names("vehicle")
    assert features == [f"feature{i}" for i in range(18)]
    assert classes == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", [n for n in DATASETS if n not in ("digits", "wine")])
def test_the_files_of_the_paper_are_what_the_catalogue_says(name):
    if not (REAL / f"{name}.npz").exists():
        pytest.skip("MPDA_DATA does not name a directory of the paper's data sets")
    X, y = load(name, REAL)  # a wrong checksum would be a warning, and that an error here
    assert len(np.unique(y)) == DATASETS[name].n_classes
    assert X.shape == (DATASETS[name].n_samples, DATASETS[name].n_features)


def test_mnist_2k2k_is_part_of_mnist():
    if not (REAL / "mnist.npz").exists():
        pytest.skip("MPDA_DATA does not name a directory of the paper's data sets")
    source = DATASETS["mnist_2k2k"].source
    X, y = load("mnist", REAL)
    rows = np.r_[0 : source.n_train, source.train_size : source.train_size + source.n_test]
    assert checksum(X[rows], y[rows]) == DATASETS["mnist_2k2k"].checksum


def test_checksum_knows_every_number_and_who_shares_a_class_but_no_order_and_no_names():
    X, y = small()
    known = checksum(X, y)
    order = np.random.default_rng(1).permutation(len(y))
    assert checksum(X[order], y[order]) == known
    assert checksum(X.astype(float), np.array(["a", "b", "c"])[(y + 1) % 3]) == known
    other = X.copy()
    other[3, 2] = np.nextafter(other[3, 2], np.float32(9))
    assert checksum(other, y) != known
    moved = y.copy()
    moved[0] = 1
    assert checksum(X, moved) != known
    assert checksum(np.zeros((2, 2)), [0, 1]) == checksum(-np.zeros((2, 2)), [0, 1])


def test_directory_comes_first_then_the_variable_then_the_cache(catalogue, tmp_path, monkeypatch):
    X, y = small()
    catalogue["toy"] = entry(X, y)
    places = {name: tmp_path / name for name in ("given", "named", "cache")}
    for directory in places.values():
        directory.mkdir()
    # Rows in other orders have the same checksum: the first label tells where they came from.
    for shift, directory in enumerate(places.values()):
        np.savez(directory / "toy.npz", X=np.roll(X, -shift, axis=0), y=np.roll(y, -shift))
    monkeypatch.setenv("MPDA_DATA", str(places["named"]))
    assert load("toy", places["given"])[1][0] == 0
    assert load("toy")[1][0] == 1
    monkeypatch.delenv("MPDA_DATA")
    assert load("toy")[1][0] == 2
    assert load("toy", tmp_path, cache=places["given"])[1][0] == 0


def test_what_is_nowhere_says_where_it_was_looked_for_and_what_to_do(catalogue, tmp_path):
    X, y = small()
    catalogue["toy"] = entry(X, y)
    with pytest.raises(DatasetError) as caught:
        load("toy", tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "toy.npz") in message
    assert str(tmp_path / "cache" / "toy.npz") in message
    assert "no public download" in message
    assert "--data or MPDA_DATA" in message
    catalogue["toy"] = entry(X, y, OpenML(1))
    with pytest.raises(DatasetError, match="may not be fetched"):
        load("toy", fetch=False)
    with pytest.raises(DatasetError, match=r"data directory .*absent does not exist"):
        load("toy", tmp_path / "absent")


def test_files_that_are_no_data_are_refused(catalogue, tmp_path):
    X, y = small()
    catalogue["toy"] = entry(X, y)
    path = tmp_path / "toy.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez(path, X=X, y=y)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez_compressed(path, X=np.zeros((12, 5)), y=y)
    damaged = bytearray(path.read_bytes())
    damaged[60:75] = bytes(15)
    path.write_bytes(damaged)
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez(path, X_train=X[:6], y_train=y[:6], X_test=X[6:, :2], y_test=y[6:])
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez(path, Z=X)
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez(path, X=np.array([{}], dtype=object), y=y)
    with pytest.raises(DatasetError, match="cannot be read as an"):
        load("toy", tmp_path)
    np.savez(path, X=X[:, 1:], y=y)
    with pytest.raises(DatasetError, match=r"12 samples of 5 features, but .* shape \(12, 4\)"):
        load("toy", tmp_path)


def test_other_numbers_warn_in_a_directory_and_are_refused_in_the_cache(catalogue, tmp_path):
    X, y = small()
    catalogue["toy"] = entry(X, y)
    (tmp_path / "cache").mkdir()
    for directory in (tmp_path, tmp_path / "cache"):
        np.savez(directory / "toy.npz", X=X + 1, y=y)
    with pytest.warns(DatasetWarning, match="not the data that our figures were made with"):
        np.testing.assert_array_equal(load("toy", tmp_path)[0], X + 1)
    with pytest.raises(DatasetError, match="checksum differs"):
        load("toy")


def test_part_of_another_set_is_taken_from_it(catalogue, tmp_path):
    X, y = small()
    catalogue["whole"] = entry(X, y, name="whole")
    catalogue["toy"] = entry(X[[0, 1, 8]], y[[0, 1, 8]], FirstOf("whole", 2, 1, 8))
    np.savez(tmp_path / "whole.npz", X_train=X[:8], y_train=y[:8], X_test=X[8:], y_test=y[8:])
    np.testing.assert_array_equal(load("toy", tmp_path)[0], X[[0, 1, 8]])


def serve_openml(server, X, labels, monkeypatch, data_id=7):
    """What OpenML says and gives of a data set, at the local server."""
    names = [f"V{i}" for i in range(X.shape[1])]
    arff = ["@RELATION toy", *(f"@ATTRIBUTE {name} REAL" for name in names)]
    arff += [f"@ATTRIBUTE Class {{{','.join(sorted(set(labels)))}}}", "@DATA"]
    arff += [",".join([*map(repr, map(float, row)), c]) for row, c in zip(X, labels, strict=True)]
    body = "\n".join(arff).encode()
    feature = {"data_type": "numeric", "is_target": "false", "is_ignore": "false"}
    feature |= {"is_row_identifier": "false", "number_of_missing_values": "0"}
    features = [{**feature, "index": str(i), "name": name} for i, name in enumerate(names)]
    target = {"index": str(len(names)), "name": "Class", "data_type": "nominal"}
    features.append({**feature, **target, "is_target": "true"})
    description = {
        **{"id": str(data_id), "name": "toy", "version": "1", "format": "ARFF"},
        **{
            "status": "active",
            "file_id": "1",
            "description": "small",
            "default_target_attribute": "Class",
        },
        **{"url": f"{server.url}/toy.arff", "md5_checksum": hashlib.md5(body).hexdigest()},
    }
    quality = [{"name": "NumberOfInstances", "value": str(len(X))}]
    answers = {
        f"/info/{data_id}": {"data_set_description": description},
        f"/features/{data_id}": {"data_features": {"feature": features}},
        f"/qualities/{data_id}": {"data_qualities": {"quality": quality}},
    }
    server.pages.update({path: json.dumps(said).encode() for path, said in answers.items()})
    server.pages["/toy.arff"] = body
    monkeypatch.setattr(openml, "_DATA_INFO", server.url + "/info/{}")
    monkeypatch.setattr(openml, "_DATA_FEATURES", server.url + "/features/{}")
    monkeypatch.setattr(openml, "_DATA_QUALITIES", server.url + "/qualities/{}")


def test_openml_is_asked_once_and_then_the_cache(server, catalogue, monkeypatch, tmp_path, capsys):
    X, y = small()
    serve_openml(server, X, np.array(["bus", "saab", "van"])[y].tolist(), monkeypatch)
    catalogue["toy"] = entry(X, y, OpenML(7))
    found, labels = load("toy")
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)
    assert "toy: fetching OpenML, data set 7" in capsys.readouterr().err
    n_asked = len(server.asked)
    again, labels = load("toy")
    np.testing.assert_array_equal(again, X)
    assert len(server.asked) == n_asked
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["toy.npz"]


def test_names_that_are_numbers_keep_their_order(server, catalogue, monkeypatch):
    X, _ = small(n=20)
    y = np.arange(20) % 10
    serve_openml(server, X, [str(digit + 1) for digit in y], monkeypatch)  # "1" to "10"
    catalogue["toy"] = entry(X, y, OpenML(7))
    np.testing.assert_array_equal(load("toy")[1], y)


def test_what_cannot_be_kept_is_a_warning(server, catalogue, monkeypatch, tmp_path):
    X, y = small()
    serve_openml(server, X, [str(c) for c in y], monkeypatch)
    catalogue["toy"] = entry(X, y, OpenML(7))
    (tmp_path / "file").write_text("")
    with pytest.warns(DatasetWarning, match="cannot be kept at .*MPDA_CACHE"):
        np.testing.assert_array_equal(load("toy", cache=tmp_path / "file" / "deep")[0], X)


def test_wrong_data_of_a_source_are_not_kept(server, catalogue, monkeypatch, tmp_path):
    X, y = small()
    serve_openml(server, X + 1, [str(c) for c in y], monkeypatch)
    catalogue["toy"] = entry(X, y, OpenML(7))
    with pytest.raises(DatasetError, match="checksum differs"):
        load("toy")
    assert not (tmp_path / "cache").exists()
    catalogue["toy"] = entry(X, y, OpenML(7), exact=False)
    with pytest.warns(DatasetWarning, match="results may differ"):
        load("toy")


def test_offline_is_said_with_what_to_do(catalogue, monkeypatch):
    X, y = small()
    closed = "http://127.0.0.1:9"
    monkeypatch.setattr(openml, "_DATA_INFO", closed + "/{}")
    offline = r"toy is not at .*could not be fetched from .*--data or MPDA_DATA"
    catalogue["toy"] = entry(X, y, ImageArchive(closed + "/a.zip", "block mean"))
    with pytest.raises(DatasetError, match=offline):
        load("toy")
    catalogue["toy"] = entry(X, y, OpenML(7))
    again = pytest.warns(UserWarning, match="network error")  # scikit-learn tries twice
    with again, pytest.raises(DatasetError, match=offline):
        load("toy")


def archive(images):
    from PIL import Image

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("coil/readme.txt", "about")
        for name, pixels in images.items():
            image = io.BytesIO()
            Image.fromarray(pixels).save(image, "PNG")
            made.writestr(f"coil/{name}.png", image.getvalue())
    return file.getvalue()


def images(shape, seed=0):
    rng = np.random.default_rng(seed)
    names = ["obj10__0", "obj2__5", "obj2__0", "obj10__10"]
    return {name: rng.integers(0, 256, size=shape, dtype=np.uint8) for name in names}


@pytest.mark.parametrize("kind", ["block mean", "centre mean"])
def test_an_archive_of_images_becomes_rows(server, catalogue, kind, capsys):
    grey = kind == "block mean"
    made = images((128, 128) if grey else (128, 128, 3))
    expected = []
    for name in ("obj2__0", "obj2__5", "obj10__0", "obj10__10"):
        pixels = made[name].astype(float)
        row = []
        for a in range(32):
            for b in range(32):
                i, j = (b, a) if grey else (a, b)  # pixels of COIL20 go by column
                block = pixels[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
                if grey:
                    row.append(block.mean() / 255)
                else:
                    means = np.rint(block[1:3, 1:3].mean(axis=(0, 1)))
                    row.append(np.rint(means @ [0.2989, 0.5870, 0.1140]))
        expected.append(row)
    expected, y = np.array(expected, dtype=np.float32), np.array([2, 2, 10, 10])
    server.pages["/coil.zip"] = archive(made)
    catalogue["toy"] = entry(expected, y, ImageArchive(f"{server.url}/coil.zip", kind))
    X, labels = load("toy")
    np.testing.assert_array_equal(X.astype(np.float32), expected)
    np.testing.assert_array_equal(labels, y)
    assert "MiB from http" in capsys.readouterr().err


def test_archives_that_are_none_are_refused(server, catalogue, tmp_path):
    X, y = small()
    catalogue["toy"] = entry(X, y, ImageArchive(f"{server.url}/coil.zip", "block mean"))

    def refused(body, message):
        server.pages["/coil.zip"] = body
        with pytest.raises(DatasetError, match=message):
            load("toy")

    with pytest.raises(DatasetError, match="404"):
        load("toy")
    refused(b"no zip", "did not give a zip of images")
    refused(archive({}), "has no images named")
    refused(archive({"obj1__0": np.zeros((64, 64), dtype=np.uint8)}), "must be 128 x 128")
    server.said_length = 10**6
    refused(archive(images((128, 128))), "broke off|could not be fetched")
    assert not (tmp_path / "cache").exists()


def test_a_write_that_fails_leaves_nothing(catalogue, tmp_path, monkeypatch):
    from mpda.experiments.datasets import _files

    def full(*arguments, **named):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        _files.write(tmp_path / "deep" / "toy.npz", *small())
    assert list((tmp_path / "deep").iterdir()) == []


def test_the_cache_is_where_the_user_has_it(monkeypatch, tmp_path):
    from mpda.experiments.datasets._files import cache_directory

    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("MPDA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "mpda"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "mpda"
