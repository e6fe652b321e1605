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
        assert "a script is read from a file" in c.hawk("submit", "-", check=2).stderr
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
                           ("#HAWK --name x\n", "#!/bin/sh")):
            with open(script, "w") as f:
                f.write(text)
            said_by = c.hawk("submit", "--wait", script, check=2).stderr
            assert said in said_by, (text, said_by)


run_tests(sys.modules[__name__])
