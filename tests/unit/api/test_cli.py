"""The command line without and with a daemon: exit codes, and that every error names a command to type.

The daemon here is a few lines that answer what they are told to, well or badly.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def run(*words, **environment):
    bare = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
    return subprocess.run([PROGRAM, *words], env={**bare, **environment}, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)


class Daemon:
    """Answers each connection with the same bytes, and keeps what it was asked."""

    def __init__(self, answer):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "cotenant.sock")
        self.answer, self.asked = answer, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                self.asked.append(client.recv(65536).decode())
                client.sendall(self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)  # ends accept(), so that nobody else gets its descriptor meanwhile
        self.thread.join()
        self.listener.close()
        self.folder.cleanup()

    def run(self, *words):
        return run(*words, COTENANT_SOCKET=self.path)


def answer(status, value):
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


def refusal(status, code, message):
    return answer(status, {"error": {"message": message, "type": "x", "code": code}})


class Usage(unittest.TestCase):
    def test_without_a_verb_it_lists_them(self):
        done = run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("estimate", done.stderr)

    def test_every_verb_explains_itself_with_an_example(self):
        listed = [line.split()[0] for line in run("--help").stdout.splitlines() if line.startswith("  ")]
        self.assertGreater(len(listed), 15)
        for verb in listed:
            done = run(verb, "--help")
            self.assertEqual(done.returncode, 0, verb)
            self.assertIn("Examples:\n  ", done.stdout, verb)
            self.assertEqual(run("help", verb).stdout, done.stdout)

    def test_wrong_usage_is_2_and_names_a_command(self):
        for words in (["pss"], ["frobnicate"], ["--nothing"], ["ps", "--jsn"], ["ps", "x"], ["load"], ["show", "a", "b"],
                      ["history", "--since", "3 fortnights"], ["history", "--limit", "-3"], ["history", "--limit"],
                      ["history", "--kind", "dreams"], ["ps", "--url", "https://x"], ["ps", "--url", "http://x:99999"],
                      ["ps", "--socket", "/x", "--url", "http://y"], ["estimate", "x", "--kv", "odd"]):
            done = run(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("try: cotenant ", done.stderr, words)

    def test_a_verb_to_come_is_no_misspelling(self):
        for verb in ("import", "lease", "leases", "hold", "resume"):
            done = run(verb)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not built yet in this version\n  try: cotenant --help", done.stderr)

    def test_a_misspelt_verb_or_option_is_named(self):
        self.assertIn("did you mean 'unload'", run("unlaod").stderr)
        self.assertIn("did you mean --json", run("ps", "--jsno").stderr)


class FirstConfiguration(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A model as small as there is one; init looks at what a file holds, too."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.gguf")
            subprocess.run([sys.executable, os.path.join(ROOT, "tools/models/make_gguf.py"), "tiny", path], check=True,
                           capture_output=True)
            with open(path, "rb") as file:
                cls.gguf = file.read()
        with open(os.path.join(ROOT, "tests/corpus/forms/whisper.raw"), "rb") as file:
            cls.whisper = file.read()

    def test_init_writes_down_what_is_there_once(self):
        with tempfile.TemporaryDirectory() as folder:
            def put(name, begin=b""):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as out:
                    out.write(begin or self.gguf)
            for name in ("Chat 7B-Q4.gguf", "big-00001-of-00001.gguf", "more-00002-of-00002.gguf", "sub/big.GGUF", "sub/big.gguf",
                         "mmproj-chat.gguf", ".hidden.gguf"):
                put(name)
            put("speech.bin", self.whisper)
            os.truncate(os.path.join(folder, "speech.bin"), 77704698)  # as long as it says that it is
            put("weights.bin", b"whatever")
            put("notes.txt", b"text")
            os.symlink(".", os.path.join(folder, "round"))
            target = os.path.join(folder, "c.yaml")
            done = run("init", folder, "-f", target)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stdout.splitlines()[-1], f"next: cotenant check -f {target} && cotenant serve -f {target}")
            models = json.loads(run("config", "-f", target, "--json").stdout)["models"]
            self.assertEqual(sorted(models), ["big", "big-2", "big-3", "chat-7b-q4", "speech"])
            self.assertEqual(models["chat-7b-q4"]["file"], os.path.join(folder, "Chat 7B-Q4.gguf"))
            self.assertEqual(models["speech"]["engine"], "whisper-server")
            before = open(target).read()
            again = run("init", folder, "-f", target)
            self.assertEqual((again.returncode, open(target).read()), (1, before))
            self.assertIn(f"try: cotenant check -f {target}", again.stderr)

    def test_init_leaves_nothing_that_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "in"))
            for name in (b"bad\xff.gguf", b"in/${x} $y.gguf", b"in/x-mmproj.gguf"):
                with open(os.path.join(os.fsencode(folder), name), "wb") as out:
                    out.write(self.gguf)
            target = os.path.join(folder, "c.yaml")
            done = run("init", folder, os.path.join(folder, "in"), "-f", target)
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("left out: 1 file whose name is not UTF-8", done.stdout)
            models = json.loads(run("config", "-f", target, "--json").stdout)["models"]
            self.assertEqual([model["file"] for model in models.values()], [os.path.join(folder, "in/$${x} $y.gguf")])
            self.assertNotIn("No such file", run("check", "-f", target).stderr)
            lost = run("init", folder, os.path.join(folder, "nowhere"), "-f", target + "2")
            self.assertEqual((lost.returncode, os.path.exists(target + "2")), (1, False))
            self.assertIn("nowhere is not there", lost.stderr)

    def test_init_without_models_writes_nothing_and_asks_for_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("init", folder, "-f", os.path.join(folder, "c.yaml"))
            self.assertEqual((done.returncode, os.listdir(folder)), (1, []))
            self.assertIn("try: cotenant init DIR", done.stderr)


class NoDaemon(unittest.TestCase):
    def test_is_3_and_says_how_to_start_one(self):
        for words in (["ps"], ["load", "x"], ["events"], ["logs", "x"], ["ps", "--url", "http://127.0.0.1:1"],
                      ["ps", "--socket", "/nonexistent/s"]):
            done = run(*words, COTENANT_SOCKET="/nonexistent/socket", COTENANT_CONFIG="/etc/my.yaml")
            self.assertEqual(done.returncode, 3, words)
            self.assertIn("try: cotenant serve -f /etc/my.yaml", done.stderr)

    def test_an_empty_name_of_a_socket_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("ps", COTENANT_SOCKET="", RUNTIME_DIRECTORY=folder, XDG_RUNTIME_DIR="", HOME=folder)
            self.assertNotIn("localhost", done.stderr)
            done = run("ps", "--socket", "", COTENANT_SOCKET="")
            self.assertIn("--socket is empty", done.stderr)

    def test_where_there_is_no_file_the_help_says_how_to_write_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, code, verb, form in ((["ps"], 3, "serve", "serve --help"), (["check"], 1, "init", "init\n"),
                                            (["config"], 1, "init", "init\n"), (["serve"], 1, "init", "init\n"),
                                            (["check", "-f", "/nonexistent/c.yaml"], 1, "config", "init -f /nonexistent/c.yaml\n")):
                done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL,
                                      env={"PATH": "/usr/bin", "HOME": folder, "COTENANT_SOCKET": "/nonexistent/s"})
                self.assertEqual(done.returncode, code, (words, done.stderr))
                self.assertIn(f"try: cotenant {form}", done.stderr, words)
                self.assertIn("chat: {file: ~/models/NAME.gguf}", run(verb, "--help").stdout)

    def test_check_shows_where_what_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.yaml")
            with open(path, "w", encoding="utf-8") as out:
                out.write("models:\n  a:\n    slots: 1\n    file: /nonexistent/a.gguf\n"
                          "  b: {cmd: \"no-such-program-at-all --port ${PORT}\"}\n"
                          "  c: {engine: whisper-server, file: /nonexistent/c.bin}\n")
            done = run("check", "-f", path, PATH="/nonexistent")
            self.assertEqual(done.returncode, 0, done.stderr)
            for line in ("2:3: warning: models.a: the engine's program", "4:11: warning: models.a: ",
                         "5:12: warning: models.b: the engine's program no-such-program-at-all",
                         "6:15: warning: models.c: the engine's program", "6:37: warning: models.c: "):
                self.assertIn(f"{path}:{line}", done.stdout)
            with open(path, "a", encoding="utf-8") as out:
                out.write("  d: {fill: x}\n")
            done = run("check", "-f", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"try: ${{EDITOR:-vi}} {path}", done.stderr)

    def test_a_check_needs_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.yaml")
            with open(path, "w", encoding="utf-8") as out:
                out.write("models: {a: {file: /m/a.gguf}}\n")
            self.assertEqual(run("check", "-f", path).returncode, 0)
            self.assertTrue(json.loads(run("check", "-f", path, "--json").stdout)["ok"])
            with open(path, "w", encoding="utf-8") as out:
                out.write("models: {a: {flie: /m/a.gguf}}\n")
            done = run("check", "-f", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn("file", done.stdout)
            self.assertIn("try: ", done.stderr)


class Lab(unittest.TestCase):
    def test_a_recording_replays_to_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "record")
            done = run("lab", "sim", "--seeds", "3", "--record", path)
            self.assertEqual(done.returncode, 0, done)
            first = run("lab", "replay", path, "--json")
            self.assertEqual(first.returncode, 0)
            self.assertEqual(run("lab", "replay", path, "--json").stdout, first.stdout)
            rows = [json.loads(line) for line in first.stdout.splitlines()]
            self.assertLessEqual({"id", "kind", "text", "at_ms", "model"}, set(rows[0]))
            self.assertGreater(rows[-1]["events"], 100)
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) - 5)
            self.assertIn("within an event", run("lab", "replay", path).stdout)

    def test_what_is_no_recording_is_1(self):
        self.assertEqual(run("lab", "replay", "/dev/null").returncode, 1)
        self.assertEqual(run("lab", "replay", "/nonexistent").returncode, 1)

    def test_sim_tells_each_seed(self):
        told = json.loads(run("lab", "sim", "--seeds", "5-7", "--json").stdout)
        self.assertEqual([row["seed"] for row in told["runs"]], [5, 6, 7])
        self.assertEqual([row["invariant_violations"] for row in told["runs"]], [0, 0, 0])
        for words in (["sim", "dreams"], ["sim", "--seeds", "9-1"], ["replay"], ["bake"]):
            self.assertEqual(run("lab", *words).returncode, 2, words)


class WithDaemon(unittest.TestCase):
    def test_json_is_what_the_daemon_said(self):
        with Daemon(answer(200, {"models": [{"name": "a", "later": [1]}]})) as daemon:
            done = daemon.run("ps", "--json")
            self.assertEqual(json.loads(done.stdout), {"models": [{"name": "a", "later": [1]}]})
            self.assertTrue(daemon.asked[0].startswith("GET /api/v1/models?loaded=1 HTTP/1.1\r\n"))

    def test_names_are_encoded_in_the_path(self):
        with Daemon(answer(200, {})) as daemon:
            daemon.run("show", "org/model:q4 ü?")
            self.assertIn("GET /api/v1/models/org%2Fmodel%3Aq4%20%C3%BC%3F HTTP/1.1", daemon.asked[0])

    def test_what_does_not_fit_is_4(self):
        for status, code in ((507, "never_fits"), (503, "no_room")):
            with Daemon(refusal(status, code, "needs 9 GiB")) as daemon:
                done = daemon.run("load", "big")
                self.assertEqual(done.returncode, 4)
                self.assertIn("needs 9 GiB", done.stderr)
                self.assertIn("try: cotenant ", done.stderr)
        for fits, code in (("now", 0), ("tight", 0), ("after-eviction", 0), ("never", 4)):
            with Daemon(answer(200, {"fits": fits, "evict": [], "reason": "r"})) as daemon:
                self.assertEqual(daemon.run("plan", "big").returncode, code)
                self.assertEqual(daemon.run("plan", "big", "--json").returncode, code)

    def test_other_refusals_are_1(self):
        for status, code in ((404, "model_not_found"), (403, "admin_needed"), (502, "load_failed"), (500, "x")):
            with Daemon(refusal(status, code, "no")) as daemon:
                self.assertEqual(daemon.run("load", "a").returncode, 1)
                self.assertEqual(json.loads(daemon.run("show", "a", "--json").stdout)["error"]["code"], code)

    def test_a_broken_daemon_is_1_and_no_crash(self):
        for bytes_ in (b"", b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{]{]{", answer(200, [1, 2]), answer(200, {"models": 3})):
            with Daemon(bytes_) as daemon:
                for words in (["ps"], ["ls"], ["show", "a"], ["plan", "a"], ["why", "a"], ["history"], ["logs", "a"]):
                    self.assertIn(daemon.run(*words).returncode, (0, 1, 4), (bytes_, words))

    def test_a_terminal_is_not_written_to_by_names(self):
        with Daemon(answer(200, {"models": [{"name": "\x1b[2Jx", "state": "\x07"}]})) as daemon:
            done = daemon.run("ps")
            self.assertNotIn("\x1b", done.stdout)
            self.assertIn("?[2Jx", done.stdout)

    def test_events_are_followed_until_the_stream_ends(self):
        events = b"".join(b'id: %d\nevent: decision\ndata: {"text": "event %d", "at_ms": 1}\n\n' % (i, i) for i in range(3))
        stream = b"".join(b"%x\r\n%s\r\n" % (len(events[i:i + 7]), events[i:i + 7]) for i in range(0, len(events), 7))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        with Daemon(head + stream + b"0\r\n\r\n") as daemon:
            done = daemon.run("events")
            self.assertEqual(done.returncode, 0)
            self.assertEqual([line.split("  ")[1] for line in done.stdout.splitlines()], ["event 0", "event 1", "event 2"])
            self.assertEqual(len(daemon.run("events", "--json").stdout.splitlines()), 3)
        with Daemon(head + stream) as daemon:
            self.assertEqual(daemon.run("events").returncode, 1, "a cut stream is no end")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
