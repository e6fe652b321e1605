"""What tasks are given: replacement strings, and values in the text of a shell."""
import json
import os
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, run_tests

# Names of files that a shell would run, or take apart.
NASTY = ["$(touch x)", "`touch x`", "it's", "a\"b", "a  b", "; touch x;", "-n", "--", "*", "\\", "#", "'\"'\"'$(touch x)", "~", "é",
         "plain.txt"]
NASTY_BYTES = [name.encode() for name in NASTY] + [b"\xff\xfe", b"\x81'$(touch x)", b"\xe3\x81\""]


def hawk(*args, lines=(), check=0, cwd=None, end=b"\n"):
    """Runs hawk with lines (bytes) on its standard input."""
    r = subprocess.run([HAWK, *args], input=b"".join(line + end for line in lines), capture_output=True, timeout=BOUND, cwd=cwd)
    assert r.returncode == check, f"exit {r.returncode}, not {check}: {r.stdout}{r.stderr}"
    return r


def run(*args, **more):
    return hawk("run", *args, **more)


def printed(r):
    return sorted(r.stdout.split(b"\0")[:-1])


def test_a_file_that_looks_like_a_flag_changes_no_command():
    """--input *, in a directory with a file called -q."""
    for words in (("-q", "a", "b"), ("a", "-n.txt", "b")):
        assert b"a word of --input begins with '-'" in run("--input", *words, "--", "echo", check=2).stderr
    assert printed(run("--input", "./-q", "a", "-j", "2", "--", "printf", "%s\\0")) == [b"./-q", b"a"]
    assert run("--input", "a", "--", "echo", "--", "-q").stdout == b"-- -q a\n"


def test_a_shell_sees_the_bytes_and_runs_none():
    with tempfile.TemporaryDirectory() as d:
        for text in ("printf '%s\\0' {}", "printf '%s\\0' \"{}\"", "printf '%s\\0' '{}'", "x=\"$(printf %s {}; echo)\"; printf '%s\\0' \"$x\"",
                     "f() { printf '%s\\0' \"$1\"; }; f {}", "printf '%s\\0' \"$HAWK_INPUT\""):
            for shell in (("sh", "-c"), ("bash", "-c"), ("env", "A=1", "nice", "timeout", "60", "bash", "-euo", "pipefail", "-c")):
                r = run("--each-line", "-", "--", *shell, text, lines=NASTY_BYTES, cwd=d)
                assert printed(r) == sorted(NASTY_BYTES), (shell, text, r)
                assert not os.listdir(d), (shell, text, os.listdir(d))


def test_arguments_are_bytes():
    r = run("--each-line", "-", "--", "printf", "%s\\0", lines=NASTY_BYTES)
    assert printed(r) == sorted(NASTY_BYTES), r
    r = run("--each-line", "-", "--", "printf", "%s\\0", "<{}>", lines=NASTY_BYTES)
    assert printed(r) == sorted(b"<" + x + b">" for x in NASTY_BYTES), r


def test_a_value_that_cannot_be_quoted_fails_its_task():
    with tempfile.TemporaryDirectory() as d:
        for text, where in (("echo `echo {}`", "backquotes"), ("cat <<E\n{}\nE", "a here-document"), ("echo $(({}+1))", "$((...))"),
                            ("sh -c \"echo {}\"", "another `sh -c`")):
            r = run("--each-line", "-", "--", "sh", "-c", text, lines=[b"$(touch x)", b"7"], check=1, cwd=d)
            said = r.stderr.decode()
            assert "task 0 ($(touch x)): not started (126)" in said and where in said and '"$HAWK_INPUT"' in said, said
            assert "1 of 2 tasks failed" in said and r.stdout.strip() in (b"7", b"8"), r
            assert not os.listdir(d), os.listdir(d)
    assert run("--array", "3-3", "--", "sh", "-c", "echo $(({} * {}))").stdout == b"9\n"


def test_forms():
    r = run("--each-line", "-", "--", "echo", "{} {.} {/} {//} {/.} {#} {1} {2}", lines=[b"a/b.c.gz"])
    assert r.stdout == b"a/b.c.gz a/b.c b.c.gz a b.c 1 a/b.c.gz {2}\n", r
    assert run("--", "echo", "{} {#} {.}").stdout == b"{} {#} {.}\n"
    assert run("--array", "5-5", "--", "echo", "{} {#}").stdout == b"5 1\n"


def test_numbers_are_not_appended():
    """However they are written: as a range, with a step, as a list, or several of them."""
    for flags in (["-a", "1-2"], ["-a", "1-3:2"], ["-a", "1,3"], ["-a", "3-3", "--env", "N={}"], ["-a", "1-2", "-a", "3-3"]):
        r = run("-k", *flags, "--", "sh", "-c", "echo $# $HAWK_INPUT", "sh")
        assert [line.split()[0] for line in r.stdout.splitlines()] == [b"0"] * len(r.stdout.splitlines()), (flags, r)
        assert b"3" in r.stdout or flags[1] == "1-2", (flags, r)
        assert run("--dry-run", *flags, "--", "echo", "x").stdout.splitlines()[0] == b"echo x", flags
    assert run("-I", "w", "-a", "1-1", "--", "echo").stdout == b"w 1\n"
    assert run("--timer", "-a", "1-3:2", "--", "1ms").stdout == b""


def test_places_in_directory_environment_and_output():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/one"), os.mkdir(f"{d}/two")
        run("-l", "-", "--cwd", "{}", "--env", "PLACE=<{}>", "--stdout", "{#}.{}", "--", "sh", "-c", "pwd; echo $PLACE; : {}",
            lines=[b"one", b"two"], cwd=d)
        for number, name in ((1, "one"), (2, "two")):
            with open(f"{d}/{name}/{number}.{name}") as f:
                assert f.read() == f"{d}/{name}\n<{name}>\n"
        # A file whose name has all columns is its task's alone: another run empties it.
        for _ in range(2):
            run("--csv", "-l", "-", "--stdout", "{2}-{1}", "--", "echo", lines=[b"a,b", b"c,d"], cwd=d)
        assert open(f"{d}/b-a").read() == "a b\n"
        # What is exported here is nobody's template, and without inputs there is none.
        r = subprocess.run([HAWK, "run", "-l", "-", "--", "sh", "-c", "echo $X"], input=b"a\n", capture_output=True, check=True,
                           env={**os.environ, "X": "{}"})
        assert r.stdout == b"{}\n", r
        assert run("--env", "X={}", "--", "sh", "-c", "echo $X").stdout == b"{}\n"
        # An input that is an absolute path stays one, in directories and files' names.
        os.mkdir(f"{d}/far")
        far = f"{d}/far/z.in".encode()
        run("-l", "-", "--cwd", "{//}", "--stdout", "{.}.log", "--stderr", "{/.}.err", "--", "sh", "-c", "pwd; pwd >&2", lines=[far], cwd=f"{d}/one")
        for name in ("z.log", "z.err"):
            assert open(f"{d}/far/{name}", encoding="ascii").read() == f"{d}/far\n", name
        assert not os.path.exists(f"{d}/one/{d}")
        r = run("-l", "-", "--cwd", f"{d}/{{}}", "--", "true", lines=[b"three"], check=1)
        assert f"cannot enter the directory {d}/three".encode() in r.stderr, r
        assert run("-l", "-", "--env", "PATH={}", "--", "mine", lines=[f"{d}/one".encode()], check=1).stderr.count(b"no such program"), d
        with open(f"{d}/one/mine", "w") as f:
            f.write("#!/bin/sh\necho it is $PATH\n")
        os.chmod(f"{d}/one/mine", 0o755)
        assert run("-l", "-", "--env", "PATH={}", "--", "mine", lines=[f"{d}/one".encode()]).stdout == f"it is {d}/one\n".encode()


def test_a_directory_of_this_name_is_not_filled_in():
    with tempfile.TemporaryDirectory() as d:
        here = f"{d}/a{{}}b"
        os.makedirs(f"{here}/x")
        assert run("-l", "-", "--", "sh", "-c", "pwd; : {}", lines=[b"x"], cwd=here).stdout == f"{here}\n".encode()
        r = run("-l", "-", "--cwd", "{}", "--", "pwd", lines=[b"x"], cwd=here, check=2)
        assert b"--cwd" in r.stderr, r


def test_several_sources():
    r = run("-k", "--input", "a b", "c", "-a", "1-5:2,9", "--", "echo", "<{1}>", "{2}", "{#}")
    assert r.stdout.decode().splitlines() == [f"<{w}> {n} {4 * i + k + 1}" for i, w in enumerate(("a b", "c")) for k, n in enumerate((1, 3, 5, 9))], r
    r = run("-k", "--link", "-l", "-", "--input", "x", "y", "--", "sh", "-c", "echo {2}{1} \"$HAWK_INPUT/$HAWK_INPUT_1/$HAWK_INPUT_2\"", lines=[b"1", b"2 2"])
    assert r.stdout == b"x1 1 x/1/x\ny2 2 2 2 y/2 2/y\n", r
    assert run("-k", "-I", "a", "b", "-I", "c d", "--", "printf", "(%s)").stdout == b"(a)(c d)(b)(c d)"
    with tempfile.TemporaryDirectory() as d:
        for name in "pq":
            with open(f"{d}/{name}", "w") as f:
                f.write(f"{name}1\n{name}2\n")
        r = run("-k", "-l", f"{d}/p", "-l", f"{d}/q", "--", "echo", "{}")
        assert r.stdout == b"p1 q1\np1 q2\np2 q1\np2 q2\n", r
    # A pattern of the shell that matches nothing: no tasks, and what follows is not taken for an input.
    for empty in (("--input", "--"), ("-I", "-k", "--"), ("--input", "--", "--input", "x", "--"), ("--input", "a", "-I", "--")):
        r = run(*empty, "echo")
        assert r.stdout == b"" and r.stderr == b"", (empty, r)
    assert run("-k", "--input=-k", "--", "echo").stdout == b"-k\n" and run("-I", "-", "--", "echo").stdout == b"-\n"
    r = run("-k", "--input", "a", "b", "-I", "c", "--", "false", check=1)
    assert b"a c, b c" in r.stderr, r


def test_an_input_that_is_run_by_no_shell_in_columns():
    with tempfile.TemporaryDirectory() as d:
        r = run("--null", "-l", "-", "--input", "'$(touch x)'", "--", "sh", "-c", "printf '%s|%s\\0' {1} \"{2}\"", lines=NASTY_BYTES + [b"a\nb"],
                end=b"\0", cwd=d)
        assert printed(r) == sorted(x + b"|'$(touch x)'" for x in NASTY_BYTES + [b"a\nb"]), r
        assert not os.listdir(d)


def test_csv():
    table = b'name,size\r\n"a, b",1\r\n"say ""hi""\nthere",2\r\n'
    r = run("-k", "--csv", "--header", "-l", "-", "--", "printf", "%s", "<{name}={size}={2}>", lines=[table], end=b"")
    assert r.stdout == b'<a, b=1=1><say "hi"\nthere=2=2>', r
    r = run("-k", "--separator", "\\t", "-l", "-", "--", "echo", "{2}{1}", lines=[b"a\tb", b"c\td"])
    assert r.stdout == b"ba\ndc\n", r
    r = run("--csv", "-l", "-", "--", "echo", lines=[b"a,b", b"c"], check=2)
    assert b"line 2: 1 column," in r.stderr, r


def test_a_list_from_windows_is_named_once():
    for how in ("-l", "--each-line"):
        r = run("-k", how, "-", "--", "printf", "%s|", lines=[b"a", b"b"], end=b"\r\n")
        assert (r.stdout, r.stderr.count(b"the CR is part of each input")) == (b"a\r|b\r|", 1), r
        assert run("-k", how, "-", "--csv", "--", "printf", "%s|", lines=[b"a,b"], end=b"\r\n").stderr == b""
        assert run("-k", how, "-", "--", "printf", "%s|", lines=[b"a", b"b\r"]).stderr == b""


def test_separators_of_gnu_parallel_are_named():
    for words, said in (([":::", "a", "b"], "':::' and what stands behind it go to the command as they are: give inputs by --input"),
                        (["::::", "list"], "'::::' and what stands behind it go to the command as they are: name a file of inputs by -l")):
        r = run("--", "echo", "{}", *words)
        assert said in r.stderr.decode() and r.stdout.decode().split()[1:] == words, r
    assert run("--", "sh", "-c", "echo $*", "/usr/bin/parallel", ":::", "a").stderr == b""


def test_a_placeholder_is_no_input():
    """-I of xargs and GNU parallel names one."""
    for flags in (["-I{}", "-l", "-", "--", "echo", "{}"], ["-l", "-", "-I", "{}", "echo", "{}"], ["-I%", "-l", "-", "--", "echo", "%"]):
        r = run(*flags, lines=[b"a"], check=2)
        assert b"run: -I is a list of inputs, and names no placeholder" in r.stderr and r.stdout == b"", (flags, r)
    assert run("-I", "%", "--", "echo").stdout == b"%\n"
    assert run("-k", "-I", "a", "%", "--", "echo", "%").stdout == b"% a\n% %\n"
    assert run("-I", ".", "--", "echo", ".").stdout == b". .\n"
    assert run("-I", "a", "--", "echo", "a").stdout == b"a a\n"


def test_columns_that_are_not_there_are_named():
    table = b"name,size\na,1\n"
    for words, said in ((["{zz}"], "{zz} stays as it is: there is no column of that name; there are: name, size"), (["{zz/.}"], "{zz/.} stays"),
                        (["{3}"], "{3} stays as it is: the inputs have 2 columns")):
        r = run("--csv", "--header", "-l", "-", "--", "echo", *words, lines=[table], end=b"")
        assert said in r.stderr.decode() and r.stdout.decode().startswith(words[0]), r
    r = run("--csv", "--header", "-l", "-", "--env", "X={size}", "--", "echo", "{name}", "{2/}", "${zz}", lines=[table], end=b"")
    assert r.stdout == b"a 1 ${zz}\n" and r.stderr == b"", r
    assert b"{b} stays" in run("--csv", "--header", "-l", "-", "--env", "X={b}", "--", "true", lines=[table], end=b"").stderr
    r = run("--csv", "--header", "-l", "-", "--", "echo", "{size/}", "{name}", lines=[b"size,name,size,,\n1,a,2,,\n"], end=b"")
    assert (r.stdout, r.stderr) == (b"1 a\n", b"hawk: run: -: columns 1 and 3 have one name: {size} stands for the first\n"), r
    # Of one column nobody speaks of columns: this may be a regular expression.
    assert run("-l", "-", "--", "echo", "a{3}{zz}", lines=[b"x"]).stderr == b""
    for flags in (["--input", "a"], ["--array", "1-1"], ["-l", "-"]):
        r = run(*flags, "--", "echo", "{1}", "{2}", lines=[b"a"] if "-l" in flags else [])
        assert b"{2} stays as it is: the inputs have 1 column\n" in r.stderr and r.stdout.endswith(b" {2}\n"), r
    for text in ("a{2}", "{2}b", "{2,3}", "{x}", "${2}"):
        assert run("--input", "a", "--", "echo", "{1}", text).stderr == b"", text
    assert run("--", "echo", "{2}").stderr == b"", "no inputs"


def test_an_input_that_linux_does_not_take_is_told_from_others():
    most = 32 * os.sysconf("SC_PAGESIZE") - len("HAWK_INPUT=") - 1
    lines = [b"a", b"", b"y" * most, b"x" * (most + 1)]
    r = run("-l", "-", "--", "sh", "-c", "printf '%s\\0' ${#HAWK_INPUT}", lines=lines, check=1)
    assert printed(r) == [b"1", b"%d" % most], r.stdout
    assert f"the task's input has {most + 1} bytes, and Linux takes at most {most}: put it into a file".encode() in r.stderr, r.stderr
    assert b"task 2 (xxxx" in r.stderr, r.stderr
    places = most // 2
    r = run("-I", "abc", "--", "echo", "{}" * places, check=1)
    assert f"an argument has {3 * places} bytes, and Linux takes at most {most + 11}".encode() in r.stderr, r.stderr
    r = run("-I", "abc", "--env", "BIG=" + "{}" * places, "--", "true", check=1)
    assert f"the variable BIG has {3 * places} bytes, and Linux takes at most {most + 7}".encode() in r.stderr, r.stderr
    r = run("-I", "a" * 1000, "--", "echo", *["{}" * 50] * 200, check=1)
    assert b"arguments and variables have 100" in r.stderr, r.stderr
    r = run("--dry-run", "-l", "-", "--", "echo", lines=lines[-1:], check=1)
    assert r.stdout == b"" and b"task 0 would not start: its input has" in r.stderr, r


def test_an_empty_list_succeeds():
    assert run("-l", "-", "--", "false").stdout == b""
    document = json.loads(run("--output", "json", "-l", "-", "--", "false").stdout)
    assert document["tasks"] == [] and document["submitted"] == 0 and document["exit_code"] == 0, document
    r = hawk("submit", "-l", "-", "--wait", "--", "false")
    assert b"the list of inputs is empty" in r.stderr and r.stdout == b"none\n", r
    job = json.loads(hawk("submit", "-o", "json", "-l", "-", "--", "false").stdout)
    assert job["job"] == "none" and job["state"] == "done", job
    assert json.loads(hawk("submit", "-o", "json", "-l", "-", "--wait", "--", "false").stdout)["jobs"] == []


def test_piped_input_that_nobody_reads_is_reported():
    for command in (("run",), ("run", "-a", "1-2")):
        assert b"--each-line -" in hawk(*command, "--", "true", lines=[b"a"]).stderr, command
    assert run("--stdin", "-", "--", "cat", lines=[b"a"]).stdout == b"a\n"
    for more in ({"stdin": subprocess.DEVNULL}, {"input": b""}):
        r = subprocess.run([HAWK, "run", "--", "true"], capture_output=True, timeout=BOUND, check=True, **more)
        assert r.stderr == b"", r
    # The loop reads its list: what is left of that is not for the command.
    for script, warned in (("seq 3 | while read x; do $HAWK run -- echo $x; done", 0), ("seq 3 | $HAWK run -- true; true", 1)):
        r = subprocess.run(["sh", "-c", script], capture_output=True, timeout=BOUND, check=True, env={**os.environ, "HAWK": HAWK})
        assert r.stderr.count(b"--each-line -") == warned, (script, r)
        assert warned or r.stdout == b"1\n2\n3\n", r


run_tests(sys.modules[__name__])
