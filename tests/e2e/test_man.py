#!/usr/bin/python3
"""Manual pages, completion, `make install` and `make uninstall`, as their users meet them."""
# make test-all
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

from hawktest import BOUND, HAWK, Cluster, run_tests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def hawk(*args):
    return subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, check=True).stdout


def commands():
    """Those that `hawk help` lists."""
    found = re.findall(r"^  ([a-z]+)  +\S", hawk("help"), re.M)
    assert len(found) > 20, found
    return found


def flags(command):
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", hawk(command, "--help"), re.M))


def make(target, **variables):
    subprocess.run(["make", "-s", "-C", ROOT, f"B={os.path.relpath(os.path.dirname(HAWK), ROOT)}", target,
                    *[f"{k}={v}" for k, v in variables.items()]], check=True, env=clean, stdout=subprocess.DEVNULL)


def files(d):
    return {os.path.relpath(os.path.join(at, f), d) for at, _, names in os.walk(d) for f in names}


def read_man(page, *more):
    return subprocess.run(["man", "-l", *more, page], capture_output=True, text=True, timeout=BOUND,
                          env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat",
                               "MAN_KEEP_FORMATTING": ""})


def test_every_command_and_flag_is_in_pages_and_completion():
    with tempfile.TemporaryDirectory() as d:
        hawk("generate", d)
        whole = read_man(f"{d}/hawk.1").stdout
        scripts = {}
        for shell, name in (("bash", "hawk.bash"), ("zsh", "_hawk"), ("fish", "hawk.fish")):
            with open(f"{d}/{name}", encoding="utf-8") as f:
                scripts[shell] = f.read()
            assert scripts[shell] == hawk("completion", shell)
        assert files(d) == {"hawk.1", "hawk.bash", "_hawk", "hawk.fish"} | {f"hawk-{c}.1" for c in commands()}
        for command in commands():
            assert f"hawk-{command}(1)" in whole, command
            page = read_man(f"{d}/hawk-{command}.1").stdout
            for flag in flags(command):
                assert re.search(f"{flag}\\b", page), (command, flag)
                assert re.search(f"^    {command}\\).*{flag}[ ']", scripts["bash"], re.M), (command, flag)
                part = scripts["zsh"].split(f"\n    {command})\n", 1)[1].split("\n        ;;", 1)[0]
                assert f"'{flag}[" in part, (command, flag)
                if flag != "--help":
                    assert re.search(f"^.*from {command}'.* -l {flag[2:]} ", scripts["fish"], re.M), (command, flag)
        assert {"--retries", "--array", "--output"} <= flags("submit") and "--long-lease" in flags("central")


def test_pages_are_clean_and_narrow():
    with tempfile.TemporaryDirectory() as d:
        hawk("generate", d)
        for name in sorted(f for f in files(d) if f.endswith(".1")):
            r = read_man(f"{d}/{name}", "--warnings")
            assert r.returncode == 0 and not r.stderr, (name, r.stderr)
            assert re.search(r"^NAME\n +hawk", r.stdout, re.M), r.stdout[:400]
        shown = read_man(f"{d}/hawk-submit.1").stdout
        assert "`last`" in shown or "hawk submit" in shown


class Shell:
    """An interactive shell at a terminal, which has read a completion script."""

    def __init__(self, argv, prepared, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, {**clean, **env, "PS1": "$ ", "TERM": "dumb", "INPUTRC": "/dev/null", "HISTFILE": "/dev/null",
                                       "PATH": os.path.dirname(HAWK) + ":" + os.environ["PATH"]})
        self.type(f"{prepared}; echo so''urced\n")
        self.until("sourced")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, wanted):
        text, end = "", time.monotonic() + BOUND
        while wanted not in text:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], (wanted, text)
            text += os.read(self.fd, 65536).decode(errors="replace")
        return text

    def completes(self, typed, wanted):
        """What a tab makes of it."""
        self.type("\x15" + typed + "\t")
        return self.until(wanted)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def bash_with(script, **env):
    return Shell(["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'; bind 'set completion-query-items 0'; "
                 f"bind 'set page-completions off'; source {script}", **env)


def test_completion_in_bash():
    with tempfile.TemporaryDirectory() as d:
        hawk("generate", d)
        bash = bash_with(f"{d}/hawk.bash")
        try:
            bash.completes("hawk canc", "hawk cancel ")
            bash.completes("hawk help exp", "hawk help explain ")
            bash.completes("hawk submit --at-m", "hawk submit --at-most-once ")
            bash.completes("hawk submit --class lo", "hawk submit --class long ")
            bash.completes("hawk worker --freezer cgroup1", "--freezer cgroup1 ")
            bash.completes("hawk policy re", "hawk policy reset ")
            bash.completes("hawk cancel la", "hawk cancel last ")
            bash.completes("hawk cat la", "hawk cat last ")
            bash.completes("hawk cat last 1 stde", "hawk cat last 1 stderr ")
            with open(f"{d}/inputs.txt", "w", encoding="utf-8"):
                pass
            bash.completes(f"hawk submit --each-line {d}/inp", f"{d}/inputs.txt ")
            bash.completes(f"hawk run -- /bin/sleep 1 {d}/inp", f"{d}/inputs.txt ")
            shown = bash.completes("hawk config \t", "show")
            assert "check" in shown
        finally:
            bash.close()


def test_completion_of_job_ids():
    """They are asked for then; where no cluster is, nothing is said."""
    with Cluster(workers=1) as c:
        with open(f"{c.dir}/hawk.bash", "w", encoding="utf-8") as f:
            f.write(hawk("completion", "bash"))
        job = c.hawk("submit", "--", "true").stdout.strip()
        bash = bash_with(f"{c.dir}/hawk.bash", HAWK_DIST=c.dist_addrs[0])
        try:
            for typed in ("cancel", "cat", "wait last", "resubmit --failed", "submit --after"):
                bash.completes(f"hawk {typed} {job[:-1]}", f"hawk {typed} {job} ")
            c.dists[0].kill()
            shown = bash.completes("hawk wait la", "hawk wait last ")
            assert "hawk:" not in shown, shown
        finally:
            bash.close()


def test_completion_in_zsh():
    if not shutil.which("zsh"):
        print("skipped: no zsh here")
        return
    with tempfile.TemporaryDirectory() as d:
        hawk("generate", d)
        zsh = Shell(["zsh", "-f", "-i"], f"unsetopt beep; fpath=({d} $fpath); autoload -Uz compinit; compinit -D -u")
        try:
            zsh.completes("hawk canc", "hawk cancel ")
            zsh.completes("hawk submit --at-m", "hawk submit --at-most-once ")
            zsh.completes("hawk submit --class lo", "hawk submit --class long ")
            zsh.completes("hawk policy re", "hawk policy reset ")
            shown = zsh.completes("hawk config \t", "show")
            assert "check" in shown
        finally:
            zsh.close()


def test_completion_in_fish():
    if not shutil.which("fish"):
        print("skipped: no fish here")
        return
    with tempfile.TemporaryDirectory() as d:
        hawk("generate", d)
        r = subprocess.run(["fish", "-c", f"source {d}/hawk.fish; complete -C 'hawk canc'; complete -C 'hawk submit --class '"],
                           capture_output=True, text=True, timeout=BOUND)
        assert "cancel\t" in r.stdout and "\nlong\t" in r.stdout, (r.stdout, r.stderr)


def test_uninstall_removes_what_install_put():
    with tempfile.TemporaryDirectory() as d:
        others = ["opt/x/bin/other", "opt/x/share/doc/hawk/NOTES", "opt/x/share/man/man1/other.1"]
        for other in others:
            os.makedirs(os.path.dirname(f"{d}/{other}"), exist_ok=True)
            with open(f"{d}/{other}", "w", encoding="utf-8"):
                pass
        make("install-files", PREFIX="/opt/x", DESTDIR=d)
        there = files(d) - set(others)
        for f in ("bin/hawk", "share/man/man1/hawk.1", "share/man/man1/hawk-submit.1", "share/man/man3/libhawk.3",
                  "share/man/man8/hawk-run-as.8",
                  "share/bash-completion/completions/hawk", "share/zsh/site-functions/_hawk", "include/hawk.h",
                  "share/fish/vendor_completions.d/hawk.fish", "lib/systemd/system/hawk-worker.service",
                  "share/hawk/snakemake/status", "share/hawk/snakemake/config.yaml",
                  "share/doc/hawk/protos/hawk.proto", "lib/sysusers.d/hawk.conf", "libexec/hawk-run-as", "libexec/hawk-runner"):
            assert f"opt/x/{f}" in there, f
        with open(f"{d}/opt/x/lib/systemd/system/hawk-worker.service", encoding="utf-8") as f:
            assert "ExecStart=/opt/x/bin/hawk worker" in f.read()
        with open(f"{d}/opt/x/lib/pkgconfig/hawk.pc", encoding="utf-8") as f:
            assert "prefix=/opt/x" in f.read()
        subprocess.run([f"{ROOT}/tools/install", os.path.dirname(HAWK), "/opt/x", d, "/etc", "--remove"], cwd=ROOT, check=True)
        assert files(d) == set(others), files(d)
        assert not os.path.exists(f"{d}/opt/x/share/doc/hawk/protos") and not os.path.exists(f"{d}/opt/x/share/hawk")


def test_help_fits_and_says_which_command_has_a_flag():
    for command in commands():
        for line in hawk(command, "--help").splitlines():
            # Examples and choices are kept as they are.
            assert len(line) <= 100 or line.startswith((" ", "usage: ")), (command, line)
    text = {c: " ".join(hawk(c, "--help").split()) for c in ("run", "submit", "exec")}
    for c in ("run", "submit"):
        assert "--retries N run, submit: run a task that fails again" in text[c], text[c]
        assert "--time-limit TIME run, submit, exec: " in text[c], text[c]
    assert "--halt WHEN run: " in text["run"] and "--wait submit: " in text["submit"] and "--no-stdin exec: " in text["exec"]
    assert "run, submit, exec: " not in hawk("wait", "--help")


run_tests(sys.modules[__name__])
