"""A server under test: started on a free port with a scripted model, spoken to over plain HTTP, looked at from outside.

The scripted model (src/models/synthetic.h) answers by the first token of the prompt: its number mod 16 is the script.
With the tokenizer made here a token is a byte, so a prompt's first character chooses, "a" being script 1.
"""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import models  # noqa: E402

PROGRAM = os.environ.get("DEEPINFER_BIN", str(ROOT / "build/release/deepinfer"))
EOS = 257  # <|end|>
LONG = "The quick brown fox jumps over the lazy dog. " * 60
# By script: what it says, as text or as bytes. 3 is what a chat that begins with a user's message gets.
SCRIPTS = {1: "Hello, world!", 2: "The quick brown fox", 3: "Hi there.\n", 4: b"\xe8\xb5\x8b\xf0\x9f\x98\x8a!", 5: b"a\x80b\xc0\x80c",
           6: b"end\xf0\x9f", 7: "\nUseful", 8: "aab", 9: LONG, 10: "nan comes", 11: "x" * 40, 12: "y", 13: "</tool>", 14: "0123456789",
           15: "**bold** <script>alert(1)</script>\n\n```\ncode\n```\n", 0: "zero"}
NAN = [10, 4]  # script, token


def letter(script):
    """A character whose script this is."""
    return next(chr(c) for c in range(ord("a"), ord("a") + 16) if c % 16 == script)


def text_of(script):
    said = SCRIPTS[script]
    return said if isinstance(said, str) else said.decode(errors="replace")


def make_model(folder, scripts=SCRIPTS, ends=True, max_positions=4096):
    """Writes the scripted model and its tokenizer; returns serve's arguments for them. ends=False: each script again and again."""
    folder = Path(folder)
    (folder / "tokenizer").mkdir(parents=True)
    tokens = [list(s.encode() if isinstance(s, str) else s) for _, s in sorted(scripts.items())]
    script = {"vocab_size": 261, "scripts": tokens, "eos_ids": [EOS] if ends else [], "max_positions": max_positions, "nan_at": [NAN]}
    (folder / "model.json").write_text(json.dumps(script))
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(models.tokenizer_json()))
    config = {"eos_token": "<|end|>", "add_bos_token": False, "chat_template": models.TEMPLATE}
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(config))
    return [f"synthetic:{folder / 'model.json'}", "--tokenizer", str(folder / "tokenizer"), "--served-model-name", "scripted",
            "--dtype", "f32", "--threads", "1"]


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]


class Server:
    """with Server(arguments) as server: ..."""

    def __init__(self, arguments, cache=None, env=None, wait=True):
        self._folder = tempfile.TemporaryDirectory()
        self.cache = str(cache or self._folder.name)
        self.log = []
        self.process = subprocess.Popen([PROGRAM, "serve", *map(str, arguments), "--port", "0"], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "DEEPINFER_CACHE_DIR": self.cache, **(env or {})})
        self.port = None
        self._ready, self._listening = threading.Event(), threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._listening.wait()
        if wait:
            self.wait_ready()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            match = re.search(r"listening on \S+:(\d+)$", line)
            if match:
                self.port = int(match[1])
                self._listening.set()
            if " ready: " in line:
                self._ready.set()
        self._listening.set()
        self._ready.set()

    def wait_ready(self):
        self._ready.wait()
        assert self.process.poll() is None, "\n".join(self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()
        self._folder.cleanup()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        result = Response(response.status, response.headers, response.read())
        connection.close()
        return result

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def complete(self, prompt, **fields):
        response = self.post("/v1/completions", {"prompt": prompt, **fields})
        assert response.status == 200, response.body
        return response.json()

    def chat(self, content="hello", **fields):
        response = self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})
        assert response.status == 200, response.body
        return response.json()

    def stream(self, path, body):
        """The data of all events, [DONE] included, as they are in the body."""
        response = self.post(path, {**body, "stream": True})
        assert response.status == 200, response.body
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return events(response.body)

    def open_stream(self, path, body):
        """A connected socket on which the request was sent, and nothing read."""
        return self.send_raw(raw_post(path, {**body, "stream": True}))

    def send_raw(self, data):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.sendall(data)
        return connection

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            match = re.match(r"([\w:]+)(?:\{(.*)\})? (\S+)$", line)
            if match and match[1] == name and all(f'{k}="{v}"' in (match[2] or "") for k, v in labels.items()):
                total += float(match[3])
        return total

    def wait_for_metric(self, name, value, **labels):
        while self.metric(name, **labels) != value:
            assert self.process.poll() is None
            time.sleep(0.01)

    def resident_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def raw_post(path, body, headers=""):
    data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


def events(body):
    parts = body.decode().split("\n\n")
    assert parts[-1] == "", "the last event is not whole"
    data = [part for part in parts[:-1] if not part.startswith(":")]
    assert all(part.startswith("data: ") and "\n" not in part for part in data), parts
    return [part[6:] if part == "data: [DONE]" else json.loads(part[6:]) for part in data]


def joined(chunks, index=0):
    """The text of one choice of a stream."""
    text = ""
    for chunk in chunks:
        for choice in chunk["choices"] if chunk != "[DONE]" else []:
            if choice["index"] == index:
                text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return text


def read_all(connection):
    data = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
