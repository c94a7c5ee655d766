#!/usr/bin/env python3
"""The demo: three models behind one port, under a limit in which they do not all fit.

A chat model of real 7B shape, a small trained chat model and a trained embedder get real requests
from curl and the OpenAI SDK, several at once, so that they make room for one another. What happens
is printed as it happens; every claim made here is checked, and the exit status is 0 only if all hold.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from daemon import Daemon, children_of, free_port  # noqa: E402

import openai  # noqa: E402

MIB = 1 << 20
STARTED = time.monotonic()
CONFIG = """\
listen: 127.0.0.1:{port}
memory: {{limit: auto}}
local_admin: true
engines:
  llama: {{kind: llama-server, path: "{server}"}}
models:
  big:          # the shape of a 7B: 32 layers, 4096 wide, Q4_0
    engine: llama
    file: "{models}/7b.gguf"
    context: 4096
    slots: 2
    aliases: [gpt-4o]
  small:        # SmolLM2-135M, trained
    engine: llama
    file: "{models}/chat.gguf"
    context: 4096
    slots: 2
  embed:        # all-MiniLM-L6-v2, trained
    engine: llama
    file: "{models}/embed.gguf"
    args: --embeddings
    slots: 4
"""
printing = threading.Lock()


def say(kind, text):
    with printing:
        for line in str(text).splitlines() or [""]:
            print(f"{time.monotonic() - STARTED:6.1f} s  {kind:<8} {line}", flush=True)
            kind = ""


def chapter(text):
    with printing:
        print(f"\n== {text}", flush=True)


class Claims:
    """What the demo asserts, each said as it is checked."""

    def __init__(self):
        self.failed = []
        self.count = 0

    def __call__(self, holds, text):
        self.count += 1
        say("true" if holds else "FALSE", text)
        if not holds:
            self.failed.append(text)


claim = Claims()


def mib(bytes_):
    return f"{bytes_ / MIB:,.0f} MiB"


class Watch:
    """Follows the daemon: prints its decisions, keeps each model's measured peak and the ledger's worst."""

    def __init__(self, daemon, limit):
        self.daemon, self.limit = daemon, limit
        self.decisions = []
        self.models = {}
        self.most_claimed = 0
        self.ended = threading.Event()
        daemon.events(self.on_event)
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def on_event(self, event):
        self.decisions.append(event)
        if event.get("kind") not in ("dispatch", "queue"):
            say("decides", event.get("text") or json.dumps(event))

    def sample(self):
        while not self.ended.wait(0.1):
            try:
                models = self.daemon.get("/api/v1/models")["models"]
                claimed = claims_of(self.daemon.get("/api/v1/memory"))
            except OSError:
                return
            self.most_claimed = max(self.most_claimed, claimed)
            for model in models:
                kept = self.models.setdefault(model["name"], {"estimate": 0, "peak": 0})
                kept["estimate"] = max(kept["estimate"], model["estimate_bytes"])
                kept["peak"] = max(kept["peak"], model["measured_bytes"])

    def stop(self):
        self.ended.set()
        self.thread.join()


def claims_of(memory):
    return sum(owner["claim_bytes"] for owner in memory["owners"] if owner["kind"] == "instance")


def show_ledger(daemon):
    memory = daemon.get("/api/v1/memory")
    pool = memory["pools"][0]
    say("ledger", f"{pool['name']}: {mib(pool['size_bytes'])}, capacity {mib(pool['capacity_bytes'])}, "
        f"claimed {mib(pool['claimed_bytes'])}, foreign {mib(pool['foreign_bytes'])}, free {mib(pool['free_bytes'])}")
    for owner in memory["owners"]:
        say("", f"  {owner['kind']:<9} {owner['name']:<8} claims {mib(owner['claim_bytes']):>10}, "
            f"measured {mib(owner['measured_bytes']):>10}")
    return memory


def show_request(daemon, what, identity, seconds, text):
    """Prints how a request went, as the daemon accounts for it."""
    row = daemon.get(f"/api/v1/requests/{identity}")
    say("answer", f"{what}: waited {row['wait_ms'] / 1e3:.2f} s (loading {row['load_ms'] / 1e3:.2f}), "
        f"first byte after {row['first_byte_ms'] / 1e3:.2f} s, all after {row['total_ms'] / 1e3:.2f} s\n{text}")
    claim(row["total_ms"] / 1e3 <= seconds + 0.2 and row["first_byte_ms"] <= row["total_ms"] and
          row["load_ms"] <= row["wait_ms"] + 1, f"those times agree with the client's own {seconds:.2f} s")
    return row


def ask_sdk(daemon, model, question, tokens, stream=True):
    """A chat through the OpenAI SDK."""
    client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="none", timeout=170, max_retries=0)
    begin = time.monotonic()
    raw = client.chat.completions.with_raw_response.create(
        model=model, max_tokens=tokens, temperature=0, stream=stream, messages=[{"role": "user", "content": question}])
    if stream:
        text = "".join(part.choices[0].delta.content or "" for part in raw.parse() if part.choices)
    else:
        text = raw.parse().choices[0].message.content
    seconds = time.monotonic() - begin
    show_request(daemon, f"SDK{', streamed' if stream else ''}, {model}", raw.headers["x-cotenant-request-id"],
                 seconds, f"  {question} -> {text.strip()}")
    return text


def ask_curl(daemon, path, body):
    """The same port with curl; returns the JSON."""
    with tempfile.NamedTemporaryFile() as head:
        begin = time.monotonic()
        done = subprocess.run(["curl", "-sS", "--max-time", "170", "-D", head.name, daemon.url + path, "-d",
                               json.dumps(body), "-H", "Content-Type: application/json"],
                              capture_output=True, text=True, check=True)
        seconds = time.monotonic() - begin
        identity = re.search(r"(?im)^x-cotenant-request-id: *(\S+)", head.read().decode()).group(1)
    answer = json.loads(done.stdout)
    shown = answer["choices"][0]["message"]["content"].strip() if "choices" in answer else \
        f"{len(answer.get('data', []))} vectors"
    show_request(daemon, f"curl, {body['model']}", identity, seconds, f"  {shown}")
    return answer


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def embeddings_are_sensible(daemon):
    sentences = ["A man is eating food.", "Somebody has a meal.", "The stock market fell today."]
    answer = ask_curl(daemon, "/v1/embeddings", {"model": "embed", "input": sentences})
    meal, same, other = (item["embedding"] for item in answer["data"])
    claim(cosine(meal, same) > cosine(meal, other) + 0.2,
          f"the embedder knows a meal ({cosine(meal, same):.2f}) from the stock market ({cosine(meal, other):.2f})")


def available():
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["MemAvailable"].split()[0]) * 1024


def choose_limit(daemon, config):
    """As much as the 7B needs with the embedder beside it, but not the small chat model too."""
    chapter("What the three models need, told from their files before any is loaded")
    needs = {}
    for model in daemon.get("/api/v1/models")["models"]:
        needs[model["name"]] = model["peak_bytes"]
        file = os.stat(daemon.get(f"/api/v1/models/{model['name']}")["configured"]["file"])
        say("estimate", f"{model['name']}: file {mib(file.st_size)} ({mib(file.st_blocks * 512)} on disk), "
            f"{mib(model['estimate_bytes'])} loaded, {mib(model['peak_bytes'])} at the peak of the load")
    limit = (needs["big"] + needs["embed"] + needs["small"] // 2) // MIB
    claim(sum(needs.values()) > limit * MIB, f"{mib(sum(needs.values()))} for all is more than the limit, {limit:,} MiB")
    with open(daemon.config, "w") as out:
        out.write(config.replace("limit: auto", f"limit: {limit}MiB"))
    status, answer = daemon.command("reload")
    claim(status == 0, f"the limit holds from now on, without a restart: {answer.strip()}")
    return limit


def first_requests(daemon):
    chapter("One after the other: each model starts when it is first asked")
    answer = ask_curl(daemon, "/v1/chat/completions", {
        "model": "small", "max_tokens": 24, "temperature": 0,
        "messages": [{"role": "user", "content": "Tell me the capital of France."}]})
    claim("Paris" in answer["choices"][0]["message"]["content"], "the small model knows the capital of France")
    embeddings_are_sensible(daemon)
    say("plan", daemon.command("plan", "big")[1].strip())
    plan = json.loads(daemon.command("plan", "big", "--json")[1])
    claim(plan["fits"] == "after-eviction" and plan["evict"],
          "the plan for the 7B: it fits after " + ", ".join(row["model"] for row in plan["evict"]) + " goes")
    show_ledger(daemon)


def all_at_once(daemon):
    chapter("Six requests for three models at once: they make room for one another")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        big = [pool.submit(ask_sdk, daemon, "big", "Whose is it?", 16),
               pool.submit(ask_sdk, daemon, "gpt-4o", "And then?", 16, False)]
        small = [pool.submit(ask_sdk, daemon, "small", "What is 2 + 2?", 16),
                 pool.submit(ask_sdk, daemon, "small", "Tell me the capital of France.", 16, False)]
        embed = [pool.submit(embeddings_are_sensible, daemon)]
        texts = [done.result() for done in big]
        [done.result() for done in small + embed]
    claim(all(text.split() == "It is shared : each gives back what was taken .".split() for text in texts),
          "both requests for the 7B got its whole answer, one by its alias gpt-4o")
    show_ledger(daemon)
    ask_sdk(daemon, "small", "What color is the sky on a clear day?", 16)


def judge(daemon, watch, limit):
    chapter("What it came to")
    kinds = [event.get("kind") for event in watch.decisions]
    claim("evict" in kinds, f"{kinds.count('evict')} times a model went so that another fitted; "
          f"{kinds.count('load')} loads altogether")
    loads = [event for event in watch.decisions if event.get("kind") == "load"]
    claim(all(event["need_bytes"] <= event["room_bytes"] for event in loads),
          f"each of the {len(loads)} loads was decided into room that the ledger had")
    # An engine's own growth after its admission counts as claimed too; it is small, and nobody's decision.
    claim(watch.most_claimed <= limit * MIB * 1.01, f"never more held than {mib(watch.most_claimed)} of {limit:,} MiB")
    for name, seen in sorted(watch.models.items()):
        say("measured", f"{name}: estimate {mib(seen['estimate'])}, measured peak {mib(seen['peak'])} "
            f"({100 * seen['peak'] / max(seen['estimate'], 1):.0f} %)")
        claim(0 < seen["peak"] <= 1.05 * seen["estimate"] + 32 * MIB, f"{name} stayed within what was estimated")


def all_comes_back(daemon, watch, before):
    chapter("All of it comes back")
    for name in ("big", "small", "embed"):
        status, answer = daemon.model(name, "unload")
        claim(status == 200, f"unload {name}: {answer.get('state', answer)}")
    memory = show_ledger(daemon)
    claim(claims_of(memory) == 0, "the ledger holds no claim of any model")
    status = daemon.stop()
    claim(status == 0, f"the daemon ended with status {status} when asked to")
    claim(not children_of(daemon.folder), "no process of it is left")
    after = available()  # the machine's own count; other programs move it too
    claim(after > before - watch.most_claimed // 10, f"memory available: {mib(before)} before, {mib(after)} after")


def keep(daemon):
    chapter("It keeps running. Three commands to try")
    print(f"""
  build/cotenant ps -a --socket {daemon.socket}
  build/cotenant why big --socket {daemon.socket}
  curl {daemon.url}/v1/chat/completions -d '{{"model": "small", "messages": [{{"role": "user", "content": "Tell me a joke."}}]}}'

To end it: kill {daemon.process.pid}; its folder is {daemon.folder}
""", flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name in ("cotenant", "llama-server", "models"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--keep", action="store_true", help="leave the daemon running at the end")
    options = parser.parse_args()
    os.environ.pop("NOTIFY_SOCKET", None)

    before = available()
    folder = tempfile.mkdtemp(prefix="cotenant-demo-")
    port = free_port()
    chapter("The daemon")
    config = CONFIG.format(port=port, server=options.llama_server, models=options.models)
    print("\n".join("    " + line for line in config.splitlines()))
    daemon = Daemon(options.cotenant, folder, config, port)
    try:
        daemon.wait_ready()
        say("daemon", f"{daemon.url} answers, socket {daemon.socket}")
        show_ledger(daemon)
        names = sorted(model.id for model in openai.OpenAI(base_url=daemon.url + "/v1", api_key="none").models.list())
        claim({"big", "small", "embed"} <= set(names), "one port lists all: " + ", ".join(names))
        limit = choose_limit(daemon, config)
        watch = Watch(daemon, limit)
        first_requests(daemon)
        all_at_once(daemon)
        watch.stop()
        judge(daemon, watch, limit)
        if options.keep:
            keep(daemon)
        else:
            all_comes_back(daemon, watch, before)
    except BaseException:
        print(daemon.tail(), file=sys.stderr)
        daemon.process.kill()
        raise
    if not options.keep:
        shutil.rmtree(folder)
    chapter(f"{claim.count - len(claim.failed)} of {claim.count} claims hold, {time.monotonic() - STARTED:.0f} s")
    for text in claim.failed:
        print("does not hold:", text)
    return 1 if claim.failed else 0


if __name__ == "__main__":
    sys.exit(main())
