"""A mixture of experts of which less than all is kept in memory."""
import os
import subprocess
import sys
import tempfile

import pytest

from harness import LLAMA, MODELS, ROOT, ask, engine_pids, models, real, wait_for

MIB = 1 << 20


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """2 layers of 1,024 experts, 27 MiB."""
    file = tmp_path_factory.mktemp("experts") / "moe.gguf"
    subprocess.run([sys.executable, ROOT / "tools" / "models" / "make_random.py", "moe", file, "1024"], check=True)
    return file


def told(daemon, name):
    body = f'{{"model": "{name}", "prompt": "Each takes what it needs. ", "n_predict": 8, "temperature": 0, "n_probs": 3}}'
    answer = ask(daemon, "POST", "/completion", body.encode(), {"Content-Type": "application/json"}, timeout=120)
    assert answer.status == 200, answer
    return [one["id"] for one in answer.json["completion_probabilities"]]


def test_a_part_of_the_experts_is_counted_and_the_slow_down_told(start, mixture):
    entry = {**real(context=2048, slots=1), "file": str(mixture)}
    daemon = start({"all": entry, "part": {**entry, "experts": {"resident": "8MiB"}}})
    plans = {name: ask(daemon, "GET", f"/api/v1/plan?model={name}").json for name in ("all", "part")}
    experts = plans["part"]["experts"]
    assert plans["all"]["experts"] is None and experts["resident_bytes"] == 8 * MIB < experts["total_bytes"]
    assert abs(plans["all"]["need_bytes"] - plans["part"]["need_bytes"] - (experts["total_bytes"] - 8 * MIB)) < MIB
    missing = 1 - 8 * MIB / experts["total_bytes"]
    assert abs(experts["read_bytes_per_token"] - missing * experts["total_bytes"] * 2 / 1024) < 1024
    assert "of experts are counted" in plans["part"]["reason"]
    # The same answers, from the file's own pages.
    assert told(daemon, "part") == told(daemon, "all")
    pid = engine_pids(daemon, "part")[0]
    with open(f"/proc/{pid}/cmdline") as line:
        words = line.read().split("\0")
    assert "--cpu-moe" in words and words[words.index("-lm") + 1] == "mmap" and "--no-warmup" in words
    # None of them is rewritten into plain memory, which nobody could take back.
    with open(f"/proc/{pid}/status") as status:
        anonymous = next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
    row = models(daemon)["part"]
    assert anonymous < row["estimate_bytes"] - experts["resident_bytes"], (anonymous, row)
    with open(f"/proc/{pid}/maps") as maps:
        assert str(mixture) in maps.read()
    # However much of the file lies in memory: what is beyond can be taken away, and is nobody's use.
    row = wait_for("it to be measured, and what it read", lambda: next(
        (row for row in [models(daemon)["part"]] if row["settled"] and row["experts"]["measured_bytes"] > MIB), None))
    assert row["measured_bytes"] < row["estimate_bytes"] + 16 * MIB
    measured = row["experts"]["measured_bytes"]
    assert measured <= mixture.stat().st_size + 16 * MIB and row["experts"]["resident_bytes"] == 8 * MIB
    assert models(daemon)["all"]["experts"] is None
    again = lambda: ask(daemon, "GET", "/api/v1/plan?model=part").json["experts"]
    wait_for("how fast files are read to be known", lambda: again()["slower_ms_per_token"] is not None)


@pytest.mark.long
def test_a_control_group_keeps_the_engine_to_what_was_planned():
    """27 MiB for each two of 8 layers; the other kernel sees this machine's files, but for /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        file = f"{folder}/moe.gguf"
        subprocess.run([sys.executable, ROOT / "tools" / "models" / "make_random.py", "moe", file, "1024", "8"], check=True)
        done = subprocess.run(["tools/own-kernel", "-m", "2000", sys.executable, "-B", "tests/e2e/bounded.py", file], cwd=ROOT,
                              env={**os.environ, "MODELS": str(MODELS), "LLAMA_SERVER": LLAMA}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
