#!/usr/bin/env python3
"""The export command: what it writes, that it is the same every time, and what it refuses.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/cli/export_test.py [-v] [Class.test]

Standard library only. What needs a PJRT plugin runs if DEEPINFER_MODELS_DIR (build/assets) has one. Otherwise it is
skipped, or fails if DEEPINFER_REQUIRE_ASSETS=1.
"""
import json
import math
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from cli_test import REAL, SMALL, Case  # noqa: E402
from models import LLAMA  # noqa: E402


class Export(Case):
    def export(self, *arguments, model=LLAMA):
        report = self.lines("export", model, *SMALL, *arguments, "--json")[0]
        return report, Path(report["graph"]).read_bytes(), Path(report["description"]).read_bytes()

    def test_two_exports_are_the_same_bytes(self):
        for phase, bucket in (("decode", 3), ("prefill", 16)):
            flags = ["--phase", phase, "--bucket", bucket, "--output"]
            first, graph, description = self.export(*flags, self.folder / "new" / "a")
            self.assertEqual(Path(first["graph"]).name, f"llama_f32.{phase}.{bucket}.stablehlo.mlir")
            self.assertEqual(Path(first["description"]).name, f"llama_f32.{phase}.{bucket}.stablehlo.json")
            _, again, described_again = self.export(*flags, self.folder / "b", model=str(LLAMA) + "/")
            self.assertEqual(graph, again)
            self.assertEqual(description, described_again)
            self.assertEqual(sorted(path.name for path in (self.folder / "b").glob(f"*.{phase}.*")),
                             sorted(Path(first[each]).name for each in ("graph", "description")), "nothing else is left")

    def test_the_description_is_that_of_the_module(self):
        report, graph, description = self.export("--phase", "decode", "--bucket", "4", "--output", self.folder / "c")
        described = json.loads(description)
        signature = next(line for line in graph.decode().splitlines() if "@main" in line)
        self.assertEqual(len(re.findall(r"%arg\d+: tensor", signature)), len(described["inputs"]))
        self.assertEqual(signature.count("tf.aliasing_output"), len(described["io_map"]))
        self.assertEqual((report["inputs"], report["outputs"], report["in_place"], report["bytes"]),
                         (len(described["inputs"]), len(described["outputs"]), len(described["io_map"]), len(graph)))
        inputs = {entry["name"]: entry for entry in described["inputs"]}
        self.assertEqual(inputs["token_ids"]["shape"], [4])
        self.assertEqual(inputs["model.embed_tokens.weight"]["kind"], "weight")
        state = inputs["kv.0.v"]
        self.assertEqual((state["kind"], state["dtype"], state["buffer"]), ("state", "bf16", "kv.0"))
        self.assertEqual(described["outputs"][state["aliased_output"]]["name"], "kv.0.v")

    def test_weights_are_what_the_pjrt_backend_would_hold(self):
        for model, flags, matrices in ((LLAMA, [], "f32"), (models.ORACLE / "llama_bf16", ["--dtype", "f32"], "bf16")):
            _, _, description = self.export("--phase", "decode", "--bucket", "1", "--output", self.folder / "d", *flags, model=model)
            weights = [entry for entry in json.loads(description)["inputs"] if entry["kind"] == "weight"]
            for entry in weights:
                self.assertEqual(entry["dtype"], matrices if len(entry["shape"]) > 1 else "f32", entry["name"])

    def test_ir(self):
        report, graph, _ = self.export("--phase", "decode", "--bucket", "1", "--format", "ir", "--output", self.folder / "e")
        self.assertTrue(report["graph"].endswith("llama_f32.decode.1.ir.txt"))
        self.assertTrue(graph.startswith(b"module live("))

    def test_the_graph_is_the_one_that_pjrt_compiles(self):
        plugins = sorted((REAL.parent / "pjrt").glob("xla_plugins/xla_cpu_pjrt/*.so"))
        if not plugins:
            if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1":
                self.fail("the PJRT plugin is missing (scripts/fetch_assets.sh)")
            self.skipTest("no PJRT plugin")
        flags = ["--max-num-seqs", "2", "--max-model-len", "64", "--max-num-batched-tokens", "32"]
        inspected = self.ok("inspect", LLAMA, *flags, "--backend", "pjrt", "--plugin", plugins[0], "--graph", "prefill:32")
        report = self.lines("export", LLAMA, *flags, "--phase", "prefill", "--bucket", "32", "--format", "ir",
                            "--output", self.folder / "f", "--json")[0]
        self.assertEqual(Path(report["graph"]).read_text(), inspected)

    def test_nothing_is_allocated_for_the_states(self):
        report, _, description = self.export("--phase", "decode", "--bucket", "1", "--kv-cache-memory", "40G",
                                             "--output", self.folder / "g")
        states = [entry for entry in json.loads(description)["inputs"] if entry["kind"] == "state"]
        self.assertGreater(sum(2 * math.prod(entry["shape"]) for entry in states), 39 << 30)

    def test_errors(self):
        decode = ["--phase", "decode", "--bucket"]
        self.usage("export", LLAMA, *decode, "1", "--format", "onnx", says="--format")
        self.usage("export", LLAMA, "--phase", "encode", "--bucket", "1", says="--phase")
        self.usage("export", LLAMA, "--bucket", "1", says="--phase")
        self.usage("export", LLAMA, *decode, "0", says="--bucket")
        self.usage("export", LLAMA, *decode, "-4", says="--bucket")
        out = ["--output", self.folder / "h"]
        self.assertIn("--bucket: a decode graph has at most 4 tokens here, got 5", self.error("export", LLAMA, *SMALL, *decode, "5", *out))
        self.assertIn("at most 128 tokens", self.error("export", LLAMA, *SMALL, "--phase", "prefill", "--bucket", "129", *out))
        self.assertIn("--max-num-batched-tokens", self.error("export", LLAMA, *decode, "1", "--max-num-batched-tokens", "512", *out))
        self.assertIn("no file", self.error("export", self.folder / "nothing", *decode, "1", *out))
        self.assertEqual(list((self.folder / "h").iterdir()), [])
        file = self.folder / "file"
        file.write_text("kept")
        self.assertIn("--output: ", self.error("export", LLAMA, *decode, "1", "--output", file / "below"))
        (self.folder / "i" / "llama_f32.decode.1.stablehlo.mlir").mkdir(parents=True)  # its place is taken
        line = self.error("export", LLAMA, *decode, "1", "--output", self.folder / "i")
        self.assertIn("llama_f32.decode.1.stablehlo.mlir: cannot be written: ", line)
        self.assertEqual([path.name for path in (self.folder / "i").glob("*.tmp*")], [])


if __name__ == "__main__":
    unittest.main()
