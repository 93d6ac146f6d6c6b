"""Install the wheel and the sdist in empty environments and use what was installed.

``make package`` runs this script. The wheel is installed with the command line, the sdist with the
required dependencies only. Nothing is imported from the checkout.
"""

import os
import subprocess
import sys
import tempfile
import venv
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
    ["fit", "wine.csv", "--label", "label", "--components", "2", "--folds", "2", "--quiet"],
    ["evaluate", "wine.mpda", "wine.csv"],
]


def check_package(package, extra):
    """Install a package, run a fit, and with the extra "[cli]" the commands."""
    with tempfile.TemporaryDirectory() as folder:
        # Resolved: the temporary folder of macOS is a link.
        environment = Path(folder).resolve() / "environment"
        venv.create(environment, with_pip=True, symlinks=sys.platform != "win32")
        programs = environment / ("Scripts" if sys.platform == "win32" else "bin")

        def run(program, *words):
            """Run a program of the environment outside of the checkout; return its output."""
            variables = {key: os.environ[key] for key in os.environ.keys() - {"PYTHONPATH"}}
            return subprocess.run(
                [programs / program, *words],
                cwd=folder,
                env=variables,
                check=True,
                text=True,
                stdout=subprocess.PIPE,
            ).stdout

        pip = ("-m", "pip", "--disable-pip-version-check")
        run("python", *pip, "install", "--quiet", f"{package.resolve()}{extra}")
        run("python", *pip, "check")
        # The wheel is mpda-VERSION-py3-none-any.whl, the sdist mpda-VERSION.tar.gz.
        name = "mpda " + package.name.removesuffix(".tar.gz").split("-")[1]
        output = run("python", "-c", FIT)
        assert output.strip() == name, output
        if extra == "[cli]":
            outputs = [run("mpda", *words) for words in COMMANDS]
            assert outputs[0].strip() == name, outputs[0]
            print(outputs[-1], end="")
    print(f"{package.name}{extra} works in an empty environment")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_package(wheel, "[cli]")
    check_package(sdist, "")
