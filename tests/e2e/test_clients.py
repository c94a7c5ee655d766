"""Programs that people use, against real engines."""
import http.client
import json
import math

import openai
import pytest

from harness import ask, chat, content, in_threads, models, raw, real, state, wait_for, wait_state


@pytest.fixture
def daemon(start):
    return start({"chat": real("chat.gguf", aliases=["gpt-4o-mini", "gpt-4*"]),
                  "alpha": real("alpha.gguf"), "beta": real("beta.gguf"),
                  "embed": real("embed.gguf", args="--embeddings")})


def sdk(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=60, max_retries=0)


def test_sdk_chat_streamed_and_not(daemon):
    question = [{"role": "user", "content": "Tell me the capital of France."}]
    answer = sdk(daemon).chat.completions.create(model="chat", messages=question, max_tokens=24, temperature=0)
    assert "Paris" in answer.choices[0].message.content
    assert answer.usage.completion_tokens > 0
    parts = list(sdk(daemon).chat.completions.create(model="gpt-4o-mini", messages=question, max_tokens=24,
                                                     temperature=0, stream=True))
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == answer.choices[0].message.content
    assert len(parts) > 4, "the stream came in pieces"


def test_sdk_embeddings_tell_meanings_apart(daemon):
    data = sdk(daemon).embeddings.create(model="embed", input=["a man eats", "somebody has a meal", "stocks fell"]).data
    unit = [[x / math.sqrt(sum(y * y for y in item.embedding)) for x in item.embedding] for item in data]
    cosine = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert cosine(unit[0], unit[1]) > cosine(unit[0], unit[2]) + 0.2


def test_sdk_lists_models(daemon):
    assert {"chat", "alpha", "beta", "embed"} <= {model.id for model in sdk(daemon).models.list()}


def test_sdk_errors_are_the_api_s_own(daemon):
    with pytest.raises(openai.NotFoundError) as unknown:
        sdk(daemon).chat.completions.create(model="chta", messages=[{"role": "user", "content": "x"}])
    assert "chat" in unknown.value.message, "the nearest name"


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "x", "max_tokens": 3}),
    ("/completion", {"prompt": "x", "n_predict": 3}),
    ("/tokenize", {"content": "x"}),
    ("/v1/messages", {"max_tokens": 3, "messages": [{"role": "user", "content": "x"}]}),
])
def test_other_routes_of_the_engine(daemon, path, body):
    assert ask(daemon, "POST", path, {"model": "alpha", **body}).status == 200


def test_upstream_reaches_any_path_of_the_engine(daemon):
    chat(daemon, "alpha")
    props = ask(daemon, "GET", "/upstream/alpha/props")
    assert props.status == 200 and "default_generation_settings" in props.json


def test_a_look_never_loads(daemon):
    answer = ask(daemon, "GET", "/upstream/alpha/props")
    assert answer.status == 409 and answer.error["code"] == "not_loaded"
    assert state(daemon, "alpha") == "unloaded"


def test_one_kept_connection_changes_models(daemon):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    said = [content(chat(daemon, name, 8, connection=connection)) for name in ("alpha", "beta", "alpha", "beta")]
    assert said == ["this is alpha .", "this is beta ."] * 2


def test_pipelined_requests_are_answered_in_order(daemon):
    chat(daemon, "alpha")
    chat(daemon, "beta")
    request = b""
    for name, connection in (("alpha", "keep-alive"), ("beta", "close")):
        body = json.dumps({"model": name, "max_tokens": 8, "messages": [{"role": "user", "content": "x"}]}).encode()
        request += (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    f"Connection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    # Both may come in one read, so they are not read by two readers of one connection.
    answers = raw(daemon, request, 60).decode()
    assert answers.count("HTTP/1.1 200 OK") == 2
    assert answers.index("this is alpha") < answers.index("this is beta")


def test_bad_json_says_where(daemon):
    answer = ask(daemon, "POST", "/v1/chat/completions", '{"model": "alpha", "messages": [}')
    assert answer.status == 400
    assert any(character.isdigit() for character in answer.error["message"]), "a place in the body"


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"model": 7}', "null"])
def test_a_body_without_a_model_is_refused(daemon, body):
    answer = ask(daemon, "POST", "/v1/chat/completions", body)
    assert answer.status == 400, answer
    assert answer.error["message"]


def test_an_empty_name_is_no_model(daemon):
    assert ask(daemon, "POST", "/v1/chat/completions", '{"model": ""}').status in (400, 404)


def test_unknown_model_names_the_nearest(daemon):
    answer = chat(daemon, "alpah")
    assert answer.status == 404
    assert "alpha" in answer.error["message"]
    assert answer.error["code"]


def test_answers_name_the_request_and_its_wait(daemon):
    answer = chat(daemon, "alpha")
    assert answer.status == 200
    assert answer.headers["X-Cotenant-Request-Id"]
    assert int(answer.headers["X-Cotenant-Load-Ms"]) > 0
    row = daemon.get("/api/v1/requests/" + answer.headers["X-Cotenant-Request-Id"])
    assert row["model"] == "alpha" and row["status"] == 200
    assert row["decision"] == answer.headers["X-Cotenant-Decision"]
    decisions = daemon.get("/api/v1/decisions")["decisions"]
    assert [d["kind"] for d in decisions if d["id"] == row["decision"]] == ["dispatch"]
    again = chat(daemon, "alpha")
    assert int(again.headers["X-Cotenant-Load-Ms"]) == 0


def test_many_clients_on_one_engine(daemon):
    answers = in_threads([lambda: chat(daemon, "alpha", 8)] * 12)
    assert [content(answer) for answer in answers] == ["this is alpha ."] * 12


def test_a_model_goes_when_it_is_idle(start):
    daemon = start({"alpha": real("alpha.gguf", unload_after="300ms")})
    chat(daemon, "alpha")
    wait_state(daemon, "alpha", "unloaded")
    wait_for("its bytes to be back", lambda: models(daemon)["alpha"]["measured_bytes"] == 0)


def test_preload_and_pin(start):
    daemon = start({"alpha": real("alpha.gguf", preload=True, pin=True)})
    wait_state(daemon, "alpha", "idle")
    assert models(daemon)["alpha"]["pinned"]


def test_autoload_off_waits_for_an_operator(start):
    daemon = start({"alpha": real("alpha.gguf", autoload=False)})
    assert chat(daemon, "alpha").status == 409
    assert daemon.model("alpha", "load")[0] == 200
    assert chat(daemon, "alpha").status == 200
