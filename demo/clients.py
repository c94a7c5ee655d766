"""clients: each kind of model asked as people ask it, and what makes an answer right.

A function asks and returns (request id, is it right, what to say of it).
"""
import base64
import json
import math
import os
import re
import struct
import subprocess
import tempfile

import openai

from catalogue import SAYS

LONGEST_S = 600
SENTENCE = "Please open the window. The train to London leaves in seven minutes."
HEARD = ("open", "window", "train", "london", "leaves", "seven", "minutes")
SENTENCES = ["A man is eating food.", "Somebody has a meal.", "The stock market fell today."]
# How sd-server is told the steps: one, since the picture is to show the way and not the art.
PROMPT = 'a house <sd_cpp_extra_args>{"sample_params": {"sample_steps": 1}}</sd_cpp_extra_args>'
PNG = b"\x89PNG\r\n\x1a\n"


def sdk(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=LONGEST_S, max_retries=0)


def identity(raw):
    return raw.headers["x-cotenant-request-id"]


def says(model, text):
    """Of our own shapes the whole answer is known, of a person's model only that there is one."""
    whole = " ".join(text.split())
    right = whole == SAYS[model.name] if model.is_ours else bool(whole)
    return right, f'"{whole[:60]}{"..." if len(whole) > 60 else ""}"'


def chat_streamed(daemon, model):
    question = [{"role": "user", "content": "Whose is the memory?"}]
    raw = sdk(daemon).chat.completions.with_raw_response.create(
        model=model.name, max_tokens=32, temperature=0, stream=True, messages=question)
    text = "".join(part.choices[0].delta.content or "" for part in raw.parse() if part.choices)
    return identity(raw), *says(model, text)


def chat_by_curl(daemon, model):
    """By its alias, where it has one."""
    name = model.settings.get("aliases", [model.name])[0]
    body = json.dumps({"model": name, "max_tokens": 32, "temperature": 0,
                       "messages": [{"role": "user", "content": "And whose is it then?"}]})
    with tempfile.NamedTemporaryFile() as head:
        done = subprocess.run(["curl", "-sS", "--max-time", str(LONGEST_S), "-D", head.name, "-d", body,
                               daemon.url + "/v1/chat/completions", "-H", "Content-Type: application/json"],
                              capture_output=True, text=True, check=True)
        found = re.search(r"(?im)^x-cotenant-request-id: *(\S+)", head.read().decode())
    answer = json.loads(done.stdout)
    return found.group(1), *says(model, answer["choices"][0]["message"]["content"])


def code(daemon, model):
    raw = sdk(daemon).chat.completions.with_raw_response.create(
        model=model.name, max_tokens=32, temperature=0,
        messages=[{"role": "user", "content": "Write a Python function that squares a number."}])
    return identity(raw), *says(model, raw.parse().choices[0].message.content)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def embeddings(daemon, model):
    raw = sdk(daemon).embeddings.with_raw_response.create(model=model.name, input=SENTENCES)
    food, meal, market = (row.embedding for row in raw.parse().data)
    near, far = cosine(food, meal), cosine(food, market)
    return identity(raw), near > far, f"food is near a meal ({near:.2f}), not near the market ({far:.2f})"


def spoken():
    """The sentence as a recording, by a voice that is no neural net."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "speech.wav")
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", "140", "-w", path, SENTENCE], check=True, timeout=60)
        with open(path, "rb") as file:
            return file.read()


def transcription(daemon, model):
    raw = sdk(daemon).audio.transcriptions.with_raw_response.create(model=model.name, file=("speech.wav", RECORDING))
    text = " ".join(raw.parse().text.split())
    heard = [word for word in HEARD if word in text.lower().replace("7", "seven")]
    return identity(raw), len(heard) == len(HEARD), f'"{text[:38]}..." ({len(heard)} of {len(HEARD)} words right)'


def picture(daemon, model):
    raw = sdk(daemon).images.with_raw_response.generate(model=model.name, prompt=PROMPT, size="64x64",
                                                        response_format="b64_json")
    data = base64.b64decode(raw.parse().data[0].b64_json)
    right = data.startswith(PNG) and struct.unpack(">2I", data[16:24]) == (64, 64)
    return identity(raw), right, f"a PNG of 64 x 64, {len(data):,} bytes"


RECORDING = spoken()
# (what it is called in the output, kind of model, how), in the order of asking.
REQUESTS = [
    ("embeddings, SDK", "embed", embeddings),
    ("speech, SDK", "speech", transcription),
    ("image, SDK", "image", picture),
    ("code, SDK", "code", code),
    ("chat, SDK, streamed", "chat", chat_streamed),
    ("chat, curl", "chat", chat_by_curl),
]
