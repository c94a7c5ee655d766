"""What the daemon does about the machine's memory, besides letting models in and out."""
import os
import re
import sqlite3
import sys
import time

import pytest

from harness import (FAKE, MIB, ROOT, Stream, ask, chat, decisions, engine_pids, fake, models, real, speech, state,
                     wait_for, wait_state)
from squeeze import Group

FORKING = str(ROOT / "tests" / "e2e" / "forking.py")

root = pytest.mark.skipif(os.geteuid() != 0 or not os.access("/proc/sys/vm/compact_memory", os.W_OK),
                          reason="takes root")


def oom_score(pid):
    with open(f"/proc/{pid}/oom_score_adj") as file:
        return int(file.read())


def test_an_idle_engine_would_be_killed_before_a_busy_one(start):
    daemon = start({"a": fake(args="--chunk-ms 50 --chunks 1000")})
    stream = Stream(daemon, "a")
    stream.line()
    pid = engine_pids(daemon, "a")[0]
    wait_for("its score to be told", lambda: oom_score(pid) == 0)
    stream.leave()
    wait_for("its score to rise", lambda: oom_score(pid) == 300)
    stream = Stream(daemon, "a")
    stream.line()
    wait_for("its score to fall", lambda: oom_score(pid) == 0)
    stream.leave()


def test_each_process_of_an_engine_has_a_score_of_its_own(start):
    """The one that has the memory is not the one that was started; and one that was forked has its parent's score."""
    daemon = start({"a": {"engine": "command", "health": "/health", "footprint": "200MiB",
                          "cmd": f"sh -c '{FAKE} --host 127.0.0.1 --port ${{PORT}} --anon-mib 100 --chunk-ms 50 --chunks 1000; true'"}})
    assert daemon.model("a", "load")[0] == 200
    shell = engine_pids(daemon, "a")[0]
    with open(f"/proc/{shell}/task/{shell}/children") as file:
        pids = [shell, *map(int, file.read().split())]
    assert len(pids) == 2
    wait_for("their scores to rise", lambda: [oom_score(pid) for pid in pids] == [300, 300])
    stream = Stream(daemon, "a")
    stream.line()
    wait_for("their scores to fall", lambda: [oom_score(pid) for pid in pids] == [0, 0])
    stream.leave()


def test_other_programs_are_named_and_engines_are_not_among_them(start):
    daemon = start({"a": fake(anon_mib=80)})
    assert chat(daemon, "a").status == 200

    def measured():
        memory = daemon.get("/api/v1/memory")
        rows = [row for row in memory["owners"] if row["name"] == "a"]
        return memory if rows[0]["measured_bytes"] > 80 << 20 else None
    memory = wait_for("it to be measured", measured)
    assert sum(row["measured_bytes"] for row in memory["owners"]) == pytest.approx(
        memory["pools"][0]["unreclaimable_bytes"], abs=1 << 20)


@pytest.mark.parametrize("kind", ["shared", *(pytest.param(more, marks=pytest.mark.long)
                                              for more in ("copied", "session", "orphan"))])
def test_an_engine_of_several_processes_has_what_it_has_once(start, kind):
    """Whatever its processes share, and wherever they went."""
    daemon = start({"a": {"engine": "command", "health": "/", "footprint": "300MiB",
                          "cmd": f"{sys.executable} {FORKING} ${{PORT}} 250 {kind}"}})
    assert daemon.model("a", "load")[0] == 200

    def owner():
        return next(row for row in daemon.get("/api/v1/memory")["owners"] if row["kind"] == "instance")
    wait_for("it to be measured", lambda: owner()["measured_bytes"] >= 250 * MIB, 15)
    for _ in range(6):
        assert 250 * MIB <= owner()["measured_bytes"] < 300 * MIB, owner()
        time.sleep(1)
    others = [row["measured_bytes"] for row in daemon.get("/api/v1/memory")["owners"] if row["name"].startswith("python")]
    assert all(bytes_ < 250 * MIB for bytes_ in others), others
    assert daemon.model("a", "unload")[0] == 200
    wait_state(daemon, "a", "unloaded")


@pytest.mark.long
def test_what_an_engine_leaves_behind_is_told(start):
    """No process of it is left, and the machine has not back what it had: a file in a tmpfs keeps it."""
    before = set(os.listdir("/dev/shm"))
    daemon = start({"a": fake(anon_mib=20, footprint_mib=700, args="--leave-mib 600"), "b": fake(anon_mib=300)})
    try:
        for name in ("a", "b"):
            assert daemon.model(name, "load")[0] == 200
            wait_for("it to be measured", lambda name=name: models(daemon)[name]["settled"])
            assert daemon.model(name, "unload")[0] == 200
            wait_state(daemon, name, "unloaded")

        def left():
            return [warning["message"] for warning in daemon.get("/api/v1/memory")["warnings"]
                    if warning["code"] == "not_given_back"]
        message = wait_for("it to be told", left, 20)
        assert len(message) == 1 and "that a had are not back" in message[0] and "tmpfs" in message[0], message
        assert message[0] in daemon.tail(10)
    finally:
        for name in set(os.listdir("/dev/shm")) - before:
            if name.startswith("left-by-"):
                os.unlink(f"/dev/shm/{name}")
    wait_for("it to be back", lambda: not left())


@pytest.mark.long
def test_a_gpu_that_nobody_uses_is_asked_seldom(start, tmp_path):
    """Each opening of NVIDIA's library takes its time and wakes the card."""
    library = str(ROOT / "build" / "tests" / "tools" / "libfake_nvidia.so")
    os.symlink(library, tmp_path / "libnvidia-ml.so.1")
    opened = tmp_path / "opened"
    daemon = start({"a": fake(anon_mib=20, args="-ngl 0")},
                   environment={"LD_PRELOAD": library, "LD_LIBRARY_PATH": str(tmp_path), "NVML_OPENED": str(opened)})
    assert daemon.get("/api/v1/memory")["topology"] == "discrete-nvidia"
    assert daemon.model("a", "load")[0] == 200
    time.sleep(2)
    before = opened.stat().st_size
    time.sleep(10)
    assert opened.stat().st_size - before <= 1


def test_what_sets_usable_and_free_is_told(start):
    daemon = start({name: fake(footprint_mib=180) for name in ("a", "b")}, limit_mib=400)
    assert chat(daemon, "a").status == chat(daemon, "b").status == 200
    pool = daemon.get("/api/v1/memory")["pools"][0]
    assert pool["claimed_bytes"] > pool["usable_bytes"] and pool["usable_bound_by"] == pool["free_bound_by"] == "limit"
    status, words = daemon.command("memory")
    assert status == 0 and "85 % of memory.limit" in words and "admitted now, under memory.limit" in words, words
    assert "more is claimed than advised" in words
    rows = [line.split() for line in words.splitlines() if line.startswith("other programs")]
    assert all(row[-1] not in ("-", "0") for row in rows), words


LIMIT_FILES = {"v1": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), "v2": ("/sys/fs/cgroup", "memory.max")}


def limiting():
    """The kind of control group that can be made here, or None."""
    if os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK):
        return "v1"
    there = os.path.exists("/sys/fs/cgroup/cgroup.subtree_control")
    return "v2" if there and os.access("/sys/fs/cgroup", os.W_OK) and os.geteuid() == 0 else None


@pytest.mark.skipif(not limiting(), reason="takes a control group of its own")
def test_a_limit_bounds_what_is_told_as_capacity_and_is_seen_when_it_changes(start):
    kind = limiting()
    group = Group(kind, 2048)
    daemon = start({"a": fake(anon_mib=20)}, wrap=group.wrap)
    try:
        assert daemon.model("a", "load")[0] == 200

        def capacity():
            pool = daemon.get("/api/v1/memory")["pools"][0]
            assert pool["usable_bytes"] <= pool["capacity_bytes"]
            text = ask(daemon, "GET", "/metrics").text
            assert f'cotenant_memory_capacity_bytes{{pool="ram"}} {pool["capacity_bytes"]}' in text, text
            return pool["capacity_bytes"]
        assert capacity() == 2048 * MIB
        (group.path / LIMIT_FILES[kind][1]).write_text(str(1024 * MIB))
        wait_for("the lower limit to be seen", lambda: capacity() == 1024 * MIB, 8)
    finally:
        daemon.stop()
        group.remove()


@root
def test_idle_models_leave_for_compaction_and_come_back_the_largest_first(start):
    daemon = start({"small": fake(anon_mib=10), "large": fake(anon_mib=60), "busy": fake(args="--chunk-ms 50 --chunks 9999"),
                    "pinned": fake(anon_mib=10, pin=True)})
    for name in ("small", "large", "pinned"):
        assert chat(daemon, name).status == 200
    stream = Stream(daemon, "busy")
    stream.line()
    wait_for("all to be measured", lambda: all(row["measured_bytes"] > 0 for row in daemon.get("/api/v1/memory")["owners"]
                                               if row["kind"] == "instance"))
    status, words = daemon.command("memory", "--compact")
    assert status == 0 and "2 models left for it and came back" in words, words
    assert state(daemon, "small") == state(daemon, "large") == "idle"
    loads = [row["model"] for row in decisions(daemon, "load")]
    assert loads[-2:] == ["large", "small"] and loads.count("pinned") == loads.count("busy") == 1
    assert stream.line()


def test_looking_costs_little_while_nothing_changes(start):
    """Counted, not timed: what the sampler reads, and how often the loop wakes."""
    daemon = start({f"m{i}": fake() for i in range(5)})
    for i in range(5):
        assert chat(daemon, f"m{i}").status == 200
    pid = daemon.process.pid

    def reads():
        with open(f"/proc/{pid}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("syscr"))

    def wakes():
        with open(f"/proc/{pid}/task/{pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("voluntary"))

    def a_second():
        before, began = (reads(), wakes()), time.monotonic()
        time.sleep(10)
        seconds = time.monotonic() - began
        return (reads() - before[0]) / seconds, (wakes() - before[1]) / seconds
    time.sleep(6)
    # Files that stay open are read once a second, whoever else runs on the machine; more processors write longer ones.
    # For a sample it is asked, and told; for the files that may be read ahead once in five seconds.
    most = (40 + (os.cpu_count() or 1) / 2, 3.5)
    # While others press on memory it looks oftener: then again.
    for _ in range(4):
        seen = a_second()
        if seen[0] < most[0] and seen[1] < most[1]:
            return
    pytest.fail(f"reads and wakes a second: {seen}, at most {most}")


def test_a_load_is_observed_when_it_is_ready(start):
    """What is measured of a load that is just over is what its process had before it had anything."""
    daemon = start({"a": fake(anon_mib=120)})
    loads = 6
    for _ in range(loads):
        assert daemon.model("a", "load")[0] == 200
        wait_for("it to be measured", lambda: models(daemon)["a"]["settled"])
        assert models(daemon)["a"]["measured_bytes"] >= 120 * MIB
        assert daemon.model("a", "unload")[0] == 200
        wait_state(daemon, "a", "unloaded")
    daemon.stop()
    with sqlite3.connect(os.path.join(daemon.folder, "state", "history.db")) as history:
        seen = [row[0] for row in history.execute("SELECT measured_base_bytes FROM observations")]
    assert len(seen) == loads and min(seen) >= 120 * MIB, seen


def test_at_most_is_no_less_than_loaded(start):
    daemon = start({"stt": speech(), "tiny": real(), "a": fake(anon_mib=10)})
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

    def size(text):
        number, unit = text.split()
        return float(number) * units[unit]
    for _ in range(2):  # as estimated, and as learned
        head, *rows = [re.split(r"\s{2,}", line.strip()) for line in daemon.command("ls")[1].splitlines() if line]
        assert len(rows) == 3
        for row in rows:
            idle, full = row[head.index("IDLE")], row[head.index("FULL")]
            assert size(idle) <= size(full), row
        assert daemon.model("stt", "load")[0] == 200
        wait_for("it to be measured", lambda: models(daemon)["stt"]["settled"])
