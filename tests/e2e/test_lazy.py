"""Memory that follows the conversations: at rest, filling, given up, saved and brought back, by measurement."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import (LLAMA, MODELS, PROGRAM, InTheBackground, ask, chat_body, content, decisions, engine_pids, fake, in_threads, models, real, wait_for, wait_state)

MIB = 1 << 20
TOKEN = 128 * 1024  # of KV, in the shapes of kv.gguf and 7b.gguf


def rss(pid, *fields):
    with open(f"/proc/{pid}/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return sum(int(lines[field].split()[0]) * 1024 for field in fields or ("RssAnon", "RssFile"))


def model(daemon, name="chat"):
    return models(daemon)[name]


def say(daemon, words, text="", tokens=6):
    """One turn: the text and what the engine counted."""
    body = chat_body("chat", tokens, text=text + "room " * words)
    answer = ask(daemon, "POST", "/v1/chat/completions", body, timeout=240)
    assert answer.status == 200, answer
    usage = answer.json["usage"]
    return content(answer), usage["total_tokens"], usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)


def held(daemon):
    return ask(daemon, "GET", "/api/v1/conversations").json["conversations"]


def settled(daemon, tokens):
    """Until the engine's slots were read after the last turn."""
    wait_for("the slots to be read", lambda: abs(model(daemon)["cached_tokens"] - tokens) <= 2)
    return model(daemon)


def test_context_costs_what_conversations_fill(start):
    daemon = start({"chat": real("kv.gguf", context=32768)})
    ask(daemon, "POST", "/api/v1/models/chat/load", b"{}", {"Content-Type": "application/json"}, timeout=60)
    pid = engine_pids(daemon, "chat")[0]
    rest = rss(pid, "RssAnon")
    assert rest < 64 * MIB  # of 4 GiB
    assert model(daemon)["kv"] == "lazy"
    _, tokens, _ = say(daemon, 40)
    state = settled(daemon, tokens)
    assert 0 < rss(pid, "RssAnon") - rest < tokens * TOKEN * 1.05 + 40 * MIB  # a prompt's own buffers too
    assert tokens * TOKEN * 0.95 < state["kv_kept_bytes"] < tokens * TOKEN * 1.05 + MIB
    assert state["claim_bytes"] >= state["kv_kept_bytes"]
    assert state["growths"] == state["growths_ms"] == 0, "it was never started anew"
    assert state["kv_growths"] >= 1
    assert "tokens held" in ask(daemon, "GET", "/api/v1/why/chat").json["text"]


def test_an_engine_ends_at_once_after_an_answer(start):
    """What its slots hold is just being asked then; an engine told to end with a question before it ends only by force."""
    daemon = start({"a": real("tiny.gguf")})
    for _ in range(8):
        assert ask(daemon, "POST", "/v1/chat/completions", chat_body("a", 4)).status == 200
        begin = time.monotonic()
        daemon.model("a", "unload")
        wait_state(daemon, "a", "unloaded")
        assert time.monotonic() - begin < 8, "it is killed after 10 s"


def test_fixed_takes_all_of_it(start):
    daemon = start({"chat": real("kv.gguf", context=4096, kv="fixed")})
    say(daemon, 1)
    assert rss(engine_pids(daemon, "chat")[0], "RssAnon") > 4096 * TOKEN
    assert model(daemon)["kv"] == "fixed" and "configured" in model(daemon)["kv_reason"]


def test_without_the_library_it_is_said_and_served(start):
    daemon = start({"chat": real("kv.gguf", context=2048)}, environment={"COTENANT_LAZY_LIBRARY": ""})
    say(daemon, 1)
    assert model(daemon)["kv"] == "fixed" and "libcotenant-lazy.so" in model(daemon)["kv_reason"]
    assert rss(engine_pids(daemon, "chat")[0], "RssAnon") > 2048 * TOKEN


def test_a_library_that_went_is_said_and_served(start, tmp_path):
    """It was there when the engine was tried out, and is not when it is started."""
    library = tmp_path / "libcotenant-lazy.so"
    shutil.copy(os.path.join(os.path.dirname(PROGRAM), library.name), library)
    daemon = start({"chat": real("kv.gguf", context=2048, slots=1)}, environment={"COTENANT_LAZY_LIBRARY": str(library)})
    say(daemon, 1)
    assert model(daemon)["kv"] == "lazy"
    daemon.model("chat", "unload")
    wait_state(daemon, "chat", "unloaded")
    library.unlink()
    say(daemon, 1)
    assert rss(engine_pids(daemon, "chat")[0], "RssAnon") > 2048 * TOKEN
    state = model(daemon)
    assert state["kv"] == "fixed" and "libcotenant-lazy.so" in state["kv_reason"]
    assert decisions(daemon, "load")[-1]["need_bytes"] > 2048 * TOKEN, "claimed before it was there"


def test_idle_conversations_go_before_models_and_come_back(start):
    daemon = start({"chat": real("kv.gguf", context=8192, kv_keep="1GiB"), "other": fake(footprint_mib=330)},
                   limit_mib=400)
    said, tokens, _ = say(daemon, 120)
    full = settled(daemon, tokens)
    pid = engine_pids(daemon, "chat")[0]
    filled, kept = rss(pid, "RssAnon"), full["kv_kept_bytes"]
    asks = InTheBackground(lambda: ask(daemon, "POST", "/v1/chat/completions", chat_body("other"), timeout=60))
    states = []

    def is_over():
        there = rss(pid, "RssAnon")
        states.extend(c["state"] for c in held(daemon))
        assert states[-1] != "held" or there > filled - kept / 2, "what was given up before is not held"
        return asks.is_over() and states[-1] == "saved"
    wait_for("it to be saved and the other to have answered", is_over, 60)
    assert states == sorted(states, key=["held", "saving", "saved"].index)
    assert asks().status == 200
    assert [d["model"] for d in decisions(daemon, "shrink")] == ["chat"]
    assert not decisions(daemon, "evict")
    assert engine_pids(daemon, "chat") == [pid]
    assert filled - rss(pid, "RssAnon") > kept * 0.9
    saved, = held(daemon)
    assert (saved["state"], saved["model"], saved["slot"]) == ("saved", "chat", None) and saved["tokens"] >= tokens - 2
    # The same words again: their beginning is not read a second time.
    ask(daemon, "POST", "/api/v1/models/other/unload", b"{}", {"Content-Type": "application/json"}, timeout=30)
    again, _, cached = say(daemon, 120)
    assert again == said and cached > tokens * 0.8
    wait_for("it to be held again", lambda: [c["state"] for c in held(daemon)] == ["held"])


def test_conversations_survive_an_eviction(start):
    daemon = start({"chat": real("kv.gguf", context=4096, kv_keep="1GiB")})
    said, tokens, _ = say(daemon, 60)
    settled(daemon, tokens)
    ask(daemon, "POST", "/api/v1/models/chat/unload", b"{}", {"Content-Type": "application/json"}, timeout=60)
    wait_state(daemon, "chat", "unloaded")
    assert [c["state"] for c in held(daemon)] == ["saved"]
    again, _, cached = say(daemon, 60)
    assert again == said and cached > tokens * 0.8


FAMILIES = ["llama", "moe", "window", "latent", "recurrent", "hybrid", "delta"]


def pair(family, **more):
    """The same model twice: with KV that follows use, and with all of it reserved."""
    file = f"random-{family}.gguf"
    return {f"{family}-{kv}": real(file, context=8192, slots=1, kv=kv, **more) for kv in ("lazy", "fixed")}


def told(daemon, name, prompt, tokens=12):
    """What it answers, and how sure it is of each token and its rivals."""
    body = {"model": name, "prompt": prompt, "n_predict": tokens, "temperature": 0, "n_probs": 5, "ignore_eos": True}
    answer = ask(daemon, "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}, timeout=120)
    assert answer.status == 200, answer
    return answer.json["completion_probabilities"]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_and_their_probabilities_are_the_plain_engine_s(start, family):
    """One architecture for each kind of memory that an engine keeps of a conversation."""
    daemon = start(pair(family))
    prompt = "Each takes what it needs. " * 12
    plain = told(daemon, f"{family}-fixed", prompt)
    assert told(daemon, f"{family}-lazy", prompt) == plain
    assert told(daemon, f"{family}-fixed", "Another beginning. " + prompt) != plain  # it depends on every token
    assert model(daemon, f"{family}-lazy")["kv"] == "lazy", model(daemon, f"{family}-lazy")["kv_reason"]


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("args", ["", "-fa off", "-ub 64", "-ctk q8_0 -ctv q8_0"])
def test_they_are_equal_through_turns_and_after_a_discard(start, family, args):
    """The last answer is each engine's first: what part of a prompt is read in one piece changes an engine's rounding."""
    daemon = start(pair(family, args=args))
    first, lengths = "All of them share it. ", (3, 40, 150, 280, 7)
    seen = {}
    for kv in ("fixed", "lazy"):
        name = f"{family}-{kv}"
        seen[kv] = [told(daemon, name, first * length) for length in lengths]
        if kv == "lazy":
            wait_for("the slots to be read", lambda: model(daemon, name)["cached_tokens"] > 0)
        daemon.model(name, "unload")
        wait_state(daemon, name, "unloaded")
        seen[kv].append(told(daemon, name, first * 100))
    assert seen["lazy"] == seen["fixed"]
    assert model(daemon, f"{family}-lazy")["kv"] == "lazy"


def test_a_short_context_is_no_failure_of_the_library(start):
    """Its cache is so small that the library leaves it to the engine."""
    daemon = start({"chat": real(context=512, slots=1)})
    _, tokens, _ = say(daemon, 3)
    settled(daemon, tokens)
    assert model(daemon)["kv"] == "lazy" and "no effect" not in daemon.tail(200)


def test_the_start_does_not_wait_until_an_engine_was_tried_out(start, tmp_path):
    slow = tmp_path / "llama-server"
    gate = tmp_path / "gate"
    slow.write_text(f"#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.1; done\nexec {LLAMA} \"$@\"\n")
    slow.chmod(0o755)
    daemon = start({"chat": real("kv.gguf", context=32768), "kept": real(preload=True)},
                   engines={"real": {"kind": "llama-server", "path": str(slow)}})
    verdicts = lambda: [name for name in os.listdir(f"{daemon.folder}/state") if name.startswith("lazy-")]
    assert not verdicts(), "ready before its engine was tried out"
    assert model(daemon)["kv"] == "fixed" and "tried out" in model(daemon)["kv_reason"]
    # Who asks meanwhile waits for that and gets the lazy engine; what loads by itself likewise.
    asks = InTheBackground(lambda: say(daemon, 1))
    wait_for("it to wait", lambda: daemon.get("/api/v1/requests?live=1")["requests"])
    gate.touch()
    asks()
    assert verdicts() and model(daemon)["kv"] == "lazy"
    assert rss(engine_pids(daemon, "chat")[0], "RssAnon") < 128 * MIB
    wait_state(daemon, "kept", "idle")
    assert model(daemon, "kept")["kv"] == "lazy"


def test_saved_conversations_outlive_the_daemon(start, tmp_path):
    state = {"STATE_DIRECTORY": str(tmp_path)}
    entry = real("kv.gguf", context=4096, kv_keep="1GiB")
    daemon = start({"chat": entry}, environment=state)
    said, tokens, _ = say(daemon, 40)
    settled(daemon, tokens)
    daemon.stop()
    assert [f.suffix for f in (tmp_path / "conversations").iterdir()] == [".kv"]
    daemon = start({"chat": entry}, environment=state)
    assert [c["state"] for c in held(daemon)] == ["saved"]
    again, _, cached = say(daemon, 40)
    assert again == said and cached > tokens * 0.8
    daemon.stop()
    daemon = start({"chat": {**entry, "context": 2048}}, environment=state)  # another engine, as it were
    assert not held(daemon) and not list((tmp_path / "conversations").iterdir())


def flip(path):
    """Deep in the numbers, where an engine believes everything."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size * 2 // 3)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x55]))


def cut(path):
    """Of this an engine may die."""
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_file_is_not_believed(start, tmp_path, damage):
    daemon = start({"chat": real("random-llama.gguf", context=4096, kv_keep="1GiB")},
                   environment={"STATE_DIRECTORY": str(tmp_path)})
    said, tokens, _ = say(daemon, 60)
    for harm, warned in ((lambda path: None, False), (damage, True)):
        settled(daemon, tokens)
        daemon.model("chat", "unload")
        wait_state(daemon, "chat", "unloaded")
        saved, = (tmp_path / "conversations").iterdir()
        harm(saved)
        again, _, cached = say(daemon, 60)
        assert (cached == 0) == warned and ("its file is damaged" in daemon.tail(200)) == warned
        assert again == said or not warned, "read anew it is what it was"
        assert len(engine_pids(daemon, "chat")) == 1 and not decisions(daemon, "fail")
        wait_for("its file to go", lambda: not list((tmp_path / "conversations").iterdir()))


def test_a_folder_of_conversations_that_was_removed_is_made_anew(start, tmp_path):
    daemon = start({"chat": real("tiny.gguf", context=4096, kv_keep="1GiB")}, environment={"STATE_DIRECTORY": str(tmp_path)})
    shutil.rmtree(tmp_path / "conversations")
    say(daemon, 20)
    assert (tmp_path / "conversations").is_dir()


def test_another_model_under_the_same_name_and_times_reads_anew(start, tmp_path):
    file = tmp_path / "model.gguf"
    shutil.copy2(f"{MODELS}/alpha.gguf", file)
    times = os.stat(file)
    daemon = start({"chat": {**real("tiny.gguf", context=4096, kv_keep="1GiB"), "file": str(file)}})
    said, tokens, _ = say(daemon, 60)
    settled(daemon, tokens)
    daemon.model("chat", "unload")
    wait_state(daemon, "chat", "unloaded")
    with open(file, "r+b") as out, open(f"{MODELS}/beta.gguf", "rb") as other:
        assert os.stat(other.fileno()).st_size == times.st_size
        out.write(other.read())
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    again, _, cached = say(daemon, 60)
    assert cached == 0 and "beta" in again and "alpha" in said


def test_what_a_killed_daemon_left_half_written_goes(start, tmp_path):
    state, folder = {"STATE_DIRECTORY": str(tmp_path)}, tmp_path / "conversations"
    entry = real("kv.gguf", context=4096, kv_keep="1GiB")
    daemon = start({"chat": entry}, environment=state)
    _, tokens, _ = say(daemon, 40)
    settled(daemon, tokens)
    daemon.stop()
    saved, = folder.iterdir()
    cut(saved)
    (folder / (saved.name.rsplit("-", 2)[0] + "-0.part")).write_bytes(b"half")
    daemon = start({"chat": entry}, environment=state)
    assert "damaged" in daemon.tail(200) and not held(daemon) and not list(folder.iterdir())


def shown_contexts(daemon):
    """What each kind of client is told."""
    json_type = {"Content-Type": "application/json"}
    listed = ask(daemon, "GET", "/v1/models").json["data"][0]
    shown = ask(daemon, "POST", "/api/show", b'{"model": "chat"}', json_type).json["model_info"]
    return {ask(daemon, "GET", "/props?model=chat").json["default_generation_settings"]["n_ctx"],
            listed["meta"]["n_ctx"], listed["max_model_len"], shown["llama.context_length"], model(daemon)["context_now"]}


def test_clients_are_told_what_there_is_room_for(start):
    daemon = start({"chat": real("kv.gguf", context=32768, slots=1)}, limit_mib=400)
    _, tokens, _ = say(daemon, 1)
    settled(daemon, tokens)
    wait_for("all to tell one number, between two measurements", lambda: len(shown_contexts(daemon)) == 1)
    now, = shown_contexts(daemon)
    assert 1024 < now < 400 * MIB / TOKEN, "of 32,768 that it could have elsewhere"


def test_a_prompt_is_counted_where_its_bytes_leave_no_room(start):
    """Most tokens are several bytes: what only seems too much is answered, and what is too much is refused as before."""
    daemon = start({"chat": real("kv.gguf", context=32768, slots=1)}, limit_mib=250)
    say(daemon, 1)
    now = model(daemon)["context_now"]
    letters = "\u00e4" * int(now * 0.45)  # escaped they are three bytes a token
    body = chat_body("chat", 6, text=letters)
    assert len(json.dumps(body)) > now, "its bytes are no more than there is room for"
    answer = ask(daemon, "POST", "/v1/chat/completions", body, timeout=240)
    assert answer.status == 200, answer
    assert 0.8 * now < answer.json["usage"]["total_tokens"] <= now
    assert not decisions(daemon, "shrink"), "idle conversations had to go for what only seemed to need it"
    # As the engine refuses what its context does not hold: memory bounds it here, and a client shortens what it says.
    exceeds(ask(daemon, "POST", "/v1/chat/completions", chat_body("chat", 6, text=2 * letters)), now)


def exceeds(answer, now):
    """Refused for its length, in the engine's words; the tokens that were counted."""
    assert answer.status == 400, answer
    error = answer.json["error"]
    assert (error["type"], error["code"]) == ("exceed_context_size_error", 400)
    tokens = error["n_prompt_tokens"]
    assert tokens >= error["n_ctx"] and abs(error["n_ctx"] - now) < 100
    assert error["message"].startswith(f"request ({tokens} tokens) exceeds the available context size "
                                       f"({error['n_ctx']} tokens), try increasing it")
    return tokens


# Tokens between the texts, which this model's file does not name.
INFILLS = " ".join(f"--override-kv tokenizer.ggml.{name}_token_id=int:{n}"
                   for n, name in ((5, "fim_pre"), (6, "fim_suf"), (7, "fim_mid")))
PROMPTS = {
    "/v1/chat/completions": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 6},
    "/v1/responses": lambda text: {"input": text, "max_output_tokens": 6},
    "/v1/messages": lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 6},
    "/completion": lambda text: {"prompt": text, "n_predict": 6},
    "/completions": lambda text: {"prompt": [1, 9, text], "n_predict": 6},
    "/v1/completions": lambda text: {"prompt": [text[: len(text) // 2], text[len(text) // 2:]], "max_tokens": 6},
    "/infill": lambda text: {"input_prefix": text[: len(text) // 2], "input_suffix": text[len(text) // 2:], "n_predict": 6},
}


USUAL = ("/v1/chat/completions", "/v1/messages", "/infill")  # the others in the long runs


def by_path(paths):
    return [path if path in USUAL else pytest.param(path, marks=pytest.mark.long) for path in paths]


@pytest.mark.parametrize("path", by_path(PROMPTS))
def test_every_path_s_prompt_is_counted(start, path):
    daemon = start({"chat": real("kv.gguf", context=32768, slots=2, args=INFILLS)}, limit_mib=250)
    say(daemon, 1)
    now = model(daemon)["context_now"]

    def post(text):
        body = json.dumps({"model": "chat", "ignore_eos": True, **PROMPTS[path](text)})
        return len(body), ask(daemon, "POST", path, body, {"Content-Type": "application/json"}, timeout=240)
    letters = "\u00e4" * int(now * 0.45)  # escaped they are three bytes a token
    size, answer = post(letters)
    assert size > now, "its bytes are no more than there is room for"
    assert answer.status == 200, answer
    assert not decisions(daemon, "shrink"), "idle conversations had to go for what only seemed to need it"
    exceeds(post(2 * letters)[1], now)


SHAPES = {
    "/v1/chat/completions": ("messages", "max_tokens"), "/v1/messages": ("messages", "max_tokens"), "/api/chat": ("messages", None),
    "/v1/responses": ("input", "max_output_tokens"), "/v1/completions": ("prompt", "max_tokens"), "/completion": ("prompt", "n_predict"),
}


def body_for(path, text, tokens=None, **more):
    prompt, reply = SHAPES[path]
    body = {"model": "chat", "stream": False, "temperature": 0, **more}
    body[prompt] = [{"role": "user", "content": text}] if prompt == "messages" else text
    if tokens is not None:
        body[reply] = tokens
    return body


@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_told_is_refused_beyond_in_each_api_s_shape(start, loaded):
    daemon = start({"chat": real("kv.gguf", context=32768, slots=1)}, limit_mib=200)
    say(daemon, 1)
    now = model(daemon)["context_now"]
    for path in SHAPES:
        if not loaded:  # it is loaded for it, and refused when it was counted
            daemon.model("chat", "unload")
            wait_state(daemon, "chat", "unloaded")
        answer = ask(daemon, "POST", path, body_for(path, "<|im_start|>" * (now + 200)), timeout=120)
        assert answer.headers["x-should-retry"] == "false"
        if path == "/api/chat":
            assert answer.status == 400 and "exceeds the available context size" in answer.json["error"]
            continue
        assert now + 190 < exceeds(answer, now) < now + 220
        if path == "/v1/messages":
            assert answer.json["type"] == "error" and "prompt is too long: " in answer.json["error"]["message"]


@pytest.mark.parametrize("path", by_path(path for path in SHAPES if path != "/api/chat"))
def test_an_answer_is_cut_to_what_there_is(start, path):
    """As an engine's ends where its context ends, however long it was asked for."""
    daemon = start({"chat": real("kv.gguf", context=32768, slots=1)}, limit_mib=115)
    say(daemon, 1)
    now = model(daemon)["context_now"]
    assert 100 < now < 600
    for tokens in (now, 32000, None):
        if tokens is None and path == "/v1/messages":
            continue  # it must say
        answer = ask(daemon, "POST", path, body_for(path, "<|im_start|>" * (now - 60), tokens, ignore_eos=True), timeout=240)
        assert answer.status == 200, answer
        if path == "/completion":
            used, ends = answer.json["tokens_evaluated"] + answer.json["tokens_predicted"], answer.json["stop_type"]
        elif path in ("/v1/messages", "/v1/responses"):
            usage, ends = answer.json["usage"], answer.json.get("stop_reason", "length")
            used = usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage["output_tokens"]
        else:
            used, ends = answer.json["usage"]["total_tokens"], answer.json["choices"][0]["finish_reason"]
        assert now - 10 < used <= now and ends in ("length", "limit", "max_tokens")
    assert model(daemon)["measured_bytes"] < 115 * MIB
    assert not decisions(daemon, "refuse")


def test_bytes_alone_do_not_refuse_what_is_not_loaded(start):
    """Each of its words is twelve bytes and one token."""
    daemon = start({"chat": real("kv.gguf", context=32768, slots=1)}, limit_mib=200)
    answer = ask(daemon, "POST", "/v1/chat/completions", chat_body("chat", 6, text="<|im_start|>" * 300), timeout=120)
    assert answer.status == 200 and 300 < answer.json["usage"]["prompt_tokens"] < 330, answer
    assert len(json.dumps(chat_body("chat", 6, text="<|im_start|>" * 300))) > model(daemon)["context_now"]
    assert len(decisions(daemon, "load")) == 1


def test_two_who_ask_for_all_that_there_is_are_served_one_after_the_other(start):
    daemon = start({"chat": real("kv.gguf", context=32768, slots=2)}, limit_mib=160)
    say(daemon, 1)
    ask_all = lambda text: ask(daemon, "POST", "/v1/chat/completions", chat_body("chat", 32000, text=text, stop=[" "]), timeout=120)
    answers = in_threads([lambda text=text: ask_all(text) for text in ("room", "another", "a third")])
    assert [answer.status for answer in answers] == [200] * 3, answers


def test_tokens_are_counted_as_they_are(start):
    """Six bytes each, and nobody has to count them; several prompts are answered each for itself."""
    daemon = start({"chat": real("kv.gguf", context=32768, slots=2)}, limit_mib=250)
    say(daemon, 1)
    now = model(daemon)["context_now"]
    for count, status in ((0.4, 200), (0.8, 400)):
        tokens = [100 + i % 150 for i in range(int(now * count))]
        body = json.dumps({"model": "chat", "prompt": [tokens, tokens], "max_tokens": 4, "ignore_eos": True})
        assert len(body) > now
        answer = ask(daemon, "POST", "/v1/completions", body, {"Content-Type": "application/json"}, timeout=240)
        assert answer.status == status, answer
        assert status != 200 or len(answer.json["choices"]) == 2


def test_a_full_disk_is_not_kept_full(start, tmp_path):
    """A save that failed leaves no part of a file: the next one has the room."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(tmp_path)]).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        daemon = start({"chat": real("kv.gguf", context=2048, kv_keep="1GiB")},
                       environment={"STATE_DIRECTORY": str(tmp_path)})
        for words, saved in ((50, 0), (20, 1)):  # 33 and 14 MiB
            _, tokens, _ = say(daemon, words)
            settled(daemon, tokens)
            daemon.model("chat", "unload")
            wait_state(daemon, "chat", "unloaded")
            assert len(list((tmp_path / "conversations").iterdir())) == len(held(daemon)) == saved
            lost = daemon.get("/api/v1/conversations")["lost"]
            assert lost["conversations"] == 1 and lost["tokens"] > 100 and "free at" in lost["reason"], lost
        warned = [line for line in daemon.tail(10000).splitlines() if "could not be saved" in line]
        assert len(warned) == 1 and "warn" in warned[0] and "kv_keep" in warned[0], warned
        assert "conversations are saved again" in daemon.tail(10000)
        daemon.stop()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


SEVEN_BILLION = dict(context=32768, slots=1, args="--no-repack -lm mmap", kv_keep="4GiB")
SEVEN_BILLION_WEIGHTS = 4206395712


def loaded(daemon):
    """How long it took, and what it takes then."""
    began = time.monotonic()
    answer = ask(daemon, "POST", "/api/v1/models/chat/load", b"{}", {"Content-Type": "application/json"}, timeout=300)
    assert answer.status == 200, answer
    return time.monotonic() - began, rss(engine_pids(daemon, "chat")[0])


@pytest.mark.long
def test_seven_billion_with_32k_allowed(start):
    """
    The shape that people run: at rest, filling, saved, discarded and continued. Beside the weights, 64 MiB and what is said,
    there is the buffer that a prompt's batch touches, once; what is discarded is given back to 32 MiB.
    """
    plain = start({"chat": real("7b.gguf", kv="fixed", **SEVEN_BILLION)})
    plain_s, _ = loaded(plain)
    plain.stop()
    daemon = start({"chat": real("7b.gguf", **SEVEN_BILLION), "other": fake(footprint_mib=400)})
    ready_s, rest = loaded(daemon)
    pid = engine_pids(daemon, "chat")[0]
    print(f"ready in {ready_s:.1f} s, the plain engine in {plain_s:.1f} s; at rest {rest / MIB:.0f} MiB")
    assert ready_s <= 0.4 * plain_s and rest <= SEVEN_BILLION_WEIGHTS + 64 * MIB
    batch = ask(daemon, "GET", "/api/v1/models/chat").json["estimate"]["pools"]["host"]["compute_bytes"]
    for words in (20, 60):
        said, tokens, _ = say(daemon, words)
        full = settled(daemon, tokens)
        filled = rss(pid)
        print(f"{tokens} tokens: {filled / MIB:.0f} MiB")
        assert filled <= SEVEN_BILLION_WEIGHTS + 64 * MIB + batch + tokens * TOKEN * 1.05
        assert full["kv_kept_bytes"] <= tokens * TOKEN * 1.05 + MIB

    # Room for the other, less a little: what is said goes, the model stays.
    with open(daemon.config) as file:
        config = json.load(file)
    config.setdefault("memory", {})["limit"] = f"{(full['claim_bytes'] + 400 * MIB - full['kv_kept_bytes'] // 2) // MIB}MiB"
    with open(daemon.config, "w") as file:
        json.dump(config, file)
    daemon.process.send_signal(signal.SIGHUP)
    wait_for("the limit to hold", lambda: "memory.limit" in daemon.tail(100))
    assert ask(daemon, "POST", "/v1/chat/completions", chat_body("other"), timeout=120).status == 200
    wait_for("it to be saved", lambda: [c["state"] for c in held(daemon)] == ["saved"], 60)
    assert engine_pids(daemon, "chat") == [pid] and not decisions(daemon, "evict")
    # The batch's buffer stays touched; what was kept of the conversation has gone.
    given = rss(pid)
    print(f"saved ({held(daemon)[0]['bytes'] / MIB:.0f} MiB) and discarded: {given / MIB:.0f} MiB")
    assert given <= filled - full["kv_kept_bytes"] + 32 * MIB and filled - given >= full["kv_kept_bytes"] * 0.9

    ask(daemon, "POST", "/api/v1/models/other/unload", b"{}", {"Content-Type": "application/json"}, timeout=30)
    again, tokens, cached = say(daemon, words)
    settled(daemon, tokens)
    print(f"continued, {cached} of {tokens} tokens from the file: {rss(pid) / MIB:.0f} MiB")
    assert again == said and cached > tokens * 0.8 and rss(pid) <= filled + 32 * MIB


@pytest.mark.long
def test_seven_billion_as_it_is_started_by_default(start):
    """Read and rewritten for the processor: its weights are there once, and hardly anything beside them."""
    daemon = start({"chat": real("7b.gguf", context=32768, slots=1)})
    answer = ask(daemon, "POST", "/api/v1/models/chat/load", b"{}", {"Content-Type": "application/json"}, timeout=600)
    assert answer.status == 200, answer
    told = ask(daemon, "GET", "/api/v1/models/chat").json
    weights = told["estimate"]["pools"]["host"]["weights_bytes"]
    rest = rss(engine_pids(daemon, "chat")[0])
    print(f"at rest {rest / MIB:.0f} MiB, {(rest - weights) / MIB:+.0f} over the weights")
    assert rest <= weights + 64 * MIB
