"""Calls and results as bytes: pickled, signed, and in a file when they are large. Both sides of a call use it.

A packet is 16 bytes of signature, a kind and a body. Only who has the executor's key can make one, so nobody else's
bytes are ever unpickled. Bodies above INLINE_MAX lie in a file, and the packet has the file's name and digest.
"""
import hashlib
import hmac
import os
import pickle
import struct
import tempfile

try:
    import cloudpickle
except ImportError:
    cloudpickle = None

INLINE_MAX = 1 << 20          # bytes of a payload or a result that travel by themselves
PACKET_MAX = INLINE_MAX - 17  # of a body
SIGNATURE = 16
CALL, VALUE, ERROR, LEAVE = b"C", b"V", b"E", b"L"
IN_FILE = {CALL: b"c", VALUE: b"v", ERROR: b"e"}
FROM_FILE = {small: large for large, small in IN_FILE.items()}
LENGTH = struct.Struct("<I")
importing_main = False  # a resident imports the caller's program


def sign(key, text):
    return hashlib.blake2b(text, key=key, digest_size=SIGNATURE).digest()


def pack(key, kind, body, directory):
    """directory(): where large bodies go."""
    if len(body) > PACKET_MAX:
        fd, path = tempfile.mkstemp(prefix="value-", dir=directory())
        with os.fdopen(fd, "wb") as f:
            f.write(body)
        body = hashlib.blake2b(body, key=key, digest_size=SIGNATURE).digest() + os.fsencode(path)
        kind = IN_FILE[kind]
    text = kind + body
    return sign(key, text) + text


def unpack(key, packet, keep=False):
    """(kind, body). keep: the file of a large one stays. ValueError: somebody else made it."""
    text = packet[SIGNATURE:]
    if not hmac.compare_digest(packet[:SIGNATURE], sign(key, text)):
        raise ValueError("a packet that this executor did not make")
    kind, body = text[:1], text[1:]
    if kind not in FROM_FILE:
        return kind, body
    path = os.fsdecode(body[SIGNATURE:])
    with open(path, "rb") as f:
        large = f.read()
    if not hmac.compare_digest(body[:SIGNATURE], sign(key, large)):
        raise ValueError(f"{path} is not what this executor wrote")
    if not keep:
        os.unlink(path)
    return FROM_FILE[kind], large


def dumps(value):
    """Pickles a value; what is defined in the main program goes by value where cloudpickle is installed."""
    try:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if cloudpickle is None or b"__main__" not in data:
            return data
    except Exception:
        if cloudpickle is None:
            raise
    return cloudpickle.dumps(value)


def run_chunk(function, chunk):
    return [function(*arguments) for arguments in chunk]


def large_path(packet):
    """The file of a large packet, or None."""
    return os.fsdecode(packet[2 * SIGNATURE + 1:]) if packet[SIGNATURE:SIGNATURE + 1] in FROM_FILE else None


def call_body(function, arguments):
    return LENGTH.pack(len(function)) + function + arguments


def call_parts(body):
    """(function, arguments), both pickled."""
    end = LENGTH.size + LENGTH.unpack_from(body)[0]
    return body[LENGTH.size:end], body[end:]
