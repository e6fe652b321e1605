"""tools/proof: which commit it proves, that it goes on where it stopped, and that what fails is told. In a repository of
its own, whose "hawk" is a script."""
# make test-all
import os
import re
import shutil
import signal
import subprocess
import tempfile

from hawktest import wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HAWK_SCRIPT = """#!/usr/bin/python3
import json
import os
import signal
import sys
first, last = map(int, sys.argv[sys.argv.index("--seeds") + 1].split("-"))
with open("build/ran", "a") as f:
    f.write(f"{first}\\n")
if os.path.exists("build/slow") and first == 20001:
    try:
        open("build/begun", "w").close()
        signal.pause()
    finally:  # it takes as long as the test likes
        open("build/gate").read()
        open("build/cleaned", "w").close()
bad = [{"seed": 30123, "invariant": "one copy"}] if os.path.exists("build/bad") and first <= 30123 <= last else []
print(json.dumps({"seeds": last - first + 1, "jobs": 10, "tasks": 100, "steps": 1000, "virtual_s": 86400.0,
                  "faults": {"break": 7}, "failures": bad}))
"""
passed = 0


def sh(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def commit_all(text):
    sh("git", "add", "-A")
    sh("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", text)
    return sh("git", "rev-parse", "--short", "HEAD")


def proof(*args):
    return subprocess.run(["tools/proof", "--short", "--parts", "seeds", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def ran():
    """How many chunks of seeds have run since the last look."""
    try:
        with open("build/ran", encoding="utf-8") as f:
            n = len(f.readlines())
        os.unlink("build/ran")
    except FileNotFoundError:
        n = 0
    return n


def page():
    with open("docs/proof.md", encoding="utf-8") as f:
        return f.read()


def check(what, condition, seen=""):
    global passed
    assert condition, f"{what}: {seen}"
    passed += 1


def opened_gate():
    """Once somebody reads from it; None before that."""
    try:
        return os.fdopen(os.open("build/gate", os.O_WRONLY | os.O_NONBLOCK), "w")
    except OSError:
        return None


def ended_within(p, seconds):
    try:
        return p.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def interrupt(number, chunks):
    """In the third chunk of seeds, which takes a while to clean up. chunks: how many begin."""
    with open("build/slow", "w", encoding="utf-8"):
        pass
    with subprocess.Popen(["tools/proof", "--short", "--parts", "seeds"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as p:
        wait_for("the slow chunk", lambda: os.path.exists("build/begun") or p.poll() is not None)
        p.send_signal(number)
        gate = wait_for("its cleaning up", opened_gate)
        check("an interrupted one waits for what runs", ended_within(p, 1) is None)
        gate.close()
        said, _ = p.communicate(timeout=60)
    check("an interrupted one says so", p.returncode == 1 and "interrupted; what has run is kept" in said, said)
    check("and has waited for what ran", os.path.exists("build/cleaned"))
    check("what had run did not run again", ran() == chunks)
    os.unlink("build/begun")
    os.unlink("build/cleaned")


def make_repository():
    for name in ("tools", "docs", "build"):
        os.mkdir(name)
    shutil.copy(f"{ROOT}/tools/proof", "tools/proof")
    with open("Makefile", "w", encoding="utf-8") as f:
        f.write("all:\n")
    with open(".gitignore", "w", encoding="utf-8") as f:
        f.write("/build/\n")
    with open("build/hawk", "w", encoding="utf-8") as f:
        f.write(HAWK_SCRIPT)
    os.chmod("build/hawk", 0o755)
    os.mkfifo("build/gate")
    sh("git", "init", "-q")


def main():
    make_repository()
    first = commit_all("first")

    p = proof()
    check("it passes", p.returncode == 0, p.stdout)
    check("all chunks ran", ran() == 5)
    check("the page names form, commit and sum", "**short form**" in page() and f"commit {first} " in page() and
          "| 50,000 | 50 | 500 | 5,000 | 5.0 days |" in page(), page())
    check("and nothing of this machine", os.getcwd() not in page() and os.uname().nodename not in page().split())

    with open("README.md", "w", encoding="utf-8") as f:
        f.write("What it is.\n")
    commit_all("the page, and another document")
    p = proof()
    check("documents make no other version", p.returncode == 0 and ran() == 0 and f"commit {first} " in page(), p.stdout)

    with open("Makefile", "a", encoding="utf-8") as f:
        f.write("\n")
    p = proof()
    check("a changed tree is refused", p.returncode == 1 and "not committed" in p.stdout and ran() == 0, p.stdout)
    second = commit_all("second")

    with open("build/bad", "w", encoding="utf-8"):
        pass
    p = proof()
    check("what fails is told", p.returncode == 1 and "**failed**: seeds-30001" in page() and
          "one copy: build/hawk sim --faults --seed 30123 --log" in page() and f"commit {second} " in page(), page())
    check("the others ran", ran() == 5)
    os.unlink("build/bad")
    p = proof()
    check("only what failed runs again", p.returncode == 0 and ran() == 1 and "none failed" in page(), page())

    with open("Makefile", "a", encoding="utf-8") as f:
        f.write("\n")
    commit_all("third")
    interrupt(signal.SIGINT, 3)
    interrupt(signal.SIGTERM, 1)
    os.unlink("build/slow")
    p = proof()
    check("it goes on where it was interrupted", p.returncode == 0 and ran() == 3, p.stdout)

    p = subprocess.run(["tools/proof", "--short", "--parts", "seed"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    check("an unknown part is refused", p.returncode == 1 and re.search(r"no part is called 'seed'", p.stdout), p.stdout)


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    main()
    os.chdir("/")
print(f"# tests {passed}")
