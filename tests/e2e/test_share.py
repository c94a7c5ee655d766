"""Models that share one memory: who is in, who goes, and that the account is right."""
import json
import re
import threading
import time

import pytest

from harness import (MIB, InTheBackground, Stream, alive, chat, config, content, decisions, engine_pids, fake, in_threads, models, real,
                     resident, state, wait_for, wait_state)


@pytest.fixture
def two(start):
    """Two models of 300 MiB under a limit of 500."""
    return start({name: fake(load_ms=150, anon_mib=300, footprint_mib=320) for name in ("a", "b")}, limit_mib=500,
                 options=["--paranoid"])


def test_asked_in_turn_they_take_turns(two):
    for name in "abab":
        assert chat(two, name).status == 200
        assert state(two, name) in ("idle", "busy")
        other = "b" if name == "a" else "a"
        assert state(two, other) in ("unloaded", "unloading", "draining")
    evictions = decisions(two, "evict")
    assert [row["model"] for row in evictions] == ["a", "b", "a"]
    assert [row["for_model"] for row in evictions] == ["b", "a", "b"]
    assert all(row["text"] for row in evictions)


def test_asked_at_once_all_are_answered(two):
    answers = in_threads([lambda name=name: chat(two, name) for name in "ab" * 8])
    assert {answer.status for answer in answers} == {200}
    assert len(decisions(two, "load")) <= 8, "requests for one model are served together"


def test_a_new_engine_waits_until_the_old_one_s_bytes_are_back(two):
    chat(two, "a")
    old = engine_pids(two, "a")[0]
    chat(two, "b")
    assert not alive(old)
    kinds = [(row["kind"], row["model"]) for row in decisions(two)]
    assert kinds.index(("released", "a")) < kinds.index(("ready", "b"))


def test_never_more_claimed_than_the_limit(two):
    over, done = [], threading.Event()

    def watch():
        while not done.is_set():
            claimed = sum(row["claim_bytes"] for row in two.get("/api/v1/memory")["owners"]
                          if row["kind"] == "instance")
            if claimed > 500 * MIB:
                over.append(claimed)
            time.sleep(0.005)
    thread = threading.Thread(target=watch)
    thread.start()
    in_threads([lambda name=name: chat(two, name) for name in "abba"])
    done.set()
    thread.join()
    assert not over


def test_a_hundred_requests_start_one_engine(start):
    daemon = start({"a": fake(load_ms=600, anon_mib=16)})
    answers = in_threads([lambda: chat(daemon, "a")] * 100)
    assert [answer.status for answer in answers] == [200] * 100
    assert len(decisions(daemon, "load")) == 1


def test_a_busy_model_does_not_starve_the_other(two):
    stop = threading.Event()
    served = []

    def keep_busy():
        while not stop.is_set():
            served.append(chat(two, "a").status)
    threads = [threading.Thread(target=keep_busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for("the first to be served", lambda: len(served) > 8)
    try:
        assert chat(two, "b", timeout=90).status == 200
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(served) == {200}


def test_a_pinned_model_stays_and_the_other_is_refused(start):
    daemon = start({"a": fake(anon_mib=300, footprint_mib=320, pin=True), "b": fake(anon_mib=300, footprint_mib=320)},
                   limit_mib=500)
    assert chat(daemon, "a").status == 200
    answer = chat(daemon, "b")
    assert answer.status in (503, 507), answer
    assert state(daemon, "a") == "idle"


def test_what_never_fits_is_refused_at_once_with_numbers(start):
    daemon = start({"a": fake(anon_mib=16, footprint_mib=2000)}, limit_mib=500)
    begin = time.monotonic()
    answer = chat(daemon, "a")
    assert answer.status == 507 and time.monotonic() - begin < 10
    assert answer.headers["x-should-retry"] == "false"
    assert "MiB" in answer.error["message"] or "GiB" in answer.error["message"]
    assert len(decisions(daemon, "load")) == 0


def test_what_was_measured_too_large_is_refused_for_good_until_there_is_more(start):
    """Its promise fits, its engine takes more than memory.limit: the next load would be for nothing."""
    entry = {"a": fake(anon_mib=310, footprint_mib=260)}
    daemon = start(entry, limit_mib=280)
    assert chat(daemon, "a").status == 200
    wait_for("two samples to agree", lambda: models(daemon)["a"]["lower_bytes"] > 280 * MIB)
    daemon.model("a", "unload")
    wait_state(daemon, "a", "unloaded")
    answer = chat(daemon, "a")
    assert answer.status == 507 and "as measured" in answer.error["message"], answer
    assert "raise memory.limit" in answer.error["message"]
    code, said = daemon.command("plan", "a")
    assert code == 4 and "can never fit" in said and "as measured" in said and "ready in" not in said, said
    code, said = daemon.command("why", "a")
    assert code == 0 and "as measured" in said and "raise memory.limit" in said
    assert models(daemon)["a"]["fits"] == "never"
    assert len(decisions(daemon, "load")) == 1

    rewrite(daemon, entry, limit_mib=600)
    assert reload(daemon)[0] == 200
    assert chat(daemon, "a").status == 200


def test_a_full_queue_is_an_answer(start, tmp_path):
    gate = tmp_path / "gate"
    daemon = start({"a": fake(args=f"--load-until {gate}", queue=4)})
    calls = [InTheBackground(lambda: chat(daemon, "a")) for _ in range(16)]
    wait_for("all to wait or to be refused",
             lambda: sum(call.is_over() for call in calls) + models(daemon)["a"]["queued"] == 16)
    gate.touch()
    answers = [call() for call in calls]
    statuses = [answer.status for answer in answers]
    assert set(statuses) == {200, 429} and statuses.count(200) >= 4
    refused = next(answer for answer in answers if answer.status == 429)
    assert 0 < int(refused.headers["Retry-After"]) <= 60


def test_plan_tells_what_will_happen(two):
    chat(two, "a")
    plan = two.get("/api/v1/plan?model=b")
    assert plan["fits"] == "after-eviction"
    assert [row["model"] for row in plan["evict"]] == ["a"]
    assert state(two, "a") == "idle", "a plan changes nothing"
    chat(two, "b")
    assert decisions(two, "evict")[-1]["model"] == "a"
    plan = two.get("/api/v1/plan?model=b")
    assert plan["fits"] in ("now", "tight") and not plan["evict"]


def test_the_account_adds_up(two):
    chat(two, "a")
    wait_for("it to be measured", lambda: models(two)["a"]["measured_bytes"] >= 300 * MIB)
    memory = two.get("/api/v1/memory")
    assert memory["daemon"] is True
    pool = memory["pools"][0]
    owners = memory["owners"]
    mine = [row for row in owners if row["kind"] == "instance"]
    assert len(mine) == 1 and mine[0]["name"] == "a"
    assert 300 * MIB <= mine[0]["measured_bytes"] < 330 * MIB
    assert pool["claimed_bytes"] == sum(max(row["claim_bytes"], row["measured_bytes"]) for row in mine)
    assert pool["capacity_bytes"] <= pool["size_bytes"]
    assert pool["foreign_bytes"] + mine[0]["measured_bytes"] == pytest.approx(pool["unreclaimable_bytes"], abs=8 * MIB)
    assert sum(row["measured_bytes"] for row in owners) == pytest.approx(pool["unreclaimable_bytes"], abs=8 * MIB)


def test_memory_comes_back_after_an_unload(two):
    chat(two, "a")
    assert two.model("a", "unload")[0] == 200
    assert state(two, "a") == "unloaded"
    assert not [row for row in two.get("/api/v1/memory")["owners"] if row["kind"] == "instance"]
    assert two.model("a", "unload")[0] == 200, "an unload of what is unloaded succeeds"


def test_a_second_load_expects_what_the_first_was_measured_to_take(start):
    unknown = fake(anon_mib=100)
    del unknown["footprint"]
    daemon = start({"a": unknown, "b": fake(anon_mib=100, footprint_mib=400)})
    for model in "ab":
        chat(daemon, model)
        wait_for("it to be measured", lambda: models(daemon)[model]["settled"])
        daemon.model(model, "unload")
        chat(daemon, model)
    assert 100 * MIB <= models(daemon)["a"]["estimate_bytes"] < 150 * MIB
    assert models(daemon)["b"]["estimate_bytes"] == 400 * MIB, "what was declared stands"


# ---- clients that leave ----

def test_nobody_is_evicted_for_a_client_that_left_the_queue(start):
    slow = fake(anon_mib=300, footprint_mib=320, args="--chunks 1000 --chunk-ms 20")
    two = start({"a": slow, "b": slow}, limit_mib=500)
    stream = Stream(two, "a")
    assert stream.line()
    waiting = Stream(two, "b", 4)
    wait_for("b to queue", lambda: models(two)["b"]["queued"] == 1)
    waiting.leave()
    wait_for("b's queue to be empty", lambda: models(two)["b"]["queued"] == 0)
    stream.leave()
    wait_state(two, "a", "idle")
    time.sleep(0.3)
    assert state(two, "a") == "idle"
    assert not decisions(two, "evict") and not decisions(two, "load", "b")


def test_a_load_outlives_its_client_and_a_retry_joins_it(start):
    daemon = start({"a": fake(load_ms=1000)})
    gone = Stream(daemon, "a", 4)
    wait_state(daemon, "a", "loading")
    gone.leave()
    assert chat(daemon, "a").status == 200
    assert len(decisions(daemon, "load")) == 1


def test_a_load_for_nobody_gives_way(two, start):
    daemon = start({"a": fake(load_ms=120000, anon_mib=300, footprint_mib=320),
                    "b": fake(anon_mib=300, footprint_mib=320)}, limit_mib=500)
    gone = Stream(daemon, "a", 4)
    wait_state(daemon, "a", "loading")
    gone.leave()
    begin = time.monotonic()
    assert chat(daemon, "b").status == 200
    assert time.monotonic() - begin < 60


def test_a_client_that_leaves_in_mid_stream_frees_its_slot(start):
    daemon = start({"a": real("tiny.gguf", slots=1)})
    stream = Stream(daemon, "a", 100000)
    assert stream.line() and stream.line()
    assert models(daemon)["a"]["running"] == 1
    stream.leave()
    wait_for("the slot to be free", lambda: models(daemon)["a"]["running"] == 0)
    assert chat(daemon, "a", timeout=30).status == 200
    row = daemon.get("/api/v1/requests")["requests"]
    assert any(r.get("outcome") == "client_gone" for r in row)


def test_cancel_ends_a_running_request(start):
    daemon = start({"a": real("tiny.gguf")})
    stream = Stream(daemon, "a", 100000)
    assert stream.line()
    identity = stream.begin().headers["X-Cotenant-Request-Id"]
    status, _ = daemon.ask("DELETE", f"/api/v1/requests/{identity}")
    assert status == 200
    lines, clean = stream.rest()
    assert not clean or "[DONE]" not in lines
    wait_for("the slot to be free", lambda: models(daemon)["a"]["running"] == 0)


def test_slow_reader_costs_no_memory_and_holds_up_nobody(start):
    daemon = start({"a": real("tiny.gguf", slots=2)})
    slow = Stream(daemon, "a", 20000)
    assert slow.line()
    before = resident(daemon)
    for _ in range(5):
        assert chat(daemon, "a", timeout=60).status == 200
    time.sleep(1)
    assert resident(daemon) - before < 4 * MIB
    slow.leave()
    wait_for("the slot to be free", lambda: models(daemon)["a"]["running"] == 0)


def test_waiting_streams_are_kept_alive_with_their_place(start):
    daemon = start({"a": fake(load_ms=1500, early_headers_after="200ms")})
    stream = Stream(daemon, "a", 3)
    answer = stream.begin()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
    text = answer.read().decode()
    assert text.startswith(":"), "a comment before the first event"
    assert re.search(r"^: loading a: (\d+ %, [\d.]+ KiB of 106 KiB|all 106 KiB read).*; place 1$", text, re.M), text[:300]
    assert "[DONE]" in text


def test_deadline_of_the_client(start):
    daemon = start({"a": fake(load_ms=120000)})
    begin = time.monotonic()
    answer = chat(daemon, "a", headers={"X-Cotenant-Deadline": "1000"})
    assert answer.status == 504, answer
    assert 0.9 < time.monotonic() - begin < 20


# ---- what an operator does ----

def reload(daemon):
    return daemon.ask("POST", "/api/v1/config/reload", {})


def rewrite(daemon, models, **more):
    with open(daemon.config, "w") as out:
        out.write(config(daemon.port, models, **more))


def test_reload_keeps_streams_and_brings_models(start):
    daemon = start({"a": real("tiny.gguf")})
    stream = Stream(daemon, "a", 400)
    assert stream.line()
    rewrite(daemon, {"a": real("tiny.gguf"), "new": real("alpha.gguf")})
    assert reload(daemon)[0] == 200
    assert content(chat(daemon, "new", 8)) == "this is alpha ."
    lines, clean = stream.rest()
    assert clean and lines[-1] == "[DONE]"


def test_reload_forgets_nothing_of_a_model_that_was_away(start):
    unknown = fake(anon_mib=100)
    del unknown["footprint"]
    daemon = start({"a": unknown, "b": real("alpha.gguf")})
    chat(daemon, "a")
    chat(daemon, "b")
    wait_for("them to be measured", lambda: all(row["settled"] for row in models(daemon).values()))
    daemon.stop()
    daemon = start({"a": unknown, "b": real("alpha.gguf")}, folder=daemon.folder)
    row = lambda name: daemon.get(f"/api/v1/models/{name}")
    before = {name: row(name) for name in "ab"}
    assert before["b"]["estimate_source"] == "memo" and before["a"]["estimate_bytes"] > 100 * MIB
    rewrite(daemon, {"c": fake()})
    assert reload(daemon)[0] == 200 and "a" not in models(daemon)
    rewrite(daemon, {"a": unknown, "b": real("alpha.gguf")})
    assert reload(daemon)[0] == 200
    for name in "ab":
        for key in ("estimate_bytes", "estimate_source"):
            assert row(name)[key] == before[name][key], (name, key)


def test_reload_starts_anew_what_must_and_loses_no_chunk(start):
    daemon = start({"a": real("tiny.gguf"), "b": fake(), "c": fake(), "d": fake()})
    for model in ("b", "c", "d"):
        assert chat(daemon, model).status == 200
    stream = Stream(daemon, "a", 400)
    assert stream.line()
    before = {name: row["pid"] for name, row in models(daemon).items()}
    rewrite(daemon, {"a": real("tiny.gguf", context=1024), "b": fake(args="--chunks 3"), "c": fake(priority="batch"), "d": fake()})
    status, told = reload(daemon)
    assert status == 200
    text = json.dumps(told)
    assert "models.a.context: changed (a loaded model starts anew)" in text, text
    assert "models.c.priority: changed (at once)" in text and "models.d" not in text
    waiting = in_threads([lambda: chat(daemon, "b"), lambda: stream.rest(), lambda: chat(daemon, "a")])
    assert waiting[0].json["choices"][0]["message"]["content"] == "3 words", "with its new arguments"
    lines, clean = waiting[1]
    assert clean and lines[-1] == "[DONE]" and len(lines) > 300, "the stream was finished by the old engine"
    assert waiting[2].status == 200
    after = models(daemon)
    assert after["a"]["context"] == 1024 and after["a"]["pid"] != before["a"] and after["b"]["pid"] != before["b"]
    assert after["c"]["pid"] == before["c"] and after["d"]["pid"] == before["d"], "others run on"
    # What was loaded is loaded again though nobody asks.
    rewrite(daemon, {"a": real("tiny.gguf", context=1024), "b": fake(), "c": fake(priority="batch"), "d": fake()})
    assert reload(daemon)[0] == 200
    wait_for("b anew", lambda: models(daemon)["b"]["state"] == "idle" and models(daemon)["b"]["pid"] != after["b"]["pid"])


def test_reload_takes_a_new_reserve_and_fits_contexts_anew(start):
    auto = {"a": real("tiny.gguf", context="auto")}
    daemon = start(auto)
    whole = models(daemon)["a"]["context"]
    capacity = daemon.get("/api/v1/memory")["pools"][0]["capacity_bytes"]
    rewrite(daemon, auto, memory={"reserve": "5GiB", "limit": "24MiB"})
    assert reload(daemon)[0] == 200
    wait_for("the new reserve", lambda: daemon.get("/api/v1/memory")["pools"][0]["capacity_bytes"] != capacity)
    pool = daemon.get("/api/v1/memory")["pools"][0]
    assert pool["size_bytes"] - pool["capacity_bytes"] == 5 << 30
    assert models(daemon)["a"]["context"] < whole


def test_numbers_beyond_all_memory_do_no_harm(start):
    daemon = start({"a": real("tiny.gguf"), "huge": fake(footprint_mib=900 << 20)}, memory={"limit": "900TiB"},
                   limits={"models": 65536})
    assert chat(daemon, "a").status == 200
    assert chat(daemon, "huge").status == 507
    assert "impossible" not in daemon.tail()


def test_many_reloads_at_once_are_all_answered(start):
    daemon = start({"a": real("tiny.gguf")})
    rewrite(daemon, {"a": real("tiny.gguf"), "b": real("alpha.gguf")})
    answers = in_threads([lambda: reload(daemon)] * 6)
    assert [status for status, _ in answers] == [200] * 6
    assert set(models(daemon)) == {"a", "b"}


def test_reloads_cost_nothing_while_a_model_stays_loaded(start):
    # Each of these configurations takes a hundred kilobytes.
    many = {f"m{i}": real("tiny.gguf", env={"PADDING": "x" * 2000}) for i in range(40)}
    daemon = start({**many, "a": fake()})
    assert chat(daemon, "a").status == 200

    def reload_often():
        for i in range(40):
            rewrite(daemon, {**many, "a": fake(), "m0": real("tiny.gguf", unload_after=f"{i + 1}h")})
            assert reload(daemon)[0] == 200
    reload_often()
    before = resident(daemon)
    reload_often()
    assert resident(daemon) - before < MIB
    assert state(daemon, "a") == "idle", "and it was not loaded anew"


def test_a_broken_reload_changes_nothing(start):
    daemon = start({"a": real("tiny.gguf")})
    with open(daemon.config, "w") as out:
        out.write("models: {a: {engin: x}}\n")
    status, answer = reload(daemon)
    assert status == 400 and "engine" in answer["error"]["message"]
    assert chat(daemon, "a").status == 200


def test_pin_and_unpin(two):
    chat(two, "a")
    assert two.model("a", "pin")[0] == 200
    assert models(two)["a"]["pinned"]
    assert chat(two, "b").status in (503, 507)
    assert two.model("a", "unpin")[0] == 200
    assert chat(two, "b").status == 200
