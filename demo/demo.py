#!/usr/bin/env python3
"""The demo: five kinds of model behind one port, asked at once, under a limit in which two or three fit.

Chat, code, embeddings, speech and images on their real engines, asked by the OpenAI SDK and curl; they
make room for one another. What happens is printed as it happens; every claim made here is checked, and
the exit status is 0 only if all hold. With --theirs the models are the files of a person's own folder.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "tools")
sys.path.insert(0, TOOLS)
from daemon import Daemon, children_of, free_port  # noqa: E402

import catalogue  # noqa: E402
import clients  # noqa: E402
from picture import Picture  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
STARTED = time.monotonic()
COLOURS = {"true": 32, "FALSE": 31, "decides": 33, "missing": 31, "builds": 36} if sys.stdout.isatty() else {}
printing = threading.Lock()


def say(kind, text):
    colour = COLOURS.get(kind)
    shown = f"\033[{colour}m{kind:<8}\033[0m" if colour else f"{kind:<8}"
    with printing:
        print(f"{time.monotonic() - STARTED:6.1f} s  {shown} {text}", flush=True)


def chapter(text):
    with printing:
        print(f"\n\033[1m== {text}\033[0m" if COLOURS else f"\n== {text}", flush=True)


class Claims:
    """What the demo asserts, each said as it is checked."""

    def __init__(self):
        self.failed, self.count = [], 0

    def __call__(self, holds, text):
        self.count += 1
        say("true" if holds else "FALSE", text)
        if not holds:
            self.failed.append(text)


claim = Claims()


def size(bytes_):
    return f"{bytes_ / GIB:,.2f} GiB" if bytes_ >= GIB else f"{bytes_ / MIB:,.0f} MiB"


def claims_of(memory):
    return sum(owner["claim_bytes"] for owner in memory["owners"] if owner["kind"] == "instance")


class Watch:
    """Follows the daemon: prints its decisions, keeps each model's measured peak and the ledger's worst."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.decisions, self.peaks = [], {}
        self.most_claimed = self.most_loaded = 0
        self.ended = threading.Event()
        daemon.events(self.on_event)
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def on_event(self, event):
        self.decisions.append(event)
        if event.get("kind") in ("load", "evict", "ready", "refuse", "died", "failed"):
            say("decides", event.get("text") or json.dumps(event))

    def sample(self):
        while not self.ended.wait(0.1):
            try:
                models = self.daemon.get("/api/v1/models")["models"]
                self.most_claimed = max(self.most_claimed, claims_of(self.daemon.get("/api/v1/memory")))
            except OSError:
                return
            self.most_loaded = max(self.most_loaded, sum(row["state"] in ("idle", "busy") for row in models))
            for row in models:
                self.peaks[row["name"]] = max(self.peaks.get(row["name"], 0), row["measured_bytes"])

    def stop(self):
        self.ended.set()
        self.thread.join()


class Builder:
    """Builds sd-server beside everything else, telling how far it is."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(TOOLS, "fetch-sd-server")], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        for line in self.process.stderr:
            say("builds", line.strip().replace("fetch-sd-server", "sd-server", 1))

    def wait(self):
        begin = time.monotonic()
        status = self.process.wait()
        self.thread.join()
        if status:
            raise SystemExit("demo: sd-server could not be built; what was said above tells why")
        return time.monotonic() - begin


def configuration(port, options, models, limit="auto"):
    paths = {"llama": ("llama-server", options.llama_server), "whisper": ("whisper-server", options.whisper_server),
             "sd": ("sd-server", options.sd_server)}
    used = {catalogue.ENGINE[model.name] for model in models}
    lines = [f"listen: 127.0.0.1:{port}", f"memory: {{limit: {limit}}}", "engines:"]
    for name, (kind, path) in paths.items():
        if name in used:
            lines.append(f"  {name + ':':<8} {{kind: {kind}, path: {json.dumps(catalogue.short(path))}}}")
    return "\n".join([*lines, "models:", *(model.line() for model in models)]) + "\n"


def kib_of(path, *names):
    with open(path) as file:
        fields = dict(line.split(":", 1) for line in file)
    return sum(int(fields.get(name, "0").split()[0]) for name in names)


def available():
    """What the machine says it has left, and what the programs that run now hold."""
    held = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            held += kib_of(f"/proc/{pid}/status", "RssAnon", "RssShmem")
        except OSError:
            pass  # it ended
    return kib_of("/proc/meminfo", "MemAvailable") * 1024, held * 1024


def how_many_fit(needs, limit):
    """The most models that fit together."""
    return max(count for count in range(1, len(needs) + 1) for group in itertools.combinations(needs.values(), count)
               if sum(group) <= limit)


def choose_limit(needs, rests):
    """Room for the largest alone, and for three of five at rest (about half of fewer) but not for one more."""
    few = sorted(rests.values())[:(len(rests) + 1) // 2 + 1]
    return max(int(1.04 * max(needs.values())), sum(few) - few[0] // 2)


def reconfigure(daemon, text):
    """(went it well, what changed)"""
    with open(daemon.config, "w") as out:
        out.write(text)
    status, answer = daemon.command("reload")
    return status == 0, ", ".join(answer.split("\n")[:-1])


def meanwhile(daemon, models, builder, make_config):
    """While sd-server is built: two small models are asked; then the image model joins what runs."""
    chapter("sd-server is being built, which is done once; meanwhile, two that are there")
    for what, name, how in clients.REQUESTS[:2]:
        ask(daemon, what, next(model for model in models if model.name == name), how)
        daemon.model(name, "unload")
    say("builds", f"sd-server was waited for, {builder.wait():.0f} s")
    good, told = reconfigure(daemon, make_config("auto", models))
    claim(good, f"the image model joined without a restart: {told}")


def tell_needs(daemon, models, make_config):
    chapter("What each takes at most, with its whole context, told from its file before any is loaded")
    rows = {row["name"]: row for row in daemon.get("/api/v1/models")["models"]}
    needs = {name: max(row["estimate_bytes"], row["peak_bytes"]) for name, row in rows.items()}
    if not all(needs.values()):
        raise SystemExit("demo: not every model can be loaded; the daemon says why:\n" + daemon.tail(8))
    for model in models:
        say("needs", f"{model.name:<6} {size(needs[model.name]):>9} for a file of {size(os.path.getsize(model.path)):>8}"
            f"   {rows[model.name]['engine']}, {model.about}")
    if len(models) == 1:
        return needs, None
    free = daemon.get("/api/v1/memory")["pools"][0]["free_bytes"]
    if max(needs.values()) > free:
        raise SystemExit(f"demo: {size(max(needs.values()))} of free memory are needed, {size(free)} are there")
    rests = {name: daemon.get(f"/api/v1/models/{name}")["estimate"]["base_bytes"] for name in needs}
    limit = min(choose_limit(needs, rests), free) // MIB
    good, told = reconfigure(daemon, make_config(f"{limit}MiB", models))
    claim(good, f"the limit is {size(limit * MIB)} from now on, without a restart: {told}")
    most = how_many_fit(rests, limit * MIB)
    claim(most < len(models), f"all need {size(sum(needs.values()))}; at most {most} of {len(models)} fit at once, at rest")
    return needs, limit * MIB


def ask(daemon, what, model, function):
    """One request; what it was answered, and how it went as the daemon accounts for it."""
    begin = time.monotonic()
    identity, right, text = function(daemon, model)
    end = time.monotonic()
    row = daemon.get(f"/api/v1/requests/{identity}")
    agrees = row["total_ms"] / 1e3 <= end - begin + 0.2 and row["wait_ms"] <= row["first_byte_ms"] <= row["total_ms"]
    claim(right and agrees, f"{what}: {text}, {row['total_ms'] / 1e3:.1f} s ({row['wait_ms'] / 1e3:.1f} waiting)")
    return begin, end


def all_at_once(daemon, models):
    by_name = {model.name: model for model in models}
    wanted = [row for row in clients.REQUESTS if row[1] in by_name]
    chapter(f"{len(wanted)} requests for {len(models)} models at once: they make room for one another")
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        asked = [pool.submit(ask, daemon, what, by_name[name], how) for what, name, how in wanted]
        times = [done.result() for done in asked]
    claim(max(begin for begin, _ in times) < min(end for _, end in times), "all were under way before any was answered")


def judge(daemon, watch, needs, limit):
    chapter("What it came to")
    loads = [event for event in watch.decisions if event.get("kind") == "load"]
    evictions = [event for event in watch.decisions if event.get("kind") == "evict"]
    if limit:
        claim(evictions, f"{len(loads)} loads, {len(evictions)} of which another model made room for; "
              f"at most {watch.most_loaded} were loaded at once")
        # An engine's own growth after its admission counts as held too; it is small, and nobody's decision.
        grown = ", an engine's own growth among it" if watch.most_claimed > limit else ""
        claim(watch.most_claimed <= limit * 1.01, f"held at most: {size(watch.most_claimed)} of {size(limit)}{grown}")
    claim(all(event["need_bytes"] <= event["room_bytes"] for event in loads),
          "each load was decided into room that the ledger had")
    for name, need in needs.items():
        peak = watch.peaks.get(name, 0)
        claim(0 < peak <= 1.05 * need + 32 * MIB, f"{name:<6} took {size(peak):>8} at most, of {size(need):>8} foretold")


def comes_back(before, most_claimed):
    """(is it so, how it is told): no sooner than other programs, which move it too, let it be seen."""
    for _ in range(50):
        more, others = (now - then for now, then in zip(available(), before))
        told = f"memory available: {size(before[0])} before, {size(before[0] + more)} after"
        if abs(others) > 64 * MIB:
            told += f"; other programs {'took' if others > 0 else 'gave'} {size(abs(others))}"
        if more + others > -max(most_claimed // 10, 256 * MIB) - abs(others) // 2:
            return True, told
        time.sleep(0.2)
    return False, told


def all_comes_back(daemon, watch, before):
    chapter("All of it comes back")
    for row in daemon.get("/api/v1/models")["models"]:
        daemon.model(row["name"], "unload")
    claim(claims_of(daemon.get("/api/v1/memory")) == 0, "all unloaded; the ledger holds no claim of any model")
    status = daemon.stop()
    claim(status == 0 and not children_of(daemon.folder), f"the daemon ended with {status}, and no process of it is left")
    claim(*comes_back(before, watch.most_claimed))


def keep(daemon, models):
    chapter("It keeps running. Three commands to try")
    print(f"""
  build/cotenant top --socket {daemon.socket}
  build/cotenant why {models[0].name} --socket {daemon.socket}
  curl {daemon.url}/v1/models

To end it: kill {daemon.process.pid}; its folder is {daemon.folder}
""", flush=True)


def choose_models(options):
    """The models to show; says what a person's folder lacks."""
    if not options.theirs:
        return catalogue.ours(options.models)
    chapter(f"The models in {options.theirs}")
    models, left = catalogue.theirs(options.cotenant, options.theirs)
    for model in models:
        say("found", f"{model.name:<7} {os.path.relpath(model.path, options.theirs)}")
    for file, why in left:
        say("left out", f"{file}: {why}")
    for kind, what in catalogue.KINDS.items():
        if kind not in {model.name for model in models}:
            say("missing", f"{kind:<7} no file there is {what}; it is not shown")
    if not models:
        raise SystemExit(f"demo: no model file in {options.theirs}; without MODELS= the demo brings its own")
    return models


def show(options, daemon, models, builder, make_config):
    daemon.wait_ready()
    if builder:
        meanwhile(daemon, models, builder, make_config)
    names = {model.id for model in clients.sdk(daemon).models.list()}
    claim({model.name for model in models} == names, f"{daemon.url} lists all: " + ", ".join(sorted(names)))
    needs, limit = tell_needs(daemon, models, make_config)
    watch = Watch(daemon)
    picture = Picture(daemon, options.picture) if options.picture else None
    all_at_once(daemon, models)
    if picture:
        picture.end()
        say("picture", options.picture)
    watch.stop()
    judge(daemon, watch, needs, limit)
    return watch


def arguments():
    parser = argparse.ArgumentParser(usage="demo/run; this is what it calls", description=__doc__)
    for name in ("cotenant", "llama-server", "whisper-server", "sd-server"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--models", type=os.path.abspath, help="the folder that tools/prepare made")
    parser.add_argument("--theirs", type=lambda path: os.path.abspath(os.path.expanduser(path)),
                        help="a person's own folder of models instead")
    parser.add_argument("--keep", action="store_true", help="leave the daemon running at the end")
    parser.add_argument("--picture", metavar="FILE", help="an SVG of what `cotenant top` showed meanwhile (needs tmux)")
    options = parser.parse_args()
    if options.theirs and not os.path.isdir(options.theirs):
        parser.error(f"{options.theirs} is no folder")
    if options.picture and not shutil.which("tmux"):
        parser.error("a picture of the terminal needs tmux; try: apt-get install tmux")
    return options


def main():
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):  # ends the daemon too
        signal.signal(number, lambda *_: sys.exit("demo: told to end"))
    os.environ.pop("NOTIFY_SOCKET", None)
    models = choose_models(options)
    builder = None
    if any(model.name == "image" for model in models) and not os.path.exists(options.sd_server):
        builder = Builder()
    before = available()
    folder = tempfile.mkdtemp(prefix="cotenant-demo-")
    port = free_port()

    def make_config(limit, models):
        return configuration(port, options, models, limit)

    chapter("The daemon and its configuration")
    first = make_config("auto", [model for model in models if not (builder and model.name == "image")])
    print("".join("    " + line + "\n" for line in first.splitlines()), flush=True)
    daemon = Daemon(options.cotenant, folder, first, port)
    try:
        watch = show(options, daemon, models, builder, make_config)
        if options.keep:
            keep(daemon, models)
        else:
            all_comes_back(daemon, watch, before)
    except BaseException:
        print(daemon.tail(), file=sys.stderr)
        daemon.process.kill()
        raise
    if not options.keep:
        shutil.rmtree(folder)
    unchecked = "; three more are about its end, which is not yet" if options.keep else ""
    chapter(f"{claim.count - len(claim.failed)} of {claim.count} claims hold, {time.monotonic() - STARTED:.0f} s{unchecked}")
    for text in claim.failed:
        print("does not hold:", text)
    return 1 if claim.failed else 0


if __name__ == "__main__":
    sys.exit(main())
