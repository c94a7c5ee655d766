"""cycles N: five engines are loaded and unloaded N times; what is attributed to them is held against the machine.

For a quiet machine: the kernel of tools/own-kernel. Prints a line of JSON for each cycle and one
that sums up; exits with 1 where a level is missed:

  - with all five loaded, the sum of what is attributed is within 2 % or 64 MiB of the change of the
    machine's unreclaimable use;
  - a release is seen within 60 ms of the end of the engine's processes (19 of 20 on a quiet machine, QUIET=1; of fewer
    than 20 the half);
  - what is in use between the cycles does not drift, neither in the engines' control group nor in the
    machine: its slope cannot be told from 0, or is below what would matter in a thousand cycles (64 MiB).
    The daemon's own memory, and this program's, are told apart: rings of decisions and tails of logs fill
    in the first thirty cycles, and are bounded.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import harness
from harness import MIB, ask, chat, decisions, fake, real, speech, state, wait_for

LATEST_MS = 60


def the_five():
    return {"chat": real("chat.gguf"), "embed": real("embed.gguf", args="--embeddings"), "stt": speech(),
            "alpha": real("alpha.gguf"), "other": fake(anon_mib=200)}


def in_use(daemon):
    """(unreclaimable use, measured of engines) of one and the same sample, when it is a new one."""
    last = daemon.get("/api/v1/memory")["sampled_at_ms"]
    wait_for("a new sample", lambda: daemon.get("/api/v1/memory")["sampled_at_ms"] != last, 15)
    memory = daemon.get("/api/v1/memory")
    return (memory["pools"][0]["unreclaimable_bytes"],
            sum(row["measured_bytes"] for row in memory["owners"] if row["kind"] == "instance"))


def settled(daemon):
    """Until two samples in a row say the same within 1 MiB."""
    last = in_use(daemon)
    for _ in range(30):
        now = in_use(daemon)
        if abs(now[0] - last[0]) < MIB and abs(now[1] - last[1]) < MIB:
            return now
        last = now
    return last


def slope(values):
    """Least squares: (change a cycle, its standard error)."""
    n = len(values)
    mean_x, mean_y = (n - 1) / 2, sum(values) / n
    sxx = sum((x - mean_x) ** 2 for x in range(n))
    b = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values)) / sxx
    rest = sum((y - mean_y - b * (x - mean_x)) ** 2 for x, y in enumerate(values))
    return b, (rest / (n - 2) / sxx) ** 0.5 if n > 2 else float("inf")


def group_bytes():
    """Anonymous memory of the group that the daemon and its engines are in; None where there is none."""
    try:
        text = (GROUP / "memory.stat").read_text()
    except OSError:
        return None
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("anon ")))


COUNTED = ("AnonPages", "Shmem", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu", "VmallocUsed")


def by_owner(daemon):
    """Bytes of what the machine's use is made of, and of those who could be the ones that grow."""
    def field(path, name):
        with open(path) as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":")), 0)
    return {**{name: field("/proc/meminfo", name) for name in COUNTED},
            "daemon": field(f"/proc/{daemon.process.pid}/status", "RssAnon"),
            "test": field("/proc/self/status", "RssAnon")}


def between(daemon):
    """What is in use while nothing is loaded."""
    memory, by, group = daemon.get("/api/v1/memory"), by_owner(daemon), group_bytes()
    empty = memory["pools"][0]["unreclaimable_bytes"]
    return {"empty": empty, "by": by, "machine": empty - by["daemon"] - by["test"],
            "engines": None if group is None else group - by["daemon"]}


def use(daemon, names):
    for name in names:
        if name == "embed":
            status = ask(daemon, "POST", "/v1/embeddings", {"model": name, "input": "a"}, timeout=600).status
        elif name == "stt":
            status = daemon.model(name, "load")[0]
        else:
            status = chat(daemon, name, timeout=600).status
        assert status == 200, (name, status)


def cycle(daemon, names):
    # Nothing is loaded: the sample that showed the last release is the newest.
    before = between(daemon)
    use(daemon, names)
    full, measured = settled(daemon)
    releases = []
    for name in names:
        assert daemon.model(name, "unload")[0] == 200
        wait_for("its release", lambda n=name: state(daemon, n) == "unloaded", 60)
        releases.append(decisions(daemon, "released", name)[-1]["wait_ms"])
    change = full - before["empty"]
    return {**before, "change": change, "attributed": measured, "error": measured - change, "release_ms": releases}


GROUP = pathlib.Path("/sys/fs/cgroup/cycles")


def make_group():
    if (pathlib.Path("/sys/fs/cgroup") / "cgroup.subtree_control").exists():
        GROUP.mkdir(exist_ok=True)
        return ["sh", "-c", f'echo $$ >{GROUP}/cgroup.procs; exec "$@"', "sh"]
    return []


def judge(rows):
    levels = {}
    levels["attributed"] = all(abs(row["error"]) <= max(64 * MIB, 0.02 * row["change"]) for row in rows)
    releases = sorted(ms for row in rows for ms in row["release_ms"])
    levels["release_ms"] = {name: releases[int(len(releases) * part)] for name, part in
                            (("median", 0.5), ("p95", 0.95), ("latest", 0.9999))}
    if os.environ.get("QUIET"):  # else they tell of those that the processor is shared with
        levels["released"] = releases[int(len(releases) * (0.95 if len(releases) >= 20 else 0.5))] <= LATEST_MS
    if len(rows) > 4:
        kept = rows[min(len(rows) // 2, 25):]
        for what in ("machine", "engines"):
            values = [row[what] for row in kept if row[what] is not None]
            if len(values) < 3:
                continue
            change, error = slope(values)
            levels[f"{what}_slope_kib"] = round(change / 1024, 1)
            levels[f"{what}_slope_error_kib"] = round(error / 1024, 1)
            levels[f"{what}_still"] = abs(change) <= 2 * error or abs(change) < 64 * MIB / 1000
        levels["by_slope_kib"] = {name: [round(value / 1024, 1) for value in slope([row["by"][name] for row in kept])]
                                  for name in kept[0]["by"]}
    return levels


def main():
    count = int(sys.argv[1])
    folder, port = tempfile.mkdtemp(prefix="ct-"), harness.free_port()
    models = the_five()
    # Not in a tmpfs: logs and history would be memory.
    state_folder = tempfile.mkdtemp(prefix="cycles-", dir=harness.ROOT / "build")
    daemon = harness.Daemon(harness.PROGRAM, folder, harness.config(port, models), port, wrap=make_group(),
                            environment={"STATE_DIRECTORY": state_folder})
    rows = []
    try:
        daemon.wait_ready(60)
        for number in range(count):
            began = time.monotonic()
            rows.append(cycle(daemon, list(models)))
            print(json.dumps({"cycle": number, "seconds": round(time.monotonic() - began, 1), **rows[-1]}), flush=True)
    finally:
        if len(rows) < count:
            print(daemon.tail(20))
        daemon.process.terminate()
        daemon.process.wait()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(state_folder, ignore_errors=True)
    levels = judge(rows)
    worst = max(rows, key=lambda row: abs(row["error"]))
    print(json.dumps({"cycles": count, **levels, "worst_error_mib": round(worst["error"] / MIB, 1)}))
    return 0 if all(value for name, value in levels.items() if isinstance(value, bool)) else 1


if __name__ == "__main__":
    sys.exit(main())
