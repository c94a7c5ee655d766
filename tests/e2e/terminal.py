"""terminal: the program on a pseudo-terminal, and the screen that a person would see there."""
import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

from harness import PROGRAM, wait_for

MARK = "\x05"  # shows nothing; our program writes none
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")


class Screen:
    """As much of a terminal as our own output uses; anything else is an error worth knowing."""

    def __init__(self, rows, columns):
        self.alternate, self.cursor_shown, self.left, self.marks = False, True, "", 0
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0

    def feed(self, text):
        text = self.left + text
        self.left = ""
        while text:
            if text[0] == "\x1b":
                match = SEQUENCE.match(text)
                if not match:
                    assert len(text) < 20, f"not understood: {text[:20]!r}"
                    self.left = text
                    return
                self.control(*match.groups())
                text = text[match.end():]
                continue
            self.put(text[0])
            text = text[1:]

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
        elif character == MARK:
            self.marks += 1
        elif character >= " ":
            if self.column == self.columns:
                self.row, self.column = self.row + 1, 0
            self.scroll()
            self.cells[self.row][self.column] = character
            self.column += 1
        self.scroll()

    def scroll(self):
        while self.row >= self.rows:
            self.cells = self.cells[1:] + [[" "] * self.columns]
            self.row -= 1

    def control(self, numbers, letter):
        if numbers == "?1049":
            self.alternate = letter == "h"
            self.clear()
        elif numbers == "?25":
            self.cursor_shown = letter == "h"
        elif letter == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "K":
            self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif letter == "J":
            self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
            for row in range(self.row + 1, self.rows):
                self.cells[row] = [" "] * self.columns
        else:
            assert letter == "m" or numbers == "?7", f"not understood: {numbers}{letter}"

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines()).strip("\n")


class Terminal:
    def __init__(self, words, environment, rows=24, columns=80):
        self.screen, self.lock = Screen(rows, columns), threading.Lock()
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([PROGRAM, *words], env=dict(environment, TERM="xterm-256color"), stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := os.read(self.master, 65536):
                with self.lock:
                    self.screen.feed(decoder.decode(data))
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        self.thread.join(2)
        os.close(self.master)

    def resize(self, rows, columns):
        with self.lock:
            self.screen.resize(rows, columns)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def wait_text(self, text):
        try:
            wait_for(f"'{text}' on the screen", lambda: text in self.screen.text())
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{self.screen.text()}") from None

    def wait_end(self, seconds=30):
        """Its status, when all that it wrote is on the screen."""
        status = self.process.wait(seconds)
        os.write(self.slave, MARK.encode())
        wait_for("the last words", lambda: self.screen.marks and not self.screen.left)
        return status

    def wait_restored(self):
        """As it was before: its modes, the main screen, the cursor."""
        wait_for("the terminal to be restored", lambda: (
            termios.tcgetattr(self.slave) == self.before and not self.screen.alternate and self.screen.cursor_shown))
