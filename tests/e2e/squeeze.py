"""squeeze KIND ROUNDS: another program's memory grows at 0.5 GiB/s until it presses the engines out.

KIND: v1 (a control group of this kernel), v2 (cgroup v2) or machine (the whole of it, which
must be small: tools/own-kernel). In each round two models run requests and two are idle; the
program grows in steps, and after each the right ones must be gone, the others must still be
answering, and the OOM killer must not have acted. Prints a line of JSON for each round; exits
with 1 where one failed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import harness
from harness import MIB, Stream, chat, decisions, fake, wait_for

GROWER = str(harness.ROOT / "build" / "tests" / "tools" / "grower")
SPEED, LIMIT, PART = 512, 2048, 320  # MiB a second, MiB, MiB of an engine


class Group:
    """A control group with a limit, which what is started with `wrap` is born in."""

    def __init__(self, kind, limit_mib):
        top = {"v1": "/sys/fs/cgroup/memory", "v2": "/sys/fs/cgroup"}[kind]
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ct-squeeze-", dir=top))
        names = {"v1": ("memory.limit_in_bytes", "memory.oom_control"), "v2": ("memory.max", "memory.events")}[kind]
        (self.path / names[0]).write_text(str(limit_mib * MIB))
        self.events = self.path / names[1]
        self.wrap = ["sh", "-c", f'echo $$ >{self.path}/cgroup.procs; exec "$@"', "sh"]

    def kills(self):
        return int(dict(line.split() for line in self.events.read_text().splitlines())["oom_kill"])

    def remove(self):
        wait_for("the group to be empty", lambda: not (self.path / "cgroup.procs").read_text(), 20)
        self.path.rmdir()


class Machine:
    wrap = []

    def kills(self):
        with open("/proc/vmstat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))

    def remove(self):
        pass


def whole_mib(kind):
    if kind != "machine":
        return LIMIT
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) // 1024


class Grower:
    def __init__(self, group):
        self.process = subprocess.Popen([*group.wrap, GROWER, str(SPEED)], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.mib = 0

    def to(self, mib):
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == str(mib), "the program that grows was killed"
        self.mib = mib

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def one_round(kind):
    group = Machine() if kind == "machine" else Group(kind, LIMIT)
    folder = tempfile.mkdtemp(prefix="ct-")
    port = harness.free_port()
    slow = "--chunk-ms 50 --chunks 100000"
    models = {"first": fake(anon_mib=PART, args=slow, priority="interactive"),
              "batch": fake(anon_mib=2 * PART, args=slow, priority="batch"),
              "idle1": fake(anon_mib=PART), "idle2": fake(anon_mib=PART)}
    before = group.kills()
    daemon = harness.Daemon(harness.PROGRAM, folder, harness.config(port, models), port, wrap=group.wrap)
    grower = None
    try:
        daemon.wait_ready()
        for name in ("idle1", "idle2"):
            assert chat(daemon, name).status == 200
        streams = {name: Stream(daemon, name) for name in ("first", "batch")}
        for stream in streams.values():
            assert stream.line()
        left = whole_mib(kind) - (0 if kind == "machine" else 5 * PART + 24)
        grower = Grower(group)

        def gone(*names):
            return all(harness.state(daemon, name) not in ("idle", "busy", "loading") for name in names)

        def answers(name):
            return all(streams[name].line() for _ in range(3))

        def ended():
            return [row["model"] for row in decisions(daemon, "emergency")]
        # Nearly all that is left: an idle one at least has to go, and both are enough.
        grower.to(left - PART // 5)
        wait_for("an idle one to go", lambda: gone("idle1") or gone("idle2"))
        assert answers("first") and answers("batch") and not ended(), f"ended while idle ones could go: {ended()}"
        # Now both, and then the batch one: the other may stay.
        grower.to(left + 2 * PART - PART // 5)
        wait_for("the batch one to go", lambda: gone("batch", "idle1", "idle2"))
        assert answers("first") and ended() == ["batch"], f"ended: {ended()}"
        # Now all.
        grower.to(left + 4 * PART - PART // 5)
        wait_for("the last to go", lambda: gone("first"))
        assert ended() == ["batch", "first"], f"ended: {ended()}"
        assert group.kills() == before, "the OOM killer acted"
        return {"ok": True, "oom_kills": group.kills() - before}
    except Exception as error:  # noqa: B902
        return {"ok": False, "error": f"{type(error).__name__}: {error}", "oom_kills": group.kills() - before,
                "grown_mib": grower.mib if grower else 0, "log": daemon.tail(15)}
    finally:
        if grower:
            grower.end()
        harness.end_at_once(daemon)
        group.remove()


def main():
    kind, rounds = sys.argv[1], int(sys.argv[2])
    good = 0
    for number in range(rounds):
        began = time.monotonic()
        result = one_round(kind)
        good += result["ok"]
        print(json.dumps({"round": number, "seconds": round(time.monotonic() - began, 1), **result}), flush=True)
    print(f"{kind}: {good} of {rounds}")
    return 0 if good == rounds else 1


if __name__ == "__main__":
    sys.exit(main())
