"""The command line: its verbs, --json, exit statuses (0 done, 1 failed, 2 usage, 3 no daemon, 4 does not fit)."""
import json
import os
import struct
import subprocess
import threading

import pytest

from harness import (FAKE, LLAMA, MIB, MODELS, PROGRAM, ROOT, ask, chat, config, decisions, engine_pids, fake, in_threads, kill, models, real, state,
                     wait_for)


def run(*words, daemon=None, folder=None, **more):
    environment = dict(daemon.environment if daemon else os.environ, **more)
    if not daemon:
        for name in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "XDG_RUNTIME_DIR"):
            environment.pop(name, None)
        environment["HOME"] = str(folder or "/nonexistent")
        environment["COTENANT_SOCKET"] = str(folder or "/nonexistent") + "/none.sock"  # not of a daemon that runs here
    return subprocess.run([PROGRAM, *map(str, words)], env=environment, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)


@pytest.fixture
def daemon(start):
    return start({"a": fake(anon_mib=300, footprint_mib=320), "b": fake(anon_mib=300, footprint_mib=320),
                  "huge": fake(footprint_mib=9000)}, limit_mib=500)


READING = [["ps"], ["ps", "-a"], ["ls"], ["show", "a"], ["memory"], ["plan", "a"], ["why", "a"], ["history"],
           ["history", "--kind", "requests"], ["config"]]


@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words))
def test_reading_verbs(daemon, words):
    chat(daemon, "a")
    text = run(*words, daemon=daemon)
    assert text.returncode == 0 and text.stdout.strip(), text
    as_json = run(*words, "--json", daemon=daemon)
    assert as_json.returncode == 0, as_json
    assert isinstance(json.loads(as_json.stdout), dict)


def test_load_pin_unload(daemon):
    for words, wanted in ((["load", "a"], "idle"), (["pin", "a"], "idle"), (["unpin", "a"], "idle"), (["unload", "a"], "unloaded")):
        done = run(*words, daemon=daemon)
        assert done.returncode == 0, done
        assert state(daemon, "a") == wanted


def test_plan_says_4_where_it_never_fits(daemon):
    done = run("plan", "huge", daemon=daemon)
    assert done.returncode == 4 and "GiB" in done.stdout
    assert run("load", "huge", daemon=daemon).returncode == 4


def test_plan_and_load_tell_the_same_numbers(daemon):
    chat(daemon, "a")
    loaded = run("plan", "a", daemon=daemon)
    assert loaded.returncode == 0 and "a is loaded" in loaded.stdout and "fits now" not in loaded.stdout

    def planned(name):
        return json.loads(run("plan", name, "--json", daemon=daemon).stdout)

    assert run("pin", "a", daemon=daemon).returncode == 0
    needs = planned("b")["reason"].split(": needs ")[1].split(",")[0]
    refused = run("load", "b", daemon=daemon)
    assert refused.returncode == 4 and f"it needs {needs}," in refused.stderr, refused
    assert run("unpin", "a", daemon=daemon).returncode == 0
    plan = planned("b")
    assert plan["asked_bytes"] > plan["room_bytes"] and [victim["model"] for victim in plan["evict"]] == ["a"]
    assert run("load", "b", daemon=daemon).returncode == 0
    evict = next(d for d in decisions(daemon) if d["kind"] == "evict")
    assert evict["need_bytes"] == plan["asked_bytes"], (evict, plan)


def test_ls_tells_what_full_conversations_take(start):
    daemon = start({"a": real("chat.gguf", context=4096, slots=2, kv="lazy")})
    wait_for("the engine to be tried out", lambda: models(daemon)["a"]["per_request_bytes"] > 0)
    model = models(daemon)["a"]
    loaded, peak = (run("ls", daemon=daemon).stdout.splitlines()[1].split("MiB")[i].split()[-1] for i in (1, 2))
    assert float(peak) - float(loaded) == pytest.approx(2 * model["per_request_bytes"] / MIB, abs=2)
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\na\r\n--x--\r\n'
    deaf = ask(daemon, "POST", "/v1/audio/transcriptions", form, {"Content-Type": "multipart/form-data; boundary=x"})
    assert deaf.status == 400 and "mmproj" in deaf.json["error"]["message"] and state(daemon, "a") == "unloaded"
    assert "trained for 0" not in run("estimate", MODELS / "whisper.bin").stdout


def test_an_unknown_model_is_1_and_names_the_nearest(daemon):
    done = run("show", "hgue", daemon=daemon)
    assert done.returncode == 1 and "huge" in done.stderr


@pytest.mark.parametrize("words", [["frobnicate"], ["ps", "--no-such"], ["load"], ["load", "a", "b", "c"], ["plan"]])
def test_wrong_usage_is_2(words):
    done = run(*words)
    assert done.returncode == 2 and done.stderr.strip(), done


@pytest.mark.parametrize("words", [["ps"], ["ls"], ["load", "a"], ["plan", "a"], ["why", "a"], ["events"],
                                   ["top"], ["run", "a", "Hello"], ["logs", "a"]])
def test_no_daemon_is_3(words, tmp_path):
    done = run(*words, folder=tmp_path)
    assert done.returncode == 3, done
    assert "cotenant serve" in done.stderr, "one command to type"


def test_help_teaches():
    whole = run("--help")
    assert whole.returncode == 0
    verbs = [line.split()[0] for line in whole.stdout.splitlines() if line.startswith("  ")]
    assert len(verbs) == len(set(verbs)) > 20
    for verb in (*verbs, "serve", "check", "config", "ps", "ls", "show", "memory", "top", "run", "logs", "load", "unload", "pin", "unpin", "plan",
                 "estimate", "why", "events", "history", "lab"):
        assert verb in whole.stdout
        done = run(verb, "--help")
        assert done.returncode == 0 and len(done.stdout.splitlines()) > 3, verb
        assert max(map(len, done.stdout.splitlines())) <= 110, f"{verb}'s help is too wide"


def test_memory_without_a_daemon(tmp_path):
    done = run("memory", "--json", folder=tmp_path)
    assert done.returncode == 0, done
    memory = json.loads(done.stdout)
    assert memory["daemon"] is False
    assert memory["pools"][0]["size_bytes"] > 1000 * MIB


def test_estimate_of_a_7b_is_its_arithmetic():
    done = run("estimate", MODELS / "7b.gguf", "--context", 4096, "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    host = told["pools"]["host"]
    assert told["architecture"] == "llama"
    assert host["kv_bytes"] == 2 * 32 * 4096 * 1024 * 2
    assert 4000 * MIB < host["weights_bytes"] < 4400 * MIB or told["base_bytes"] > 4400 * MIB
    assert told["base_bytes"] <= told["peak_bytes"] <= told["upper_bytes"]
    wider = json.loads(run("estimate", MODELS / "7b.gguf", "--context", 8192, "--json").stdout)
    assert wider["pools"]["host"]["kv_bytes"] == 2 * host["kv_bytes"]
    assert run("estimate", MODELS / "7b.gguf", "--explain").returncode == 0
    said = run("estimate", MODELS / "7b.gguf").stdout  # what a user meets first, then what there may be
    places = [said.index(words) for words in ("at rest  ", "4096 tokens  ", "131072 tokens  ", "by the engine itself")]
    assert places == sorted(places), said


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 16, b"text"])
def test_estimate_of_what_is_no_model(tmp_path, content):
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    done = run("estimate", path)
    assert done.returncode == 1 and "x.gguf" in done.stderr


def test_estimate_of_a_folder_and_a_table(tmp_path):
    for name in ("tiny.gguf", "embed.gguf"):
        (tmp_path / name).symlink_to(MODELS / name)
    (tmp_path / "bad.gguf").write_bytes(b"text")
    (tmp_path / "notes.txt").write_bytes(b"text")
    told = {row["file"]: row for row in json.loads(run("estimate", tmp_path, "--json").stdout)["models"]}
    assert set(told) == {"bad.gguf", "tiny.gguf", "embed.gguf"} and "bad.gguf" in told["bad.gguf"]["error"]
    assert told["tiny.gguf"]["base_bytes"] < told["tiny.gguf"]["peak_bytes"] and told["tiny.gguf"]["fits"] == "now"
    shown = run("estimate", tmp_path)
    assert "tiny.gguf" in shown.stdout and "bad.gguf" in shown.stderr and "notes" not in shown.stdout
    table = json.loads(run("estimate", MODELS / "7b.gguf", "--json").stdout)["table"]
    cells = {(cell["context"], cell["kv_type"]): cell["full_bytes"] for cell in table}
    assert cells[4096, "f16"] - cells[2048, "f16"] >= 2 * 32 * 2048 * 1024 * 2
    assert cells[32768, "q4_0"] < cells[32768, "q8_0"] < cells[32768, "f16"]
    assert "q8_0" in run("estimate", MODELS / "7b.gguf").stdout


def adapter_of(architecture):
    """A LoRA adapter's file: 4 MiB of one matrix."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()
    entries = b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in
                       {"general.architecture": architecture, "general.type": "adapter"}.items())
    tensor = text("blk.0.attn_q.weight.lora_a") + struct.pack("<IQQIQ", 2, 1024, 1024, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + entries + tensor
    return head + bytes(-len(head) % 32 + 4 * 1024 * 1024)


def test_estimate_counts_what_lies_beside_and_what_is_not_there_yet(tmp_path):
    def told(*words):
        done = run("estimate", MODELS / "chat.gguf", "-c", 2048, "--json", *words)
        assert done.returncode == 0, done
        return json.loads(done.stdout)["launched"]["base_bytes"]
    alone = told()
    adapter = tmp_path / "adapter.gguf"
    adapter.write_bytes(adapter_of("llama"))
    assert told("--lora", adapter) > alone
    by_itself = run("estimate", adapter)
    assert by_itself.returncode == 1 and "LoRA adapter" in by_itself.stderr and "--lora" in by_itself.stderr
    for flag in ("--lora", "--mmproj"):  # a model is neither
        wrong = run("estimate", MODELS / "chat.gguf", flag, MODELS / "tiny.gguf")
        assert wrong.returncode == 1 and "is none" in wrong.stderr
    assert told("--draft", MODELS / "chat.gguf") > alone + (MODELS / "chat.gguf").stat().st_size // 2
    assert run("estimate", MODELS / "chat.gguf", "--draft", tmp_path / "none.gguf").returncode == 1
    whole = (MODELS / "chat.gguf").read_bytes()
    (tmp_path / "chat.gguf.part").write_bytes(whole[:len(whole) // 2])
    half = json.loads(run("estimate", tmp_path / "chat.gguf.part", "-c", 2048, "--json").stdout)
    assert half["launched"]["base_bytes"] == alone and "incomplete" in half["flags"]
    assert half["missing_bytes"] == len(whole) - len(whole) // 2


def test_a_smaller_batch_where_it_makes_a_model_fit(start):
    """Its compute buffer, without flash attention, is what does not fit: 512 tokens' scores over the whole context."""
    entry = real("kv.gguf", context=8192, slots=1, kv="fixed", args="-fa off")
    roomy = json.loads(run("plan", "a", "--json", daemon=start({"a": entry})).stdout)
    assert roomy["ubatch"] == 0
    tight = start({"a": entry}, limit_mib=(roomy["peak_bytes"] >> 20) - 60)
    plan = json.loads(run("plan", "a", "--json", daemon=tight).stdout)
    assert plan["ubatch"] in (32, 64, 128, 256) and "physical batch" in plan["reason"] and plan["fits"] != "never"
    assert chat(tight, "a").status == 200
    wait_for("its log to tell it", lambda: f"n_ubatch              = {plan['ubatch']}" in run("logs", "a", daemon=tight).stdout)


def test_estimate_asks_the_engine_itself():
    words = ["estimate", MODELS / "chat.gguf", "-c", 2048, "--kv", "plain", "--json"]
    formula = json.loads(run(*words).stdout)["launched"]
    done = run(*words, "--engine", LLAMA)
    assert done.returncode == 0, done
    told = json.loads(done.stdout)["launched"]
    assert told["source"] == "engine" and formula["source"] == "formula"
    assert abs(told["base_bytes"] - formula["base_bytes"]) < 0.03 * formula["base_bytes"] + 3 * MIB
    assert run(*words, "--engine", "/nonexistent/llama-server").returncode == 1


@pytest.mark.parametrize("words", [["--context", 0], ["--context", -1], ["--context", 1 << 31], ["--context", "1e9"],
                                   ["--slots", 0], ["--ubatch", 0], ["--kv-type-k", "q9_0"], ["--kv-type-v", ""],
                                   ["--flash-attn", "maybe"], ["--unified-kv", "1"], ["--gpu-layers", "-2"]],
                         ids=lambda words: " ".join(map(str, words)))
def test_estimate_refuses_what_no_engine_takes(words):
    done = run("estimate", MODELS / "tiny.gguf", *words)
    assert done.returncode == 2 and words[0] in done.stderr and "cotenant estimate --help" in done.stderr, done


def test_check_and_config(tmp_path):
    good = tmp_path / "good.yaml"
    good.write_text("listen: 127.0.0.1:0\nmodels: {a: {file: /tmp/a.gguf, context: 4096}}\n"
                    "api_keys: [{key: very-secret, name: x}]\n")
    assert run("check", "-f", good).returncode == 0
    shown = run("config", "-f", good)
    assert shown.returncode == 0 and "4096" in shown.stdout and "very-secret" not in shown.stdout
    bad = tmp_path / "bad.yaml"
    bad.write_text("models:\n  a:\n    file: /tmp/a.gguf\n    contxt: 4096\n")
    done = run("check", "-f", bad)
    assert done.returncode == 1
    assert "bad.yaml:4:5" in done.stderr + done.stdout and "context" in done.stderr + done.stdout


def test_doctor_looks_at_the_daemon_that_runs(start):
    """Its limits and rights, not those of who asks; and it is said whose they are."""
    daemon = start({"a": fake()}, wrap=("prlimit", "--memlock=1048576:1048576"))
    for environment, whose in ((daemon.environment, f"of the daemon (PID {daemon.process.pid}, uid {os.getuid()})"), (None, "")):
        env = {"PATH": os.environ["PATH"]} | ({"RUNTIME_DIRECTORY": environment["RUNTIME_DIRECTORY"]} if environment else
                                              {"COTENANT_SOCKET": "/nonexistent"})
        done = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, timeout=60, env=env)
        assert done.returncode == 0, done.stderr
        found = {row["id"]: row["found"] for row in json.loads(done.stdout)["checks"]}
        assert (found["memlock"] == f"1 MiB {whose}") == bool(whose), found["memlock"]
        assert (whose in found["privileges"]) if whose else "daemon" not in found["privileges"], found["privileges"]


def test_doctor_s_advice_keeps_within_the_limit(tmp_path):
    path = tmp_path / "cotenant.yaml"

    def advice(limit, tree, server=LLAMA, context=2048):
        rows = [f"{name}: {{engine: llama-server, file: {MODELS / name}.gguf, context: {context}}}" for name in ("7b", "3b")]
        path.write_text(f"memory: {{limit: {limit}}}\nengines: {{llama-server: {{path: {server}}}}}\n"
                        f"models: {{{', '.join(rows)}}}\n")
        done = run("doctor", "--root", tree, "-f", str(path), "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        return next(row for row in told["checks"] if row["id"] == "quantisation"), told["quantisation"]
    tree = str(ROOT / "tests" / "trees" / "strix-halo-110g")
    found, rows = advice("auto", tree)
    assert found["status"] == "ok" and "(memory.limit)" not in found["found"] and "at full context" in found["found"]
    assert all(row["grown_rest_bytes"] == row["rest_bytes"] for row in rows)
    whole = sum(row["now_bytes"] + row["rest_bytes"] for row in rows)
    limit = whole - (1 << 30)
    found, rows = advice(f"{limit >> 20}MiB", tree)
    assert found["status"] == "advice" and found["found"].endswith("may be used (memory.limit)")
    assert sum(row["advised_bytes"] + row["rest_bytes"] for row in rows) <= limit
    found, rows = advice("auto", tree, context="{min: 2048, max: 8192}")
    assert "at their largest" in found["found"]
    assert all(row["grown_rest_bytes"] > row["rest_bytes"] for row in rows)
    found, _ = advice("1TiB", tree)
    assert found["status"] == "ok", "a limit beyond the machine is none"
    found, rows = advice("auto", tree, "/no/such/llama-server")
    assert found["status"] == "ok" and "llama-server is not here" in found["found"] and len(rows) == 2, found


def test_lab_sim_plays_a_machine_of_ones_own(tmp_path):
    machine = ROOT / "doc/my-machine.yaml"
    done = run("lab", "sim", machine, "--hours", "1", "--seeds", "1-2", "--faults", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["workload"] == "my-machine" and len(told["runs"]) == 2, done
    assert told["mean"]["invariant_violations"] == 0 and told["mean"]["unfinished"] == 0
    assert told["models"]["chat"]["requests"] > 0 and told["mean"]["faults"]["lie"] > 0
    compared = run("lab", "sim", machine, "--hours", "1", "--seeds", "1", "--policy", "all")
    assert compared.returncode == 0 and "clairvoyant" in compared.stdout and "lru" in compared.stdout
    shown = (ROOT / "doc/simulator.md").read_text().split("$ cotenant lab sim my-machine.yaml ")[1].split("```")[0].splitlines()
    told = run("lab", "sim", machine, *shown[0].split()).stdout.splitlines()
    assert len(shown) > 4 and [line for line in shown[1:] if line != "..." and line not in told] == []

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("machine: {memory: 8GiB, dsk: 1GB}\nmodels:\n  a: {footprint: 1GiB}\n")
    refused = run("lab", "sim", wrong)
    assert refused.returncode == 1 and f"{wrong}:1:25: error: machine: unknown key 'dsk'; try: disk" in refused.stderr
    assert run("lab", "sim", "nowhere").returncode == 2


def test_events_follow(daemon):
    follower = subprocess.Popen([PROGRAM, "events", "--json"], env=daemon.environment, stdout=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL)
    try:
        lines = []
        thread = threading.Thread(target=lambda: [lines.append(json.loads(line)) for line in follower.stdout], daemon=True)
        thread.start()
        wait_for("a load to be told", lambda: (chat(daemon, "a"), any(row["kind"] == "load" for row in lines))[1] or
                 (daemon.model("a", "unload") and False))
        assert all({"id", "kind", "text", "at_ms"} <= row.keys() for row in lines)
    finally:
        follower.terminate()
        follower.wait()


def test_why_names_the_reason(daemon):
    chat(daemon, "a")
    chat(daemon, "b")
    done = run("why", "a", daemon=daemon)
    assert done.returncode == 0 and "b" in done.stdout and "MiB" in done.stdout


def bare(row):
    """A decision without what belongs to a boot: its id and the wall clock; every number and word stays."""
    ids = {key: (row[key] or "").rpartition("-")[2] for key in ("id", "request", "instance")}
    return {**row, **ids, "at_ms": 0}


def test_a_recording_replays_to_the_same_decisions(start, tmp_path):
    record = tmp_path / "record"
    daemon = start({"a": fake(anon_mib=100, footprint_mib=120, load_ms=50), "b": fake(anon_mib=100, footprint_mib=120),
                    "c": fake(args="--die-at loading")}, limit_mib=200, options=["--record", str(record), "--paranoid"])
    in_threads([lambda name=name: chat(daemon, name) for name in "abcabb"])
    chat(daemon, "a")  # so that there is one to kill, whatever becomes of c
    kill(engine_pids(daemon, "a")[-1])
    chat(daemon, "a")
    live = [bare(row) for row in decisions(daemon)]
    assert daemon.stop() == 0
    replayed = run("lab", "replay", record, "--json")
    assert replayed.returncode == 0, replayed
    twice = run("lab", "replay", record, "--json")
    assert replayed.stdout == twice.stdout
    again = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert len(live) > 10 and [bare(row) for row in again if "kind" in row][:len(live)] == live


def test_a_cut_recording_is_refused(start, tmp_path):
    record = tmp_path / "record"
    daemon = start({"a": fake()}, options=["--record", str(record)])
    chat(daemon, "a")
    daemon.stop()
    record.write_bytes(record.read_bytes()[:-3])
    done = run("lab", "replay", record)
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr
    (tmp_path / "junk").write_bytes(b"junk" * 100)
    assert run("lab", "replay", tmp_path / "junk").returncode == 1


def test_what_is_broken_is_said_to_be(start, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"no model at all")
    models = {"good": fake(), "bad": {**real(), "file": str(tmp_path / "bad.gguf")},
              "lost": {**real(), "file": str(tmp_path / "lost.gguf")}}
    daemon = start(models)
    code, told = daemon.command("ls")
    assert code == 0 and "bad cannot be loaded: " in told and "lost cannot be loaded: " in told and "broken" in told
    code, told = daemon.command("plan", "bad")
    assert code == 1 and "bad cannot be loaded" in told
    code, told = daemon.command("unload", "good")
    assert code == 0 and "good: was not loaded" in told
    code, told = daemon.command("check", "-f", daemon.config)
    assert code == 0 and told.count("warning: models.") == 2 and "good, 3 models" in told
    # Without the daemon too; and what is not built is refused even where it is empty.
    with open(daemon.config, "w") as out:
        out.write(config(daemon.port, models, tls={}, cluster={}))
    code, told = daemon.command("check", "-f", daemon.config)
    assert code == 1 and "tls: not built yet" in told and "cluster: not built yet" in told
    done = subprocess.run([PROGRAM, "reload"], env=daemon.environment, capture_output=True, text=True)
    assert done.returncode == 1 and "tls: not built yet" in done.stderr and "cluster: not built yet" in done.stderr
    assert "try: cotenant check" in done.stderr, done.stderr


def test_the_log_tells_what_came_went_and_was_refused(start):
    daemon = start({"a": fake(anon_mib=300, footprint_mib=320), "b": fake(anon_mib=300, footprint_mib=320),
                    "huge": fake(footprint_mib=9000)}, limit_mib=500)
    for name in ("a", "b", "huge"):
        chat(daemon, name, text="a secret of mine")
    wanted = [("loading a ", "320 MiB"), ("a is ready after", "claims"), ("evicted a", "to make room for b"),
              ("a gave back", "after its end"), ("refused a request for huge", "can never fit")]
    lines = daemon.tail(200).splitlines()
    for words in wanted:
        assert [line for line in lines if " info " in line and all(word in line for word in words)], (words, lines)
    assert not [line for line in lines if "a request goes to" in line or "secret" in line], lines


def test_show_tells_what_there_is_and_no_nothings(daemon):
    chat(daemon, "a")
    lines = run("show", "a", daemon=daemon).stdout.splitlines()
    assert lines[0].startswith("a is loaded"), lines
    values = {line.split(None, 1)[0]: line.split(None, 1)[1] for line in lines[1:] if len(line.split(None, 1)) == 2}
    assert values["last_used"].endswith(" ago") and values["start_timeout"] == "15 m 0 s" and values["pinned"] == "no", values
    # Each number has a unit, but for counts and ids.
    bare = [line for line in lines[1:] if line.split()[-1].replace(".", "", 1).isdigit()]
    assert {line.split()[0] for line in bare} <= {"pid", "slots", "slots_used", "running", "weight", "loads", "queue", "layers", "args"}, bare
    assert values["context"] == "4096 tokens" and values["parameters"].endswith(" million") and values["confidence"].endswith(" %")
    assert not [line for line in lines if line.split()[-1] in ("0", "[]", "null") or line.endswith(" 0 B")], lines


def test_a_reload_that_fails_is_told_where_and_what_to_type(start):
    daemon = start({"a": fake()})
    good = open(daemon.config).read()
    for text, code, command in ((good.replace('"a"', '"a\\n"'), "bad_configuration", f"check -f {daemon.config}"),
                                (good.replace(f":{daemon.port}", ":1"), "restart_needed", "serve --help")):
        with open(daemon.config, "w") as out:
            out.write(text)
        done = run("reload", daemon=daemon)
        assert done.returncode == 1 and done.stderr.count("  try: ") == 1, done
        assert done.stderr.endswith(f"\n  try: cotenant {command}\n"), done
        assert json.loads(run("reload", "--json", daemon=daemon).stdout)["error"]["code"] == code
    assert "error reload: " in daemon.tail(), "the log has it too"


def test_run_says_where_the_cause_stands(start):
    daemon = start({"broken": fake(args="--die-at loading"), "dies": fake(args="--die-at midstream --die-status 7"),
                    "hand": fake(autoload=False)})
    for name, command in (("broken", "show broken"), ("dies", "logs dies"), ("hand", "load hand")):
        done = run("run", name, "Hello", daemon=daemon)
        assert done.returncode == 1 and done.stderr.endswith(f"\n  try: cotenant {command}\n"), done


def test_init_writes_names_that_a_configuration_may_hold(tmp_path):
    for name in ("-foo.gguf", "--.gguf", " x y.gguf", "a*.gguf", "b\u202ec.gguf", "..gguf"):
        os.symlink(os.path.join(MODELS, "tiny.gguf"), tmp_path / ("linked-" + name))
        with open(os.path.join(MODELS, "tiny.gguf"), "rb") as model, open(tmp_path / name, "wb") as out:
            out.write(model.read())
    file = str(tmp_path / "c.yaml")
    done = run("init", "-f", file, str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done
    checked = run("check", "-f", file, folder=tmp_path)
    assert "error" not in checked.stdout + checked.stderr, checked


def test_no_secret_of_a_command_line_is_shown(start):
    secret = "s3cretpassword"
    model = {"engine": "command", "footprint": "300MiB", "health": "/health",
             "cmd": f"{FAKE} --host 127.0.0.1 --port ${{PORT}} --alias http://me:{secret}@x/ --api-key {secret}"}
    daemon = start({"a": model})
    chat(daemon, "a")
    for words in (["show", "a"], ["show", "a", "--json"], ["ps", "--json"], ["why", "a"]):
        assert secret not in run(*words, daemon=daemon).stdout
    assert secret not in json.dumps(daemon.get("/api/v1/models/a")) and secret not in daemon.tail(10000)
