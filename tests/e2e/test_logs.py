"""logs: what engines print, followed live, kept in bounded files, without secrets."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading

import pytest

from harness import MIB, PROGRAM, ask, chat, fake, in_threads, resident, wait_for, wait_state
from test_cli import run


def files(daemon):
    return {path.name: path for path in pathlib.Path(daemon.folder, "state", "logs").iterdir()}


class Follower:
    def __init__(self, daemon, *words):
        self.process = subprocess.Popen([PROGRAM, "logs", *words], env=daemon.environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.lines = []
        threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")), daemon=True).start()

    def text(self):
        return "".join(self.lines)

    def end(self):
        self.process.send_signal(signal.SIGTERM)  # SIGINT is ignored where a shell started the tests in its background
        self.process.wait(30)


def test_follow_shows_what_comes_over_lives(start):
    daemon = start({"a": fake(args="--print-heads"), "b": fake(args="--print-heads")})
    follower, as_json = Follower(daemon, "a", "-f"), Follower(daemon, "a", "-f", "--json")
    try:
        chat(daemon, "a")
        wait_for("the first life", lambda: "starting" in follower.text() and "head: " in follower.text())
        daemon.model("a", "unload")
        chat(daemon, "b")
        chat(daemon, "a")
        wait_for("the second life", lambda: follower.text().count("starting") == 2)
        wait_for("the same as JSON", lambda: sum("starting" in json.loads(line)["line"] for line in list(as_json.lines)) == 2)
        assert all(json.loads(line)["model"] == "a" for line in list(as_json.lines))
    finally:
        follower.end()
        as_json.end()
    kept = run("logs", "a", daemon=daemon)
    assert kept.returncode == 0 and kept.stdout.count("starting") == 2
    last = run("logs", "a", "-n", 1, daemon=daemon)
    assert last.stdout == kept.stdout.splitlines(keepends=True)[-1]
    assert json.loads(run("logs", "a", "--json", daemon=daemon).stdout)["text"] == kept.stdout
    wait_for("the file", lambda: files(daemon)["a.log"].read_text().count("starting") == 2)
    assert files(daemon)["a.log"].read_text().count(" begins\n") == 2
    assert files(daemon)["a.log"].stat().st_mode & 0o777 == 0o600
    assert files(daemon)["a.log"].parent.stat().st_mode & 0o777 == 0o700


def test_no_log_shows_a_secret(start):
    key, token = "sk-very-secret-key-1", "hf_another_secret"
    daemon = start({"a": fake(args="--print-heads", env={"HF_TOKEN": token})},
                   api_keys=[{"key": key, "name": "laptop"}])
    body = {"model": "a", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}
    answer = ask(daemon, "POST", "/v1/chat/completions", body,
                 {"Authorization": f"Bearer {key}", "X-Test": f"{key} {token} plain"})
    assert answer.status == 200
    wait_for("the heads", lambda: "plain" in run("logs", "a", daemon=daemon).stdout)
    wait_for("the file", lambda: "plain" in files(daemon)["a.log"].read_text())
    for text in (run("logs", "a", daemon=daemon).stdout, files(daemon)["a.log"].read_text()):
        assert key not in text and token not in text
        assert "[redacted]" in text and "plain" in text


@pytest.mark.parametrize("mib", [150, pytest.param(2048, marks=pytest.mark.long)])
def test_a_flood_of_log_fills_nothing(start, mib):
    daemon = start({"a": fake(args=f"--log-flood {mib}", stall_timeout="5m"), "b": fake()})
    follower = subprocess.Popen([PROGRAM, "logs", "a", "-f"], env=daemon.environment, stdout=subprocess.PIPE,
                                stdin=subprocess.DEVNULL)  # nobody reads it
    before = resident(daemon)
    try:
        _, other = in_threads([lambda: chat(daemon, "a", timeout=200), lambda: chat(daemon, "b")])
        assert other.status == 200, "others are served meanwhile"
        wait_state(daemon, "a", "idle")
        assert resident(daemon) - before < 24 * MIB
        assert sum(path.stat().st_size for path in files(daemon).values()) < 10 * MIB
        daemon.process.terminate()  # what was left out is told at the next line, at the latest at the end
        assert daemon.process.wait(30) == 0
        assert "left out" in files(daemon)["a.log"].read_text() or "a.log.1" in files(daemon)
    finally:
        follower.kill()
        follower.wait()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/full", path)], ids=["fifo", "folder", "link"])
def test_a_log_that_cannot_be_written_is_told_once(start, make):
    """What the engine prints is there all the same, in memory."""
    folder = tempfile.mkdtemp(prefix="ct-")
    os.makedirs(folder + "/state/logs", mode=0o700)
    make(folder + "/state/logs/a.log")
    daemon = start({"a": fake()}, folder=folder)
    for _ in range(2):
        chat(daemon, "a")
        daemon.model("a", "unload")
        wait_state(daemon, "a", "unloaded")
    wait_for("the warning", lambda: "a.log cannot be written" in daemon.tail(10000))
    assert daemon.tail(10000).count("a.log cannot be written") == 1
    assert b"starting" in ask(daemon, "GET", "/api/v1/models/a/logs").body
