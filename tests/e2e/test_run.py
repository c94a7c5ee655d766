"""run, load and logs at the command line: what a person reads while it happens."""
import json
import os
import signal
import subprocess

import pytest

from harness import PROGRAM, chat, fake, models, real, state, wait_for
from terminal import Terminal
from test_cli import run


def begin(*words, daemon, **more):
    return subprocess.Popen([PROGRAM, *words], env=daemon.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **{"stdin": subprocess.DEVNULL, **more})


def test_run_answers_as_the_api_does(start):
    daemon = start({"chat": real("chat.gguf")})
    told = run("run", "chat", "What", "is", "your", "name?", "-n", 24, "-t", 0, daemon=daemon)
    assert told.returncode == 0, told
    assert "loading chat" in told.stderr or not told.stderr
    answer = chat(daemon, "chat", 24, text="What is your name?")
    assert told.stdout.strip() == answer.json["choices"][0]["message"]["content"].strip()
    asked = subprocess.run([PROGRAM, "run", "chat", "--json", "-n", "24", "-t", "0"], env=daemon.environment, text=True,
                           capture_output=True, input="What is your name?")
    whole = json.loads(asked.stdout)
    assert whole["content"].strip() == told.stdout.strip() and asked.returncode == 0
    assert whole["usage"]["completion_tokens"] > 0 and whole["finish_reason"] in ("stop", "length")
    assert whole["request"]
    assert models(daemon)["chat"]["tokens_per_s"] > 0, "the answers' speed is known afterwards"


def test_run_on_a_terminal_shows_the_load_and_wipes_it(start, tmp_path):
    gate = tmp_path / "gate"
    daemon = start({"a": fake(args=f"--chunks 3 --load-until {gate}")})
    with Terminal(["run", "a", "Hello"], daemon.environment) as terminal:
        terminal.wait_text("loading a [")
        gate.touch()
        assert terminal.wait_end() == 0
        assert "loading" not in terminal.screen.text()
        assert terminal.screen.text().strip(), "the answer stands there alone"


def test_run_says_what_is_wrong_with_a_command_to_type(start):
    daemon = start({"chat": fake(), "embed": real("embed.gguf", context=512), "bad": fake(args="--die-at loading"),
                    "huge": fake(footprint_mib=9000)}, limit_mib=1000)
    for model, status, words in (("chta", 1, "chat"), ("embed", 1, "embedding model"), ("bad", 1, "bad"),
                                 ("huge", 4, "never fit")):
        told = run("run", model, "Hello", daemon=daemon)
        assert (told.returncode, told.stdout) == (status, ""), told
        assert words in told.stderr and "try: " in told.stderr, told
    assert run("run", "chat", daemon=daemon).returncode == 2, "an empty stdin is no text"


def test_run_without_a_daemon_is_3(tmp_path):
    told = run("run", "chat", "Hello", folder=tmp_path)
    assert told.returncode == 3 and "cotenant serve" in told.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_request(start, number):
    daemon = start({"a": fake(args="--chunks 100000 --chunk-ms 20")})
    process = begin("run", "a", "Hello", daemon=daemon)
    wait_for("a request to run", lambda: models(daemon)["a"]["running"] == 1)
    process.stdout.read(1)
    process.send_signal(number)
    process.wait(30)
    assert process.returncode == -number and "cancelled" in process.stderr.read()
    wait_for("the daemon to have noticed", lambda: models(daemon)["a"]["running"] == 0)
    assert state(daemon, "a") == "idle"


def test_an_answer_that_breaks_off_is_a_failure(start):
    daemon = start({"a": fake(args="--chunks 100000 --chunk-ms 20")})
    process = begin("run", "a", "Hello", daemon=daemon)
    process.stdout.read(1)
    os.kill(models(daemon)["a"]["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "try: " in err, err


def test_load_shows_bytes_percent_and_time_left(start):
    daemon = start({"a": fake(load_ms=3000)})
    daemon.model("a", "load")
    daemon.model("a", "unload")
    with Terminal(["load", "a"], daemon.environment) as terminal:
        during = wait_for("the load", lambda: models(daemon)["a"]["load"])
        terminal.wait_text("loading a [")
        terminal.wait_text("left")
        assert during["total_bytes"] > 0 and during["expected_ms"] >= 2900 and during["left_ms"] < during["expected_ms"]
        assert terminal.wait_end() == 0
    assert models(daemon)["a"]["load"] is None
