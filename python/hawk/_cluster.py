"""Finds a cluster as the `hawk` command does, and calls its API: contacts, token, TLS, unix sockets."""
import contextlib
import os
import pwd
import socket
import struct
import threading
import time
import weakref
from numbers import Integral, Real

import grpc

from hawk import hawk_pb2 as pb
from hawk._sign import signer

TIMEOUT = 30.0  # how long all dists together may stay silent
NODES_TIMEOUT = 3.0  # of a list that a call could do without
AGAIN_SECONDS = 0.2
NODES_FRESH = 1.0    # seconds in which a list is not asked for again
ROLE_SCHEDULER, ROLE_WORKER = "scheduler.hawk", "worker.hawk"
TAGS = {None: pb.TAG_AUTO, "short": pb.TAG_SHORT, "long": pb.TAG_LONG}
# A daemon that is away or overloaded; another one may answer.
ELSEWHERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
# What `hawk submit` passes on to a cluster, and what Python reads; to this user's `hawk up` goes everything.
EXPORTED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HAWK_DIST", "HAWK_LOGIN",
            "VIRTUAL_ENV")
EXPORTED_PREFIXES = ("LC_", "HAWK_TLS_", "PYTHON")
SYSTEM_SOCKET = "unix:/run/hawk/dist.sock"  # where a dist that the system has started listens
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0),
           ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50),
           ("grpc.max_reconnect_backoff_ms", 2000)]
# What says of an UNAVAILABLE that no server began the call: there was no connection, or it was refused.
UNTOUCHED = ("failed to connect", "DNS resolution failed", "was not accepted", "is draining: it takes no new jobs")


class HawkError(RuntimeError):
    """The cluster refused something, or cannot be reached. The text says what to do."""
    refused = False  # by the dist that has the job
    unsure = False   # a dist whose answer is missing may have done it


def up_address():
    """Where this user's `hawk up` listens."""
    directory = os.environ.get("XDG_RUNTIME_DIR")
    return f"unix:{directory}/hawk/up.sock" if directory else f"unix:/tmp/hawk-{os.getuid()}/up.sock"


def own_dist_address():
    """Where a dist that this user has started listens: in its default state_dir."""
    if os.geteuid() == 0:
        return "unix:/var/lib/hawk/dist/dist.sock"
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.environ.get("HOME", "") + "/.local/state"
    return f"unix:{state}/hawk/dist/dist.sock"


def answers(address, anybody=False):
    """Whether root or this user listens at unix:PATH: others may have put a socket below /tmp. anybody: or they."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(address[len("unix:"):])
        except OSError:
            return False
        credentials = struct.Struct("3I")
        _, uid, _ = credentials.unpack(s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
        ours = (0, os.geteuid())
        # In another's directory he decides, at any moment, who listens.
        return anybody or (uid in ours and os.lstat(os.path.dirname(address[len("unix:"):])).st_uid in ours)


def dist_address():
    """The unix socket of a dist on this machine; "": none answers."""
    own = own_dist_address()
    if answers(own):
        return own
    return SYSTEM_SOCKET if answers(SYSTEM_SOCKET, anybody=True) else ""


def login_directory():
    """Where `hawk login` has put this user's credential; None: there is none."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    directory = os.environ.get("HAWK_LOGIN") or \
        (f"{config}/hawk" if config.startswith("/") else os.path.expanduser("~/.config/hawk"))
    return directory if directory != "none" and os.path.exists(f"{directory}/user.crt") else None


def login_is_named():
    """Whether HAWK_LOGIN names a directory: that cluster then goes before the one that runs here."""
    return os.environ.get("HAWK_LOGIN", "") not in ("", "none")


def user_name():
    """Whose jobs this process's are, where callers are not known."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def read_file(path, what):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError as e:
        raise HawkError(f"{what}: {e}") from None


def is_untouched(error):
    """Whether it is certain that the server did nothing: docs/protocol-lives.md 9.6."""
    text = error.details() or ""
    return error.code() == grpc.StatusCode.CANCELLED or \
        (error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL) and
         any(words in text for words in UNTOUCHED))


def unsure(error):
    """That error, of a submission."""
    return HawkError(f"{error}; whether it accepted the job is not known: look for it (`hawk jobs`) before you submit "
                     "it again")


def new_key():
    """Of a submission."""
    return int.from_bytes(os.urandom(8), "little") or 1


FORKED = ("this process was forked from one that had used Hawk already, and cannot use it: "
          "start it by multiprocessing's method \"spawn\", or before that")
# gRPC's epoll, once made, is shared with all children: each takes the other's events, and either may crash.
is_used = is_forked = False


def check_not_forked():
    if is_forked:
        raise HawkError(FORKED)


def forked():
    """In the child."""
    global is_forked
    is_forked = is_used


os.register_at_fork(after_in_child=forked)


class Cluster:
    """Connections to one cluster. Every thread may use it."""

    def __init__(self, dist=None, token_file=None):
        check_not_forked()
        self.login = login_directory()
        listed = dist or os.environ.get("HAWK_DIST")
        if not listed and login_is_named():
            if not self.login:
                where = os.environ["HAWK_LOGIN"]
                raise HawkError(f"no cluster found: HAWK_LOGIN names {where}, where no credential is")
            listed = self._login_dists()
        self.local = not listed and answers(up_address())
        listed = listed or (up_address() if self.local else dist_address() or self._login_dists())
        self.contacts = listed.replace(",", " ").split()
        if not self.contacts:
            session = "" if os.environ.get("XDG_RUNTIME_DIR") else (
                " (XDG_RUNTIME_DIR is not set here: the `hawk up` of your login session is at "
                f"unix:/run/user/{os.getuid()}/hawk/up.sock)")
            raise HawkError(f"no cluster found: start one with `hawk up`, or name a dist with HAWK_DIST{session}")
        self.token = self._find_token(token_file)
        # Clusters with the same are the same. A connection is of the process and user that made it.
        self.identity = (os.getpid(), os.geteuid(), self.local, self.token, *self.contacts)
        self.metadata = (("authorization", f"Bearer {self.token}"),) if self.token else None
        self.user = user_name()
        self.signer = None
        self.tls = self._find_tls()
        self.channels = {}
        self.here = set()  # dists that have answered at a unix socket
        self.listed_at = -NODES_FRESH
        self.lock = threading.Lock()

    @staticmethod
    def _find_token(path):
        path = path or os.environ.get("HAWK_TOKEN_FILE")
        if path:
            return read_file(path, "the cluster's token").decode().strip()
        return os.environ.get("HAWK_TOKEN") or None

    def _login_dists(self):
        try:
            with open(f"{self.login}/dist", encoding="utf-8") as f:
                return f.readline().strip()
        except OSError:
            return ""

    def _find_tls(self):
        names = [os.environ.get(f"HAWK_TLS_{part}") for part in ("ROOTS", "KEY", "CERTIFICATE")]
        if not any(names):
            if self.token or not self.login:
                return None
            names = [f"{self.login}/{name}" for name in ("roots.crt", "user.key", "user.crt")]
        if not all(names):
            raise HawkError("TLS needs HAWK_TLS_CERTIFICATE, HAWK_TLS_KEY and HAWK_TLS_ROOTS, and not all are set")
        files = [read_file(name, "TLS") for name in names]
        self.signer = signer(*files)
        self.identity += tuple(files)
        return grpc.ssl_channel_credentials(*files)

    def shared(self):
        """The same one that other jobs of this program have, and its connections."""
        return clusters.setdefault(self.identity, self)

    def sign(self, specs):
        """Signs whole jobs together, where this user has a credential."""
        if self.signer and specs:
            self.signer.sign(specs)

    def sign_again(self, signature):
        """The signature of a job that runs again what the job of this one ran; none, where that has none."""
        return self.signer.renew(signature) if self.signer and signature else b""

    def channel(self, address, role=ROLE_SCHEDULER):
        global is_used
        check_not_forked()
        is_used = True
        with self.lock:
            channel = self.channels.get(address)
            if channel is None:
                if self.tls and not address.startswith("unix:"):
                    options = [*OPTIONS, ("grpc.ssl_target_name_override", role)]
                    channel = grpc.secure_channel(address, self.tls, options)
                else:
                    channel = grpc.insecure_channel(address, OPTIONS)
                self.channels[address] = channel
            return channel

    def close(self):
        with self.lock:
            channels, self.channels = self.channels, {}
        for channel in channels.values():
            channel.close()

    def failure(self, address, error):
        """What a call there met, for people."""
        hint = "; is `hawk up` running?" if self.local and error.code() == grpc.StatusCode.UNAVAILABLE else ""
        return f"{address}: {error.details()}{hint}"

    def up_has_stopped(self):
        """Whether this was a `hawk up` that has stopped in good order: it removes its socket, and its jobs are gone."""
        return self.local and not os.path.exists(self.contacts[0][len("unix:"):])

    def call_at(self, address, method, request, reply, timeout=TIMEOUT):
        call = self.channel(address).unary_unary(f"/hawk.v1.Hawk/{method}",
                                                 request_serializer=type(request).SerializeToString,
                                                 response_deserializer=reply.FromString)
        return call(request, timeout=timeout, metadata=self.metadata)

    def call(self, method, request, reply, timeout=TIMEOUT):
        """Asks the first contact that answers. HawkError."""
        error = None
        for address in list(self.contacts):
            try:
                return self.call_at(address, method, request, reply, timeout)
            except grpc.RpcError as e:
                error = HawkError(self.failure(address, e))
                if e.code() not in ELSEWHERE:
                    raise error from None
                self.prefer_another(address)
        raise error

    def submit(self, spec, at=None):
        """Makes a detached job, at one dist. Returns its id. at: the address of that dist. A dist that may have taken
        it is asked again: under the same key it takes it once, also where it was killed meanwhile. HawkError."""
        if not at and time.monotonic() - self.listed_at > NODES_FRESH:
            with contextlib.suppress(HawkError):  # there are those that it knows
                self.nodes(NODES_TIMEOUT)
        key, error, end = new_key(), None, time.monotonic() + TIMEOUT
        for address in [at] if at else list(self.contacts):
            self.sign([spec])  # anew for each: a signature is for one job
            job, error = self._submit_at(address, pb.SubmitRequest(job=spec, key=key), end)
            if not error:
                return job
            self.prefer_another(address)
        raise error

    def _submit_at(self, address, request, end):
        """Submits a job at one dist: returns (its id, None). (None, error): the dist certainly has not taken it.
        HawkError: it refused, or may have taken it. end: by time.monotonic(), when it stops asking again."""
        doubt = False
        while True:
            try:
                return self.call_at(address, "Submit", request, pb.SubmitReply).job, None
            except grpc.RpcError as e:
                error = HawkError(self.failure(address, e))
                doubt = doubt or not is_untouched(e)
                if not doubt:
                    return None, error
                if e.code() not in ELSEWHERE:
                    raise error from None
            if time.monotonic() >= end or self.up_has_stopped():
                raise unsure(error)
            time.sleep(AGAIN_SECONDS)

    def rerun(self, request):
        """Makes a job again. Returns its id. Where the answer is missing it asks again: under the same key the dist
        makes it once, also where it was killed meanwhile. HawkError."""
        end, doubt = time.monotonic() + TIMEOUT, False
        while True:
            try:
                return self.call_owner(request.job, "Rerun", request, pb.SubmitReply).job
            except HawkError as e:
                doubt = doubt or e.unsure
                if not doubt or e.refused:
                    raise
                if time.monotonic() >= end:
                    raise unsure(e) from None
                time.sleep(AGAIN_SECONDS)

    def prefer_another(self, address):
        """The contacts after that one come first from now on."""
        with self.lock:
            if self.contacts[0] == address:
                self.contacts.append(self.contacts.pop(0))

    def nodes(self, timeout=TIMEOUT):
        """ListNodesReply. Dists that it names become contacts, too, except by another address than they have here."""
        reply = self.call("ListNodes", pb.ListNodesRequest(), pb.ListNodesReply, timeout)
        self.listed_at = time.monotonic()
        if self.contacts[0].startswith("unix:"):
            self.here.add(reply.self)
        if not reply.embedded:
            for node in reply.nodes:
                if node.role == "dist" and node.state == "up" and node.address and node.address not in self.contacts \
                        and node.node not in (reply.self, *self.here):
                    self.contacts.append(node.address)
        return reply

    def dist_of(self, job, timeout=TIMEOUT):
        """The address of the dist that accepted the job first."""
        number = int(job.split(".")[0])
        reply = self.nodes(timeout)
        for node in reply.nodes:
            if node.node == number and node.role == "dist" and node.address and not reply.embedded:
                return node.address
        return self.contacts[0]

    def call_owner(self, job, method, request, reply, timeout=TIMEOUT):
        """Asks the first dist of the job, then all others: the job may have moved. HawkError: what the first one said,
        or one that has the job. timeout: of one dist."""
        first, doubt = None, False
        for address in dict.fromkeys([self.dist_of(job, timeout), *self.contacts]):
            try:
                return self.call_at(address, method, request, reply, timeout)
            except grpc.RpcError as e:
                said = self.failure(address, e) if e.code() in ELSEWHERE else e.details()
                error = HawkError(f"job {job}: {said}")
                if e.code() not in (grpc.StatusCode.NOT_FOUND, *ELSEWHERE):
                    error.refused = True
                    raise error from None
                first = first or error
                doubt = doubt or (e.code() in ELSEWHERE and not is_untouched(e))
        first.unsure = doubt
        raise first

    def output(self, job, task, worker, stderr=False):
        """What a task wrote, from the worker that keeps it. It may take any time, as long as more comes."""
        reply = self.nodes()
        address = next((n.address for n in reply.nodes if n.node == worker), None)
        if reply.embedded or not address:
            address = self.contacts[0]
        call = self.channel(address, ROLE_WORKER).unary_stream(
            "/hawk.v1.Hawk/ReadOutput", request_serializer=pb.ReadOutputRequest.SerializeToString,
            response_deserializer=pb.OutputChunk.FromString)
        what, path, parts, size, before = f"the output of task {task} of job {job}", "", [], 0, 0
        while True:
            request = pb.ReadOutputRequest(job=job, task=task, stderr=stderr, offset=size)
            try:
                for chunk in call(request, timeout=TIMEOUT, metadata=self.metadata):
                    if path and chunk.path not in ("", path):
                        raise HawkError(f"{what}: the task began again while it was read: read it once more")
                    path = path or chunk.path
                    parts.append(chunk.data)
                    size += len(chunk.data)
                return b"".join(parts)
            except grpc.RpcError as e:
                if e.code() != grpc.StatusCode.DEADLINE_EXCEEDED or size == before:
                    raise HawkError(f"{what}: {e.details()}") from None
                before = size

    def environment(self, more=None):
        """The variables of a job: this process's but its token, and those of `more`. Workers replace Hawk's own."""
        chosen = {name: value for name, value in os.environ.items() if not name.startswith("HAWK_TOKEN") and
                  (self.local or name in EXPORTED or name.startswith(EXPORTED_PREFIXES))}
        for name, value in (more or {}).items():
            if not name or "=" in os.fsdecode(name):
                raise ValueError(f"illegal environment variable name: {name!r}")
            chosen[os.fsdecode(name)] = value
        return [bytes_of(name) + b"=" + bytes_of(value) for name, value in chosen.items()]


clusters = weakref.WeakValueDictionary()  # shared ones, by identity, while they have jobs


def bytes_of(value):
    """What the system takes for bytes: arguments, variables, paths."""
    value = value if isinstance(value, bytes) else os.fsencode(str(value))
    if b"\0" in value:
        raise ValueError(f"embedded null byte: {value!r}")
    return value


def check_numbers(least, **numbers):
    """None: not given."""
    for name, value in numbers.items():
        if value is not None and not isinstance(value, Real):
            raise TypeError(f"{name} is a number or None, not {value!r:.100}")
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")


def check_whole(**numbers):
    """None: not given."""
    for name, value in numbers.items():
        if value is not None and not isinstance(value, Integral):
            raise TypeError(f"{name} is a whole number or None, not {value!r:.100}")


def ancestors():
    """The jobs in whose tasks this process runs, the nearest first."""
    return f"{os.environ.get('HAWK_JOB_ID', '')} {os.environ.get('HAWK_JOB_ANCESTORS', '')}".split()[:8]


def umask():
    """This process's, in the form of JobSpec.umask."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
        for line in f:
            if line.startswith("Umask:"):
                return 0o1000 | int(line.split()[1], 8)
    return 0


def monotonic_us():
    return int(time.monotonic() * 1e6)
