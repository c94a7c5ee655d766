"""Storms, cycles and soaks: `make e2e-long`."""
import os
import random
import time

import pytest

from harness import (MIB, Stream, chat, children_of, engine_pids, fake, in_threads, kill, models, real, resident,
                     wait_for)

pytestmark = pytest.mark.long


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def test_a_thousand_loads_leak_nothing(start):
    daemon = start({"a": fake(anon_mib=8, footprint_mib=300), "b": fake(anon_mib=8, footprint_mib=300)}, limit_mib=500)
    for name in "ab" * 10:
        assert chat(daemon, name).status == 200
    memory, files = resident(daemon), descriptors(daemon)
    for name in "ab" * 500:
        assert chat(daemon, name).status == 200
    assert resident(daemon) - memory < 2 * MIB
    assert descriptors(daemon) <= files + 4


def processes_of(daemon):
    """The daemon's whole session tree: {pid: state}, ended ones that nobody has reaped among them."""
    parents, states = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        parents[int(pid)], states[int(pid)] = int(parent), state
    found, more = {daemon.process.pid}, True
    while more:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
    return {pid: states.get(pid, "?") for pid in found}


def meminfo(field):
    with open("/proc/meminfo") as file:
        return int(dict(line.split(":") for line in file)[field].split()[0]) << 10


def test_a_thousand_cycles_of_a_real_engine_end_where_they_began(start):
    """llama-server with a tiny model, loaded, asked, unloaded: by command, so that each release is measured."""
    daemon = start({"a": real("alpha.gguf")})

    def cycle():
        assert daemon.model("a", "load")[0] == 200
        assert chat(daemon, "a").status == 200
        assert daemon.model("a", "unload")[0] == 200

    def at_rest():
        """Its smallest of a second: what a worker or a row of history has in hand is none of it."""
        return min(resident(daemon) for _ in range(20) if not time.sleep(0.05))
    for _ in range(50):
        cycle()
    memory, files, processes = at_rest(), descriptors(daemon), len(processes_of(daemon))
    shared, available = meminfo("Shmem"), meminfo("MemAvailable")
    begin = time.monotonic()
    for _ in range(1000):
        cycle()
    seconds = time.monotonic() - begin
    grown = at_rest() - memory
    print(f"1,000 cycles, {seconds:.0f} s: daemon {memory >> 10} KiB + {grown >> 10} KiB, {files} descriptors "
          f"{descriptors(daemon) - files:+d}, available {(meminfo('MemAvailable') - available) >> 20:+d} MiB")
    assert grown <= MIB
    assert descriptors(daemon) == files
    left = processes_of(daemon)
    assert len(left) == processes and "Z" not in left.values(), left
    assert meminfo("Shmem") - shared < 64 * MIB
    assert not any(row["claim_bytes"] for row in daemon.get("/api/v1/memory")["owners"] if row["kind"] == "instance")


def test_a_storm_of_clients_and_kills(start):
    names = "abcdef"
    daemon = start({name: fake(load_ms=50, anon_mib=60, args="--chunk-ms 5", footprint_mib=80) for name in names}, limit_mib=250,
                   options=["--paranoid"])
    stop = time.monotonic() + 60
    seen = []

    def client(seed):
        chance = random.Random(seed)
        while time.monotonic() < stop:
            name = chance.choice(names)
            try:
                if chance.random() < 0.2:
                    stream = Stream(daemon, name, 50)
                    stream.line()
                    stream.leave()
                else:
                    seen.append(chat(daemon, name, 10, stream=chance.random() < 0.5).status)
            except Exception as error:  # a killed engine cuts its streams
                seen.append(type(error).__name__)

    def killer():
        chance = random.Random(1)
        while time.monotonic() < stop:
            time.sleep(chance.random() * 2)
            pids = engine_pids(daemon)
            if pids:
                try:
                    kill(chance.choice(pids))
                except ProcessLookupError:
                    pass
    in_threads([lambda seed=seed: client(seed) for seed in range(24)] + [killer])
    assert seen.count(200) > 200
    wait_for("all queues to be empty", lambda: not any(row["queued"] or row["running"] for row in models(daemon).values()))
    for name in names:
        assert chat(daemon, name).status in (200, 503)


def test_killed_fifty_times_it_always_comes_back(start):
    daemon = start({"a": fake(anon_mib=20)})
    for _ in range(50):
        chat(daemon, "a")
        kill(daemon.process.pid)
        daemon.process.wait()
        wait_for("nothing to be left", lambda d=daemon: not children_of(d.folder))
        daemon = start({"a": fake(anon_mib=20)}, folder=daemon.folder)
    assert chat(daemon, "a").status == 200


def test_a_thousand_streams(start):
    daemon = start({"a": fake(args="--chunk-ms 200 --chunks 50", slots=1024, queue=2048)}, limits={"requests": 4096})
    streams = [Stream(daemon, "a") for _ in range(1000)]
    assert all(stream.line() for stream in streams)
    before = resident(daemon)
    assert before < 120 * MIB
    assert all(stream.rest()[1] for stream in streams)


def test_a_thousand_parked(start):
    daemon = start({"a": fake(load_ms=8000, slots=64, queue=2048)}, limits={"requests": 4096})
    rest = resident(daemon)
    streams = [Stream(daemon, "a", 2) for _ in range(1000)]
    wait_for("all to be parked", lambda: models(daemon)["a"]["queued"] >= 990)
    assert (resident(daemon) - rest) / 1000 < 12 * 1024
    assert all(stream.rest()[0] for stream in streams)
