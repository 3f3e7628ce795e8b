"""A hub of models on 127.0.0.1, with every fault that a real one has had; and tiny models to fetch from it."""

import hashlib
import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat and it was tired test .".split()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 60
"""Timeout of requests in seconds, so that no test depends on the machine's speed; tests of hangs set a shorter one."""
FOREVER = 120
"""Seconds that a hub hangs: longer than any client may wait."""

GPT2 = {"vocab_size": len(WORDS), "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}
GPT2 |= {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of whole words, with BERT's special tokens."""
    ids = {word: i for i, word in enumerate(WORDS)}
    cut = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    cut.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    cut.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    names = {f"{name.strip('[]').lower()}_token": name for name in WORDS[:5]}
    transformers.PreTrainedTokenizerFast(tokenizer_object=cut, **names).save_pretrained(folder)


def write(folder: Path, model: transformers.PreTrainedModel | None = None) -> Path:
    """A folder with a model, by default a tiny GPT-2, and a tokenizer."""
    model = model or transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


class Hub:
    """Contents of a hub, by names of models, and its faults.

    Attributes:
        fault: None, a status (401, 403, 404, 429, 500), or "gated", "hang", "hang in a file",
            "corrupt", "short", "long", "redirect": of files, except for "hang" and the statuses.
        asked: method, path and token of each request.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.fault: str | int | None = None
        self.asked: list[tuple[str, str, str | None]] = []
        self.renamed: dict[str, str] = {}
        self.closing = threading.Event()

    def add(self, name: str, folder: Path) -> None:
        self.files[name] = {path.name: path.read_bytes() for path in folder.iterdir()}

    def paths(self, method: str) -> list[str]:
        return [path for asked, path, _ in self.asked if asked == method]


def digest(name: str, data: bytes) -> str:
    """As the hub keeps it: of large files the SHA-256, of others what git calls them."""
    if name.endswith(".safetensors"):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def connect(patch, address: str, cache: Path) -> None:
    """Let this process use this hub only, wait long for its answers, and keep its files in this cache."""
    from huggingface_hub import constants, file_download

    from attnviz.sources.huggingface import hub

    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "ATTNVIZ_MODELS", "ATTNVIZ_MAX_DOWNLOAD"):
        patch.delenv(name, raising=False)
    patch.setenv("HF_HOME", str(cache.parent))
    patch.setenv("HF_ENDPOINT", address)
    patch.setattr(constants, "ENDPOINT", address)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", PATIENCE)
    patch.setattr(hub, "SECONDS", PATIENCE)
    patch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None, time=time.time))


@contextmanager
def running() -> Iterator[tuple[Hub, str]]:
    """A hub and its address."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        hub.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever asked is gone
            super().handle()

    def answer(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        hub.asked.append((self.command, path, self.headers.get("Authorization")))
        if hub.fault == "hang":
            hub.closing.wait(FOREVER)
        elif old := next((name for name in hub.renamed if f"/{name}/" in f"{path}/"), None):
            self.send_response(307)
            self.send_header("Location", self.path.replace(old, hub.renamed[old]))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif isinstance(hub.fault, int):
            self.refuse(hub.fault)
        elif path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            self.about(name, revision)
        else:
            name, _, rest = path[1:].partition("/resolve/")
            self.file(name, rest.partition("/")[2])

    do_HEAD = do_GET = answer

    def refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def about(self, name: str, revision: str) -> None:
        if name not in self.hub.files:
            self.refuse(404, "RepoNotFound")
            return
        if revision not in ("", "main", "v1", COMMIT):
            self.refuse(404, "RevisionNotFound")
            return
        found = []
        for file, data in self.hub.files[name].items():
            one = {"rfilename": file, "size": len(data), "blobId": digest(file, data)}
            if file.endswith(".safetensors"):
                one["lfs"] = {"sha256": digest(file, data), "size": len(data), "pointerSize": 134}
            found.append(one)
        data = json.dumps({"id": name, "sha": COMMIT, "siblings": found}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def file(self, name: str, file: str) -> None:
        fault = self.hub.fault
        data = self.hub.files.get(name, {}).get(file)
        if fault == "gated" or data is None:
            self.refuse(*((401, "GatedRepo") if fault == "gated" else (404, "EntryNotFound")))
            return
        large = file.endswith(".safetensors")
        if fault == "redirect" and large:
            self.send_response(302)
            self.send_header("Location", "http://localhost:9/stolen")
            self.headers_of(file, data, 0)
            return
        self.send_response(200)
        sent = data
        if large and self.command == "GET":
            sent = data[:-8] + b"\0garbage" if fault == "corrupt" else data * 30 if fault == "long" else data
        self.headers_of(file, data, len(sent))
        if self.command == "GET":
            self.send(sent, fault if large else None)

    def headers_of(self, file: str, data: bytes, length: int) -> None:
        for key, value in {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{digest(file, data)}"',
            "X-Linked-Size": str(len(data)),
            "Content-Length": str(length),
        }.items():
            self.send_header(key, value)
        self.end_headers()

    def send(self, data: bytes, fault: str | int | None) -> None:
        try:
            if fault == "hang in a file":
                self.wfile.write(data[: len(data) // 2])
                self.hub.closing.wait(FOREVER)
                self.close_connection = True
            elif fault == "short":
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            else:
                self.wfile.write(data)
        except OSError:  # whoever asked is gone
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def copy(folder: Path, to: Path, **config: object) -> Path:
    """A copy of a model's folder with other numbers in its configuration."""
    shutil.copytree(folder, to)
    path = to / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return to
