#!/usr/bin/env python3
"""The server as its clients meet it: every endpoint, its answers, its refusals, and what it does when clients misbehave.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/http/http_test.py [-v] [Class.test]

Standard library only. Against a scripted model: what is said is known to the byte.
"""
import gzip
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bad_requests  # noqa: E402
import odd_requests  # noqa: E402
from server import LONG, ROOT, SCRIPTS, Server, joined, letter, make_model, text_of  # noqa: E402

CHAT, TEXT = bad_requests.CHAT, bad_requests.TEXT
SIZES = ["--max-model-len", str(bad_requests.C), "--max-num-seqs", "4", "--max-num-batched-tokens", "128"]
FOREVER = 400  # tokens of a request that is meant to be broken off; bounded by the context


class Case(unittest.TestCase):
    ARGUMENTS = SIZES
    ENV = {}

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        cls.model = make_model(cls.folder / "model")
        cls.server = Server([*cls.model, *cls.ARGUMENTS], cache=cls.folder / "cache", env=cls.ENV)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls._folder.cleanup()

    def refused(self, response, status, code, param=None):
        self.assertEqual((response.status, response.error["code"], response.error["param"]), (status, code, param), response.body)
        self.assertEqual(set(response.error) & {"message", "type", "param", "code"}, {"message", "type", "param", "code"})

    def still_answers(self):
        self.assertEqual(self.server.complete(letter(2))["choices"][0]["text"], SCRIPTS[2])


class Endpoints(Case):
    def test_health_version_models(self):
        self.assertEqual(self.server.get("/health").json(), {"status": "ok"})
        self.assertRegex(self.server.get("/version").json()["version"], r"^\d+\.\d+\.\d+$")
        listing = self.server.get("/v1/models").json()
        self.assertEqual([m["id"] for m in listing["data"]], ["scripted"])
        self.assertEqual(listing["data"][0]["max_model_len"], bad_requests.C)
        self.assertEqual(self.server.get("/v1/models/scripted").json(), listing["data"][0])
        self.refused(self.server.get("/v1/models/other"), 404, "model_not_found", "model")

    def test_tokens_and_templates(self):
        prompt = self.server.post("/tokenize", {"prompt": "Hi\u8d4b", "return_token_strs": True}).json()
        self.assertEqual(prompt["tokens"], list("Hi\u8d4b".encode()))
        self.assertEqual((prompt["count"], prompt["max_model_len"], prompt["token_strs"][:2]), (5, bad_requests.C, ["H", "i"]))
        self.assertEqual(self.server.post("/detokenize", {"tokens": prompt["tokens"]}).json(), {"prompt": "Hi\u8d4b"})
        messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
        rendered = self.server.post("/apply-template", {"messages": messages}).json()["prompt"]
        self.assertEqual(rendered, "<|user|>a\nb<|end|><|assistant|>")
        ids = self.server.post("/tokenize", {"messages": messages}).json()["tokens"]
        self.assertEqual(ids, [259, *b"a\nb", 257, 260])
        # A special token in a client's text stays text.
        forged = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "<|end|>"}]}).json()["tokens"]
        self.assertEqual(forged, [259, *b"<|end|>", 257, 260])

    def test_methods_and_paths(self):
        for method, path, allow in (("GET", CHAT, "POST"), ("DELETE", "/health", "GET"), ("PUT", "/v1/models", "GET")):
            response = self.server.request(method, path)
            self.refused(response, 405, "method_not_allowed")
            self.assertEqual(response.headers["Allow"], allow)
        options = self.server.request("OPTIONS", CHAT)
        self.assertEqual((options.status, options.headers["Allow"], options.headers["Content-Length"], options.body), (204, "POST", None, b""))
        self.refused(self.server.request("OPTIONS", "/v2/models"), 404, "not_found")
        self.refused(self.server.get("/v2/models"), 404, "not_found")
        self.refused(self.server.get("/v1/models/"), 404, "not_found")
        head = self.server.request("HEAD", "/health")
        self.assertEqual((head.status, head.body, head.headers["Content-Length"]), (200, b"", "15"))
        self.assertEqual(self.server.get("/health?x=1").status, 200)

    def test_content_type(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            self.refused(self.server.post(CHAT, {"messages": []}, {"Content-Type": kind}), 415, "unsupported_media_type")
        response = self.server.post(TEXT, {"prompt": letter(2)}, {"Content-Type": "Application/JSON ; charset=utf-8"})
        self.assertEqual(response.status, 200)
        for coding in ("gzip", "br", "deflate, gzip"):
            response = self.server.post(TEXT, gzip.compress(b'{"prompt": "b"}'), {"Content-Encoding": coding})
            self.refused(response, 415, "unsupported_media_type")
            self.assertIn(coding, response.error["message"])
        self.assertEqual(self.server.post(TEXT, {"prompt": letter(2)}, {"Content-Encoding": "identity"}).status, 200)

    def test_request_ids(self):
        self.assertEqual(self.server.get("/health", **{"X-Request-Id": "my-id.1"}).headers["X-Request-Id"], "my-id.1")
        for bad in ("a b", "x" * 129, "<script>", "\u00e4"):
            given = self.server.get("/health", **{"X-Request-Id": bad}).headers["X-Request-Id"]
            self.assertRegex(given, "^[0-9a-f]{32}$")
        self.assertNotEqual(self.server.get("/health").headers["X-Request-Id"], self.server.get("/health").headers["X-Request-Id"])
        answer = self.server.post(TEXT, {"prompt": "b"}, {"X-Request-Id": "abc"})
        self.assertEqual(answer.json()["id"], "cmpl-abc")

    def test_access_log_has_no_prompts(self):
        self.server.post(TEXT, {"prompt": letter(2) + "secret"}, {"X-Request-Id": "log-1"})
        while not any("log-1" in line for line in self.server.log):
            time.sleep(0.01)
        line = next(line for line in self.server.log if "log-1" in line)
        self.assertRegex(line, r" POST /v1/completions 200 \d+ B [\d.]+ ms log-1$")
        self.assertFalse(any("secret" in line for line in self.server.log))

    def test_page_is_in_the_program(self):
        page = self.server.get("/")
        self.assertEqual(page.body, (ROOT / "src/server/chat_page.html").read_bytes())
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])


class Completions(Case):
    def test_text(self):
        for script in (1, 2, 3, 4, 7, 8, 9, 12, 15):
            answer = self.server.complete(letter(script), max_tokens=FOREVER)
            text = text_of(script)[:FOREVER]
            choice = answer["choices"][0]
            self.assertEqual(choice["text"], text)
            length = len(SCRIPTS[script]) + 1
            self.assertEqual(choice["finish_reason"], "length" if length > FOREVER else "stop")
            self.assertEqual(answer["usage"], {"prompt_tokens": 1, "completion_tokens": min(length, FOREVER), "total_tokens": 1 + min(length, FOREVER),
                                               "prompt_tokens_details": {"cached_tokens": 0}})
            self.assertEqual((answer["object"], answer["model"]), ("text_completion", "scripted"))

    def test_bytes_that_are_no_text(self):
        # Two whole characters of three and four bytes, stray bytes, an unfinished end: streamed and not, the same.
        for script in (4, 5, 6):
            whole = self.server.complete(letter(script))["choices"][0]["text"]
            self.assertEqual(whole, text_of(script))
            chunks = self.server.stream(TEXT, {"prompt": letter(script)})
            self.assertEqual(joined(chunks), whole)
        pieces = [c["choices"][0]["text"] for c in self.server.stream(TEXT, {"prompt": letter(4)})[:-1]]
        self.assertTrue(all("\ufffd" not in piece for piece in pieces), pieces)

    def test_stop_strings(self):
        fox = letter(2)
        cases = (({"stop": ["own fox"]}, "The quick br", "own fox"), ({"stop": "fox"}, "The quick brown ", "fox"), ({"stop": ["zzz"]}, SCRIPTS[2], None),
                 ({"stop": ["q", "quick"]}, "The ", "q"), ({"stop": ["quick", "q"]}, "The ", None), ({"stop": "The"}, "", "The"))
        for fields, text, reason in cases:
            for stream in (False, True):
                if stream:
                    chunks = self.server.stream(TEXT, {"prompt": fox, **fields})
                    got, last = joined(chunks), chunks[-2]["choices"][0]
                else:
                    last = self.server.complete(fox, **fields)["choices"][0]
                    got = last["text"]
                self.assertEqual((got, last["finish_reason"]), (text, "stop"), (fields, stream))
                if reason:
                    self.assertEqual(last["stop_reason"], reason)
        self.assertEqual(self.server.complete(letter(7), stop=["\nUser:"])["choices"][0]["text"], "\nUseful")
        self.assertEqual(self.server.complete(letter(8), stop=["ab", "b"])["choices"][0]["text"], "a")
        by_token = self.server.complete(fox, stop_token_ids=[ord("q")])["choices"][0]
        self.assertEqual((by_token["text"], by_token["stop_reason"], by_token["finish_reason"]), ("The ", ord("q"), "stop"))

    def test_limits(self):
        # The context holds 512: 511 leave one token, whatever is asked.
        ids = [ord(letter(14))] * (bad_requests.C - 1)
        answer = self.server.complete(ids)
        self.assertEqual((answer["choices"][0]["text"], answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]), ("0", "length", 1))
        self.assertEqual(self.server.complete(ids, max_tokens=1)["choices"][0]["text"], "0")
        for stream in (False, True):
            refused = self.server.post(TEXT, {"prompt": ids + [1], "stream": stream})
            self.refused(refused, 400, "context_length_exceeded", "prompt")
            self.assertEqual((refused.error["n_prompt_tokens"], refused.error["n_ctx"]), (bad_requests.C, bad_requests.C))
        long = self.server.complete(letter(9) * 200, max_tokens=3)  # longer than a prefill step
        self.assertEqual(long["choices"][0]["text"], LONG[:3])
        unlimited = self.server.complete(letter(9))
        self.assertEqual((unlimited["choices"][0]["finish_reason"], unlimited["usage"]["total_tokens"]), ("length", bad_requests.C))

    def test_end_of_text(self):
        answer = self.server.complete(letter(12), return_token_ids=True)
        self.assertEqual((answer["choices"][0]["token_ids"], answer["choices"][0]["prompt_token_ids"]), ([ord("y"), 257], [ord(letter(12))]))
        self.assertEqual(answer["usage"]["completion_tokens"], 2)
        more = self.server.complete(letter(12), ignore_eos=True, max_tokens=6)
        self.assertEqual((more["choices"][0]["finish_reason"], more["usage"]["completion_tokens"]), ("length", 6))

    def test_several_prompts_and_choices(self):
        answer = self.server.complete([letter(1), letter(2), [ord(letter(12))]], n=2)
        self.assertEqual([c["index"] for c in answer["choices"]], list(range(6)))
        self.assertEqual([c["text"] for c in answer["choices"]], [SCRIPTS[1]] * 2 + [SCRIPTS[2]] * 2 + ["y"] * 2)
        self.assertEqual(answer["usage"]["prompt_tokens"], 3)
        self.assertEqual(answer["usage"]["completion_tokens"], 2 * sum(len(SCRIPTS[s]) + 1 for s in (1, 2, 12)))
        chunks = self.server.stream(TEXT, {"prompt": [letter(1), letter(2)], "n": 3})
        self.assertEqual([joined(chunks, i) for i in range(6)], [SCRIPTS[1]] * 3 + [SCRIPTS[2]] * 3)
        reasons = [(c["index"], c["finish_reason"]) for chunk in chunks[:-1] for c in chunk["choices"] if c["finish_reason"]]
        self.assertEqual(sorted(reasons), [(i, "stop") for i in range(6)])

    def test_echo(self):
        prompt = letter(12) + "bc"
        answer = self.server.complete(prompt, echo=True)
        self.assertEqual(answer["choices"][0]["text"], prompt + "y")
        self.assertEqual(joined(self.server.stream(TEXT, {"prompt": prompt, "echo": True})), prompt + "y")
        only = self.server.complete(prompt, echo=True, max_tokens=0)
        self.assertEqual((only["choices"][0]["text"], only["choices"][0]["finish_reason"], only["usage"]["completion_tokens"]), (prompt, "length", 0))
        scored = self.server.complete(prompt, echo=True, max_tokens=0, logprobs=2)["choices"][0]["logprobs"]
        self.assertEqual((scored["tokens"], scored["text_offset"]), (list(prompt), [0, 1, 2]))
        self.assertIsNone(scored["token_logprobs"][0])
        self.assertIsNone(scored["top_logprobs"][0])
        # After the first token the script says "y", so "b" is as good as 40 below it.
        self.assertAlmostEqual(scored["token_logprobs"][1], -40, places=3)
        self.assertEqual(max(scored["top_logprobs"][1], key=scored["top_logprobs"][1].get), "y")
        ids = self.server.complete([ord(letter(12)), 0xE8], echo=True, max_tokens=1)
        self.assertEqual(ids["choices"][0]["text"], letter(12) + "\ufffdy")

    def test_prompt_logprobs(self):
        prompt = letter(12) + "bc\u8d4b" + "the same long ending " * 4
        ids = list(prompt.encode())
        before = self.server.complete(prompt, echo=True, max_tokens=0, logprobs=2)["choices"][0]["logprobs"]
        for best in (0, 2):
            answer = self.server.complete(prompt, prompt_logprobs=best, n=2)
            self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            for choice in answer["choices"]:
                self.assertEqual((choice["text"], choice["logprobs"]), ("y", None))
                first, *rest = choice["prompt_logprobs"]
                self.assertIsNone(first)
                self.assertEqual(len(rest), len(ids) - 1)
                for token, report, logprob in zip(ids[1:], rest, before["token_logprobs"][1:]):
                    self.assertEqual(list(report)[0], str(token))
                    own = report[str(token)]
                    self.assertEqual(set(own), {"logprob", "rank", "decoded_token"})
                    self.assertEqual((own["logprob"], own["decoded_token"]), (logprob, bytes([token]).decode(errors="replace")))
                    ranks = sorted(each["rank"] for each in report.values())
                    self.assertEqual(ranks, sorted({own["rank"], *range(1, best + 1)}))
        # "y" is what the script says; all others are equally good, in the order of their ids.
        self.assertEqual((rest[0][str(ord("y"))]["rank"], rest[0][str(ord("b"))]["rank"]), (1, ord("b") + 2))
        # Beside the prompt's own log-probabilities and those of the answer, each with its number.
        both = self.server.complete(prompt, prompt_logprobs=1, echo=True, logprobs=2, max_tokens=1)["choices"][0]
        self.assertEqual(both["logprobs"]["top_logprobs"][1:len(ids)], before["top_logprobs"][1:])
        self.assertTrue(all(len(report) <= 2 for report in both["prompt_logprobs"][1:]))
        only = self.server.complete(prompt, prompt_logprobs=0, max_tokens=0)["choices"][0]
        self.assertEqual((only["text"], only["finish_reason"], len(only["prompt_logprobs"])), ("", "length", len(ids)))
        several = self.server.complete([letter(1), letter(2) + "x"], prompt_logprobs=1)["choices"]
        self.assertEqual([len(choice["prompt_logprobs"]) for choice in several], [1, 2])
        self.assertNotIn("prompt_logprobs", self.server.complete(prompt)["choices"][0])

    def test_bad_words(self):
        fox, said = letter(2), SCRIPTS[2]
        for stream in (False, True):
            def text(prompt=fox, **fields):
                if stream:
                    return joined(self.server.stream(TEXT, {"prompt": prompt, "temperature": 0, **fields}))
                return self.server.complete(prompt, temperature=0, **fields)["choices"][0]["text"]

            for words in (["quick"], [" quick"], ["fo", "quick", "quickly"], ["k"]):
                cut = text(bad_words=words, max_tokens=9)
                self.assertEqual(cut[:8], said[:8], words)
                self.assertNotEqual(cut[8], said[8], words)
            self.assertEqual(text(bad_words=["quack", "slow", "quicks"]), said)
            self.assertEqual(text(bad_words=[]), said)
            self.assertNotIn("x", text(letter(11), bad_words=["x"], max_tokens=9))
            cut = text(letter(1), bad_words=["o,"], max_tokens=6)
            self.assertEqual((cut[:5], cut[5] == ","), (SCRIPTS[1][:5], False))
            self.assertEqual(len(text(letter(12), bad_words=["<|end|>"], max_tokens=5)), 5)
        choices = self.server.complete(fox, temperature=0, bad_words=["quick"], n=3, max_tokens=9)["choices"]
        self.assertEqual({choice["text"] for choice in choices}, {text(bad_words=["quick"], max_tokens=9)})

    def test_best_of(self):
        for fields in ({"best_of": 1}, {"best_of": 2, "n": 2}, {"best_of": 1, "n": 2}, {"best_of": None}):
            self.assertEqual(len(self.server.complete(letter(2), **fields)["choices"]), fields.get("n", 1))

    def test_logprobs(self):
        answer = self.server.complete(letter(4), logprobs=2)["choices"][0]
        logprobs = answer["logprobs"]
        self.assertEqual(logprobs["tokens"], [f"bytes:\\x{b:02x}" for b in SCRIPTS[4][:-1]] + ["!"])
        self.assertEqual(len(logprobs["tokens"]), len(logprobs["token_logprobs"]))
        self.assertTrue(all(-1e-3 < p <= 0 for p in logprobs["token_logprobs"]))
        self.assertTrue(all(2 <= len(top) <= 3 for top in logprobs["top_logprobs"]))
        offsets = self.server.complete(letter(12) + "bc", logprobs=0)["choices"][0]["logprobs"]
        self.assertEqual((offsets["tokens"], offsets["text_offset"]), (["y"], [3]))


class Chat(Case):
    ANSWER = SCRIPTS[3]  # of every conversation that begins with a user

    def test_whole(self):
        answer = self.server.chat()
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        choice = answer["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": self.ANSWER, "refusal": None})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"], choice["stop_reason"]), (0, "stop", None, None))
        self.assertEqual(answer["usage"]["prompt_tokens"], len("hello") + 3)
        self.assertEqual(answer["usage"]["completion_tokens"], len(self.ANSWER) + 1)

    def test_stream(self):
        chunks = self.server.stream(CHAT, {"messages": bad_requests.USER})
        self.assertEqual(chunks[-1], "[DONE]")
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(joined(chunks), self.ANSWER)
        self.assertEqual({c["id"] for c in chunks[:-1]}, {chunks[0]["id"]})
        self.assertTrue(all("usage" not in c and c["object"] == "chat.completion.chunk" and len(c["choices"]) == 1 for c in chunks[:-1]))
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks[:-1]].count("stop"), 1)
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "stop")

    def test_usage_only_when_asked(self):
        chunks = self.server.stream(CHAT, {"messages": bad_requests.USER, "stream_options": {"include_usage": True}})
        self.assertEqual((chunks[-1], chunks[-2]["choices"]), ("[DONE]", []))
        self.assertEqual(chunks[-2]["usage"]["completion_tokens"], len(self.ANSWER) + 1)
        self.assertTrue(all(c["usage"] is None for c in chunks[:-2]))
        off = self.server.stream(CHAT, {"messages": bad_requests.USER, "stream_options": {"include_usage": False}})
        self.assertTrue(all("usage" not in c for c in off[:-1]))

    def test_max_tokens_of_one(self):
        for name in ("max_tokens", "max_completion_tokens"):
            chunks = self.server.stream(CHAT, {"messages": bad_requests.USER, name: 1})
            self.assertEqual(joined(chunks), self.ANSWER[:1])
            self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks[:-1]][-1], "length")
        both = self.server.chat(max_tokens=1, max_completion_tokens=2)
        self.assertEqual(both["choices"][0]["message"]["content"], self.ANSWER[:2])

    def test_logprobs_are_the_content(self):
        for fields in ({}, {"stop": "ther"}, {"stop": "e."}, {"max_tokens": 4}):
            body = {"messages": bad_requests.USER, "logprobs": True, "top_logprobs": 3, **fields}
            whole = self.server.chat("hi", **{k: v for k, v in body.items() if k != "messages"})["choices"][0]
            chunks = self.server.stream(CHAT, body)
            streamed = [e for c in chunks[:-1] if c["choices"][0]["logprobs"] for e in c["choices"][0]["logprobs"]["content"]]
            self.assertEqual(streamed, whole["logprobs"]["content"])
            said = bytes(b for entry in streamed for b in entry["bytes"]).decode()
            self.assertEqual(said, whole["message"]["content"])
            self.assertTrue(all(len(e["top_logprobs"]) == 3 and e["top_logprobs"][0]["token"] == e["token"] for e in streamed))
        self.assertIsNone(self.server.chat()["choices"][0]["logprobs"])
        self.assertEqual(self.server.chat(logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_prompt_logprobs(self):
        answer = self.server.chat("hi", prompt_logprobs=1, n=2)
        ids = [259, *b"hi", 257, 260]
        first, *rest = answer["prompt_logprobs"]
        self.assertIsNone(first)
        self.assertEqual([list(report)[0] for report in rest], [str(i) for i in ids[1:]])
        self.assertEqual(rest[2]["257"]["decoded_token"], "<|end|>")
        self.assertTrue(all("prompt_logprobs" not in choice for choice in answer["choices"]))
        self.assertEqual(answer["choices"][1]["message"]["content"], self.ANSWER)
        only = self.server.chat("hi", prompt_logprobs=0, max_tokens=0)
        self.assertEqual((only["choices"][0]["message"]["content"], len(only["prompt_logprobs"])), ("", len(ids)))
        self.assertNotIn("prompt_logprobs", self.server.chat("hi"))

    def test_choices(self):
        answer = self.server.chat(n=3)
        self.assertEqual([c["message"]["content"] for c in answer["choices"]], [self.ANSWER] * 3)
        self.assertEqual(answer["usage"]["prompt_tokens"], len("hello") + 3)
        chunks = self.server.stream(CHAT, {"messages": bad_requests.USER, "n": 3})
        self.assertEqual([joined(chunks, i) for i in range(3)], [self.ANSWER] * 3)
        roles = [c["choices"][0]["index"] for c in chunks[:-1] if "role" in c["choices"][0]["delta"]]
        self.assertEqual(roles, [0, 1, 2])

    def test_sampling_that_leaves_one_token(self):
        # The scripted token has a logit of 40: nothing but the widest temperature can choose another one.
        for fields in ({"temperature": 0}, {"temperature": 1e-9}, {"temperature": 1e-5}, {"temperature": 1e-4}, {"temperature": 0.01}, {"top_p": 0},
                       {"top_k": 1}, {"min_p": 1}, {"seed": -5}, {"seed": 7, "temperature": 1.0}, {"temperature": None, "stop": None, "n": None}):
            self.assertEqual(self.server.chat(**fields)["choices"][0]["message"]["content"], self.ANSWER, fields)

    def test_a_seed_is_kept(self):
        fields = {"temperature": 1e9, "max_tokens": 12, "ignore_eos": True, "logprobs": True}
        tokens = lambda **more: [e["token"] for e in self.server.chat(**fields, **more)["choices"][0]["logprobs"]["content"]]  # noqa: E731
        self.assertEqual(tokens(seed=42), tokens(seed=42))
        self.assertNotEqual(tokens(seed=42), tokens(seed=43))
        self.assertNotEqual(tokens(), tokens())

    def test_values_that_change_nothing_are_accepted(self):
        answer = self.server.chat(user="u", metadata={"a": "b"}, frequency_penalty=0, presence_penalty=0.0, logit_bias={}, response_format={"type": "text"},
                                  tools=[], tool_choice="none", store=False, service_tier="auto", parallel_tool_calls=True, repetition_penalty=1,
                                  priority=3, cache_salt="x", chat_template_kwargs={"enable_thinking": False}, model="scripted")
        self.assertEqual(answer["choices"][0]["message"]["content"], self.ANSWER)

    def test_whole_conversations(self):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "content": "r", "tool_call_id": "1"}, {"role": "developer", "content": "d", "name": "n"}]
        answer = self.server.post(CHAT, {"messages": messages}).json()
        self.assertEqual(answer["choices"][0]["message"]["content"], self.ANSWER)
        # The template does not know developers; what was refused was said.
        messages = [{"role": "developer", "content": "d"}, {"role": "assistant", "content": None, "refusal": "no"}]
        rendered = self.server.post("/apply-template", {"messages": messages}).json()["prompt"]
        self.assertEqual(rendered, "<|system|>d<|end|><|assistant|>no<|end|><|assistant|>")

    def test_cached_tokens(self):
        content = "the same long beginning " * 8
        first, second = self.server.chat(content), self.server.chat(content)
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreater(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(first["choices"][0]["message"], second["choices"][0]["message"])
        salted = self.server.chat(content, cache_salt="other")
        self.assertEqual(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0)


class OddRequests(Case):
    def test_each_has_its_answer(self):
        for path, body, text in odd_requests.CASES:
            with self.subTest(path=path, body=str(body)[:200]):
                response = self.server.post(path, body)
                self.assertEqual(response.status, 200, response.body)
                choice = response.json()["choices"][0]
                self.assertEqual(choice["text"] if path == TEXT else choice["message"]["content"], text)
                if isinstance(body, dict):
                    self.assertEqual(joined(self.server.stream(path, {**body, "stream_options": {"include_usage": True}})), text)


class BadRequests(Case):
    def test_each_has_its_error_and_harms_nobody(self):
        said, stop = [], threading.Event()

        def neighbour():
            while not stop.is_set():
                said.append(joined(self.server.stream(TEXT, {"prompt": letter(9), "max_tokens": 100})))

        thread = threading.Thread(target=neighbour)
        thread.start()
        for path, body, status, code, param, words in bad_requests.CASES:
            with self.subTest(path=path, body=str(body)[:100]):
                response = self.server.post(path, body)
                self.refused(response, status, code, param)
                self.assertIn(words, response.error["message"])
                self.assertTrue(response.headers["Content-Type"].startswith("application/json"))
        stop.set()
        thread.join()
        self.assertEqual(set(said), {LONG[:100]})
        self.assertGreaterEqual(len(bad_requests.CASES), 200)

    def test_a_nan_ends_its_own_request(self):
        neighbour = self.server.open_stream(TEXT, {"prompt": letter(9), "max_tokens": FOREVER})
        before = self.server.metric("deepinfer:nan_rows_total")
        response = self.server.post(TEXT, {"prompt": letter(10)})
        self.refused(response, 500, "internal_error")
        self.assertIn("nan_logits", response.error["message"])
        chunks = self.server.stream(TEXT, {"prompt": letter(10)})
        self.assertEqual(joined(chunks[:-1]), SCRIPTS[10][:4])
        self.assertEqual(chunks[-1]["error"]["code"], "internal_error")
        self.assertNotIn("[DONE]", chunks)
        self.server.wait_for_metric("deepinfer:nan_rows_total", before + 2)
        data = b""
        while b"[DONE]" not in data:
            data += neighbour.recv(65536)
        neighbour.close()
        self.assertIn(b'"finish_reason":"length"', data)


if __name__ == "__main__":
    unittest.main()
