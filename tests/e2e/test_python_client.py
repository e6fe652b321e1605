"""The Python package hawk as a client: which cluster it finds, as whom it submits, and what its users hear in trouble."""
# make test-all
import concurrent.futures
import inspect
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc

import pythontest as p
from hawktest import BOUND, HAWK, Daemon, dropped, run_tests, wait_for
from relaytest import Relay
from userstest import ANN, BOB, KnownCluster, address_as, others_exist

import hawk
from hawk import _cluster, _jobs, hawk_pb2 as pb

LISTENER = """import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen()
print("ready", flush=True)
while True:
    near, _ = s.accept()
    while heard := near.recv(4096):
        print(heard, flush=True)
"""


def test_a_socket_that_another_user_has_put_there_is_nobodys():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d, \
            p.environment(XDG_RUNTIME_DIR=d, HAWK_DIST=None, HAWK_LOGIN="none", HAWK_TOKEN="s" * 16):
        os.chmod(d, 0o711)
        os.mkdir(f"{d}/hawk")
        os.chown(f"{d}/hawk", BOB, BOB)
        with subprocess.Popen([*dropped(BOB), sys.executable, "-c", LISTENER, f"{d}/hawk/up.sock"],
                              stdout=subprocess.PIPE, text=True) as listener:
            try:
                assert listener.stdout.readline() == "ready\n"
                hawk.submit(["true"])
                raise AssertionError("a job for whoever listens there")
            except hawk.HawkError as e:
                assert "no cluster found" in str(e), e
                assert _cluster.answers(f"unix:{d}/hawk/up.sock", anybody=True)  # as where the system's dist listens
            finally:
                listener.kill()
            assert listener.stdout.read() == "", "something was sent"
        os.unlink(f"{d}/hawk/up.sock")
        with socket.socket(socket.AF_UNIX) as s:  # this user's, where BOB could put another one in its place
            s.bind(f"{d}/hawk/up.sock")
            s.listen()
            assert not _cluster.answers(f"unix:{d}/hawk/up.sock")
            os.chown(f"{d}/hawk", 0, 0)
            assert _cluster.answers(f"unix:{d}/hawk/up.sock")


def test_what_it_needs_is_named():
    for missing, package in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
        for text in ("from hawk import Executor", "import hawk; hawk.submit"):
            r = subprocess.run([sys.executable, "-c", f"import sys; sys.modules['{missing}'] = None; {text}"], capture_output=True, text=True,
                               timeout=BOUND, env={**os.environ, "PYTHONPATH": p.PACKAGE}, check=False)
            last = r.stderr.splitlines()[-1]
            assert last.startswith("ImportError: hawk.") and f" needs {package}, which {sys.executable} does not have" in last, r.stderr
            assert f"apt install python3-{package})" in last, last


def test_without_a_runtime_directory_it_says_where_up_may_be():
    with p.environment(XDG_RUNTIME_DIR=None, HAWK_DIST=None, HAWK_LOGIN="none", HAWK_TOKEN="s" * 16):
        if os.path.exists(_cluster.up_address()[len("unix:"):]):
            return
        try:
            hawk.submit(["true"])
            raise AssertionError("it found a cluster")
        except hawk.HawkError as e:
            assert "no cluster found" in str(e) and f"is at unix:/run/user/{os.getuid()}/hawk/up.sock)" in str(e), e


FOUND = """import sys, hawk
print(hawk.run(["true"]).state)
from hawk import _cluster, _jobs, hawk_pb2 as pb
print(hawk.Executor()._core._cluster.contacts[0] == _cluster.own_dist_address())
_cluster.own_dist_address, _cluster.SYSTEM_SOCKET = _cluster.up_address, sys.argv[1]
print(hawk.run(["true"]).state, hawk.Executor()._core._cluster.contacts[0] == sys.argv[1])
"""


def test_a_job_is_held_released_and_resubmitted():
    with p.cluster(workers=1) as c:
        mended = c.dir + "/mended"
        job = hawk.submit(["sh", "-c", f"test {{}} = one || test -e {mended}"], inputs=["one", "two"], hold=True)
        assert job.state == "held" and job.release() and job.wait(BOUND) == "failed"
        assert not job.hold() and not job.release()
        open(mended, "w", encoding="ascii").close()
        again = job.resubmit(failed=True)
        assert again.id != job.id and again.wait(BOUND) == "done"
        assert [task.state for task in again.tasks()] == ["done"] * 2
        assert c.job(again.id)["again_of"] == job.id, c.job(again.id)
        last = job.resubmit(after=[again, f"{job.id}:any"])
        assert c.job(last.id)["after"] == [again.id, f"{job.id}:any"] and last.wait(BOUND) == "done"
        first = hawk.submit(["sh", "-c", f"while ! test -e {c.dir}/go; do sleep 0.1; done"], max_running=1, count=2)
        wait_for("the first task", lambda: first.state == "running")
        assert first.hold() and c.job(first.id)["held"]
        open(c.dir + "/go", "w", encoding="ascii").close()
        wait_for("one task, and no more", lambda: [task.state for task in first.tasks()] == ["done", "waiting"])
        assert first.release() and first.wait(BOUND) == "done"
        assert "has not ended" in refused(hawk.submit(["true"], hold=True).resubmit)


def test_a_job_whose_dist_dies_before_it_answers_runs_again_once():
    def dies(pass_on):
        pass_on()
        c.dists.pop().kill()
        c.dist_addrs.clear()
        c.start_dist("d1")

    before = _cluster.TIMEOUT
    with p.cluster(workers=1) as c, Relay(c, pb, [dies]) as relay, p.environment(HAWK_DIST=relay.addr):
        job = hawk.submit(["sh", "-c", f"echo >> {c.dir}/ran; exit 1"])
        assert len(relay.keys) == 2 and relay.keys[0] == relay.keys[1] != 0, relay.keys
        c.hawk("wait", job.id, check=1)
        relay.lose.append(dies)
        again = job.resubmit()
        assert len(relay.keys) == 4 and relay.keys[2] == relay.keys[3] not in (0, relay.keys[0]), relay.keys
        c.hawk("wait", again.id, check=1)
        assert sorted(j["job"] for j in c.json("jobs")["jobs"]) == [job.id, again.id]
        with open(f"{c.dir}/ran", encoding="ascii") as ran:
            assert len(ran.readlines()) == 2
        try:
            _cluster.TIMEOUT, relay.lose = 0.5, [lambda pass_on: None] * 100
            assert "Socket closed; whether it accepted the job is not known: look for it" in refused(job.resubmit)
            assert len(relay.keys) > 5, relay.keys
        finally:
            _cluster.TIMEOUT, relay.lose = before, []


def test_a_job_is_found_by_its_id():
    with p.cluster(workers=1, slots=2) as c:
        made = c.hawk("submit", "--", "echo", "hello").stdout.strip()
        job = hawk.job(made)
        assert job.id == made and job.check() is job and job.tasks()[0].output() == b"hello\n"
        with p.environment(HAWK_DIST=None, HAWK_LOGIN="none"):
            assert hawk.job(made, dist=c.dist_addrs[0]).state == "done"
        assert "it never was" in refused(lambda: hawk.job(made.split(".")[0] + ".999").state)
        assert "the dist that is node 99 would have it, and `hawk nodes` says" in refused(lambda: hawk.job("99.9").state)
        for text in ("", "17", "1.", ".17", "1.17:any", "1.17\n", "0.17", "last"):
            try:
                raise AssertionError(f"{text!r} is {hawk.job(text)}")
            except ValueError as e:
                assert "a job's id is as 3.17" in str(e), e


def test_the_socket_of_a_dist_on_this_machine_is_found():
    """As `hawk` finds it (test_users.py), past a `hawk up` that was killed."""
    with tempfile.TemporaryDirectory() as d:
        env = {k: v for k, v in os.environ.items() if not k.startswith("HAWK_")}
        env = {**env, "HOME": d, "XDG_STATE_HOME": f"{d}/state", "XDG_RUNTIME_DIR": d, "HAWK_LOGIN": "none",
               "PYTHONPATH": p.PACKAGE}
        os.mkdir(f"{d}/hawk")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{d}/hawk/up.sock")
        uid = ANN if os.geteuid() == 0 else None
        if uid:  # root's own is in /var/lib
            os.chmod(os.path.dirname(d), 0o711)
            for path in (d, f"{d}/hawk", f"{d}/hawk/up.sock"):
                os.chown(path, uid, uid)
        daemons = []

        def start(*args):
            daemons.append(Daemon(argv=[*dropped(uid), HAWK, *args], env=env))
            return daemons[-1].ready()

        try:
            central = start("central", "--listen", f"unix:{d}/c")
            start("worker", "--listen", f"unix:{d}/w", "--central", central, "--slots", "1", "--agent-grace", "2s")
            start("dist", "--listen", f"unix:{d}/d", "--central", central)
            r = subprocess.run([*dropped(uid), "/usr/bin/python3", "-c", FOUND, f"unix:{d}/d"], capture_output=True, text=True,
                               timeout=BOUND, env=env, cwd="/")
            assert (r.stdout, r.returncode) == ("done\nTrue\ndone True\n", 0), r
        finally:
            for daemon in reversed(daemons):
                daemon.stop()


def test_jobs_are_their_users():
    """Where callers are not known, the client says whose a job is."""
    me = pwd.getpwuid(os.getuid()).pw_name
    with p.cluster(workers=1) as c:
        job = hawk.run(["true"])
        c.hawk("wait", "last")
        with hawk.Executor() as ex:
            assert ex.submit(p.square, 3).result(BOUND) == 9
        jobs = c.json("jobs", "--all")["jobs"]
        assert {(j["name"], j["user"]) for j in jobs} == {(name, me) for name in ("true", "square", "python", "python-end")}, jobs
        assert job.id in [j["job"] for j in c.json("jobs", "--all", "--mine")["jobs"]]


def test_a_job_is_named_after_its_command_line():
    """As by `hawk submit`: both share the history of one command line, and of no other."""
    with p.cluster(workers=1) as c:
        for command in (["/bin/echo", "/a/b", "x y"], ["echo", os.fsdecode(b"caf\xe9\n~")], ["echo", "é" * 300], ["true"]):
            by_hawk, by_python = c.hawk("submit", "--", *command).stdout.strip(), hawk.submit(command).id
            names = [c.job(job)["name"] for job in (by_hawk, by_python)]
            assert names[0] == names[1], names
        assert names == ["true"] * 2


def refused(call):
    """What its HawkError says."""
    try:
        return f"no error: {call()}"
    except hawk.HawkError as e:
        return str(e)


def test_the_error_of_the_dist_that_has_the_job_is_told():
    with p.cluster(KnownCluster, workers=1, dists=2) as c:
        with p.environment(HAWK_DIST=c.dist_addrs[1]):
            job = hawk.submit(["true"])
        job.wait(BOUND)
        job = hawk.Job(_cluster.Cluster(), job.id)
        assert "it never was" in refused(hawk.Job(job._cluster, job.id.split(".")[0] + ".999").used)
        if others_exist():
            bob = _cluster.Cluster()
            channel, bob.channel = bob.channel, lambda address: channel(address_as(BOB, address))
            error = refused(hawk.Job(bob, job.id).cancel)
            assert "others need scope operate" in error, error
        assert job.used()
        c.dists[1].kill()
        error = refused(job.used)
        assert "no job" not in error and c.dist_addrs[1] in error, error


def test_ctrl_c_while_no_dist_answers():
    """The program ends at once, and as the user wants it to."""
    class Interrupted(hawk.Job):
        def wait(self, timeout=None):
            c.dists[0].p.send_signal(how)
            raise KeyboardInterrupt
    before = _jobs.Job, _jobs.CANCEL_SECONDS
    _jobs.Job, _jobs.CANCEL_SECONDS = Interrupted, 0.5
    try:
        with p.cluster(workers=1) as c:
            for how in (signal.SIGSTOP, signal.SIGKILL):
                began = time.monotonic()
                try:
                    hawk.run(["sleep", "600"])
                    raise AssertionError("nobody pressed Ctrl-C")
                except KeyboardInterrupt as e:
                    assert "it goes on, since it could not be cancelled: " in str(e.__cause__), repr(e.__cause__)
                assert time.monotonic() - began < _cluster.TIMEOUT, "it asked for as long as any call does"
                c.dists[0].p.send_signal(signal.SIGCONT)
    finally:
        _jobs.Job, _jobs.CANCEL_SECONDS = before


class SlowWorker(grpc.GenericRpcHandler):
    """Tells an output in two parts, with so much time in between that the call ends."""
    text = b"first, second"

    def service(self, details):
        if details.method.endswith("/ListNodes"):
            return grpc.unary_unary_rpc_method_handler(lambda *_: pb.ListNodesReply(embedded=True).SerializeToString())
        return grpc.unary_stream_rpc_method_handler(self.read)

    def read(self, request, context):
        asked, over = pb.ReadOutputRequest.FromString(request), threading.Event()
        context.add_callback(over.set)
        left = self.text[asked.offset:]
        yield pb.OutputChunk(data=left[:7], path=f"out-{asked.task}").SerializeToString()
        if len(left) > 7 or asked.task == 1:
            over.wait(BOUND)


def test_an_output_takes_longer_than_a_call():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), [SlowWorker()])
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    before, _cluster.TIMEOUT = _cluster.TIMEOUT, 3.0
    try:
        cluster = _cluster.Cluster(address)
        assert cluster.output("1.1", 0, 2) == b"first, second"
        assert "Deadline Exceeded" in refused(lambda: cluster.output("1.1", 1, 2)), "nothing more comes"
    finally:
        _cluster.TIMEOUT = before
        server.stop(None)


def test_types_are_those_of_the_package():
    """Type checkers read __init__.pyi alone: its names, arguments and defaults are those of what is there."""
    home = os.path.dirname(hawk.__file__)
    assert os.path.exists(f"{home}/py.typed")
    with open(f"{home}/__init__.pyi", encoding="ascii") as f:
        declared = {}
        exec(compile(f.read(), "__init__.pyi", "exec"), declared)

    def arguments(function):
        return [(a.name, a.kind, a.default) for a in inspect.signature(function).parameters.values()]

    assert declared["__all__"] == hawk.__all__ and set(hawk.__all__) <= set(declared)
    for name in hawk.__all__:
        typed, real = declared[name], getattr(hawk, name)
        if not isinstance(real, type):
            assert arguments(typed) == arguments(real), name
            continue
        assert [c.__name__ for c in typed.__mro__] == [c.__name__ for c in real.__mro__], name
        for method, function in vars(typed).items():
            if inspect.isfunction(function):
                assert arguments(function) == arguments(getattr(real, method)), (name, method)
        public = {n for n, value in vars(real).items() if n[0] != "_" and (callable(value) or isinstance(value, property))}
        assert public <= set(vars(typed)), (name, public)
    with p.up():
        job = hawk.run(["true"])
        for value, kind in (job, declared["Job"]), (job.tasks()[0], declared["Task"]):
            known = {*kind.__annotations__, *vars(kind)}
            assert {n for n in vars(value) if n[0] != "_"} <= known and all(hasattr(value, n) for n in kind.__annotations__)


def test_after_retries_and_max_fails():
    with p.cluster(workers=1, dists=2) as c, tempfile.TemporaryDirectory() as d:
        with p.environment(HAWK_DIST=c.dist_addrs[1]):
            first = hawk.submit(["sh", "-c", f"until test -e {d}/go; do sleep 0.1; done; exit {{}}"], inputs=[3, 0])
        well, anyhow = hawk.submit(["true"], after=[first]), hawk.submit(["true"], after=[first.id + ":any"])
        by_task = hawk.submit(["true"], count=2, after=[first])
        whole = hawk.submit(["true"], count=2, after=[first], after_whole=True)
        assert well.state == anyhow.state == "blocked"
        p.mark(f"{d}/go")
        assert [job.wait(BOUND) for job in (first, well, anyhow)] == ["failed", "cancelled", "done"]
        by_task.wait(BOUND), whole.wait(BOUND)
        assert [[task.state for task in job.tasks()] for job in (by_task, whole)] == [["cancelled", "done"], ["cancelled"] * 2]

        def tries(script, **more):
            job = hawk.run(["sh", "-c", script], check=False, retries=2, **more)
            return c.job(job.id)["task_list"][0]["attempt"]
        assert tries("exit 3", retry_on=[4, "signal"]) == 1
        assert tries("exit 4", retry_on=[4]) == tries("kill $$", retry_on=["signal"]) == tries("exit 5") == 3
        began = time.monotonic()
        assert tries("exit 6", retry_delay=0.2) == 3 and time.monotonic() - began >= 0.6
        stopped = hawk.run(["sh", "-c", "exit {}"], inputs=[1] * 20, max_fails=2, check=False)
        assert {task.state for task in stopped.tasks()} == {"failed", "cancelled"}
        alone = hawk.run(["sh", "-c", f"mkdir {d}/lock || exit 9; sleep 0.05; rmdir {d}/lock"], count=6, max_running=1)
        assert c.job(alone.id)["max_running"] == 1
        for wrong, error in (({"retry_on": [3]}, ValueError), ({"env": {"A=B": "x"}}, ValueError), ({"env": {b"": "x"}}, ValueError),
                             ({"max_running": -1}, ValueError), ({"retries": 1, "retry_on": [0]}, ValueError),
                             ({"retries": 1, "retry_on": ["x"]}, ValueError), ({"after": ["3"]}, ValueError),
                             ({"after": first}, TypeError), ({"max_fails": -1}, ValueError)):
            try:
                hawk.submit(["true"], **wrong)
                raise AssertionError(f"{wrong} was taken")
            except error:
                pass


MANY = """import resource, hawk
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
jobs = [hawk.submit(["true"]) for _ in range(300)]
print({job.wait() for job in jobs})
"""


def test_many_jobs_need_few_connections():
    with p.cluster(workers=2, slots=2), tempfile.TemporaryDirectory() as d:
        with p.program(d, MANY) as program:
            out, err = program.communicate(timeout=3 * BOUND)
        assert (out, program.returncode) == ("{'done'}\n", 0), err


def test_jobs_share_connections_where_they_are_of_one_user_and_cluster():
    with p.cluster(workers=1, dists=2) as c, p.environment(HAWK_DIST=c.dist_addrs[0]):
        job, same = hawk.submit(["true"]), hawk.submit(["true"])
        assert job._cluster is same._cluster
        with p.environment(HAWK_TOKEN="s" * 16):
            assert hawk.submit(["true"])._cluster is not job._cluster
        assert hawk.submit(["true"], dist=c.dist_addrs[1])._cluster is not job._cluster


def test_another_dist_takes_what_one_certainly_did_not():
    with p.cluster(workers=1, dists=2) as c, p.environment(HAWK_DIST=c.dist_addrs[0]):
        first = hawk.run(["true"])
        c.hawk("drain", "d1")
        assert "is draining" in refused(lambda: hawk.submit(["true"], after=[first])), "it has to be at the same dist"
        assert hawk.run(["true"]).state == "done"  # though only the first one was named


class Silent(grpc.GenericRpcHandler):
    """Takes jobs, and says of them what it is told to."""
    def __init__(self, code, text):
        self.code, self.text, self.jobs = code, text, 0

    def service(self, details):
        if details.method.endswith("/ListNodes"):
            return grpc.unary_unary_rpc_method_handler(lambda *_: pb.ListNodesReply().SerializeToString())
        return grpc.unary_unary_rpc_method_handler(self.submit)

    def submit(self, request, context):
        self.jobs += 1
        context.abort(self.code, self.text)


def test_what_says_that_no_dist_accepted_a_job_is_what_dists_say():
    texts = {}
    for header in ("api", "server"):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"../../net/{header}.h"), encoding="ascii") as f:
            texts.update(re.findall(r'^#define (\w+)_TEXT "(.*)"$', f.read(), re.M))
    assert {texts["API_NOT_ACCEPTED"], texts["API_DRAINING"]} <= set(_cluster.UNTOUCHED), texts
    assert texts["API_NOT_ACCEPTED"] in texts["SERVER_STOPPING"], texts


def test_a_job_that_may_have_been_accepted_goes_nowhere_else():
    """Its dist is asked again, where no answer came."""
    before = _cluster.TIMEOUT
    for code, text, elsewhere in ((grpc.StatusCode.UNAVAILABLE, "the job was not accepted: it is shutting down", True),
                                  (grpc.StatusCode.INTERNAL, "the job was not accepted: input or output error", True),
                                  (grpc.StatusCode.INTERNAL, "input or output error", False),
                                  (grpc.StatusCode.CANCELLED, "", True),
                                  (grpc.StatusCode.UNAVAILABLE, "recvmsg: Connection reset by peer", False),
                                  (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", False)):
        servers, asked = [], [Silent(code, text), Silent(grpc.StatusCode.INVALID_ARGUMENT, "the second one")]
        for handler in asked:
            servers.append(grpc.server(concurrent.futures.ThreadPoolExecutor(2), [handler]))
        addresses = [f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}" for server in servers]
        for server in servers:
            server.start()
        try:
            _cluster.TIMEOUT = 0.5
            assert ("the second one" in refused(lambda: hawk.submit(["true"], dist=",".join(addresses)))) == elsewhere, text
            again = not elsewhere and code != grpc.StatusCode.INTERNAL
            assert (asked[0].jobs > 1) == again and asked[1].jobs == int(elsewhere), (text, asked[0].jobs)
        finally:
            _cluster.TIMEOUT = before
            for server in servers:
                server.stop(None)


run_tests(sys.modules[__name__])
