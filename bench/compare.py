#!/usr/bin/env python3
"""DeepInfer beside other engines on the same model, with the same threads and the same amount of work, in turns.

    compare.py [--model MODEL] [--peers llama.cpp,openvino,vllm] [--threads N] [--rounds 5] [--build-peer] [--json]

MODEL is what the program takes, by default smollm2: a file, a folder, or the name of a package below DEEPINFER_MODELS_DIR
(build/assets). llama.cpp and OpenVINO GenAI take part where it is one GGUF file or a folder with one; vLLM where it is a
Hugging Face folder, or where --hugging-face FOLDER names the same model in that form. Peers that are not built are left out,
by name: scripts/build_peer.sh builds llama.cpp, `build_peer.sh python` installs the other two (some gigabytes).

Work: a prompt of 512 tokens (prefill), 128 tokens after an empty context (decode), and 128 tokens of 16 sequences (decode 16).
Every engine takes its turn in each round, and another one starts each time, so that what else the machine does hits all.
Shown are the best and the median round of each, and the median over the rounds of the ratio DeepInfer / peer. DeepInfer's and
the Python engines' prefill includes sampling the first token; llama.cpp's does not. Standard library only.
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
PEERS = Path(os.environ.get("DEEPINFER_PEERS_DIR", ROOT / "build" / "peers"))
PREFILL, DECODE, ROWS = 512, 128, 16
FIGURES = {"prefill": f"prefill {PREFILL}", "decode": f"decode {DECODE}", "decode_rows": f"decode {DECODE} x {ROWS}"}


def run(command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-5:])
        sys.exit(f"compare: exit status {done.returncode} from {' '.join(map(str, command[:3]))} ...\n{tail}")
    return done.stdout


def resolve(model):
    """The path behind a MODEL."""
    assets = Path(os.environ.get("DEEPINFER_MODELS_DIR") or ROOT / "build" / "assets")
    return assets / model if not Path(model).exists() and "/" not in model else Path(model)


def find_gguf(path):
    files = list(path.glob("*.gguf")) if path.is_dir() else [path] if path.suffix == ".gguf" and path.is_file() else []
    return str(files[0]) if len(files) == 1 else None


class DeepInfer:
    name = "deepinfer"

    def __init__(self, program, model, threads, flags):
        self.command = [program, "bench", model, "--no-start", "--repeat", "1", "--threads", str(threads), "--json", *flags]
        self.version = run([program, "--version"]).strip().splitlines()[0]

    def measure(self):
        report = json.loads(run(self.command).splitlines()[-1])
        prefill, decode, rows = (phase["tok_s"]["best"] for phase in report["phases"])
        return {"prefill": prefill, "decode": decode, "decode_rows": rows}


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, gguf, threads):
        self.bin, self.gguf, self.threads = PEERS / "llama-build/bin", gguf, str(threads)
        found = re.search(r"version: (.*)", subprocess.run([self.bin / "llama-bench", "--version"], stdout=subprocess.PIPE,
                                                           stderr=subprocess.STDOUT, text=True).stdout)
        self.version = found[1].strip() if found else "unknown"

    def measure(self):
        rows = json.loads(run([self.bin / "llama-bench", "-m", self.gguf, "-p", str(PREFILL), "-n", str(DECODE), "-t", self.threads,
                               "-r", "1", "-o", "json"]))
        figures = {"prefill" if row["n_gen"] == 0 else "decode": row["avg_ts"] for row in rows}
        out = run([self.bin / "llama-batched-bench", "-m", self.gguf, "-npp", "1", "-ntg", str(DECODE), "-npl", str(ROWS), "-t",
                   self.threads, "-tb", self.threads, "-c", str(ROWS * (DECODE + 8)), "--output-format", "jsonl"])
        line = next(line for line in out.splitlines() if line.startswith("{"))
        figures["decode_rows"] = json.loads(line)["speed_tg"]
        return figures


class PythonEngine:
    """One that takes long to be ready: started once, asked each round (bench/peers/llm_loop.py)."""

    def __init__(self, engine, model, threads):
        self.name = {"vllm": "vLLM (CPU)", "openvino": "OpenVINO GenAI"}[engine]
        command = [PEERS / "venv/bin/python", ROOT / "bench/peers/llm_loop.py", engine, model, "--threads", str(threads),
                   "--prefill", str(PREFILL), "--decode", str(DECODE), "--rows", str(ROWS)]
        self.log = open(PEERS / f"{engine}.log", "w")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        ready = self.answer()
        self.version = f"{ready['version']}, ready after {ready['ready']:.0f} s"

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare: {self.name} ended with {self.process.wait()}, see {self.log.name}")
        return json.loads(line)

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()


def has_package(name):
    return any((PEERS / "venv").glob(f"lib/python*/site-packages/{name}"))


def open_peers(wanted, model, folder, threads):
    gguf = find_gguf(model)
    folder = folder or (str(model) if (model / "config.json").is_file() else None)
    peers = []
    for name in wanted:
        if name == "llama.cpp" and (PEERS / "llama-build/bin/llama-batched-bench").is_file() and gguf:
            peers.append(LlamaCpp(gguf, threads))
        elif name == "openvino" and has_package("openvino_genai") and gguf:
            peers.append(PythonEngine(name, gguf, threads))
        elif name == "vllm" and has_package("vllm") and folder:
            peers.append(PythonEngine(name, folder, threads))
        else:
            form = "a Hugging Face folder" if name == "vllm" else "one GGUF file"
            print(f"compare: without {name}: not built, or the model is not there as {form}", file=sys.stderr)
    return peers


def cpu_name():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else "unknown"


def measure(engines, rounds):
    figures = {engine.name: [] for engine in engines}
    for i in range(rounds):
        for turn in range(len(engines)):
            engine = engines[(i + turn) % len(engines)]
            figures[engine.name].append(engine.measure())
        print(f"compare: round {i + 1} of {rounds} done", file=sys.stderr)
    return figures


def summary(engine, rounds, ours):
    row = {"engine": engine.name, "version": engine.version}
    for what in FIGURES:
        values = [figures[what] for figures in rounds]
        row[what] = {"best": max(values), "median": statistics.median(values),
                     "ratio": statistics.median(mine[what] / theirs[what] for mine, theirs in zip(ours, rounds))}
    return row


def table(report):
    lines = [f"{report['model']} on {report['cpu']}, {report['threads']} threads, {report['rounds']} rounds in turns; tokens/s, best "
             "(median) of the rounds, and the median of DeepInfer's ratio", "",
             "| engine | " + " | | ".join(FIGURES.values()) + " | |", "|---|" + "---:|---:|" * len(FIGURES)]
    for row in report["engines"]:
        cells = [f"{row[what]['best']:.1f} ({row[what]['median']:.1f}) | "
                 + ("" if row["engine"] == "deepinfer" else f"{row[what]['ratio']:.2f}") for what in FIGURES]
        lines.append(f"| {row['engine']} {row['version']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--program", default=str(ROOT / "build/release/deepinfer"))
    ap.add_argument("--model", default="smollm2")
    ap.add_argument("--hugging-face", metavar="FOLDER", help="the same model for vLLM")
    ap.add_argument("--peers", default="llama.cpp,openvino,vllm")
    ap.add_argument("--flags", default="", help="more flags for deepinfer, such as '--numerics int8'")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--build-peer", action="store_true")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    if a.build_peer:
        run([str(ROOT / "scripts/build_peer.sh")])
    if not Path(a.program).is_file():
        sys.exit(f"compare: {a.program} is missing; `make bench` builds and fetches what this needs")
    ours = DeepInfer(a.program, a.model, a.threads, a.flags.split())
    engines = [ours] + open_peers([p for p in a.peers.split(",") if p], resolve(a.model), a.hugging_face, a.threads)
    figures = measure(engines, a.rounds)
    report = {"model": resolve(a.model).name, "cpu": cpu_name(), "threads": a.threads, "rounds": a.rounds, "flags": a.flags,
              "engines": [summary(engine, figures[engine.name], figures[ours.name]) for engine in engines]}
    print(json.dumps(report) if a.json else table(report))


if __name__ == "__main__":
    main()
