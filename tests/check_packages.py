"""Install the sdist and the wheel in an empty environment and use what was installed.

``make package`` runs this script. The sdist is installed with the required dependencies only, the
wheel then with the command line. Nothing is imported from the checkout.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

FIT = """
import sys, mpda
from sklearn.datasets import load_iris

assert mpda.__file__.startswith(sys.prefix), mpda.__file__
X, y = load_iris(return_X_y=True)
model = mpda.MPDA(2).fit(X, y)
mpda.save(model, "iris.mpda")
assert (mpda.load("iris.mpda").transform(X) == model.transform(X)).all()
print("mpda", mpda.__version__)
"""
COMMANDS = [
    ["--version"],
    ["datasets", "wine", "--out", "wine.csv"],
    ["datasets", "intents", "--out", "intents.parquet"],
    ["fit", "wine.csv", "--label", "label", "--components", "2", "--folds", "0"],
]


def check_attribution(wheel):
    """Check that the wheel has the data set of sentences together with its licence."""
    with zipfile.ZipFile(wheel) as archive:
        folder = "mpda/experiments/datasets"
        assert f"{folder}/intents.npz" in archive.namelist(), archive.namelist()
        text = archive.read(f"{folder}/intents.md").decode()
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        fields = archive.read(metadata).decode().splitlines()
    assert "Stefan Larson" in text, text
    assert "Creative Commons Attribution 3.0" in text, text
    assert "License-File: src/mpda/experiments/datasets/intents.md" in fields, fields


def check_packages(sdist, wheel):
    """Use the sdist without the command line, then the wheel with it."""
    check_attribution(wheel)
    # The wheel is mpda-VERSION-py3-none-any.whl.
    name = f"mpda {wheel.name.split('-')[1]}"
    with tempfile.TemporaryDirectory() as folder:
        # Resolved: the temporary folder of macOS is a link.
        environment = Path(folder).resolve() / "environment"
        venv.create(environment, symlinks=sys.platform != "win32")
        programs = environment / ("Scripts" if sys.platform == "win32" else "bin")
        # Outside of the checkout and without its modules.
        variables = {key: os.environ[key] for key in os.environ.keys() - {"PYTHONPATH"}}
        options = {"cwd": folder, "env": variables, "check": True, "text": True}

        def pip(*words):
            program = [sys.executable, "-m", "pip", "--python", environment, "--quiet"]
            subprocess.run([*program, "--disable-pip-version-check", *words], **options)

        def run(program, *words):
            command = [programs / program, *words]
            return subprocess.run(command, stdout=subprocess.PIPE, **options).stdout

        for package, extra in ((sdist, ""), (wheel, "[cli]")):
            # Compiling all modules of the dependencies would take longer than their download.
            pip("install", "--no-compile", f"{package.resolve()}{extra}")
            pip("check")
            output = run("python", "-c", FIT)
            assert output.strip() == name, output
            if extra:
                outputs = [run("mpda", *words) for words in COMMANDS]
                assert outputs[0].strip() == name, outputs[0]
            print(f"{package.name}{extra} works in an empty environment")
            pip("uninstall", "--yes", "mpda")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_packages(sdist, wheel)
