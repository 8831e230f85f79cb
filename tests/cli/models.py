"""Models the CLI tests run: oracle checkpoints, scripted models, and a checkpoint with a byte-level tokenizer made here."""
import json
import os
import shutil
import struct
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"
ORACLE = DATA / "oracle"
LLAMA = ORACLE / "llama_f32"
SCRIPTED = f"synthetic:{DATA / 'synthetic' / 'two_scripts.json'}"
NAN = f"synthetic:{DATA / 'synthetic' / 'nan_row.json'}"

TEMPLATE = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
SPECIAL = ["<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


def byte_alphabet():
    """GPT-2's table: how a byte-level vocabulary writes the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b if b in printable else next(other)) for b in range(256)]


def tokenizer_json():
    """Bytes are ids 0 to 255; the special tokens follow."""
    added = [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {c: i for i, c in enumerate(byte_alphabet())}, "merges": []}}


def make_chat_model(folder, template=TEMPLATE):
    """A random llama with that tokenizer: its answers are noise, and everything around them is real."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copy(LLAMA / name, folder / name)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    config = {"bos_token": "<|bos|>", "eos_token": "<|end|>", "add_bos_token": True}
    if template:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def copy_checkpoint(source, folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in os.listdir(source):
        if not name.startswith("oracle"):
            shutil.copy(Path(source) / name, folder / name)
    return folder


def read_safetensors(path):
    """{name: (shape, values)} for f32 and int64 tensors."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        code, size = {"F32": ("f", 4), "I64": ("q", 8)}[entry["dtype"]]
        body = data[8 + length + begin:8 + length + end]
        tensors[name] = (entry["shape"], struct.unpack(f"<{len(body) // size}{code}", body))
    return tensors


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, body) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(body)]}
        at += len(body)
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body for _, _, body in tensors.values()))


def raw_tensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file, to be written again with changes."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: (e["dtype"], e["shape"], data[8 + length + e["data_offsets"][0]:8 + length + e["data_offsets"][1]])
            for name, e in header.items() if name != "__metadata__"}
