"""Every kind of engine passes the same: what an adapter promises, with the client that people use.

A row of KINDS is all that a new engine needs here (doc/new-engine.md).
"""
import array
import base64
import dataclasses
import http.client
import io
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import typing
import wave

import openai
import pytest

from harness import (MODELS, SD, TTS, alive, ask, chat_body, decisions, engine_pids, fake_of, image, kill, models,
                     raw, real, resident, speech, state, voice, wait_computing, wait_for, wait_state)

SENTENCE = "Please open the window. The train to London leaves in seven minutes."
HEARD = ("open the window", "train", "london", "leaves", "seven minutes")


def sdk(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=120, max_retries=0)


def spoken(text, folder):
    path = f"{folder}/speech.wav"
    subprocess.run(["espeak-ng", "-v", "en-us", "-s", "140", "-w", path, text], check=True, timeout=30)
    return path


def words(text):
    return " ".join(re.findall(r"[a-z]+", text.lower().replace("7", "seven")))


def right_chat(daemon, model, folder):
    question = [{"role": "user", "content": "Tell me the capital of France."}]
    answer = sdk(daemon).chat.completions.create(model=model, messages=question, max_tokens=24, temperature=0)
    assert "Paris" in answer.choices[0].message.content


def right_speech(daemon, model, folder):
    with open(spoken(SENTENCE, folder), "rb") as file:
        text = words(sdk(daemon).audio.transcriptions.create(model=model, file=file).text)
    assert all(part in text for part in HEARD), text


def right_voice(daemon, model, folder):
    """What it says is a recording of a second or more, and not silence."""
    samples = sound(say(daemon, model, "Please open the window."))
    assert max(samples) > 2000 and len(samples) > 20000


def say(daemon, model, text):
    answer = ask(daemon, "POST", f"/upstream/{model}/synthesize", {"text": text})
    assert answer.status == 200, answer
    return answer.body


def sound(wav):
    with wave.open(io.BytesIO(wav)) as file:
        assert file.getsampwidth() == 2
        return array.array("h", file.readframes(file.getnframes()))


def long_voice(daemon, model, folder):
    return ask(daemon, "POST", f"/upstream/{model}/synthesize", {"text": SENTENCE * 10})


def long_chat(daemon, model, folder):
    return ask(daemon, "POST", "/v1/chat/completions", chat_body(model, 100000))


def long_speech(daemon, model, folder):
    with open(spoken(" ".join([SENTENCE] * 3), folder), "rb") as file:
        return upload(daemon, "/v1/audio/transcriptions", model, file.read())


def form(fields, file):
    """A multipart body by hand: fields, then the file."""
    parts = [f'--frontier\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, value in fields.items()]
    head = b'--frontier\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return b"".join(parts) + head + file + b"\r\n--frontier--\r\n"


def upload(daemon, path, model, file):
    return ask(daemon, "POST", path, form({"model": model} if model else {}, file),
               {"Content-Type": "multipart/form-data; boundary=frontier"})


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    model: typing.Callable      # () -> its entry in the configuration
    right: typing.Callable      # (daemon, model, folder): asks as people do, checks the answer
    long: typing.Callable       # likewise, a request that takes a second or more
    look: str                   # a path of the engine's that only looks
    change: str                 # one that would alter the engine; None: it has none

    def __str__(self):
        return self.name


def draw(daemon, model, size="64x64"):
    prompt = 'a house <sd_cpp_extra_args>{"sample_params": {"sample_steps": 1}}</sd_cpp_extra_args>'
    return ask(daemon, "POST", "/v1/images/generations", {"model": model, "prompt": prompt, "size": size}, timeout=240)


def right_image(daemon, model, folder):
    prompt = 'a house <sd_cpp_extra_args>{"sample_params": {"sample_steps": 1}}</sd_cpp_extra_args>'
    client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=240, max_retries=0)
    data = client.images.generate(model=model, prompt=prompt, size="64x64", response_format="b64_json").data
    picture = base64.b64decode(data[0].b64_json)
    assert picture.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">2I", picture[16:24]) == (64, 64)


def long_image(daemon, model, folder):
    return draw(daemon, model)


KINDS = [
    Kind("llama-server", lambda: real("chat.gguf"), right_chat, long_chat, "/props", "/slots/0?action=erase"),
    Kind("whisper-server", speech, right_speech, long_speech, "/health", "/load"),
    Kind("sd-server", image, right_image, long_image, "/v1/models", "/sdapi/v1/options"),
    Kind("command", voice, right_voice, long_voice, "/voices", None),
]
# A picture takes a minute of one core, and the engine is built first: not in every run.
SLOW = {"command": [pytest.mark.skipif(not os.path.exists(f"{TTS}/voice.onnx"), reason="tools/fetch-tts makes it")],
        "sd-server": [pytest.mark.long, pytest.mark.skipif(not SD, reason="tools/fetch-sd-server builds it")]}


@pytest.fixture(params=[pytest.param(kind, marks=SLOW.get(kind.name, [])) for kind in KINDS], ids=str)
def kind(request):
    return request.param


def memory(daemon):
    return {row["name"]: row for row in daemon.get("/api/v1/memory")["owners"]}


def test_load_answer_unload(start, kind, tmp_path):
    daemon = start({"m": kind.model()})
    look = ask(daemon, "GET", f"/upstream/m{kind.look}")
    assert (look.status, look.error["code"]) == (409, "not_loaded"), "a look loads nothing"
    assert state(daemon, "m") == "unloaded"

    kind.right(daemon, "m", tmp_path)
    row = models(daemon)["m"]
    assert row["state"] in ("idle", "busy") and row["pid"]
    assert ask(daemon, "GET", f"/upstream/m{kind.look}").status == 200
    used = models(daemon)["m"]["last_used_at_ms"]
    ask(daemon, "GET", f"/upstream/m{kind.look}")
    assert models(daemon)["m"]["last_used_at_ms"] == used, "a look is no use"

    before = models(daemon)["m"]["pid"]
    if kind.change:
        change = ask(daemon, "POST", f"/upstream/m{kind.change}", {})
        assert (change.status, change.error["code"]) == (400, "engine_change")
    assert models(daemon)["m"]["pid"] == before

    wait_for("it to be measured", lambda: models(daemon)["m"]["settled"])
    measured = models(daemon)["m"]["measured_bytes"]
    estimate = models(daemon)["m"]["estimate_bytes"]
    assert 0.5 * measured < estimate < 2 * measured + (256 << 20), "the estimate is of the measure's size"
    daemon.model("m", "unload")
    wait_state(daemon, "m", "unloaded")
    assert not alive(before)
    assert not memory(daemon).get("m", {}).get("claim_bytes"), "its claim ended with its memory"


def test_killed_in_mid_request(start, kind, tmp_path):
    daemon = start({"m": kind.model()})
    answers = []
    thread = threading.Thread(target=lambda: answers.append(kind.long(daemon, "m", tmp_path)))
    thread.start()
    wait_for("it to run", lambda: models(daemon)["m"]["running"] == 1)
    pid = engine_pids(daemon, "m")[0]
    wait_computing(pid)
    kill(pid)
    thread.join(60)
    assert answers and answers[0].status == 502 and answers[0].error["code"] == "engine_died"
    wait_for("it to be booked", lambda: decisions(daemon, "died", "m"))
    kind.right(daemon, "m", tmp_path)


def test_a_file_that_is_none_says_so(start, kind, tmp_path):
    entry = kind.model()
    if "file" not in entry:
        pytest.skip("its command names the file")
    broken = tmp_path / "broken"
    broken.write_bytes(open(entry["file"], "rb").read(4096))
    daemon = start({"m": {**entry, "file": str(broken)}})
    answer = kind.long(daemon, "m", tmp_path)
    assert answer.status == 502 and answer.error["code"] == "load_failed"
    assert "cut short" in answer.error["message"] or "missing" in answer.error["message"], answer


# ---- speech ----

@pytest.fixture
def speaking(start):
    return start({"stt": speech(aliases=["whisper-1"]), "chat": real("alpha.gguf")})


def test_the_engine_is_told_from_the_file(start):
    entry = speech()
    del entry["engine"]
    daemon = start({"m": entry}, wait=True)
    assert models(daemon)["m"]["engine"] == "whisper-server"


def test_a_form_names_its_model(speaking, tmp_path):
    wav = open(spoken("Please open the window.", tmp_path), "rb").read()
    assert "open the window" in words(upload(speaking, "/inference", "whisper-1", wav).json["text"])
    by_query = upload(speaking, "/inference?model=stt", None, wav)
    assert "open the window" in words(by_query.json["text"])
    missing = upload(speaking, "/v1/audio/transcriptions", None, wav)
    assert (missing.status, missing.error["code"]) == (400, "model_missing")
    unknown = upload(speaking, "/v1/audio/transcriptions", "whisper-2", wav)
    assert unknown.status == 404 and "whisper-1" in unknown.error["message"] or "stt" in unknown.error["message"]


def test_other_forms_of_a_transcription(speaking, tmp_path):
    with open(spoken("Please open the window.", tmp_path), "rb") as file:
        subtitles = sdk(speaking).audio.transcriptions.create(model="stt", file=file, response_format="srt")
    assert "-->" in subtitles and "window" in subtitles.lower()


def test_what_a_client_may_ask_of_a_transcription(speaking, tmp_path):
    """Each form of an answer, and the fields that OpenAI's clients send; to speech a stream is only a wish."""
    audio = sdk(speaking).audio
    path = spoken("Please open the window.", tmp_path)

    def ask_for(**more):
        with open(path, "rb") as file:
            return audio.transcriptions.create(model="stt", file=file, **more)
    assert "open the window" in words(ask_for(response_format="text"))
    assert "WEBVTT" in ask_for(response_format="vtt")
    told = ask_for(response_format="verbose_json", language="en", prompt="A window.", temperature=0.0,
                   timestamp_granularities=["segment"])
    assert "open the window" in words(told.text) and told.language == "english" and told.duration > 1
    assert told.segments[0].end > told.segments[0].start >= 0
    raw = audio.with_raw_response
    with open(path, "rb") as file:
        answer = raw.transcriptions.create(model="stt", file=file, extra_body={"stream": "true"})
    assert answer.headers["content-type"].startswith("application/json") and "window" in answer.text.lower()


def test_a_translation(speaking, tmp_path):
    """This model knows one language only, so its translation into it is what was said."""
    with open(spoken(SENTENCE, tmp_path), "rb") as file:
        text = words(sdk(speaking).audio.translations.create(model="stt", file=file).text)
    assert all(part in text for part in HEARD), text


def test_a_recording_of_64_mb_passes_through_and_an_empty_one_says_so(start, tmp_path):
    daemon = start({"stt": speech()})
    wav = open(spoken("Please open the window.", tmp_path), "rb").read()
    assert "window" in upload(daemon, "/v1/audio/transcriptions", "stt", wav).text.lower()
    before, most, over = resident(daemon), [0], threading.Event()

    def watch():
        while not over.wait(0.01):
            most[0] = max(most[0], resident(daemon))
    thread = threading.Thread(target=watch)
    thread.start()
    long = upload(daemon, "/v1/audio/transcriptions", "stt", wav + bytes(64000000 - len(wav)))
    over.set()
    thread.join()
    assert "window" in long.text.lower(), long
    assert most[0] - before < 8 << 20, f"the daemon grew by {(most[0] - before) >> 10} KiB"
    empty = upload(daemon, "/v1/audio/transcriptions", "stt", b"")
    assert empty.status == 400 and "Invalid request" in empty.text


def test_bad_audio_is_the_engine_s_own_answer(speaking, tmp_path):
    for bytes_of_file in (b"", b"this is no sound"):
        answer = upload(speaking, "/v1/audio/transcriptions", "stt", bytes_of_file)
        assert answer.status == 400 and "Invalid request" in answer.text
    cut = ask(speaking, "POST", "/v1/audio/transcriptions", form({"model": "stt"}, b"x")[:-6],
              {"Content-Type": "multipart/form-data; boundary=frontier"})
    assert (cut.status, cut.error["code"]) == (400, "invalid_form")
    large = raw(speaking, b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                          b"multipart/form-data; boundary=frontier\r\nContent-Length: 68157440\r\n\r\n--frontier", 30)
    assert large.startswith(b"HTTP/1.1 413 ") and b"body_too_large" in large


def test_a_large_upload_waits_on_disk(start, tmp_path):
    daemon = start({"stt": speech()}, bodies={"memory": "1MiB"})
    wav = open(spoken("Please open the window.", tmp_path), "rb").read()
    assert "window" in upload(daemon, "/v1/audio/transcriptions", "stt", wav + bytes(8 << 20)).text.lower()


def test_expect_continue_before_an_upload(speaking, tmp_path):
    wav = open(spoken("Please open the window.", tmp_path), "rb").read()
    body = form({"model": "stt"}, wav)
    connection = http.client.HTTPConnection("127.0.0.1", speaking.port, timeout=60)
    connection.putrequest("POST", "/v1/audio/transcriptions")
    for name, value in (("Content-Type", "multipart/form-data; boundary=frontier"), ("Expect", "100-continue"),
                        ("Content-Length", str(len(body)))):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.sock.recv(64).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    connection.send(body)
    answer = connection.getresponse()
    assert answer.status == 200 and b"window" in answer.read().lower()


def test_unload_waits_for_a_transcription(speaking, tmp_path):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(long_speech(speaking, "stt", tmp_path)))
    thread.start()
    wait_for("it to run", lambda: models(speaking)["stt"]["running"] == 1)
    speaking.model("stt", "unload")
    thread.join(60)
    assert answers[0].status == 200 and "window" in answers[0].text.lower()
    wait_state(speaking, "stt", "unloaded")


# ---- images ----

def test_a_picture_that_no_machine_can_make_is_refused_before_anything_is_loaded(start):
    """By a stand-in for the engine: the real one would try, for minutes or until it has no memory left."""
    daemon = start({"m": fake_of("sd-server", file=str(MODELS / "image.safetensors"), footprint="2100MiB")})
    for size, told in (("1000000000x1000000000", "larger than any model makes"), ("64x99999999999", "at most 16384"),
                       ("16000x16000", "beside its model")):
        answer = draw(daemon, "m", size)
        assert (answer.status, answer.error["code"]) == (400, "picture_too_large") and told in answer.text, answer
        assert answer.error["param"] == "size" and answer.headers["x-should-retry"] == "false"
    edit = ask(daemon, "POST", "/v1/images/edits", form({"model": "m", "size": "1000000000x64"}, b"\x89PNG"),
               {"Content-Type": "multipart/form-data; boundary=frontier"})
    assert (edit.status, edit.error["code"]) == (400, "picture_too_large"), edit
    by_number = ask(daemon, "POST", "/sdapi/v1/txt2img", {"prompt": "a house", "width": 1000000000, "height": 64})
    assert (by_number.status, by_number.error["code"]) == (400, "picture_too_large"), by_number
    assert state(daemon, "m") == "unloaded"
    assert draw(daemon, "m").status == 200


def begin_job(daemon, model, steps=1):
    answer = ask(daemon, "POST", "/sdcpp/v1/img_gen", {"model": model, "prompt": "a house", "width": 64, "height": 64,
                                                       "sample_params": {"sample_steps": steps}}, timeout=240)
    assert answer.status == 202, answer
    return answer.json["poll_url"]


def wait_job(daemon, path, *wanted):
    """As a client does it: the path without a model, until its state is one of these."""
    return wait_for(f"the job to be {' or '.join(wanted)}", lambda: next(
        (job for job in [ask(daemon, "GET", path).json] if job["status"] in wanted), None), 240)


@pytest.mark.skipif(not SD, reason="tools/fetch-sd-server builds it")
def test_a_picture_by_the_ordinary_client(start, tmp_path):
    """The one of its kind that is in every run."""
    right_image(start({"image": image()}), "image", tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not SD, reason="tools/fetch-sd-server builds it")
def test_a_job_keeps_its_engine_until_it_is_over(start):
    """Nobody makes room of an engine that computes a picture, and none is told to end in the middle of it."""
    daemon = start({"image": image(), "chat": real("chat.gguf", footprint="1500MiB")}, limit_mib=3000)
    job = begin_job(daemon, "image")
    pid = models(daemon)["image"]["pid"]
    assert models(daemon)["image"]["running"] == 1
    answers = []
    chatting = threading.Thread(target=lambda: answers.append(ask(
        daemon, "POST", "/v1/chat/completions", chat_body("chat", 4), timeout=240)))
    chatting.start()
    wait_for("the chat to wait", lambda: models(daemon)["chat"]["queued"] == 1)
    done = wait_job(daemon, job, "completed", "failed")
    picture = base64.b64decode(done["result"]["images"][0]["b64_json"])
    assert picture.startswith(b"\x89PNG\r\n") and struct.unpack(">2I", picture[16:24]) == (64, 64)
    chatting.join(60)
    assert answers[0].status == 200 and not alive(pid), "the result was fetched: now it made room"


@pytest.mark.long
@pytest.mark.skipif(not SD, reason="tools/fetch-sd-server builds it")
def test_a_job_is_drained_and_one_that_runs_says_that_it_cannot_be_given_up(start):
    daemon = start({"image": image()})
    job = begin_job(daemon, "image", steps=2)
    wait_job(daemon, job, "generating")
    refused = ask(daemon, "POST", job + "/cancel", {})
    assert refused.status == 409 and "cannot be interrupted" in refused.text
    assert models(daemon)["image"]["running"] == 1
    begin = time.monotonic()
    daemon.model("image", "unload")
    wait_state(daemon, "image", "unloaded", seconds=120)
    [row] = [row for row in daemon.get("/api/v1/history?kind=requests")["requests"] if row["path"].endswith("img_gen")]
    assert row["status"] == 202 and not decisions(daemon, "died", "image")
    assert time.monotonic() - begin > 0.5, "it was waited for"


@pytest.mark.long
@pytest.mark.skipif(not SD, reason="tools/fetch-sd-server builds it")
def test_a_picture_is_changed(start, tmp_path):
    daemon = start({"m": image()})
    (tmp_path / "a.png").write_bytes(base64.b64decode(draw(daemon, "m").json["data"][0]["b64_json"]))
    client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=240, max_retries=0)
    prompt = 'a barn <sd_cpp_extra_args>{"sample_params": {"sample_steps": 1}}</sd_cpp_extra_args>'
    with open(tmp_path / "a.png", "rb") as file:
        data = client.images.edit(model="m", image=file, prompt=prompt, size="64x64",
                                  response_format="b64_json").data
    assert base64.b64decode(data[0].b64_json).startswith(b"\x89PNG\r\n")


# ---- any program, and another protocol ----

@pytest.mark.skipif(not os.path.exists(f"{TTS}/voice.onnx"), reason="tools/fetch-tts makes it")
def test_one_engine_says_it_and_another_hears_it(start):
    """Text to speech to text, by two programs that make room for one another."""
    daemon = start({"tts": voice(), "stt": speech()}, limit_mib=500)
    text = words(upload(daemon, "/v1/audio/transcriptions", "stt", say(daemon, "tts", SENTENCE)).json["text"])
    assert "open the window" in text and "london" in text, text
    assert decisions(daemon, "evict", "tts")


ECHO = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") != "websocket":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.end_headers()
        while data := self.connection.recv(65536):
            self.connection.sendall(data.upper())
        self.close_connection = True
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_websocket_loads_its_model_and_counts_as_running(start, tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    daemon = start({"m": {"engine": "command", "cmd": f"{sys.executable} {tmp_path}/echo.py ${{PORT}}",
                          "health": "/health", "footprint": "64MiB"}})
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as client:
        client.sendall(b"GET /upstream/m/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                       b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n")
        head = client.recv(65536)
        assert head.startswith(b"HTTP/1.1 101 ") and b"Upgrade: websocket" in head
        for word in (b"one", b"two"):
            client.sendall(word)
            assert client.recv(100) == word.upper()
        assert models(daemon)["m"]["running"] == 1
    wait_for("the end to be seen", lambda: models(daemon)["m"]["running"] == 0)
    assert state(daemon, "m") == "idle"


def test_a_draft_is_used_and_measured_as_estimated(start):
    """llama-server drafts nothing with a draft model alone: it wants the kind of drafting named."""
    daemon = start({"a": real("chat.gguf", draft=str(MODELS / "chat.gguf"), slots=1, kv="fixed")})
    filled = ask(daemon, "POST", "/completion", {"model": "a", "prompt": "word " * 600, "n_predict": 24, "temperature": 0},
                 timeout=300)
    assert filled.status == 200, filled.body
    timings = filled.json["timings"]
    assert timings["draft_n"] > 0 and timings["draft_n_accepted"] > 0
    estimate = ask(daemon, "GET", "/api/v1/models/a").json["estimate_bytes"]
    taken = wait_for("two samples that agree", lambda: settled_bytes(daemon, "a"))
    assert abs(taken - estimate) <= max(0.03 * estimate, 32 << 20), (taken, estimate)


def settled_bytes(daemon, name):
    first = ask(daemon, "GET", f"/api/v1/models/{name}").json["measured_bytes"]
    time.sleep(0.5)
    return first if first == ask(daemon, "GET", f"/api/v1/models/{name}").json["measured_bytes"] else 0
