"""leak: an engine that leaves memory behind each time it is loaded is found and named. For tools/own-kernel."""
import shutil
import sys
import tempfile

import harness
from harness import MIB, chat, fake, wait_state

LEFT_MIB, CYCLES = 24, 8


def main():
    folder, port = tempfile.mkdtemp(prefix="ct-"), harness.free_port()
    models = {"leaky": fake(anon_mib=20, args=f"--leave-mib {LEFT_MIB}"), "clean": fake(anon_mib=20)}
    daemon = harness.Daemon(harness.PROGRAM, folder, harness.config(port, models), port)
    try:
        daemon.wait_ready()
        for _ in range(CYCLES):
            for name in models:
                assert chat(daemon, name).status == 200
                daemon.model(name, "unload")
                wait_state(daemon, name, "unloaded")
        leaks = [row for row in daemon.get("/api/v1/memory")["owners"] if row["kind"] == "leak"]
        print(leaks)
        assert [row["name"] for row in leaks] == ["leaky"]
        assert abs(leaks[0]["bytes_per_cycle"] - LEFT_MIB * MIB) < 2 * MIB and leaks[0]["cycles"] == CYCLES
        assert "leaky leaves 24." in daemon.tail() or "leaky leaves 23." in daemon.tail()
    finally:
        daemon.process.terminate()
        daemon.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
