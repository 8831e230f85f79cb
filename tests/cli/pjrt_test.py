#!/usr/bin/env python3
"""Errors of PJRT plugins, as the program's users see them.

    DEEPINFER_BIN=... DEEPINFER_FAULTY_PLUGIN=build/release/tests/pjrt/faulty_plugin.so python3 tests/cli/pjrt_test.py

The faulty plugin does what the fetched one does (DEEPINFER_MODELS_DIR), with one thing wrong: tests/pjrt/faulty_plugin.cc.
Without either the tests are skipped, or fail if DEEPINFER_REQUIRE_ASSETS=1.
"""
import json
import os
import unittest
from pathlib import Path

import models
from cli_test import REAL, Case
from models import LLAMA


class Pjrt(Case):
    """Each error names the plugin, its version and what it was about; the cache keeps nothing half-made."""
    TINY = ["--max-num-seqs", "1", "--max-model-len", "32", "--max-num-batched-tokens", "32"]  # two graphs
    PROMPT = ["--prompt-ids", "4", "--max-tokens", "3"]
    WHO = r"^error: pjrt plugin 'faulty_plugin' \(API 0\.\d+\): "

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        plugins = sorted((REAL.parent / "pjrt").glob("xla_plugins/*/*.so"))
        cls.faulty = os.environ.get("DEEPINFER_FAULTY_PLUGIN")
        cls.missing = f"no plugin in {REAL.parent / 'pjrt'}, see scripts/fetch_assets.sh" if not plugins else \
            "DEEPINFER_FAULTY_PLUGIN does not name the build's faulty_plugin.so" if not cls.faulty else None
        cls.env = {"DEEPINFER_FAULTY_PLUGIN_OF": str(plugins[0]) if plugins else ""}

    def setUp(self):
        if self.missing:
            (self.fail if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1" else self.skipTest)(self.missing)

    def command(self, command, cache, *more):
        return [command, LLAMA, "--backend", "pjrt", "--plugin", self.faulty, *self.TINY, "--cache-dir", cache, *more]

    def fault(self, fault, cache):
        return self.error(*self.command("generate", cache, *self.PROMPT), env={**self.env, "DEEPINFER_PLUGIN_FAULT": fault})

    @staticmethod
    def files(folder):
        return {path.name: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}

    def test_plugins_that_cannot_be_used(self):
        text = self.folder / "text_pjrt.so"
        text.write_text("not a library")
        for plugin, words in ((self.folder / "none.so", r"/none\.so: no such file"), (text, r"/text_pjrt\.so: cannot be loaded"),
                              ("no_such_plugin", r"'no_such_plugin': is not installed; found: ")):
            line = self.error("generate", LLAMA, "--backend", "pjrt", "--plugin", plugin, *self.PROMPT)
            self.assertRegex(line, r"^error: pjrt plugin .*" + words)
        cache = self.folder / "unused"
        self.assertRegex(self.fault("major", cache),
                         r"'faulty_plugin' \(API 1\.\d+\): this program speaks API 0\.\d+: the major versions differ$")
        self.assertRegex(self.fault("size", cache), r"'faulty_plugin': its table has \d+ bytes$")
        self.assertRegex(self.fault("missing", cache), self.WHO + "has no PJRT_LoadedExecutable_Execute$")
        self.assertEqual(self.files(cache), {})

    def test_errors_at_work(self):
        cache = self.folder / "faults"
        memory = r"RESOURCE_EXHAUSTED: Out of memory allocating 123456789 bytes\.$"
        upload = self.WHO + r"%s '\S+' \w+\[[^]]+\]: PJRT_Client_BufferFromHostBuffer: " + memory
        # The compiler's own message; it names the op, and is one line here.
        self.assertRegex(self.fault("op", cache), self.WHO + r"PJRT_Client_Compile: .*stablehlo\.novel_op")
        self.assertRegex(self.fault("upload:1", cache), upload % "weight")
        self.assertEqual(self.files(cache), {})
        good = {**self.env, "DEEPINFER_PLUGIN_FAULT": ""}
        answer = self.ok(*self.command("generate", cache, *self.PROMPT), env=good)
        kept = self.files(cache)
        self.assertGreaterEqual(len(kept), 2)
        weights = len(models.raw_tensors(LLAMA / "model.safetensors"))
        self.assertRegex(self.fault(f"upload:{weights + 1}", cache), upload % "state")
        execute = self.WHO + "PJRT_LoadedExecutable_Execute: " + memory
        self.assertRegex(self.fault("execute:1", cache), execute)  # the first run of a graph
        done = self.run_program(*self.command("generate", cache, *self.PROMPT, "--json"),
                                env={**self.env, "DEEPINFER_PLUGIN_FAULT": "execute:4"})  # the answer's second step
        (answered,) = map(json.loads, done.stdout.splitlines())
        self.assertEqual((done.returncode, len(answered["ids"]), answered["finish_reason"]), (1, 1, "error"))
        self.assertRegex("error: " + answered["error"], execute)
        self.assertRegex(done.stderr.decode().splitlines()[-1], execute)
        self.assertEqual(self.files(cache), kept)
        (again,) = [json.loads(self.ok(*self.command("compile", cache, "--json"), env=good))]
        self.assertEqual(({g["status"] for g in again["graphs"]}, again["notes"]), ({"cached"}, []))
        self.assertEqual(self.ok(*self.command("generate", cache, *self.PROMPT), env=good), answer)

    def test_an_executable_that_cannot_be_kept_is_only_a_note(self):
        cache = self.folder / "unkept"
        run = [json.loads(self.ok(*self.command("compile", cache, "--json"), env={**self.env, "DEEPINFER_PLUGIN_FAULT": fault}))
               for fault in ("serialize:1", "", "")]
        self.assertEqual(len(run[0]["notes"]), 1)
        self.assertRegex("error: " + run[0]["notes"][0], self.WHO + "PJRT_Executable_Serialize: RESOURCE_EXHAUSTED: ")
        self.assertEqual([one["notes"] for one in run[1:]], [[], []])


if __name__ == "__main__":
    unittest.main()
