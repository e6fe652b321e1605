"""--output json of every command: one document, also when it fails; and a stdout that cannot be written to."""
import json
import os
import re
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Daemon, run_tests, user_environment

CLIENT = ("submit", "wait", "jobs", "job", "cancel", "cat", "explain", "nodes", "stats", "policy", "replay")
DAEMONS = ("central", "dist", "worker", "up")


def document(env, *args, check=None):
    r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, env=env)
    assert check is None or r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
    said = json.loads(r.stdout)
    assert said["schema"] == "hawk.v1", (args, said)
    # What failed is said twice, in the same words: for people and for programs.
    for e in said.get("errors", []) + said.get("warnings", []):
        assert e["message"] in r.stderr, (args, e, r.stderr)
    assert ("errors" in said) == (r.returncode not in (0, 1)), (args, r.returncode, said)
    return said


def test_wrong_command_lines():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        listed = subprocess.run([HAWK, "help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([a-z]+)  ", listed, re.M)
        assert set(CLIENT + DAEMONS) < set(commands), commands
        for command in commands:
            # Wherever the asking for JSON stands.
            for args in (("--output", "json", "--frob"), ("--frob", "--output=json")):
                said = document(env, command, *args, check=125 if command == "exec" else 2)
                assert "frob" in str(said["errors"]) or command == "config"
        assert document(env, "submit", "-o", "json", check=2)
        assert document(env, "submit", "-o", "json", "--each-line", "/nofile", "--", "true", check=2)
        assert document(env, "nodes", "-o", "json", check=3)["errors"]
        assert document(env, "nodes", "-o", "json", "--timeout", "0", check=2)
        assert document(env, "nodes", "-o", "json", "--dist", "127.0.0.1:1", "--token-file", "", check=2)
        assert document(env, "replay", "-o", "json", "/nofile", check=2)
        assert document(env, "config", "show", "-o", "json", "nosuch", check=2)
        assert document(env, "config", "show", "-o", "json", "--set", "worker.slots=banana", check=2)
        assert document(env, "config", "check", "-o", "json", "/nofile", check=2)["ok"] is False
        assert document(env, "central", "-o", "json", "--listen", "127.0.0.1:99999", check=2)
        assert document(env, "--version", "-o", "json", check=0)["version"]
        assert document(env, "config", "show", "-o", "json", check=0)["settings"]
        # What follows the job's command is the job's.
        r = subprocess.run([HAWK, "run", "echo", "-o", "json"], capture_output=True, text=True, timeout=BOUND)
        assert r.stdout == "-o json\n", r


def test_with_a_cluster():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "2", "--output-dir", f"{d}/out", env=env)
        up.ready()
        for command in ("wait", "job", "cancel", "cat", "explain"):
            assert "9.9" in str(document(env, command, "-o", "json", "9.9", check=3)["errors"])
        job = document(env, "submit", "-o", "json", "--array", "1-3", "--", "echo", "hi", check=0)["job"]
        assert document(env, "wait", "-o", "json", job, check=0)["jobs"][0]["job"] == job
        # One that fails does not hide the other.
        both = document(env, "job", "-o", "json", job, "9.9", check=3)
        assert [j["job"] for j in both["jobs"]] == [job], both
        timers = document(env, "submit", "-o", "json", "--array", "1-5", "--timer", "1ms")["job"]
        document(env, "wait", "-o", "json", timers, check=0)
        assert len(document(env, "cat", "-o", "json", timers, check=3)["errors"]) == 1
        # It has everything that tables have.
        flags = document(env, "policy", "-o", "json", check=0)["flag_table"]
        table = subprocess.run([HAWK, "policy"], capture_output=True, text=True, env=env, check=True).stdout
        rows = [line.split(None, 3) for line in table.split("\n\n")[1].splitlines()[1:]]
        assert len(rows) == len(flags) > 10
        for row, f in zip(rows, flags):
            assert row[:3] == [f["flag"], "on" if f["on"] else "off", f["from"]], (row, f)
            assert " ".join(row[3].split()) == f"{f['applies_to']} {f['meaning']}", (row, f)
        stats = document(env, "stats", "-o", "json", check=0)
        assert stats["meanings"].keys() == stats["total"].keys() and stats["meanings"]["jobs_short"] == "of them short"
        behind = document(env, "submit", "-o", "json", "--after", f"{job}:any", "--", "true", check=0)["job"]
        document(env, "wait", "-o", "json", behind, check=0)
        assert document(env, "job", "-o", "json", behind, check=0)["jobs"][0]["after"] == [f"{job}:any"]
        told = document(env, "explain", "-o", "json", job, check=0)["jobs"][0]
        assert told["schedules"] == "its dist, by probes and late binding" and len(told["waited"]) == 3, told
        assert {t["index"] for t in told["waited"]} == {1, 2, 3}, told
        # What else stands on standard output is no document, and none is added to it.
        for code, script in ((3, "echo '{\"a\":1}'; exit 3"), (137, "echo '{\"a\":1}'; kill -9 $$")):
            r = subprocess.run([HAWK, "exec", "-o", "json", "--", "sh", "-c", script], capture_output=True, text=True,
                               timeout=BOUND, env=env)
            assert (r.returncode, r.stdout) == (code, '{"a":1}\n'), r
        assert document(env, "exec", "-o", "json", "--cwd", "/nowhere", "--", "true", check=126)["errors"]
        for flags in (["-o", "json", "-q"], ["-q", "-o", "json"]):
            r = subprocess.run([HAWK, "submit", "--wait", *flags, "--", "false"], capture_output=True, text=True,
                               timeout=BOUND, env=env)
            assert r.returncode == 1 and re.fullmatch(r"\d+\.\d+\n", r.stdout), r
            r = subprocess.run([HAWK, "wait", *flags, r.stdout.strip()], capture_output=True, text=True, timeout=BOUND,
                               env=env)
            assert (r.returncode, r.stdout) == (1, ""), r
        with open("/dev/full", "w") as full:
            for args in (["jobs"], ["job", job], ["cat", job], ["explain", job], ["nodes"], ["stats"], ["policy"],
                         ["policy", "-o", "json"], ["submit", "--", "true"], ["cancel", job], ["help"],
                         ["help", "run"], ["help", "up"], ["version"], ["config", "show"],
                         ["config", "show", "-o", "json"], ["run", "--", "echo", "hi"],
                         ["run", "-o", "json", "--", "echo", "hi"]):
                r = subprocess.run([HAWK, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=BOUND,
                                   env=env)
                assert r.returncode == 1 and "cannot write to standard output" in r.stderr, (args, r.returncode, r.stderr)
            r = subprocess.run([HAWK, "history", "--trace"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=BOUND, env=env)
            assert (r.returncode, r.stderr) == (1, "hawk: cannot write to standard output: No space left on device\n"), r
        r = subprocess.run([HAWK, "history", "--trace", "--out", "/dev/full"], stderr=subprocess.PIPE, text=True, timeout=BOUND, env=env)
        assert (r.returncode, r.stderr) == (1, "hawk: history: /dev/full: No space left on device\n"), r
        reader, writer = os.pipe()
        os.close(reader)
        r = subprocess.run([HAWK, "history", "--trace"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=BOUND, env=env)
        os.close(writer)
        assert (r.returncode, r.stderr) == (0, ""), r
        assert up.stop() == 0, up.text()


run_tests(sys.modules[__name__])
