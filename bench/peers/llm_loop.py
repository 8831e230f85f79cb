#!/usr/bin/env python3
"""A Python engine held ready beside the others: reads a line, does the work once, answers with one JSON line.

    llm_loop.py vllm|openvino MODEL --threads N --prefill 512 --decode 128 --rows 16

MODEL: a Hugging Face folder (vllm) or a GGUF file (openvino). Needs the engine's package in the Python that runs this
(scripts/build_peer.sh installs both). The first line is {"ready": seconds since the start, "version": ...}; then every line
on stdin is answered with {"prefill": tokens/s, "decode": tokens/s, "decode_rows": tokens/s}. Prompts differ from round
to round, so that no prefix cache answers them. What the engine itself prints goes to stderr.
"""
import argparse
import json
import os
import sys
import time


def prompt(count, round_number, row=0):
    return [100 + (37 * i + 1009 * round_number + 131 * row) % 20000 for i in range(count)]


class Vllm:
    def __init__(self, a):
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:a.threads])
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        import vllm
        self.vllm, self.version = vllm, vllm.__version__
        self.llm = vllm.LLM(model=a.model, dtype="bfloat16", max_model_len=1024, max_num_seqs=a.rows, enable_prefix_caching=False,
                            skip_tokenizer_init=True)

    def seconds(self, prompts, tokens):
        params = self.vllm.SamplingParams(temperature=0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        self.llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        return time.perf_counter() - start


class OpenVino:
    def __init__(self, a):
        import numpy
        import openvino
        import openvino_genai
        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.version = openvino_genai.__version__
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs, scheduler.enable_prefix_caching = 2, a.rows, False
        self.pipe = openvino_genai.ContinuousBatchingPipeline(a.model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": a.threads})

    def seconds(self, prompts, tokens):
        config = self.genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = tokens
        config.ignore_eos, config.do_sample = True, False
        ids = [self.openvino.Tensor(self.numpy.array([p], dtype=self.numpy.int64)) for p in prompts]
        start = time.perf_counter()
        self.pipe.generate(ids, [config] * len(ids))
        return time.perf_counter() - start


def measure(engine, a, round_number):
    first = engine.seconds([prompt(a.prefill, round_number)], 1)

    def decode(rows):
        """Tokens a second after the first, of prompts of one token."""
        prompts = [prompt(1, round_number, row) for row in range(rows)]
        one, all_ = engine.seconds(prompts, 1), engine.seconds(prompts, a.decode + 1)
        return rows * a.decode / (all_ - one)

    return {"prefill": a.prefill / first, "decode": decode(1), "decode_rows": decode(a.rows)}


def main():
    start = time.perf_counter()
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("engine", choices=("vllm", "openvino"))
    ap.add_argument("model")
    ap.add_argument("--threads", type=int, required=True)
    ap.add_argument("--prefill", type=int, default=512)
    ap.add_argument("--decode", type=int, default=128)
    ap.add_argument("--rows", type=int, default=16)
    a = ap.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = {"vllm": Vllm, "openvino": OpenVino}[a.engine](a)
    measure(engine, argparse.Namespace(**{**vars(a), "decode": 4}), 0)
    print(json.dumps({"ready": time.perf_counter() - start, "version": engine.version}), file=answers, flush=True)
    for round_number, _ in enumerate(sys.stdin, 1):
        print(json.dumps(measure(engine, a, round_number)), file=answers, flush=True)


if __name__ == "__main__":
    main()
