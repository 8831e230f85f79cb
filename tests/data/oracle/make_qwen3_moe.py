#!/usr/bin/env python3
"""Writes qwen3_moe_f32 and qwen3_moe_bf16: tiny random checkpoints of a mixture of experts, and what they must answer.

Everything is computed here, in float64 with numpy and without a cache, straight from the definition of the
architecture: RMS norms, per-head norms of q and k, rotation of halves, causal grouped-query attention, softmax over all
experts, the most probable few (their weights normalised in the first folder, as they are in the second). Seeds where a
greedy step or a choice of experts is nearly a tie are passed over, so that float32 must agree.

    python3 -m venv venv && venv/bin/pip install numpy && venv/bin/python tests/data/oracle/make_qwen3_moe.py
"""

import json
import pathlib

import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, EXPERTS, USED, FFN, VOCAB = 64, 2, 4, 2, 32, 6, 2, 32, 320
EPS, THETA, LENGTHS, GENERATE = 1e-6, 10000.0, (7, 40, 97), 24
MIN_MARGIN, MIN_CHOICE = 5e-3, 2e-4


def to_bf16(x):
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def make_weights(rng):
    def matrix(rows, columns):
        return rng.normal(0, np.sqrt(2 / columns), (rows, columns)).astype(np.float32)

    def norm(width):
        return (1 + 0.1 * rng.normal(size=width)).astype(np.float32)

    weights = {"model.embed_tokens.weight": rng.normal(0, 1, (VOCAB, HIDDEN)).astype(np.float32)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        weights[layer + "input_layernorm.weight"] = norm(HIDDEN)
        weights[layer + "post_attention_layernorm.weight"] = norm(HIDDEN)
        weights[layer + "self_attn.q_norm.weight"] = norm(HEAD)
        weights[layer + "self_attn.k_norm.weight"] = norm(HEAD)
        weights[layer + "self_attn.q_proj.weight"] = matrix(HEADS * HEAD, HIDDEN)
        weights[layer + "self_attn.k_proj.weight"] = matrix(KV_HEADS * HEAD, HIDDEN)
        weights[layer + "self_attn.v_proj.weight"] = matrix(KV_HEADS * HEAD, HIDDEN)
        weights[layer + "self_attn.o_proj.weight"] = matrix(HIDDEN, HEADS * HEAD)
        weights[layer + "mlp.gate.weight"] = matrix(EXPERTS, HIDDEN)
        for e in range(EXPERTS):
            expert = f"{layer}mlp.experts.{e}."
            weights[expert + "gate_proj.weight"] = matrix(FFN, HIDDEN)
            weights[expert + "up_proj.weight"] = matrix(FFN, HIDDEN)
            weights[expert + "down_proj.weight"] = matrix(HIDDEN, FFN)
    weights["model.norm.weight"] = norm(HIDDEN)
    weights["lm_head.weight"] = matrix(VOCAB, HIDDEN)
    return weights


class Model:
    def __init__(self, weights, normalise):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}
        self.normalise = normalise
        self.choice = np.inf  # smallest gap between the last chosen expert's probability and the next one's

    @staticmethod
    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight

    @staticmethod
    def rotate(x, positions):  # [T, heads, HEAD]
        frequencies = THETA ** (-np.arange(0, HEAD, 2) / HEAD)
        angles = (positions[:, None] * frequencies)[:, None, :]
        first, second = x[..., : HEAD // 2], x[..., HEAD // 2 :]
        return np.concatenate(
            [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)], -1
        )

    @staticmethod
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def attention(self, x, layer):
        length = len(x)
        positions = np.arange(length, dtype=np.float64)

        def project(name, heads):
            return (x @ self.w[f"{layer}self_attn.{name}_proj.weight"].T).reshape(length, heads, HEAD)

        q = self.rotate(self.norm(project("q", HEADS), self.w[layer + "self_attn.q_norm.weight"]), positions)
        k = self.rotate(self.norm(project("k", KV_HEADS), self.w[layer + "self_attn.k_norm.weight"]), positions)
        k, v = (np.repeat(t, HEADS // KV_HEADS, axis=1) for t in (k, project("v", KV_HEADS)))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(HEAD)
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
        mixed = np.einsum("hts,shd->thd", self.softmax(scores), v).reshape(length, HEADS * HEAD)
        return mixed @ self.w[layer + "self_attn.o_proj.weight"].T

    def experts(self, x, layer):
        probability = self.softmax(x @ self.w[layer + "mlp.gate.weight"].T)
        order = np.argsort(-probability, axis=-1, kind="stable")
        out = np.zeros_like(x)
        for t, row in enumerate(x):
            chosen = order[t, :USED]
            weights = probability[t, chosen]
            self.choice = min(self.choice, weights[-1] - probability[t, order[t, USED]])
            if self.normalise:
                weights = weights / weights.sum()
            for e, weight in zip(chosen, weights):
                expert = f"{layer}mlp.experts.{e}."
                gate = self.w[expert + "gate_proj.weight"] @ row
                up = self.w[expert + "up_proj.weight"] @ row
                out[t] += weight * (self.w[expert + "down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up))
        return out

    def logits(self, ids):
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(LAYERS):
            layer = f"model.layers.{i}."
            x = x + self.attention(self.norm(x, self.w[layer + "input_layernorm.weight"]), layer)
            x = x + self.experts(self.norm(x, self.w[layer + "post_attention_layernorm.weight"]), layer)
        return self.norm(x, self.w["model.norm.weight"]) @ self.w["lm_head.weight"].T


def answer(model, rng):
    tensors, margin = {}, np.inf
    for i, length in enumerate(LENGTHS):
        ids = rng.integers(3, VOCAB, length)
        tensors[f"ids_{i}"] = ids.astype(np.int64)
        tensors[f"logits_{i}"] = model.logits(ids).astype(np.float32)
        greedy = []
        for _ in range(GENERATE):
            last = model.logits(np.concatenate([ids, greedy]).astype(np.int64))[-1]
            best = np.sort(last)[-2:]
            margin = min(margin, best[1] - best[0])
            greedy.append(int(last.argmax()))
        tensors[f"greedy_{i}"] = np.array(greedy, np.int64)
        if margin < MIN_MARGIN or model.choice < MIN_CHOICE:
            return None
    return tensors, margin


def write_safetensors(path, tensors):
    names = {"float32": "F32", "uint16": "BF16", "int64": "I64"}
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": names[str(value.dtype)], "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            out.write(np.ascontiguousarray(value).tobytes())


def write_folder(folder, stored, normalise, seed):
    while True:
        seed += 1
        rng = np.random.default_rng(seed)
        weights = make_weights(rng)
        if stored == "bf16":
            rounded = {name: to_bf16(value) for name, value in weights.items()}
            weights = {name: (v.astype(np.uint32) << 16).view(np.float32) for name, v in rounded.items()}
        model = Model(weights, normalise)
        answers = answer(model, rng)
        if answers is not None:
            break
    folder.mkdir(exist_ok=True)
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "decoder_sparse_step": 1, "eos_token_id": 2,
        "head_dim": HEAD, "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": 2 * FFN,
        "max_position_embeddings": 512, "mlp_only_layers": [], "model_type": "qwen3_moe",
        "moe_intermediate_size": FFN, "norm_topk_prob": normalise, "num_attention_heads": HEADS,
        "num_experts": EXPERTS, "num_experts_per_tok": USED, "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS, "rms_norm_eps": EPS, "rope_theta": THETA, "tie_word_embeddings": False,
        "vocab_size": VOCAB,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", rounded if stored == "bf16" else weights)
    write_safetensors(folder / "oracle.safetensors", answers[0])
    about = {"family": "qwen3_moe", "seed": seed, "numpy": np.__version__, "margin": float(answers[1]),
             "choice": float(model.choice), "lengths": list(LENGTHS), "generate": GENERATE}
    (folder / "oracle.json").write_text(json.dumps(about, indent=1) + "\n")


def main():
    here = pathlib.Path(__file__).parent
    write_folder(here / "qwen3_moe_f32", "f32", True, 7000)
    write_folder(here / "qwen3_moe_bf16", "bf16", False, 8000)


if __name__ == "__main__":
    main()
