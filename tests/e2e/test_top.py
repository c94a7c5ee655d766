"""top at a pseudo-terminal, with a real daemon: it shows, obeys, resizes, and leaves the terminal as it was."""
import json
import os
import pathlib
import signal
import subprocess

import pytest

from harness import PROGRAM, InTheBackground, chat, fake, models, state, wait_for, wait_state
from terminal import Terminal
from test_cli import run


@pytest.fixture
def daemon(start, gate):
    """b loads when the gate is there."""
    return start({"a": fake(anon_mib=100, footprint_mib=120),
                  "b": fake(anon_mib=100, footprint_mib=120, args=f"--load-until {gate}")}, limit_mib=1000)


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


def top(daemon, *words, rows=24, columns=80, **environment):
    return Terminal(["top", "-i", "200ms", *words], dict(daemon.environment, LANG="C.UTF-8", **environment), rows, columns)


def row(terminal, name):
    return next((line for line in terminal.screen.lines() if line[2:].startswith(name + " ")), "")


def test_keys_load_pin_and_unload_the_selected_model(daemon, gate):
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        assert terminal.screen.alternate and not terminal.screen.cursor_shown
        assert row(terminal, "a")[1] == ">"
        terminal.press("l")
        wait_state(daemon, "a", "idle")
        wait_for("the screen to say so", lambda: "idle" in row(terminal, "a"))
        terminal.wait_text("A a ")
        terminal.press("\x1b[B")
        wait_for("the selection to move", lambda: row(terminal, "b")[1] == ">")
        terminal.press("l")
        wait_for("the load to be seen", lambda: "load " in row(terminal, "b"))
        terminal.wait_text("loading b by command")
        terminal.press("p")
        wait_for("the pin", lambda: models(daemon)["b"]["pinned"])
        terminal.wait_text("b pin")
        gate.touch()
        wait_state(daemon, "b", "idle")
        terminal.press("k")
        terminal.press("u")
        wait_state(daemon, "a", "unloaded")
        wait_for("the screen to say so", lambda: "unloaded" in row(terminal, "a"))
        terminal.press("q")
        assert terminal.wait_end() == 0
        terminal.wait_restored()


def test_it_shows_what_runs_waits_and_how_fast(start, gate):
    daemon = start({"a": fake(args=f"--chunks 40 --chunk-ms 20 --work-until {gate}", slots=1)})
    gate.touch()
    chat(daemon, "a", stream=True)
    gate.unlink()
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        calls = [InTheBackground(lambda: chat(daemon, "a")) for _ in range(2)]
        terminal.wait_text("1 running, 1 waiting")
        gate.touch()
        assert [call().status for call in calls] == [200, 200]
        terminal.press("q")
        assert terminal.wait_end() == 0


def test_it_resizes_and_no_line_is_broken(daemon):
    with top(daemon) as terminal:
        terminal.wait_text("quit")
        for rows, columns in ((40, 120), (10, 40), (5, 20), (24, 80)):
            terminal.resize(rows, columns)
            wait_for(f"{rows} rows to be filled", lambda: "up/down" in terminal.screen.lines()[-1])
            assert terminal.screen.lines()[0].startswith("cotenant")
        terminal.press("q")
        assert terminal.wait_end() == 0
        terminal.wait_restored()


@pytest.mark.parametrize("end", ["\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGABRT, signal.SIGSEGV])
def test_however_it_ends_the_terminal_is_restored(daemon, end):
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        if isinstance(end, str):
            terminal.press(end)
            assert terminal.wait_end() == 0
        else:
            terminal.process.send_signal(end)
            assert terminal.wait_end() == -end
        terminal.wait_restored()


def test_suspended_it_gives_the_terminal_back_and_takes_it_again(daemon):
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        terminal.press("\x1a")
        terminal.wait_restored()
        wait_for("it to be stopped", lambda: pathlib.Path(f"/proc/{terminal.process.pid}/stat").read_text().split()[2] == "T")
        terminal.process.send_signal(signal.SIGCONT)
        terminal.wait_text("memory ")
        assert terminal.screen.alternate
        terminal.press("q")
        assert terminal.wait_end() == 0
        terminal.wait_restored()


def test_a_daemon_that_goes_and_comes_again(daemon, start):
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        daemon.stop()
        terminal.wait_text("no daemon answers")
        again = start({"c": fake()}, folder=daemon.folder)
        wait_for("the new one's models", lambda: row(terminal, "c"))
        terminal.wait_text("0 of 1 loaded")
        chat(again, "c")
        terminal.wait_text("loading c")
        terminal.press("q")
        assert terminal.wait_end() == 0


def test_a_silent_daemon_does_not_stop_the_keys(daemon):
    with top(daemon) as terminal:
        terminal.wait_text("memory ")
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            terminal.press("\x1b[B")
            wait_for("the selection to move", lambda: row(terminal, "b")[1] == ">")
            terminal.press("q")
            assert terminal.wait_end(10) == 0
        finally:
            daemon.process.send_signal(signal.SIGCONT)


def test_a_refused_command_says_why(start):
    daemon = start({"huge": fake(footprint_mib=9000)}, limit_mib=500)
    with top(daemon, columns=120) as terminal:
        terminal.wait_text("huge")
        terminal.press("l")
        terminal.wait_text("never fit")
        terminal.press("q")
        assert terminal.wait_end() == 0


def test_without_a_terminal_it_prints_snapshots(daemon):
    chat(daemon, "a")
    once = run("top", "--once", daemon=daemon)
    assert once.returncode == 0 and "\x1b" not in once.stdout
    assert "A a " in once.stdout and "memory" in once.stdout and "loading a" in once.stdout
    whole = json.loads(run("top", "--once", "--json", daemon=daemon).stdout)
    assert {"memory", "models", "decisions", "at_ms"} <= whole.keys()
    follower = subprocess.Popen([PROGRAM, "top", "--json", "-i", "100ms"], env=daemon.environment, text=True,
                                stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        seen = [json.loads(follower.stdout.readline()) for _ in range(3)]
        assert seen[0]["at_ms"] < seen[2]["at_ms"]
    finally:
        follower.stdout.close()
        follower.wait(30)  # the reader went: it ends by itself


def test_without_a_daemon_it_says_so_before_it_takes_the_terminal(tmp_path):
    environment = dict(os.environ, HOME=str(tmp_path), COTENANT_SOCKET=str(tmp_path / "nobody.sock"))
    with Terminal(["top"], environment) as terminal:
        assert terminal.wait_end() == 3
        terminal.wait_text("cotenant serve")
        terminal.wait_restored()
    assert run("top", "-i", "1ms").returncode == 2
