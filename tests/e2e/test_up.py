"""hawk up: a cluster in one process that any client on this machine finds."""
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from grpctest import Caller, pb
from hawktest import BOUND, HAWK, Daemon, dropped, run_hawk, run_tests, user_environment, wait_for


def test_clients_find_it():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        hawk = functools.partial(run_hawk, env)

        assert "hawk up" in hawk("submit", "--", "true", check=3).stderr
        said = hawk("jobs", "--dist", f"unix:{d}/up.sock", check=3).stderr
        assert said == f"hawk: jobs: cannot reach unix:{d}/up.sock: No such file or directory; is `hawk up` running?\n", said
        up = Daemon("up", "--slots", "4", "--output-dir", f"{d}/out", env=env)
        up.ready()
        assert hawk("submit", "--wait", "--", "true")
        job = json.loads(hawk("submit", "--output", "json", "--array", "1-9", "--", "echo", "{}").stdout)["job"]
        hawk("wait", job)
        assert hawk("cat", job, "stdout").stdout == "".join(f"{i}\n" for i in range(1, 10))
        echoes = job
        retried = hawk("submit", "--wait", "--retries", "1", "--", "sh", "-c",
                       "echo try $HAWK_ATTEMPT >&2; test $HAWK_ATTEMPT = 2").stdout.strip()
        # Tasks know their worker by the name that users see.
        job = hawk("submit", "--wait", "--stdout", f"{d}/%w.%t", "--", "sh", "-c", "echo $HAWK_WORKER").stdout.strip()
        ran = json.loads(hawk("job", job, "--output", "json").stdout)["jobs"][0]["task_list"][0]["worker_name"]
        assert ran in ("w1", "w2", "w3", "w4") and hawk("cat", job).stdout == f"{ran}\n", ran
        assert os.path.exists(f"{d}/{ran}.0"), os.listdir(d)
        # Only the default socket's directory is made.
        assert "/nodir/s" in subprocess.run([HAWK, "up", "--socket", f"{d}/nodir/s", "--output-dir", f"{d}/out-2"],
                                            capture_output=True, text=True, timeout=BOUND).stderr
        assert not os.path.exists(f"{d}/nodir")
        long_job = json.loads(hawk("submit", "--output", "json", "--class", "long", "--array", "1-4", "--",
                                   "sleep", "600").stdout)["job"]
        wait_for("the long job to run", lambda: json.loads(
            hawk("job", long_job, "--output", "json").stdout)["jobs"][0]["running"] == 4)
        # What waits for a slot is not running, and the job has not started.
        behind = hawk("submit", "--class", "long", "--array", "1-3", "--", "true").stdout.strip()
        wait_for("central to have it", lambda: "central" in hawk("explain", behind).stdout)
        view = json.loads(hawk("job", behind, "--output", "json").stdout)["jobs"][0]
        assert (view["state"], view["running"], view["waiting"]) == ("waiting", 0, 3), view
        hawk("cancel", long_job)
        hawk("wait", long_job, check=1)
        assert json.loads(hawk("nodes", "--output", "json").stdout)["nodes"]
        assert json.loads(hawk("stats", "--output", "json").stdout)["total"]
        # What runs does not hold up another policy.
        hawk("submit", "--array", "1-4", "--", "sleep", "3")
        assert hawk("policy", "set", "sparrow").stdout.startswith("policy sparrow (version ")
        hawk("wait", "all")
        assert json.loads(hawk("policy", "--output", "json").stdout)["name"] == "sparrow"
        twin = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out-of-twin", env=env)
        assert twin.wait() == 1 and "up.sock" in twin.text(), twin.text()
        # Their jobs would have the same numbers.
        twin = Daemon("up", "--slots", "1", "--socket", f"{d}/twin.sock", "--output-dir", f"{d}/out", env=env)
        assert twin.wait() == 1 and "another `hawk up` keeps its tasks' output in" in twin.text(), twin.text()
        assert up.stop() == 0, up.text()
        # Another one does not write over what this one's tasks left.
        before = set(os.listdir(f"{d}/out"))
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        job = hawk("submit", "--wait", "--", "true").stdout.strip()
        assert before and job not in before, (job, before)
        # What they left is found by their jobs' ids, the last try of each task.
        r = hawk("cat", echoes)
        assert r.stdout == "".join(f"{i}\n" for i in range(1, 10)) and "an earlier `hawk up`" in r.stderr, r
        assert [o["data"] for o in json.loads(hawk("cat", "-o", "json", echoes).stdout)["outputs"]] == [f"{i}\n" for i in range(1, 10)]
        r = hawk("cat", "-o", "json", retried, "stderr")
        assert [(o["task"], o["index"], o["data"]) for o in json.loads(r.stdout)["outputs"]] == [(0, None, "try 2\n")], r
        r = hawk("cat", "1.999999", check=3)
        assert "no job 1.999999 here" in r.stderr and "or an earlier `hawk up` had it" in r.stderr, r.stderr
        # By its task's number as well, as `hawk submit` counted.
        assert hawk("cat", echoes, "9").stdout == "9\n" and hawk("cat", echoes, "1").stdout == "1\n"
        assert hawk("cat", retried, "0", "stderr").stdout == "try 2\n"
        for wrong in ("0", "10", "4294967296"):
            assert f"no job {echoes} here" in hawk("cat", echoes, wrong, check=3).stderr, wrong
        one = json.loads(hawk("cat", "-o", "json", echoes, "2").stdout)["outputs"]
        assert [(o["task"], o["index"], o["data"]) for o in one] == [(None, 2, "2\n")], one
        assert up.stop() == 0, up.text()
        assert not [p for p in os.listdir(f"{d}/hawk") if p.endswith(".sock")]


def test_under_nohup_it_stays_when_the_terminal_closes():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", env=env, argv=["nohup", HAWK, "up", "--slots", "1", "--output-dir", f"{d}/out"])
        try:
            up.ready()
            up.p.send_signal(signal.SIGHUP)
            assert run_hawk(env, "submit", "--wait", "--", "true")
        finally:
            assert up.stop() == 0, up.text()


def test_it_pauses_as_its_configuration_says():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        hawk = functools.partial(run_hawk, env)
        with open(f"{d}/hawk.yaml", "w", encoding="utf-8") as f:
            f.write("worker: {pause_longest: 300ms}\n")
        up = Daemon("up", "--config", f"{d}/hawk.yaml", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        long_job = hawk("submit", "--class", "long", "--", "sleep", "600").stdout.strip()

        def view():
            return json.loads(hawk("job", long_job, "--output", "json").stdout)["jobs"][0]
        wait_for("the long task", lambda: view()["running"] == 1)
        # The short task never ends, so that the long one goes on beside it.
        hawk("submit", "--class", "short", "--", "sleep", "600")
        wait_for("the end of its pause", lambda: view()["pauses"] == 1 and view()["paused"] == 0)
        assert 300000 <= view()["paused_us"] < 10000000, view()
        hawk("cancel", "all")
        assert up.stop() == 0, up.text()


def test_waiting_shows_how_far_it_is():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        up.ready()
        job = subprocess.run([HAWK, "submit", "--array", "1-3", "--", "sh", "-c",
                              f"until [ -e {d}/gate{{}} ]; do sleep 0.1; done"],
                             capture_output=True, text=True, timeout=BOUND, env=env, check=True).stdout.strip()
        # An id that nobody knows does not keep the others from being waited for.
        waiting = subprocess.Popen([HAWK, "wait", "--progress", "77.7", job], stderr=subprocess.PIPE, text=True, env=env)
        shown = ""
        for gate in range(1, 4):
            open(f"{d}/gate{gate}", "w").close()
            while gate < 3 and f"{gate} of 3" not in shown:
                shown += waiting.stderr.read(1) or f"no more, {gate} of 3"
        shown += waiting.stderr.read()
        assert waiting.wait(BOUND) == 3, shown
        assert re.search(r"2 of 3 tasks done, \d running, [0-9.]+/s, [0-9.]+m?s left; \d of 2 jobs ended; [0-9.]+m?s", shown), shown
        # No terminal draws over it: it is lines, for a log.
        assert "\r" not in shown and "\033" not in shown and any(line.startswith("3 of 3") for line in shown.splitlines()), shown
        assert "3 of 3" in shown and "no more" not in shown and "77.7" in shown, shown
        assert up.stop() == 0, up.text()


def test_who_waits_is_told_that_the_cluster_is_gone():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        p = subprocess.Popen([HAWK, "submit", "--wait", "--timeout", "1s", "--",
                              "sh", "-c", f"echo $$ > {d}/pid; exec sleep 600"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        job = p.stdout.readline().strip()
        wait_for("it to run", lambda: json.loads(
            run_hawk(env, "jobs", "--output", "json").stdout)["jobs"][0]["state"] == "running" and
            os.path.exists(f"{d}/pid") and open(f"{d}/pid").read())
        up.kill()
        told = p.communicate(timeout=BOUND)[1]
        assert p.returncode == 3 and "trying for up to 1s" in told, told
        # Nobody can take its tasks over: they end with it.
        pid = int(open(f"{d}/pid").read())
        wait_for("the end of its task", lambda: not os.path.exists(f"/proc/{pid}"))
        assert f"job {job}: how it ended is not known" in told and "is `hawk up` running?" in told, told


def test_who_waits_ends_when_it_is_stopped():
    """Its jobs have ended with it: nobody is to wait for it to come back."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "3", "--output-dir", f"{d}/out", env=env)
        up.ready()
        job = run_hawk(env, "submit", "--", "sleep", "600").stdout.strip()
        words = (("wait", job), ("submit", "--wait", "--", "sleep", "600"), ("exec", "-n", "--", "sleep", "600"))
        waiting = [subprocess.Popen([HAWK, *w[:1], "--timeout", "1h", *w[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True, env=env) for w in words]
        wait_for("all to run", lambda: sum(j["running"] for j in json.loads(
            run_hawk(env, "jobs", "--output", "json").stdout)["jobs"]) == 3)
        run_hawk(env, "down", "--yes")
        for p in waiting:
            told = p.communicate(timeout=BOUND)[1]
            assert p.returncode in (3, 125) and "has stopped: its jobs have ended with it" in told, (p.args, told)
        up.wait()


def test_who_is_refused_by_central_is_not_sent_to_limits_of_the_dist_alone():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", "--set", "central.long_tasks_max=3", env=env)
        up.ready()
        told = run_hawk(env, "submit", "--class", "long", "--array", "1-4", "--", "true", check=3).stderr
        assert "central.long_jobs_max, long_tasks_max" in told, told
        assert up.stop() == 0, up.text()


def test_names_do_not_reach_the_terminal_as_they_are():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        name = b"a\x1b[31m\n\xc2\x9bb\xff\xe2\x80\xaec"
        out = subprocess.run([HAWK.encode(), b"submit", b"--wait", b"--name", name, b"--", b"true"],
                             capture_output=True, timeout=BOUND, env=env)
        assert out.returncode == 0, out
        for command in ("jobs", "job", "explain"):
            args = [HAWK, command] + (["last"] if command != "jobs" else [])
            shown = subprocess.run(args, capture_output=True, timeout=BOUND, env=env, check=True).stdout
            assert b"a?[31m??b??c" in shown, shown
            # JSON has all of it that is UTF-8: the API's texts are.
            text = subprocess.run(args + ["-o", "json"], capture_output=True, timeout=BOUND, env=env, check=True).stdout
            job = json.loads(text.decode("utf-8", "strict"))["jobs"][0]
            assert command == "explain" or job["name"] == "a\x1b[31m\n\x9bb?\u202ec", job
        assert up.stop() == 0, up.text()


def test_closed_standard_files_stay_closed():
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run(["sh", "-c", f"exec {HAWK} run -j 1 -- true >&-"], capture_output=True, text=True, timeout=BOUND)
        assert out.returncode == 0, out.stderr
        out = subprocess.run(["sh", "-c", f"exec {HAWK} version >&-"], capture_output=True, text=True, timeout=BOUND)
        assert out.returncode == 1 and "it is closed" in out.stderr, out
        sock = f"{d}/s"
        up = subprocess.Popen(["sh", "-c", f"exec {HAWK} up --socket {sock} --output-dir {d}/out <&- >&- 2>&-"])
        try:
            wait_for("the socket", lambda: os.path.exists(sock))
            kinds = [os.readlink(f"/proc/{up.pid}/fd/{fd}") for fd in range(3)]
            assert kinds == ["/dev/null"] * 3, kinds
        finally:
            up.terminate()
            up.wait(BOUND)


def test_settings_of_workers_that_it_has_under_another_name():
    r = run_hawk(user_environment("/tmp"), "up", "--set", "worker.output_dir=/tmp/x", check=2)
    assert "--set up.output_dir=/tmp/x" in r.stderr, r


@contextlib.contextmanager
def nobodys_state():
    """A home, and what starts a command as its user: root's default directory of output is one of the machine's."""
    with tempfile.TemporaryDirectory() as d:
        uid = 61001 if os.geteuid() == 0 else 0
        if uid:
            os.chown(d, uid, uid)
        yield d, user_environment(d), [*dropped(uid), "env", "-C", d, HAWK]


def test_two_do_not_share_the_default_directory_of_output():
    """Each finds its own again, whichever starts first: both have a job 1.1."""
    with nobodys_state() as (d, env, argv):
        jobs = {}

        def start(name):
            up = Daemon(argv=[*argv, "up", "--slots", "1", "--socket", f"{name}.sock"], env=env)
            up.ready()
            hawk = functools.partial(run_hawk, {**env, "HAWK_DIST": f"unix:{d}/{name}.sock"})
            job = hawk("submit", "--cwd", "/", "--wait", "--", "echo", name).stdout.strip()
            assert hawk("cat", jobs.setdefault(name, job)).stdout == f"{name}\n", (name, job, jobs)
            return up

        ups = [start(name) for name in ("one", "two")]
        assert jobs == {"one": "1.1", "two": "1.1"} and "that of this one is in" in ups[1].text(), (jobs, ups[1].text())
        for names in (("two", "one"), ("three", "two", "one")):
            ups[0].stop()
            ups[1].kill()
            if "three" in names:  # as if an earlier version had left one, which is nobody's
                os.truncate(f"{d}/hawk/up/.numbers", 21)
                del jobs["one"]
            ups = [start(name) for name in names]
        for up in ups:
            assert up.stop() == 0, up.text()
        # `hawk prune` knows them all, and no others.
        os.makedirs(f"{d}/hawk/up-to-date/1.1")
        for at, _, files in os.walk(f"{d}/hawk"):
            for path in (at, *(f"{at}/{name}" for name in files)):
                os.utime(path, (1, 1))
        listed = run_hawk(env, "prune", "--older", "30d", "--output", "json", argv=argv).stdout
        assert {j["dir"] for j in json.loads(listed)["jobs"]} == {f"{d}/hawk/{name}" for name in ("up", "up-2", "up-3")}, listed


def test_one_that_cannot_listen_takes_no_directory_of_output():
    with nobodys_state() as (d, env, argv):
        up = Daemon(argv=[*argv, "up", "--slots", "1", "--socket", "one.sock"], env=env)
        try:
            up.ready()
            os.mkdir(f"{d}/file.sock")
            for socket, said in ((f"{d}/{'x' * 120}", "a socket's path has at most 107 bytes"), ("one.sock", "is in use by another process"),
                                 ("nosuch/two.sock", "No such file or directory: is its directory there"),
                                 ("file.sock", "exists and is no socket")):
                second = Daemon(argv=[*argv, "up", "--slots", "1", "--socket", socket], env=env)
                try:
                    assert second.wait() == 1 and len(second.log) == 1 and said in second.text(), (socket, second.text())
                finally:
                    second.stop()
                assert os.listdir(f"{d}/hawk") == ["up"], (socket, os.listdir(f"{d}/hawk"))
        finally:
            up.stop()


def test_a_worker_of_a_cluster_has_another_default_directory_of_output():
    """Both clusters have a job 1.1, whose outputs were one file."""
    with tempfile.TemporaryDirectory() as d:
        shown = run_hawk(user_environment(d), "config", "show").stdout
        dirs = [line.split()[1] for line in shown.splitlines() if line.split()[:1] == ["output_dir:"]]
        assert len(dirs) == 2 and dirs[0] != dirs[1], dirs


def test_numbers_are_not_given_out_again():
    """Whoever asks for a job of an earlier `hawk up` does not get another one."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        numbers = []
        for end in ("kill", "stop", "stop"):
            up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
            up.ready()
            # Neither leaves output: what waits, and what discards it.
            numbers += [run_hawk(env, "submit", "--stdout", "none", "--stderr", "none", "--", "sleep", "600").stdout
                        for _ in range(2)]
            getattr(up, end)()
        assert len(set(numbers)) == 6, numbers
        numbers = [int(n.split(".")[1]) for n in numbers]
        assert numbers == sorted(numbers) and numbers[5] == numbers[2] + 3, numbers
        os.unlink(f"{d}/out/.numbers")
        os.symlink("/etc/passwd", f"{d}/out/.numbers")
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        up.stop()
        assert ".numbers cannot be opened" in up.text(), up.text()


def test_numbers_are_noted_on_the_way():
    """A process that is killed leaves the next one numbers beyond all that it gave out, however many these are."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        caller = Caller(up.ready())

        def ahead():
            with open(f"{d}/out/.numbers", encoding="ascii") as f:
                return int(f.read()) - last

        last = 1
        at_first = ahead()
        for _ in range(2500):
            job = caller("Submit", pb.SubmitRequest(job=pb.JobSpec(tasks=1, kind=pb.PAYLOAD_TIMER, argv=[b"600s"])),
                         pb.SubmitReply).job
        last = int(job.split(".")[1])
        wait_for(f"numbers far beyond {last}", lambda: ahead() >= at_first - 1000)
        up.kill()
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        job = run_hawk(env, "submit", "--", "true").stdout
        up.stop()
        assert int(job.split(".")[1]) >= last + at_first - 1000, (job, last, at_first)


def test_a_cluster_of_one_user_logs_no_submission():
    """Unless the log is to have everything, there are users, or the lines have a file of their own."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        for flags, said in (((), False), (("--log-level", "debug"), True), (("--local-users",), True),
                            (("--log-audit", f"{d}/audit"), False)):
            up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", *flags, env=env)
            up.ready()
            run_hawk(env, "submit", "--wait", "--", "true")
            up.stop()
            assert (" audit: " in up.text()) == said, (flags, up.text())
        with open(f"{d}/audit", encoding="utf-8") as f:
            assert "submit of job" in f.read()


def test_cat_shows_output_alone_and_once():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            for path in ("/dev/stdout", "/proc/self/fd/2", "/dev/zero"):
                job = run_hawk(env, "submit", "--wait", "--stdout", path, "--", "true").stdout.strip()
                r = run_hawk(env, "cat", job, check=3)
                assert r.stdout == "" and "it is no regular file" in r.stderr, (path, r)
            job = run_hawk(env, "submit", "--wait", "--", "echo", "hi").stdout.strip()
            shutil.rmtree(f"{d}/out/{job}")
            assert "it was removed since, as `hawk prune` does" in run_hawk(env, "cat", job, check=3).stderr
            job = run_hawk(env, "submit", "--wait", "--array", "4", "--", "echo", "hi").stdout.strip()
            shutil.rmtree(f"{d}/out/{job}")
            said = run_hawk(env, "cat", job, check=3).stderr
            assert "task 4: " in said and "task 0" not in said and f"job {job} left no stdout here" in said, said
            # Tasks may share a file.
            for name in ("all", "{1}", "%t", "{}"):
                job = run_hawk(env, "submit", "--wait", "--stdout", f"{d}/{name}", "--array", "1-3", "--",
                               "echo", "{}").stdout.strip()
                assert sorted(run_hawk(env, "cat", job).stdout) == ["\n"] * 3 + ["1", "2", "3"], name
            assert len(json.loads(run_hawk(env, "cat", "--output", "json", job).stdout)["outputs"]) == 3
        finally:
            up.stop()


def test_no_short_task_waits_beside_an_idle_slot():
    """Three slots of four are taken by short tasks that end when the last of the others has."""
    held = "until test -e {0}/{1}; do sleep 0.1; done"
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "4", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            run_hawk(env, "policy", "set", "--cutoff", "1h")  # they stay short
            job = run_hawk(env, "submit", "--class", "short", "--array", "1-3", "--", "sh", "-c", held.format(d, "one")).stdout.strip()
            wait_for("three to run", lambda: json.loads(
                run_hawk(env, "job", job, "--output", "json").stdout)["jobs"][0]["running"] == 3)
            for _ in range(12):
                run_hawk(env, "submit", "--wait", "--for", "20s", "--class", "short", "--", "true")
            with open(f"{d}/one", "w"):
                pass
            run_hawk(env, "wait", job)
            # In one list, too: the 37 others are many more than the reservations that a fourth of the slots gets at first.
            run_hawk(env, "submit", "--wait", "--for", "30s", "--class", "short", "--array", "1-40", "--", "sh", "-c",
                     f"case {{}} in 1|2|3) {held.format(d, 'two')};; 40) touch {d}/two;; esac")
        finally:
            up.stop()


def test_discarded_output():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        try:
            up.ready()
            job = run_hawk(env, "submit", "--wait", "--stdout", "none", "--array", "1-2", "--", "echo", "x").stdout.strip()
            r = run_hawk(env, "cat", job)
            assert (r.stdout, r.stderr) == ("", ""), r
            # A trace is no document of JSON.
            assert "no JSON" in run_hawk(env, "history", "--trace", "--output", "json", check=2).stderr
        finally:
            up.stop()


run_tests(sys.modules[__name__])
