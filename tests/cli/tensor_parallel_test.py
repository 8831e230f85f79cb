#!/usr/bin/env python3
"""--tensor-parallel-size: several ranks answer as one does, and what cannot be is refused.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/cli/tensor_parallel_test.py [-v] [Class.test]

Standard library only. What needs a PJRT plugin runs if DEEPINFER_MODELS_DIR (build/assets) has one. Otherwise it is
skipped, or fails if DEEPINFER_REQUIRE_ASSETS=1.
"""
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from cli_test import REAL, Case  # noqa: E402
from models import LLAMA, SCRIPTED  # noqa: E402

# Reference graphs are slow: two of each kind at most.
SMALL = ["--backend", "reference", "--dtype", "f32", "--max-num-seqs", "2", "--max-model-len", "100",
         "--max-num-batched-tokens", "32", "--cache-dir", "none"]
RANKS = "--tensor-parallel-size"


class TensorParallel(Case):
    def test_ranks_give_the_tokens_of_one(self):
        for model in (LLAMA, models.ORACLE / "gemma3_f32"):
            flags = [*SMALL, "--prompt-ids", "3,4,5,6,7", "--max-tokens", "10"]
            answers = [self.ok("generate", model, *flags, *ranks) for ranks in ([], [RANKS, "2"], [RANKS, "4"])]
            self.assertEqual(len(answers[0].split(",")), 10)
            self.assertEqual(answers[1:], [answers[0]] * 2)

    def test_devices_of_a_plugin_give_the_tokens_of_one_rank(self):
        plugins = sorted((REAL.parent / "pjrt").glob("xla_plugins/xla_cpu_pjrt/*.so"))
        if not plugins:
            if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1":
                self.fail("the PJRT plugin is missing (scripts/fetch_assets.sh)")
            self.skipTest("no PJRT plugin")
        flags = ["--prompt-ids", "3,4,5,6,7", "--max-tokens", "10"]
        model = models.ORACLE / "llama_tied_f32"  # biases, which must be added once
        on_devices = self.ok("generate", model, *SMALL[2:], *flags, "--backend", "pjrt", "--plugin", plugins[0], RANKS, "2")
        self.assertEqual(on_devices, self.ok("generate", model, *SMALL, *flags))

    def test_logits_of_two_ranks(self):
        files = []
        for ranks in ("1", "2"):
            files.append(str(self.folder / f"logits_{ranks}"))
            self.ok("logits", LLAMA, *SMALL, RANKS, ranks, "--prompt-ids", "9,8,7", "--out", files[-1])
        one, two = (models.read_safetensors(file)["logits"] for file in files)
        self.assertEqual(one[0], [3, 320])
        self.assertEqual(two[0], one[0])
        largest = max(map(abs, one[1]))
        self.assertLess(max(abs(a - b) for a, b in zip(one[1], two[1])), 1e-5 * largest)

    def test_inspect_shows_a_ranks_part(self):
        text = self.ok("inspect", LLAMA, *SMALL, RANKS, "2", "--graph", "decode:1", "--raw")
        for part in ('"rank" i32[]', '"model.layers.0.mlp.up_proj.weight" f32[64,64]', "all_reduce", "all_gather",
                     '"kv.0.k" f32[65,1,32,16]'):
            self.assertIn(part, text)
        alone = self.ok("inspect", LLAMA, *SMALL, RANKS, "1", "--graph", "decode:1", "--raw")
        self.assertEqual(alone, self.ok("inspect", LLAMA, *SMALL, "--graph", "decode:1", "--raw"))
        self.assertNotIn("all_reduce", alone)

    def test_compile(self):
        report = self.lines("compile", LLAMA, *SMALL, RANKS, "2", "--json")[0]
        self.assertEqual([graph["status"] for graph in report["graphs"]], ["compiled"] * 3)

    def test_export(self):
        report = self.lines("export", LLAMA, RANKS, "2", "--phase", "decode", "--bucket", "2", "--format", "ir",
                            "--output", self.folder / "export", "--json")[0]
        inputs = {each["name"]: each for each in json.loads(Path(report["description"]).read_text())["inputs"]}
        self.assertEqual((inputs["rank"]["kind"], inputs["rank"]["shape"]), ("metadata", []))
        self.assertEqual(inputs["model.layers.0.self_attn.o_proj.weight"]["shape"], [64, 32])

    def test_a_model_without_parts_runs_on_every_rank(self):
        flags = [*SMALL, "--prompt-ids", "4", "--max-tokens", "5"]
        self.assertEqual(self.ok("generate", SCRIPTED, *flags, RANKS, "2"), self.ok("generate", SCRIPTED, *flags))

    def test_errors(self):
        for value in ("0", "-1", "2000", "two"):
            self.usage("generate", LLAMA, *SMALL, "--prompt-ids", "1", RANKS, value, says=RANKS)
        self.assertEqual(self.error("generate", LLAMA, "--prompt-ids", "1", RANKS, "2"),
                         "error: --tensor-parallel-size: the cpu backend runs on 1 rank, not on 2")
        self.assertEqual(self.error("generate", LLAMA, *SMALL, "--prompt-ids", "1", RANKS, "3"),
                         "error: --tensor-parallel-size: the model's 4 attention heads do not divide by 3")


if __name__ == "__main__":
    unittest.main()
