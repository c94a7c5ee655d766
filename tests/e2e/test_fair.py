"""Whose turn it is: keys, conversations, classes; what a request may say of itself."""
import threading

from harness import chat, decisions, fake, models, wait_for

SLOW = "--chunks 3 --chunk-ms 20"


def alone(start, **more):
    return start({"a": fake(args=SLOW, slots=1, queue=64)}, policy="cotenant", options=["--paranoid"], **more)


def crowd(daemon, count, text, headers, order, name):
    """So many calls at once, of one conversation; each end is noted by name."""
    def call():
        assert chat(daemon, "a", text=text, headers=headers).status == 200
        order.append(name)
    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    wait_for("the crowd to wait", lambda: models(daemon)["a"]["queued"] >= count - 2 - len(order))
    return threads


def ends_early(daemon, agent, other):
    """The other's call passes the thirty of the agent that came before it."""
    chat(daemon, "a", headers=agent)
    order = []
    threads = crowd(daemon, 30, "agent", agent, order, "agent")
    assert chat(daemon, "a", text="somebody else", headers=other).status == 200
    before = len(order)
    for thread in threads:
        thread.join()
    assert len(order) == 30
    return before


def test_one_key_with_thirty_calls_does_not_own_a_model(start):
    keys = [{"key": f"secret-of-{name}-0123456789", "name": name} for name in ("agent", "human")]
    daemon = alone(start, api_keys=keys)
    agent, human = ({"Authorization": f"Bearer {key['key']}"} for key in keys)
    assert ends_early(daemon, agent, human) <= 12


def test_one_conversation_with_thirty_calls_does_not_own_a_model(start):
    daemon = alone(start)
    assert ends_early(daemon, None, None) <= 12


def test_a_request_says_its_class_and_hears_what_became_of_it(start):
    daemon = alone(start)
    chat(daemon, "a")
    order = []
    threads = crowd(daemon, 20, "bulk", {"X-Cotenant-Priority": "batch"}, order, "bulk")
    answer = chat(daemon, "a", headers={"X-Cotenant-Priority": "interactive", "X-Cotenant-Weight": "10"})
    assert len(order) <= 12
    assert int(answer.headers["X-Cotenant-Wait-Ms"]) >= 0 and "X-Cotenant-Load-Ms" in answer.headers
    told = daemon.get("/api/v1/requests/" + answer.headers["X-Cotenant-Request-Id"])
    assert told["priority"] == "interactive"
    for thread in threads:
        thread.join()


def test_a_deadline_is_refused_with_the_reason(start):
    daemon = start({"a": fake(load_ms=20000)})
    answer = chat(daemon, "a", headers={"X-Cotenant-Deadline": "1000"})
    assert answer.status == 504
    assert "a is loading" in answer.error["message"]
    assert 900 < int(answer.headers["X-Cotenant-Wait-Ms"]) < 5000
    refusals = decisions(daemon, "refuse")
    assert not refusals or "deadline" in refusals[0]["text"]
