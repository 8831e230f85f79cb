"""Parses and verifies StableHLO files with jaxlib, which deepinfer itself does not need.

Usage: check_stablehlo.py FOLDER
       check_stablehlo.py --printer PROGRAM     the test program that writes the files, into a folder of its own

Every .mlir file of the folder must parse, verify, and survive a round trip through the oldest portable version. Prints
the files that fail with their first error; exit code 1 if any does or if there is none. jaxlib comes from this Python
or from the one in build/venv (scripts/venv.sh tests). With neither: exit code 77, or 1 if DEEPINFER_REQUIRE_ASSETS=1.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

VENV = pathlib.Path(__file__).resolve().parents[2] / "build/venv"
IN_VENV = pathlib.Path(sys.prefix).resolve() == VENV.resolve()

try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import stablehlo
except ImportError as missing:
    if not IN_VENV and (VENV / "bin/python").exists():
        os.execv(VENV / "bin/python", [VENV / "bin/python", *sys.argv])
    required = os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1"
    print(f"{'failed' if required else 'skipped'}: {missing}; scripts/venv.sh tests installs it")
    sys.exit(1 if required else 77)


def make_context():
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)  # func among them
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    return context


def check(path):
    with make_context() as context:
        module = ir.Module.parse(path.read_text())
        module.operation.verify()
        version = stablehlo.get_minimum_version()
        artifact = stablehlo.serialize_portable_artifact(module, version)
        back = stablehlo.deserialize_portable_artifact(context, artifact)
        if stablehlo.serialize_portable_artifact(back, version) != artifact:
            raise ValueError("differs after a round trip through the oldest portable version")


def check_folder(folder):
    files = sorted(folder.glob("*.mlir"))
    failed = 0
    for path in files:
        try:
            check(path)
        except Exception as error:  # any failure of a foreign parser is a finding, not a crash
            failed += 1
            lines = str(error).strip().splitlines()
            print(f"{path.name}: {lines[0] if lines else repr(error)}")
    print(f"{len(files) - failed} of {len(files)} modules verified")
    return 1 if failed or not files else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--printer")
    args = parser.parse_args()
    if args.printer is None:
        if args.folder is None:
            parser.error("needs a folder or --printer")
        return check_folder(args.folder)
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, DEEPINFER_STABLEHLO_DIR=folder)
        subprocess.run([args.printer, "--gtest_filter=StableHloTest.*"], check=True, env=environment, stdout=subprocess.DEVNULL)
        return check_folder(pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
