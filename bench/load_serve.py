#!/usr/bin/env python3
"""Load on a server: many clients that stream, and clients that connect and drop, for as long as you like.

    bench/load_serve.py [--clients 256] [--droppers 8] [--seconds 60] [--max-tokens 64] [--url http://HOST:PORT] [-- SERVE ARGUMENTS...]

Without --url it starts `build/release/deepinfer serve` with the arguments after -- (default: smollm2 with small graphs) and
watches its memory. Prints one JSON object: requests, errors by kind, tokens per second, latencies, memory before, at most and after.
Standard library only.
"""
import argparse
import collections
import http.client
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ["smollm2", "--max-num-seqs", "32", "--max-model-len", "1024"]


def start(arguments):
    program = os.environ.get("DEEPINFER_BIN", str(ROOT / "build/release/deepinfer"))
    process = subprocess.Popen([program, "serve", *arguments, "--port", "0", "--disable-access-log"], stderr=subprocess.PIPE, text=True)
    url = None
    for line in process.stderr:
        match = re.search(r"ready: .* (http://\S+)$", line)
        if match:
            url = match[1]
            break
        sys.stderr.write(line)
    if url is None:
        sys.exit("the server did not start")
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
    return process, url


def resident_mib(process):
    if process is None:
        return None
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024


class Load:
    def __init__(self, url, options):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.options = options
        self.end = time.monotonic() + options.seconds
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.first, self.whole = [], []

    def body(self, generator):
        words = " ".join(generator.choice(("red", "green", "blue", "seven", "river", "stone")) for _ in range(generator.randrange(3, 40)))
        return json.dumps({"messages": [{"role": "user", "content": f"Say something about: {words}"}], "stream": True,
                           "max_tokens": self.options.max_tokens, "stream_options": {"include_usage": True}}).encode()

    def one(self, generator):
        start = time.monotonic()
        connection = http.client.HTTPConnection(*self.address)
        connection.request("POST", "/v1/chat/completions", self.body(generator), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            response.read()
            return response.status, None
        first, done, tokens = None, False, 0
        for line in response:
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]\n":
                done = True
                continue
            event = json.loads(line[6:])
            if "error" in event:
                return "error event", None
            if first is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                first = time.monotonic() - start
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
        connection.close()
        return ("ok" if done else "cut short"), (tokens, first, time.monotonic() - start)

    def client(self, seed):
        generator = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                result, numbers = self.one(generator)
            except OSError as error:
                result, numbers = type(error).__name__, None
            with self.lock:
                self.counts[str(result)] += 1
                if numbers and result == "ok":
                    self.counts["tokens"] += numbers[0]
                    self.whole.append(numbers[2])
                    if numbers[1] is not None:
                        self.first.append(numbers[1])

    def dropper(self, seed):
        generator = random.Random(seed)
        while time.monotonic() < self.end:
            body = self.body(generator)
            data = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            connection = socket.create_connection(self.address)
            connection.sendall(data[:generator.choice((0, 20, len(data) - 1, len(data), len(data)))])
            time.sleep(generator.random() * 0.05)
            if generator.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            with self.lock:
                self.counts["dropped"] += 1


def percentile(values, share):
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3) if values else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--droppers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--url")
    parser.add_argument("serve", nargs="*", help="arguments of serve, after --")
    options = parser.parse_args()
    process, url = (None, options.url) if options.url else start(options.serve or DEFAULT)
    warm = Load(url, options)
    warm.one(random.Random(0))
    load = Load(url, options)
    before, most = resident_mib(process), 0
    threads = [threading.Thread(target=load.client, args=(i,)) for i in range(options.clients)]
    threads += [threading.Thread(target=load.dropper, args=(-1 - i,)) for i in range(options.droppers)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, resident_mib(process) or 0)
        time.sleep(0.2)
    took = time.monotonic() - begin
    time.sleep(1)
    after = resident_mib(process)
    tokens = load.counts.pop("tokens", 0)
    print(json.dumps({"seconds": round(took, 1), "counts": dict(load.counts), "tokens_per_second": round(tokens / took, 1),
                      "first_token_s": {"p50": percentile(load.first, 0.5), "p99": percentile(load.first, 0.99)},
                      "whole_s": {"p50": percentile(load.whole, 0.5), "p99": percentile(load.whole, 0.99)},
                      "memory_mib": {"before": before and round(before, 1), "most": round(most, 1), "after": after and round(after, 1)}}))
    if process:
        process.terminate()
        return process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
