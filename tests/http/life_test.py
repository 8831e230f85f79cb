#!/usr/bin/env python3
"""The server's life and its clients' manners: keys, origins, raw HTTP, clients that leave, full queues, signals, crashes.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/http/life_test.py [-v] [Class.test]

Standard library only; no test depends on how long anything takes.
"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from http_test import CHAT, SIZES, TEXT, Case  # noqa: E402
from server import LONG, PROGRAM, SCRIPTS, Server, joined, letter, raw_post, read_all  # noqa: E402

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
# Ends when the context is full.
ENDLESS = {"prompt": letter(9), "ignore_eos": True}


class Keys(Case):
    ARGUMENTS = [*SIZES, "--api-key", "first", "--api-key", "second,third", "--allowed-origins", "https://a.example"]

    def test_keys(self):
        for key in ("first", "second", "third"):
            self.assertEqual(self.server.get("/v1/models", Authorization=f"Bearer {key}").status, 200)
            self.assertEqual(self.server.get("/v1/models", Authorization=f"bearer {key}").status, 200)
        for headers in ({}, {"Authorization": "Bearer firs"}, {"Authorization": "Bearer first "}, {"Authorization": "Bearer "}, {"Authorization": "first"},
                        {"Authorization": "Basic first"}, {"Authorization": "Bearer FIRST"}):
            response = self.server.get("/v1/models", **headers)
            if headers.get("Authorization") == "Bearer first ":
                continue  # HTTP strips white space around a header's value
            self.refused(response, 401, "invalid_api_key")
            self.assertEqual(response.headers["WWW-Authenticate"], "Bearer")
        for path in (CHAT, TEXT, "/tokenize", "/detokenize", "/apply-template"):
            self.refused(self.server.post(path, {}), 401, "invalid_api_key")
        for path in ("/", "/health", "/version", "/metrics"):
            self.assertEqual(self.server.get(path).status, 200)

    def test_a_body_is_not_read_before_the_key(self):
        connection = self.server.send_raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n")
        self.assertTrue(connection.recv(65536).startswith(b"HTTP/1.1 401 "))
        connection.close()

    def test_origins(self):
        allowed = self.server.get("/health", Origin="https://a.example")
        self.assertEqual((allowed.headers["Access-Control-Allow-Origin"], allowed.headers["Vary"]), ("https://a.example", "Origin"))
        self.assertIsNone(self.server.get("/health", Origin="https://b.example").headers["Access-Control-Allow-Origin"])
        ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        yes = self.server.request("OPTIONS", CHAT, headers={"Origin": "https://a.example", **ask})
        self.assertEqual((yes.status, yes.headers["Access-Control-Allow-Origin"], yes.body), (204, "https://a.example", b""))
        self.assertIn("Authorization", yes.headers["Access-Control-Allow-Headers"])
        no = self.server.request("OPTIONS", CHAT, headers={"Origin": "https://b.example", **ask})
        self.assertIsNone(no.headers["Access-Control-Allow-Methods"])
        refused = self.server.request("GET", "/v1/models", headers={"Origin": "https://a.example"})  # pages may read errors, too
        self.assertEqual((refused.status, refused.headers["Access-Control-Allow-Origin"]), (401, "https://a.example"))


class RawHttp(Case):
    ARGUMENTS = [*SIZES, "--max-body-mib", "1"]

    def answer(self, data):
        connection = self.server.send_raw(data)
        got = read_all(connection)
        connection.close()
        return got

    def test_what_is_no_http(self):
        for data in (b"\r\n\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                     b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
            got = self.answer(data + b"\r\n\r\n")
            if got:
                self.assertTrue(got.startswith(b"HTTP/1.1 400 "), (data, got))
                self.assertEqual(json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["code"], "invalid_request")
        self.still_answers()

    def test_limits(self):
        long_header = self.answer(b"GET /health HTTP/1.1\r\nX-A: " + b"x" * 40000 + b"\r\n\r\n")
        self.assertTrue(long_header.startswith(b"HTTP/1.1 431 "), long_header[:100])
        self.assertIn(b'"code":"header_too_large"', long_header)
        many = self.answer(b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(9000)) + b"\r\n")
        self.assertTrue(many.startswith(b"HTTP/1.1 431 "), many[:100])
        # Larger than any socket buffer: the refusal arrives though the client is still sending.
        refused = self.server.post(TEXT, b'{"prompt": "' + b"x" * (20 << 20) + b'"}')
        self.refused(refused, 413, "request_too_large")
        chunked = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + b"x" * 0x100000 + b"\r\n1\r\nx\r\n0\r\n\r\n"
        self.assertTrue(self.answer(chunked).startswith(b"HTTP/1.1 413 "))
        self.assertEqual(self.server.post(TEXT, b" " * ((1 << 20) - 40) + b'{"prompt": "b"}').status, 200)
        self.still_answers()

    def test_old_and_lasting_connections(self):
        body = json.dumps({"prompt": letter(2), "stream": True}).encode()
        old = self.answer(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, data = old.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"chunked", head)
        self.assertTrue(data.endswith(b"data: [DONE]\n\n"))
        one = raw_post(TEXT, {"prompt": letter(2)})
        connection = self.server.send_raw(one)
        for _ in range(3):  # the next request on the same connection, after the answer
            got = b""
            while SCRIPTS[2].encode() not in got or not got.endswith(b"}"):
                got += connection.recv(65536)
            connection.sendall(one)
        connection.close()
        pipelined = self.answer(one + one + raw_post(TEXT, {"prompt": letter(12), "stream": True}) + raw_post(TEXT, {"prompt": letter(1)}, "Connection: close\r\n"))
        self.assertEqual(pipelined.count(b"HTTP/1.1 200 OK"), 4)
        self.assertEqual(pipelined.count(SCRIPTS[2].encode()), 2)
        self.assertLess(pipelined.index(b"[DONE]"), pipelined.index(SCRIPTS[1].encode()))

    def test_expect_continue(self):
        body = json.dumps({"prompt": letter(2)}).encode()
        connection = self.server.send_raw(
            b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(body)
        self.assertIn(SCRIPTS[2].encode(), read_all(connection))
        connection.close()

    def test_a_request_in_small_pieces(self):
        data = raw_post(TEXT, {"prompt": letter(2)}, "Connection: close\r\n")
        connection = socket.create_connection(("127.0.0.1", self.server.port))
        for i in range(0, len(data), 7):
            connection.sendall(data[i:i + 7])
            time.sleep(0)
        self.assertIn(SCRIPTS[2].encode(), read_all(connection))
        connection.close()


class Leaving(Case):
    ARGUMENTS = ["--max-model-len", "4000", "--max-num-seqs", "2", "--max-num-batched-tokens", "128", "--max-queued-requests", "2", "--kv-cache-memory", "64M"]

    def reset(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def idle(self):
        self.server.wait_for_metric(RUNNING, 0)
        self.server.wait_for_metric(WAITING, 0)

    def test_a_client_that_leaves_ends_its_request(self):
        leave = {"closed": lambda c: c.close(), "reset": self.reset, "half closed": lambda c: c.shutdown(socket.SHUT_WR)}
        for name, go in leave.items():
            for stream in (True, False):
                with self.subTest(how=name, stream=stream):
                    aborted = self.server.metric("vllm:request_success_total", finished_reason="abort")
                    connection = self.server.send_raw(raw_post(TEXT, {**ENDLESS, "stream": stream}))
                    if stream:
                        connection.recv(1000)
                    self.server.wait_for_metric(RUNNING, 1)
                    go(connection)
                    self.idle()
                    self.server.wait_for_metric("vllm:request_success_total", aborted + 1, finished_reason="abort")
                    connection.close()
        self.still_answers()

    def test_a_client_that_leaves_the_queue(self):
        running = [self.server.open_stream(TEXT, ENDLESS) for _ in range(2)]
        self.server.wait_for_metric(RUNNING, 2)
        waiting = [self.server.open_stream(TEXT, ENDLESS) for _ in range(2)]
        self.server.wait_for_metric(WAITING, 2)
        waiting[0].close()
        self.server.wait_for_metric(WAITING, 1)
        self.assertEqual(self.server.metric(RUNNING), 2)
        for connection in (*running, waiting[1]):
            connection.close()
        self.idle()

    def test_a_full_queue(self):
        held = [self.server.open_stream(TEXT, ENDLESS) for _ in range(2)]
        self.server.wait_for_metric(RUNNING, 2)
        held += [self.server.open_stream(TEXT, ENDLESS) for _ in range(2)]
        self.server.wait_for_metric(WAITING, 2)
        for fields in ({}, {"stream": True}, {"prompt": ["a", "b"]}, {"n": 5}):
            response = self.server.post(TEXT, {**ENDLESS, **fields})
            self.refused(response, 429, "rate_limit_exceeded")
            self.assertEqual(response.error["type"], "rate_limit_error")
            self.assertGreaterEqual(int(response.headers["Retry-After"]), 1)
        self.assertEqual(self.server.get("/health").status, 200)
        for connection in held:
            connection.close()
        self.idle()
        self.still_answers()

    def test_a_reader_that_does_not_read(self):
        # Its tokens are kept for it, at most those of its context; nobody waits for it.
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.server.port))
        slow.sendall(raw_post(TEXT, {**ENDLESS, "max_tokens": 3500, "logprobs": 5, "stream": True}))
        ended = self.server.metric("vllm:request_success_total", finished_reason="length")
        self.assertEqual(joined(self.server.stream(TEXT, {**ENDLESS, "max_tokens": 100})), LONG[:100])
        self.server.wait_for_metric("vllm:request_success_total", ended + 2, finished_reason="length")
        data = b""
        while b"[DONE]" not in data:
            data += slow.recv(4096)
        slow.close()
        text = "".join(json.loads(line[6:])["choices"][0]["text"] for line in data.decode().replace("\r", "").split("\n")
                       if line.startswith("data: {") and line.endswith("}"))
        self.assertGreater(len(text), 1000)

    def test_many_that_connect_and_drop(self):
        before = self.server.open_files()
        for i in range(500):
            connection = socket.create_connection(("127.0.0.1", self.server.port))
            if i % 4 == 1:
                connection.sendall(b"POST /v1/comp")
            elif i % 4 == 2:
                connection.sendall(raw_post(TEXT, {**ENDLESS, "stream": True})[:-3])
            elif i % 4 == 3:
                connection.sendall(raw_post(TEXT, {**ENDLESS, "stream": True}))
            self.reset(connection) if i % 2 else connection.close()
        self.idle()
        while self.server.open_files() > before + 1:  # the connection that asks for metrics may still be closing
            time.sleep(0.01)
        while self.server.post(TEXT, {"prompt": letter(2)}).status == 429:  # the last of them were still being taken in
            time.sleep(0.01)
        self.still_answers()

    def test_256_streams_at_once(self):
        self.server.close()
        cls = type(self)
        cls.server = Server([*self.model, "--max-model-len", "512", "--max-num-seqs", "32", "--max-num-batched-tokens", "128"], cache=self.folder / "cache")
        texts = [None] * 256

        def client(i):
            chunks = self.server.stream(TEXT, {"prompt": letter(9) * (1 + i % 3), "max_tokens": 30 + i % 7})
            texts[i] = joined(chunks)

        threads = [threading.Thread(target=client, args=(i,)) for i in range(256)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [LONG[:30 + i % 7] for i in range(256)])
        self.assertEqual(self.server.metric("deepinfer:compiles_after_ready"), 0)
        self.server.close()
        cls.server = Server([*self.model, *self.ARGUMENTS], cache=self.folder / "cache")


class Life(Case):
    ARGUMENTS = ["--max-model-len", "4000", "--max-num-seqs", "2", "--max-num-batched-tokens", "128"]

    def start(self, *more, **options):
        server = Server([*self.model, *self.ARGUMENTS, *more], cache=self.folder / "cache", **options)
        self.addCleanup(server.close)
        return server

    def test_the_port_is_open_while_the_model_loads(self):
        pipe = self.folder / "slow.json"
        os.mkfifo(pipe)
        server = Server([f"synthetic:{pipe}", *self.model[1:], *self.ARGUMENTS], wait=False)
        self.addCleanup(server.close)
        health = server.get("/health")
        self.assertEqual((health.status, health.json()), (503, {"status": "loading"}))
        self.refused(server.post(TEXT, {"prompt": "x"}), 503, "model_loading")
        self.assertEqual(server.post(TEXT, {"prompt": "x"}).headers["Retry-After"], "5")
        self.refused(server.get("/v1/models"), 503, "model_loading")
        self.assertEqual((server.get("/version").status, server.get("/metrics").status, server.get("/").status), (200, 200, 200))
        server.process.terminate()
        self.assertEqual(server.process.wait(), 0)

    def test_a_signal_lets_requests_end(self):
        server = self.start("--shutdown-timeout", "1000")
        stream = server.open_stream(TEXT, {**ENDLESS, "max_tokens": 3000})
        data = stream.recv(1000)
        server.process.terminate()
        while server.get("/health").json()["status"] != "draining":
            pass
        health = server.get("/health")
        self.assertEqual((health.status, health.headers["Retry-After"]), (503, "5"))
        self.refused(server.post(TEXT, {"prompt": "x"}), 503, "server_draining")
        data += read_all(stream)
        stream.close()
        self.assertIn(b"data: [DONE]", data)
        self.assertIn(b'"finish_reason":"length"', data)
        self.assertEqual(server.process.wait(), 0)

    def test_requests_that_take_too_long_are_told(self):
        for more, signals in ((["--shutdown-timeout", "0"], 1), (["--shutdown-timeout", "100000"], 2)):
            server = self.start(*more)
            stream = server.open_stream(TEXT, ENDLESS)
            plain = server.send_raw(raw_post(TEXT, ENDLESS))
            server.wait_for_metric(RUNNING, 2)
            server.process.terminate()
            if signals == 2:
                while not any("shutting down" in line for line in server.log):
                    time.sleep(0.01)
                server.process.send_signal(signal.SIGINT)
            data = read_all(stream)
            self.assertIn(b'"code":"server_unavailable"', data)
            self.assertNotIn(b"[DONE]", data)
            self.assertTrue(read_all(plain).startswith(b"HTTP/1.1 503 "))
            stream.close()
            plain.close()
            self.assertEqual(server.process.wait(), 0)

    def test_killed_and_started_again_on_the_same_cache(self):
        expected = self.server.complete(letter(2), logprobs=3)["choices"]
        for _ in range(3):
            server = self.start(wait=False)
            time.sleep(0.02)
            server.process.kill()
            server.process.wait()
        server = self.start()
        stream = server.open_stream(TEXT, ENDLESS)
        stream.recv(100)
        server.process.kill()
        server.process.wait()
        stream.close()
        again = self.start("--verbose")
        self.assertTrue(any(" 0 compiled" in line for line in again.log), again.log)
        self.assertEqual(again.complete(letter(2), logprobs=3)["choices"], expected)

    def test_starts_that_fail(self):
        for arguments, words in ((["--port", str(self.server.port)], "--port: cannot listen on 127.0.0.1"), (["--port", "0", "--host", "no.such.host.invalid"], "--host"),
                                 (["--port", "0", "--chat-template", __file__], "life_test.py")):
            done = subprocess.run([PROGRAM, "serve", *self.model, *self.ARGUMENTS, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(words, done.stderr.splitlines()[-1])

    def test_config_and_environment(self):
        config = self.folder / "serve.toml"
        config.write_text(f'model = "{self.model[0]}"\ntokenizer = "{self.model[2]}"\nserved-model-name = ["one", "two"]\nmax-model-len = 100\n'
                          'max-num-seqs = 2\nmax-num-batched-tokens = 128\nthreads = 1\ndisable-access-log = true\nenable-prefix-caching = false\n')
        server = Server(["--config", config, "--max-model-len", "120"], cache=self.folder / "cache", env={"DEEPINFER_MAX_NUM_SEQS": "3", "DEEPINFER_API_KEY": "k"})
        self.addCleanup(server.close)
        self.assertEqual(server.get("/v1/models").status, 401)
        listing = server.get("/v1/models", Authorization="Bearer k").json()["data"]
        self.assertEqual([(m["id"], m["max_model_len"]) for m in listing], [("one", 120), ("two", 120)])
        self.assertFalse(any("/v1/models" in line for line in server.log))
        for text, words in (("colour = 1\n", "colour"), ("port = \"x\"\n", "--port"), ("[other]\nport = 1\n", "[other]")):
            config.write_text(f'model = "{self.model[0]}"\n' + text)
            done = subprocess.run([PROGRAM, "serve", "--config", config], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(subprocess.run([PROGRAM, "serve"], capture_output=True).returncode, 2)

    def test_dry_run(self):
        done = subprocess.run([PROGRAM, "serve", *self.model, *self.ARGUMENTS, "--dry-run"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("weights", "KV cache and states", "step buffers", "largest context that fits", "4096 tokens", "4000 tokens",
                      " thread", "pinned", " memory node"):
            self.assertIn(words, done.stdout)
        much = subprocess.run([PROGRAM, "serve", *self.model, "--kv-cache-memory", "900G", "--dry-run"], capture_output=True, text=True)
        self.assertEqual(much.returncode, 1)
        self.assertIn("tokens of KV cache fit", much.stderr)

    def test_metrics(self):
        generated = self.server.metric("vllm:generation_tokens_total")
        self.server.complete(letter(2))
        self.server.wait_for_metric("vllm:generation_tokens_total", generated + len(SCRIPTS[2]) + 1)
        text = self.server.get("/metrics").body.decode()
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc", "prefix_cache_queries_total",
                     "prefix_cache_hits_total", "prompt_tokens_total", "num_preemptions_total", "time_to_first_token_seconds_bucket",
                     "inter_token_latency_seconds_bucket", "time_per_output_token_seconds_bucket", "e2e_request_latency_seconds_sum",
                     "request_queue_time_seconds_count", "request_prompt_tokens_bucket", "iteration_tokens_total_sum", "cache_config_info"):
            self.assertRegex(text, rf'\nvllm:{name}{{[^}}]*model_name="scripted"')
        for name in ("compiles_after_ready", "step_host_overhead_seconds_count", "bucket_fill_bucket", "nan_rows_total", "grammar_cache_hits_total",
                     "grammar_cache_misses_total", "http_responses_total"):
            self.assertRegex(text, rf"\ndeepinfer:{name}{{")
        for reason in ("stop", "length", "abort", "error"):
            self.assertRegex(text, rf'\nvllm:request_success_total{{[^}}]*finished_reason="{reason}"')
        manual = (Path(__file__).resolve().parents[2] / "docs/server.md").read_text()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                self.assertIn(f"`{line.split()[2]}`", manual)


if __name__ == "__main__":
    unittest.main()
