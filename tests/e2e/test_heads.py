"""Bytes that no honest client sends, on the live port: refused before they could mean two things."""
import os
import re
import socket
import time

import pytest

from harness import MIB, InTheBackground, ask, chat, fake, models, raw, real, resident, wait_for

GOOD = b'{"model": "a", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}'


@pytest.fixture(scope="module")
def daemon(request):
    from conftest import Daemons
    daemons = Daemons()
    yield daemons({"a": real("tiny.gguf")}, bodies={"each": "1MiB", "memory": "2MiB", "spill": "4MiB"})
    assert not daemons.finish(False)


def statuses(data):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", data)]


def head(*lines, body=b""):
    return b"\r\n".join([b"POST /v1/chat/completions HTTP/1.1", *lines, b"", b""]) + body


HOST, JSON = b"Host: localhost", b"Content-Type: application/json"
LENGTH = b"Content-Length: %d" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked"
BODY = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("first", [b"HEAD * HTTP/1.1", b"HEAD /v1/models HTTP/1.1\r\nA: \0", b"HEAD /x HTTP/1.1\r\nA: " + b"a" * 70000,
                                   b"HEAD /x HTTP/1.1", b"HEAD /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nConnection: close"])
def test_a_refused_head_has_no_body(daemon, first):
    """It would be taken for the next answer."""
    answer = raw(daemon, first + b"\r\n\r\n", 5)
    assert statuses(answer)[0] >= 400 and answer.endswith(b"\r\n\r\n"), answer


def test_the_good_ones_work(daemon):
    close = b"Connection: close"
    assert statuses(raw(daemon, head(HOST, JSON, LENGTH, close, body=GOOD), 30)) == [200]
    assert statuses(raw(daemon, head(HOST, JSON, CHUNKED, close, body=BODY), 30)) == [200]


@pytest.mark.parametrize("data", [
    head(HOST, JSON, LENGTH, CHUNKED, body=BODY + SMUGGLED),
    head(HOST, JSON, CHUNKED, LENGTH, body=BODY + SMUGGLED),
    head(HOST, JSON, b"Content-Length: 0", LENGTH, body=GOOD),
    head(HOST, JSON, b"Content-Length: 5, 5", body=b"xxxxx"),
    head(HOST, JSON, b"Content-Length: +5", body=b"xxxxx"),
    head(HOST, JSON, b"Content-Length: 0x5", body=b"xxxxx"),
    head(HOST, JSON, b"Content-Length: -1"),
    head(HOST, JSON, b"Content-Length: 99999999999999999999999"),
    head(HOST, JSON, b"Content-Length : 5", body=b"xxxxx"),
    head(HOST, JSON, b"Transfer-Encoding: xchunked", body=BODY),
    head(HOST, JSON, b"Transfer-Encoding: chunked, identity", body=BODY),
    head(HOST, JSON, b"Transfer-Encoding: gzip, chunked", body=BODY),
    head(HOST, JSON, b"Transfer-Encoding : chunked", body=BODY),
    head(HOST, JSON, b"Transfer-Encoding:\x0bchunked", body=BODY),
    head(HOST, JSON, b"X: y\r\n folded: z", LENGTH, body=GOOD),
    head(HOST, JSON, b"X: a\nContent-Length: 3", body=b"xxx"),
    head(HOST, JSON, b"X: a\rb", LENGTH, body=GOOD),
    head(HOST, JSON, b"X: a\x00b", LENGTH, body=GOOD),
    head(HOST, HOST, JSON, LENGTH, body=GOOD),
    head(HOST, b"Host: evil.example", JSON, LENGTH, body=GOOD),
    head(JSON, LENGTH, body=GOOD),
    head(HOST, JSON, b": nameless", LENGTH, body=GOOD),
    head(HOST, JSON, b"no colon", LENGTH, body=GOOD),
    head(HOST, JSON, CHUNKED, body=b"ffffffffffffffffff\r\n"),
    head(HOST, JSON, CHUNKED, body=b"-1\r\nx\r\n"),
    head(HOST, JSON, CHUNKED, body=b"0x5\r\nxxxxx\r\n0\r\n\r\n"),
    head(HOST, JSON, CHUNKED, body=b"5\nxxxxx\n0\n\n"),
    head(HOST, JSON, CHUNKED, body=b"2\r\nxxxx\r\n0\r\n\r\n"),
    b"GET /v1/models HTTP/1.1\nHost: localhost\n\n",
    b"GET  /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/models HTTP/2.0\r\nHost: localhost\r\n\r\n",
    b"GET /v1/models\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /v1/\x00models HTTP/1.1\r\nHost: localhost\r\n\r\n",
])
def test_refused_and_cut(daemon, data):
    answer = raw(daemon, data, 3)
    codes = statuses(answer)
    assert len(codes) <= 1, "one refusal, and nothing behind it is taken for a request"
    assert not codes or codes[0] in (400, 403, 413, 414, 431, 501, 505), answer[:300]
    assert chat(daemon, "a", 2).status == 200


@pytest.mark.parametrize("data", [
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"z" * 1_000_000 + b"\r\n\r\n",
])
def test_head_bombs(daemon, data):
    codes = statuses(raw(daemon, data, 5))
    assert len(codes) <= 1 and (not codes or codes[0] in (400, 413, 414, 431)), codes
    assert ask(daemon, "GET", "/healthz").status == 200


@pytest.mark.long
def test_a_head_that_never_ends_is_cut(daemon):
    begin = time.monotonic()
    raw(daemon, b"GET / HTTP/1.1\r\nHost: localhost\r\nX", 40)
    assert time.monotonic() - begin < 39, "the daemon does not wait for ever"


def test_a_body_over_the_bound(daemon):
    answer = ask(daemon, "POST", "/v1/chat/completions", GOOD[:-1] + b', "pad": "' + b"x" * (2 * MIB) + b'"}')
    assert answer.status == 413
    assert answer.error["message"]


def test_a_chunked_body_over_the_bound(daemon):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    data = head(HOST, JSON, CHUNKED, body=chunk * 40)
    codes = statuses(raw(daemon, data, 5))
    assert codes[:1] in ([413], []), codes
    assert ask(daemon, "GET", "/healthz").status == 200


def parked(daemon, gate, count, body):
    """So many wait for one load, or were refused: (what the daemon grew by meanwhile, their answers)."""
    before = resident(daemon)
    calls = [InTheBackground(lambda: ask(daemon, "POST", "/v1/chat/completions", body)) for _ in range(count)]
    wait_for("all to wait or to be refused",
             lambda: sum(call.is_over() for call in calls) + models(daemon)["a"]["queued"] == count)
    grown = resident(daemon) - before
    gate.touch()
    return grown, [call() for call in calls]


def test_parked_bodies_are_bounded_over_all(start, tmp_path):
    """Past bodies.memory they go to a file, past bodies.spill they are refused; the daemon stays small."""
    gate = tmp_path / "gate"
    daemon = start({"a": fake(args=f"--load-until {gate}", slots=8, queue=64)},
                   bodies={"each": "1MiB", "memory": "2MiB", "spill": "4MiB"})
    grown, answers = parked(daemon, gate, 16, GOOD[:-1] + b', "pad": "' + b"x" * 900_000 + b'"}')
    statuses = sorted(answer.status for answer in answers)
    assert 4 <= statuses.count(200) <= 8 and set(statuses) <= {200, 413, 429, 503}, statuses
    assert grown < 8 * MIB
    assert not [name for name in os.listdir(daemon.folder + "/state") if "spill" in name], "the file has no name"


def test_what_parked_bodies_took_goes_back(start, tmp_path):
    """Two hundred of 64 KiB lie in memory and are sent on at once, to connections that are not there yet."""
    gate = tmp_path / "gate"
    daemon = start({"a": fake(slots=256, queue=256, args=f"--chunk-ms 0 --load-until {gate}")})
    before = resident(daemon)
    grown, answers = parked(daemon, gate, 200, GOOD[:-1] + b', "pad": "' + b"x" * 64 * 1024 + b'"}')
    assert {answer.status for answer in answers} == {200}
    assert grown > 12 * MIB, "they were held"
    wait_for("it to go back", lambda: resident(daemon) - before < 8 * MIB)


def test_a_deeply_nested_body(daemon):
    answer = ask(daemon, "POST", "/v1/chat/completions", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "model": "a"}')
    assert answer.status == 400


def test_a_body_that_is_not_utf8(daemon):
    answer = ask(daemon, "POST", "/v1/chat/completions", b'{"model": "a\xff", "messages": []}')
    assert answer.status in (400, 404)


def test_duplicate_model_keys_mean_one_thing(daemon):
    answer = ask(daemon, "POST", "/v1/chat/completions", b'{"model": "a", "model": "nope", "messages": []}')
    assert answer.status in (400, 404), "what is ambiguous is refused, or the last one counts as everywhere"


def test_the_client_s_credentials_stay_here(start):
    daemon = start({"a": fake(args="--print-heads")}, api_keys=[{"key": "secret-of-the-client", "name": "k", "role": "use"}])
    answer = ask(daemon, "POST", "/v1/chat/completions", GOOD, {"Authorization": "Bearer secret-of-the-client"})
    assert answer.status == 200
    log = daemon.ask("GET", "/api/v1/models/a/logs", text=True)[1]
    assert "head: Host" in log or "head: host" in log
    assert "secret-of-the-client" not in log


def test_trailers_are_read_and_go_nowhere(start):
    daemon = start({"a": fake(args="--print-heads")})
    body = BODY[:-2] + b"X-Check: 1\r\nAuthorization: Bearer late\r\n\r\n"
    said = raw(daemon, head(HOST, JSON, CHUNKED, b"Trailer: X-Check", b"Connection: close", body=body), 30)
    assert statuses(said) == [200]
    log = daemon.ask("GET", "/api/v1/models/a/logs", text=True)[1]
    assert "late" not in log and "X-Check" not in log
    # Behind them the next request of the same connection.
    twice = head(HOST, JSON, CHUNKED, body=body) + b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert statuses(raw(daemon, twice, 30)) == [200, 200]
    endless = head(HOST, JSON, CHUNKED, body=BODY[:-2] + b"X: " + b"y" * 20000)
    assert statuses(raw(daemon, endless, 30)) == [400]


def test_who_ends_his_side_has_left(start):
    """A client that closes looks the same as one that only ends its side: its request is given up, and nothing waits."""
    daemon = start({"a": fake(args="--hang")})
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=20) as sock:
        sock.sendall(head(HOST, JSON, LENGTH, body=GOOD))
        wait_for("it to run", lambda: models(daemon)["a"]["running"] == 1)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""
    wait_for("it to be given up", lambda: models(daemon)["a"]["running"] == 0)
    # In a body it is a body cut short.
    assert statuses(raw(daemon, head(HOST, JSON, b"Content-Length: 999", body=GOOD), 30, shut=True)) in ([], [400])
    wait_for("nothing to be left", lambda: all(r["state"] == "ended" for r in daemon.get("/api/v1/requests")["requests"]))


def test_a_body_that_trickles_is_cut(start):
    daemon = start({"a": fake()}, bodies={"within": "1s"})
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=20) as sock:
        sock.sendall(head(HOST, JSON, b"Content-Length: 100000"))
        said = b""
        sock.settimeout(0.2)
        while not said:
            assert time.monotonic() - begin < 30
            try:
                sock.sendall(b" ")
                said = sock.recv(4096)
            except TimeoutError:
                pass
    assert statuses(said) == [408] and b"bodies: within" in said
    assert time.monotonic() - begin < 30
