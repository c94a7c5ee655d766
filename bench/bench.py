#!/usr/bin/env python3
"""bench.py: what a request, a chunk, a parked request and a swap cost the daemon. Writes bench/results.md.

Counts, not times, wherever a count tells: instructions (callgrind) and system calls (strace), each
as the difference of two run lengths, so that the start cancels out. The engine is the stand-in of the tests.
"""
import contextlib
import datetime
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "e2e")]
from harness import PROGRAM, Daemon, Stream, ask, chat, config, engine_pids, fake, fake_of, free_port, models, wait_for  # noqa: E402

from daemon import UnixConnection  # noqa: E402

import http.client  # noqa: E402

REQUESTS, CHUNKS = 500, 1000
DECISIONS = os.environ.get("DECISIONS", str(ROOT / "build-bench" / "bench" / "decisions"))
# models, requests that wait: the aim is for the first, and twice what that took for the other
SIZES = ((1000, 10000), (4000, 40000))
INSTRUCTIONS, GROWTH = 150_000, 2
MEASUREMENT = 6
EVENTS = {MEASUREMENT: "a measurement", 7: "a sample", 11: "an arrival", 13: "an end", 16: "a load's end"}
KIB, MIB = 1024, 1 << 20


@contextlib.contextmanager
def daemon(catalogue, wrap=(), ready=20, **more):
    folder = tempfile.mkdtemp(prefix="ct-")
    port = free_port()
    one = Daemon(PROGRAM, folder, config(port, catalogue, **more), port, wrap=wrap)
    try:
        one.wait_ready(ready)
        yield one
        one.stop(60)
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def requests(one, count):
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=120)
    for _ in range(count):
        answer = chat(one, "short", connection=connection)
        assert answer.status == 200, answer
    connection.close()


def chunks(one, name):
    stream = Stream(one, name)
    lines, clean = stream.rest()
    assert clean
    return len(lines)


CATALOGUE = {"short": fake(args="--chunk-ms 0"),
             "stream1": fake(args=f"--chunk-ms 1 --chunks {CHUNKS}"),
             "stream2": fake(args=f"--chunk-ms 1 --chunks {2 * CHUNKS}")}


def instructions(load):
    """Instructions of the loop's thread over its whole life."""
    with tempfile.TemporaryDirectory() as folder:
        wrap = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={folder}/out",
                f"--log-file={folder}/log"]
        with daemon(CATALOGUE, wrap, 120) as one:
            chat(one, "short")
            pid = one.process.pid
            load(one)
        # Each process that it forked writes such files too, over one another: the daemon ends last.
        text = pathlib.Path(folder, "out-01").read_text()
        assert f"pid: {pid}" in text
        return int(re.search(r"^totals: (\d+)", text, re.M).group(1))


def system_calls(load):
    """System calls of the loop's thread while `load` ran."""
    with daemon(CATALOGUE) as one, tempfile.NamedTemporaryFile("r") as out:
        for name in CATALOGUE:
            chat(one, name)
        strace = subprocess.Popen(["strace", "-c", "-o", out.name, "-p", str(one.process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        assert "attached" in strace.stderr.readline()
        load(one)
        strace.terminate()
        strace.wait()
        return int(re.findall(r"^100\.00\s+\S+\s+\S+\s+(\d+)\s+(?:\d+\s+)?total", out.read(), re.M)[0])


def per(measure, small, large, count):
    return (measure(large) - measure(small)) / count


def status(one, field):
    with open(f"/proc/{one.process.pid}/status") as file:
        return int(dict(line.split(":", 1) for line in file)[field].split()[0]) * KIB


def decisions(count, queued, events=500):
    """Instructions of the arbiter's step for each of so many events that decide something, and for some of those that
    only note: {type: [count, ...]}, by callgrind's dumps."""
    with tempfile.TemporaryDirectory() as folder:
        types = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured_event", "--dump-after=measured_event",
             "--combine-dumps=yes", f"--callgrind-out-file={folder}/out", f"--log-file={folder}/log",
             DECISIONS, str(count), str(queued), str(events)],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
        totals = re.findall(r"^totals: (\d+)", pathlib.Path(folder, "out").read_text(), re.M)
    costs = {}
    for kind, total in zip(types, totals):
        costs.setdefault(int(kind), []).append(int(total))
    return costs


def p99(values):
    return sorted(values)[int(0.99 * len(values))]


def decision_rows():
    rows, missed, aim = [], False, INSTRUCTIONS
    for count, queued in SIZES:
        costs = decisions(count, queued)
        every = p99([cost for kind, values in costs.items() if kind != MEASUREMENT for cost in values])
        size = f"{count:,} models, {queued:,} queued"
        rows.append((f"instructions an event, p99; {size}", f"{every:,}", f"{aim:,}"))
        for kind, name in EVENTS.items():
            values = costs.get(kind, [0])
            rows.append((f"... {name}: mean / p99", f"{statistics.mean(values):,.0f} / {p99(values):,}", ""))
        missed |= every > aim
        aim = GROWTH * every
    return rows, missed


def at_rest():
    with daemon({"a": fake(load_ms=4000, slots=64, queue=2048)}, limits={"requests": 4096}) as one:
        time.sleep(2)
        rest = {field: status(one, field) for field in ("VmRSS", "RssAnon")}
        one.get("/api/v1/plan?model=a")
        time.sleep(0.5)
        rest["after a plan"] = status(one, "RssAnon")
        before = status(one, "VmRSS")
        streams = [Stream(one, "a") for _ in range(1000)]
        wait_for("all to be parked", lambda: models(one)["a"]["queued"] >= 990)
        rest["parked"] = (status(one, "VmRSS") - before) / 1000
        for stream in streams:
            stream.rest()
        return rest


WORK = {"llama-server": "/v1/chat/completions", "whisper-server": "/v1/audio/transcriptions",
        "sd-server": "/v1/images/generations", "command": "/v1/chat/completions"}


def alone(command, environment):
    """Milliseconds that an engine needs by itself: from its start to a connection that is taken and a health that is
    good, and from being told to end to its end."""
    begin = time.monotonic()
    engine = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    where = next(word for flag, word in zip(command, command[1:]) if flag in ("--host", "--listen-ip"))
    port = next((int(word) for flag, word in zip(command, command[1:]) if flag in ("--port", "--listen-port")), 0)
    while True:
        connection = UnixConnection(where, 5) if where.startswith("/") else http.client.HTTPConnection(where, port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                break
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.0005)
    engine.terminate()
    engine.wait()
    return 1e3 * (time.monotonic() - begin)


def command_of(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read().split("\0")[:-1]


def swap(kind, load_ms, swaps=20):
    """Milliseconds to the answer of a request that needs a swap, beyond what one engine needs to end and the
    other to start; each swap is paired with an engine that is started and ended by hand right after it."""
    catalogue = {name: fake_of(kind, load_ms) for name in "ab"}
    with daemon(catalogue, limit_mib=500) as one:
        over = []
        for i in range(swaps + 1):
            begin = time.monotonic()
            answer = ask(one, "POST", WORK[kind], {"model": "ab"[i % 2], "messages": []})
            seconds = time.monotonic() - begin
            assert answer.status == 200, answer
            command = command_of(engine_pids(one)[0])
            command = [word if not word.endswith(".sock") else word + ".alone" for word in command]
            if "--port" in command or "--listen-port" in command:
                flag = "--port" if "--port" in command else "--listen-port"
                command[command.index(flag) + 1] = str(free_port())
            over.append(1e3 * seconds - alone(command, os.environ))
        over = over[1:]  # the first one had nobody to make room of
        return min(over), statistics.median(over), max(over)


def main():
    rest = at_rest()
    rows = [
        ("VmRSS at rest", f"{rest['VmRSS'] / MIB:.1f} MiB", "8 MiB"),
        ("RssAnon at rest", f"{rest['RssAnon'] / MIB:.1f} MiB", "3 MiB"),
        ("RssAnon after a plan", f"{rest['after a plan'] / MIB:.1f} MiB", "as at rest"),
        ("a parked request", f"{rest['parked'] / KIB:.1f} KiB", "4 KiB and its body"),
        ("system calls, a request", f"{per(system_calls, lambda o: requests(o, REQUESTS), lambda o: requests(o, 2 * REQUESTS), REQUESTS):.1f}", ""),
        ("system calls, a chunk", f"{per(system_calls, lambda o: chunks(o, 'stream1'), lambda o: chunks(o, 'stream2'), CHUNKS):.1f}", ""),
        ("instructions, a request", f"{per(instructions, lambda o: requests(o, REQUESTS), lambda o: requests(o, 2 * REQUESTS), REQUESTS):,.0f}", ""),
        ("instructions, a chunk", f"{per(instructions, lambda o: chunks(o, 'stream1'), lambda o: chunks(o, 'stream2'), CHUNKS):,.0f}", ""),
    ]
    rows += [(f"a swap of {kind} beyond its own {load_ms} ms", "{:.1f} / {:.1f} / {:.1f} ms".format(*swap(kind, load_ms)),
              "20 ms") for kind in WORK for load_ms in (137, 503)]
    more, worse = decision_rows()
    rows += more
    with open("/proc/cpuinfo") as file:
        cpu = re.search(r"model name\s*: (.*)", file.read()).group(1)
    text = ["# Results", "", f"{datetime.date.today()}, {platform.machine()}, {cpu}, {os.cpu_count()} cores, "
            f"Linux {platform.release()}. Made by `make bench`; bench/README.md tells how.", "",
            "| | measured | aim |", "|---|---|---|"]
    text += [f"| {what} | {value} | {aim} |" for what, value, aim in rows]
    (ROOT / "bench" / "results.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
