"""What somebody meets who has never seen the program: each mistake has its own answer, and one command to type."""
import json
import shutil

import pytest

from harness import MODELS, Stream, chat, fake, models, state, wait_for
from test_cli import run


def test_init_answers_each_mistake_by_its_own_words(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "junk.gguf").write_text("text")
    file = tmp_path / "tiny.gguf"
    shutil.copyfile(MODELS / "tiny.gguf", file)
    out = tmp_path / "out.yaml"
    told = []
    for operand, words, command in ((tmp_path / "none", "none is not there", "init DIR"),
                                    (tmp_path / "empty", "there are no model files", "init DIR"),
                                    (tmp_path / "junk", "no model file in", "init DIR"),
                                    (file, "tiny.gguf is a file; init takes the folder", f"init {tmp_path}")):
        done = run("init", operand, "-f", out)
        assert done.returncode == 1 and words in done.stderr, done
        assert done.stderr.endswith(f"\n  try: cotenant {command}\n") and not out.exists(), done
        told.append(done.stderr)
    assert len(set(told)) == 4
    assert "left out: model file" in told[2] and "junk.gguf" in told[2]


def test_init_leaves_out_what_is_no_model_and_takes_the_rest(tmp_path):
    whole = (MODELS / "tiny.gguf").read_bytes()
    (tmp_path / "good.gguf").write_bytes(whole)
    (tmp_path / "cut.gguf").write_bytes(whole[:len(whole) // 2])
    (tmp_path / "junk.gguf").write_text("text")
    out = tmp_path / "out.yaml"
    done = run("init", tmp_path, "-f", out)
    assert done.returncode == 0 and "1 model\n" in done.stdout, done
    told = json.loads(run("init", tmp_path, "-f", tmp_path / "again.yaml", "--json").stdout)
    assert [(row["name"], row["engine"]) for row in told["models"]] == [("good", "llama-server")] and told["missing"]
    assert sorted(row["file"] for row in told["left_out"]) == [str(tmp_path / name) for name in ("cut.gguf", "junk.gguf")]
    assert done.stderr.count("left out: ") == 2 and "good" in out.read_text() and "junk" not in out.read_text()


@pytest.mark.parametrize("verb", ["serve", "check", "config"])
def test_a_configuration_that_is_not_there_is_to_be_written_first(verb, tmp_path):
    path = tmp_path / "none.yaml"
    done = run(verb, "-f", path, folder=tmp_path)
    assert done.returncode == 1 and f"{path} is not there" in done.stderr, done
    assert done.stderr.endswith(f"\n  try: cotenant init -f {path}\n"), done


def test_serve_is_misused_as_other_verbs_are(tmp_path):
    for words, said in ((["--recrd", "x"], "did you mean --record?"), (["now"], "'now' is too much"), (["-f"], "-f needs a value"),
                        (["--takeover"], "not built yet")):
        done = run("serve", *words, folder=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done
        assert done.stderr.endswith("\n  try: cotenant serve --help\n"), done


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n"])
def test_an_emptied_configuration_takes_no_model_away(start, text):
    daemon = start({"a": fake(), "b": fake()})
    good = open(daemon.config).read()
    assert chat(daemon, "a").status == 200
    with open(daemon.config, "w") as out:
        out.write(text)
    done = run("reload", daemon=daemon)
    assert done.returncode == 1 and "nothing was applied" in done.stderr and "is empty" in done.stderr, done
    assert "models: {}" in done.stderr and set(models(daemon)) == {"a", "b"} and state(daemon, "a") == "idle"
    # Who means it says so.
    with open(daemon.config, "w") as out:
        out.write(json.dumps({**json.loads(good), "models": {}}))
    assert run("reload", daemon=daemon).returncode == 0
    wait_for("all models to go", lambda: models(daemon) == {})


def test_of_a_refused_reload_only_what_is_wrong_is_an_error(start):
    daemon = start({"a": fake(slots=2)})
    text = open(daemon.config).read()
    with open(daemon.config, "w") as out:
        out.write(text.replace('"slots": 2', '"slots": 3').replace(f":{daemon.port}", ":1"))
    assert run("reload", daemon=daemon).returncode == 1
    lines = [line.split(None, 2)[1:] for line in daemon.tail(50).splitlines() if "reload: " in line]
    levels = {said: level for level, said in lines}
    assert levels["reload: models.a.slots: changed (a loaded model starts anew)"] == "info", lines
    assert levels["reload: listen: changed (needs a restart)"] == "error", lines
    assert levels["reload: nothing was applied: restart the daemon for this change"] == "error", lines


def test_a_few_loads_are_no_statistics(tmp_path):
    def told(loads):
        file = tmp_path / "loads"
        file.write_text("".join(f"launch{i}\tmodel\tbuild\t1000000\t100000\t100000\t1100000\t0\t0\n" for i in range(loads)))
        done = run("lab", "calibration", file)
        assert done.returncode == 0, done
        rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if "%" in line}
        return done.stdout, rows["all"]
    text, row = told(3)
    assert "3 of 3" in text and row[-3] == "-" and "no statistics yet" in text and "from 1" not in text, text
    text, row = told(60)
    assert "from 1 " in text and "from 41" in text and "%" in row and "no statistics" not in text, text


def test_top_prints_as_wide_as_it_is_told(start):
    daemon = start({"a-model-with-a-long-name": fake()})
    for columns in (20, 40, 100):
        lines = run("top", "--once", daemon=daemon, COLUMNS=str(columns)).stdout.splitlines()
        assert max(map(len, lines)) <= columns and any(len(line) == columns for line in lines), lines


@pytest.mark.parametrize("verb, meant", [("list", "ls"), ("status", "ps"), ("start", "load"), ("info", "show"), ("lss", "ls")])
def test_a_verb_of_another_program_names_ours(verb, meant):
    done = run(verb)
    assert done.returncode == 2 and f"did you mean '{meant}'?" in done.stderr, done
    assert done.stderr.endswith(f"\n  try: cotenant {meant} --help\n"), done


def test_the_version_is_told_and_that_it_can_be_asked():
    assert "cotenant --version" in run("--help").stdout
    assert run("version").stdout == run("--version").stdout != ""


def test_nothing_is_pulled_and_that_is_said():
    done = run("pull", "llama3")
    assert done.returncode == 2 and "models are files" in done.stderr and "try: cotenant init" in done.stderr, done


def test_a_waiting_stream_says_in_words_what_it_waits_for(start):
    daemon = start({"a": fake(anon_mib=300, footprint_mib=320, args="--chunk-ms 100 --chunks 30"),
                    "b": fake(anon_mib=300, footprint_mib=320, early_headers_after="200ms")}, limit_mib=500)
    first = Stream(daemon, "a")
    first.line()
    text = Stream(daemon, "b", 3).begin().read().decode()
    told = [line for line in text.splitlines() if "place 1" in line]
    assert told and "waits for room" in told[0], text[:300]
    first.leave()
