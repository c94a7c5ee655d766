"""bounded FILE: an engine with mapped experts is kept to what was planned, in a control group of its own.

FILE is a mixture of experts far larger than what of it is to be kept. For cgroup v2: the kernel of tools/own-kernel.
The daemon is started in a group below one that is left to it, as systemd does it (Delegate=, DelegateSubgroup=), and
again where that is not so. Prints a line of JSON for each; exits with 1 where one failed.
"""
import json
import os
import pathlib
import sys
import tempfile

import harness
from harness import MIB, ask, engine_pids, models, real, wait_for

KEPT = 8


def enter(group):
    return ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]


def told(daemon):
    """Other words each time, so that other experts are asked."""
    for number in range(4):
        prompt = " ".join(str(number * 1000 + word) for word in range(20))
        body = json.dumps({"model": "part", "prompt": prompt, "n_predict": 4, "temperature": 0}).encode()
        answer = ask(daemon, "POST", "/completion", body, {"Content-Type": "application/json"}, timeout=300)
        assert answer.status == 200, answer


def measured(daemon):
    return wait_for("it to be measured", lambda: models(daemon)["part"]["experts"]["measured_bytes"], 20)


def look_at_bounded(daemon, unit):
    own = [path for path in unit.iterdir() if path.name.startswith("cotenant-")]
    assert len(own) == 1, own

    def as_told():
        experts = models(daemon)["part"]["experts"]
        high = int((own[0] / "memory.high").read_text())  # in whole pages
        return 0 <= experts["bound_bytes"] - high < 4096 and experts
    experts = wait_for("the bound to be as it is told", as_told)
    bound = experts["bound_bytes"]
    assert experts["unbounded_reason"] is None, experts
    assert str(engine_pids(daemon, "part")[0]) in (own[0] / "cgroup.procs").read_text().split()
    current = int((own[0] / "memory.current").read_text())
    assert current < bound + 16 * MIB, (current, bound)
    assert "a control group keeps its engine to" in daemon.get("/api/v1/models/part")["text"]
    return own[0], {"bound": bound, "current": current, "measured": measured(daemon)}


def one_life(file, unit, marked):
    """What of the file lay in memory."""
    folder = tempfile.mkdtemp(prefix="ct-")
    port = harness.free_port()
    entry = {**real(context=2048, slots=1), "file": file, "experts": {"resident": f"{KEPT}MiB"}}
    if marked:
        os.setxattr(unit, "trusted.delegate", b"1")
    else:
        os.removexattr(unit, "trusted.delegate")
    daemon = harness.Daemon(harness.PROGRAM, folder, harness.config(port, {"part": entry}), port, wrap=enter(unit / "daemon"))
    try:
        daemon.wait_ready()
        plan = daemon.get("/api/v1/plan?model=part")
        assert (plan["experts"]["unbounded_reason"] is None) == marked, plan
        assert ("a control group of its own bounds it" in plan["reason"]) == marked, plan
        told(daemon)
        if not marked:
            assert not [path for path in unit.iterdir() if path.name.startswith("cotenant-")]
            return {"measured": measured(daemon)}
        group, numbers = look_at_bounded(daemon, unit)
        assert ask(daemon, "POST", "/api/v1/models/part/unload").status == 200
        wait_for("its group to be gone", lambda: not group.exists(), 10)
        return numbers
    except Exception:
        print(daemon.tail(30))
        raise
    finally:
        harness.end_at_once(daemon)


def main():
    file = sys.argv[1]
    unit = pathlib.Path(tempfile.mkdtemp(prefix="ct-unit-", dir="/sys/fs/cgroup"))
    (unit / "daemon").mkdir()
    bounded = one_life(file, unit, marked=True)
    print(json.dumps({"bounded": bounded}), flush=True)
    free = one_life(file, unit, marked=False)
    print(json.dumps({"free": free}), flush=True)
    size = os.path.getsize(file)
    assert free["measured"] > 0.8 * size and bounded["measured"] < 0.7 * size, "the group made no difference"
    return 0


if __name__ == "__main__":
    sys.exit(main())
