"""Parses and verifies StableHLO files with jaxlib, which deepinfer itself does not need.

Usage: check_stablehlo.py FOLDER [--compile]
       check_stablehlo.py --printer PROGRAM     the test program that writes the files, into a folder of its own

Exit code 77 if jaxlib is not installed. Every .mlir file of the folder must parse, verify, and survive a round trip through the oldest portable version. With
--compile each is also compiled for the CPU. Prints the files that fail with their first error; exit code 1 if any does
or if there is none.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def check(path, compile_it):
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(path.read_text())
        module.operation.verify()
        version = stablehlo.get_minimum_version()
        artifact = stablehlo.serialize_portable_artifact(module, version)
        back = stablehlo.deserialize_portable_artifact(ir.Context.current, artifact)
        if stablehlo.serialize_portable_artifact(back, version) != artifact:
            raise ValueError("differs after a round trip through the oldest portable version")
        if compile_it:
            import jax
            from jaxlib import xla_client

            devices = xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))
            jax.devices("cpu")[0].client.compile_and_load(str(module), devices)


def check_folder(folder, compile_it):
    files = sorted(folder.glob("*.mlir"))
    failed = 0
    for path in files:
        try:
            check(path, compile_it)
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
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    if args.printer is None:
        if args.folder is None:
            parser.error("needs a folder or --printer")
        return check_folder(args.folder, args.compile)
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, DEEPINFER_STABLEHLO_DIR=folder)
        subprocess.run([args.printer, "--gtest_filter=StableHloTest.*"], check=True, env=environment, stdout=subprocess.DEVNULL)
        return check_folder(pathlib.Path(folder), args.compile)


if __name__ == "__main__":
    sys.exit(main())
