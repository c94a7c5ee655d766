"""Five engines over and over: what is attributed is what is used, and all of it comes back (cycles.py)."""
import os
import subprocess
import sys

import pytest

from harness import LLAMA, MODELS, ROOT, WHISPER


def in_own_kernel(*words):
    quiet = {"QUIET": "1"} if os.getloadavg()[0] < os.cpu_count() else {}
    environment = {**os.environ, **quiet, "MODELS": str(MODELS), "LLAMA_SERVER": LLAMA, "WHISPER_SERVER": WHISPER}
    done = subprocess.run(["tools/own-kernel", "-m", "2600", sys.executable, "-B", *words], cwd=ROOT, env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("count", [1, pytest.param(50, marks=pytest.mark.long)])
def test_every_byte_has_an_owner_and_comes_back(count):
    in_own_kernel("tests/e2e/cycles.py", str(count))


def test_what_stays_behind_is_found_and_has_an_owner():
    in_own_kernel("tests/e2e/leak.py")
