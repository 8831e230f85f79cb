#!/usr/bin/env python3
"""What DeepInfer's server costs: the same requests over HTTP and through the engine alone, in turns.

    overhead_serve.py [--model smollm2] [--clients 32] [--requests-per-client 3] [--rounds 3] [--flags "..."]

The client is as cheap as can be, one thread that only looks for the end of each answer, because it runs on the CPUs that the model
needs. Prompts of --input-len token ids that share nothing, answers of --output-len tokens, streamed, greedy. Prints output tokens
per second of both in each round and the median of how much less the server delivers. Standard library only.
"""
import argparse
import json
import os
import selectors
import socket
import statistics
import time

from compare import ROOT, run
from load_serve import start


class Client:
    """One connection, kept alive: a request, its answer to the end, the next."""

    def __init__(self, address, bodies):
        self.socket, self.bodies, self.tail = socket.create_connection(address), bodies, b""
        self.send()

    def send(self):
        body = json.dumps(self.bodies.pop()).encode()
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                            % len(body) + body)

    def read(self):
        """False when there is nothing left to ask."""
        data = self.socket.recv(1 << 16)
        if not data or data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"overhead_serve: the server answered {data[:300]!r}")
        self.tail = (self.tail + data)[-64:]
        if b"data: [DONE]" not in self.tail:
            return True
        self.tail = b""
        if self.bodies:
            self.send()
            return True
        return False


def over_http(a, url, seed):
    host, port = url.removeprefix("http://").split(":")
    bodies = [{"prompt": [(seed + 7919 * i + 31 * k) % 1000 + 100 for k in range(a.input_len)], "max_tokens": a.output_len,
               "ignore_eos": True, "temperature": 0, "stream": True, "cache_salt": f"{seed}-{i}"}
              for i in range(a.clients * a.requests_per_client)]
    begin, tokens = time.monotonic(), len(bodies) * a.output_len
    selector = selectors.DefaultSelector()
    for _ in range(a.clients):
        client = Client((host, int(port)), bodies)
        selector.register(client.socket, selectors.EVENT_READ, client)
    while selector.get_map():
        for key, _ in selector.select():
            if not key.data.read():
                selector.unregister(key.fileobj)
                key.fileobj.close()
    return tokens / (time.monotonic() - begin)


def through_engine(a, flags):
    out = run([a.program, "throughput", a.model, *flags, "--json", "--num-prompts", a.clients * a.requests_per_client, "--input-len",
               a.input_len, "--output-len", a.output_len, "--max-concurrency", a.clients])
    return json.loads(out.splitlines()[-1])["output_tok_s"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default="smollm2")
    ap.add_argument("--flags", default="", help="more flags for both, such as '--numerics int8'")
    for name, default in (("clients", 32), ("requests-per-client", 3), ("rounds", 3), ("input-len", 128), ("output-len", 128)):
        ap.add_argument(f"--{name}", type=int, default=default)
    a = ap.parse_args()
    a.program = os.environ.get("DEEPINFER_BIN", str(ROOT / "build/release/deepinfer"))
    flags = ["--max-num-seqs", str(a.clients), "--max-model-len", "1024", *a.flags.split()]
    process, url = start([a.model, *flags])
    try:
        over_http(argparse.Namespace(**{**vars(a), "requests_per_client": 1}), url, 0)  # touches memory, as throughput does
        missing = []
        for i in range(a.rounds):
            server, engine = over_http(a, url, 1000 * (i + 1)), through_engine(a, flags)
            missing.append(1 - server / engine)
            print(f"round {i + 1}: server {server:.1f}, engine {engine:.1f} output tok/s: {100 * missing[-1]:.1f} % less")
    finally:
        process.terminate()
        process.wait()
    print(f"median: the server delivers {100 * statistics.median(missing):.1f} % less than the engine alone")


if __name__ == "__main__":
    main()
