"""How an engine ended is told apart: its own fault, somebody's kill, a limit, the machine, its device."""
import json
import os
import signal

import pytest

import squeeze
from harness import Stream, ask, chat, decisions, engine_pids, fake, models, wait_for
from test_squeeze import V1


def causes(daemon):
    text = ask(daemon, "GET", "/metrics").text
    rows = [line.split() for line in text.splitlines() if line.startswith("cotenant_engine_endings_total{")]
    return {row[0].split('"')[1]: int(row[1]) for row in rows if row[1] != "0"}


@pytest.mark.parametrize("args, cause, words", [
    ("--die-signal 11", "crashed", "signal 11"),
    ("--die-status 1 --die-line 'cudaMalloc failed: out of memory'", "device_full", "cudaMalloc failed"),
    ("--die-status 1 --die-line 'ggml_aligned_malloc: insufficient memory'", "host_full", "insufficient memory"),
])
def test_an_engine_s_own_end_is_told(start, args, cause, words):
    daemon = start({"a": fake(args=f"--die-at loading {args}")})
    answer = chat(daemon, "a")
    assert answer.status == 502 and words in answer.error["message"]
    assert set(causes(daemon)) == {cause}
    assert decisions(daemon, "load_failed")[0]["cause"] == cause


def test_a_kill_from_outside_is_no_lack_of_memory(start):
    daemon = start({"a": fake(args="--chunk-ms 50 --chunks 1000")})
    stream = Stream(daemon, "a")
    stream.line()
    os.kill(engine_pids(daemon, "a")[0], signal.SIGKILL)
    lines, clean = stream.rest()
    assert not clean and "killed from outside" in lines[-1]
    assert causes(daemon) == {"killed": 1}
    assert "killed from outside" in daemon.command("why", "a")[1]


@pytest.mark.skipif(not V1, reason="no such control groups")
def test_a_limit_of_the_control_group_is_named(start):
    group = squeeze.Group("v1", 300)
    try:
        daemon = start({"a": fake(anon_mib=20, args="--request-mib 600")}, wrap=group.wrap)
        assert daemon.model("a", "load")[0] == 200
        engine = engine_pids(daemon, "a")[0]
        # Nobody sees it come: the daemon stands still while the engine takes too much.
        os.kill(engine, signal.SIGSTOP)
        stream = Stream(daemon, "a")
        wait_for("the request to be with the engine", lambda: models(daemon)["a"]["running"])
        os.kill(daemon.process.pid, signal.SIGSTOP)
        os.kill(engine, signal.SIGCONT)
        wait_for("the kernel to act", group.kills)
        # It holds its memory until it is gone: seen before, the guard would end it for want of room.
        wait_for("the engine to be gone", lambda: not os.path.exists(f"/proc/{engine}"))
        os.kill(daemon.process.pid, signal.SIGCONT)
        answer = stream.begin()
        assert answer.status == 502
        assert "control group's limit was reached" in json.loads(answer.read())["error"]["message"]
        assert causes(daemon) == {"group_limit": 1}
        assert "control group's memory limit" in daemon.command("why", "a")[1]
        assert daemon.stop() == 0
    finally:
        group.remove()
