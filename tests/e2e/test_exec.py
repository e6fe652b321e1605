"""hawk exec: one command on the cluster, as if it ran here."""
import os
import select
import signal
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, Daemon, heed_signals, run_hawk, run_tests, user_environment, wait_for


def start(c, *args, **more):
    return subprocess.Popen([HAWK, "exec", *args], env={**os.environ, **c.exec_env}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **{"preexec_fn": heed_signals, **more})


def run(c, *args, check=0, input=b""):
    p = start(c, *args, stdin=subprocess.PIPE)
    out, err = p.communicate(input, timeout=BOUND)
    assert p.returncode == check, (p.returncode, out, err)
    return out, err


def test_it_is_as_if_it_ran_here():
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        c.exec_env = {"HAWK_DIST": c.dist_addrs[0]}
        assert run(c, "--", "echo", "hi {}") == (b"hi {}\n", b"")
        assert run(c, "--", "sh", "-c", "echo err >&2; exit 7", check=7) == (b"", b"err\n")
        assert run(c, "--", "sort", input=b"b\n\xff\na\n")[0] == b"a\nb\n\xff\n"
        data = os.urandom(500000)
        assert run(c, "--", "cat", input=data)[0] == data
        assert run(c, "-n", "--", "cat", input=b"x")[0] == b""
        assert run(c, "--", "sh", "-c", "kill -9 $$", check=137)[1] == b""
        assert b"time limit" in run(c, "-t", "100ms", "--", "sleep", "60", check=124)[1]
        assert b"no such program" in run(c, "--", "/no/such/program", check=127)[1]
        # More than Hawk passes, a wrong flag, no cluster: none of these is a code of the command's.
        assert b"limit" in run(c, "--", "cat", input=b"x" * (1 << 21), check=125)[1]
        assert b"--frob" in run(c, "--frob", "--", "true", check=125)[1]
        assert run(c, "--dist", "127.0.0.1:1", "--timeout", "300ms", "--", "true", check=125)[1]
        # As a shell, it reads no input.
        assert run(c, "-c", "echo $1-$0; cat", "zero", "one", input=b"x")[0] == b"one-zero\n"
        with open(f"{d}/Makefile", "w") as f:
            f.write(f"SHELL := {HAWK}\n.SHELLFLAGS := exec -c\n"
                    "all: a b\n\t@cat a b; echo job $$HAWK_JOB_ID | sed 's/[0-9.]*$$/N/'\na b:\n\t@echo $@ > $@\n"
                    "bad:\n\texit 3\n")
        def make(*args):
            return subprocess.run(["make", "-C", d, "-j2", "--no-print-directory", *args], capture_output=True, text=True,
                                  timeout=BOUND, env={**os.environ, "MAKEFLAGS": "", **c.exec_env})
        r = make()
        assert (r.returncode, r.stdout, r.stderr) == (0, "a\nb\njob N\n", ""), r
        assert "Error 3" in make("bad").stderr


def test_variables_as_with_submit():
    """The local `hawk up` runs what is exported here, as a shell would; a cluster gets what --export says."""
    show = ("--", "sh", "-c", "echo $GREETING $1", "sh")
    with tempfile.TemporaryDirectory() as d:
        env = {**user_environment(d), "GREETING": "hello"}
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            assert run_hawk(env, "exec", "-n", *show).stdout == "hello\n"
            assert run_hawk(env, "exec", "-n", "--clean-env", *show).stdout == "\n"
            with open(f"{d}/Makefile", "w", encoding="utf-8") as f:
                f.write("export GREETING = from make\nall:\n\t@echo $$GREETING\n")
            r = subprocess.run(["make", "-C", d, "--no-print-directory", f"SHELL={HAWK}", ".SHELLFLAGS=exec -c"], text=True,
                               capture_output=True, timeout=BOUND, env={**env, "MAKEFLAGS": ""})
            assert (r.returncode, r.stdout) == (0, "from make\n"), r
        finally:
            up.stop()
    with Cluster(workers=1) as c:
        env = {**os.environ, "HAWK_DIST": c.dist_addrs[0], "GREETING": "hello"}
        for flags, said in (((), ""), (("--export", "GREETING"), "hello"), (("--env", "GREETING"), "hello")):
            assert run_hawk(env, "exec", "-n", *flags, *show).stdout == f"{said}\n", flags


def test_output_comes_as_it_is_written_and_ctrl_c_cancels():
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        c.exec_env = {"HAWK_DIST": c.dist_addrs[0]}
        p = start(c, "-n", "--", "sh", "-c", f"echo $$ > {d}/pid; echo out; echo err >&2; exec sleep 600")
        for stream, text in ((p.stdout, b"out\n"), (p.stderr, b"err\n")):
            assert select.select([stream], [], [], BOUND)[0] and os.read(stream.fileno(), 100) == text
        p.send_signal(signal.SIGINT)
        assert p.wait(BOUND) == -signal.SIGINT
        pid = open(f"{d}/pid").read().strip()
        wait_for("the command's end", lambda: not os.path.exists(f"/proc/{pid}"))


def ignore_signals():
    """As nohup and a shell without job control do."""
    for s in (signal.SIGINT, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)


def test_what_is_ignored_stays_ignored():
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        c.exec_env = {"HAWK_DIST": c.dist_addrs[0]}
        p = start(c, "-n", "--", "sh", "-c", f"echo out; until [ -e {d}/go ]; do sleep 0.1; done", preexec_fn=ignore_signals)
        assert p.stdout.readline() == b"out\n"
        job = c.hawk("jobs", "-q").stdout.strip()
        waits = subprocess.Popen([HAWK, "wait", "--progress", job], env={**os.environ, **c.exec_env}, stderr=subprocess.PIPE,
                                 preexec_fn=ignore_signals)
        assert waits.stderr.read(1)
        for s in (signal.SIGINT, signal.SIGHUP):
            p.send_signal(s)
            waits.send_signal(s)
        open(f"{d}/go", "w").close()
        assert p.wait(BOUND) == 0, p.stderr.read()
        assert waits.wait(BOUND) == 0, waits.stderr.read()


def test_output_that_nobody_takes_cancels():
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        c.exec_env = {"HAWK_DIST": c.dist_addrs[0]}
        p = start(c, "-n", "--", "sh", "-c", f"echo $$ > {d}/pid; echo out; while sleep 0.05; do echo more; done")
        assert p.stdout.readline() == b"out\n"
        p.stdout.close()
        assert (p.wait(BOUND), p.stderr.read()) == (141, b"")
        pid = open(f"{d}/pid").read().strip()
        wait_for("the command's end", lambda: not os.path.exists(f"/proc/{pid}"))
        with open("/dev/full", "w") as full:
            r = subprocess.run([HAWK, "exec", "-n", "--", "echo", "out"], env={**os.environ, **c.exec_env}, stdout=full,
                               stderr=subprocess.PIPE, timeout=BOUND)
        assert r.returncode == 125 and b"stdout: No space left on device" in r.stderr, r


NO_THREAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* gRPC gives its threads attributes. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int n;
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return !attr && n++ == atoi(getenv("NO_THREAD")) ? EAGAIN : real(t, attr, run, arg);
}
"""


def test_without_a_thread_for_output_it_fails():
    if os.environ.get("SANITIZE"):
        print("skip: a sanitizer has to come before what is preloaded")
        return
    with Cluster(workers=1) as c, tempfile.TemporaryDirectory() as d:
        with open(f"{d}/no_thread.c", "w", encoding="utf-8") as f:
            f.write(NO_THREAD)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{d}/no_thread.so", f.name], check=True, timeout=BOUND)
        for i, name in enumerate(["stdout", "stderr"]):
            c.exec_env = {"HAWK_DIST": c.dist_addrs[0], "LD_PRELOAD": f"{d}/no_thread.so", "NO_THREAD": str(i)}
            out, err = run(c, "-n", "--", "sh", "-c", "echo out; echo err >&2", check=125)
            said = f"{name}: no thread can be started: Resource temporarily unavailable\n".encode()
            assert said in err and out == (b"out\n" if i else b"") and (b"err\n" in err) == (not i), (out, err)


run_tests(sys.modules[__name__])
