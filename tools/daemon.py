"""daemon: drive a cotenant from Python, for the demo, the tests and the bench. Standard library only."""
import contextlib
import http.client
import json
import os
import random
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.parse


def free_port():
    """Free now, and none of those that the kernel gives to connections: so nobody takes it before it is bound."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        lowest_given = int(file.read().split()[0])
    while True:
        with socket.socket() as probe:
            port = random.randrange(10000, lowest_given) if lowest_given > 12000 else 0
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return probe.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """One `cotenant serve` with folders of its own. `folder` is short: a unix socket's path has 107 bytes."""

    def __init__(self, program, folder, config, port, options=(), wrap=(), environment=None):
        """`wrap`: words before the program (prlimit, unshare); `options`: behind `serve -f FILE`."""
        self.program, self.folder, self.port = program, folder, port
        self.url = f"http://127.0.0.1:{port}"
        self.socket = os.path.join(folder, "run", "cotenant.sock")
        self.config = os.path.join(folder, "cotenant.yaml")
        with open(self.config, "w") as out:
            out.write(config)
        for name in ("state", "run"):
            os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
        notify = os.path.join(folder, "notify")
        if os.path.exists(notify):
            os.unlink(notify)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(notify)
        self.environment = {**os.environ, "STATE_DIRECTORY": os.path.join(folder, "state"),
                            "RUNTIME_DIRECTORY": os.path.join(folder, "run"), "NOTIFY_SOCKET": notify,
                            **(environment or {})}
        self.log = open(os.path.join(folder, "daemon.log"), "ab")
        self.process = subprocess.Popen([*wrap, program, "serve", "-f", self.config, *options],
                                        env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)

    def wait_ready(self, seconds=60):
        """Until it says READY=1, as it would to systemd."""
        end = os.pidfd_open(self.process.pid)
        deadline = time.monotonic() + seconds
        try:
            while True:
                told, _, _ = select.select([self.notify, end], [], [], max(0, deadline - time.monotonic()))
                if self.notify in told:
                    if b"READY=1" in self.notify.recv(4096):
                        return
                else:
                    raise RuntimeError("the daemon " + ("ended" if told else "did not get ready") + "\n" + self.tail())
        finally:
            os.close(end)

    def ask(self, method, path, body=None, timeout=120, text=False):
        """(status, JSON or text) of one of the daemon's own endpoints, over its socket."""
        connection = UnixConnection(self.socket, timeout)
        try:
            raw = None if body is None else json.dumps(body)
            connection.request(method, path, raw, {"Content-Type": "application/json"} if raw else {})
            answer = connection.getresponse()
            data = answer.read().decode()
            return answer.status, data if text else json.loads(data)
        finally:
            connection.close()

    def get(self, path):
        status, value = self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path} answered {status}: {value}")
        return value

    def model(self, name, verb):
        return self.ask("POST", f"/api/v1/models/{urllib.parse.quote(name, safe='')}/{verb}", {})

    def command(self, *words):
        """What the command line answers: (exit status, standard output)."""
        done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout

    def events(self, on_event):
        """Call on_event(dict) for each event from now on, in a thread, until the daemon ends."""
        connection = UnixConnection(self.socket, None)
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()

        def follow():
            try:
                for line in answer:
                    if line.startswith(b"data:"):
                        on_event(json.loads(line[5:]))
            except (OSError, ValueError, http.client.HTTPException):
                pass  # the daemon is gone
        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        return thread

    def stop(self, seconds=30):
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def tail(self, lines=30):
        self.log.flush()
        with open(self.log.name, errors="replace") as log:
            return "".join(log.readlines()[-lines:])


def children_of(folder):
    """Live processes that were started with this daemon's run-time folder: [(pid, command)]."""
    found = []
    mark = f"{folder}/".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark in words and state != "Z" and int(pid) != os.getpid():
            found.append((int(pid), words.replace(b"\0", b" ").decode(errors="replace").strip()))
    return found
