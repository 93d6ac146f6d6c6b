"""Data sets: the catalogue, the search through directory, cache and source, and refused data."""

import io
import os
import zipfile
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import sklearn.datasets
from sklearn.datasets import load_digits, load_wine
from sklearn.utils import Bunch

from mpda.exceptions import DatasetError, DatasetWarning
from mpda.experiments.datasets import DATASETS, Dataset, catalogue, column_names, load
from mpda.experiments.datasets.loading import compute_checksum
from mpda.experiments.datasets.public_sources import Excerpt, ImageArchive, OpenML

REAL = Path(os.environ.get("MPDA_DATA", "no data"))  # read before the tests hide the variable


@pytest.fixture(autouse=True)
def no_local_data(monkeypatch, tmp_path):
    monkeypatch.delenv("MPDA_DATA", raising=False)
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def add_entry(monkeypatch):
    """Add an entry "toy", or one of another name, to the catalogue."""
    entries = dict(DATASETS)
    monkeypatch.setattr(catalogue, "DATASETS", MappingProxyType(entries))

    def add(X, y, source=None, name="toy", exact=True):
        shape = (*X.shape, len(np.unique(y)))
        checksum = compute_checksum(X, y)
        entries[name] = Dataset(name, name, *shape, "free", "nobody", checksum, source, exact)

    return add


X = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
Y = np.arange(12) % 3


def test_the_catalogue_lists_every_data_set_of_the_experiments():
    assert set(DATASETS) == {
        *("digits", "coil20", "coil100", "face_detection", "mnist_2k2k", "mnist"),
        *("optdigits", "semeion", "vehicle", "usps", "wine", "intents"),
    }
    for entry in DATASETS.values():
        assert entry.licence
        assert entry.citation
        assert len(bytes.fromhex(entry.checksum)) == 32
    with pytest.raises(ValueError, match=r"name must be one of 'digits', .* got 'iris'"):
        load("iris")


@pytest.mark.parametrize(("name", "loader"), [("digits", load_digits), ("wine", load_wine)])
def test_bundled_data_sets_come_from_scikit_learn(name, loader):
    samples, labels = load(name)
    np.testing.assert_array_equal(samples, loader().data)
    np.testing.assert_array_equal(labels, loader().target)
    classes = [str(label) for label in loader().target_names]
    assert column_names(name) == (loader().feature_names, classes)
    numbered = [f"feature{i}" for i in range(18)], ["0", "1", "2", "3"]
    assert column_names("vehicle") == numbered


@pytest.mark.parametrize("name", [n for n in DATASETS if n not in ("digits", "wine", "intents")])
def test_real_files_agree_with_the_catalogue(name):
    if not (REAL / f"{name}.npz").exists():
        pytest.skip("MPDA_DATA does not name a directory of the paper's data sets")
    samples, labels = load(name, REAL)  # another checksum is a warning, and that an error here
    assert samples.shape == (DATASETS[name].n_samples, DATASETS[name].n_features)
    assert len(np.unique(labels)) == DATASETS[name].n_classes


def test_checksum_depends_on_numbers_and_classes_but_not_on_order_and_names():
    expected = compute_checksum(X, Y)
    order = np.random.default_rng(1).permutation(len(Y))
    assert compute_checksum(X[order], Y[order]) == expected
    assert compute_checksum(X.astype(float), np.array(["a", "b", "c"])[(Y + 1) % 3]) == expected
    changed = X.copy()
    changed[3, 2] = np.nextafter(changed[3, 2], np.float32(9))
    assert compute_checksum(changed, Y) != expected
    assert compute_checksum(X, np.r_[1, Y[1:]]) != expected
    zeros = np.zeros((2, 2))
    assert compute_checksum(zeros, np.arange(2)) == compute_checksum(-zeros, np.arange(2))


def test_directory_is_searched_before_the_variable_and_the_cache(add_entry, tmp_path, monkeypatch):
    add_entry(X, Y)
    # Samples in another order have the same checksum; the first label identifies the file.
    for shift, name in enumerate(("argument", "variable", "cache")):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "toy.npz", X=np.roll(X, -shift, axis=0), y=np.roll(Y, -shift))
    monkeypatch.setenv("MPDA_DATA", str(tmp_path / "variable"))
    assert load("toy", tmp_path / "argument")[1][0] == 0
    assert load("toy")[1][0] == 1
    monkeypatch.delenv("MPDA_DATA")
    assert load("toy")[1][0] == 2


def test_a_missing_data_set_is_reported_with_the_paths_and_advice(add_entry, tmp_path):
    add_entry(X, Y)
    paths = f"{tmp_path / 'toy.npz'} or {tmp_path / 'cache' / 'toy.npz'}"
    with pytest.raises(DatasetError, match=rf"{paths}, and has no public .*--data or MPDA_DATA"):
        load("toy", tmp_path)
    with pytest.raises(DatasetError, match=r"data directory .*absent does not exist"):
        load("toy", tmp_path / "absent")


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


GOOD = npz(X=X, y=Y)
DAMAGED = {
    "text": b"<html>not found</html>",
    "cut off": GOOD[:-30],
    "no y": npz(X=X),
    "objects": npz(X=np.full(X.shape, None), y=Y),
    "nan": npz(X=X * np.nan, y=Y),
    "widths differ": npz(X_train=X[:6], y_train=Y[:6], X_test=X[6:, :2], y_test=Y[6:]),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_refused_with_advice(kind, add_entry, tmp_path):
    add_entry(X, Y)
    path = tmp_path / "toy.npz"
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(DatasetError, match=r"toy\.npz cannot be read as an \.npz .* remove it"):
        load("toy", tmp_path)


def test_other_numbers_warn_in_a_directory_and_are_refused_in_the_cache(
    add_entry, tmp_path, monkeypatch
):
    add_entry(X, Y)
    np.savez(tmp_path / "toy.npz", X=X[:, 1:], y=Y)
    with pytest.raises(DatasetError, match=r"12 samples of 5 features, but .* shape \(12, 4\)"):
        load("toy", tmp_path)
    np.savez(tmp_path / "toy.npz", X=X + 1, y=Y)
    with pytest.warns(DatasetWarning, match="differs from the data of the published results"):
        np.testing.assert_array_equal(load("toy", tmp_path)[0], X + 1)
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path))
    with pytest.raises(DatasetError, match="its checksum"):
        load("toy")


def test_an_excerpt_is_read_from_its_data_set(add_entry, tmp_path):
    index = [0, 1, 8]
    add_entry(X, Y, name="complete")
    add_entry(X[index], Y[index], Excerpt("complete", 2, 1, 8))
    np.savez(tmp_path / "complete.npz", X_train=X[:8], y_train=Y[:8], X_test=X[8:], y_test=Y[8:])
    np.testing.assert_array_equal(load("toy", tmp_path)[0], X[index])


@pytest.fixture
def serve(monkeypatch):
    """Let scikit-learn download given samples from OpenML; requests are counted."""
    requests = []

    def serve(X, labels):
        def fetch_openml(*, data_id, **options):
            requests.append(data_id)
            names = [f"column {i}" for i in range(X.shape[1])]
            target = np.array(labels, dtype=object)
            return Bunch(data=X.astype(float), target=target, feature_names=names)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        return requests

    return serve


def test_openml_is_asked_once_and_then_the_cache(serve, add_entry, tmp_path, capsys, monkeypatch):
    y = np.arange(12) % 11
    requests = serve(X, [str(digit + 1) for digit in y])  # "1" to "11", sorted as numbers
    add_entry(X, y, OpenML(7))
    samples, labels = load("toy")
    np.testing.assert_array_equal(samples, X)
    np.testing.assert_array_equal(labels, y)
    assert "Downloading OpenML, data set 7" in capsys.readouterr().err
    np.testing.assert_array_equal(load("toy")[0], X)
    assert requests == [7]
    expected = [f"column {i}" for i in range(5)], [str(label) for label in range(1, 12)]
    assert column_names("toy") == expected
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["toy.npz"]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MPDA_CACHE", str(tmp_path / "file" / "deep"))
    with pytest.warns(DatasetWarning, match=r"cannot be kept at .*MPDA_CACHE"):
        np.testing.assert_array_equal(load("toy")[0], X)


def test_wrong_downloads_are_not_kept(serve, add_entry, tmp_path):
    serve(X + 1, [str(label) for label in Y])
    add_entry(X, Y, OpenML(7))
    with pytest.raises(DatasetError, match="its checksum"):
        load("toy")
    assert not (tmp_path / "cache").exists()
    add_entry(X, Y, OpenML(7), exact=False)
    with pytest.warns(DatasetWarning, match="results may differ"):
        load("toy")


def test_offline_is_one_line_with_advice(add_entry):
    add_entry(X, Y, ImageArchive("http://127.0.0.1:9/a.zip", "block mean"))
    message = r"^toy is not at .*could not be downloaded \(.*\)\. .*--data or MPDA_DATA\.$"
    with pytest.raises(DatasetError, match=message):
        load("toy")


def zip_images(images):
    from PIL import Image

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("coil/readme.txt", "about")
        for name, pixels in images.items():
            image = io.BytesIO()
            Image.fromarray(pixels).save(image, "PNG")
            archive.writestr(f"coil/{name}.png", image.getvalue())
    return file.getvalue()


@pytest.mark.parametrize("reduction", ["block mean", "centre mean"])
def test_an_archive_of_images_becomes_samples(add_entry, reduction, tmp_path, capsys):
    grey = reduction == "block mean"
    rng = np.random.default_rng(0)
    shape = (128, 128) if grey else (128, 128, 3)
    names = ["obj10__0", "obj2__5", "obj2__0", "obj10__10"]
    images = {name: rng.integers(0, 256, size=shape, dtype=np.uint8) for name in names}
    expected = np.empty((4, 1024), dtype=np.float32)
    for row, name in enumerate(("obj2__0", "obj2__5", "obj10__0", "obj10__10")):
        for a, b in np.ndindex(32, 32):
            i, j = (b, a) if grey else (a, b)  # pixels of COIL20 are in column order
            block = images[name][4 * i : 4 * i + 4, 4 * j : 4 * j + 4].astype(float)
            if grey:
                expected[row, 32 * a + b] = block.mean() / 255
            else:
                means = np.rint(block[1:3, 1:3].mean(axis=(0, 1)))
                expected[row, 32 * a + b] = np.rint(means @ [0.2989, 0.5870, 0.1140])
    (tmp_path / "coil.zip").write_bytes(zip_images(images))
    source = ImageArchive((tmp_path / "coil.zip").as_uri(), reduction)
    add_entry(expected, np.array([0, 0, 1, 1]), source)
    samples, labels = load("toy")
    np.testing.assert_array_equal(samples.astype(np.float32), expected)
    np.testing.assert_array_equal(labels, [2, 2, 10, 10])
    assert "MiB from file" in capsys.readouterr().err


def test_damaged_archives_are_refused_and_not_kept(add_entry, tmp_path):
    path = tmp_path / "coil.zip"
    add_entry(X, Y, ImageArchive(path.as_uri(), "block mean"))
    small = zip_images({"obj1__0": np.zeros((64, 64), dtype=np.uint8)})
    for content, message in ((b"no zip", "not a zip file"), (small, "must have 128 x 128 pixels")):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=message):
            load("toy")
    assert not (tmp_path / "cache").exists()
