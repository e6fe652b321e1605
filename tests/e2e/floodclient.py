"""The client beside an attack, and what the attacked daemon says and takes."""
import ssl
import struct
import time

import floodtest
from hawktest import BOUND, wait_for

LIST = b"/hawk.v1.Hawk/ListNodes"


def memory(pid):
    """(now, the most so far) in MiB."""
    with open(f"/proc/{pid}/status") as f:
        lines = dict(line.split(":", 1) for line in f)
    return tuple(int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def says(daemon, text):
    return any(text in x for x in daemon.log if x)


def named(daemon, text):
    wait_for(f"a line that says: {text}", lambda: says(daemon, text))


class Client:
    """Asks one question at a time; an answer is whatever ends the call."""

    def __init__(self, address, path):
        self.address, self.path, self.s = address, path, None
        self.answers, self.longest, self.again, self.keep = 0, 0, 0, False

    def close(self):
        if self.s:
            self.s.close()
        self.s = None

    def ask_until_answered(self):
        """Like any client it comes back when a connection without an accepted call was closed; that takes its time, too."""
        began = time.monotonic()
        while True:
            newcomer = not self.s or (self.answers % 2 and not self.keep)
            try:
                self.ask()
                break
            except (ConnectionError, ssl.SSLError):
                if not newcomer or time.monotonic() > began + BOUND:
                    raise
                self.close()
                self.again += 1
        self.longest = max(self.longest, time.monotonic() - began)

    def ask(self):
        began = time.monotonic()
        if self.answers % 2 and not self.keep:
            self.close()
        if not self.s:
            self.s = floodtest.connect(self.address, timeout=BOUND)
            self.s.sendall(floodtest.PREFACE + floodtest.frame(floodtest.SETTINGS, 0, 0) + floodtest.frame(floodtest.SETTINGS, 1, 0))
            self.stream, self.buffer = -1, b""
        self.stream += 2
        block = floodtest.first_block(self.path) if self.stream == 1 else floodtest.NEXT_BLOCK
        self.s.sendall(floodtest.frame(floodtest.HEADERS, floodtest.END_HEADERS, self.stream, block) +
                       floodtest.frame(floodtest.DATA, floodtest.END_STREAM, self.stream, b"\0" * 5))
        while self.read_frame() != (self.stream, True):
            pass
        self.answers += 1
        self.longest = max(self.longest, time.monotonic() - began)

    def read_frame(self):
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            data = self.s.recv(1 << 16)
            if not data:
                raise ConnectionAbortedError("the daemon closed a client's connection")
            self.buffer += data
        head, size = self.buffer[:9], int.from_bytes(self.buffer[:3], "big")
        if head[3] == floodtest.PING and not head[4] & floodtest.ACK:
            self.s.sendall(floodtest.frame(floodtest.PING, floodtest.ACK, 0, self.buffer[9:9 + size]))
        self.buffer = self.buffer[9 + size:]
        stream = struct.unpack(">I", head[5:9])[0]
        return stream, head[3] == floodtest.HEADERS and bool(head[4] & floodtest.END_STREAM)
