"""Who may do what: roles, keys, Host and Origin, the socket."""
import grp
import http.client
import json
import os
import socket
import sqlite3
import stat

import pytest

from harness import Stream, ask, chat, chat_body, config, fake, free_port, models, real, state, wait_for, wait_state

KEYS = [{"key": "use-key", "name": "laptop", "role": "use", "models": ["a"]},
        {"key": "admin-key", "name": "root", "role": "admin"}]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def keyed(start):
    return start({"a": real("alpha.gguf"), "b": real("beta.gguf")}, api_keys=KEYS, local_admin=False)


def test_without_a_key_nothing_but_health(keyed):
    assert chat(keyed, "a").status == 401
    assert ask(keyed, "GET", "/v1/models").status == 401
    assert ask(keyed, "GET", "/api/v1/memory").status == 401
    assert ask(keyed, "GET", "/healthz").status == 200


def test_a_wrong_key(keyed):
    answer = chat(keyed, "a", headers=bearer("use-kez"))
    assert answer.status == 401 and answer.error["message"]


def test_a_key_for_some_models(keyed):
    assert chat(keyed, "a", headers=bearer("use-key")).status == 200
    assert chat(keyed, "b", headers=bearer("use-key")).status in (403, 404)
    listed = ask(keyed, "GET", "/v1/models", headers=bearer("use-key")).json["data"]
    assert "b" not in [model["id"] for model in listed]


def test_the_anthropic_header_is_a_key_too(keyed):
    body = {"model": "a", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}
    assert ask(keyed, "POST", "/v1/messages", body, {"x-api-key": "use-key"}).status == 200


def test_role_use_reads_and_does_not_command(keyed):
    assert ask(keyed, "GET", "/api/v1/models", headers=bearer("use-key")).status == 200
    assert ask(keyed, "POST", "/api/v1/models/a/load", {}, bearer("use-key")).status == 403
    assert ask(keyed, "POST", "/api/v1/config/reload", {}, bearer("use-key")).status == 403


def test_a_follower_keeps_its_key_over_a_reload(keyed):
    follower = http.client.HTTPConnection("127.0.0.1", keyed.port, timeout=30)
    follower.request("GET", "/api/v1/events", headers=bearer("use-key"))
    events = follower.getresponse()
    assert events.readline().startswith(b":")
    with open(keyed.config, "w") as out:
        out.write(config(keyed.port, {"a": real("alpha.gguf"), "b": real("beta.gguf")}, api_keys=KEYS[1:],
                         local_admin=False))
    assert ask(keyed, "POST", "/api/v1/config/reload", {}, bearer("admin-key")).status == 200
    assert chat(keyed, "a", headers=bearer("use-key")).status == 401
    for model in "b", "a":
        assert chat(keyed, model, headers=bearer("admin-key")).status == 200
    data = next(line for line in iter(events.readline, b"") if line.startswith(b"data:"))
    assert json.loads(data[5:])["model"] == "a"
    follower.close()


def test_role_admin_commands(keyed):
    assert ask(keyed, "POST", "/api/v1/models/a/load", {}, bearer("admin-key")).status == 200
    assert ask(keyed, "POST", "/api/v1/models/a/unload", {}, bearer("admin-key")).status == 200


def test_loopback_without_keys_is_use(start):
    daemon = start({"a": real("alpha.gguf")}, local_admin=False)
    assert chat(daemon, "a").status == 200
    assert ask(daemon, "POST", "/api/v1/models/a/unload", {}).status == 403
    assert daemon.model("a", "unload")[0] == 200, "over the socket we are admin"


def test_local_admin(start):
    daemon = start({"a": real("alpha.gguf")}, local_admin=True)
    assert ask(daemon, "POST", "/api/v1/models/a/load", {}).status == 200


@pytest.fixture
def open_daemon(start):
    return start({"a": real("alpha.gguf")}, hosts=["box.lan"], cors=["https://app.example"])


@pytest.mark.parametrize("host, good", [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("box.lan", True),
                                        ("evil.example", False), ("localhost.evil.example", False), ("", False)])
def test_host(open_daemon, host, good):
    answer = ask(open_daemon, "GET", "/v1/models", headers={"Host": f"{host}:{open_daemon.port}" if host else ""})
    assert (answer.status == 200) == good, answer


@pytest.mark.parametrize("origin, good", [(None, True), ("https://app.example", True), ("https://evil.example", False),
                                          ("null", False)])
def test_origin(open_daemon, origin, good):
    headers = {"Origin": origin} if origin else {}
    answer = ask(open_daemon, "POST", "/v1/chat/completions", chat_body("a"), headers)
    assert (answer.status == 200) == good, answer
    assert ask(open_daemon, "POST", "/v1/chat/completions", chat_body("a"),
               {**headers, "Content-Type": "text/plain"}).status == (200 if good else 403)


def test_same_origin(open_daemon):
    port = open_daemon.port
    answer = ask(open_daemon, "POST", "/v1/chat/completions", chat_body("a"), {"Origin": f"http://127.0.0.1:{port}"})
    assert answer.status == 200


def test_commands_need_json(open_daemon):
    answer = ask(open_daemon, "POST", "/api/v1/models/a/load", "{}", {"Content-Type": "text/plain"})
    assert answer.status in (400, 403, 415)


def test_the_socket_is_ours_alone(open_daemon):
    folder = os.path.dirname(open_daemon.socket)
    assert stat.S_IMODE(os.stat(folder).st_mode) & 0o077 == 0
    assert stat.S_ISSOCK(os.stat(open_daemon.socket).st_mode)


def test_the_group_of_the_socket_may_come_in(start):
    group = grp.getgrgid(os.getegid())
    daemon = start({"a": real("tiny.gguf")}, socket={"group": group.gr_name})
    for path, mode in (os.path.dirname(daemon.socket), 0o750), (daemon.socket, 0o660):
        found = os.stat(path)
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (mode, group.gr_gid)


def test_engines_cannot_be_reached_by_others(open_daemon):
    """They listen on a socket in our folder, or on loopback behind a key: without it, nothing is answered."""
    chat(open_daemon, "a")
    pid = open_daemon.get("/api/v1/models")["models"][0]["pid"]
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]
    for address in listening:
        assert address.startswith("0100007F:"), "loopback alone"
        with socket.create_connection(("127.0.0.1", int(address.split(":")[1], 16)), 5) as sock:
            sock.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"content\":\"x\"}")
            assert b" 401 " in sock.recv(4096)


def test_no_listening_on_the_network_without_keys(start):
    daemon = start({"a": real("alpha.gguf")}, listen=f"0.0.0.0:{free_port()}", wait=False)
    assert daemon.process.wait(30) != 0
    assert "api_keys" in daemon.tail()


EJECTS = [("POST", "/api/models/unload/a", None), ("POST", "/models/unload", {"model": "a"}),
          ("POST", "/api/generate", {"model": "a", "keep_alive": 0}),
          ("POST", "/api/chat", {"model": "a", "messages": [], "keep_alive": "0s"}),
          ("POST", "/unload", None), ("GET", "/unload", None), ("POST", "/api/models/unload", None)]


@pytest.mark.parametrize("method, path, body", EJECTS)
def test_an_eject_that_other_clients_know_is_a_wish(start, method, path, body):
    slow = fake(args="--chunks 100000 --chunk-ms 10")
    daemon = start({"a": slow, "b": fake()}, api_keys=[
        {"key": "use-key", "name": "user", "role": "use", "models": ["a"]}, {"key": "admin-key", "name": "root", "role": "admin"}])

    def eject():
        return ask(daemon, method, path, body, bearer("use-key"))
    stream = Stream(daemon, "a", headers=bearer("use-key"))
    assert stream.line()
    assert chat(daemon, "b", headers=bearer("admin-key")).status == 200
    refused = eject()
    assert refused.status == 409 and "1 requests run on it" in refused.text, refused
    stream.leave()
    wait_state(daemon, "a", "idle")
    daemon.model("a", "pin")
    refused = eject()
    assert refused.status == 409 and "pinned" in refused.text, refused
    daemon.model("a", "unpin")
    answer = eject()
    assert answer.status == 200, answer
    assert state(daemon, "a") == "unloaded" and state(daemon, "b") == "idle", "what the key may not use stays"
    if path.startswith("/api/") and body:
        assert answer.json["done"] is True and answer.json["done_reason"] == "unload"
    assert eject().status == 200, "what is gone already is no fault"


def test_a_page_unloads_nothing_by_get(start):
    daemon = start({"a": fake()}, local_admin=False)
    chat(daemon, "a")
    assert ask(daemon, "GET", "/unload", headers={"Origin": "http://evil.example"}).status == 403
    assert ask(daemon, "GET", "/unload", headers={"Origin": f"http://127.0.0.1:{daemon.port}"}).status == 403
    assert ask(daemon, "HEAD", "/unload").status == 405
    assert ask(daemon, "POST", "/api/generate", {"model": "a", "keep_alive": 0}, {"Origin": "http://evil.example"}).status == 403
    assert state(daemon, "a") == "idle"
    assert ask(daemon, "POST", "/models/load", {"model": "a"}).status == 403, "a load is an admin's"


def test_keep_alive_zero_behind_an_answer_unloads(start):
    daemon = start({"a": fake()})
    body = {"model": "a", "messages": [{"role": "user", "content": "x"}], "keep_alive": 0, "stream": False}
    assert ask(daemon, "POST", "/api/chat", body).status == 200
    wait_state(daemon, "a", "unloaded")


def test_a_key_may_ask_for_so_much(start):
    daemon = start({"a": fake(slots=4, args="--chunks 100000 --chunk-ms 10 -np 4")}, api_keys=[
        {"key": "two", "name": "two", "parallel": 2}, {"key": "few", "name": "few", "requests_per_min": 3}])
    streams = [Stream(daemon, "a", headers=bearer("two")) for _ in range(2)]
    assert all(stream.line() for stream in streams)
    refused = chat(daemon, "a", headers=bearer("two"))
    assert refused.status == 429 and refused.error["code"] == "key_parallel" and refused.headers["Retry-After"], refused
    assert ask(daemon, "GET", "/v1/models", headers=bearer("two")).status == 200, "looks do not count"
    streams.pop().leave()
    wait_for("it to be over", lambda: models(daemon)["a"]["running"] == 1)
    streams.append(Stream(daemon, "a", headers=bearer("two")))
    assert streams[-1].line(), "room for one more"
    for _ in range(3):
        stream = Stream(daemon, "a", headers=bearer("few"))
        assert stream.line()
        stream.leave()
    refused = chat(daemon, "a", headers=bearer("few"))
    assert refused.status == 429 and refused.error["code"] == "key_rate", refused
    assert 1 <= int(refused.headers["Retry-After"]) <= 20
    for stream in streams:
        stream.leave()


def test_a_key_for_some_models_reads_no_other_s_name(start):
    daemon = start({"a": fake(footprint_mib=60), "hidden": fake(footprint_mib=60)}, 100, api_keys=[
        {"key": "use-key", "name": "user", "models": ["a"]}, {"key": "admin-key", "name": "root", "role": "admin"}])
    use = bearer("use-key")
    follower = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    follower.request("GET", "/api/v1/events", headers=use)
    events = follower.getresponse()
    for _ in range(2):
        assert chat(daemon, "a", headers=use).status == 200
        assert chat(daemon, "hidden", headers=bearer("admin-key")).status == 200
    assert "another model" in ask(daemon, "GET", "/api/v1/plan?model=a", headers=use).text
    for path in ("plan?model=a", "why/a", "decisions", "decisions?model=a", "history", "models", "models/a", "requests"):
        answer = ask(daemon, "GET", f"/api/v1/{path}", headers=use)
        assert answer.status == 200 and "hidden" not in answer.text, (path, answer)
    assert "hidden" in ask(daemon, "GET", "/api/v1/decisions?model=a", headers=bearer("admin-key")).text
    seen = b""
    while b'"kind":"evict"' not in seen or b"another model" not in seen:
        seen += events.readline()
    assert b"hidden" not in seen
    follower.close()


def row_sizes(daemon):
    with sqlite3.connect(os.path.join(daemon.folder, "state", "history.db")) as history:
        return [row[0] for row in history.execute("SELECT length(row) FROM learned")]


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_may_use_so_many_tokens_a_day(start, stream):
    keys = [{"key": "k", "name": "k", "tokens_per_day": 100}, {"key": "o", "name": "o"}]
    daemon = start({"a": real("tiny.gguf")}, api_keys=keys)

    def used(daemon):
        rows = [row for row in daemon.get("/api/v1/requests")["requests"] if row["key"] == "k" and row["outcome"] == "ok"]
        return sum(row["tokens_in"] + row["tokens_out"] for row in rows)
    for _ in range(20):
        answer = chat(daemon, "a", 30, headers=bearer("k"), stream=stream)
        if answer.status != 200:
            break
    assert (answer.status, answer.error["code"]) == (429, "key_tokens"), answer
    assert used(daemon) >= 100 and 1 <= int(answer.headers["Retry-After"]) <= 60
    assert chat(daemon, "a", 1, headers=bearer("o")).status == 200, "the other key has no such limit"
    assert daemon.stop() == 0
    again = start({"a": real("tiny.gguf")}, api_keys=keys, folder=daemon.folder)
    answer = chat(again, "a", 1, headers=bearer("k"))
    assert (answer.status, answer.error["code"]) == (429, "key_tokens"), "a restart forgives nothing"
    assert again.stop() == 0
    third = start({"a": real("tiny.gguf")}, api_keys=keys[1:], folder=daemon.folder)
    with open(third.config, "w") as out:
        out.write(config(third.port, {"a": real("tiny.gguf")}, api_keys=keys))
    assert third.ask("POST", "/api/v1/config/reload", {})[0] == 200
    answer = chat(third, "a", 1, headers=bearer("k"))
    assert (answer.status, answer.error["code"]) == (429, "key_tokens"), "nor does a reload that brings the key"
    keys[0]["tokens_per_day"] = 100000
    with open(third.config, "w") as out:
        out.write(config(third.port, {"a": real("tiny.gguf")}, api_keys=keys))
    assert third.ask("POST", "/api/v1/config/reload", {})[0] == 200
    assert chat(third, "a", 1, headers=bearer("k")).status == 200, "who may use more has the rest of it"


def test_tokens_used_outlive_a_kill(start):
    """What ended is written at once, together with what else is queued."""
    keys = [{"key": "k", "name": "k", "tokens_per_day": 10}]
    daemon = start({"a": real("tiny.gguf")}, api_keys=keys)
    assert chat(daemon, "a", 20, headers=bearer("k")).status == 200
    wait_for("the row", lambda: 40 in row_sizes(daemon))
    daemon.process.kill()
    daemon.process.wait()
    again = start({"a": real("tiny.gguf")}, api_keys=keys, folder=daemon.folder)
    answer = chat(again, "a", 1, headers=bearer("k"))
    assert (answer.status, answer.error["code"]) == (429, "key_tokens"), answer
