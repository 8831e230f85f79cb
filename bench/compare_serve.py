#!/usr/bin/env python3
"""DeepInfer's server beside llama-server and vLLM's on the same model, threads and requests, under vLLM's load generator, in turns.

    compare_serve.py --hugging-face FOLDER [--model MODEL] [--peers llama-server,vllm] [--clients 1,8,32] [--rounds 1] [--json]

MODEL is what deepinfer takes, by default smollm2; llama-server takes part where it is one GGUF file or a folder with one. FOLDER
holds the tokenizer for the load generator, and the same model for vLLM. scripts/build_peer.sh builds llama-server,
`build_peer.sh python` installs vLLM, whose `vllm bench serve` makes the load.

All servers are up, one at a time is asked. Work: for each number of clients --requests-per-client requests of each of them, prompts of
--input-len random tokens, answers of --output-len tokens, streamed, greedy. Every engine takes its turn in each round, and another
one starts each time. "engine" is `deepinfer throughput`: the same requests with no server around the engine. The load
generator runs on the same CPUs as the servers. Shown are medians over the rounds. Needs only the standard library itself.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from compare import PEERS, ROOT, cpu_name, find_gguf, has_package, resolve, run

MODEL_NAME = "m"  # what every server calls the model
FIGURES = {"output_throughput": "output tok/s", "median_ttft_ms": "first token p50", "p99_ttft_ms": "p99",
           "median_itl_ms": "between tokens p50", "p99_itl_ms": "p99"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server with OpenAI's API, started and ready."""

    def __init__(self, name, command, env=None):
        self.name, self.port = name, free_port()
        self.log = open(PEERS / f"{name}.log", "w")
        start = time.monotonic()
        self.process = subprocess.Popen([*map(str, command), "--port", str(self.port)], stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(env or {})})
        while not self.healthy():
            if self.process.poll() is not None:
                sys.exit(f"compare_serve: {name} ended with {self.process.returncode}, see {self.log.name}")
            time.sleep(0.1)
        self.ready = time.monotonic() - start

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def measure(self, a, clients, seed):
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            wanted = clients * a.requests_per_client
            run([PEERS / "venv/bin/python", ROOT / "bench/peers/load_generator.py", "--backend", "openai", "--base-url",
                 f"http://127.0.0.1:{self.port}", "--model", MODEL_NAME, "--tokenizer", a.hugging_face, "--dataset-name", "random",
                 "--input-len", a.input_len, "--output-len", a.output_len, "--num-prompts", wanted,
                 "--max-concurrency", clients, "--num-warmups", min(clients, 2), "--seed", seed, "--ignore-eos", "--temperature", 0,
                 "--percentile-metrics", "ttft,itl", "--metric-percentiles", "99", "--disable-tqdm", "--save-result", "--save-detailed",
                 "--result-dir", Path(result.name).parent, "--result-filename", Path(result.name).name])
            report = json.loads(Path(result.name).read_text())
        for error in filter(None, report["errors"]):
            print(f"compare_serve: {self.name}, {clients} clients: {error.splitlines()[-1]}", file=sys.stderr)
        # Answers end at their length alone; the generator's own count comes from their text where usage is in no event of its own.
        return {**{figure: report[figure] for figure in FIGURES}, "output_throughput": report["completed"] * a.output_len / report["duration"]}

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Engine:
    """deepinfer throughput: the engine without a server."""
    name, ready = "engine", None

    def __init__(self, a, flags):
        self.command = [a.program, "throughput", a.model, "--json", *flags]

    def measure(self, a, clients, seed):
        report = json.loads(run([*self.command, "--num-prompts", clients * a.requests_per_client, "--input-len", a.input_len,
                                 "--output-len", a.output_len, "--max-concurrency", clients]).splitlines()[-1])
        return {"output_throughput": report["output_tok_s"], "median_ttft_ms": report["ttft_ms"]["p50"],
                "p99_ttft_ms": report["ttft_ms"]["p99"], "median_itl_ms": report["itl_ms"]["p50"],
                "p99_itl_ms": report["itl_ms"]["p99"]}

    def stop(self):
        pass


def open_engines(a, engines):
    """Fills `engines` one by one, so that those that are up can be stopped where another does not start."""
    most, threads = max(a.clients), str(a.threads)
    flags = ["--max-num-seqs", str(most), "--max-model-len", str(a.context), "--threads", threads, *a.flags.split()]
    engines.append(Server("deepinfer", [a.program, "serve", a.model, *flags, "--served-model-name", MODEL_NAME, "--disable-access-log"]))
    engines.append(Engine(a, flags))
    gguf = find_gguf(resolve(a.model))
    for name in filter(None, a.peers.split(",")):
        if name == "llama-server" and gguf and (PEERS / "llama-build/bin/llama-server").is_file():
            engines.append(Server(name, [PEERS / "llama-build/bin/llama-server", "-m", gguf, "-t", threads, "-tb", threads, "-np", most,
                                         "-c", most * a.context]))
        elif name == "vllm" and has_package("vllm"):
            bound = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:a.threads])
            engines.append(Server(name, [PEERS / "venv/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", a.hugging_face,
                                         "--served-model-name", MODEL_NAME, "--dtype", "bfloat16", "--max-model-len", a.context, "--max-num-seqs",
                                         most], {"VLLM_CPU_OMP_THREADS_BIND": bound, "VLLM_CPU_KVCACHE_SPACE": "2"}))
        else:
            print(f"compare_serve: without {name}: not built, or the model is not there as one GGUF file", file=sys.stderr)


def measure(a, engines):
    """rows[clients][engine]: a list over the rounds."""
    rows = {clients: {engine.name: [] for engine in engines} for clients in a.clients}
    for i in range(a.rounds):
        for clients in a.clients:
            for turn in range(len(engines)):
                engine = engines[(i + turn) % len(engines)]
                rows[clients][engine.name].append(engine.measure(a, clients, 1000 * i + clients))
            print(f"compare_serve: round {i + 1} of {a.rounds}, {clients} clients: done", file=sys.stderr)
    return rows


def summary(rounds, ours):
    row = {figure: statistics.median(each[figure] for each in rounds) for figure in FIGURES}
    row["ratio"] = statistics.median(mine["output_throughput"] / theirs["output_throughput"] for mine, theirs in zip(ours, rounds))
    return row


def table(report):
    lines = [f"{report['model']} on {report['cpu']}, {report['threads']} threads, {report['input_len']} + {report['output_len']} tokens, "
             f"{report['requests_per_client']} requests of each client, median of {report['rounds']} rounds; ms", "",
             "| clients | engine | " + " | ".join(FIGURES.values()) + " | deepinfer / engine, output |", "|---:|---" + "|---:" * (len(FIGURES) + 1) + "|"]
    for clients, engines in report["clients"].items():
        for name, row in engines.items():
            cells = [f"{row[figure]:.{0 if row[figure] >= 100 else 1}f}" for figure in FIGURES]
            lines.append(f"| {clients} | {name} | " + " | ".join(cells) + f" | {row['ratio']:.2f} |")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--program", default=str(ROOT / "build/release/deepinfer"))
    ap.add_argument("--model", default="smollm2")
    ap.add_argument("--hugging-face", metavar="FOLDER", required=True)
    ap.add_argument("--peers", default="llama-server,vllm")
    ap.add_argument("--flags", default="", help="more flags for deepinfer, such as '--numerics int8'")
    ap.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 32])
    ap.add_argument("--requests-per-client", type=int, default=3)
    ap.add_argument("--input-len", type=int, default=128)
    ap.add_argument("--output-len", type=int, default=128)
    ap.add_argument("--context", type=int, default=1024)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=1)
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    engines = []
    try:
        open_engines(a, engines)
        rows = measure(a, engines)
    finally:
        for engine in engines:
            engine.stop()
    report = {"model": resolve(a.model).name, "cpu": cpu_name(), "threads": a.threads, "rounds": a.rounds, "flags": a.flags,
              "input_len": a.input_len, "output_len": a.output_len, "requests_per_client": a.requests_per_client,
              "ready_s": {engine.name: engine.ready for engine in engines},
              "clients": {clients: {name: summary(rounds, by_engine["deepinfer"]) for name, rounds in by_engine.items()}
                          for clients, by_engine in rows.items()}}
    print(json.dumps(report) if a.json else table(report))


if __name__ == "__main__":
    main()
