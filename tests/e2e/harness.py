"""harness: what the end-to-end tests share: configurations, plain HTTP, raw bytes, waiting.

Configurations are Python values: JSON is YAML.
"""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from daemon import Daemon, children_of, free_port  # noqa: E402,F401

MIB = 1 << 20
PROGRAM = os.environ.get("COTENANT", str(ROOT / "build" / "cotenant"))
FAKE = os.environ.get("FAKE_ENGINE", str(ROOT / "build" / "tests" / "tools" / "fake_engine"))
LLAMA = os.environ.get("LLAMA_SERVER", "llama-server")
WHISPER = os.environ.get("WHISPER_SERVER", "whisper-server")
SD = os.environ.get("SD_SERVER", "")
TTS = os.environ.get("TTS", os.path.expanduser("~/.cache/cotenant/tts"))
MODELS = pathlib.Path(os.environ.get("MODELS", os.path.expanduser("~/.cache/cotenant/models")))
ENGINES = {"fake": {"kind": "llama-server", "path": FAKE}, "real": {"kind": "llama-server", "path": LLAMA},
           "speech": {"kind": "whisper-server", "path": WHISPER},
           "fake-llama-server": {"kind": "llama-server", "path": FAKE},
           "fake-whisper-server": {"kind": "whisper-server", "path": FAKE},
           "fake-sd-server": {"kind": "sd-server", "path": FAKE},
           "images": {"kind": "sd-server", "path": SD or "sd-server"}}


def fake(load_ms=0, anon_mib=0, footprint_mib=None, args="", **more):
    """A model served by the fake engine, whose file is a real small one."""
    words = f"--load-ms {load_ms} --anon-mib {anon_mib} {args}".strip()
    return {"engine": "fake", "file": str(MODELS / "tiny.gguf"), "args": words, "context": 4096, "slots": 4,
            "footprint": f"{footprint_mib or anon_mib + 16}MiB", **more}


def real(file="tiny.gguf", **more):
    """A model served by llama-server."""
    return {"engine": "real", "file": str(MODELS / file), "context": 2048, "slots": 2, **more}


def fake_of(kind, load_ms=0, **more):
    """The same stand-in started as another kind of engine is, and ready when that one says so."""
    words = f"--load-ms {load_ms} --chunk-ms 0"
    entry = {"slots": 1, "footprint": "300MiB", **more}
    if kind == "command":
        return {"engine": "command", "cmd": f"{FAKE} --host 127.0.0.1 --port ${{PORT}} {words}", "health": "/health", **entry}
    late = "" if kind == "llama-server" else " --listen-late"  # these bind their port when they have loaded
    return {"engine": f"fake-{kind}", "file": str(MODELS / "tiny.gguf"), "args": words + late, **entry}


def speech(**more):
    """A trained model served by whisper-server; it listens to a third of its window, which is enough for a sentence."""
    return {"engine": "speech", "file": str(MODELS / "whisper.bin"), "args": "-ac 512", **more}


def image(**more):
    """A model of the right shape and no training, served by sd-server: every picture is grey."""
    return {"engine": "images", "file": str(MODELS / "image.safetensors"), **more}


def voice(**more):
    """A trained voice, spoken by Piper's server: a program that no adapter knows."""
    return {"engine": "command", "health": "/voices", "footprint": "300MiB",
            "cmd": f"{TTS}/venv/bin/python -m piper.http_server -m {TTS}/voice.onnx --host 127.0.0.1 --port ${{PORT}}", **more}


def config(port, models, limit_mib=None, **more):
    whole = {"listen": f"127.0.0.1:{port}", "local_admin": True, "engines": ENGINES, "models": models, **more}
    if limit_mib:
        whole["memory"] = {"limit": f"{limit_mib}MiB"}
    return json.dumps(whole, indent=1)


def wait_for(what, condition, seconds=30):
    """The first true value of condition(); fails, naming what was waited for, when the time is over.

    The time is what it takes at worst on a machine that computes something else as well: a test that is right does not
    see its end.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.01)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return f"{self.status} {self.text[:500]}"


def ask(daemon, method, path, body=None, headers=None, timeout=60, connection=None):
    """One request over TCP; an answer that breaks off raises http.client.IncompleteRead."""
    own = connection is None
    connection = connection or http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=timeout)
    try:
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        raw = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, raw, headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        if own:
            connection.close()


def chat_body(model, tokens=4, stream=False, text="Hello", **more):
    return {"model": model, "max_tokens": tokens, "stream": stream, "temperature": 0,
            "messages": [{"role": "user", "content": text}], **more}


def chat(daemon, model, tokens=4, headers=None, timeout=60, connection=None, **more):
    return ask(daemon, "POST", "/v1/chat/completions", chat_body(model, tokens, **more), headers, timeout, connection)


def content(answer):
    return answer.json["choices"][0]["message"]["content"].strip()


class Stream:
    """A streamed chat that is read by hand."""

    def __init__(self, daemon, model, tokens=1000, headers=None, **more):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
        self.connection.request("POST", "/v1/chat/completions", json.dumps(chat_body(model, tokens, True, **more)),
                                {"Content-Type": "application/json", **(headers or {})})
        self.sock = self.connection.sock
        self.answer, self.buffer = None, b""

    def begin(self):
        self.answer = self.answer or self.connection.getresponse()
        return self.answer

    def line(self):
        """The next data line; None at a clean end. (http.client's own lines hide an end that is not.)"""
        while True:
            line, found, left = self.buffer.partition(b"\n")
            if found:
                self.buffer = left
                if line.startswith(b"data:"):
                    return line[5:].strip().decode()
                continue
            more = self.begin().read1(65536)
            if not more:
                return None
            self.buffer += more

    def rest(self):
        """(data lines to the end, whether the end was clean)."""
        lines = []
        try:
            while True:
                line = self.line()
                if line is None:
                    return lines, True
                lines.append(line)
        except (http.client.HTTPException, OSError):
            return lines, False

    def leave(self):
        self.connection.close()
        if self.answer:
            self.answer.close()
        self.sock.close()


def raw(daemon, data, seconds=5, shut=False):
    """Send bytes, read until the other side closes or is silent for a while."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=seconds) as sock:
        try:
            sock.sendall(data)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused while we still wrote: what it said is there to read
        received = b""
        try:
            while chunk := sock.recv(65536):
                received += chunk
        except OSError:
            pass
        return received


class InTheBackground:
    """A function that runs meanwhile; calling this waits for its result. What it raises is raised there."""

    def __init__(self, function):
        self.result = None
        self.thread = threading.Thread(target=self.run, args=(function,), daemon=True)
        self.thread.start()

    def run(self, function):
        try:
            self.result = (True, function())
        except BaseException as error:  # noqa: B902
            self.result = (False, error)

    def is_over(self):
        return self.result is not None

    def __call__(self):
        self.thread.join()
        good, value = self.result
        if not good:
            raise value
        return value


def in_threads(functions):
    """Run them at the same time; their results in order."""
    return [call() for call in [InTheBackground(function) for function in functions]]


def end_at_once(daemon):
    """Killed, not asked, with all that it started; its folder goes as well."""
    daemon.process.kill()
    daemon.process.wait()
    wait_for("no process left", lambda: not children_of(daemon.folder))
    daemon.log.close()
    daemon.notify.close()
    shutil.rmtree(daemon.folder, ignore_errors=True)


def models(daemon):
    return {row["name"]: row for row in daemon.get("/api/v1/models")["models"]}


def state(daemon, model):
    return models(daemon)[model]["state"]


def wait_state(daemon, model, *wanted, seconds=30):
    wait_for(f"{model} to be {' or '.join(wanted)}", lambda: state(daemon, model) in wanted, seconds)


def decisions(daemon, kind=None, model=None):
    """Past decisions, oldest first."""
    rows = daemon.get("/api/v1/decisions")["decisions"]
    rows = sorted(rows, key=lambda row: int(row["id"].rpartition("-")[2]))
    return [row for row in rows if kind in (None, row["kind"]) and model in (None, row.get("model"))]


def engine_pids(daemon, model=None):
    """Live engines of the daemon."""
    return [row["pid"] for name, row in models(daemon).items() if row["pid"] and model in (None, name)]


def resident(daemon):
    """Bytes of memory the daemon itself takes."""
    with open(f"/proc/{daemon.process.pid}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]) * 1024


def wait_computing(pid):
    """Until the engine computes: it has what it was asked, and is in the middle of it."""
    def ticks():
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    began = ticks()
    wait_for("the engine to compute", lambda: ticks() >= began + 5)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid):
    os.kill(pid, signal.SIGKILL)
