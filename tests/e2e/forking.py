"""An engine that is several processes: forking.py PORT MIB KIND. Each kind has MIB once."""
import http.server
import mmap
import os
import signal
import sys
import time

port, mib, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
SHARED, PRIVATE = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def take(flags):
    block = mmap.mmap(-1, mib << 20, flags=flags)
    for at in range(0, mib << 20, 4096):
        block[at] = 1
    return block


def child(work):
    told, tell = os.pipe()
    if os.fork() == 0:
        block = work()
        os.write(tell, b"r")
        time.sleep(1000)
        del block
        os._exit(0)
    os.read(told, 1)


def in_a_session_of_its_own():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return take(PRIVATE)


def without_a_parent():
    if os.fork() == 0:
        os.setsid()
        block = take(PRIVATE)
        time.sleep(1000)
        del block
    os._exit(0)


if kind in ("shared", "copied"):  # resident in each of the four
    block = take(SHARED if kind == "shared" else PRIVATE)
    for _ in range(3):
        child(lambda: sum(block[at] for at in range(0, mib << 20, 4096)))
elif kind == "session":
    child(in_a_session_of_its_own)
elif kind == "orphan":
    if os.fork() == 0:
        without_a_parent()
    os.wait()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
