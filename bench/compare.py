#!/usr/bin/env python3
"""DeepInfer beside llama.cpp, on the same GGUF, the same threads and the same amount of work, in turns.

    compare.py [--model MODEL] [--threads N] [--rounds 5] [--peer llama-bench] [--build-peer] [--json]

MODEL is what the program takes, by default smollm2: a file, a folder, or the name of a package below DEEPINFER_MODELS_DIR
(build/assets). llama.cpp takes part where it is one GGUF file or a folder with one.

Work: a prompt of 512 tokens (prefill) and 128 tokens after an empty context (decode), as llama-bench counts them. Each
round runs both programs, one after the other, and the one that starts alternates, so that what else the machine does hits both.
Shown are the best and the median round of each, and the median over the rounds of the ratio DeepInfer / llama.cpp.
DeepInfer's prefill figure includes sampling the first token; llama-bench's does not. Without the peer only DeepInfer is shown;
--build-peer builds it first (scripts/build_peer.sh, some minutes). Standard library only.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFILL_TOKENS = 512
DECODE_TOKENS = 128


def find_peer(given):
    peers = Path(os.environ.get("DEEPINFER_PEERS_DIR", ROOT / "build" / "peers"))
    for path in filter(None, (given, os.environ.get("DEEPINFER_LLAMA_BENCH"), peers / "llama-build/bin/llama-bench")):
        if Path(path).is_file():
            return str(path)
    return None


def find_gguf(model):
    """The GGUF file behind a MODEL, or None: llama-bench reads nothing else."""
    assets = Path(os.environ.get("DEEPINFER_MODELS_DIR") or ROOT / "build" / "assets")
    path = Path(model)
    if not path.exists() and "/" not in model:
        path = assets / model
    files = list(path.glob("*.gguf")) if path.is_dir() else [path] if path.suffix == ".gguf" and path.is_file() else []
    return str(files[0]) if len(files) == 1 else None


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-5:])
        sys.exit(f"compare: exit status {done.returncode} from {' '.join(command[:3])} ...\n{tail}")
    return done.stdout


def ours(program, model, threads):
    """One measurement of DeepInfer: {"prefill": tok/s, "decode": tok/s}."""
    def timings(ids, tokens):
        out = run([program, "generate", model, "--prompt-ids", ",".join(map(str, ids)), "--max-tokens", str(tokens),
                   "--temperature", "0", "--ignore-eos", "--threads", str(threads), "--json"])
        return json.loads(out.splitlines()[-1])["timings"]

    # Distinct ids per position, so that no prefix of the prompt can come out of a cache.
    prompt = [100 + (37 * i) % 20000 for i in range(PREFILL_TOKENS)]
    return {"prefill": timings(prompt, 1)["prefill_tok_s"],
            "decode": timings(prompt[:1], DECODE_TOKENS + 1)["decode_tok_s"]}


def theirs(peer, model, threads):
    """One measurement of llama.cpp, in the same form."""
    out = run([peer, "-m", model, "-p", str(PREFILL_TOKENS), "-n", str(DECODE_TOKENS), "-t", str(threads), "-r", "1",
               "-o", "json"])
    figures = {}
    for row in json.loads(out):
        figures["prefill" if row["n_gen"] == 0 else "decode"] = row["avg_ts"]
    return figures


def peer_version(peer):
    done = subprocess.run([peer, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = re.search(r"version: (.*)", done.stdout)
    return found[1].strip() if found else "unknown"


def our_version(program):
    done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else "unknown"


def cpu_name():
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else "unknown"


def summary(name, version, rounds):
    row = {"engine": name, "version": version}
    for what in ("prefill", "decode"):
        values = [figures[what] for figures in rounds]
        row[what] = {"best": max(values), "median": statistics.median(values)}
    return row


def measure(program, peer, model, gguf, threads, rounds):
    mine, other = [], []
    for i in range(rounds):
        turns = [(mine, lambda: ours(program, model, threads))]
        if peer:
            turns.append((other, lambda: theirs(peer, gguf, threads)))
        for results, turn in (turns if i % 2 == 0 else reversed(turns)):
            results.append(turn())
        print(f"compare: round {i + 1} of {rounds} done", file=sys.stderr)
    report = {"model": Path(gguf or model).name, "cpu": cpu_name(), "threads": threads, "rounds": rounds,
              "engines": [summary("deepinfer", our_version(program), mine)]}
    if peer:
        report["engines"].append(summary("llama.cpp", peer_version(peer), other))
        report["ratio"] = {what: statistics.median(a[what] / b[what] for a, b in zip(mine, other))
                           for what in ("prefill", "decode")}
    return report


def table(report):
    lines = [f"{report['model']} on {report['cpu']}, {report['threads']} threads, {report['rounds']} rounds in turns; tokens/s",
             "",
             f"| engine | version | prefill {PREFILL_TOKENS}, best | median | decode {DECODE_TOKENS}, best | median |",
             "|---|---|---:|---:|---:|---:|"]
    for row in report["engines"]:
        p, d = row["prefill"], row["decode"]
        lines.append(f"| {row['engine']} | {row['version']} | {p['best']:.1f} | {p['median']:.1f} "
                     f"| {d['best']:.1f} | {d['median']:.1f} |")
    if "ratio" in report:
        lines.append(f"| ratio, median of the rounds | | | {report['ratio']['prefill']:.2f} | | {report['ratio']['decode']:.2f} |")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--program", default=str(ROOT / "build/release/deepinfer"))
    ap.add_argument("--model", default="smollm2")
    ap.add_argument("--threads", type=int, default=min(len(os.sched_getaffinity(0)), os.cpu_count() or 1))
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--peer", help="path of llama-bench")
    ap.add_argument("--build-peer", action="store_true")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    if a.build_peer:
        a.peer = run([str(ROOT / "scripts/build_peer.sh")]).splitlines()[-1]
    if not Path(a.program).is_file():
        sys.exit(f"compare: {a.program} is missing; `make bench` builds and fetches what this needs")
    peer, gguf = find_peer(a.peer), find_gguf(a.model)
    if not gguf:
        print(f"compare: {a.model} is not one GGUF file, DeepInfer alone", file=sys.stderr)
        peer = None
    elif not peer:
        print("compare: no llama-bench found, DeepInfer alone; `make bench-peer` builds it", file=sys.stderr)
    report = measure(a.program, peer, a.model, gguf, a.threads, a.rounds)
    print(json.dumps(report) if a.json else table(report))


if __name__ == "__main__":
    main()
