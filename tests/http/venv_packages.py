"""Python packages of tests: from wherever this Python has them, else from the environment that scripts/venv.sh makes."""
import importlib.util
import os
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parents[2] / "build/venv/bin/python"


def require(package):
    """Goes on with a Python that has the package. Where there is none: exit code 77, or 1 with DEEPINFER_REQUIRE_ASSETS=1."""
    if importlib.util.find_spec(package):
        return
    if VENV.is_file() and os.environ.get("DEEPINFER_IN_VENV") != "1":
        os.environ["DEEPINFER_IN_VENV"] = "1"
        os.execv(VENV, [str(VENV), *sys.argv])
    print(f"the Python package {package} is missing; scripts/venv.sh tests installs it")
    sys.exit(1 if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1" else 77)
