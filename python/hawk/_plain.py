"""One call on a unix socket of a daemon's without gRPC: a plain stream (docs/protocol-access.md, "Plain streams").

gRPC's length-prefixed messages, without HTTP/2: no threads, and a fraction of the processor time. It needs nothing but
the standard library.
"""
import os
import socket
import struct

MESSAGE, HEAD = 0x00, 0x80
PREFIX = struct.Struct(">BI")
READ_BYTES = 64 << 10
# Of gRPC's status codes.
OK, UNKNOWN, ALREADY_EXISTS, UNAVAILABLE = 0, 2, 6, 14


class Ended(Exception):
    """The call is over; code is a status code of gRPC's."""

    def __init__(self, code, details):
        super().__init__(details)
        self.code, self.details = code, details


def frame(flag, data):
    return PREFIX.pack(flag, len(data)) + data


def status_of(data):
    """The status in the frame that ends a call."""
    lines = dict(line.partition(": ")[::2] for line in data.decode(errors="replace").split("\r\n"))
    code = lines.get("grpc-status", "")
    return Ended(int(code) if code.isdigit() else UNKNOWN, lines.get("grpc-message", ""))


class Stream:
    """One thread at a time may send, and one receive. Both raise Ended."""

    def __init__(self, address, path, token=None):
        head = f":path: {path}\r\n" + (f"authorization: Bearer {token}\r\n" if token else "")
        self.buffer = bytearray()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(None)  # whatever the program's default is
        try:
            self.socket.connect(address[len("unix:"):])
            self.inode = os.fstat(self.socket.fileno()).st_ino
            self.socket.sendall(frame(HEAD, head.encode()))
        except OSError as e:
            self.socket.close()
            raise Ended(UNAVAILABLE, f"failed to connect: {e.strerror}") from None

    def _is_there(self):
        try:
            return os.fstat(self.socket.fileno()).st_ino == self.inode
        except OSError:
            return False

    def send(self, *messages):
        if not self._is_there():  # it may be another connection by now, and receive would wait for ever
            raise Ended(UNAVAILABLE, "somebody in this process has closed the connection's descriptor")
        try:
            self.socket.sendall(b"".join(frame(MESSAGE, m) for m in messages))
        except OSError:
            pass  # receive says why

    def receive(self):
        """Waits for the next message."""
        buffer = self.buffer
        while True:
            missing = PREFIX.size - len(buffer)
            if missing <= 0:
                flag, length = PREFIX.unpack_from(buffer)
                missing += length
                if missing <= 0:
                    end = PREFIX.size + length
                    data = bytes(memoryview(buffer)[PREFIX.size:end])
                    del buffer[:end]
                    if flag == MESSAGE:
                        return data
                    raise status_of(data)
            try:
                data = self.socket.recv(max(READ_BYTES, missing))
            except OSError as e:
                raise Ended(UNAVAILABLE, f"the connection broke: {e.strerror}") from None
            if not data:
                raise Ended(UNAVAILABLE, "the connection was closed")
            buffer += data

    def close(self):
        if not self._is_there():
            self.socket.detach()  # the descriptor is another file's by now
        self.socket.close()
