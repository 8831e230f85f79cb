#!/usr/bin/env python3
"""verify and bench: two backends beside each other, and how fast one is.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/cli/measure_test.py [-v] [Class.test]

Standard library only.
"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from cli_test import SMALL, Case  # noqa: E402
from models import LLAMA, SCRIPTED  # noqa: E402


class Verify(Case):
    FIELDS = ["backends", "dtype", "positions", "steps", "layers", "best_equal", "largest_margin_lost", "tolerance", "parted_at"]

    def test_backends_agree(self):
        for family in ("llama_f32", "gemma3_bf16", "qwen3_yarn_f32"):
            (report,) = self.lines("verify", models.ORACLE / family, "--dtype", "f32", "--json")
            self.assertEqual(list(report), self.FIELDS)
            names = [layer["name"] for layer in report["layers"]]
            self.assertEqual(len(names), (7 if family.startswith("gemma3") else 3) + 1)
            self.assertEqual(names[-1], "logits")
            self.assertEqual((report["positions"], report["steps"], report["best_equal"]), (52, 5, 52))
            self.assertIsNone(report["parted_at"])
            self.assertTrue(all(0 < layer["max_value"] for layer in report["layers"]))

    def test_chunks_give_the_same_values(self):
        one, many = [self.lines("verify", LLAMA, "--dtype", "f32", "--chunk", chunk, "--json")[0] for chunk in ("64", "5")]
        self.assertEqual([l["max_value"] for l in one["layers"]], [l["max_value"] for l in many["layers"]])

    def test_a_backend_equals_itself_and_small_tolerances_part(self):
        text = self.ok("verify", LLAMA, "--backends", "cpu,cpu", "--tolerance", "1e-30")
        self.assertIn("all within", text)
        self.assertIn("not judged", self.ok("verify", LLAMA, "--decode-steps", "0"))
        done = self.run_program("verify", LLAMA, "--dtype", "f32", "--tolerance", "1e-12")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"they part at call.", done.stdout)
        self.assertIn(b"error: call.", done.stderr)

    def test_narrow_caches_differ_by_a_code_at_most(self):
        # A value between two codes may become either: one step of the type, relative to the value (int8: to the row).
        for kv, step in (("f16", 2 ** -10), ("bf16", 2 ** -7), ("fp8", 2 ** -3), ("fp8_e4m3", 2 ** -3), ("int8", 1 / 127)):
            text = self.ok("verify", LLAMA, "--dtype", "f32", "--kv-cache-dtype", kv, "--tolerance", str(step))
            self.assertIn("all within", text)
        self.assertIn("not judged", self.ok("verify", LLAMA, "--dtype", "f32", "--kv-cache-dtype", "int8"))

    def test_prompts(self):
        (report,) = self.lines("verify", self.chat_model, "--prompt", "abc", "--decode-steps", "0", "--json")
        self.assertEqual((report["positions"], report["steps"]), (4, 1))
        self.assertIn("[0, 320)", self.error("verify", LLAMA, "--prompt-ids", "320"))
        self.assertIn("512", self.error("verify", LLAMA, "--prompt-ids", ",".join(["1"] * 600)))
        self.assertIn("no tokenizer", self.error("verify", LLAMA, "--prompt", "a"))


class Bench(Case):
    def test_json(self):
        (report,) = self.lines("bench", LLAMA, *SMALL, "--repeat", "1", "--json")
        self.assertEqual([(p["phase"], p["rows"]) for p in report["phases"]], [("prefill", 1), ("decode", 1), ("decode", 4)])
        self.assertTrue(all(p["tok_s"]["median"] > 0 for p in report["phases"]))
        for field in ("ttft_ms", "cold_start_ms", "warm_start_ms"):
            self.assertGreater(report[field]["best"], 0)
        self.assertGreater(report["bandwidth_gb_s"]["plain"], 0)
        self.assertEqual(report["compiles_after_ready"], 0)

    def test_table(self):
        text = self.ok("bench", SCRIPTED, *SMALL, "--repeat", "2", "--no-start")
        for words in ("prefill, 1 row", "decode, 4 rows", "memory read, plain", "median and best of 2"):
            self.assertIn(words, text)
        self.assertNotIn("cold start", text)

    def test_ops(self):
        (report,) = self.lines("bench", LLAMA, *SMALL, "--repeat", "1", "--no-start", "--ops", "--json")
        self.assertEqual([(s["phase"], s["rows"]) for s in report["steps"]], [("prefill", 1), ("decode", 1), ("decode", 4)])
        self.assertGreater(report["peak_gf_s"], 0)
        for step in report["steps"]:
            products = [op for op in step["ops"] if op["kernel"].startswith("linear.")]
            self.assertTrue(products)
            self.assertTrue(all(op["flops"] > 0 and op["bytes"] > 0 and op["ms"] > 0 for op in products))
            self.assertAlmostEqual(sum(op["ms"] for op in step["ops"]), step["ms"], places=6)
        text = self.ok("bench", LLAMA, *SMALL, "--repeat", "1", "--no-start", "--ops")
        for words in ("of bandwidth", "of peak", "paged_attention", "decode, 4 rows x 1 tokens after"):
            self.assertIn(words, text)
        self.assertIn("does not time its ops",
                      self.error("bench", LLAMA, *SMALL, "--repeat", "1", "--no-start", "--ops", "--backend", "reference"))

    def test_depth_and_rows(self):
        (report,) = self.lines("bench", LLAMA, *SMALL, "--repeat", "1", "--no-start", "--depth", "20", "--rows", "3", "--json")
        self.assertEqual((report["depth"], report["phases"][2]["rows"]), (20, 3))
        self.assertIn("--depth: 5000 and two more tokens", self.error("bench", LLAMA, *SMALL, "--depth", "5000"))


class Throughput(Case):
    def test_json(self):
        work = ("--num-prompts", "6", "--input-len", "5", "--output-len", "7", "--max-concurrency", "3")
        for flag in ("--async-scheduling", "--no-async-scheduling"):
            (report,) = self.lines("throughput", LLAMA, *SMALL, *work, flag, "--json")
            self.assertAlmostEqual(report["output_tok_s"] * report["seconds"], 6 * 7, places=6)
            self.assertGreaterEqual(report["decode_steps"], 2 * 6)
            self.assertTrue(report["itl_ms"]["p99"] >= report["itl_ms"]["p50"] > 0)

    def test_too_long(self):
        self.assertIn("prompt", self.error("throughput", LLAMA, *SMALL, "--input-len", "5000"))


if __name__ == "__main__":
    unittest.main()
