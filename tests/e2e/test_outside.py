"""Servers that somebody else runs (`url:`): found, measured, let go of, never started or ended."""
import contextlib
import http.server
import json
import os
import socket
import subprocess
import threading

import openai
import pytest

import harness
from harness import MIB, alive, ask, chat, content, decisions, free_port, models, real, state, wait_for, wait_state


def sdk(daemon, **more):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{daemon.port}/v1", api_key="none", max_retries=0, **more)


class Server:
    """A llama-server that nobody but the test runs."""

    def __init__(self, file="tiny.gguf", port=None, args=()):
        self.port = port or free_port()
        self.process = subprocess.Popen(
            [harness.LLAMA, "-m", str(harness.MODELS / file), "--host", "127.0.0.1", "--port", str(self.port), "-c", "2048",
             "-np", "2", "-lm", "none", "-fit", "off", "--sse-ping-interval", "1", *args],
            env={**os.environ, "OMP_WAIT_POLICY": "passive"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def serve():
    servers = []

    def begin(*args, **more):
        servers.append(Server(*args, **more))
        return servers[-1]
    yield begin
    for server in servers:
        server.end()


def outside(url, **more):
    return {"engine": "llama-server", "url": url, **more}


def test_a_server_of_somebody_else_is_found_measured_and_left_alone(start, serve):
    server, other = serve(), serve("embed.gguf", args=("--embeddings",))
    daemon = start({"chat": outside(server.url), "embed": outside(other.url), "own": real()})
    wait_state(daemon, "chat", "idle")
    wait_state(daemon, "embed", "idle")
    row = models(daemon)["chat"]
    assert row["managed"] is False and row["pid"] == server.process.pid and row["slots"] == 2
    assert models(daemon)["own"]["managed"] is True
    client = sdk(daemon)
    said = client.chat.completions.create(model="chat", max_tokens=4, messages=[{"role": "user", "content": "Hello"}])
    assert said.choices[0].message.content.strip() == "Many models share one"
    parts = client.chat.completions.create(model="chat", max_tokens=4, stream=True,
                                           messages=[{"role": "user", "content": "Hello"}])
    assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices).strip() == "Many models share one"
    assert len(client.embeddings.create(model="embed", input="a cat").data[0].embedding) > 100
    measured = wait_for("its bytes", lambda: models(daemon)["chat"]["measured_bytes"])
    assert measured > 5 * MIB
    owners = daemon.get("/api/v1/memory")["owners"]
    assert [o for o in owners if o["kind"] == "instance" and o["name"] == "chat" and o["measured_bytes"] and
            o["managed"] is False], owners
    assert "chat (url)" in daemon.command("ps")[1]
    # Nobody's room is taken from it, and an unload only lets go of it.
    assert ask(daemon, "POST", "/api/v1/models/chat/unload", {}).status == 200
    wait_state(daemon, "chat", "unloaded")
    assert alive(server.process.pid)
    assert content(chat(daemon, "chat")) == "Many models share one"
    daemon.stop()
    assert alive(server.process.pid) and alive(other.process.pid)


def test_one_that_is_gone_is_an_answer_and_comes_back_by_itself(start, serve):
    server = serve()
    daemon = start({"chat": outside(server.url)})
    wait_state(daemon, "chat", "idle")
    server.end()
    for _ in range(3):
        answer = chat(daemon, "chat")
        assert answer.status == 503 and answer.error["code"] in ("unreachable", "backing_off"), answer
        assert server.url in answer.error["message"] and "start it there" in answer.error["message"]
        assert int(answer.headers["Retry-After"]) <= 5
    again = serve(port=server.port)
    wait_state(daemon, "chat", "idle")
    assert models(daemon)["chat"]["pid"] == again.process.pid
    assert content(chat(daemon, "chat")) == "Many models share one"
    # Idle, its end is noticed without anybody asking.
    again.end()
    wait_state(daemon, "chat", "unloaded", "failed")


def test_one_that_was_never_there_costs_no_history(start):
    daemon = start({"chat": outside(f"http://127.0.0.1:{free_port()}"), "far": outside("http://no-such-host.invalid:80")})
    answers = [chat(daemon, name) for name in ("chat", "far")]
    assert [a.status for a in answers] == [503, 503], answers
    assert "models.far.url" in answers[1].error["message"]
    assert len(decisions(daemon, "load")) <= 2


class Named(http.server.BaseHTTPRequestHandler):
    """Answers with what reached it."""
    protocol_version = "HTTP/1.1"
    seen = []

    def do_POST(self):  # noqa: N802
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(dict(self.headers))
        body = json.dumps({"choices": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # noqa: N802
        self.send_error(404)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("forward", [True, False])
def test_the_client_s_key_reaches_it_only_where_the_model_says_so(start, forward):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Named)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Named.seen.clear()
    authority = f"localhost:{server.server_port}"
    daemon = start({"other": {"url": f"http://{authority}", "forward_auth": forward}})
    assert chat(daemon, "other", headers={"Authorization": "Bearer secret-1"}).status == 200
    assert Named.seen[0]["Host"] == authority
    assert Named.seen[0].get("Authorization") == ("Bearer secret-1" if forward else None)
    server.shutdown()


def test_one_that_speaks_no_http(start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def talk():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):  # who was told enough is gone
                    connection.sendall(b"220 mail.example ESMTP\r\n" * 2)
                    connection.recv(100)
        threading.Thread(target=talk, daemon=True).start()
        daemon = start({"mail": {"url": f"http://127.0.0.1:{server.getsockname()[1]}"}})
        answer = chat(daemon, "mail")
        assert answer.status == 503 and "does not speak HTTP" in answer.error["message"], answer


def test_with_cmd_beside_it_the_server_is_ours_and_listens_there(start):
    port = free_port()
    daemon = start({"own": {"cmd": f"{harness.LLAMA} -m {harness.MODELS / 'tiny.gguf'} -c 2048 -lm none --port {port}",
                            "url": f"http://127.0.0.1:{port}", "footprint": "64MiB"}})
    assert state(daemon, "own") == "unloaded"
    assert content(chat(daemon, "own")) == "Many models share one"
    row = models(daemon)["own"]
    assert row["managed"] is True
    daemon.stop()
    assert not alive(row["pid"])


@pytest.mark.parametrize("model, said", [
    ({"url": "https://api.example"}, "https to a server is not built yet"),
    ({"url": "http://127.0.0.1:8080/v1"}, "without a path"),
    ({"url": "ftp://127.0.0.1"}, "not the address of a server"),
    ({"url": "http://127.0.0.1:99999"}, "not the address of a server"),
    ({"url": "http://10.0.0.9:80", "cmd": "my-server"}, "it listens on 127.0.0.1"),
])
def test_a_wrong_address_is_refused(tmp_path, model, said):
    file = tmp_path / "cotenant.yaml"
    file.write_text(json.dumps({"models": {"m": model}}))
    done = subprocess.run([harness.PROGRAM, "check", "-f", str(file)], capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stdout + done.stderr, done


def test_a_request_that_comes_back_is_refused_and_not_sent_round(start):
    here, there = free_port(), free_port()
    one = start({"m": {"url": f"http://127.0.0.1:{there}"}}, listen=f"127.0.0.1:{here}")
    other = start({"m": {"url": f"http://127.0.0.1:{here}"}}, listen=f"127.0.0.1:{there}", wait=True)
    one.port, other.port = here, there
    for daemon in one, other:
        answer = chat(daemon, "m", timeout=60)
        assert answer.status in (503, 508), answer  # as soon as either knows the other: it comes back
    wait_for("a loop to be told", lambda: chat(one, "m", timeout=60).status == 508)
    assert chat(one, "m").error["code"] == "loop"
    assert ask(one, "GET", "/health", timeout=60).status in (409, 503, 508)


def test_a_daemon_that_is_its_own_server_says_so(start):
    port = free_port()
    name = socket.gethostname()
    try:
        socket.create_connection((name, 1), timeout=1)
    except ConnectionRefusedError:
        pass
    except OSError:
        pytest.skip(f"{name} does not lead to this machine")
    daemon = start({"m": {"url": f"http://{name}:{port}"}}, listen=f"0.0.0.0:{port}", api_keys=[{"key": "k", "name": "k"}])
    daemon.port = port
    answer = chat(daemon, "m", headers={"Authorization": "Bearer k"}, timeout=60)
    assert (answer.status, answer.error["code"]) == (503, "unreachable"), answer
    assert "this daemon itself" in answer.error["message"]
