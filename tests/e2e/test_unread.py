"""A file of the machine's that gives no answer: what is known gets old, and everybody is told so."""
import os
import subprocess
import time

import pytest

from harness import ROOT, ask, chat, fake, state, wait_for

BLOCKER = str(ROOT / "build" / "tests" / "tools" / "libblocked_file.so")
FILE = "/proc/meminfo"


@pytest.fixture
def block(tmp_path):
    class Block:
        flag = tmp_path / "blocked"
        environment = {"LD_PRELOAD": BLOCKER, "BLOCKED_FILE": FILE, "BLOCKED_BY": str(flag)}

        def begin(self):
            self.flag.touch()

        def end(self):
            self.flag.unlink(missing_ok=True)
    block = Block()
    yield block
    block.end()


def codes(daemon):
    return [warning["code"] for warning in daemon.get("/api/v1/memory")["warnings"]]


def test_nothing_loads_on_an_account_that_is_old(start, block):
    daemon = start({"a": fake(anon_mib=50), "b": fake(anon_mib=50), "c": fake(anon_mib=50)}, environment=block.environment)
    assert chat(daemon, "a").status == chat(daemon, "b").status == 200
    block.begin()
    wait_for("it to be noticed", lambda: "not_read" in codes(daemon), 20)
    memory = daemon.get("/api/v1/memory")
    assert {"name": FILE, "state": "blocked"}.items() <= next(
        row for row in memory["inputs"] if row["name"] == FILE).items()
    assert any(FILE in warning["message"] for warning in memory["warnings"])
    assert f"{FILE} gives no answer" in daemon.command("memory")[1]
    assert FILE in daemon.tail(20)
    # Who is loaded serves, who is to go goes, and who would have to be loaded is told why he is not.
    assert chat(daemon, "a").status == 200
    assert daemon.model("b", "unload")[0] == 200
    answer = chat(daemon, "c", timeout=40)
    assert answer.status == 503 and answer.error["code"] == "memory_unread" and FILE in answer.error["message"], answer
    assert state(daemon, "c") == "unloaded" and state(daemon, "b") == "unloading"
    block.end()
    wait_for("it to be read again", lambda: "not_read" not in codes(daemon))
    wait_for("what came back to be seen", lambda: state(daemon, "b") == "unloaded")
    assert chat(daemon, "c").status == 200


def test_the_end_does_not_wait_for_an_answer(start, block):
    daemon = start({"a": fake(anon_mib=50)}, environment=block.environment)
    assert chat(daemon, "a").status == 200
    block.begin()
    time.sleep(1.5)  # a sample is on its way
    began = time.monotonic()
    daemon.process.terminate()
    assert daemon.process.wait(15) == 0
    assert time.monotonic() - began < 10
    assert f"{FILE} gives no answer" in daemon.tail(20)
    assert "what a held was not seen to come back" in daemon.tail(20)


@pytest.mark.long
@pytest.mark.parametrize("words", [["memory", "--root", "/"], ["doctor"], ["serve", "-f"]])
def test_who_reads_the_machine_by_himself_says_what_gives_no_answer(block, tmp_path, words):
    conf = tmp_path / "cotenant.yaml"
    conf.write_text("models: {}\nlisten: 127.0.0.1:0\n")
    block.begin()
    environment = {**os.environ, **block.environment, "RUNTIME_DIRECTORY": str(tmp_path / "run"),
                   "STATE_DIRECTORY": str(tmp_path / "state")}
    words = [*words, str(conf)] if words[0] == "serve" else words
    done = subprocess.run([os.environ.get("COTENANT", str(ROOT / "build" / "cotenant")), *words], env=environment,
                          capture_output=True, text=True, timeout=40)
    assert done.returncode == 1 and f"{FILE} gives no answer" in done.stderr, done
