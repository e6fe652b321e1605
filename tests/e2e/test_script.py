"""hawk submit job.sh: flags that stand in the script."""
import os
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Cluster, run_tests

SCRIPT = """#!/bin/sh -e

# What it does.
#HAWK --array 3-4 --name 'a "b" c'   # as many as there are
#HAWK --env GREETING="hello \\"you\\""
#HAWKS --frob
echo "$GREETING $1 $HAWK_TASK_INDEX"
#HAWK --frob
#HAWK --frob
"""


def test_a_script_says_how_it_is_submitted():
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        script = f"{d}/job.sh"
        with open(script, "w") as f:
            f.write(SCRIPT)
        submitted = c.hawk("submit", script, "an arg", "--frob")
        job = submitted.stdout.strip()
        assert f"{script}, line 8: this #HAWK line stands below the first command, and is not read\n" in submitted.stderr, submitted
        assert submitted.stderr.count("\n") == 1, submitted
        c.hawk("wait", job)
        assert c.hawk("cat", job).stdout == 'hello "you" an arg 3\nhello "you" an arg 4\n'
        assert c.job(job)["name"] == 'a "b" c'
        # The command line goes before the script.
        job = c.hawk("submit", "--array", "7-7", "--env", "GREETING=bye", script, "x").stdout.strip()
        c.hawk("wait", job)
        assert c.hawk("cat", job).stdout == "bye x 7\n"
        # Behind -- it is a command like any other.
        os.chmod(script, 0o755)
        job = c.hawk("submit", "--", script, "y").stdout.strip()
        c.hawk("wait", job)
        assert c.hawk("cat", job).stdout == " y 0\n"
        # One that is not here is no program of that name, unless it says so.
        assert "there is no script nosuch.sh here" in c.hawk("submit", "nosuch.sh", check=2).stderr
        assert f"{c.dir} is a directory: name a command or a script" in c.hawk("submit", c.dir, check=2).stderr
        c.hawk("submit", "--", "nosuch.sh")
        os.mkdir(f"{d}/dir.sh")
        open(f"{d}/empty.sh", "w").close()
        for name, why in (("dir.sh", "is no file"), ("empty.sh", "does not begin with a line like #!/bin/sh")):
            assert why in c.hawk("submit", name, cwd=d, check=2).stderr, name
        # Its id would be lost.
        r = subprocess.run(["sh", "-c", '"$0" submit -- touch "$1" >&-', HAWK, f"{d}/ran"], capture_output=True, text=True,
                           timeout=BOUND, env={**os.environ, "HAWK_DIST": c.dist_addrs[0]})
        assert r.returncode == 1 and "nothing is submitted" in r.stderr, r
        assert "--env A=1" in c.hawk("submit", "--export", "A=1,B", "--", "true", check=2).stderr
        # Without such lines a script is one if its name would start nothing: from here, or because it may not be executed.
        plain = f"{d}/plain.sh"
        with open(plain, "w") as f:
            f.write("#!/bin/sh\necho plain $1 $PWD\n")
        for name, where in (("plain.sh", d), (plain, "/"), ("./plain.sh", d)):
            job = c.hawk("submit", name, "z", cwd=where).stdout.strip()
            c.hawk("wait", job)
            assert (c.hawk("cat", job).stdout, c.job(job)["name"]) == (f"plain z {where}\n", "plain.sh"), name
        with open(plain, "w") as f:
            f.write("#!/bin/sh\n#SBATCH --array=1-3\n")
        assert "plain.sh has #SBATCH lines, which mean nothing here" in c.hawk("submit", "--wait", plain).stderr
        with open(plain, "a") as f:
            f.write("#HAWK --name both\n")
        assert "SBATCH" not in c.hawk("submit", "--wait", plain).stderr
        with open(f"{d}/true", "w") as f:
            f.write("#!/bin/sh\nexit 1\n")
        c.hawk("submit", "--wait", "true", cwd=d)
        for text, said in (("#!/bin/sh\n#HAWK --bogus\n", f"{script}, line 2: no flag '--bogus': `hawk help submit`"),
                           ("#!/bin/sh\n\n#HAWK --name 'x\n", "line 3"),
                           ("#!/bin/sh\n#HAWK --name two parts\n", f"{script}, line 2: 'parts' is no flag"),
                           ("#!/bin/sh\n#HAWK --wait\n#HAWK -- true\n", f"{script}, line 3: 'true' is no flag"),
                           ("#!/bin/sh\n#HAWK --name\n#HAWK --wait\n", f"{script}, line 2: --name needs its argument"),
                           ("#!/bin/sh\r\n#HAWK -n x\r\necho\r\n", f"{script}, line 1: the line ends in CR LF"),
                           ("#!/bin/sh\n\n#HAWK -n x\r\n", f"{script}, line 3: the line ends in CR LF"),
                           ("#!/bin/sh\n# A remark.\necho > out\r\n", rf"as with `sed -i 's/\r$//' {script}`"),
                           ("#HAWK --name x\n", "#!/bin/sh")):
            with open(script, "w", newline="") as f:
                f.write(text)
            said_by = c.hawk("submit", "--wait", script, check=2).stderr
            assert said in said_by, (text, said_by)


def test_a_script_on_standard_input():
    """As sbatch takes it: it is kept with the job, and its own standard input is /dev/null."""
    script = "#!/bin/sh -e\n#HAWK --array 3-4 --env GREETING=hello\necho $GREETING $- $# $1 $2 $HAWK_TASK_INDEX; cat; exec cat /dev/fd/0\n"
    with Cluster(workers=1, slots=2) as c, tempfile.TemporaryDirectory() as d:
        def ran(text, *args, check=0, stderr=""):
            """The job, and what it wrote."""
            r = c.hawk("submit", "--wait", *args, input=text, check=check)
            assert stderr in r.stderr if stderr else not r.stderr, r
            return c.job(r.stdout.split()[0]), c.hawk("cat", r.stdout.split()[0]).stdout

        for args in (), ("-",), ("/dev/stdin",), ("--class", "short"), ("-n", "stdin", "-"):
            job, out = ran(script, *args)
            assert out == "hello e 0 3\nhello e 0 4\n" and job["name"] == "stdin", (args, out)
        job, out = ran(script, "--array", "7-7", "-", "an arg", "--frob")
        assert out == "hello e 2 an arg --frob 7\n", out
        # Each input is an argument, and stands where {} is.
        assert ran("for x; do echo \"<$x>\"; done\n", "--input", "a b", "-n", "each", "-", "x")[1] == "<x>\n<a b>\n"
        assert ran("for x; do echo \"<$x>\"; done\n", "--input", "a b", "-n", "each", "-", "{}", "x")[1] == "<a b>\n<x>\n"
        # The interpreter is that of the first line, with one argument at most.
        assert ran("#! /usr/bin/env  python3 \r\nimport sys\nprint(sys.argv[1:], sys.stdin.read())\n", "-", "x")[1] == "['x'] \n"
        assert ran("#!/usr/bin/env python3\r\n#HAWK -n crlf\r\nprint(7)\r\n")[1] == "7\n"
        assert ran("#!/usr/bin/awk -f\nBEGIN { print \"awk\" }\n")[1] == "awk\n"
        assert ran("#!/bin/echo a  b \n")[1] == "a  b /dev/fd/3\n"
        assert ran("#!\necho shell\n")[1] == ran("echo shell")[1] == "shell\n"
        assert ran("#HAWK --name 'a b'\necho named\n")[0]["name"] == "a b"
        # What stands behind the script is the script's.
        assert ran("#!/bin/sh\ntail -c 3 $0 | od -An -c\nexit\n\0\0x")[1].split() == ["\\0", "\\0", "x"]
        job, _ = ran("exit 3\n", check=1, stderr="exited 3")
        assert job["task_list"][0]["code"] == 3, job
        ran("#!/nonexistent/program\n", check=1, stderr="exited 127")
        ran("#SBATCH --array=1-3\necho\n", stderr="standard input has #SBATCH lines, which mean nothing here")
        ran("echo\n#HAWK --hold\n", stderr="standard input, line 2: this #HAWK line stands below")
        # It is one megabyte at most, together with the rest.
        large = "#" * (1 << 20)
        for text, args, said in ((script, ("--stdin", "/dev/null"), "leave out --stdin"), (script, ("-l", "-", "-"), "leave out -l -"),
                                 ("#HAWK --stdin x\n", ("-",), "leave out --stdin"), ("#HAWK --bogus\n", (), "standard input, line 1: no flag"),
                                 ("#HAWK --app x\n", (), "--app runs no command"), (large, (), "limit"),
                                 (large + "#", (), "more than 1048576 bytes, the limit: submit it as a file"),
                                 ("echo > out\r\n", (), r"line 1: the line ends in CR LF, as on DOS, and a shell takes the CR for a part of the "
                                  r"line: remove it, as with `sed -i 's/\r$//' FILE`"),
                                 ("\0\0script\n", (), "there is a NUL in its first line"), ("", ("-",), "standard input is empty"),
                                 ("", (), "the job has no command"), ("", (), "`hawk submit -` reads a script"),
                                 (script, ("--",), "the job has no command"), ("", ("-l", "-"), "the job has no command")):
            r = c.hawk("submit", *args, input=text, check=2)
            assert said in r.stderr and r.stderr.count("\n") == 1 and not r.stdout, (text[:99], args, r)
        fits = "exit 0\n" + large[:-50_000]
        assert ran(fits)[0]["state"] == "done"
        r = subprocess.run(["sh", "-c", '"$0" submit <&-', HAWK], capture_output=True, text=True, timeout=BOUND)
        assert r.returncode == 2 and "the job has no command" in r.stderr, r
        # Behind -- it is a command like any other, and a file stays a file.
        c.hawk("submit", "--wait", "--", "-", input=script, check=1)
        # A pipe that a shell has made is no file elsewhere.
        for path in ("<(echo)", "/proc/self/fd/9"):
            r = subprocess.run(["bash", "-c", f'exec 9< <(echo); exec "$0" submit {path}', HAWK], capture_output=True, text=True,
                               timeout=BOUND, stdin=subprocess.DEVNULL)
            assert r.returncode == 2 and "is a pipe, which no task can read" in r.stderr and "| hawk submit -`" in r.stderr, r


run_tests(sys.modules[__name__])
