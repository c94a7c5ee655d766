"""Whose turn it is: keys, conversations, classes; what a request may say of itself."""
import re

import pytest

from harness import InTheBackground, ask, chat, decisions, fake, in_threads, models, wait_for

@pytest.fixture
def alone(start, tmp_path):
    """A daemon with one slow model, which loads when its `gate` is there."""
    def begin(**more):
        gate = tmp_path / "gate"
        gate.touch()
        args = f"--chunks 3 --chunk-ms 20 --load-until {gate}"
        daemon = start({"a": fake(args=args, slots=1, queue=64)}, policy="cotenant", options=["--paranoid"], **more)
        daemon.gate = gate
        return daemon
    return begin


def behind_a_crowd(daemon, count, crowd, last):
    """(the last one's answer, how many went before it): so many calls and then another wait for one load."""
    assert crowd().status == 200
    assert daemon.model("a", "unload")[0] == 200
    earlier = len(decisions(daemon, "dispatch"))
    daemon.gate.unlink()
    calls = [InTheBackground(crowd) for _ in range(count)]
    wait_for("the crowd to wait", lambda: models(daemon)["a"]["queued"] == count)
    call = InTheBackground(last)
    wait_for("the last to wait", lambda: models(daemon)["a"]["queued"] == count + 1)
    daemon.gate.touch()
    answer = call()
    assert {call().status for call in calls} == {answer.status} == {200}
    order = [row["id"] for row in decisions(daemon, "dispatch")][earlier:]
    assert len(order) == count + 1
    return answer, order.index(answer.headers["X-Cotenant-Decision"])


def passed_by(daemon, agent, other):
    """How many of the agent's thirty calls go before another's call that came behind them."""
    return behind_a_crowd(daemon, 30, lambda: chat(daemon, "a", text="agent", headers=agent),
                          lambda: chat(daemon, "a", text="somebody else", headers=other))[1]


def test_one_key_with_thirty_calls_does_not_own_a_model(alone):
    keys = [{"key": f"secret-of-{name}-0123456789", "name": name} for name in ("agent", "human")]
    agent, human = ({"Authorization": f"Bearer {key['key']}"} for key in keys)
    assert passed_by(alone(api_keys=keys), agent, human) <= 12


def test_one_conversation_with_thirty_calls_does_not_own_a_model(alone):
    assert passed_by(alone(), None, None) <= 12


def test_a_request_says_its_class_and_hears_what_became_of_it(alone):
    daemon = alone()
    answer, before = behind_a_crowd(
        daemon, 20, lambda: chat(daemon, "a", text="bulk", headers={"X-Cotenant-Priority": "batch"}),
        lambda: chat(daemon, "a", headers={"X-Cotenant-Priority": "interactive", "X-Cotenant-Weight": "10"}))
    assert before <= 12
    assert int(answer.headers["X-Cotenant-Wait-Ms"]) >= 0 and "X-Cotenant-Load-Ms" in answer.headers
    told = daemon.get("/api/v1/requests/" + answer.headers["X-Cotenant-Request-Id"])
    assert told["priority"] == "interactive"


def test_a_deadline_is_refused_with_the_reason(start):
    daemon = start({"a": fake(load_ms=120000)})
    answer = chat(daemon, "a", headers={"X-Cotenant-Deadline": "1000"})
    assert answer.status == 504
    assert "a is loading" in answer.error["message"]
    assert 900 < int(answer.headers["X-Cotenant-Wait-Ms"]) < 20000
    refusals = decisions(daemon, "refuse")
    assert not refusals or "deadline" in refusals[0]["text"]


# ---- side traffic ----

TITLE = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history."


def listed(daemon, answer):
    return daemon.get("/api/v1/requests/" + answer.headers["X-Cotenant-Request-Id"])


def pair(start, **more):
    """Two models that do not fit together."""
    return start({name: fake(anon_mib=300, footprint_mib=320) for name in ("a", "b")}, limit_mib=500, policy="cotenant",
                 options=["--paranoid"], **more)


def test_a_title_evicts_nobody_and_is_background(start):
    daemon = pair(start)
    assert chat(daemon, "a").status == 200
    answer = chat(daemon, "a", text=TITLE)
    told = listed(daemon, answer)
    assert told["side_traffic"] == "titles" and told["priority"] == "background"
    refused = chat(daemon, "b", text=TITLE, headers={"X-Cotenant-Deadline": "1500"})
    assert refused.status in (503, 504), refused
    assert not decisions(daemon, "evict") and models(daemon)["a"]["state"] == "idle"
    assert chat(daemon, "b", text=TITLE, headers={"X-Cotenant-Priority": "normal"}).status == 200, "who says so is believed"


def test_a_title_goes_to_whichever_is_resident(start):
    rules = [{"name": "titles", "says": "concise*title", "alias": ["b", "a"]}]
    daemon = pair(start, side_traffic=rules, aliases={"fast": {"models": ["b", "a"]}})
    assert chat(daemon, "a").status == 200
    assert listed(daemon, chat(daemon, "b", text=TITLE))["model"] == "a"
    assert listed(daemon, chat(daemon, "fast", text=TITLE))["model"] == "a"
    assert not decisions(daemon, "evict")
    assert listed(daemon, chat(daemon, "b"))["model"] == "b", "only side traffic is sent elsewhere"


# ---- sets ----

def test_a_set_is_loaded_and_evicted_as_one(start):
    many = {name: fake(anon_mib=100, footprint_mib=110) for name in ("stt", "tts")}
    daemon = start({**many, "big": fake(anon_mib=300, footprint_mib=320)}, limit_mib=500, policy="cotenant",
                   options=["--paranoid"], sets={"voice": {"models": ["stt", "tts"], "first_byte": "10ms"}})
    assert chat(daemon, "stt").status == 200
    wait_for("the other of the set", lambda: models(daemon)["tts"]["state"] == "idle")
    assert models(daemon)["tts"]["set"] == "voice"
    assert chat(daemon, "big").status == 200
    assert {models(daemon)[name]["state"] for name in many} <= {"unloaded", "unloading"}
    assert "with its set" in [row["text"] for row in decisions(daemon, "load") if row["model"] == "tts"][0]
    metrics = ask(daemon, "GET", "/metrics").text
    assert 'cotenant_set_first_byte_total{set="voice",model="stt",target="missed"} 1' in metrics


# ---- why ----

def test_why_tells_who_held_the_room_and_what_it_cost(start):
    daemon = pair(start)
    for _ in range(3):
        chat(daemon, "a")
    answer = chat(daemon, "b")
    told = daemon.get("/api/v1/why/" + answer.headers["X-Cotenant-Request-Id"])["text"]
    assert re.search(r"waited .*: a went for it \(asked for in the last hour: a 3 times, b once; bringing a back takes "
                     r"[^)]* and was expected to cost [^)]*\); a held 3\d\d MiB until \d\d:\d\d:\d\d; b loaded in ", told), told
    row = decisions(daemon, "evict")[0]
    assert row["asked"] == 3 and row["asked_for"] == 1 and row["regret"] > 0
    plan = daemon.get("/api/v1/plan?model=a")
    assert plan["evict"][0]["model"] == "b" and plan["evict"][0]["regret"] >= 0


@pytest.mark.parametrize("policy", ["threshold", "hysteresis", "cost-benefit", "one-at-a-time", "lru"])
def test_the_earlier_policies_serve_everybody(start, policy):
    daemon = start({name: fake(anon_mib=100, footprint_mib=120) for name in "abc"}, limit_mib=300, policy=policy,
                   options=["--paranoid"])
    answers = in_threads([lambda name=name: chat(daemon, name) for name in "abcabc"])
    assert {answer.status for answer in answers} == {200}
