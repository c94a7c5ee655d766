"""Each way in which a request can end without an answer: its status, its code, its name in metrics and in history."""
import re
import signal

import harness
from harness import ROOT, InTheBackground, Stream, ask, chat, fake, free_port, models, real, wait_for, wait_state

ROW = re.compile(r"^\| (\d{3}) \| `(\w+)` \| `(\w+)` \| (?:(\d+) s)? \|", re.M)
ROWS = {code: (int(status), name) for status, code, name, _ in ROW.findall((ROOT / "doc/errors.md").read_text())}


def expect(daemon, answer, code, *words):
    """The answer is the one that doc/errors.md has for the code, and so are metrics and history."""
    assert (answer.status, answer.error["code"]) == (ROWS[code][0], code), answer
    for word in words:
        assert word in answer.error["message"], answer
    assert ("Retry-After" in answer.headers) != (answer.headers.get("x-should-retry") == "false"), answer.headers
    recorded(daemon, answer.headers["X-Cotenant-Request-Id"], code)


def recorded(daemon, request, code):
    name = ROWS[code][1]
    wait_for(f"{name} in metrics", lambda: f'outcome="{name}"' in daemon.ask("GET", "/metrics", text=True)[1])
    if code == "model_not_found":
        return  # history is by model

    def row():
        rows = daemon.get("/api/v1/history?kind=requests&limit=50")["requests"]
        return [r for r in rows if request in (r.get("id"), r.get("request"))]
    found = wait_for(f"{request} in history", row)
    assert found[0]["outcome"] == name, found


def test_the_engine_ends(start):
    daemon = start({"a": fake(args="--die-at midstream --die-status 7 --die-line 'error: no more ink' --first-ms 50"),
                    "b": fake(args="--die-at loading --die-line 'error: no such thing'"),
                    "c": fake(args="--never-ready", stall_timeout="500ms"),
                    "e": fake(load_ms=60000, start_timeout="500ms"),
                    "d": fake(args="--die-at midstream --die-signal 11")})
    expect(daemon, chat(daemon, "a"), "engine_died", "status 7", "no more ink")
    expect(daemon, chat(daemon, "d"), "engine_died", "signal 11", "Segmentation fault")
    expect(daemon, chat(daemon, "b"), "load_failed", "status 1", "no such thing")
    expect(daemon, chat(daemon, "b"), "backing_off", "no such thing")
    expect(daemon, chat(daemon, "c"), "start_timeout", "stall_timeout")
    expect(daemon, chat(daemon, "e"), "start_timeout", "not ready after", "start_timeout")
    assert len([d for d in harness.decisions(daemon) if d["kind"] == "load" and d["model"] == "e"]) == 1


def test_it_cannot_be_loaded(start):
    daemon = start({"big": fake(footprint_mib=2048), "shy": fake(autoload=False),
                    "away": {"url": f"http://127.0.0.1:{free_port()}"}}, limit_mib=300)
    expect(daemon, chat(daemon, "nobody"), "model_not_found")
    expect(daemon, chat(daemon, "big"), "never_fits", "memory.limit")
    expect(daemon, chat(daemon, "shy"), "not_loaded")
    expect(daemon, chat(daemon, "away"), "unreachable")


def test_too_many_wait(start):
    daemon = start({"a": fake(slots=1, queue=1, args="--hang -np 1")}, limits={"requests": 3})
    waiting = [InTheBackground(lambda: chat(daemon, "a"))]
    wait_for("one to run", lambda: models(daemon)["a"]["running"] == 1)
    waiting.append(InTheBackground(lambda: chat(daemon, "a")))
    wait_for("one to wait", lambda: models(daemon)["a"]["queued"] == 1)
    expect(daemon, chat(daemon, "a"), "queue_full")
    third = InTheBackground(lambda: ask(daemon, "POST", "/api/v1/models/a/unload", {}))
    wait_state(daemon, "a", "draining")
    expect(daemon, chat(daemon, "a"), "too_many_requests")
    ask(daemon, "POST", "/api/v1/models/a/stop", {})
    for request in daemon.get("/api/v1/requests")["requests"]:
        daemon.ask("DELETE", f"/api/v1/requests/{request['id']}")
    for answer in waiting:
        expect(daemon, answer(), "cancelled")
    third()


def test_its_time_is_over_or_its_client_gone(start):
    daemon = start({"a": fake(args="--hang")})
    expect(daemon, chat(daemon, "a", headers={"X-Cotenant-Deadline": "1000"}), "deadline")
    stream = Stream(daemon, "a")
    running = wait_for("it to run", lambda: daemon.get("/api/v1/requests?live=1")["requests"])
    stream.leave()
    recorded(daemon, running[0]["id"], "client_gone")


def test_an_unload_or_a_reload_takes_it_away(start):
    daemon = start({"a": fake(args="--hang", drain_timeout="200ms"), "b": fake(args="--hang", drain_timeout="200ms")})
    waiting = InTheBackground(lambda: chat(daemon, "a"))
    wait_for("it to run", lambda: models(daemon)["a"]["running"] == 1)
    daemon.model("a", "unload")
    expect(daemon, waiting(), "draining")
    waiting = InTheBackground(lambda: chat(daemon, "b"))
    wait_for("it to run", lambda: models(daemon)["b"]["running"] == 1)
    with open(daemon.config, "w") as out:
        out.write(harness.config(daemon.port, {"a": fake(args="--hang")}))
    daemon.process.send_signal(signal.SIGHUP)
    expect(daemon, waiting(), "model_removed")


def test_every_path_that_a_refusal_names_is_there(start):
    """A door that is pointed to leads somewhere, in this very build of the engine."""
    daemon = start({"a": real()})
    answer = ask(daemon, "POST", "/v1/images/generations", {"model": "a", "prompt": "a room"})
    assert (answer.status, answer.error["code"]) == (400, "wrong_endpoint")
    named = re.findall(r"/[\w/]+\w", answer.error["message"].split("which takes", 1)[1])
    assert len(named) >= 4
    for path in named:
        body = {"model": "a", "max_tokens": 1, "prompt": "room", "input": "room", "messages": [{"role": "user", "content": "room"}]}
        assert ask(daemon, "POST", path, body).status == 200, path
