"""A context that follows conversations by restart: it starts small, grows when a request needs it, and nothing is lost."""
import json
import re
import subprocess
import threading
import time

import pytest

from harness import (PROGRAM, Stream, ask, chat_body, content, decisions, engine_pids, fake, in_threads, models, real, wait_for,
                     wait_state)
from squeeze import Group, Grower
from test_squeeze import V1

MIB = 1 << 20


def elastic(file="tiny.gguf", low=512, most=2048, **more):
    return real(file, context={"min": low, "max": most}, kv="elastic", reply=64, **more)


def model(daemon):
    return models(daemon)["chat"]


def say(daemon, messages, tokens=6, timeout=240):
    body = chat_body("chat", tokens)
    body["messages"] = messages
    answer = ask(daemon, "POST", "/v1/chat/completions", body, timeout=timeout)
    assert answer.status == 200, answer
    usage = answer.json["usage"]
    return content(answer), usage["prompt_tokens"], usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)


def user(words):
    return {"role": "user", "content": "room " * words}


def grown(daemon):
    return decisions(daemon, "grow")


def test_a_conversation_outgrows_its_context_and_goes_on(start):
    daemon = start({"chat": elastic("kv.gguf")})
    talk = [user(40)]
    first, tokens, _ = say(daemon, talk)
    assert model(daemon)["context"] == 512 and not grown(daemon)
    small = engine_pids(daemon, "chat")[0]
    wait_for("the slots to be read", lambda: ask(daemon, "GET", "/api/v1/conversations").json["conversations"])
    talk += [{"role": "assistant", "content": first}, user(60)]
    said, longer, cached = say(daemon, talk)
    state = model(daemon)
    assert longer > 512 and state["context"] == 2048 and state["growths"] == 1 and state["growths_ms"] > 0
    assert engine_pids(daemon, "chat") != [small]
    assert cached > tokens * 0.8, "what was said before was read again"
    decision, = grown(daemon)
    assert (decision["context_was"], decision["context"]) == (512, 2048)
    assert "from 512 to 2048 tokens" in decision["text"]
    given, saved = re.search(r"(\d+) tokens of idle conversations given up, (\d+) of them saved", daemon.tail()).groups()
    assert int(given) == int(saved) >= tokens
    daemon.stop()
    plain = start({"chat": real("kv.gguf", context=2048, kv="fixed")})
    assert say(plain, talk)[0] == said


def test_a_growth_leaves_room_for_the_others(start):
    """128 KiB a token: the engine had room for 4096, and all of it would then have been taken."""
    daemon = start({"chat": elastic("kv.gguf", most=32768, slots=1)}, limit_mib=720)
    say(daemon, [user(20)])
    say(daemon, [user(130)])
    assert model(daemon)["context"] == 2048


def test_where_room_is_plenty_a_conversation_is_interrupted_once(start):
    daemon = start({"chat": elastic(most=32768, slots=1)})
    talk, longest = [], 0
    for turn in range(16):
        talk.append(user(60))
        said, longest, _ = say(daemon, talk)
        talk.append({"role": "assistant", "content": said})
    assert longest > 4096 and model(daemon)["context"] == 32768
    assert model(daemon)["growths"] == len(grown(daemon)) == 1


def shown_by_ps(daemon, column):
    """The cell of the only row, in the columns that are aligned by their right ends."""
    text = subprocess.run([PROGRAM, "ps", "--socket", daemon.socket], capture_output=True, text=True, check=True).stdout
    head, row = text.splitlines()[:2]
    return re.split(r" {2,}", row[: head.index(column) + len(column)])[-1].strip()


def test_growths_and_what_they_took_are_seen(start):
    daemon = start({"chat": elastic()})
    say(daemon, [user(20)])
    assert shown_by_ps(daemon, "GROWN") == "-"
    say(daemon, [user(130)])
    state = model(daemon)
    assert state["growths"] == 1 and state["growths_ms"] > 0 and state["kv_growths"] == 0
    assert re.fullmatch(r"1 in [\d.]+ m?s", shown_by_ps(daemon, "GROWN"))
    metrics = dict(line.rsplit(" ", 1) for line in ask(daemon, "GET", "/metrics").text.splitlines() if line[0] != "#")
    assert metrics['cotenant_model_growths_total{model="chat"}'] == "1"
    took = float(metrics['cotenant_model_growth_seconds_total{model="chat"}'])
    assert abs(took * 1000 - state["growths_ms"]) < 2
    assert "it has grown 1 time, in " in ask(daemon, "GET", "/api/v1/why/chat").json["text"]


def test_a_prompt_that_is_too_long_is_refused_as_the_engine_does(start):
    daemon = start({"chat": elastic()})
    say(daemon, [user(20)])
    body = chat_body("chat", 6, text="room " * 600)
    answer = ask(daemon, "POST", "/v1/chat/completions", body)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["type"] == "exceed_context_size_error" and error["n_prompt_tokens"] > 2048, error
    assert error["n_ctx"] == 2048, "the largest that it could have had"
    assert model(daemon)["context"] == 512 and not grown(daemon), "no context is large enough, so none is started"


def test_clients_are_told_the_largest_that_could_be_had(start):
    daemon = start({"chat": elastic(most=4096)})
    say(daemon, [user(20)])
    assert model(daemon)["context"] == 512 and model(daemon)["context_now"] == 4096
    props = ask(daemon, "GET", "/props?model=chat").json
    assert props["default_generation_settings"]["n_ctx"] == 4096 and props["total_slots"] == 2
    listed = ask(daemon, "GET", "/v1/models").json["data"][0]
    assert listed["meta"]["n_ctx"] == listed["max_model_len"] == 4096 and listed["meta"]["n_ctx_train"] > 4096
    shown = ask(daemon, "POST", "/api/show", b'{"model": "chat"}', {"Content-Type": "application/json"}).json
    assert shown["model_info"]["llama.context_length"] == 4096 and "num_ctx" in shown["parameters"]
    assert ask(daemon, "GET", "/slots?model=chat").json[0]["n_ctx"] == 512  # what there is


def test_memory_bounds_what_clients_are_told(start):
    """A context that no eviction could make room for is neither told nor started."""
    daemon = start({"chat": elastic("kv.gguf", most=8192)}, limit_mib=900)
    say(daemon, [user(20)])
    now = model(daemon)["context_now"]
    assert 512 <= now < 8192
    body = chat_body("chat", 6, text="room " * 1200)
    error = ask(daemon, "POST", "/v1/chat/completions", body).json["error"]
    assert error["type"] == "exceed_context_size_error" and error["n_ctx"] == now


@pytest.mark.long
@pytest.mark.parametrize("tokens", [4096, None, 100000])
def test_a_prompt_that_fits_what_is_told_is_answered(start, tokens):
    """With its answer it would need a context that memory forbids: it gets the largest, and its answer ends there."""
    daemon = start({"chat": real("kv.gguf", context={"min": 512, "max": 8192}, kv="elastic", slots=1)}, limit_mib=900)
    say(daemon, [user(20)])
    now = model(daemon)["context_now"]
    assert 512 < now < 8192
    more = {} if tokens is None else {"max_tokens": tokens}
    for prompt in (1500, now - 20):
        body = {"model": "chat", "temperature": 0, "ignore_eos": True, "stop": [" "], **more,
                "messages": [{"role": "user", "content": "<|im_start|>" * (prompt - 7)}]}
        answer = ask(daemon, "POST", "/v1/chat/completions", body, timeout=240)
        assert answer.status == 200, answer
        assert answer.json["usage"]["prompt_tokens"] == prompt and answer.json["usage"]["total_tokens"] <= now
    assert model(daemon)["context"] == now and len(grown(daemon)) == 1


def test_bytes_alone_make_nothing_grow(start):
    """300 bytes in few tokens: the bound says too much, the engine knows better."""
    daemon = start({"chat": elastic(low=768)})
    say(daemon, [user(20)])
    text = "<|im_start|>" * 30  # one token each
    body = chat_body("chat", 6, text=text)
    assert ask(daemon, "POST", "/v1/chat/completions", body).status == 200
    assert not grown(daemon) and model(daemon)["context"] == 768


def test_an_answer_has_room_too(start):
    """The prompt fits and its answer would not: it is not cut in the middle."""
    daemon = start({"chat": elastic()})
    say(daemon, [user(20)])
    body = chat_body("chat", 450, text="room " * 20, ignore_eos=True)
    answer = ask(daemon, "POST", "/v1/chat/completions", body)
    assert answer.status == 200 and answer.json["usage"]["completion_tokens"] == 450, answer
    assert len(grown(daemon)) == 1


@pytest.mark.parametrize("path", ["/v1/completions", "/completions"])
def test_a_plain_prompt_is_counted_too(start, path):
    daemon = start({"chat": elastic(low=768)})
    say(daemon, [user(20)])

    def post(prompt, tokens):
        body = json.dumps({"model": "chat", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True})
        answer = ask(daemon, "POST", path, body, {"Content-Type": "application/json"})
        assert answer.status == 200, answer
        return answer.json
    few = "<|im_start|>" * 40  # 480 bytes in 40 tokens
    post(few, 300)
    post([few, "room", few, few], 300)  # a context is that of one of them
    assert not grown(daemon) and model(daemon)["context"] == 768
    answer = post(few, 740)
    assert (answer["usage"]["completion_tokens"] if "usage" in answer else answer["tokens_predicted"]) == 740
    assert len(grown(daemon)) == 1


def test_growing_waits_for_what_runs_and_streams_hear_signs(start):
    daemon = start({"chat": elastic(early_headers_after="1s")})
    say(daemon, [user(20)])
    pid = engine_pids(daemon, "chat")[0]
    long_one = Stream(daemon, "chat", 380, text="room", ignore_eos=True)
    assert long_one.line()
    body = chat_body("chat", 6, text="room " * 110)
    answer = ask(daemon, "POST", "/v1/chat/completions", body)
    assert answer.status == 200 and engine_pids(daemon, "chat") != [pid]
    lines, clean = long_one.rest()
    assert clean and lines[-1] == "[DONE]" and len(lines) > 370, "who ran was cut"


def test_what_was_learned_is_where_the_next_start_begins(start):
    daemon = start({"chat": elastic()})
    say(daemon, [user(20)])
    say(daemon, [user(130)])
    assert model(daemon)["context"] == 2048
    daemon.model("chat", "unload")
    wait_state(daemon, "chat", "unloaded")
    daemon.model("chat", "load")
    assert model(daemon)["context"] == 1024, "what its longest conversation took, of those that are known"
    assert model(daemon)["growths"] == 1


def test_what_was_saved_for_a_growth_is_not_kept_for_ever(start, tmp_path):
    daemon = start({"chat": elastic("kv.gguf")}, environment={"STATE_DIRECTORY": str(tmp_path)})
    say(daemon, [user(40)])
    wait_for("the slots to be read", lambda: ask(daemon, "GET", "/api/v1/conversations").json["conversations"])
    say(daemon, [{"role": "user", "content": "another one: " + "room " * 130}])
    assert len(grown(daemon)) == 1 and list((tmp_path / "conversations").iterdir())
    daemon.model("chat", "unload")
    wait_state(daemon, "chat", "unloaded")
    assert not list((tmp_path / "conversations").iterdir()), "kv_keep is 0"


def held(daemon):
    return ask(daemon, "GET", "/api/v1/conversations").json["conversations"]


def test_a_growth_behind_a_client_that_left_keeps_the_others(start):
    """Its slot runs on for a moment: the engine is not ended before what the others hold is in files."""
    daemon = start({"chat": elastic("kv.gguf")})
    talk = [user(40)]
    first, tokens, _ = say(daemon, talk)
    wait_for("the slots to be read", lambda: held(daemon))
    gone = Stream(daemon, "chat", 300, text="another one: " + "room " * 20, ignore_eos=True)
    assert gone.line()
    gone.leave()
    # A third, too long for the small context, at once.
    say(daemon, [{"role": "user", "content": "a third: " + "room " * 130}])
    assert len(grown(daemon)) == 1
    talk += [{"role": "assistant", "content": first}, user(4)]
    assert say(daemon, talk)[2] > tokens * 0.8, "what was said before was read again"


@pytest.mark.parametrize("verb", ["unload", "stop"])
def test_who_asks_after_an_unload_in_the_middle_of_a_growth_is_answered(start, verb):
    daemon = start({"chat": elastic(most=8192)})
    say(daemon, [user(20)])
    grows = threading.Thread(target=ask, args=(daemon, "POST", "/v1/chat/completions", chat_body("chat", 6, text="room " * 130)))
    grows.start()
    wait_for("the growth", lambda: grown(daemon))
    daemon.model("chat", verb)
    began = time.monotonic()
    answers = in_threads([lambda words=words: say(daemon, [{"role": "user", "content": f"{words} " + "room " * words}])
                          for words in (300, 500)])
    assert [tokens > 5 * words for (_, tokens, _), words in zip(answers, (300, 500))] == [True, True]
    assert time.monotonic() - began < 60
    grows.join()


def test_a_plain_number_is_what_it_is(start):
    daemon = start({"chat": real("tiny.gguf", context=512, kv="elastic")})
    body = chat_body("chat", 6, text="room " * 130)
    answer = ask(daemon, "POST", "/v1/chat/completions", body)
    assert answer.status == 400 and answer.json["error"]["n_ctx"] == 512
    assert model(daemon)["kv"] == "fixed"


@pytest.mark.skipif(not V1, reason="no such control groups")
@pytest.mark.long
def test_what_had_grown_is_taken_back_before_anybody_goes(start):
    """Another program presses: the engine comes back small and goes on, and who had not grown stays loaded."""
    group = Group("v1", 1024)
    daemon = grower = None
    try:
        daemon = start({"chat": elastic("kv.gguf", slots=1, kv_keep="1GiB"), "other": fake(anon_mib=100)}, wrap=group.wrap)
        assert ask(daemon, "POST", "/v1/chat/completions", chat_body("other"), timeout=60).status == 200
        say(daemon, [user(20)])
        talk = [{"role": "user", "content": "another one: " + "room " * 130}]
        first, tokens, _ = say(daemon, talk)
        wait_for("the slots to be read", lambda: held(daemon))
        assert model(daemon)["context"] == 2048
        other = engine_pids(daemon, "other")
        grower = Grower(group)
        for mib in range(300, 900, 15):
            grower.to(mib)
            time.sleep(0.3)
            if "taking the context of chat back" in daemon.tail(200):
                break
        wait_for("its memory to come back", lambda: not engine_pids(daemon, "chat") or model(daemon)["context"] < 2048)
        assert engine_pids(daemon, "other") == other and not decisions(daemon, "emergency") and not group.kills()
        grower.end()
        grower = None
        kept = [row["state"] for row in held(daemon)] == ["saved"]  # who is killed at a critical moment saves nothing
        talk += [{"role": "assistant", "content": first}, user(4)]
        _, _, cached = say(daemon, talk)
        assert not kept or cached > tokens * 0.8, "what was said before was read again"
    finally:
        if grower:
            grower.end()
        if daemon:
            daemon.stop()
        group.remove()
