"""The machine sleeps: seen by two clocks of which one stood still."""
import os
import sqlite3
import subprocess

from harness import MIB, ROOT, chat, decisions, engine_pids, fake, state, wait_for

CLOCK = str(ROOT / "build" / "tests" / "tools" / "libshifted_clock.so")


class Sleeper:
    """Daemons whose machine sleeps when told to."""

    def __init__(self, folder):
        self.file = folder / "asleep"
        self.seconds = 0
        self.environment = {"LD_PRELOAD": CLOCK, "SHIFTED_CLOCK": str(self.file)}

    def sleep(self, seconds):
        self.seconds += seconds
        self.file.write_text(str(self.seconds))


def test_time_asleep_is_no_idle_time_and_engines_are_looked_at(start, tmp_path):
    machine = Sleeper(tmp_path)
    sick = tmp_path / "sick"
    daemon = start({"well": fake(unload_after="10m"), "lost": fake(args=f"--sick-file {sick}")},
                   environment=machine.environment)
    for name in ("well", "lost"):
        assert chat(daemon, name).status == 200
    pids = engine_pids(daemon)
    sick.touch()
    machine.sleep(3700)
    wait_for("the sleep to be seen", lambda: "the machine slept for 1 h" in daemon.tail())
    wait_for("the one that lost its device to go", lambda: state(daemon, "lost") in ("unloaded", "failed"))
    assert "lost: fake_engine is no longer well after the machine slept: /health answered 503" in daemon.tail()
    assert state(daemon, "well") == "idle" and engine_pids(daemon, "well")[0] in pids
    assert not [row for row in decisions(daemon, "unload") if row["model"] == "well"]
    sick.unlink()
    wait_for("another try to be due", lambda: chat(daemon, "lost").status == 200)
    assert chat(daemon, "well").status == 200


def test_an_engine_that_lost_its_device_is_found_by_its_speed(start, tmp_path):
    """It answers still, and says that it is well: but it computes on the processor now."""
    machine = Sleeper(tmp_path)
    speeds = {name: tmp_path / name for name in ("lost", "well")}
    for path in speeds.values():
        path.write_text("50")
    daemon = start({name: fake(args=f"--chunks 20 --speed-file {path}") for name, path in speeds.items()},
                   environment=machine.environment)
    for name in (*speeds, *speeds):
        assert chat(daemon, name).status == 200
    pids = {name: engine_pids(daemon, name)[0] for name in speeds}
    # Slow, but the machine did not sleep: others compute beside it.
    speeds["lost"].write_text("5")
    assert chat(daemon, "lost").status == 200
    assert engine_pids(daemon, "lost") == [pids["lost"]]
    speeds["lost"].write_text("50")
    for _ in range(20):
        assert chat(daemon, "lost").status == 200
    machine.sleep(3700)
    wait_for("the sleep to be seen", lambda: "the machine slept for 1 h" in daemon.tail())
    speeds["lost"].write_text("5")
    speeds["well"].write_text("20")
    for name in speeds:
        assert chat(daemon, name).status == 200, "what it was asked it answers to the end"
    wait_for("the one that lost its device to go", lambda: state(daemon, "lost") in ("unloaded", "failed"))
    assert "lost answers 5.0 tokens/s, before the machine slept it was" in daemon.tail()
    assert engine_pids(daemon, "well") == [pids["well"]]
    speeds["lost"].write_text("50")
    wait_for("another try to be due", lambda: chat(daemon, "lost").status == 200)
    assert engine_pids(daemon, "lost") != [pids["lost"]]


def test_what_a_quiet_minute_taught_outlives_the_daemon(start, tmp_path):
    """A minute that the machine slept through is one in which nothing was loaded."""
    machine = Sleeper(tmp_path)
    daemon = start({"a": fake()}, environment=machine.environment)

    def kept():
        daemon.get("/api/v1/memory")
        with sqlite3.connect(os.path.join(daemon.folder, "state", "history.db")) as history:
            rows = history.execute("SELECT row FROM learned WHERE file_key = ?", (0x62617365,)).fetchall()
        return [int.from_bytes(row[16:24], "little") for row, in rows]
    wait_for("the first sample", lambda: daemon.get("/api/v1/memory")["sampled_at_ms"])
    assert not kept()

    def guesses():
        return "baseline_from_one_reading" in {row["code"] for row in daemon.get("/api/v1/memory")["warnings"]}
    assert guesses()
    machine.sleep(70)
    wait_for("the quiet minute to be kept", kept)
    known = kept()[0]
    assert not guesses()
    daemon.stop()
    with subprocess.Popen([str(ROOT / "build" / "tests" / "tools" / "grower"), "1024"], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as grower:
        grower.stdin.write("600\n")
        grower.stdin.flush()
        assert grower.stdout.readline().strip() == "600"
        daemon = start({"a": fake()}, environment=machine.environment, folder=daemon.folder)
        pool = daemon.get("/api/v1/memory")["pools"][0]
        grower.kill()
    assert 0 < pool["baseline_bytes"] <= known and pool["foreign_bytes"] - pool["baseline_bytes"] >= 0
    assert pool["foreign_bytes"] >= 600 * MIB
