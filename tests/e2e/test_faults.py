"""Engines and files that fail, and what a client then sees."""
import os
import shutil
import threading
import time

import pytest

from harness import (MODELS, Stream, alive, ask, chat, decisions, engine_pids, fake, in_threads, kill, models, real, state,
                     wait_computing, wait_for, wait_state)


def test_engine_killed_in_mid_stream(start):
    daemon = start({"a": real("tiny.gguf")})
    stream = Stream(daemon, "a", 100000)
    assert stream.line() and stream.line()
    kill(engine_pids(daemon, "a")[0])
    lines, clean = stream.rest()
    assert not clean, "the connection is cut, so that the answer does not look complete"
    assert "[DONE]" not in lines
    assert any('"error"' in line for line in lines[-2:]), "one event says what happened"
    assert chat(daemon, "a").status == 200, "the next request works"
    assert decisions(daemon, "died", "a")


def test_engine_killed_while_idle(start):
    daemon = start({"a": real("tiny.gguf")})
    chat(daemon, "a")
    kill(engine_pids(daemon, "a")[0])
    wait_for("the end to be seen", lambda: decisions(daemon, "died", "a"))
    assert chat(daemon, "a").status == 200


def test_engine_killed_in_a_request_that_is_not_streamed(start):
    daemon = start({"a": real("tiny.gguf")})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(chat(daemon, "a", 100000)))
    thread.start()
    wait_for("it to run", lambda: models(daemon)["a"]["running"] == 1)
    pid = engine_pids(daemon, "a")[0]
    wait_computing(pid)
    kill(pid)
    thread.join(60)
    assert answers[0].status == 502 and answers[0].error["message"]
    assert chat(daemon, "a").status == 200


def test_engine_killed_while_loading(start):
    daemon = start({"a": fake(load_ms=3000)})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(chat(daemon, "a")))
    thread.start()
    wait_state(daemon, "a", "loading")
    kill(wait_for("its process", lambda: engine_pids(daemon, "a"))[0])
    thread.join(60)
    assert answers[0].status in (200, 502), "loaded once more, or told"
    assert decisions(daemon, "load_failed", "a")
    assert chat(daemon, "a").status == 200


def test_an_engine_that_ends_while_loading_says_its_own_words(start):
    daemon = start({"a": fake(args="--die-at loading --die-line 'no such thing as a free lunch'")})
    answer = chat(daemon, "a")
    assert answer.status == 502
    assert "free lunch" in answer.error["message"]


def test_an_engine_that_is_never_ready_is_ended(start):
    daemon = start({"a": fake(args="--never-ready", stall_timeout="1s")})
    begin = time.monotonic()
    answer = chat(daemon, "a")
    assert answer.status in (502, 504), answer
    assert "stall_timeout" in answer.error["message"], "and its clients are told why"
    assert time.monotonic() - begin < 60
    wait_for("its process to be gone", lambda: not engine_pids(daemon, "a"))


@pytest.mark.parametrize("path", ["/nonexistent/llama-server", "/etc/passwd", "/bin/false"])
def test_a_wrong_program_is_named(start, path):
    daemon = start({"a": {**real("tiny.gguf"), "engine": "wrong"}},
                   engines={"wrong": {"kind": "llama-server", "path": path}})
    answer = chat(daemon, "a")
    assert answer.status == 502, answer
    assert os.path.basename(path) in answer.error["message"]
    assert ask(daemon, "GET", "/healthz").status == 200


def broken_file(folder, how):
    path = os.path.join(folder, f"{how}.gguf")
    whole = (MODELS / "tiny.gguf").read_bytes()
    content = {"missing": None, "empty": b"", "cut-head": whole[:500], "cut-data": whole[:-40000],
               "not-gguf": b"hello world, I am text\n" * 100}[how]
    if content is not None:
        with open(path, "wb") as out:
            out.write(content)
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "cut-head", "cut-data", "not-gguf"])
def test_a_broken_file_is_named_and_hurts_nobody(start, tmp_path, how):
    path = broken_file(str(tmp_path), how)
    daemon = start({"good": real("alpha.gguf"), "bad": {**real(), "file": path}})
    chat(daemon, "good")
    answer = chat(daemon, "bad")
    assert 500 <= answer.status < 600 and answer.status != 500, answer
    assert os.path.basename(path) in answer.error["message"]
    assert state(daemon, "good") == "idle", "nothing good went for it"
    assert chat(daemon, "good").status == 200


def test_a_file_that_is_mended_works_again(start, tmp_path):
    path = broken_file(str(tmp_path), "not-gguf")
    daemon = start({"a": {**real(), "file": path}})
    assert chat(daemon, "a").status >= 500
    shutil.copy(MODELS / "tiny.gguf", path)
    assert daemon.model("a", "load")[0] == 200
    assert chat(daemon, "a").status == 200


def test_a_file_that_is_replaced_is_admitted_by_what_it_takes(start, tmp_path):
    path = str(tmp_path / "model.gguf")
    shutil.copy(MODELS / "tiny.gguf", path)
    daemon = start({"a": {**real(), "file": path}})
    assert chat(daemon, "a").status == 200
    before = models(daemon)["a"]["estimate_bytes"]
    assert daemon.model("a", "unload")[0] == 200
    shutil.copy(MODELS / "embed.gguf", path + ".new")
    os.rename(path + ".new", path)
    daemon.model("a", "load")
    assert models(daemon)["a"]["estimate_bytes"] > 2 * before


def test_a_model_that_keeps_failing_is_not_tried_for_every_request(start):
    daemon = start({"a": fake(args="--die-at loading")})
    for _ in range(10):
        assert chat(daemon, "a").status in (502, 503)
    assert len(decisions(daemon, "load", "a")) < 10
    assert chat(daemon, "a").status in (502, 503)


def test_the_engine_s_log_can_be_read_after_its_end(start):
    daemon = start({"a": real("tiny.gguf", args="--no-such-flag")})
    assert chat(daemon, "a").status == 502
    status, text = daemon.ask("GET", "/api/v1/models/a/logs", text=True)
    assert status == 200 and "--no-such-flag" in text


def test_an_engine_that_ignores_term_is_killed(start):
    daemon = start({"a": fake(args="--ignore-term")})
    chat(daemon, "a")
    pid = engine_pids(daemon, "a")[0]
    begin = time.monotonic()
    assert daemon.model("a", "unload")[0] == 200
    assert not alive(pid)
    assert time.monotonic() - begin < 40


def test_an_engine_s_own_error_reaches_the_client(start):
    daemon = start({"a": real("tiny.gguf", context=512)})
    answer = chat(daemon, "a", text="x " * 2000)
    assert answer.status == 400
    assert answer.error["type"] == "exceed_context_size_error"


def test_the_keeper_killed(start):
    daemon = start({"a": real("tiny.gguf")})
    chat(daemon, "a")
    engine = engine_pids(daemon, "a")[0]
    with open(f"/proc/{engine}/stat") as file:
        keeper = int(file.read().rpartition(")")[2].split()[1])
    assert keeper != daemon.process.pid, "engines are children of the keeper"
    nice = os.getpriority(os.PRIO_PROCESS, engine)
    kill(keeper)
    wait_for("the engine to be gone", lambda: not alive(engine))
    # Before the daemon knows, a dying engine may still take a connection: that one gets 502.
    wait_for("the daemon to know", lambda: models(daemon)["a"]["state"] not in ("idle", "busy"))
    assert chat(daemon, "a").status == 200, "a new keeper serves"
    assert os.getpriority(os.PRIO_PROCESS, engine_pids(daemon, "a")[0]) == nice, "not at the daemon's own priority"


@pytest.mark.parametrize("how, said", [("--no-listen", "nobody listens at"), ("--other-place", "nobody listens at"),
                                       ("--no-accept", "does not answer"), ("--bad-health", "no HTTP"),
                                       ("--never-ready", "/health answered 503")])
def test_an_engine_that_cannot_be_asked_is_ended_and_told_why(start, how, said):
    daemon = start({"a": fake(args=how, stall_timeout="1500ms"), "b": fake()})
    answers = in_threads([lambda: chat(daemon, "a"), lambda: chat(daemon, "b")])
    assert [a.status for a in answers] == [504, 200], answers
    assert said in answers[0].error["message"], answers[0]
    wait_for("its process to be gone", lambda: not engine_pids(daemon, "a"))


def test_an_engine_that_goes_into_the_background_is_told_not_to(start):
    daemon = start({"a": fake(load_ms=3000, args="--background")})
    answer = chat(daemon, "a")
    assert answer.status == 502 and "must not go into the background" in answer.error["message"], answer
    wait_state(daemon, "a", "failed", "unloaded")  # and nothing of it is left: the end of every test looks


def test_an_engine_that_dies_in_every_other_load_serves_all_the_same(start, tmp_path):
    daemon = start({"a": fake(load_ms=60, args=f"--die-every-other {tmp_path}/turn"), "b": fake(footprint_mib=20)},
                   limit_mib=30)
    for _ in range(3):
        for model in ("a", "b"):
            answer = chat(daemon, model)
            assert answer.status == 200, answer
    assert len(decisions(daemon, "load_failed", "a")) == 3


def test_an_engine_that_lies_about_its_health_gives_its_own_answer(start, tmp_path):
    gate = tmp_path / "gate"
    daemon = start({"a": fake(args=f"--lie-health --load-until {gate}")})
    answer = chat(daemon, "a")
    assert answer.status == 503 and answer.error["message"] == "Loading model", "the engine's own words, unchanged"
    gate.touch()
    wait_for("it to have loaded", lambda: chat(daemon, "a").status == 200)


def test_answers_that_are_no_http_are_told_and_the_next_is_served(start):
    daemon = start({"a": fake(args="--bad-http")})
    for stream in (False, True):
        answer = chat(daemon, "a", stream=stream)
        assert answer.status == 502 and answer.error["code"] == "engine_died", answer
        assert "closed the connection without an answer" in answer.error["message"], answer
    assert state(daemon, "a") == "idle", "it still answers its health: nobody ends it for this"
