# timeout: 300
"""Tasks run as their users (worker.run_as: user), from outside: the daemons are an unprivileged user's, hawk-run-as starts the
users' runners, and what a user does to his own harms his own tasks alone."""
# make test-all
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

from grpctest import pb
from hawktest import BOUND, HAWK, Daemon, alive, dropped, run_tests, wait_for
from runastest import ANN, BOB, CAT, HAWK_USER, LAB, LOW, enter_machine, install_helper
from runnerstest import RunAsCluster
from userstest import caller_as

MACHINE = enter_machine()


def state(c, uid, job):
    return json.loads(c.as_user(uid, "job", job, "--output", "json").stdout)["jobs"][0]["state"]


def test_each_task_is_its_users():
    with RunAsCluster(workers=1, slots=2) as c:
        assert "worker.run_as is user" in wait_for("the log", lambda: "worker.run_as" in c.workers[0].text() and c.workers[0].text())
        assert [n["serves"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == [None]
        for uid, groups in ((ANN, {ANN, LAB}), (BOB, {BOB})):
            for more in ((), ("--class", "long")):
                job = c.submit_as(uid, "--wait", *more, "--", "sh", "-c", "id -u; id -g; id -G; echo $HAWK_TASK_INDEX; echo for stderr >/dev/stderr")
                who, group, all_groups, index = c.cat(uid, job).splitlines()
                assert (int(who), int(group), set(map(int, all_groups.split())), index) == (uid, uid, groups, "0")
                assert c.cat(uid, job, "stderr") == "for stderr\n"
        # The user's own file is opened as him.
        file = f"{MACHINE}/ann/of-ann"
        c.submit_as(ANN, "--wait", "--stdout", file, "--", "echo", "mine")
        with open(file, encoding="ascii") as f:
            assert f.read() == "mine\n" and os.stat(file).st_uid == ANN
        r = c.as_user(BOB, "submit", "--wait", "--stdout", f"{MACHINE}/ann/of-bob", "--retries", "0", "--", "true", check=None)
        assert r.returncode and not os.path.exists(f"{MACHINE}/ann/of-bob"), r
        assert "run_as in force, since the worker was started last, is user" in c.hawk(
            "config", "show", "worker", "--set", f"worker.state_dir={c.dir}/state", "--set", "worker.name=w1").stdout


def test_dots_lead_no_output_to_others():
    """A name is one part of a path; a pattern may lead anywhere, but its file is opened as the task's user."""
    with RunAsCluster(workers=1) as c:
        bob = ("--cwd", f"{MACHINE}/bob", "--retries", "0")
        for name, file in (("../../ann/named", ".._.._ann_named"), ("..", "__")):
            c.submit_as(BOB, "--wait", *bob, "--name", name, "--stdout", "%n", "--", "echo", "bob's")
            with open(f"{MACHINE}/bob/{file}", encoding="ascii") as f:
                assert f.read() == "bob's\n"
        c.submit_as(BOB, "--wait", *bob, "--name", "../../ann/named", "--", "true")  # kept by the worker
        for pattern in ("../ann/of-bob", "new/../../ann/of-bob", "../ann/%n"):
            r = c.as_user(BOB, "submit", "--wait", *bob, "--name", "of-bob", "--stdout", pattern, "--", "true", check=None)
            assert r.returncode == 1, r
        assert not any("of-bob" in f or "named" in f for f in os.listdir(f"{MACHINE}/ann"))
        # Nor does a link that leads there.
        for link, to in (("to-ann", "../ann"), ("file", "../ann/of-bob")):
            os.symlink(to, f"{MACHINE}/bob/{link}")
        for pattern in ("to-ann/of-bob", "file", "to-ann/new/of-bob"):
            r = c.as_user(BOB, "submit", "--wait", *bob, "--stdout", pattern, "--", "true", check=None)
            assert r.returncode == 1, r
        assert not any(f in ("of-bob", "new") for f in os.listdir(f"{MACHINE}/ann"))
        for link in ("to-ann", "file"):
            os.unlink(f"{MACHINE}/bob/{link}")
        c.submit_as(BOB, "--wait", *bob, "--stdout", "../bob/own", "--", "true")
        assert os.stat(f"{MACHINE}/bob/own").st_uid == BOB


def test_whose_tasks_do_not_run():
    with RunAsCluster(workers=1) as c:
        for uid, why in ((0, "allow_root"), (LOW, "below lowest_uid"), (HAWK_USER, "the worker runs as"), (61999, "knows no user 61999")):
            r = c.as_user(uid, "submit", "--wait", "--", "id", check=None)
            job = r.stdout.strip().splitlines()[0]
            assert r.returncode and why in c.as_user(uid, "job", job).stdout + r.stderr, (uid, r, c.as_user(uid, "job", job).stdout)
        c.submit_as(ANN, "--wait", "--", "true")
    with RunAsCluster(workers=1, settings=("allow_root yes",), program="hawk") as c:  # as configurations of earlier versions say
        assert c.cat(0, c.submit_as(0, "--wait", "--", "id", "-u")) == "0\n"


def test_tasks_have_their_users_limits():
    """Those of limits.conf; of open files, where it says nothing, the worker's, not what its agent has raised that to."""
    limits = f"{MACHINE}/limits.conf"
    with open(limits, "w", encoding="ascii") as f:
        f.write("ann - nofile 300\n* hard core 0\nbob hard nofile 900\n")
    show = ("--wait", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Hc")
    with RunAsCluster(workers=1, settings=[f"limits {limits}"], before=["prlimit", "--nofile=200:1000"]) as c:
        assert c.cat(ANN, c.submit_as(ANN, *show)).split() == ["300", "300", "0"]
        job = caller_as(ANN, c.dist_addrs[0])("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, argv=[b"env"])), pb.SubmitReply).job
        c.as_user(ANN, "wait", job)
        assert "HAWK_RUN=" in c.cat(ANN, job) and "HAWK_RUNNER" not in c.cat(ANN, job)
        assert c.cat(BOB, c.submit_as(BOB, *show)).split() == ["200", "900", "0"]
        assert c.cat(CAT, c.submit_as(CAT, *show)).split() == ["200", "1000", "0"]
    with RunAsCluster(workers=1, settings=["limits none"], before=["prlimit", "--nofile=200:1000", "--core=5000"]) as c:
        assert c.cat(ANN, c.submit_as(ANN, *show)).split() == ["200", "1000", "9"]


def test_a_runner_loads_no_more_libraries_than_verify_signatures():
    """A user's first task on a worker waits for it: the libraries of `hawk` take the loader longer than all else."""
    with RunAsCluster(workers=1) as c:
        c.up(ANN, "--", "sh", "-c", "echo up; exec sleep 1000")
        with open(f"/proc/{c.runner(ANN)}/maps", encoding="utf-8") as f:
            loaded = {os.path.basename(line.split()[5]).split(".")[0] for line in f if ".so" in line}
        assert loaded <= {"libcrypto", "libc", "ld-linux-x86-64", "ld-linux-aarch64"} or os.environ.get("SANITIZE"), loaded


def test_neither_touches_the_others():
    with RunAsCluster(workers=1, slots=2) as c:
        job = c.up(ANN, "--env", "SECRET=of-ann", "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        pid = int(c.cat(ANN, job).split()[0])
        output = glob.glob(f"{c.dir}/out-w1/{job}/*.out")[0]
        users = f"{c.dir}/state/w1/users/ann"
        script = (f"kill {pid} && echo killed; kill -9 {c.runner(ANN)} && echo killed; cat /proc/{pid}/environ && echo read; cat {output} && echo read;"
                  f"ls {users} && echo read; echo x >>{output} && echo wrote; for s in {users}/*.sock; do test -S $s && echo found; done; id -u")
        tried = c.submit_as(BOB, "--wait", "--", "sh", "-c", script)
        assert c.cat(BOB, tried) == f"{BOB}\n", c.cat(BOB, tried)
        assert alive(pid) and os.stat(output).st_uid == HAWK_USER
        assert c.as_user(BOB, "cat", job, check=None).returncode
        c.as_user(ANN, "cancel", job)
        wait_for("its end", lambda: not alive(pid))


def test_hawk_cat_reads_nothing_that_the_agent_alone_may_read():
    with RunAsCluster(workers=1) as c:
        secret, link, own = f"{c.dir}/state/secret", f"{c.dir}/link", f"{MACHINE}/ann/own"
        with open(secret, "w", encoding="ascii") as f:
            f.write("of the agent\n")
        os.chown(secret, HAWK_USER, HAWK_USER)
        os.symlink(secret, link)  # where the agent may follow it
        for path, why in ((secret, "it was not started"), (link, "it was not started"), (own, f"its job names a file for it: {own}")):
            job = c.submit_as(ANN, "--stdout", path, "--retries", "0", "--", "true")
            c.as_user(ANN, "wait", job, check=None)
            r = c.as_user(ANN, "cat", job, check=None)
            assert "of the agent" not in r.stdout + r.stderr, r
            assert why in r.stderr, r


def test_hawk_cat_says_which_files_the_agent_does_not_open():
    with RunAsCluster(workers=1, slots=4) as c:
        named = f"{MACHINE}/ann/named"
        job = c.submit_as(ANN, "--stdout", named, "--", "sh", "-c", "echo up >&2; exec sleep 1000")
        wait_for("it to be up", lambda: c.as_user(ANN, "cat", job, "stderr", check=None).stdout == "up\n")
        ended = c.submit_as(ANN, "--wait", "--stdout", f"{named}-2", "--", "true")

        def told(job, why, file):
            r = c.as_user(ANN, "cat", job, check=3)
            return r.stdout == "" and why in r.stderr and f"; its job names a file for it: {file}\n" in r.stderr
        unopened = "in a file of its user's, which this worker does not open: it runs tasks as their users"
        assert told(job, unopened, named) and told(ended, unopened, f"{named}-2"), c.as_user(ANN, "cat", job, check=3)
        c.workers.pop().kill()
        w = c.start_worker("w1")
        wait_for("it to be taken over", lambda: "1 running tasks of an earlier agent taken over" in w.text())
        wait_for("it to be known as running", lambda: state(c, ANN, job) == "running" and c.task(ANN, job)["state"] == "running")
        assert told(job, unopened, named), c.as_user(ANN, "cat", job, check=None)
        assert c.cat(ANN, job, "stderr") == "up\n"
        assert any(told(ended, why, f"{named}-2") for why in (unopened, "or the job names another file")), c.as_user(ANN, "cat", ended, check=3)
        c.as_user(ANN, "cancel", job)


def test_who_kills_his_runner_ends_his_own_tasks():
    with RunAsCluster(workers=1, slots=4) as c:
        of_bob = c.up(BOB, "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        pid_of_bob = int(c.cat(BOB, of_bob).split()[0])
        # It has wiped its environment, left its group, and lost its parent.
        escaped = f"{MACHINE}/ann/escaped"
        job = c.up(ANN, "--retries", "0", "--", "sh", "-c", f"(setsid env -i sh -c 'echo $$ >{escaped}; exec sleep 1000' &); echo up; exec sleep 1000")
        wait_for("the stray", lambda: os.path.exists(escaped) and os.path.getsize(escaped))
        with open(escaped, encoding="ascii") as f:
            stray = int(f.read())
        runner = c.runner(ANN)
        subprocess.run([*dropped(ANN), "kill", "-9", str(runner)], check=True)
        wait_for("all of his to be gone", lambda: not alive(stray) and not alive(runner))
        wait_for("its loss to be known", lambda: "the runner of user ann has ended" in c.workers[0].text())
        # Where it goes on, if it does, that is by another runner.
        c.as_user(ANN, "cancel", job, check=None)
        c.submit_as(ANN, "--wait", "--", "true")
        assert alive(pid_of_bob) and state(c, BOB, of_bob) == "running"
        c.as_user(BOB, "cancel", of_bob)
        os.unlink(escaped)


def test_the_next_try_waits_for_the_end_of_one_whose_keeper_was_killed():
    with RunAsCluster(workers=1) as c:
        tries = f"{MACHINE}/ann/tries"

        def said(n):
            if not os.path.exists(tries):
                return None
            with open(tries, encoding="ascii") as f:
                text = f.read()
            return text if text.count("\n") == n else None

        script = f"exec 9>>{tries}; flock -n 9 && echo alone >&9 || echo beside another >&9; exec sleep 1000"
        job = c.submit_as(ANN, "--class", "long", "--", "sh", "-c", script)
        wait_for("the first try", lambda: said(1))
        with open(f"/proc/{c.runner(ANN)}/status", encoding="utf-8") as f:
            keeper = int(next(line.split()[1] for line in f if line.startswith("PPid:")))
        with open(f"/proc/{keeper}/comm", encoding="utf-8") as f:
            assert f.read() == "hawk-keeper\n"
        os.kill(keeper, signal.SIGKILL)
        both = wait_for("the second try", lambda: said(2))
        assert both == "alone\nalone\n", both
        c.as_user(ANN, "cancel", job)
        os.unlink(tries)


def test_what_a_runner_left_ends_that_was_killed_with_its_keeper():
    """A short task and its child that left its group: before the task is lost, and before the next agent is ready."""
    for with_agent in (False, True):
        with RunAsCluster(workers=1) as c:
            files = [f"{MACHINE}/ann/{name}" for name in ("left", "away")]
            script = f"(setsid sh -c 'echo $$ >{files[1]}; exec sleep 1000' &); until test -s {files[1]}; do sleep 0.01; done; echo $$ >{files[0]}; echo up; sleep 1000"
            job = c.up(ANN, "--at-most-once", "--", "sh", "-c", script)
            pids = []
            for file in files:
                with open(file, encoding="ascii") as f:
                    pids.append(int(f.read()))
                os.unlink(file)
            runner = c.runner(ANN)
            with open(f"/proc/{runner}/status", encoding="utf-8") as f:
                keeper = int(next(line.split()[1] for line in f if line.startswith("PPid:")))
            os.kill(keeper, signal.SIGSTOP)  # it ends nothing more
            if with_agent:
                c.workers.pop().kill()
            os.kill(runner, signal.SIGKILL)
            os.kill(keeper, signal.SIGKILL)
            if with_agent:
                c.start_worker("w1")
            wait_for("it to be lost", lambda j=job: state(c, ANN, j) not in ("running", "queued"))
            assert not any(map(alive, pids))


def test_who_stops_his_runner_cannot_go_on_beyond_his_limits():
    with RunAsCluster(workers=1, slots=4) as c:
        of_bob = c.up(BOB, "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        for limit in ((), ("--time-limit", "1s")):
            job = c.up(ANN, *limit, "--retries", "0", "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
            pid = int(c.cat(ANN, job).split()[0])
            os.kill(c.runner(ANN), signal.SIGSTOP)
            if not limit:
                c.as_user(ANN, "cancel", job)
            wait_for("its end", lambda p=pid: not alive(p))
            wait_for("the job's end", lambda j=job: state(c, ANN, j) not in ("running", "queued"))
            outcome = c.task(ANN, job)["outcome"]
            assert outcome == ("time-limit" if limit else "cancelled"), c.task(ANN, job)
        assert state(c, BOB, of_bob) == "running"
        c.as_user(BOB, "cancel", of_bob)


def test_nobody_becomes_everybody_by_a_worker_that_runs_all_as_itself():
    with RunAsCluster(workers=0) as c:
        flags = ("--central", c.central_addr, "--listen", "127.0.0.1:0", "--run-as-helper", c.helper, "--state-dir", f"{c.dir}/state",
                 "--output-dir", f"{c.dir}/out-w1")
        w = Daemon(argv=[*dropped(HAWK_USER), HAWK, "worker", *flags, "--insecure"], env={"HOME": "/nonexistent"})
        assert w.wait() == 1 and "every user of this machine could run commands as hawk, and so, by" in w.text(), w.text()
        for listen in ([], ["--listen", f"unix:{c.dir}/run/w1.sock"]):
            w = Daemon(argv=[*dropped(HAWK_USER), HAWK, "worker", *flags, *listen], env={"HOME": "/nonexistent"})
            try:
                w.ready()
                wait_for("its warning", lambda p=w: "run commands as hawk can run them as any user, by" in p.text())
            finally:
                w.stop()


def test_another_agent_takes_the_runners_over():
    with RunAsCluster(workers=1, slots=4) as c:
        go = {uid: f"{MACHINE}/{name}/go" for uid, name in ((ANN, "ann"), (BOB, "bob"))}
        jobs = {uid: c.up(uid, *more, "--", "sh", "-c", f"echo $$; echo up; until test -e {go[uid]}; do sleep 0.1; done; echo done; exit 3")
                for uid, more in ((ANN, ()), (BOB, ("--class", "long")))}
        pids = {uid: int(c.cat(uid, job).split()[0]) for uid, job in jobs.items()}
        runners = {uid: c.runner(uid) for uid in jobs}
        c.workers.pop().kill()
        w = c.start_worker("w1")
        wait_for("both to be taken over", lambda: "2 running tasks of an earlier agent taken over" in w.text())
        assert all(map(alive, pids.values())) and {uid: c.runner(uid) for uid in jobs} == runners
        # Limits go on as well.
        for uid, job in jobs.items():
            with open(go[uid], "w", encoding="ascii"):
                pass
            c.as_user(uid, "wait", job, check=None)
            assert c.cat(uid, job).split()[1:] == ["up", "done"] and c.task(uid, job)["code"] == 3, c.task(uid, job)
            os.unlink(go[uid])
        # A stopped one is given up, soon, and its tasks with it; it keeps nobody's agent from starting.
        job = c.up(ANN, "--", "sh", "-c", "echo $$; echo up; exec sleep 1000")
        pid, of_bob = int(c.cat(ANN, job).split()[0]), c.up(BOB, "--", "sh", "-c", "echo up; exec sleep 1000")
        os.kill(c.runner(ANN), signal.SIGSTOP)
        c.workers.pop().kill()
        w = c.start_worker("w1")
        wait_for("the stopped one to be ended", lambda: not alive(pid))
        assert "the runner of user ann does not answer" in w.text() and state(c, BOB, of_bob) == "running", w.text()
        for uid, j in ((ANN, job), (BOB, of_bob)):
            c.as_user(uid, "cancel", j)


def test_a_client_that_cannot_look_its_user_up_says_so():
    os.chmod(f"{MACHINE}/passwd", 0o600)
    try:
        r = RunAsCluster.as_user(None, ANN, "jobs", "--mine", dist=f"unix:{MACHINE}/none", check=3)
        assert f"hawk: jobs: your name cannot be looked up on this machine: you count as user {ANN} until it can" in r.stderr, r
    finally:
        os.chmod(f"{MACHINE}/passwd", 0o644)
    r = RunAsCluster.as_user(None, 4711, "jobs", "--mine", dist=f"unix:{MACHINE}/none", check=3)
    assert "looked up" not in r.stderr, r


def test_an_idle_runner_leaves_and_its_output_stays():
    with RunAsCluster(workers=1, worker=("--run-as-idle", "100ms")) as c:
        job = c.submit_as(ANN, "--wait", "--", "sh", "-c", "echo kept; (setsid env -i sleep 1000 &)")
        wait_for("the runner to leave", lambda: not c.tree(ANN))
        assert c.cat(ANN, job) == "kept\n"
        c.submit_as(ANN, "--wait", "--", "true")


def test_upgrade_and_stop_reach_every_runner():
    with RunAsCluster(workers=1, slots=3) as c:
        jobs = {uid: c.up(uid, "--class", "long", "--", "sh", "-c", "echo $$; echo up; exec sleep 1000") for uid in (ANN, BOB)}
        pids = {uid: int(c.cat(uid, job).split()[0]) for uid, job in jobs.items()}
        own = c.submit_as(ANN, "--class", "long", "--stdout", f"{MACHINE}/ann/1", "--stderr", f"{MACHINE}/ann/2", "--", "sleep", "1000")
        wait_for("it to run", lambda: c.task(ANN, own)["state"] == "running")
        w = c.workers.pop()
        w.p.send_signal(signal.SIGUSR2)
        assert w.wait() == 0 and "leaving 3 tasks" in w.text(), w.text()
        w = c.start_worker("w1")
        assert all(map(alive, pids.values())) and "3 running tasks" in w.text()
        wait_for("it to be heard of", lambda: c.task(ANN, own)["state"] == "running")
        assert "in a file of its user's" in c.as_user(ANN, "cat", own, check=3).stderr  # it is known whose it is
        assert f"job {own} is of user ann" in c.as_user(BOB, "cat", own, check=3).stderr
        w.p.send_signal(signal.SIGTERM)
        w.p.send_signal(signal.SIGTERM)
        w.wait(BOUND)
        c.workers.pop()
        wait_for("all to be gone", lambda: not c.tree(ANN) and not c.tree(BOB))


def test_without_a_helper_that_works_it_does_not_start():
    with RunAsCluster(workers=0) as c:
        os.chmod(c.helper, 0o750)
        w = c.start_worker("w1", wait=False)
        assert w.wait() == 1 and "is not installed setuid root" in w.text(), w.text()
        c.workers.pop()
        # With auto it serves its own user alone, and says why.
        w = c.start_worker("w1", flags=("--run-as", "auto"))
        wait_for("its user to be known", lambda: [n["serves"] for n in c.json("nodes")["nodes"] if n["role"] == "worker"] == ["hawk"])
        assert "commands cannot run as their users here" in w.text()


CALLS = """import hawk, os, sys

def who(_):
    return os.getuid(), os.environ["HAWK_WORKER"], os.getppid()

if __name__ == "__main__":
    with hawk.Executor() as ex:
        before = set(ex.map(who, range(20)))
        print(*before, flush=True)
        sys.stdin.readline()
        print(before == set(ex.map(who, range(20))))
"""


def calls_as(c, uid, home):
    """A program of that user's that makes calls on the cluster."""
    with open(f"{c.dir}/calls.py", "w", encoding="utf-8") as f:
        f.write(CALLS)
    if not os.path.exists(f"{c.dir}/python"):
        shutil.copytree(f"{os.path.dirname(HAWK)}/python", f"{c.dir}/python")
    return subprocess.Popen([*dropped(uid), "/usr/bin/python3", f"{c.dir}/calls.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home,
                            env={"PATH": os.environ["PATH"], "HOME": home, "HAWK_DIST": c.dist_addrs[0], "PYTHONPATH": f"{c.dir}/python"})


def test_calls_from_python_run_as_their_user():
    """Two users' at the same time: residents of each, which serve their own user, and leave with their runner."""
    with RunAsCluster(workers=1, slots=2, worker=("--run-as-idle", "300ms")) as c:
        before = {*c.tree(ANN), *c.tree(BOB)}
        programs = {uid: calls_as(c, uid, f"{MACHINE}/{name}") for uid, name in ((ANN, "ann"), (BOB, "bob"))}
        first = {uid: p.stdout.readline() for uid, p in programs.items()}
        # A runner without residents has left, and had work later: theirs stay longer than one without work does.
        c.submit_as(CAT, "--wait", "--", "true")
        wait_for("an idle runner to leave", lambda: not c.tree(CAT))
        for uid, p in programs.items():
            out, err = p.communicate("\n", timeout=2 * BOUND)
            assert first[uid].startswith(f"({uid}, 'w1', ") and first[uid].count("(") == 1, (first[uid], err)
            assert p.returncode == 0 and out == "True\n", (out, err)
        log = c.workers[0].text()
        assert all(f" of user {user}, 1 task at once" in log for user in ("ann", "bob")), log
        wait_for("nothing of theirs to be left", lambda: not {*c.tree(ANN), *c.tree(BOB)} - before)


def test_calls_from_python_need_a_socket_that_users_reach():
    with RunAsCluster(workers=1, worker=("--executor-socket", "none")) as c:
        assert "tasks find no socket where they could attach as executors" in wait_for(
            "the log", lambda: "tasks find no socket" in c.workers[0].text() and c.workers[0].text())
        out, err = (p := calls_as(c, ANN, f"{MACHINE}/ann")).communicate(timeout=2 * BOUND)
        assert p.returncode and "set worker.executor_socket to a path in a directory that its users may enter" in err, (out, err)


run_tests(sys.modules[__name__])
