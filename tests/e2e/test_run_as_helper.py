"""hawk-run-as from outside: whom it becomes, whom and what it refuses, and that nothing a user does to his runner keeps its
keeper from ending it. The program of the runners is a shell here, which runs the script `spawner` in the user's home."""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

from hawktest import alive, run_tests, wait_for
from runastest import ANN, BOB, HAWK_USER, LAB, Started, enter_machine, install_helper

MACHINE = enter_machine()
REFUSED, FAILED, USAGE = 77, 70, 64
SHELL = os.path.realpath("/bin/sh")


def place():
    d = tempfile.TemporaryDirectory()
    os.chmod(d.name, 0o755)
    return d


def ignored(status):
    """The signals that a process ignores, without the two that belong to glibc: nobody can reset those."""
    return int(re.search(r"SigIgn:([0-9a-f]{16})", status).group(1), 16) & ~(3 << 31)


def test_a_runner_is_its_users_and_nothing_is_left_of_the_caller():
    with place() as d:
        helper = install_helper(d, SHELL)
        script = ("exec >&3; id -u; id -g; id -G; pwd; env | sort | tr '\\n' ' '; echo; ls /proc/self/fd | tr '\\n' ' '; echo;"
                  "grep -E '^(CapPrm|CapEff|SigBlk|SigIgn|NoNewPrivs)' /proc/self/status | tr -d '\\n\\t'; echo; umask;"
                  "setpriv --reuid=0 true 2>/dev/null && echo root || echo user; echo; exec sleep 1000")
        other = os.open("/etc/shadow", os.O_RDONLY)
        dirty = {"LD_PRELOAD": "/nowhere.so", "LD_LIBRARY_PATH": d, "GCONV_PATH": d, "IFS": "x", "ENV": f"{d}/env", "BASH_ENV": f"{d}/env",
                 "HAWK_TOKEN": "secret", "TMPDIR": d}
        s = Started(helper, "ann", script, env=dirty, more=(other,))
        os.close(other)
        uid, gid, groups, cwd, env, fds, status, umask, way_back = s.said()
        assert (uid, gid, sorted(groups.split())) == (str(ANN), str(ANN), sorted([str(ANN), str(LAB)])), (uid, gid, groups)
        assert cwd == f"{MACHINE}/ann"
        names = {v.split("=")[0] for v in env.split()} - {"PWD", "OLDPWD", "_"}
        assert names == {"HOME", "USER", "LOGNAME", "SHELL", "PATH"}, env
        assert set(fds.split()) - {"5"} == {"0", "1", "2", "3", "4"} or set(fds.split()) == {"0", "1", "2", "3", "4", "10"}, fds
        assert "CapPrm:0000000000000000CapEff:0000000000000000" in status and ignored(status) == 0, status
        assert (umask, way_back) == ("0022", "user")
        s.p.send_signal(signal.SIGTERM)
        assert s.gone() == 0


def test_whom_it_refuses():
    with place() as d:
        helper = install_helper(d, SHELL)
        for user, why in (("root", "allow_root"), ("toor", "allow_root"), ("low", "below lowest_uid"), ("staff", "its group is root's"), ("hawk", "the worker runs as"),
                          ("nobody", "other user namespaces"), ("nobody-at-all", "knows no user"), ("", "no user's name"),
                          ("-x", "no user's name"), ("../ann", "no user's name"), ("a:b", "no user's name"), ("ann\n", "no user's name"),
                          ("a" * 300, "no user's name"), (str(ANN), "knows no user")):
            code, text = Started(helper, user).end()
            assert code == REFUSED and why in text and text.startswith("hawk-run-as: refused: "), (user, code, text)
        install_helper(d, SHELL, f"lowest_uid {ANN + 1}")
        assert Started(helper, "ann").end()[0] == REFUSED
        install_helper(d, SHELL, "allow_root yes")
        s = Started(helper, "toor", "exec >&3; id -u; echo; exec sleep 1000")
        assert s.said() == ["0"]
        s.p.send_signal(signal.SIGTERM)
        s.gone()


def test_who_cannot_be_looked_up_for_now_is_not_refused():
    with place() as d:
        broken = f"mount -t tmpfs none /etc; mkdir /etc/passwd; exec {install_helper(d, SHELL)} start ann"
        code, text = Started("unshare", "ann", caller=0, args=("--mount", "sh", "-ec", broken)).end()
        assert code == FAILED and text == "hawk-run-as: user ann cannot be looked up: Is a directory\n", (code, text)


def test_who_may_call_it():
    with place() as d:
        helper = install_helper(d, SHELL)
        check = lambda uid: subprocess.run([helper, "check"], user=uid, group=uid, extra_groups=[], capture_output=True, check=False).returncode
        assert check(HAWK_USER) == 0 and check(0) == 0
        try:
            check(BOB)
            raise AssertionError("bob could execute it")
        except PermissionError:
            pass
        os.chmod(helper, 0o4755)  # a mistake of its operator's
        assert check(BOB) == REFUSED and check(65534) == REFUSED
        code, text = Started(helper, "ann", caller=BOB).end()
        assert code == REFUSED and "is no caller" in text, text
        install_helper(d, SHELL, callers="caller bob\ncaller hawk\ncaller nobody")
        assert check(BOB) == 0 and check(65534) == REFUSED  # as whom it would see callers of other user namespaces
        os.chmod(helper, 0o755)
        assert check(BOB) == FAILED


def test_only_root_can_have_written_what_it_goes_by():
    with place() as d:
        helper = install_helper(d, SHELL)
        conf = f"{d}/run-as.conf"

        def refused(why):
            code, text = Started(helper, "ann").end()
            assert code == FAILED and why in text, (code, text)

        os.chown(conf, HAWK_USER, 0)
        refused("does not belong to root")
        os.chown(conf, 0, 0)
        for mode in (0o664, 0o646):
            os.chmod(conf, mode)
            refused("others than root may write")
        os.rename(conf, f"{d}/elsewhere")
        refused("No such file")
        os.symlink(f"{d}/elsewhere", conf)
        refused("symbolic links")
        os.unlink(conf)
        os.mkfifo(conf)
        refused("no regular file")
        os.unlink(conf)
        for text, why in ((f"hawk {SHELL}\nlowest_uid 0", "line 2: lowest_uid"), (f"hawk {SHELL}\nlowest_uid -1", "line 2"), ("hawk bin/sh", "line 1: hawk"),
                          (f"hawk {SHELL}\nlowest_uid 4294967296", "line 2"), ("", "does not name the program"), (f"hawk {SHELL}\nallow_root maybe", "allow_root"),
                          (f"hawk {SHELL}\nallow-root yes", "no setting of this name"), (f"hawk {SHELL}\ncaller", "needs a value"),
                          (f"hawk {SHELL}\0", "NUL"), ("#" * 20000, "larger")):
            with open(conf, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(conf, 0o644)
            refused(why)
        limits = f"{d}/limits.conf"
        install_helper(d, SHELL, "limits limits.conf")
        refused("line 4: limits: must be an absolute path, or none")
        install_helper(d, SHELL, f"limits {limits}")
        with open(limits, "w", encoding="ascii") as f:
            f.write("* - core 3\n")
        os.chmod(limits, 0o646)
        refused(f"{limits}: others than root may write")
        os.unlink(limits)
        os.mkdir(f"{d}/limits.d")
        os.mkfifo(f"{d}/limits.d/1.conf", 0o644)
        refused(f"{d}/limits.d/1.conf: is no regular file")
        # Who may write to a directory can take limits away, or put another of root's programs in the place of one.
        os.unlink(f"{d}/limits.d/1.conf")
        os.chmod(f"{d}/limits.d", 0o775)
        refused(f"{limits}: others than root may write to the directory {d}/limits.d")
        os.rmdir(f"{d}/limits.d")
        os.makedirs(f"{d}/open/closed")
        os.chmod(f"{d}/open", 0o757)
        install_helper(d, SHELL, f"limits {d}/open/closed/limits.conf")
        refused(f"others than root may write to the directory {d}/open")
        with open(f"{d}/open/closed/limits.conf", "w", encoding="ascii"):
            pass
        os.symlink(f"{d}/open/closed/limits.conf", limits)
        install_helper(d, SHELL, f"limits {limits}")
        refused(f"{limits}: others than root may write to the directory {d}/open")
        os.chown(f"{d}/open", HAWK_USER, 0)
        os.chmod(f"{d}/open", 0o755)
        refused(f"{limits}: others than root may write to the directory {d}/open")
        os.chown(f"{d}/open", 0, 0)
        os.chmod(f"{d}/open", 0o1777)  # as /tmp: nobody else removes what is root's
        os.unlink(limits)
        root = f"{d}/root.crt"
        install_helper(d, SHELL, "user_root root.crt")
        refused("user_root: must be an absolute path")
        install_helper(d, SHELL, f"user_root {root}")
        refused("No such file")
        with open(root, "w", encoding="ascii") as f:
            f.write("the user root")
        os.chown(root, HAWK_USER, 0)
        refused("does not belong to root")
        os.chown(root, 0, 0)
        os.chmod(root, 0o620)
        refused("others than root may write")
        os.chmod(root, 0o600)
        # The runner gets it, though its user could not open it, and it alone is told to verify.
        s = Started(helper, "ann", "exec >&3; cat <&6; echo; echo $1; echo; exec sleep 1000")
        assert s.said() == ["the user root", "signed"]
        s.p.send_signal(signal.SIGTERM)
        s.gone()
        program = f"{d}/program"
        with open(SHELL, "rb") as source, open(program, "wb") as copy:
            copy.write(source.read())
        install_helper(d, program)
        os.chmod(program, 0o775)
        refused("others than root may write")
        os.chmod(program, 0o755)
        os.chown(program, ANN, 0)
        refused("does not belong to root")
        os.chown(program, 0, 0)
        s = Started(helper, "ann", "exec >&3; id -u; echo")
        assert s.said() == [str(ANN)] and s.gone() == 0


LIMITS = [  # limits.conf, and limits.d/*.conf in the order of their names
    ["* soft nofile 300\n* hard nofile 400\n@lab - nofile 500 # of ann's group\n"],
    ["ann - nproc 901\nann soft core unlimited\n@lab hard core 7\n* - core 8\nroot - core 9\n"],
    [f"{BOB}: - fsize 1000\n:{ANN} hard fsize 2000\n{ANN}:{BOB} soft fsize 1500\n@{LAB}: - stack 9000\n@:{LAB} soft stack 8000\n@{BOB}:{BOB} - stack 7000\n"],
    ["* - cpu 10\n* - nofile 200\n", "* - nofile 250\nann soft nofile 240\n", "@bob - nofile 260\n* hard cpu 5\n"],
    ["* - nofile 300\nann -\n@bob - nofile 310\n", "ann - nofile 320\n"],
    ["* - core 100\n@lab -\n* - core 200\n* -\n"],
    ["# nothing\n\n*\n* - \n* soft\n* soft core\n* neither core 1\n* soft corn 1\n* soft core x\n* soft core 3x\n* soft core 4 5\nann soft\tcore\t6"],
    ["* - nofile unlimited\n* - memlock -1\n* - sigpending infinity\n* soft msgqueue 4096\n* - nice -5\nann - nice -100\n* - rtprio 3\n* - locks 9\n"],
    ["* - core 5\n", "ann - nofile\nbob # - nofile 210\n@lab soft #core 6\nann - nofile 220#0\n#ann - nofile 230\n"],
    ["* Hard CORE 77\nbob - nofile 300\nbob - # none\n"],
    ["* HARD Core 18446744073709551615\n* - rss 18014398509481984\n* SOFT data 18446744073709551616\n* - as 99999999999999999999999\n"],
    ["%lab - core 5\n@nobody-knows - core 6\n@ - core 7\n: - core 8\n1:x - core 9\n-5: - core 1\n"],
]


def has_inits_limits():
    """What limits.conf does not name is as the worker has it, and with Debian's PAM as init has it: here that is the same."""
    try:
        for r in {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}:
            soft, hard = resource.prlimit(1, r)
            resource.setrlimit(r, (min(soft, 1024) if r == resource.RLIMIT_NOFILE else soft, hard))
    except (OSError, ValueError):
        return False
    return True


def test_a_user_has_the_limits_that_his_login_would_have():
    """By /etc/security/limits.conf. Beside runuser(1), which asks PAM."""
    if not os.path.exists("/etc/security/limits.conf") or not has_inits_limits():
        print("skipped: no PAM, or this process cannot have the limits of init")
        return
    with place() as d:
        helper = install_helper(d, SHELL, "allow_root yes")
        os.mkdir(f"{d}/limits.d")
        open(f"{d}/limits.conf", "w", encoding="ascii").close()
        for to in ("limits.d", "limits.conf"):
            subprocess.run(["mount", "--bind", f"{d}/{to}", f"/etc/security/{to}"], check=True)
        try:
            for first, *more in LIMITS:
                for f in os.listdir(f"{d}/limits.d"):
                    os.unlink(f"{d}/limits.d/{f}")
                for name, text in [("limits.conf", first), *((f"limits.d/{i}.conf", x) for i, x in enumerate(more))]:
                    with open(f"{d}/{name}", "w", encoding="ascii") as f:
                        f.write(text)
                for user in ("ann", "bob", "toor"):
                    s = Started(helper, user, "exec >&3; cat /proc/self/limits; echo; exec sleep 1000")
                    got = s.said()
                    s.p.send_signal(signal.SIGTERM)
                    s.gone()
                    login = subprocess.run(["runuser", user, "-c", "cat /proc/self/limits"], stdout=subprocess.PIPE, check=True).stdout.decode()
                    assert got == login.strip().splitlines(), (first, more, user, set(got) ^ set(login.strip().splitlines()))
        finally:
            for to in ("limits.d", "limits.conf"):
                subprocess.run(["umount", f"/etc/security/{to}"], check=True)


def test_it_takes_nothing_but_what_belongs_there():
    with place() as d:
        helper = install_helper(d, SHELL)
        for args in ((), ("start",), ("start", "ann", "more"), ("check", "ann"), ("--help",), ("stop", "ann")):
            p = subprocess.run([helper, *args], user=HAWK_USER, group=HAWK_USER, extra_groups=[], capture_output=True, text=True, check=False)
            assert p.returncode == USAGE, (args, p)
        assert Started(helper, "ann", pairs=False).end()[0] == USAGE
        assert Started(helper, "ann", listen=False).end()[0] == USAGE


TREE = ("exec >&3; rm -f one two; (setsid env -i sh -c '(sleep 1000 & echo $!; : >one) 2>&-' & ); setsid sh -c 'echo $$; : >two; exec sleep 1000' &"
        "until test -e one && test -e two; do sleep 0.1; done; echo $$; echo; sleep 1000")


def test_what_a_user_does_to_his_runner_keeps_nothing_alive():
    with place() as d:
        helper = install_helper(d, SHELL)
        for harm, ended_by_user in ((signal.SIGKILL, True), (signal.SIGSTOP, False)):
            s = Started(helper, "ann", TREE)
            pids = [int(line) for line in s.said()]
            assert len(pids) == 3 and all(map(alive, pids)), pids
            runner = pids[-1]
            keeper = s.p.pid
            # Neither he nor anybody else can do that to its keeper.
            for uid in (ANN, BOB):
                for what in (f"kill -9 {keeper}", f"kill -STOP {keeper}", f"prlimit --pid {keeper} --core=0", f"cat /proc/{keeper}/environ",
                             f"taskset -p 1 {keeper}", f"renice 19 -p {keeper}"):
                    assert subprocess.run(["sh", "-c", what], user=uid, group=uid, extra_groups=[], capture_output=True, check=False).returncode, what
            subprocess.run(["sh", "-c", f"kill -{int(harm)} {runner}"], user=ANN, group=ANN, extra_groups=[], check=True)
            if not ended_by_user:
                subprocess.run(["sh", "-c", f"kill {keeper}"], user=HAWK_USER, group=HAWK_USER, extra_groups=[], check=True)
            s.gone()
            wait_for("all to be gone", lambda gone=pids: not any(map(alive, gone)))


def test_a_keeper_has_no_privilege_but_to_end_tasks():
    with place() as d:
        helper = install_helper(d, SHELL)
        s = Started(helper, "ann", "exec >&3; echo up; echo; exec sleep 1000")
        s.said()

        def status():
            with open(f"/proc/{s.p.pid}/status", encoding="utf-8") as f:
                return dict(line.rstrip("\n").split(":\t", 1) for line in f)

        wait_for("the keeper", lambda: status()["Name"] == "hawk-keeper")
        now = status()
        assert now["Uid"].split() == [str(HAWK_USER)] * 4 and now["Gid"].split() == [str(HAWK_USER)] * 4 and now["Groups"].strip() == "", now
        assert int(now["CapEff"], 16) == int(now["CapPrm"], 16) == 1 << 5, now
        assert os.listdir(f"/proc/{s.p.pid}/fd") == ["3"]
        s.p.send_signal(signal.SIGTERM)
        assert s.gone() == 0


run_tests(sys.modules[__name__])
