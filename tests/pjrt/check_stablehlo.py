"""Parses and verifies StableHLO files with jaxlib, which deepinfer itself does not need.

Usage: check_stablehlo.py [--folder FOLDER]... [--printer PROGRAM]... [--export DEEPINFER]

Every .mlir file of a folder must parse, verify, and survive a round trip through the oldest portable version. A printer
is a test program that writes such files, DEEPINFER the program whose export command does (of the fetched model). Prints
the files that fail with their first error; exit code 1 if any does or if there is none. jaxlib comes from this Python
or from the one in build/venv (scripts/venv.sh tests). Where it or the model is missing: exit code 77 once all else has
been verified, or 1 if DEEPINFER_REQUIRE_ASSETS=1.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(os.environ.get("DEEPINFER_MODELS_DIR") or ROOT / "build/assets") / "smollm2"
EXIT_MISSING = 1 if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1" else 77
VENV = ROOT / "build/venv"
IN_VENV = pathlib.Path(sys.prefix).resolve() == VENV.resolve()

try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import stablehlo
except ImportError as missing:
    if not IN_VENV and (VENV / "bin/python").exists():
        os.execv(VENV / "bin/python", [VENV / "bin/python", *sys.argv])
    print(f"{missing}; scripts/venv.sh tests installs it")
    sys.exit(EXIT_MISSING)


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
    """Whether there are files and all are right."""
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
    return bool(files) and not failed


def export(program, folder):
    for dtype in ("f32", "bf16"):
        for phase, bucket in (("decode", 4), ("prefill", 64)):
            subprocess.run([program, "export", MODEL, "--phase", phase, "--bucket", str(bucket), "--dtype", dtype,
                            "--output", folder / dtype], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--printer", action="append", default=[])
    parser.add_argument("--export")
    args = parser.parse_args()
    missing = args.export is not None and not list(MODEL.glob("*.gguf"))
    with tempfile.TemporaryDirectory() as name:
        made = pathlib.Path(name)
        folders = list(args.folder)
        for number, printer in enumerate(args.printer):
            folders.append(made / str(number))
            environment = dict(os.environ, DEEPINFER_STABLEHLO_DIR=str(folders[-1]))
            subprocess.run([printer, "--gtest_filter=StableHlo*"], check=True, env=environment, stdout=subprocess.DEVNULL)
        if args.export is not None and not missing:
            export(args.export, made)
            folders += [made / "f32", made / "bf16"]
        right = [check_folder(folder) for folder in folders]
    if missing:
        print(f"no model in {MODEL}; scripts/fetch_assets.sh model fetches it")
    return 1 if not all(right) or not right else EXIT_MISSING if missing else 0


if __name__ == "__main__":
    sys.exit(main())
