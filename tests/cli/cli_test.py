#!/usr/bin/env python3
"""The program as people and scripts use it: every command, its results, its errors and its exit status.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/cli/cli_test.py [-v] [Class.test]

Standard library only. What needs a real model runs if DEEPINFER_MODELS_DIR (build/assets) has it. Otherwise it is
skipped, or fails if DEEPINFER_REQUIRE_ASSETS=1.
"""
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from models import LLAMA, NAN, SCRIPTED  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("DEEPINFER_BIN", str(ROOT / "build/release/deepinfer"))
REAL = Path(os.environ.get("DEEPINFER_MODELS_DIR") or ROOT / "build/assets") / "smollm2"
GENERATE_FIELDS = ["prompt_ids", "ids", "text", "finish_reason", "logprobs", "prompt_logprobs", "timings",
                   "compiles_after_ready"]
TIMING_FIELDS = ["load_ms", "compile_ms", "ttft_ms", "prefill_tok_s", "decode_tok_s"]
COMMANDS = ["serve", "generate", "chat", "logits", "perplexity", "tokenize", "detokenize", "compile", "export", "quantize",
            "inspect", "verify", "bench", "throughput"]
# Sized for tiny models: fewer and smaller graphs.
SMALL = ["--max-num-seqs", "4", "--max-model-len", "200", "--max-num-batched-tokens", "128"]
GUARD_S = 300  # so that a hang ends; no test depends on how long anything takes


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        cls.cache = str(cls.folder / "cache")
        cls.chat_model = models.make_chat_model(cls.folder / "chat_model")

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def run_program(self, *arguments, stdin=b"", env=None):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=GUARD_S, env={**os.environ, "DEEPINFER_CACHE_DIR": self.cache, **(env or {})})

    def ok(self, *arguments, stdin=b"", env=None):
        done = self.run_program(*arguments, stdin=stdin, env=env)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def lines(self, *arguments, stdin=b""):
        return [json.loads(line) for line in self.ok(*arguments, stdin=stdin).splitlines()]

    def error(self, *arguments, stdin=b"", env=None):
        """Exit status 1 and one clear line, nothing on stdout; returns the line."""
        done = self.run_program(*arguments, stdin=stdin, env=env)
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 1, f"{arguments}: {text}")
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, text)
        self.assertEqual(text.splitlines()[-1], errors[0])
        self.assertEqual(done.stdout, b"")
        return errors[0]

    def usage(self, *arguments, says=""):
        done = self.run_program(*arguments)
        text = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, 2, f"{arguments}: {text}")
        self.assertIn(says, text)

    def generate(self, *arguments):
        return self.lines("generate", SCRIPTED, *SMALL, *arguments, "--json")


class Program(Case):
    def test_version(self):
        lines = self.ok("--version").splitlines()
        self.assertRegex(lines[0], r"^deepinfer \d+\.\d+\.\d+ \(build \S+\)$")
        self.assertTrue(lines[1].startswith("CPU: ") and lines[2].startswith("kernels: "))

    def test_usage(self):
        self.usage(says="subcommand")
        self.usage("no-such-command")
        self.usage("generate", says="model")
        self.usage("generate", SCRIPTED, says="--prompt or --prompt-ids")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1,x", says="'x' is not a token id")
        self.usage("generate", SCRIPTED, "--prompt-ids", "", says="token id")
        self.usage("generate", SCRIPTED, "--no-such-flag", says="--no-such-flag")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--backend", "gpu", says="--backend")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--dtype", "f64", says="--dtype")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--numerics", "best", says="--numerics")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--kv-cache-dtype", "fp4",
                   says="--kv-cache-dtype: fp4 not in {auto,f32,bf16,f16,fp8,fp8_e4m3,int8}")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--kv-cache-memory", "much", says="size such as")
        self.usage("generate", SCRIPTED, "--prompt-ids", "1", "--stop", "", says="--stop")
        self.usage("logits", SCRIPTED, "--prompt-ids", "1", says="--out")
        self.usage("logits", SCRIPTED, "--prompt-ids", "1", "--prompt-ids", "2", "--out", "x", says="one prompt")
        self.usage("verify", SCRIPTED, "--backends", "cpu", says="--backends")
        self.usage("verify", SCRIPTED, "--backends", "cpu,gpu", says="--backends")

    def test_bad_sampling_values(self):
        for flag, value in (("--temperature", "-1"), ("--temperature", "nan"), ("--top-p", "1.5"), ("--top-k", "-3"),
                            ("--min-p", "2"), ("--logprobs", "21"), ("--max-tokens", "0"), ("--max-tokens", "-2"), ("--temperature", "hot")):
            self.usage("generate", SCRIPTED, "--prompt-ids", "1", flag, value, says=flag)

    def test_every_flag_is_in_the_manual(self):
        manual = (ROOT / "docs/cli.md").read_text()
        for command in COMMANDS:
            text = self.ok(command, "--help")
            flags = set(re.findall(r"--[a-z][a-z-]+", text)) - {"--help"}
            self.assertTrue(flags, command)
            for flag in flags:
                self.assertRegex(manual, re.escape(flag) + r"(?![a-z-])", f"{command} {flag} is not in docs/cli.md")

    def test_every_json_field_is_in_the_manual(self):
        manual = (ROOT / "docs/cli.md").read_text()
        for field in GENERATE_FIELDS + TIMING_FIELDS:
            self.assertIn(f"`{field}`", manual)

    def test_stdout_that_cannot_be_written(self):
        for target in ("full", "closed"):
            if target == "full":
                out = open("/dev/full", "wb")
            else:
                reader, writer = os.pipe()
                os.close(reader)
                out = os.fdopen(writer, "wb")
            with out:
                done = subprocess.run([PROGRAM, "generate", SCRIPTED, *SMALL, "--prompt-ids", "4", "--cache-dir", "none"],
                                      stdout=out, stderr=subprocess.PIPE, timeout=GUARD_S)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"error: stdout: ", done.stderr)

    def test_stderr_that_cannot_be_written_changes_nothing_else(self):
        # --verbose logs, generate sums up, a wrong prompt is an error.
        runs = (("4", 0, b"5,6,7,8,9,10,2\n"), ("1000000", 1, b""))
        for target in ("full", "closed"):
            for prompt, status, output in runs:
                with self.subTest(stderr=target, prompt=prompt), open("/dev/full", "wb") as full:
                    done = subprocess.run([PROGRAM, "generate", SCRIPTED, *SMALL, "--verbose", "--prompt-ids", prompt],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full, timeout=GUARD_S,
                                          env={**os.environ, "DEEPINFER_CACHE_DIR": str(self.folder / f"stderr_{target}")},
                                          preexec_fn=(lambda: os.close(2)) if target == "closed" else None)
                    self.assertEqual((done.returncode, done.stdout), (status, output))

    def test_closed_streams_do_not_lend_their_numbers_to_files(self):
        cache = self.folder / "closed_streams"
        arguments = ["compile", LLAMA, *SMALL, "--verbose", "--cache-dir", cache]

        def close():
            os.close(0)
            os.close(2)
        done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, timeout=GUARD_S, preexec_fn=close)
        self.assertEqual(done.returncode, 0)
        (again,) = self.lines(*arguments, "--warm-start", "verified", "--json")
        self.assertEqual({g["status"] for g in again["graphs"]}, {"cached"})
        self.assertEqual(again["notes"], [])


class Generate(Case):
    def test_scripted_answer_and_fields(self):
        (answer,) = self.generate("--prompt-ids", "4")
        self.assertEqual(list(answer), GENERATE_FIELDS)
        self.assertEqual(list(answer["timings"]), TIMING_FIELDS)
        self.assertEqual(answer["prompt_ids"], [4])
        self.assertEqual(answer["ids"], [5, 6, 7, 8, 9, 10, 2])
        self.assertIsNone(answer["text"])
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertIsNone(answer["logprobs"])
        self.assertEqual(answer["compiles_after_ready"], 0)
        self.assertTrue(all(value >= 0 for value in answer["timings"].values()))

    def test_without_json_ids_are_printed(self):
        done = self.run_program("generate", SCRIPTED, *SMALL, "--prompt-ids", "4")
        self.assertEqual(done.stdout, b"5,6,7,8,9,10,2\n")
        # A load that takes more than a second says so before.
        self.assertRegex(done.stderr.decode().splitlines()[-1], r"^load .* first token .* tok/s \(7 tokens, stop\)$")

    def test_limits(self):
        (answer,) = self.generate("--prompt-ids", "4", "--max-tokens", "3")
        self.assertEqual((answer["ids"], answer["finish_reason"]), ([5, 6, 7], "length"))
        (answer,) = self.generate("--prompt-ids", "4", "--max-tokens", "9", "--ignore-eos")
        self.assertEqual(len(answer["ids"]), 9)

    def test_batch_keeps_its_order_and_equals_single_runs(self):
        prompts = ["4", "1,1,1", "3", "40,41", "4,4,4,4,4", "7", "2"]  # more than run at once
        together = self.generate(*[part for prompt in prompts for part in ("--prompt-ids", prompt)])
        self.assertEqual([a["prompt_ids"] for a in together], [list(map(int, p.split(","))) for p in prompts])
        for prompt, answer in zip(prompts, together):
            (alone,) = self.generate("--prompt-ids", prompt)
            self.assertEqual(answer["ids"], alone["ids"])

    def test_mixed_prompts_keep_the_order_of_the_command_line(self):
        answers = self.lines("generate", self.chat_model, *SMALL, "--prompt-ids", "65,66", "--prompt", "CD", "--prompt-ids",
                             "69", "--prompt", "[G,H]", "--max-tokens", "2", "--json")
        bos = 256
        self.assertEqual([a["prompt_ids"] for a in answers], [[65, 66], [bos, 67, 68], [69], [bos, *b"[G,H]"]])

    def test_prompt_that_looks_like_a_flag(self):
        (answer,) = self.lines("generate", self.chat_model, *SMALL, "--prompt", "--json", "--max-tokens", "1", "--json")
        self.assertEqual(answer["prompt_ids"], [256, *b"--json"])

    def test_bad_prompt_of_a_batch_is_named_and_nothing_runs(self):
        for bad, words in (("64", "64 is not in [0, 64)"), ("-1", "-1"), (",".join(["1"] * 200), "the context is 200")):
            line = self.error("generate", SCRIPTED, *SMALL, "--prompt-ids", "4", "--prompt-ids", bad, "--json")
            self.assertIn("prompt 2 of 2", line)
            self.assertIn(words, line)
        line = self.error("generate", SCRIPTED, *SMALL, "--prompt-ids", "4", "--max-tokens", "500")
        self.assertIn("max_tokens", line)

    def test_text_that_is_not_utf8(self):
        line = self.error("generate", self.chat_model, *SMALL, "--prompt", b"ab\xff".decode(errors="surrogateescape"))
        self.assertIn("UTF-8", line)

    def test_text_where_there_is_no_tokenizer(self):
        self.assertIn("no tokenizer", self.error("generate", SCRIPTED, *SMALL, "--prompt", "hello"))
        self.assertIn("no tokenizer", self.error("generate", LLAMA, *SMALL, "--prompt-ids", "4", "--stop", "x"))
        self.assertIn("no tokenizer", self.error("generate", LLAMA, *SMALL, "--prompt-ids", "4", "--bad-word", "x"))

    def test_oracle_tokens_logprobs_and_null_text(self):
        oracle = models.read_safetensors(LLAMA / "oracle.safetensors")
        ids = ",".join(map(str, oracle["ids_0"][1]))
        greedy = list(oracle["greedy_0"][1])
        (answer,) = self.lines("generate", LLAMA, *SMALL, "--dtype", "f32", "--prompt-ids", ids, "--max-tokens", len(greedy),
                               "--ignore-eos", "--logprobs", "3", "--json")
        self.assertEqual(answer["ids"], greedy)
        self.assertIsNone(answer["text"])
        self.assertEqual(len(answer["logprobs"]), len(greedy))
        for token, entry in zip(greedy, answer["logprobs"]):
            self.assertEqual(entry["id"], token)
            self.assertEqual(len(entry["top"]), 3)
            self.assertEqual(entry["top"][0]["id"], token)
            self.assertEqual(entry["top"][0]["logprob"], entry["logprob"])
            self.assertLess(entry["logprob"], 0)
            self.assertGreaterEqual(entry["top"][0]["logprob"], entry["top"][1]["logprob"])

    def test_bias_bans_and_penalties(self):
        def ids(*arguments):
            return self.ok("generate", LLAMA, *SMALL, "--prompt-ids", "7,3,11", "--max-tokens", "12", *arguments).strip().split(",")

        first = ids()[0]
        self.assertNotIn(first, ids("--banned-ids", first))
        self.assertEqual(set(ids("--logit-bias", "42:100")), {"42"})
        self.assertLessEqual(set(ids("--allowed-ids", "5, 6")), {"5", "6"})
        self.assertGreater(len(set(ids("--frequency-penalty", "2", "--presence-penalty", "2"))), 6)
        for flag, value in (("--logit-bias", "42"), ("--logit-bias", "AI:1"), ("--logit-bias", "1:1000"),
                            ("--logit-bias", "1:nan"), ("--typical-p", "0"), ("--min-tokens", "-1"), ("--dry-breaker", ""), ("--bad-word", "")):
            self.usage("generate", LLAMA, "--prompt-ids", "7", flag, value, says=flag)
        self.assertIn("logit_bias", self.error("generate", LLAMA, *SMALL, "--prompt-ids", "7", "--logit-bias", "100000:1"))

    def test_prompt_logprobs(self):
        (answer,) = self.lines("generate", LLAMA, *SMALL, "--prompt-ids", "7,3,11", "--max-tokens", "1",
                               "--prompt-logprobs", "2", "--json")
        first, *rest = answer["prompt_logprobs"]
        self.assertIsNone(first)
        self.assertEqual([entry["id"] for entry in rest], [3, 11])
        self.assertEqual(len(rest[0]["top"]), 2)

    def test_structured_output(self):
        schema = self.folder / "schema.json"
        schema.write_text(json.dumps({"type": "object", "required": ["city", "size"], "additionalProperties": False,
                                      "properties": {"city": {"type": "string", "maxLength": 12},
                                                     "size": {"type": "integer", "minimum": 1, "maximum": 99}}}))
        lark = self.folder / "list.lark"
        lark.write_text('start: "[" WORD ("," WORD)* "]"\nWORD: /[a-z]{2,4}/\n')
        bad = self.folder / "bad.json"
        bad.write_text('{"properties": {"a": {"not": {}}}}')
        if not REAL.exists():
            message = self.error("generate", LLAMA, *SMALL, "--prompt-ids", "7", "--json-schema", schema)
            self.assertIn("--json-schema", message)
            self.skipTest("no real tokenizer")
        for temperature in ("0", "1.5"):
            def text(*arguments):
                return self.lines("generate", REAL, *SMALL, "--prompt", "A city:", "--max-tokens", "120",
                                  "--temperature", temperature, "--seed", "5", *arguments, "--json")[0]["text"]

            value = json.loads(text("--json-schema", schema))
            self.assertEqual(set(value), {"city", "size"})
            self.assertTrue(1 <= value["size"] <= 99)
            self.assertLessEqual(len(value["city"]), 12)
            self.assertIn(text("--choice", "Paris", "--choice", "Rome"), ("Paris", "Rome"))
            self.assertRegex(text("--regex", "[A-Z][a-z]{3,6}!"), r"\A[A-Z][a-z]{3,6}!\Z")
            self.assertRegex(text("--grammar", lark, "--logit-bias", "95:1"), r"\A\[[a-z]{2,4}(,[a-z]{2,4})*\]?")
        self.assertIn("/properties/a/not", self.error("generate", REAL, *SMALL, "--prompt", "x", "--json-schema", bad))
        self.usage("generate", REAL, "--prompt", "x", "--json-object", "--regex", "a", says="--regex")

    def test_seeds(self):
        run = lambda *more: [a["ids"] for a in self.lines(
            "generate", LLAMA, *SMALL, "--temperature", "1.5", "--max-tokens", "12", "--ignore-eos", "--json", *more)]
        first = run("--prompt-ids", "5,6,7", "--seed", "1")
        self.assertEqual(first, run("--prompt-ids", "5,6,7", "--seed", "1", "--threads", "1"))
        self.assertNotEqual(first, run("--prompt-ids", "5,6,7", "--seed", "2"))
        batch = run("--prompt-ids", "9,9", "--prompt-ids", "5,6,7", "--prompt-ids", "5,6,7", "--seed", "1")
        self.assertEqual(batch[1], first[0])
        self.assertEqual(batch[2], first[0])

    def test_reference_backend_agrees(self):
        cpu = self.generate("--prompt-ids", "4", "--prompt-ids", "1")
        reference = self.generate("--prompt-ids", "4", "--prompt-ids", "1", "--backend", "reference")
        self.assertEqual([a["ids"] for a in cpu], [a["ids"] for a in reference])

    def test_stop_string_and_stream(self):
        (full,) = self.lines("generate", self.chat_model, *SMALL, "--prompt", "ab", "--max-tokens", "30", "--json", "--ignore-eos")
        text = full["text"]
        done = self.run_program("generate", self.chat_model, *SMALL, "--prompt", "ab", "--max-tokens", "30", "--ignore-eos")
        self.assertEqual(done.stdout.decode(), text + "\n")
        stop = next((c for c in text if c.isprintable() and ord(c) < 128), None)
        self.assertIsNotNone(stop, "the random model's answer holds no plain character")
        (cut,) = self.lines("generate", self.chat_model, *SMALL, "--prompt", "ab", "--max-tokens", "30", "--json", "--ignore-eos",
                            "--stop", stop)
        self.assertEqual((cut["text"], cut["finish_reason"]), (text[:text.index(stop)], "stop"))

    def test_nan_row_ends_only_its_request(self):
        done = self.run_program("generate", NAN, *SMALL, "--prompt-ids", "4", "--prompt-ids", "1", "--json")
        good, bad = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual((good["ids"], good["finish_reason"]), ([5, 6, 7, 8, 9, 10, 2], "stop"))
        self.assertEqual((bad["ids"], bad["finish_reason"]), ([20], "error"))
        self.assertIn("NaN", bad["error"])
        self.assertIn("prompt 2 of 2", done.stderr.decode().splitlines()[-1])

    def test_cache_that_cannot_be_written_is_only_a_warning(self):
        blocked = self.folder / "blocked"
        blocked.write_text("a file where a folder should be")
        done = self.run_program("generate", LLAMA, *SMALL, "--prompt-ids", "4", "--max-tokens", "1", "--cache-dir", blocked)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"cache", done.stderr)

    def test_ctrl_c_stops_with_what_there_is(self):
        # The interpreter is slow enough that most of the answer is still to come when its first bytes are seen.
        process = subprocess.Popen([PROGRAM, "generate", str(self.chat_model), "--max-num-seqs", "1", "--backend", "reference",
                                    "--prompt", "ab", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "DEEPINFER_CACHE_DIR": self.cache})
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=GUARD_S)
        self.assertEqual(process.returncode, 1)
        self.assertTrue((first + out).endswith(b"\n"))
        summary, error = err.decode().splitlines()[-2:]
        self.assertIn("cancelled", summary)
        self.assertEqual(error, "error: interrupted")


class Logits(Case):
    def test_oracle(self):
        oracle = models.read_safetensors(LLAMA / "oracle.safetensors")
        for i in range(3):
            shape, want = oracle[f"logits_{i}"]
            out = self.folder / "logits.safetensors"
            ids = ",".join(map(str, oracle[f"ids_{i}"][1]))
            (report,) = self.lines("logits", LLAMA, "--dtype", "f32", "--prompt-ids", ids, "--out", out, "--json")
            self.assertEqual(report["shape"], shape)
            got = models.read_safetensors(out)
            self.assertEqual(list(got), ["logits"])
            self.assertEqual(got["logits"][0], shape)
            limit = 2e-4 * max(map(abs, want))
            self.assertLess(max(abs(a - b) for a, b in zip(got["logits"][1], want)), limit)

    def test_chunks_change_no_bits(self):
        files = []
        for rows in ("128", "5"):
            files.append(self.folder / f"rows{rows}.safetensors")
            self.ok("logits", LLAMA, "--prompt-ids", ",".join(str(i) for i in range(3, 60)), "--max-num-seqs", rows, "--out", files[-1])
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_errors(self):
        self.assertIn("--out", self.error("logits", LLAMA, "--prompt-ids", "1", "--out", self.folder / "missing" / "x"))
        self.assertIn("320", self.error("logits", LLAMA, "--prompt-ids", "320", "--out", self.folder / "x"))
        self.assertFalse((self.folder / "x").exists())


class Text(Case):
    def tokens(self, *arguments, stdin=b""):
        (answer,) = self.lines("tokenize", self.chat_model, *arguments, "--json", stdin=stdin)
        self.assertEqual(list(answer), ["ids"])
        return answer["ids"]

    def test_tokenize(self):
        self.assertEqual(self.tokens("--text", "ab"), [97, 98])
        self.assertEqual(self.tokens("--text", ""), [])
        self.assertEqual(self.tokens("--text", "a<|end|>"), [97, 257])
        self.assertEqual(self.tokens("--text", "a<|end|>", "--no-parse-special"), [97, *b"<|end|>"])
        self.assertEqual(self.tokens("--text", "a", "--add-special"), [256, 97])
        self.assertEqual(self.ok("tokenize", self.chat_model, "--text", "ab"), "97,98\n")

    def test_stdin_is_one_text_verbatim(self):
        for text in (b"one\ntwo\n\n", b"\r\n", b"", b"a\0b", "äöü \u2028 🙂\n".encode()):
            self.assertEqual(self.tokens(stdin=text), list(text))

    def test_detokenize(self):
        (answer,) = self.lines("detokenize", self.chat_model, "--ids", "97, 98", "--json")
        self.assertEqual(answer, {"text": "ab"})
        self.assertEqual(self.ok("detokenize", self.chat_model, stdin="97,98\n99 100"), "abcd")
        self.assertEqual(self.ok("detokenize", self.chat_model, "--ids", "97,257"), "a<|end|>")
        self.assertEqual(self.ok("detokenize", self.chat_model, "--ids", "97,257", "--skip-special"), "a")
        self.assertEqual(self.ok("detokenize", self.chat_model, stdin=""), "")

    def test_round_trip(self):
        text = "Grüße,\n\t  two  spaces <|user|> 🙂"
        self.assertEqual(self.ok("detokenize", self.chat_model, stdin=self.ok("tokenize", self.chat_model, stdin=text)), text)

    def test_errors(self):
        self.assertIn("UTF-8", self.error("tokenize", self.chat_model, stdin=b"\xff\xfe"))
        self.assertIn("no tokenizer", self.error("tokenize", LLAMA, "--text", "a"))
        self.assertIn("9999", self.error("detokenize", self.chat_model, "--ids", "9999"))
        self.assertIn("stdin", self.error("detokenize", self.chat_model, stdin="1,b"))
        self.usage("detokenize", self.chat_model, "--ids", "1;2", says="--ids")

    def test_needs_the_tokenizer_only(self):
        folder = self.folder / "tokenizer_only"
        folder.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes((self.chat_model / name).read_bytes())
        self.assertEqual(self.ok("tokenize", folder, "--text", "ab"), "97,98\n")


class Perplexity(Case):
    def setUp(self):
        self.text = self.folder / "text.txt"
        self.text.write_text("It is a truth universally acknowledged. " * 5)

    def measure(self, *arguments):
        (answer,) = self.lines("perplexity", self.chat_model, self.text, "--dtype", "f32", *arguments, "--json")
        self.assertEqual(list(answer), ["perplexity", "nll", "tokens", "scored", "windows", "window", "tok_s"])
        return answer

    def test_against_logits(self):
        """The same figure from the logits command, for one window."""
        text = self.text.read_text()[:60]
        self.text.write_text(text)
        out = self.folder / "ppl.safetensors"
        self.ok("logits", self.chat_model, "--dtype", "f32", "--prompt", text, "--out", out)
        (rows, vocab), values = models.read_safetensors(out)["logits"]
        nll = 0
        for position, token in enumerate(text.encode()):  # after the BOS every byte is scored
            row = values[position * vocab:(position + 1) * vocab]
            top = max(row)
            nll += math.log(sum(math.exp(v - top) for v in row)) + top - row[token]
        answer = self.measure()
        self.assertEqual((answer["tokens"], answer["scored"], answer["windows"]), (60, 60, 1))
        self.assertAlmostEqual(answer["nll"], nll / 60, places=4)
        self.assertAlmostEqual(answer["perplexity"], math.exp(nll / 60), delta=0.001 * math.exp(nll / 60))

    def test_windows(self):
        answer = self.measure("--window", "51", "--max-tokens", "120")  # 50 + BOS each
        self.assertEqual((answer["tokens"], answer["scored"], answer["windows"], answer["window"]), (120, 120, 3, 51))
        answer = self.measure("--window", "51", "--max-tokens", "120", "--skip", "11")
        self.assertEqual(answer["scored"], 40 + 40 + 10)

    def test_errors(self):
        self.assertIn("--window", self.error("perplexity", self.chat_model, self.text, "--window", "100000"))
        self.assertIn("missing.txt", self.error("perplexity", self.chat_model, self.folder / "missing.txt"))
        self.assertIn("tokenizer", self.error("perplexity", LLAMA, self.text))
        empty = self.folder / "empty.txt"
        empty.write_text("")
        self.assertIn("nothing to score", self.error("perplexity", self.chat_model, empty))


class Compile(Case):
    def test_first_compiles_second_is_cached(self):
        arguments = ("compile", LLAMA, *SMALL, "--cache-dir", self.folder / "compiled", "--json")
        (first,), (second,) = self.lines(*arguments), self.lines(*arguments)
        self.assertEqual([(g["phase"], g["bucket"]) for g in first["graphs"]],
                         [("decode", 1), ("decode", 2), ("decode", 4), ("prefill", 128)])
        self.assertEqual({g["status"] for g in first["graphs"]}, {"compiled"})
        self.assertTrue(all(g["reason"] for g in first["graphs"]))
        self.assertEqual({g["status"] for g in second["graphs"]}, {"cached"})
        self.assertTrue(all(g["reason"] is None and g["ms"] > 0 for g in second["graphs"]))
        third = self.lines(*arguments[:-1], "--dtype", "f32", "--json")[0]
        self.assertEqual({g["status"] for g in third["graphs"]}, {"compiled"})
        self.assertIn("activations", third["graphs"][0]["reason"])
        for report in (first, second, third):
            self.assertEqual(list(report), ["graphs", "load_ms", "compile_ms", "persist_ms", "weight_bytes", "cache_dir", "notes"])
            self.assertEqual(report["notes"], [])

    def test_damaged_packed_weights_are_seen_and_replaced(self):
        cache = self.folder / "packed"
        arguments = ("compile", LLAMA, *SMALL, "--cache-dir", cache, "--json")
        self.lines(*arguments)
        (file,) = cache.rglob("*.blobs")
        good = file.read_bytes()
        file.write_bytes(good[:-1])
        self.assertIn("packed weights of an earlier start are not used", self.ok(*arguments[:-1]))
        self.assertEqual(file.read_bytes(), good)
        damaged = bytearray(good)
        damaged[4096] ^= 1  # the first byte of a weight: only reading it all shows that
        file.write_bytes(damaged)
        self.assertEqual(self.lines(*arguments)[0]["notes"], [])
        (report,) = self.lines(*arguments, "--warm-start", "verified")
        self.assertRegex(report["notes"][0], r"checksum")
        self.assertEqual(file.read_bytes(), good)
        file.write_bytes(damaged)
        done = self.run_program("generate", LLAMA, *SMALL, "--prompt-ids", "1", "--max-tokens", "1", "--cache-dir", cache,
                                "--warm-start", "verified", "--verbose")
        self.assertIn(b"packed weights of an earlier start are not used", done.stderr)

    def test_table(self):
        text = self.ok("compile", LLAMA, *SMALL, "--cache-dir", "none")
        self.assertIn("no cache folder", text)
        self.assertIn("4 graphs in", text)


class Inspect(Case):
    def test_summary(self):
        text = self.ok("inspect", LLAMA, *SMALL)
        for words in ("architecture", "llama", "4 graphs", "prefill:128", "alias map", "kv.0.k", "weights, packed", "kernel"):
            self.assertIn(words, text)

    def test_json(self):
        (report,) = self.lines("inspect", LLAMA, *SMALL, "--json")
        self.assertEqual(list(report), ["model", "graphs", "memory", "aliases", "kernels"])
        self.assertEqual([g["graph"] for g in report["graphs"]], ["decode:1", "decode:2", "decode:4", "prefill:128"])
        self.assertEqual(report["model"]["layers"], 3)
        states = {alias["input"] for alias in report["aliases"]}
        self.assertEqual(states, {f"kv.{i}.{part}" for i in range(3) for part in "kv"} | {"token_store"})
        self.assertTrue(all(a["input"] == a["output"] for a in report["aliases"]))
        self.assertGreater(report["memory"]["weight_bytes"], 0)
        # One arena for all graphs, with the scratch of every thread: no less than any graph needs.
        self.assertGreaterEqual(report["memory"]["arena_bytes"], max(g["arena_bytes"] for g in report["graphs"]))
        self.assertTrue(report["kernels"]["launches"])

    def test_graph_text(self):
        raw = self.ok("inspect", LLAMA, *SMALL, "--graph", "decode:2", "--raw")
        self.assertIn("func @step(", raw)
        self.assertIn("index_put_", raw)
        done = self.ok("inspect", LLAMA, *SMALL, "--graph", "decode:2")
        self.assertNotIn("index_put_(", done)
        self.assertIn("alias", done)
        self.assertEqual(raw, self.ok("inspect", LLAMA, *SMALL, "--graph", "decode:2", "--raw"))
        self.assertIn("decode:1", self.error("inspect", LLAMA, *SMALL, "--graph", "decode:3"))

    def test_svg(self):
        out = self.folder / "graph.svg"
        self.ok("inspect", LLAMA, *SMALL, "--graph", "prefill:128", "--raw", "--svg", out)
        import xml.etree.ElementTree as tree
        root = tree.parse(out).getroot()
        texts = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(sum(t.startswith("call @layer_") for t in texts), 3)
        self.assertTrue(any(t == "output logits" for t in texts))
        self.assertIn("@step", texts)
        self.assertIn("/", self.error("inspect", LLAMA, *SMALL, "--svg", self.folder / "none" / "x.svg"))

    def test_kernels_and_memory(self):
        self.assertIn("prefill:128", self.ok("inspect", LLAMA, *SMALL, "--kernels"))
        self.assertRegex(self.ok("inspect", LLAMA, *SMALL, "--kernels", "--graph", "decode:1"), r"^\[\d+\] \w")
        self.assertIn("metadata block_tables", self.ok("inspect", LLAMA, *SMALL, "--memory"))

    def test_the_scales_of_an_int8_cache_count(self):
        sizes = {}
        for kv in ("f32", "f16", "fp8", "int8"):
            (report,) = self.lines("inspect", LLAMA, *SMALL, "--kv-cache-dtype", kv, "--json")
            sizes[kv] = report["memory"]["state_bytes"]
        row = (sizes["f32"] - sizes["f16"]) // 2  # a byte for every value of K and V
        self.assertEqual(sizes["f16"] - sizes["fp8"], row)
        self.assertGreater(sizes["int8"], sizes["fp8"])
        self.assertLess(sizes["int8"], sizes["f16"])


class Chat(Case):
    ARGUMENTS = ["--max-tokens", "8", "--temperature", "0", "--ignore-eos"]

    def prompt_of(self, turns):
        text = "".join(f"<|{role}|>{content}<|end|>" for role, content in turns) + "<|assistant|>"
        return len(json.loads(self.ok("tokenize", self.chat_model, "--text", text, "--json"))["ids"])

    def test_pipe_with_history(self):
        env = {"DEEPINFER_CACHE_DIR": self.cache}
        first = self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="Hi\n", env=env)
        self.assertTrue(first.endswith("\n"))
        (alone,) = self.lines("generate", self.chat_model, *SMALL, *self.ARGUMENTS, "--chat", "--prompt", "Hi", "--json")
        self.assertEqual(first, alone["text"] + "\n")
        both = self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="Hi\nAnd?\n", env=env)
        self.assertTrue(both.startswith(first))
        history = ("<|user|>Hi<|end|><|assistant|>" + alone["text"] + "<|end|><|user|>And?<|end|><|assistant|>")
        ids = json.loads(self.ok("tokenize", self.chat_model, "--text", history, "--add-special", "--json"))["ids"]
        (second,) = self.lines("generate", self.chat_model, *SMALL, *self.ARGUMENTS, "--prompt-ids", ",".join(map(str, ids)), "--json")
        self.assertEqual(both[len(first):], second["text"] + "\n")
        again = self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="Hi\n/reset\nHi\n/exit\nnever\n", env=env)
        self.assertEqual(again, first + first)

    def test_context_overflow_is_said_and_the_chat_goes_on(self):
        done = self.run_program("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="x" * 300 + "\nHi\n")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"the context is 200", done.stderr)
        self.assertIn(b"/reset", done.stderr)
        self.assertEqual(done.stdout.decode(), self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="Hi\n"))
        cut = self.run_program("chat", self.chat_model, *SMALL, "--temperature", "0", "--ignore-eos", stdin="Hi\n")
        self.assertIn(b"the context of 200 tokens is full", cut.stderr)

    def test_last_line_without_newline_and_empty_input(self):
        self.assertEqual(self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="Hi"),
                         self.ok("chat", self.chat_model, *SMALL, *self.ARGUMENTS, stdin="\n  \nHi\n"))
        self.assertEqual(self.ok("chat", self.chat_model, *SMALL, stdin=""), "")

    def test_refusals(self):
        self.assertIn("no tokenizer", self.error("chat", LLAMA, *SMALL))
        plain = models.make_chat_model(self.folder / "plain", template=None)
        self.assertIn("no chat template", self.error("chat", plain, *SMALL))

    def talk(self, *arguments):
        """A chat on a terminal of its own; returns (process, read_until, write)."""
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["DEEPINFER_CACHE_DIR"] = self.cache
            os.execv(PROGRAM, [PROGRAM, "chat", str(self.chat_model), *arguments])
        seen = bytearray()

        def until(words):
            deadline = time.monotonic() + GUARD_S
            while words not in seen or not seen:  # nothing in particular: the next byte
                self.assertLess(time.monotonic(), deadline, f"no {words} in {bytes(seen)}")
                if not select.select([fd], [], [], 1)[0]:
                    continue
                try:
                    piece = os.read(fd, 4096)
                except OSError:
                    piece = b""
                self.assertTrue(piece, f"the program ended: {bytes(seen)}")
                seen.extend(piece)
            del seen[:seen.index(words) + len(words)]

        def status():
            while True:
                try:
                    if not os.read(fd, 4096):
                        break
                except OSError:
                    break
            os.close(fd)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        return until, lambda text: os.write(fd, text), status

    def test_terminal_ctrl_d(self):
        until, write, status = self.talk(*SMALL, *self.ARGUMENTS)
        until(b"> ")
        write(b"Hi\n")
        until(b"tok/s")
        until(b"> ")
        write(b"\x04")
        self.assertEqual(status(), 0)

    def test_terminal_ctrl_c_stops_an_answer_then_two_end_the_chat(self):
        # The interpreter is slow enough that a long answer is still going on when the interrupt comes.
        until, write, status = self.talk("--max-model-len", "512", "--max-num-seqs", "1", "--backend", "reference",
                                         "--temperature", "0", "--ignore-eos")
        until(b"> ")
        write(b"Hi\n")
        until(b"Hi\r\n")
        until(b"")
        write(b"\x03")
        until(b"(stopped)")
        until(b"> ")
        write(b"\x03")
        until(b"Ctrl-C again")
        until(b"> ")
        write(b"\x03")
        self.assertEqual(status(), 0)


class Models(Case):
    def real_gguf(self):
        files = list(REAL.glob("*.gguf"))
        if len(files) != 1:
            required = os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1"
            (self.fail if required else self.skipTest)(f"{len(files)} GGUF files in {REAL}, see scripts/fetch_assets.sh")
        return files[0]

    def test_all_forms(self):
        self.generate("--prompt-ids", "4")
        self.lines("generate", LLAMA, *SMALL, "--prompt-ids", "4", "--max-tokens", "1", "--json")
        self.assertIn("MODEL", self.error("generate", "no-such-model", "--prompt-ids", "1"))
        self.assertIn("missing.json", self.error("generate", "synthetic:missing.json", "--prompt-ids", "1"))

    def test_real_model_by_name_file_and_folder(self):
        env = {"DEEPINFER_MODELS_DIR": str(REAL.parent)}
        gguf = self.real_gguf()
        answers = []
        for model in ("smollm2", gguf, REAL):
            out = self.ok("generate", model, "--chat", "--prompt", "Say hello.", "--max-tokens", "5", "--json", env=env)
            answers.append(json.loads(out))
        self.assertEqual(answers[0]["ids"], answers[1]["ids"])
        self.assertEqual(answers[0]["ids"], answers[2]["ids"])
        self.assertTrue(answers[0]["text"])

    def test_hostile_files(self):
        gguf = self.folder / "bad.gguf"
        for content in (b"", b"GGUF", b"GGUF" + b"\3\0\0\0" + b"\xff" * 16, b"not a model at all", b"GGUF\3\0\0\0" + b"\0" * 16):
            gguf.write_bytes(content)
            for command in ("generate", "tokenize", "inspect"):
                more = {"generate": ["--prompt-ids", "1"], "tokenize": ["--text", "a"], "inspect": []}[command]
                self.assertIn("bad.gguf", self.error(command, gguf, *more))

    def test_truncated_gguf(self):
        data = self.real_gguf().read_bytes()
        cut = self.folder / "cut.gguf"
        for size in (1000, 100_000, len(data) // 2, len(data) - 1):
            cut.write_bytes(data[:size])
            self.assertIn("cut.gguf", self.error("generate", cut, "--prompt-ids", "1"))

    def test_folders_that_are_no_checkpoint(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("config.json", self.error("generate", empty, "--prompt-ids", "1"))
        folder = models.copy_checkpoint(LLAMA, self.folder / "broken")
        config = json.loads((folder / "config.json").read_text())

        def with_config(**changes):
            (folder / "config.json").write_text(json.dumps({**config, **changes}))
            return self.error("generate", folder, "--prompt-ids", "1")

        self.assertRegex(with_config(architectures=["MambaForCausalLM"], model_type="mamba"), "(?i)mamba.*llama")
        self.assertIn("hidden_size", with_config(hidden_size="big"))
        self.assertIn("num_attention_heads", with_config(num_attention_heads=0))
        self.assertIn("shape", with_config(intermediate_size=64))
        (folder / "config.json").write_text("{")
        self.assertIn("config.json", self.error("generate", folder, "--prompt-ids", "1"))

    def test_missing_and_surplus_tensors(self):
        folder = models.copy_checkpoint(LLAMA, self.folder / "tensors")
        weights = folder / "model.safetensors"
        tensors = models.raw_tensors(weights)
        name = "model.layers.1.mlp.up_proj.weight"
        models.write_safetensors(weights, {n: t for n, t in tensors.items() if n != name})
        self.assertIn(name, self.error("generate", folder, "--prompt-ids", "1"))
        models.write_safetensors(weights, {**tensors, "model.layers.1.surprise": tensors[name]})
        self.assertIn("model.layers.1.surprise", self.error("generate", folder, "--prompt-ids", "1"))
        weights.write_bytes(weights.read_bytes()[:-100])
        self.assertIn("model.safetensors", self.error("generate", folder, "--prompt-ids", "1"))

    def test_limits_of_memory_and_context(self):
        self.assertIn("--max-model-len", self.error("generate", LLAMA, "--prompt-ids", "1", "--max-model-len", "100000"))
        self.assertIn("--kv-cache-memory", self.error("generate", LLAMA, "--prompt-ids", "1", "--kv-cache-memory", "1K"))
        self.assertIn("--max-num-seqs", self.error("generate", LLAMA, "--prompt-ids", "1", "--max-num-seqs", "100000"))
        self.assertIn("avx9", self.error("generate", LLAMA, "--prompt-ids", "1", env={"DEEPINFER_CPU_ISA": "avx9"}))


if __name__ == "__main__":
    unittest.main()
