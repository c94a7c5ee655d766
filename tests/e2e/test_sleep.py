"""The machine sleeps: seen by two clocks of which one stood still."""
from harness import ROOT, chat, decisions, engine_pids, fake, state, wait_for

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
    wait_for("the sleep to be seen", lambda: "the machine slept for 1 h" in daemon.tail(), 15)
    wait_for("the one that lost its device to go", lambda: state(daemon, "lost") in ("unloaded", "failed"), 15)
    assert "lost: fake_engine is no longer well after the machine slept: /health answered 503" in daemon.tail()
    assert state(daemon, "well") == "idle" and engine_pids(daemon, "well")[0] in pids
    assert not [row for row in decisions(daemon, "unload") if row["model"] == "well"]
    sick.unlink()
    wait_for("another try to be due", lambda: chat(daemon, "lost").status == 200, 15)
    assert chat(daemon, "well").status == 200
