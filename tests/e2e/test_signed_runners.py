"""A user's runner that root gave the user root (user_root of hawk-run-as), from outside: an agent that was broken into speaks to
it, and gets run what its user signed alone."""
# make test-all
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

from tlstest import Roots, SecureCaller

from grpctest import generated
from hawktest import BOUND, HAWK, SLOW, run_tests, wait_for
from runastest import ANN, BOB, Started, enter_machine, install_helper, machine_program
from signedtest import Catcher, SignedCluster, proof_of

MACHINE = enter_machine()
api = generated("hawk")
VERSION = 2
SPEC, RUN, HELLO, STARTED, EXITED, WELCOME = 1, 3, 8, 9, 10, 12
EXIT, NOT_STARTED, LOST = (api.DESCRIPTOR.enum_types_by_name["Outcome"].values_by_name[f"OUTCOME_{name}"].number for name in ("EXITED", "NOT_STARTED", "LOST"))
NOTHING = struct.pack("=I", 0xffffffff)


def data(value):
    return NOTHING if value is None else struct.pack("=I", len(value)) + value


def words(*texts):
    return data(b"".join(text.encode() + b"\0" for text in texts)) if texts else data(b"")


class BrokenAgent:
    """An agent that was broken into, with a runner of ann's."""

    def __init__(self, helper, user="ann"):
        self.started = Started(helper, user)
        self.socket = self.started.ours
        self.heard = b""
        self.number = 0
        self.say(HELLO, struct.pack("=QQ", 10**6, 10**8), data(f"{MACHINE}/ann/elsewhere".encode()), struct.pack("=IQQ", 0, 0, 0), NOTHING, data(b"w1"),
                 struct.pack("=QIQ", 1, 0, 0))
        assert self.hear()[0] == WELCOME

    def say(self, kind, *parts, fds=()):
        body = b"".join(parts)
        socket.send_fds(self.socket, [struct.pack("=IHH", len(body), kind, VERSION) + body], list(fds))

    def hear(self):
        """The next record: its type, and its bytes."""
        while len(self.heard) < 8 or len(self.heard) < 8 + struct.unpack_from("=I", self.heard)[0]:
            got = self.socket.recv(65536)
            assert got, self.started.p.stderr.read()
            self.heard += got
        size, kind, _ = struct.unpack_from("=IHH", self.heard)
        body, self.heard = self.heard[8:8 + size], self.heard[8 + size:]
        return kind, body

    def describe(self, signature, *argv, user="ann", env=("PATH=/usr/bin:/bin",), tasks=1):
        """Tells a job; the agent's own words of it count for nothing where its user must have signed it."""
        self.number += 1
        self.say(SPEC, struct.pack("=IIIq", self.number, tasks, 0, 0), data(b"job"), words(*argv), words(*env), data(f"{MACHINE}/ann".encode()), NOTHING,
                 NOTHING, NOTHING, struct.pack("=I", 0o22), words(""), struct.pack("=I", 0), words(), struct.pack("=I", 0), data(user.encode()),
                 struct.pack("=qI", 0, 0), data(signature))
        return self.number

    def run(self, spec, task=0, arg=None, proof=None, files=3):
        """The outcome, the code, and the runner's words, of one task of the job that was told."""
        self.number += 1
        null = os.open("/dev/null", os.O_WRONLY)
        self.say(RUN, struct.pack("=IIQIIIII", self.number, spec, 3 << 40 | spec, task, 1, 1, 3, 0), data(arg), data(b"w1"), struct.pack("=I", files),
                 data(proof), fds=[null] * files.bit_count())
        os.close(null)
        while True:
            kind, body = self.hear()
            if kind == EXITED:
                _, outcome, code, _, size = struct.unpack_from("=IIIqI", body)
                return outcome, code, body[24:24 + size].decode() if size != 0xffffffff else ""
            assert kind == STARTED, kind

    def give(self, signature, *argv, **more):
        return self.run(self.describe(signature, *argv), **more)

    def end(self):
        self.started.p.terminate()
        self.started.gone()


def ran(result):
    assert result[:2] == (EXIT, 0), result
    return True


def refused(result, why):
    assert result[:2] == (NOT_STARTED, 126) and result[2].startswith("its user's runner runs signed jobs alone: ") and why in result[2], result
    return True


def path(name):
    return f"{MACHINE}/ann/{name}"


def have(*names):
    """Whether ann has these files, and no others that begin so. Removes them."""
    found = sorted(n for n in os.listdir(f"{MACHINE}/ann") if n.split("-")[0] in ("signed", "forged", "elsewhere"))
    for n in found:
        os.unlink(path(n))
    assert found == sorted(names), found
    return True


class Place:
    """A directory with the helper, whose configuration names the user root, and credentials that it has signed."""

    def __init__(self, settings=None):
        self.made = tempfile.TemporaryDirectory()
        self.dir = self.made.name
        os.chmod(self.dir, 0o755)
        self.ca = Roots()
        for user in ("ann", "bob", "nobody-here"):
            self.ca.issue("user", user)
        self.helper = install_helper(self.dir, machine_program(self.dir), *(settings if settings is not None else (f"user_root {self.ca.dir}/users/root.crt",)))
        self.catcher = Catcher(self)
        self.credential = {}

    def hawk(self, *args, env, check):
        assert check is None
        return subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, cwd="/", env={**os.environ, **self.credential, **env}, check=False)

    def signs(self, *args, user="ann", credential=None):
        """What that user signs with `hawk submit ARGS`."""
        self.credential = credential or self.ca.environment(user)
        return self.catcher.catch(self, *args)


def test_a_runner_runs_what_its_user_signed_alone():
    p = Place()
    agent = BrokenAgent(p.helper)
    forged = ("touch", path("forged"))
    assert refused(agent.give(None, *forged), "it is not signed")
    assert refused(agent.give(b"", *forged), "these bytes are no signed submission") and have()
    # The agent's own words of a job count for nothing: command, environment, user.
    job = p.signs("--env", "NAME=signed", "--", "sh", "-c", f"touch {MACHINE}/ann/$NAME; id -u >/dev/null")
    spec = agent.describe(job.signature, *forged, user="root", env=("NAME=forged", f"PATH={MACHINE}/ann", "LD_PRELOAD=/nowhere.so"))
    assert ran(agent.run(spec)) and have("signed")
    # What was changed after the user has signed it.
    signed = api.Signed.FromString(job.signature)
    for field in ("submission", "signature", "credential"):
        whole = getattr(signed, field)
        for at in (20, len(whole) // 2, len(whole) - 1):
            bad = api.Signed.FromString(job.signature)
            setattr(bad, field, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            assert refused(agent.give(bad.SerializeToString(), *forged), ""), (field, at)
    for text in (b"signed", b"touch"):  # the name in the environment, and the command
        bad = api.Signed.FromString(job.signature)
        bad.submission = signed.submission.replace(text, b"forged"[:len(text)])
        assert bad.submission != signed.submission
        assert refused(agent.give(bad.SerializeToString(), *forged), "") and have()
    # Others' signatures.
    assert refused(agent.give(p.signs("--", *forged, user="bob").signature, *forged), f"user bob signed it, who is not uid {ANN} on this machine")
    assert refused(agent.give(p.signs("--", *forged, user="nobody-here").signature, *forged), "user nobody-here signed it")
    other = Place()
    assert refused(agent.give(other.signs("--", *forged).signature, *forged), "the user root has not signed its credential")
    # Two parts of two signatures.
    bad = api.Signed.FromString(p.signs("--", *forged, user="bob").signature)
    bad.credential = signed.credential
    assert refused(agent.give(bad.SerializeToString(), *forged), "the user did not sign this") and have()
    agent.end()


def test_a_task_has_the_input_that_its_user_signed_for_it():
    p = Place()
    agent = BrokenAgent(p.helper)
    job = p.signs("--input", "one", "two", "three", "--", "touch", path("signed-{}"))
    args = list(job.task_args)
    assert args == [b"one", b"two", b"three"]
    spec = agent.describe(job.signature, "true", tasks=3)
    for task, arg, proof in ((0, b"four", proof_of(args, 0)), (1, b"one", proof_of(args, 0)), (1, b"one", proof_of(args, 1)), (2, b"three", None),
                             (2, b"three", b"x"), (3, b"one", proof_of(args, 0)), (0, None, None), (0, b"one;id", proof_of(args, 0))):
        assert refused(agent.run(spec, task, arg, proof), "did not sign this task's input"), (task, arg)
    assert have()
    for task in (2, 0):
        assert ran(agent.run(spec, task, args[task], proof_of(args, task)))
    assert have("signed-one", "signed-three")
    alone = agent.describe(p.signs("--", "touch", path("signed")).signature, "true")
    assert refused(agent.run(alone, arg=b"more"), "did not sign this task's input")
    assert refused(agent.run(alone, task=1), "did not sign this task's input")
    # The agent says where the worker's output lies: the runner opens nothing there.
    for files in (0, 1, 2):
        assert refused(agent.run(alone, files=files), "its output files did not come with it")
    assert have() and ran(agent.run(alone)) and have("signed")
    agent.end()


def test_nothing_starts_when_the_time_is_over():
    p = Place()
    p.ca.issue("user", "ann", "--for", f"{5 * SLOW}s")
    until = time.time() + 5 * SLOW
    agent = BrokenAgent(p.helper)
    signature = p.signs("--array", "0-1", "--", "touch", path("signed")).signature
    spec = agent.describe(signature, "true", tasks=2)
    assert ran(agent.run(spec)) and have("signed")
    wait_for("the credential to expire", lambda: time.time() > until + 2, bound=2 * BOUND)
    assert refused(agent.run(spec, task=1), "has expired")
    assert refused(agent.give(signature, "true", task=1), "the credential has expired") and have()
    agent.end()


def test_a_credentials_uid_is_this_machines():
    for uid, good in ((ANN, True), (BOB, False)):
        p = Place()
        file, login = f"{p.ca.dir}/ann.{uid}", f"{p.ca.dir}/login.{uid}"
        subprocess.run([HAWK, "user", "add", "ann", "--ca", p.ca.dir, "--uid", str(uid), "--out", file], check=True, capture_output=True)
        env = {"HAWK_LOGIN": login}
        subprocess.run([HAWK, "login", file], env={**os.environ, **env}, check=True, capture_output=True)
        agent = BrokenAgent(p.helper)
        result = agent.give(p.signs("--", "touch", path("signed"), credential=env).signature, "true")
        if good:
            assert ran(result) and have("signed")
        else:
            assert refused(result, f"user ann signed it, who is not uid {ANN} in the cluster") and have()
        agent.end()


def test_a_failed_look_up_of_its_user_is_tried_again():
    p = Place()
    agent = BrokenAgent(p.helper)
    spec = None
    os.chmod(f"{MACHINE}/passwd", 0o600)
    try:
        for _ in range(2):
            spec = spec or agent.describe(p.signs("--", "touch", path("signed")).signature, "true")
            outcome, code, why = agent.run(spec)
            assert outcome == LOST and "user ann, who signed it, cannot be looked up on this machine" in why and have(), (outcome, code, why)
    finally:
        os.chmod(f"{MACHINE}/passwd", 0o644)
    assert ran(agent.run(spec)) and have("signed")
    agent.end()


def test_without_a_user_root_the_agents_word_counts():
    p = Place(settings=())
    agent = BrokenAgent(p.helper)
    assert ran(agent.give(None, "touch", path("signed"))) and have("signed")
    assert ran(agent.give(p.signs("--", "touch", path("forged")).signature, "touch", path("signed"))) and have("signed")
    agent.end()


def test_without_a_certificate_as_user_root_nothing_starts():
    p = Place()
    install_helper(p.dir, machine_program(p.dir), f"user_root {p.helper}")  # a file of root's without a certificate
    started = Started(p.helper, "ann")
    assert started.gone() == 0 and b"a file without a certificate" in started.p.stderr.read()


class RunnersCluster(SignedCluster):
    """Its worker is root's, and tasks run as their users."""

    def start_worker(self, name, wait=True, slots=None, flags=()):
        os.chmod(self.dir, 0o755)
        helper = install_helper(self.dir, machine_program(self.dir), f"user_root {self.ca.dir}/users/root.crt")
        return super().start_worker(name, wait, slots, ("--run-as", "user", "--run-as-helper", helper, *flags))

    def said(self, *args, **more):
        job = self.hawk("submit", "--wait", *args, cwd="/", **more).stdout.split()[0]
        return self.hawk("cat", job).stdout


class UncheckedCluster(RunnersCluster):
    daemon_flags = ()


def test_signed_jobs_run():
    for kind in (RunnersCluster, UncheckedCluster):
        with kind(workers=1, slots=2) as c:
            for tag in ("short", "long"):
                assert c.said("--class", tag, "--", "sh", "-c", "id -u; pwd") == f"{ANN}\n/\n"
                # Dists that require no signatures prove no inputs.
                if kind is RunnersCluster:
                    c.hawk("submit", "--wait", "--class", tag, "--input", "a b", "it's", "c", "--", "touch",
                           path("signed-{}"), cwd="/")
                    assert have("signed-a b", "signed-it's", "signed-c")
            assert c.hawk("exec", "--", "cat", input="through\n", cwd="/").stdout == "through\n"
            c.hawk("submit", "--wait", "--stdout", path("signed-out"), "--", "true", cwd="/")
            assert have("signed-out")
            # One that comes later finds the same runner.
            c.workers.pop().kill()
            c.start_worker("w1")
            assert c.said("--", "id", "-u") == f"{ANN}\n"


def test_daemons_that_require_none_get_nothing_unsigned_run():
    with UncheckedCluster(workers=1) as c:
        ann = SecureCaller(c.dist_addrs[0], c.ca, "ann")
        spec = api.JobSpec(name="unsigned", tasks=1, argv=[b"touch", path("forged").encode()], detached=True)
        job = ann("Submit", api.SubmitRequest(job=spec), api.SubmitReply).job
        c.hawk("wait", job, check=None)
        assert "its user's runner runs signed jobs alone: it is not signed" in c.hawk("job", job).stdout, c.hawk("job", job).stdout
        assert have()


run_tests(sys.modules[__name__])
