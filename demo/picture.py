"""picture: what `cotenant top` shows while the demo runs, as an SVG. Needs tmux, which is the terminal."""
import os
import re
import subprocess
import sys
import threading

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "ansi-svg")
STATES = r"load \d+%|busy|idle|draining|unloading|queued"


class Picture:
    """Looks at top's screen until it is ended, and keeps the one on which most is to be seen."""

    def __init__(self, daemon, path):
        self.path, self.best, self.best_score = path, "", -1
        self.name = f"cotenant-demo-{os.getpid()}"
        self.tmux("new-session", "-d", "-x", "112", "-y", "22", f"{daemon.program} top --socket {daemon.socket}")
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def tmux(self, *words):
        """A server of its own, by name."""
        return subprocess.run(["tmux", "-L", self.name, *words], capture_output=True, text=True, check=True,
                              env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout

    def watch(self):
        while not self.ended.wait(0.3):
            screen = self.tmux("capture-pane", "-e", "-p")
            plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
            states = set(re.findall(rf"(?m)^.[ >]\w+ +({STATES}) ", plain))
            score = len(states) + 2 * any("%" in state for state in states) + ("evicted" in plain)
            if score >= self.best_score:
                self.best, self.best_score = screen, score

    def end(self):
        self.ended.set()
        self.thread.join()
        self.tmux("kill-server")
        drawn = subprocess.run([sys.executable, TOOL], input=self.best, capture_output=True, text=True, check=True)
        with open(self.path, "w") as out:
            out.write(drawn.stdout)
