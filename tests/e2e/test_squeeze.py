"""Another program presses the engines out: the guard acts before the kernel's OOM killer does.

The rounds are in squeeze.py, which also runs in a kernel of its own.
"""
import os
import pathlib
import subprocess
import sys

import pytest

from harness import MODELS, ROOT

# What holds the tests is a limit in a control group of the old kind; a kernel of its own has the new kind.
V1 = pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() and os.geteuid() == 0


def squeeze(kind, rounds):
    words = [sys.executable, "-B", "tests/e2e/squeeze.py", kind, str(rounds)]
    if kind != "v1":
        words = ["tools/own-kernel", "-m", "2600" if kind == "machine" else "3000", *words]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "MODELS": str(MODELS)}, capture_output=True, text=True)
    assert done.returncode == 0 and f"{kind}: {rounds} of {rounds}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [pytest.param("v1", marks=pytest.mark.skipif(not V1, reason="no such control groups")),
                                  "v2", "machine"])
@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.long)])
def test_the_guard_acts_before_the_oom_killer(kind, rounds):
    squeeze(kind, rounds)
