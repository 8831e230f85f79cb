#!/usr/bin/env python3
"""quantize writes files that answer as their input does, --weights gives what quantize would, and errors leave nothing.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/cli/quantize_test.py [-v] [Class.test]

Standard library only. What needs a real model runs if DEEPINFER_MODELS_DIR (build/assets) has it. Otherwise it is
skipped, or fails if DEEPINFER_REQUIRE_ASSETS=1.
"""
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from cli_test import REAL, SMALL, Case  # noqa: E402
from models import LLAMA, SCRIPTED  # noqa: E402

IDS = ["--prompt-ids", "3,4,5,6,7", "--max-tokens", "10"]


class Quantize(Case):
    def test_a_folder_as_floats_answers_as_before(self):
        for model in (LLAMA, models.ORACLE / "gemma3_f32", models.ORACLE / "qwen3_yarn_f32"):
            out = self.folder / "f32.gguf"
            (report,) = self.lines("quantize", model, out, "--type", "f32", "--json")
            self.assertEqual({tensor["to"] for tensor in report["tensors"]}, {"f32"})
            self.assertIn("no tokenizer.json", report["warnings"][0])
            flags = [*SMALL, *IDS, "--dtype", "f32"]
            self.assertEqual(self.ok("generate", out, *flags), self.ok("generate", model, *flags))

    def test_a_folder_with_its_tokenizer(self):
        out = self.folder / "chat.gguf"
        self.ok("quantize", self.chat_model, out, "--type", "bf16", "--threads", "3")
        text = "some text with spaces, 123 and (marks)!"
        self.assertEqual(self.ok("tokenize", out, "--text", text), self.ok("tokenize", self.chat_model, "--text", text))

    def test_weights_at_load_are_those_of_the_file(self):
        out = self.folder / "q8_0.gguf"
        self.ok("quantize", LLAMA, out, "--type", "q8_0")
        flags = [*SMALL, "--dtype", "f32", "--cache-dir", "none", "--prompt-ids", "9,8,7,6"]
        logits = []
        for name, arguments in (("file", [out]), ("load", [LLAMA, "--weights", "q8_0"]), ("plain", [LLAMA])):
            self.ok("logits", *arguments, *flags, "--out", self.folder / name)
            logits.append(models.read_safetensors(str(self.folder / name))["logits"][1])
        largest = max(map(abs, logits[0]))
        # The file turns the rope's frequencies into factors, which are rounded once more.
        self.assertLess(max(abs(a - b) for a, b in zip(logits[0], logits[1])), 1e-5 * largest)
        self.assertGreater(max(abs(a - b) for a, b in zip(logits[1], logits[2])), 1e-4 * largest)

    def test_verify_compares_quantised_weights_with_themselves(self):
        text = self.ok("verify", LLAMA, "--backends", "cpu,reference", "--dtype", "f32", "--weights", "int8",
                       "--prompt-ids", "1,2,3", "--tolerance", "1e-4")
        self.assertIn("all within", text)

    def test_a_real_model_in_other_encodings(self):
        if not REAL.exists():
            if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1":
                self.fail("smollm2 is missing (scripts/fetch_assets.sh)")
            self.skipTest("no smollm2")
        for kind in ("q4_k", "iq4_nl"):
            out = self.folder / f"{kind}.gguf"
            self.ok("quantize", REAL, out, "--type", kind)
            answer = self.ok("generate", out, "--prompt", "The capital of France is", "--max-tokens", "3")
            self.assertIn("Paris", answer)

    def test_errors(self):
        out = self.folder / "none.gguf"
        self.usage("quantize", LLAMA, out, says="--type")
        self.usage("quantize", LLAMA, out, "--type", "int8", says="--type")
        self.usage("generate", LLAMA, *IDS, "--weights", "q9", says="--weights")
        self.assertIn("/nonexistent/m.gguf: cannot write",
                      self.error("quantize", LLAMA, "/nonexistent/m.gguf", "--type", "q8_0"))
        self.error("quantize", SCRIPTED, out, "--type", "q8_0")
        self.ok("quantize", LLAMA, self.folder / "same.gguf", "--type", "q8_0")
        self.assertIn("is the input itself", self.error("quantize", self.folder / "same.gguf", self.folder / "same.gguf",
                                                        "--type", "q8_0"))
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
