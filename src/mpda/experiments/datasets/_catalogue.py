"""The one list of data sets: shape, classes, licence, citation, source and checksum."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from mpda._lib.validation import check_option


@dataclass(frozen=True)
class OpenML:
    """A data set of OpenML, fetched by scikit-learn."""

    data_id: int

    def __str__(self) -> str:
        return f"OpenML, data set {self.data_id}"


@dataclass(frozen=True)
class ImageArchive:
    """A zip of images ``obj<class>__<number>.png``, made small as the paper's files are.

    reduction : "block mean" (grey images, mean of 4 x 4 pixels over 255, pixels by column) or
        "centre mean" (colour images, mean of the central 2 x 2 of 4 x 4 pixels, then grey)
    """

    url: str
    reduction: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class FirstOf:
    """The first rows of the training and of the test part of another data set."""

    name: str
    n_train: int
    n_test: int
    train_size: int

    def __str__(self) -> str:
        return f"the first {self.n_train} training and {self.n_test} test samples of {self.name}"


@dataclass(frozen=True)
class Bundled:
    """A data set that comes with scikit-learn."""

    loader: str

    def __str__(self) -> str:
        return "scikit-learn"


Source = OpenML | ImageArchive | FirstOf | Bundled


@dataclass(frozen=True)
class Dataset:
    """What is known of a data set.

    checksum : SHA-256 of its rows as float32, whatever their order and the names of the classes
        (``mpda.experiments.datasets._checksum.checksum``)
    exact : whether the source gives the very numbers of the checksum; where it may not, a
        difference is a warning and not an error
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    n_classes: int
    licence: str
    citation: str
    checksum: str
    source: Source | None
    exact: bool = True


_COIL = "http://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100"
_UCI = "CC BY 4.0 (UCI Machine Learning Repository)"
_COLUMBIA = "non-commercial research (Columbia University)"
_MNIST = (
    "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to document "
    "recognition, Proceedings of the IEEE 86(11), 1998"
)

_ALL = (
    Dataset(
        "digits",
        "Digits of scikit-learn, the test part of OptDigits",
        1797,
        64,
        10,
        _UCI,
        "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
        "e8620156f351a8bae94342c5092fd46746e3117111fbd9bf5b7151148b1231f8",
        Bundled("load_digits"),
    ),
    Dataset(
        "wine",
        "Wine of three cultivars, a table with text labels",
        178,
        13,
        3,
        _UCI,
        "S. Aeberhard and M. Forina, Wine, UCI, 1992",
        "a928ffbcfc374b8a8e0efe59aa17b879c901f35a9fd056f465d8d65f6583961f",
        Bundled("load_wine"),
    ),
    Dataset(
        "coil20",
        "COIL20",
        1440,
        1024,
        20,
        _COLUMBIA,
        "S. A. Nene, S. K. Nayar and H. Murase, Columbia Object Image Library (COIL-20), "
        "CUCS-005-96, 1996",
        "af0f4121c8939f9913f989df981f3e5768967e803cda8bf477087ccf988dfdac",
        ImageArchive(f"{_COIL}/coil-20/coil-20-proc.zip", "block mean"),
    ),
    Dataset(
        "coil100",
        "COIL100",
        7200,
        1024,
        100,
        _COLUMBIA,
        "S. A. Nene, S. K. Nayar and H. Murase, Columbia Object Image Library (COIL-100), "
        "CUCS-006-96, 1996",
        "437d511414fbea4d47b6ef74df94183a0bc73586f06c9a52e2a8b6b898986675",
        # The means of the reduced file were rounded, and halves may have gone either way.
        ImageArchive(f"{_COIL}/coil-100/coil-100.zip", "centre mean"),
        exact=False,
    ),
    Dataset(
        "face_detection",
        "FaceDetection",
        2000,
        361,
        2,
        "research, with credit to the MIT Center for Biological and Computational Learning",
        "CBCL Face Database #1, MIT Center for Biological and Computational Learning, 2000; 1000 "
        "faces and 1000 others, drawn anew: the paper's draw is not known",
        "6b976312a39c7c94af02622aab8b73f0b7257b01d85ac0d829fe188b932ec2d3",
        None,
    ),
    Dataset(
        "mnist_2k2k",
        "MNIST",
        4000,
        784,
        10,
        "none stated; free use is customary",
        _MNIST,
        "fefdb4d60204e78d3f0ba882926f3e162564198cf7cef2ee35a47ab39a909335",
        FirstOf("mnist", 2000, 2000, 60000),
    ),
    Dataset(
        "mnist",
        "MNIST, all",
        70000,
        784,
        10,
        "none stated; free use is customary",
        _MNIST,
        "b8d3244daf6417bc4cc778e2ea079fcfdb4ed68b2af829d8720ef44336db91f9",
        OpenML(554),
    ),
    Dataset(
        "optdigits",
        "OptDigits",
        5620,
        64,
        10,
        _UCI,
        "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998",
        "70507bc401da1cda717611785f29e7cf072dd6bc65f12a615fe057e13ae364f0",
        OpenML(28),
    ),
    Dataset(
        "semeion",
        "Semeion",
        1593,
        256,
        10,
        _UCI,
        "Semeion Research Center of Sciences of Communication and Tattile, Semeion Handwritten "
        "Digit, UCI, 2008",
        "2143a333f5fbf3ea5000bcb445693e10b98f04b7d09594c71c5f8aa1b3e043fb",
        OpenML(1501),
    ),
    Dataset(
        "vehicle",
        "Vehicle",
        846,
        18,
        4,
        _UCI,
        "P. Mowforth and B. Shepherd, Statlog (Vehicle Silhouettes), UCI, 1987",
        "77ee51ecc10ffb56c92b8b82283a9d19afb938d4a25c45ae61baf4b27edc2d1a",
        OpenML(54),
    ),
    Dataset(
        "usps",
        "USPS",
        9298,
        256,
        10,
        "none stated; distributed freely for research",
        "J. J. Hull, A database for handwritten text recognition research, IEEE TPAMI 16(5), 1994",
        "6ade766d41bbe2c6d974a93d1e25c3cfb6bc3d059ec64fe7feb1782a69071e85",
        # Copies carry three decimals or more.
        OpenML(41082),
        exact=False,
    ),
)

DATASETS = MappingProxyType({each.name: each for each in _ALL})


def dataset(name: str) -> Dataset:
    """The entry of this name."""
    return DATASETS[check_option("name", name, tuple(DATASETS))]
