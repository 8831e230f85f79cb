#!/usr/bin/env python3
"""The official openai client against the server: chats, streams, choices, log-probabilities, errors, and a real model.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/http/openai_test.py [-v] [Class.test]
"""
import asyncio
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import venv_packages  # noqa: E402

venv_packages.require("openai")
import openai  # noqa: E402
from http_test import SIZES, Case  # noqa: E402
from server import LONG, ROOT, SCRIPTS, Server, letter  # noqa: E402

REAL = Path(os.environ.get("DEEPINFER_MODELS_DIR") or ROOT / "build/assets") / "smollm2"
HELLO = [{"role": "user", "content": "hello"}]


class Scripted(Case):
    ARGUMENTS = [*SIZES, "--api-key", "secret"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="secret", max_retries=0)

    def chat(self, **fields):
        return self.client.chat.completions.create(model="scripted", messages=HELLO, **fields)

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["scripted"])
        self.assertEqual(self.client.models.retrieve("scripted").owned_by, "deepinfer")

    def test_chat(self):
        answer = self.chat(max_completion_tokens=5, temperature=0, seed=1)
        self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), (SCRIPTS[3][:5], "length"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 5)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_stream(self):
        text, usage = "", None
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
        self.assertEqual((text, usage.completion_tokens), (SCRIPTS[3], len(SCRIPTS[3]) + 1))
        with self.client.chat.completions.stream(model="scripted", messages=HELLO) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.content, SCRIPTS[3])

    def test_choices_and_logprobs(self):
        answer = self.chat(n=2, logprobs=True, top_logprobs=2)
        self.assertEqual([c.message.content for c in answer.choices], [SCRIPTS[3]] * 2)
        entries = answer.choices[1].logprobs.content
        self.assertEqual(bytes(b for e in entries for b in e.bytes).decode(), SCRIPTS[3])
        self.assertTrue(all(len(e.top_logprobs) == 2 and e.logprob <= 0 for e in entries))

    def test_completions(self):
        answer = self.client.completions.create(model="scripted", prompt=[letter(2), letter(1)], logprobs=1, stop="own")
        self.assertEqual([c.text for c in answer.choices], ["The quick br", SCRIPTS[1]])
        self.assertEqual(answer.choices[1].logprobs.tokens, list(SCRIPTS[1]))
        self.assertEqual("".join(c.choices[0].text for c in self.client.completions.create(model="scripted", prompt=letter(2), stream=True)), SCRIPTS[2])

    def test_errors(self):
        cases = ((openai.BadRequestError, {"temperature": -1}, "invalid_value", "temperature"), (openai.NotFoundError, {"model": "x"}, "model_not_found", "model"),
                 (openai.BadRequestError, {"max_tokens": 10 ** 9}, "context_length_exceeded", "max_tokens"),
                 (openai.BadRequestError, {"extra_body": {"no_such": 1}}, "unknown_parameter", "no_such"),
                 (openai.BadRequestError, {"stream": True, "n": 0}, "invalid_value", "n"))
        for kind, fields, code, param in cases:
            with self.assertRaises(kind) as caught:
                self.client.chat.completions.create(**{"model": "scripted", "messages": HELLO, **fields})
            self.assertEqual((caught.exception.code, caught.exception.param), (code, param))
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()
        with self.assertRaises(openai.APIError) as caught:  # in the middle of a stream
            for _ in self.client.completions.create(model="scripted", prompt=letter(10), stream=True):
                pass
        self.assertIn("nan_logits", str(caught.exception))

    def test_many_at_once_and_some_that_leave(self):
        async def one(client, i):
            stream = await client.completions.create(model="scripted", prompt=letter(9), stream=True, max_tokens=60)
            text = ""
            async for chunk in stream:
                text += chunk.choices[0].text
                if i % 4 == 0 and text:
                    await stream.close()
                    return None
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="secret") as client:
                return await asyncio.gather(*(one(client, i) for i in range(32)))

        self.assertEqual(asyncio.run(all_of_them()), [None if i % 4 == 0 else LONG[:60] for i in range(32)])
        self.server.wait_for_metric("vllm:num_requests_running", 0)


class Real(unittest.TestCase):
    def test_a_chat_with_smollm2(self):
        if not REAL.is_dir():
            if os.environ.get("DEEPINFER_REQUIRE_ASSETS") == "1":
                self.fail(f"{REAL} is missing")
            self.skipTest("smollm2 is not fetched")
        with Server([REAL, "--served-model-name", "smollm2", "--max-model-len", "1024", "--max-num-seqs", "4", "--max-num-batched-tokens", "256"]) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
            ask = {"model": "smollm2", "temperature": 0, "max_tokens": 24, "messages": [{"role": "user", "content": "Name the capital of France."}]}
            answer = client.chat.completions.create(**ask, logprobs=True)
            self.assertIn("Paris", answer.choices[0].message.content)
            said = bytes(b for e in answer.choices[0].logprobs.content for b in e.bytes).decode()
            self.assertEqual(said, answer.choices[0].message.content)
            streamed = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(**ask, stream=True))
            self.assertEqual(streamed, answer.choices[0].message.content)
            again = client.chat.completions.create(**ask, n=2)
            self.assertEqual([c.message.content for c in again.choices], [streamed] * 2)
            self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 0)
            self.prompt_logprobs(client)
            self.structured(client)
            self.assertEqual(server.metric("deepinfer:compiles_after_ready"), 0)

    def prompt_logprobs(self, client):
        ask = {"model": "smollm2", "prompt": "The capital of France is Paris, and the capital of Italy is", "temperature": 0, "max_tokens": 4}
        echoed = client.completions.create(**ask, echo=True, logprobs=5).choices[0].logprobs
        ids = client.completions.create(**ask, extra_body={"return_token_ids": True}).choices[0].prompt_token_ids
        for _ in range(2):  # also where the prefix is cached
            choice = client.completions.create(**ask, extra_body={"prompt_logprobs": 5}).choices[0]
            first, *rest = choice.prompt_logprobs
            self.assertIsNone(first)
            self.assertEqual([list(report)[0] for report in rest], [str(i) for i in ids[1:]])
            for n, (token, report) in enumerate(zip(ids[1:], rest), start=1):
                self.assertEqual(report[str(token)]["logprob"], echoed.token_logprobs[n])
                self.assertEqual(sorted(r["logprob"] for r in report.values()), sorted(echoed.top_logprobs[n].values()))
                by_rank = sorted(report.values(), key=lambda r: r["rank"])
                self.assertEqual([r["rank"] for r in by_rank][:5], [1, 2, 3, 4, 5])
                self.assertEqual([r["logprob"] for r in by_rank], sorted((r["logprob"] for r in by_rank), reverse=True))
        self.assertEqual(choice.text, "".join(echoed.tokens[len(ids):]))
        word = choice.text.split()[0]
        other = client.completions.create(**ask, extra_body={"bad_words": [word]}).choices[0].text
        self.assertNotIn(word, other)

    def structured(self, client):
        ask = {"model": "smollm2", "temperature": 0, "max_tokens": 64, "messages": [{"role": "user", "content": "Describe a cat."}]}
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "legs": {"type": "integer", "minimum": 0, "maximum": 9},
                                                   "wild": {"type": "boolean"}}, "required": ["name", "legs", "wild"], "additionalProperties": False}
        asked = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": schema}}
        text = client.chat.completions.create(**ask, response_format=asked).choices[0].message.content
        value = json.loads(text)
        self.assertEqual(list(value), ["name", "legs", "wild"])
        self.assertLessEqual(len(value["name"]), 12)
        self.assertIn(value["legs"], range(10))
        self.assertIsInstance(value["wild"], bool)
        self.assertEqual(text, json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        choice = client.chat.completions.create(**ask, extra_body={"structured_outputs": {"choice": ["dog", "cat"]}})
        self.assertIn(choice.choices[0].message.content, ("dog", "cat"))
        number = client.chat.completions.create(**ask, extra_body={"guided_regex": "[0-9]{3}"}, n=2)
        self.assertTrue(all(c.message.content.isdigit() and len(c.message.content) == 3 for c in number.choices))
        with self.assertRaises(openai.BadRequestError) as refused:
            client.chat.completions.create(**ask, response_format={"type": "json_schema", "json_schema": {
                "name": "x", "schema": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}})
        self.assertIn("/properties/a", refused.exception.message)
        biased = client.chat.completions.create(**ask, extra_body={"allowed_token_ids": [198]}, logprobs=True)
        self.assertEqual(set(biased.choices[0].message.content), {"\n"})


if __name__ == "__main__":
    unittest.main()
