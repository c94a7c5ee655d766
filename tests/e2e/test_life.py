"""The daemon's own life: start, end, being killed, and machines that refuse it something."""
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading

import pytest

from harness import (FAKE, MIB, MODELS, Stream, alive, ask, chat, children_of, content, engine_pids, fake, in_threads, kill, models, real,
                     wait_for, wait_state)


def test_killed_it_leaves_no_orphan_and_a_restart_serves(start):
    daemon = start({"a": real("alpha.gguf"), "b": fake(anon_mib=50)})
    chat(daemon, "a")
    chat(daemon, "b")
    pids = engine_pids(daemon)
    assert len(pids) == 2
    kill(daemon.process.pid)
    daemon.process.wait()
    wait_for("the engines to be gone", lambda: not any(map(alive, pids)))
    wait_for("the keeper to be gone", lambda: not children_of(daemon.folder))
    again = start({"a": real("alpha.gguf"), "b": fake(anon_mib=50)}, folder=daemon.folder)
    assert content(chat(again, "a", 8)) == "this is alpha ."


def test_what_was_measured_outlives_a_kill(start):
    unknown = fake(anon_mib=100)
    del unknown["footprint"]
    daemon = start({"a": unknown})
    chat(daemon, "a")

    def is_kept():
        with sqlite3.connect(os.path.join(daemon.folder, "state", "history.db")) as history:
            # All but the machine's baseline.
            return history.execute("SELECT count(*) FROM learned WHERE file_key != ?", (0x62617365,)).fetchone()[0]
    wait_for("it to be kept", is_kept)
    kill(daemon.process.pid)
    daemon.process.wait()
    again = start({"a": unknown}, folder=daemon.folder)
    assert 100 * MIB <= models(again)["a"]["estimate_bytes"] < 150 * MIB


def test_what_cannot_be_true_is_told_once_and_removed(start):
    """Of each row that is kept a thousand more, with bytes below nothing."""
    unknown = fake(anon_mib=100)
    del unknown["footprint"]
    daemon = start({"a": unknown})
    chat(daemon, "a")
    wait_for("two samples to agree", lambda: models(daemon)["a"]["lower_bytes"] > 100 * MIB)
    daemon.stop()
    path = os.path.join(daemon.folder, "state", "history.db")

    def rows():
        with sqlite3.connect(path) as history:
            return history.execute("SELECT file_key, build_key, row FROM learned").fetchall()
    # A row of the arbiter's is the largest; 64 bytes of names stand before it, then its two keys.
    good = max(rows(), key=lambda row: len(row[2]))
    at = 8 + 64
    assert good[2][at:at + 16] == struct.pack("<qq", *good[:2])
    with sqlite3.connect(path) as history:
        for key in range(1000):
            keys = struct.pack("<qq", key, 1)
            bad = good[2][:at] + keys + good[2][at + 16:at + 48] + struct.pack("<q", -1) + good[2][at + 56:]
            history.execute("INSERT INTO learned VALUES (?, ?, ?)", (key, 1, bad))
    again = start({"a": unknown}, folder=daemon.folder)
    wait_for("them to be told", lambda: "cannot be true" in again.tail(200))
    told = [line for line in again.tail(5000).splitlines() if "cannot be true" in line]
    assert len(told) == 1 and "1000 things" in told[0], told
    assert 100 * MIB <= models(again)["a"]["estimate_bytes"] < 150 * MIB, "what is true is known all the same"
    again.stop()
    assert len([row for row in rows() if row[1] == 1 and 0 <= row[0] < 1000]) == 0


def test_killed_while_loading(start):
    daemon = start({"a": fake(load_ms=20000)})
    threading.Thread(target=lambda: pytest.raises(Exception, chat, daemon, "a"), daemon=True).start()
    wait_state(daemon, "a", "loading")
    pid = wait_for("its process", lambda: engine_pids(daemon))[0]
    kill(daemon.process.pid)
    daemon.process.wait()
    wait_for("the engine to be gone", lambda: not alive(pid))


def running(*command):
    """The processes with exactly that command line."""
    found, wanted = [], b"".join(word.encode() + b"\0" for word in command)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read() == wanted:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def test_what_a_killed_daemon_and_keeper_leave_is_ended_by_the_next_life(start):
    """An engine's child in a session of its own, which no signal to the engine's group reaches."""
    sleep = ("sleep", f"7654.{os.getpid()}")  # nobody else's
    script = f"setsid {' '.join(sleep)} & exec {FAKE} --host 127.0.0.1 --port ${{PORT}} --load-ms 0"
    model = {"cmd": ["sh", "-c", script], "health": "/health", "footprint": "50MiB"}
    stranger = subprocess.Popen(["setsid", "sleep", "7655"])
    first = start({"a": model})
    assert chat(first, "a").status == 200
    engine = engine_pids(first)[0]
    child = wait_for("the engine's child", lambda: running(*sleep))
    keeper = int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(engine)]))
    for pid in keeper, first.process.pid:
        os.kill(pid, signal.SIGSTOP)
    for pid in keeper, first.process.pid:
        kill(pid)
    first.process.wait()
    wait_for("the engine to be gone", lambda: not alive(engine))
    assert alive(child[0]), "it outlived them all"
    second = start({"a": model}, folder=first.folder)
    assert not alive(child[0])
    assert f"process {child[0]} (sleep) was left by an engine of an earlier life" in second.tail()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert chat(second, "a").status == 200


def test_term_lets_running_requests_finish(start):
    daemon = start({"a": fake(args="--chunk-ms 20 --chunks 60")})
    stream = Stream(daemon, "a")
    assert stream.line()
    daemon.process.send_signal(signal.SIGTERM)
    lines, clean = stream.rest()
    assert clean and lines[-1] == "[DONE]"
    assert daemon.process.wait(30) == 0


def test_term_refuses_new_requests(start):
    daemon = start({"a": fake(args="--chunk-ms 50 --chunks 100")})
    stream = Stream(daemon, "a")
    assert stream.line()
    daemon.process.send_signal(signal.SIGTERM)
    wait_for("it to take notice", lambda: "told to end" in daemon.tail())
    engine = engine_pids(daemon, "a")[0]
    os.kill(engine, signal.SIGSTOP)  # its answer is not over before we are
    for _ in range(2):  # each time on a new connection, for as long as the drain lasts
        answer = chat(daemon, "a")
        assert (answer.status, answer.error["code"]) == (503, "draining"), answer
        assert int(answer.headers["Retry-After"]) > 0 and answer.headers["Connection"] == "close"
    assert ask(daemon, "GET", "/healthz").json["draining"] is True
    os.kill(engine, signal.SIGCONT)
    assert stream.rest()[1]
    assert daemon.process.wait(30) == 0


def test_told_twice_it_ends_at_once(start):
    daemon = start({"a": fake(args="--chunk-ms 100 --chunks 600")})
    stream = Stream(daemon, "a")
    assert stream.line()
    daemon.process.send_signal(signal.SIGTERM)
    wait_for("it to take notice", lambda: "told to end" in daemon.tail())
    daemon.process.send_signal(signal.SIGTERM)
    lines, clean = stream.rest()
    assert not clean, "half an answer must not look whole"
    assert any("draining" in line for line in lines) and not any("engine_died" in line for line in lines), lines[-3:]
    assert daemon.process.wait(15) == 0, "what is still open is cut after 20 s"


@pytest.mark.parametrize("times", (1, 2))
def test_the_last_releases_are_told_too(start, times):
    daemon = start({"a": real("tiny.gguf"), "b": fake(), "c": fake(args="--chunk-ms 50 --chunks 40")})
    for model in "ab":
        chat(daemon, model)
    stream = Stream(daemon, "c")
    assert stream.line()
    for _ in range(times):
        daemon.process.send_signal(signal.SIGTERM)
        wait_for("it to take notice", lambda: "told to end" in daemon.tail())
    assert daemon.process.wait(15) == 0
    for model in "abc":
        assert f"{model} gave back " in daemon.tail(), daemon.tail()


def test_int_ends_it_too(start):
    daemon = start({"a": real("tiny.gguf")})
    chat(daemon, "a")
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(30) == 0


def test_a_second_daemon_leaves_the_first_as_it_is(start, tmp_path):
    recording = str(tmp_path / "recording")
    first = start({"a": fake()}, options=["--record", recording])
    chat(first, "a")
    sockets = {name for name in os.listdir(os.path.join(first.folder, "run")) if name.startswith("engine-")}
    assert sockets
    size = os.path.getsize(recording)
    second = start({"a": fake()}, folder=first.folder, options=["--record", recording], wait=False)
    assert second.process.wait(30) == 1
    assert sockets <= set(os.listdir(os.path.join(first.folder, "run"))), "its engines can still be reached"
    assert os.path.getsize(recording) >= size, "and its recording goes on"
    assert all(answer.status == 200 for answer in in_threads([lambda: chat(first, "a")] * 8))


def test_hup_reads_the_configuration_again(start):
    daemon = start({"a": real("alpha.gguf")})
    with open(daemon.config) as file:
        text = file.read()
    with open(daemon.config, "w") as out:
        out.write(text.replace('"a":', '"renamed":'))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("the new name", lambda: "renamed" in models(daemon))
    assert content(chat(daemon, "renamed", 8)) == "this is alpha ."


def test_a_second_daemon_in_the_same_folder_is_refused(start):
    first = start({"a": real("alpha.gguf")})
    second = start({"a": real("alpha.gguf")}, folder=first.folder, wait=False)
    assert second.process.wait(30) != 0
    assert chat(first, "a").status == 200


def test_a_port_in_use_is_named(start):
    first = start({"a": real("alpha.gguf")})
    second = start({"a": real("alpha.gguf")}, listen=f"127.0.0.1:{first.port}", wait=False)
    assert second.process.wait(30) == 1
    assert str(first.port) in second.tail()


def unknown(tmp_path, **more):
    """A model of an architecture that nobody has described, served by the stand-in."""
    whole = (MODELS / "tiny.gguf").read_bytes()
    (tmp_path / "strange.gguf").write_bytes(whole.replace(b"llama", b"wondr"))
    entry = {**fake(**more), "file": str(tmp_path / "strange.gguf"), "kv": "fixed"}
    del entry["footprint"]
    return entry


def test_an_engine_is_asked_what_an_unknown_model_takes(start, tmp_path):
    daemon = start({"a": unknown(tmp_path)})
    before = ask(daemon, "GET", "/api/v1/models/a").json
    assert before["estimate_source"] == "formula" and "unknown-architecture" in before["estimate"]["flags"]
    assert chat(daemon, "a").status == 200
    after = ask(daemon, "GET", "/api/v1/models/a").json
    assert after["estimate_source"] == "engine"
    assert after["estimate"]["pools"]["host"]["compute_bytes"] == 7 * MIB
    daemon.model("a", "unload")
    assert chat(daemon, "a").status == 200


def test_a_load_is_ended_while_its_engine_is_asked(start, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o700)
    daemon = start({"a": unknown(tmp_path)}, engines={"fake": {"kind": "llama-server", "path": str(slow)}})
    thread = threading.Thread(target=lambda: daemon.model("a", "load"), daemon=True)
    thread.start()
    wait_state(daemon, "a", "loading")
    assert daemon.stop(15) == 0


def test_what_an_engine_said_is_kept_for_its_build(start, tmp_path):
    """It tells what it takes and cannot load: so nothing else is learned of it."""
    engine = tmp_path / "engine"
    engine.write_text(f"#!/bin/sh\ncase \"$*\" in *'--fit on'*) exec {FAKE} \"$@\" ;; esac\nexit 1\n")
    engine.chmod(0o700)
    entries = {"a": unknown(tmp_path)}
    engines = {"fake": {"kind": "llama-server", "path": str(engine)}}
    source = lambda daemon: ask(daemon, "GET", "/api/v1/models/a").json["estimate_source"]
    first = start(entries, engines=engines)
    assert source(first) == "formula"
    assert chat(first, "a").status == 502
    assert source(first) == "engine"
    first.stop()
    second = start(entries, engines=engines, folder=first.folder)
    assert source(second) == "engine"
    second.stop()
    os.utime(engine, (1000, 1000))
    assert source(start(entries, engines=engines, folder=first.folder)) == "formula"


def test_what_is_replaced_under_a_running_model_is_told(start, tmp_path):
    file, engine = tmp_path / "model.gguf", tmp_path / "engine"
    shutil.copy(MODELS / "tiny.gguf", file)
    engine.write_text(f"#!/bin/sh\nexec {FAKE} \"$@\"\n")
    engine.chmod(0o700)
    entry = {**fake(), "file": str(file)}
    daemon = start({"a": entry}, engines={"fake": {"kind": "llama-server", "path": str(engine)}})
    told = lambda: ask(daemon, "GET", "/api/v1/models/a").json
    assert chat(daemon, "a").status == 200
    assert told()["replaced"] is None
    bytes_before = told()["file_bytes"]
    (tmp_path / "new").write_bytes(file.read_bytes() + b"more")
    os.replace(tmp_path / "new", file)
    wait_for("it to be noticed", lambda: told()["replaced"])
    assert "its file was replaced" in told()["replaced"]
    assert "its file was replaced" in ask(daemon, "GET", "/api/v1/why/a").json["text"]
    assert chat(daemon, "a").status == 200, "what runs goes on"
    daemon.model("a", "unload")
    assert chat(daemon, "a").status == 200
    assert told()["replaced"] is None and told()["file_bytes"] == bytes_before + 4
    os.utime(engine, (1000, 1000))
    wait_for("the new engine to be noticed", lambda: told()["replaced"])
    assert "its engine was replaced" in told()["replaced"]


def test_what_loads_taught_corrects_estimates_after_a_restart(start):
    daemon = start({"a": real("chat.gguf")})
    chat(daemon, "a")
    calibration = lambda daemon: ask(daemon, "GET", "/api/v1/calibration").json
    wait_for("the load to be observed", lambda: calibration(daemon)["loads"])
    told = calibration(daemon)
    assert told["loads"] == 1 and told["target"] == 0.95 and len(told["builds"]) == 1
    before = ask(daemon, "GET", "/api/v1/models/a").json
    assert before["estimate_source"] == "formula"
    daemon.stop()
    again = start({"a": real("chat.gguf")}, folder=daemon.folder)
    assert calibration(again)["loads"] == 1
    after = ask(again, "GET", "/api/v1/models/a").json
    assert after["estimate_source"] == "memo"
    assert abs(after["estimate_bytes"] - before["estimate_bytes"]) < 0.15 * before["estimate_bytes"]
    # What the file alone says stays told beside it.
    assert after["formula_base_bytes"] == before["formula_base_bytes"] == before["estimate"]["base_bytes"]
    if abs(after["base_bytes"] - after["formula_base_bytes"]) > MIB:
        assert "as the same launch took before, where its file alone says" in after["text"]
    assert "its file alone says" not in before["text"]
    told = calibration(again)
    assert told["builds"][0]["name"].startswith("llama-server build ")
    assert told["over_time"][0]["at_ms"] > 1.7e12 and -0.5 < told["off_median"] < 0.5


def test_history_survives_a_restart(start):
    daemon = start({"a": real("alpha.gguf")})
    chat(daemon, "a")
    assert daemon.stop() == 0
    again = start({"a": real("alpha.gguf")}, folder=daemon.folder)
    rows = again.get("/api/v1/history?kind=requests")["requests"]
    assert any(row["model"] == "a" and row["status"] == 200 for row in rows)
    with sqlite3.connect(os.path.join(daemon.folder, "state", "history.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone()[0] >= 1


def foreign_history(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bookmarks(x)")


@pytest.mark.parametrize("make", [lambda path: open(path, "wb").write(b"this is no database"), lambda path: open(path, "wb"),
                                  os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path), foreign_history],
                         ids=["rubbish", "empty", "folder", "fifo", "link", "foreign"])
def test_a_history_that_is_no_use_does_not_stop_it(start, make):
    """What lies there is kept under another name, and history goes on."""
    folder = tempfile.mkdtemp(prefix="ct-")
    os.makedirs(folder + "/state", mode=0o700)
    make(folder + "/state/history.db")
    daemon = start({"a": real("alpha.gguf")}, folder=folder)
    assert chat(daemon, "a").status == 200
    wait_for("a row", lambda: daemon.get("/api/v1/history?kind=requests")["requests"])


def test_the_state_folder_cannot_be_written(start):
    folder = tempfile.mkdtemp(prefix="ct-")
    with open(folder + "/occupied", "w") as out:
        out.write("a file where a folder should be")
    daemon = start({"a": real("alpha.gguf")}, folder=folder, environment={"STATE_DIRECTORY": folder + "/occupied/state"})
    assert chat(daemon, "a").status == 200
    assert "occupied" in daemon.tail()


def test_a_state_folder_is_of_one_daemon_alone(start):
    """A second one would remove what the first one saved."""
    first = start({"a": real("alpha.gguf")})
    saved = first.folder + "/state/conversations/aaaaaaaaaaaaaaaa-0000000000000001-5.kv"
    with open(saved, "w") as out:
        out.write("as an engine would")
    second = start({"b": real("beta.gguf")}, environment={"STATE_DIRECTORY": first.folder + "/state"}, wait=False)
    assert second.process.wait(30) == 1
    assert "another daemon" in second.tail() and "STATE_DIRECTORY" in second.tail()
    assert os.path.exists(saved) and chat(first, "a").status == 200


def test_the_disk_is_full(start):
    folder = tempfile.mkdtemp(prefix="ct-")
    os.makedirs(folder + "/state")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder + "/state"]).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        with open(folder + "/state/filler", "wb") as out:
            try:
                out.write(b"x" * 100_000)
                out.flush()
            except OSError:
                pass
        daemon = start({"a": real("alpha.gguf")}, folder=folder)
        for _ in range(20):
            assert chat(daemon, "a").status == 200
        assert daemon.stop() == 0
        log = daemon.tail(200).lower()
        assert "full" in log or "no space" in log
    finally:
        subprocess.run(["umount", "-l", folder + "/state"], check=True)


def test_few_files_are_allowed(start):
    daemon = start({"a": real("alpha.gguf")}, wrap=["prlimit", "--nofile=128:128"])
    assert chat(daemon, "a").status == 200
    held = []
    for _ in range(200):
        held.append(socket.create_connection(("127.0.0.1", daemon.port), 5))
    for sock in held:
        sock.close()
    wait_for("it to serve again", lambda: tried(daemon))
    assert "128" in daemon.tail(200), "it says that the limit is low"


def tried(daemon):
    try:
        return chat(daemon, "a", timeout=3).status == 200
    except OSError:
        return False


def test_locked_memory_is_not_allowed(start):
    daemon = start({"a": real("alpha.gguf")}, wrap=["prlimit", "--memlock=65536:65536"])
    assert chat(daemon, "a").status == 200


def test_without_a_home_and_a_terminal(start):
    daemon = start({"a": real("alpha.gguf")}, wrap=["env", "-u", "HOME", "-u", "TERM"])
    assert chat(daemon, "a").status == 200


def test_health_and_metrics(start):
    daemon = start({"a": real("alpha.gguf")})
    chat(daemon, "a")
    assert ask(daemon, "GET", "/healthz").status == 200
    answer = ask(daemon, "GET", "/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
    series = parse_metrics(answer.text)
    assert len({name for name, _ in series}) >= 20
    assert all(name.startswith("cotenant_") for name, _ in series)


def parse_metrics(text):
    """{(name, labels): value}; fails on what Prometheus would refuse."""
    found, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed, f"{name} is declared twice"
            typed.add(name)
        elif line and not line.startswith("#"):
            match = re.fullmatch(r'([a-z_:][a-z0-9_:]*)(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? (-?[0-9.e+-]+|\+Inf|NaN)', line)
            assert match, line
            base = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert match[1] in typed or base in typed, f"{match[1]} has no TYPE"
            key = (match[1], match[2] or "")
            assert key not in found, f"{key} stands twice"
            found[key] = float(match[5])
    return found
