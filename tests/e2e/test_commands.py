"""What commands print, and how they end, as somebody at a terminal meets it."""
import contextlib
import functools
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Daemon, code_of_signal, heed_signals, run_hawk, run_tests, user_environment, wait_for


@contextlib.contextmanager
def local_cluster(*flags):
    """`hawk up`; gives its directory, the environment of its user, and a function that runs a command."""
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", *flags, env=env)
        up.ready()
        yield d, env, functools.partial(run_hawk, env)
        assert up.stop() == 0, up.text()


def json_of(hawk, *args, check=0):
    return json.loads(hawk(*args, "--output", "json", check=check).stdout)


def test_jobs_says_that_there_are_more():
    with local_cluster() as (_, _, hawk):
        for i in range(23):
            hawk("submit", "--name", "even" if i % 2 == 0 else "odd", "--", "true")
        hawk("wait", "all")
        listed = json_of(hawk, "jobs")
        assert len(listed["jobs"]) == 20 and listed["more"] is True, listed["more"]
        r = hawk("jobs")  # what a script reads is rows alone
        assert "there are more" in r.stderr and len(r.stdout.splitlines()) == 21 and "more" not in r.stdout, (r.stdout, r.stderr)
        for flags, shown, more in ((("--limit", "23"), 23, False), (("--limit", "22"), 22, True),
                                   (("--all",), 23, False), (("--all", "--limit", "3"), 3, True), (("--name", "odd"), 11, False),
                                   (("--name", "odd", "--limit", "11"), 11, False),
                                   (("--name", "odd", "--limit", "10"), 10, True)):
            listed = json_of(hawk, "jobs", *flags)
            assert (len(listed["jobs"]), listed["more"]) == (shown, more), (flags, listed["more"])
        assert len(hawk("jobs", "-q").stdout.split()) == 23 and len(hawk("jobs", "-q", "--limit", "5").stdout.split()) == 5
        assert "no ended jobs of that name" in hawk("history", "--name", "other").stdout


def test_jobs_shows_what_has_not_ended():
    with local_cluster() as (_, env, hawk):
        running = hawk("submit", "--", "sleep", "600").stdout.strip()
        held = hawk("submit", "--hold", "--", "true").stdout.strip()
        for _ in range(25):
            hawk("submit", "-q", "--wait", "--", "true")

        def shown(*args):
            return [line.split()[0] for line in hawk("jobs", *args).stdout.splitlines() if re.match(r"1\.", line)]
        newest = [f"1.{n}" for n in range(27, 7, -1)]
        assert shown() == [*newest, held, running], shown()
        assert [j["job"] for j in json_of(hawk, "jobs")["jobs"]] == [*newest, held, running]
        assert shown("--limit", "3") == newest[:3]
        assert shown("--state", "running,done") == [*newest, running]
        assert shown("--state", "held") == [held] and shown("--state", "done") == newest
        assert shown("--name", "sleep...") == [running]
        # A table shows 100 that have not ended, and says how many it leaves out.
        more = "11 more have not ended: see --limit, --all and the filters in `hawk jobs --help`\n"
        run_hawk(env, "-c", 'for i in $(seq 109); do "$0" submit -q --hold -- true || exit; done', HAWK, argv=["sh"])
        assert len(shown()) == 120 and hawk("jobs").stderr == more
        assert len(json_of(hawk, "jobs")["jobs"]) == 131 and json_of(hawk, "jobs")["more"] is True
        hawk("cancel", "all")


def test_a_reader_may_be_slow_where_writes_do_not_block():
    """Children of node, and of event loops, get such pipes."""
    numbers = "".join(f"{i}\n" for i in range(1, 30001)).encode()
    with local_cluster() as (_, env, hawk):
        job = hawk("submit", "--wait", "--", "seq", "1", "30000").stdout.strip()
        for args, stream, times in ((("cat", job), "stdout", 1), (("exec", "-n", "--", "seq", "1", "30000"), "stdout", 1),
                                    (("run", "-j1", "--array", "1-3", "--", "sh", "-c", "seq 1 30000"), "stdout", 3),
                                    (("run", "--", "sh", "-c", "seq 1 30000 >&2"), "stderr", 1)):
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            with subprocess.Popen([HAWK, *args], env={**os.environ, **env}, stdin=subprocess.DEVNULL, **{stream: writer}) as p:
                wait_for("the pipe to be full", lambda: not select.select([], [writer], [], 0)[1])
                os.close(writer)
                with open(reader, "rb") as f:
                    got = f.read()
                assert (p.wait(BOUND), got) == (0, numbers * times), (args, p.returncode, len(got))


def test_wait_gives_up():
    with local_cluster() as (_, env, hawk):
        job = hawk("submit", "--", "sleep", "600").stdout.strip()
        said = hawk("wait", "--for", "200ms", job, check=4).stderr
        assert f"no longer waiting after 200ms; the job goes on: `hawk wait {job}` waits again" in said, said
        document = json_of(hawk, "wait", "--for", "200ms", job, check=4)
        assert document["jobs"][0]["job"] == job and "no longer waiting" in document["errors"][0]["message"]
        # What failed meanwhile is told all the same.
        failed = hawk("submit", "--", "false").stdout.strip()
        wait_for("its end", lambda: json_of(hawk, "job", failed)["jobs"][0]["state"] == "failed")
        said = hawk("wait", "--for", "200ms", job, failed, check=4).stderr
        assert f"job {failed}: 1 of 1 task failed" in said and f"job {job}: " not in said, said
        hawk("cancel", job)
        hawk("wait", "--for", "600s", job, check=1)
        assert "--for goes with --wait" in hawk("submit", "--for", "1s", "--", "true", check=2).stderr
        attended = hawk("submit", "--wait", "--for", "200ms", "--", "sleep", "600", check=4)
        assert "is cancelled when nobody waits" in attended.stderr, attended.stderr
        help_text = " ".join(hawk("help", "wait").stdout.split())
        assert "how long one node may take to answer each call, not the whole command" in help_text, help_text


def test_cancelled_tasks_show_what_they_ran():
    with local_cluster() as (_, _, hawk):
        job = hawk("submit", "--array", "1-4", "--", "sleep", "600").stdout.strip()
        wait_for("two of them to run", lambda: json_of(hawk, "job", job)["jobs"][0]["running"] == 2)
        hawk("cancel", job)
        assert "failed" not in hawk("wait", "--progress", job, check=1).stderr
        tasks = json_of(hawk, "job", job)["jobs"][0]["task_list"]
        ran = [t["run_us"] for t in tasks if t["worker"]]
        assert len(ran) == 2 and all(us and us > 0 for us in ran), tasks
        assert [t["run_us"] for t in tasks if not t["worker"]] == [None, None], tasks
        assert " 0s" not in hawk("job", job).stdout
        assert f"2 tasks of job {job} ended without a start" in hawk("cat", job).stderr
        one = next(i for i, t in enumerate(tasks, 1) if not t["worker"])
        assert hawk("cat", job, str(one)).stderr == f"hawk: cat: task {one} has written nothing: it is cancelled\n"
        # They are none of the failed ones.
        head, *rows = hawk("explain", job).stdout.split("\n\n")[1].splitlines()
        columns = {name: i for i, name in enumerate(head.split())}
        for row in rows:
            cells = row.replace(" (", "(").split()
            assert (cells[columns["FAILED"]], cells[columns["CANCELLED"]]) == ("0", "1"), (head, rows)
        assert max(map(len, hawk("explain", job).stdout.splitlines())) <= 100


def test_failures_are_told_without_what_was_cancelled():
    with local_cluster() as (_, _, hawk):
        # Two slots: one task fails when the other runs, and the rest is cancelled.
        job = hawk("submit", "--array", "1-4", "--max-fails", "1", "--", "sh", "-c", "[ {} = 1 ] && exit 3; sleep 600")
        said = hawk("wait", job.stdout.strip(), check=1).stderr.splitlines()
        assert said[0].endswith("1 of 4 tasks failed, 3 were cancelled"), said
        assert [line.split(",")[0].strip() for line in said[1:-1]] == ["task 1: exited 3"], said


# Fails where another one runs; runs until a file is there.
ALONE = "mkdir {0}/lock || exit 9; until test -e {0}/go; do sleep 0.1; done; rmdir {0}/lock"


def test_no_more_tasks_run_than_the_job_allows():
    with local_cluster() as (d, _, hawk):
        for flags in (("--array", "1-6", "--max-running", "1"), ("--array", "1-6%1"), ("--array", "1-6%1", "--class", "long"),
                      ("--array", "1-6%5", "--max-running", "1"), ("--array", "1-6%1", "--at-most-once")):
            job = hawk("submit", *flags, "--", "sh", "-c", ALONE.format(d)).stdout.strip()
            wait_for("one of them to run", lambda: json_of(hawk, "job", job)["jobs"][0]["running"] == 1)
            shown = json_of(hawk, "job", job)["jobs"][0]
            assert (shown["waits"], shown["max_running"], shown["waiting"]) == ("limit", 1, 5), shown
            assert "at most 1 of its tasks run at a time" in hawk("job", job).stdout
            assert "(--max-running) (5 tasks)" in hawk("explain", job).stdout, hawk("explain", job).stdout
            open(f"{d}/go", "w").close()
            hawk("wait", job)
            os.remove(f"{d}/go")
        assert "a number of tasks that may run at a time" in hawk("submit", "--array", "1-6%0", "--", "true", check=2).stderr


def test_the_same_failure_is_one_line():
    with local_cluster() as (_, _, hawk):
        merged = r"1000 tasks \(1, 2, 3, 4, 5, \.\.\.\): not started \(127\): nosuchthing: no such program.*"
        r = hawk("submit", "--wait", "--array", "1-1000", "--", "nosuchthing", check=1)
        job = r.stdout.strip()
        for said in (r.stderr.splitlines(), hawk("wait", job, check=1).stderr.splitlines()):
            assert len(said) == 3 and said[0].endswith("1000 of 1000 tasks failed"), said
            assert re.match("  " + merged, said[1]), said
        shown = hawk("job", job).stdout.splitlines()
        rows = shown[next(i for i, x in enumerate(shown) if "ATTEMPT" in x) + 1:]
        assert len(rows) == 2 and rows[0].split()[0] == "1", rows
        assert rows[1].startswith("999 more tasks (2, 3, 4, 5, 6, ...): not started (127): nosuchthing: "), rows
        none = "none of its tasks has failed\n"
        assert none not in hawk("job", "--failed", job).stdout
        assert hawk("job", "--failed", hawk("submit", "--wait", "--", "true").stdout.strip()).stdout.endswith(none)
        # Who asks for so many gets each, and so do scripts.
        assert hawk("job", "--tasks", "50", job).stdout.count("nosuchthing: no such") >= 16
        assert len(json_of(hawk, "job", job)["jobs"][0]["task_list"]) == 1000
        # Failures of several kinds are told apart.
        said = hawk("submit", "--wait", "--array", "1-12", "--", "sh", "-c", "exit $((HAWK_TASK_INDEX % 2 + 3))",
                    check=1).stderr
        assert re.search(r"  6 tasks \(1, 3, 5, 7, 9, \.\.\.\): exited 4", said), said
        assert re.search(r"  6 tasks \(2, 4, 6, 8, 10, \.\.\.\): exited 3", said), said


def test_failed_inputs_are_named():
    with local_cluster() as (d, _, hawk):
        inputs = ["good", "bad one", "bad\ttwo", f"bad {d}/{'x' * 90}/first.dat", f"bad {d}/{'x' * 90}/second.dat"]
        with open(f"{d}/list", "w", encoding="utf-8") as f:
            f.write("".join(f"{i}\n" for i in inputs))
        command = ("-l", f"{d}/list", "--", "sh", "-c", 'test "${HAWK_INPUT#bad}" = "$HAWK_INPUT"')
        r = hawk("submit", "--wait", *command, check=1)
        for said in (r.stderr, hawk("wait", r.stdout.strip(), check=1).stderr):
            first = said.splitlines()[0]
            assert ": 4 of 5 tasks failed: bad one, bad two, bad /" in first, said
            # However long they are: what they end in is there.
            assert re.search(r"\.\.\.x+/first\.dat, .*\.\.\.x+/second\.dat$", first), said
        assert re.search(r"\.\.\.x*/first\.dat\n.*\.\.\.x*/second\.dat\n", hawk("job", r.stdout.strip()).stdout), r
        with open(f"{d}/list", "w", encoding="utf-8") as f:
            f.write("".join(f"bad{i}\n" for i in range(25)))
        r = hawk("submit", "--wait", *command, check=1)
        assert r.stderr.splitlines()[0].endswith(
            f"25 of 25 tasks failed: {', '.join(f'bad{i}' for i in range(20))}, and 5 others: `hawk job --failed "
            f"{r.stdout.strip()}` has them"), r.stderr
        r = hawk("submit", "--wait", "--max-fails", "1", "-l", f"{d}/list", "--", "sh", "-c", 'test "$HAWK_INPUT" = bad0 || sleep 600; false',
                 check=1)
        assert re.search(r"1 of 25 tasks failed, 24 were cancelled; failed: bad0$", r.stderr.splitlines()[0]), r.stderr


def test_what_a_job_ran_can_be_pasted_back():
    with local_cluster() as (d, _, hawk):
        job = hawk("submit", "--wait", "--cwd", d, "--", "sh", "-c", 'echo "a  b" $1', "it's", "x" * 300).stdout.strip()
        for page in ("job", "explain"):
            shown = hawk(page, job).stdout
            line = next(x for x in shown.splitlines() if x.startswith("  command   "))
            assert shlex.split(line)[1:] == ["sh", "-c", 'echo "a  b" $1', "it's", "x" * 300], (page, line)
            assert f"\n  directory {d}\n" in shown, shown


def test_pages_of_a_job_show_how_it_was_submitted():
    with local_cluster() as (d, _, hawk):
        limits = ("--time-limit", "90s", "--pids", "50", "--retries", "3", "--lost-retries", "1", "--stdout", "%J out", "--stderr", "none")
        job = hawk("submit", "--hold", "--cwd", d, *limits, "--", "true").stdout.strip()
        plain = hawk("submit", "--hold", "--", "true").stdout.strip()
        for page in ("job", "explain"):
            shown, bare = hawk(page, job).stdout, hawk(page, plain).stdout
            assert "\n  per task  at most 1m 30s, 50 processes\n" in shown and "per task" not in bare, (shown, bare)
            assert "\n  retries   up to 3 when a task fails, 1 when its worker is lost\n" in shown and "retries" not in bare, shown
            assert "\n  stdout    %J out\n  stderr    none\n" in shown and "stdout" not in bare, shown

            def of(job):
                told = json.loads(hawk(page, "-o", "json", job).stdout)["jobs"][0]
                told = told.get("details", told)
                return [told[x] for x in ("time_limit_us", "mem_limit_bytes", "pids_limit", "retries", "lost_retries",
                                          "stdout", "stderr")]
            assert of(job) == [90_000_000, None, 50, 3, 1, "%J out", "none"], of(job)
            assert of(plain) == [None, None, None, 0, 2, None, None], of(plain)
        hawk("cancel", job, plain)


def test_job_tells_how_many_more_there_are():
    with local_cluster() as (_, env, hawk):
        job = hawk("submit", "--wait", "--array", "1-40", "--", "sh", "-c", "test {} -gt 5", check=1).stdout.strip()

        def more(*args):
            r = hawk("job", job, *args)
            assert "more" not in r.stdout, r.stdout
            return r.stderr.strip()
        assert more("--failed", "--tasks", "5") + more("--failed", "--tasks", "6") + more("--failed") == ""
        assert more("--failed", "--tasks", "3") == "2 more failed tasks: see --tasks and --skip"
        assert more("--failed", "--tasks", "3", "--skip", "1") == "1 more failed task: see --tasks and --skip"
        assert more("--tasks", "3") == "37 more tasks: see --tasks, --skip and --failed"
        assert more("--tasks", "3", "--skip", "10") == "27 more tasks: see --tasks, --skip and --failed"
        assert more("--tasks", "40") + more("--tasks", "0") == ""
        # When a task ran, where there is room: the page's head has the day.
        wide = run_hawk({**env, "COLUMNS": "200"}, "job", job, "--tasks", "1").stdout
        assert re.search(r" STARTED +STOPPED  INPUT\n.* \d\d:\d\d:\d\d  \d\d:\d\d:\d\d  1\n", wide), wide
        assert "STOPPED" not in run_hawk({**env, "COLUMNS": "80"}, "job", job, "--tasks", "1").stdout


# U+0085 and U+009B are controls, U+202E and U+2067 turn the text, U+200E and U+061C are marks, U+FEFF has no width.
ACTING = "\x85\x9b\u202e\u2067\u200e\u061c\ufeff"


def test_what_people_read_acts_on_no_terminal():
    with local_cluster("--log-level", "debug") as (d, env, hawk):
        job = hawk("submit", "--wait", "--name", f"n{ACTING}n", "--cwd", d, "--", "true", f"a{ACTING}a").stdout.strip()
        missing = hawk("submit", "--", f"no{ACTING}such").stdout.strip()
        hawk("wait", missing, check=1)
        texts = [hawk("jobs"), hawk("job", job, missing), hawk("explain", job, missing), hawk("wait", missing, check=1),
                 hawk("submit", f"--stdout=%{ACTING}", "--", "true", check=2),
                 hawk("run", "--", f"no{ACTING}such", check=1)]
        for r in texts:
            assert not set(ACTING) & set(r.stdout + r.stderr), (r.args, r.stdout, r.stderr)
        assert "n???????n" in hawk("jobs").stdout
        # JSON has them all, as escapes.
        for command in ("job", "explain", "jobs"):
            r = hawk(command, *([] if command == "jobs" else [job]), "--output", "json")
            assert not set(ACTING) & set(r.stdout), r.stdout
            details = json.loads(r.stdout)["jobs"][-1]
            assert details.get("details", details)["name"] == f"n{ACTING}n", details


def test_a_part_of_a_flag_is_no_flag():
    with tempfile.TemporaryDirectory() as d:
        hawk = functools.partial(run_hawk, user_environment(d))
        said = hawk("submit", "--at", "now", check=2).stderr
        assert said == "hawk: submit: no flag '--at': did you mean --at-most-once?\n", said
        assert "did you mean --name?" in hawk("submit", "--nam=x", "--", "true", check=2).stderr
        assert "did you mean --limit?" in hawk("jobs", "--lim", "3", check=2).stderr
        assert "did you mean --slots?" in hawk("run", "--slot", "3", "--", "true", check=2).stderr
        for theirs, ours in (("--jobs", "slots"), ("-P", "slots"), ("--timeout=3", "time-limit"), ("--bar", "progress")):
            assert f"no flag '{theirs}': did you mean --{ours}?" in hawk("run", theirs, "--", "true", check=2).stderr
        for theirs, said in (("-k", "it is a flag of `hawk run`"), ("-j8", "--max-running N"), ("--jobs=8", "(-j); --max-running N"),
                             ("--tag", "it is a flag of"), ("--wrap=a | b", "-- sh -c 'a | b'"), ("-pshort", "--class short|long"),
                             ("-N2", "no workers or nodes are chosen"), ("--nodelist=n1", "no workers or nodes are chosen")):
            r = hawk("submit", theirs, "--", "true", check=2)
            assert r.stderr.startswith("hawk: submit: no flag '") and said in r.stderr, r.stderr
        assert "`hawk help jobs` lists them" in hawk("jobs", "-N", check=2).stderr
        assert "did you mean --name?" in hawk("submit", "-J", "x", "--", "true", check=2).stderr
        assert hawk("sumbit", "--", "true", check=2).stderr == 'hawk: no command "sumbit": did you mean `hawk submit`?\n'
        assert hawk("ps", check=2).stderr == 'hawk: no command "ps": did you mean `hawk jobs`?\n'
        assert "did you mean `hawk up`?" in hawk("start", check=2).stderr  # stats is nearer
        assert "did you mean `hawk worker`?" in hawk("workers", check=2).stderr
        for far in ("ls", "frobnicate", ""):  # as far from any of them as from another word
            assert hawk(far, check=2).stderr == f'hawk: no command "{far}"; `hawk help` lists them\n'


def test_errors_name_the_flag_as_it_was_written():
    with tempfile.TemporaryDirectory() as d:
        hawk = functools.partial(run_hawk, user_environment(d))
        for flags, word in ((("-j", "abc"), "-j takes"), (("--slots", "abc"), "--slots takes"), (("-a", "1-2x"), "-a takes"),
                            (("--array", "1-2x"), "--array takes"), (("-l", "/nonexistent"), "-l: cannot open"),
                            (("-t", "5"), "-t takes a duration"), (("-kE", "=x"), "-E takes NAME=VALUE"), (("-n", ""), "-n takes a name")):
            said = hawk("run", *flags, "--", "true", check=2).stderr
            assert said.startswith(f"hawk: run: {word}"), said


def test_tasks_find_their_input():
    with local_cluster() as (d, env, hawk):
        ran = f"{d}/ran"
        lines = f"plain\n$(touch {ran})\n'; touch {ran}; '\n a \"b\"  c \n"
        with open(f"{d}/lines", "w") as f:
            f.write(lines)
        for command in (("submit", "--wait"), ("run",)):
            hawk(*command, "--each-line", f"{d}/lines", "--stdout", f"{d}/out.%t", "--",
                 "sh", "-c", 'printf "%s\\n" "$HAWK_INPUT"')
            got = "".join(open(f"{d}/out.{i}").read() for i in range(4))
            assert got == lines and not os.path.exists(ran), got
        # An element of an array, and the one task of a job without one; whatever the submitter's environment says.
        hawk("submit", "--wait", "--array", "7-8", "--env", "HAWK_INPUT=mine", "--stdout", f"{d}/array.%t", "--",
             "sh", "-c", "echo $HAWK_INPUT")
        assert [open(f"{d}/array.{i}").read() for i in (7, 8)] == ["7\n", "8\n"]
        hawk("submit", "--wait", "--stdout", f"{d}/one", "--", "sh", "-c", "echo $HAWK_INPUT")
        assert open(f"{d}/one").read() == "0\n"


def test_programs_that_read_a_line_as_code_are_warned_of():
    with local_cluster() as (d, env, hawk):
        with open(f"{d}/lines", "w") as f:
            f.write("a\nb\n")
        lines = ("submit", "--each-line", f"{d}/lines", "--")
        for reader, command in (("ssh", ("ssh", "host", "ls {}")), ("python -c", ("python3", "-c", "print('{}')")),
                                ("eval", ("sh", "-c", "eval {}")), ("sh -c", ("sudo", "sh", "-c", "echo {}"))):
            said = hawk(*lines, *command).stderr
            assert said.startswith("hawk: submit: an input is put into") and f"`{reader}`" in said and '"$HAWK_INPUT"' in said, said
        document = json.loads(hawk("submit", "--output", "json", "--each-line", f"{d}/lines", "--", "ssh", "h", "{}").stdout)
        assert "$HAWK_INPUT" in document["warnings"][0]["message"], document
        for harmless in (("echo", "{}"), ("sh", "-c", "echo {}"), ("timeout", "9", "bash", "-ec", "echo {}"),
                         ("sh", "-c", 'echo "$1"', "sh", "{}"), ("sh", "x.sh", "{}"), ("bash", "--", "-c", "{}")):
            assert hawk(*lines, *harmless).stderr == "", harmless
        assert hawk("submit", "--array", "1-2", "--", "sudo", "sh", "-c", "echo {}").stderr == ""


def test_a_flag_that_has_no_effect_is_warned_of():
    with local_cluster() as (_, _, hawk):
        for args in (("submit", "--lost-retries", "3", "--at-most-once"), ("submit", "--lost-retries", "3"),
                     ("run", "--lost-retries", "3"), ("run", "--lost-retries", "3", "--at-most-once")):
            r = hawk(*args, "--", "true")
            assert r.stderr.startswith(f"hawk: {args[0]}: --lost-retries has no effect"), r
            document = json.loads(hawk(*args, "--output", "json", "--", "true").stdout)
            assert [w["message"] for w in document["warnings"]] == [r.stderr.strip().removeprefix("hawk: ")], document
        for args in (("submit",), ("submit", "--at-most-once"), ("submit", "--lost-retries", "0"), ("run", "-q"),
                     ("submit", "--retries", "3"), ("submit", "--lost-retries", "3", "--app", "nobody")):
            assert hawk(*args, *([] if "--app" in args else ["--", "true"])).stderr == "", args
        assert "task that fails again" in " ".join(hawk("submit", "--help").stdout.split())


def test_no_worker_is_reserved_and_why():
    with local_cluster() as (_, _, hawk):
        note = "short partition: none is reserved, short tasks pause long ones (flag pause)"
        assert json_of(hawk, "stats")["short_partition_note"] == note
        assert note in hawk("stats").stdout
        hawk("policy", "set", "--off", "pause")
        note = "short partition: 10% of 2 slots is less than one worker's 1: none is reserved; set central.short_partition to at least 50%"
        assert json_of(hawk, "stats")["short_partition_note"] == note
        assert note in hawk("stats").stdout
        hawk("policy", "set", "--short-partition", "50%")
        assert json_of(hawk, "stats")["short_partition_note"] == ""
        assert "short" in [n["general"] is False and "short" for n in json_of(hawk, "nodes")["nodes"] if n["role"] == "worker"]


def test_who_stops_waiting_is_told_what_becomes_of_the_job():
    with local_cluster() as (_, env, hawk):
        goes_on = hawk("submit", "--", "sleep", "600").stdout.strip()
        p = subprocess.Popen([HAWK, "submit", "--wait", "--", "sleep", "600"], stdout=subprocess.PIPE, text=True, env=env)
        attended = p.stdout.readline().strip()
        assert "; the job goes on:" in hawk("wait", "--for", "100ms", goes_on, check=4).stderr
        said = hawk("wait", "--for", "100ms", attended, check=4).stderr
        assert f"job {attended} is cancelled when nobody waits for it" in said and "goes on:" not in said, said
        said = hawk("wait", "--for", "100ms", goes_on, attended, check=4).stderr
        assert f"job {attended} is cancelled when nobody waits for it" in said and ", the rest goes on;" in said, said
        assert [json_of(hawk, "job", j)["jobs"][0]["attended"] for j in (goes_on, attended)] == [False, True]
        for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            waiting = subprocess.Popen([HAWK, "wait", "--progress", attended], stderr=subprocess.PIPE, text=True, env=env,
                                       preexec_fn=heed_signals)
            assert waiting.stderr.read(1)
            waiting.send_signal(signo)
            said = waiting.communicate(timeout=BOUND)[1]
            assert waiting.returncode == code_of_signal(signo) and "is cancelled when nobody waits" in said, said
        # With its terminal gone it cannot say so, and ends as well.
        pid, terminal = pty.fork()
        if pid == 0:
            heed_signals()
            os.execve(HAWK, [HAWK, "wait", attended], env)
        assert os.read(terminal, 1)
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code_of_signal(signal.SIGHUP)
        hawk("cancel", "all")
        assert p.wait(BOUND) == 1
        p.stdout.close()


def test_up_with_jobs_is_not_stopped_unasked():
    for jobs in (2, 0):
        with tempfile.TemporaryDirectory() as d:
            hawk = functools.partial(run_hawk, user_environment(d))
            up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=user_environment(d))
            up.ready()
            for _ in range(jobs):
                job = hawk("submit", "--", "sleep", "600").stdout.strip()
            if jobs:
                assert "2 unfinished jobs of `hawk up` would end with it: say --yes" in hawk("down", check=2).stderr
                hawk("cancel", job)
                hawk("wait", job, check=1)
                assert "1 unfinished job of `hawk up` would end with it" in hawk("down", check=2).stderr
                assert json_of(hawk, "down", check=2)["errors"]
            hawk("down", *(["--yes"] if jobs else []))
            assert up.wait() == 0, up.text()


def test_stats_say_where_cutoff_and_share_come_from():
    with local_cluster() as (_, _, hawk):
        first = json_of(hawk, "stats")
        assert (first["cutoff_from"], first["share_from"]) == tuple(
            json_of(hawk, "policy")["origins"][k] for k in ("cutoff_us", "short_share_ppm")), first
        hawk("policy", "set", "--cutoff", "7s", "--short-partition", "50%")
        shown = hawk("stats").stdout
        assert re.search(r"^cutoff +7s \(set; the history has \d+ jobs?\)$", shown, re.M), shown
        assert re.search(r"^short partition +50% of the slots \(set\)$", shown, re.M), shown
        hawk("policy", "set", "sparrow")
        shown = hawk("stats").stdout
        assert "50%" not in shown and "the policy has none (its flag partition is off)" in shown, shown
        assert json_of(hawk, "stats")["short_share_ppm"] == 0


def test_json_and_quiet_as_documented():
    with local_cluster() as (_, _, hawk):
        for n in json_of(hawk, "nodes")["nodes"]:
            assert n["heartbeat_age_us"] != -1 and n["long_wait_us"] != -1, n
        job = hawk("submit", "--wait", "--array", "1-5", "--", "sh", "-c", "exit $((HAWK_TASK_INDEX % 2))", check=1).stdout.strip()
        for flags, tasks in (((), [1, 2, 3, 4, 5]), (("--tasks", "2"), [1, 2]), (("--tasks", "0"), []),
                             (("--tasks", "2", "--skip", "3"), [4, 5]), (("--failed",), [1, 3, 5]),
                             (("--failed", "--tasks", "2"), [1, 3])):
            shown = json_of(hawk, "job", job, *flags)["jobs"][0]["task_list"]
            assert [t["index"] for t in shown] == tasks, (flags, shown)
        # A table says how many tasks stand behind those it shows.
        for flags, more in (((), None), (("--tasks", "2"), 3), (("--tasks", "2", "--skip", "2"), 1), (("--tasks", "2", "--skip", "3"), None),
                            (("--tasks", "5"), None)):
            shown = hawk("job", job, *flags).stderr.splitlines()
            assert shown == (
                [f"{more} more task{'s' * (more > 1)}: see --tasks, --skip and --failed"] if more else []), (flags, shown)
        assert hawk("job", "-q", job).stdout == f"{job}\n"
        assert hawk("job", "-q", "99.1", check=3).stdout == ""
        for name in ("two", "one", "two"):
            hawk("submit", "--wait", "--name", name, "--", "true")
        other = hawk("submit", "--name", "three", "--", "sleep", "600").stdout.strip()
        names = hawk("history", "-q").stdout.splitlines()
        assert names == ["one", "sh -c exit $((HAWK_TASK_INDEX % 2))", "two"], names
        for command in ("hold", "release", "cancel"):  # whoever calls them has the id
            assert hawk(command, "-q", other).stdout == ""
        assert hawk("stats", "-q").stdout == ""


def test_refusals_name_the_remedy():
    with local_cluster() as (d, env, hawk):
        flags = hawk("policy", "set", "--off", "nosuch", check=2).stderr
        assert flags.rstrip().endswith(" avoid_long probe_everywhere job_turns"), flags
        for array in ("1-99999999999", "1-99999999999999999999999", "99999999999-1"):
            assert "the numbers end at 4294967294, and a job has at most 1000000 tasks" in hawk(
                "submit", "--array", array, "--", "true", check=2).stderr
        assert "like 1-10:2,15" in hawk("submit", "--array", "1-2x", "--", "true", check=2).stderr
        assert "--name takes a name of 1 to" in hawk("submit", "--name", "", "--", "true", check=2).stderr
        with open(f"{d}/bad", "w") as f:
            f.write("short\n")
        for token in (f"{d}/missing", f"{d}/bad"):
            assert token in hawk("nodes", "--token-file", token, check=2).stderr
        for daemon in ("worker", "up"):
            assert f"{daemon}: no flag --slot: did you mean --slots?" in hawk(daemon, "--slot", "2", check=2).stderr
        assert "did you mean --output-dir?" in hawk("worker", "--outputdir", "/x", check=2).stderr
        assert "did you mean" not in hawk("worker", "--nothing-like-it", check=2).stderr
        assert hawk("config", "show", "wrker", check=2).stderr == 'hawk: config show: no section "wrker": did you mean worker?\n'
        assert hawk("config", "show", "slots", check=2).stderr == (
            'hawk: config show: no section "slots": there are cluster, tls, central, dist, worker, up, log\n')
        assert "--sweep needs its argument, cutoff=5s,30s,..." in hawk("sim", "--sweep", check=2).stderr


def test_programs_that_are_not_there():
    with local_cluster() as (d, env, hawk):
        def said(*command):
            return hawk("submit", "--wait", "--cwd", d, "--", *command, check=1).stderr.splitlines()[1]
        assert "it is one word with blanks in it; for a shell's text write sh -c 'echo hello world'" in said("echo hello world")
        assert "./nodir/wcc: no such program: there is no directory ./nodir" in said("./nodir/wcc")
        assert f"{d}/nodir/wcc: no such program: there is no directory {d}/nodir" in said(f"{d}/nodir/wcc")
        with open(f"{d}/script", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write("#!/no/such/sh\n")
        for name in ("./script", f"{d}/script"):
            assert f"{name}: the interpreter it names is missing" in said(name)
        os.mkdir(f"{d}/dir")
        assert "there is no directory" not in said("./dir/wcc")
        assert env["PATH"] not in said("nosuchthing")


run_tests(sys.modules[__name__])
