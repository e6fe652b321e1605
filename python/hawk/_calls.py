"""Calls and results as bytes: pickled, signed, and in a file when they are large. Both sides of a call use it.

A packet is 16 bytes of signature and a part: a kind and a body. Only who has the executor's key can make one, so nobody
else's bytes are ever unpickled. Large bodies lie in a file, and the part has the file's name and digest. A call's
body is two parts: the function, which many calls may share, and its arguments.
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
FUNCTION_MAX = PACKET_MAX - (8 << 10)  # which leaves room for the name of its arguments' file
PROGRAM_MAX = 60 << 10        # which fits in a variable (128 KiB), also where JSON quotes each byte
SIGNATURE = 16
CALL, VALUE, ERROR, LEAVE, FUNCTION, ARGUMENTS, PROGRAM = b"C", b"V", b"E", b"L", b"F", b"A", b"P"
IN_FILE = {VALUE: b"v", ERROR: b"e", FUNCTION: b"f", ARGUMENTS: b"a", PROGRAM: b"p"}
FROM_FILE = {small: large for large, small in IN_FILE.items()}
LENGTH = struct.Struct("<I")
importing_main = False  # a resident imports the caller's program


def sign(key, text):
    return hashlib.blake2b(text, key=key, digest_size=SIGNATURE).digest()


def part(key, kind, body, directory, most=PACKET_MAX):
    """directory(): where bodies of more than `most` bytes go."""
    if len(body) <= most:
        return kind + body
    fd, path = tempfile.mkstemp(prefix="value-", dir=directory())
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(body)
    except OSError as e:
        os.unlink(path)
        raise OSError(e.errno, os.strerror(e.errno), path) from None
    return IN_FILE[kind] + sign(key, body) + os.fsencode(path)


def whole(key, text, keep=False):
    """(kind, body) of a part. keep: the file of a large one stays. ValueError: it is somebody else's."""
    kind, body = text[:1], text[1:]
    if kind not in FROM_FILE:
        return kind, body
    path = large_path(text)
    with open(path, "rb") as f:
        large = f.read()
    if not hmac.compare_digest(body[:SIGNATURE], sign(key, large)):
        raise ValueError(f"{path} is not what this executor wrote")
    if not keep:
        os.unlink(path)
    return FROM_FILE[kind], large


def large_path(text):
    """The file of a part, or None."""
    return os.fsdecode(text[1 + SIGNATURE:]) if text[:1] in FROM_FILE else None


def pack(key, kind, body, directory):
    text = part(key, kind, body, directory)
    return sign(key, text) + text


def unpack(key, packet):
    """(kind, body). ValueError: somebody else made it."""
    text = packet[SIGNATURE:]
    if not hmac.compare_digest(packet[:SIGNATURE], sign(key, text)):
        raise ValueError("a packet that this executor did not make")
    return whole(key, text)


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


def arguments_max(function):
    """How many bytes of arguments a packet takes beside this part."""
    return PACKET_MAX - LENGTH.size - len(function) - 1


def call_body(function, arguments):
    return LENGTH.pack(len(function)) + function + arguments


def call_parts(body):
    """(function, arguments): their parts."""
    end = LENGTH.size + LENGTH.unpack_from(body)[0]
    return body[LENGTH.size:end], body[end:]
