"""What documents show in `console` blocks is what one sees: the commands run in a shell, section by section, and print the
lines shown. Times, ids of nodes and jobs, and the order of lines may differ; a line `...` stands for any others."""
import collections
import getpass
import os
import re
import shlex
import subprocess
import sys
import tempfile

from hawktest import BOUND, HAWK, Daemon, run_tests, user_environment, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Sections that are about a cluster of daemons; all others have a `hawk up`, unless they start one themselves.
ON_A_CLUSTER = ("Operate", "Tune")


def sections(page):
    """(heading, console blocks) of every section of the second level that has any."""
    with open(f"{ROOT}/{page}", encoding="utf-8") as f:
        for part in re.split(r"^## ", f.read(), flags=re.M)[1:]:
            blocks = re.findall(r"^```console\n(.*?)^```$", part, re.S | re.M)
            if blocks:
                yield part.split("\n")[0], blocks


def steps(block):
    """(command, lines shown after it) of a block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"a console block begins with a command: {block}"
            found[-1][1].append(line)
    return found


def plain(line, directory):
    """Without what differs from run to run."""
    line = line.replace(directory, "DIR")
    line = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "DATE", line)
    line = re.sub(rf"\b{re.escape(getpass.getuser())}\b", "ann", line)
    line = re.sub(r"unix:(\S*/up\.sock|\.\.\.)", "unix:SOCKET", line)
    line = re.sub(r"\b\d+(\.\d+)?(us|ms|s)\b(?= ago| *$)|(?<=  )\d+(\.\d+)?(us|ms|s)\b(?!:)", "TIME", line)
    line = re.sub(r'(_us": )\d+', r"\1TIME", line)
    line = re.sub(r"\(version \d+\)", "(version N)", line)
    line = re.sub(r"\bw[1-9]\b( +\(\d+\))?", "WORKER", line)
    return " ".join(line.split())


def check(where, command, shown, said, directory):
    expected = collections.Counter(plain(x, directory) for x in shown if x.strip() and x.strip() != "...")
    actual = collections.Counter(plain(x, directory) for x in said.splitlines() if x.strip())
    if "..." in (x.strip() for x in shown):
        actual &= expected
    assert actual == expected, f"{where}: $ {command}\nshown:\n" + "\n".join(shown) + f"\nsaid:\n{said}"


def start_cluster(directory, env):
    """The guide's machines as daemons on this one; returns them, and the dists' addresses."""
    daemons = []

    def start(role, name, *flags):
        daemons.append(Daemon(role, "--state-dir", f"{directory}/{role}-{name}", *flags, env=env))
        return daemons[-1].ready()

    central = start("central", "central", "--listen", "127.0.0.1:0")
    dists = [start("dist", n, "--name", f"dist-{n}", "--listen", "127.0.0.1:0", "--central", central) for n in ("head", "node1")]
    for name in ("node1", "node2"):
        start("worker", name, "--name", name, "--central", central, "--slots", "4", "--output-dir", f"{directory}/{name}-out")

    def known():
        r = subprocess.run([HAWK, "nodes", "--dist", dists[0]], capture_output=True, text=True, timeout=BOUND, env=env)
        return r.stdout.count(" up ") == 5

    wait_for("five nodes", known)
    return daemons, ",".join(dists)


def run_section(page, heading, blocks):
    where = f"{page}, {heading}"
    with tempfile.TemporaryDirectory() as d:
        env = {**user_environment(d), "SOURCES": ROOT, "PATH": f"{d}/bin:{os.environ['PATH']}",
               "PYTHONPATH": f"{os.path.dirname(HAWK)}/python"}
        for name in ("HAWK_CONFIG", "HAWK_TOKEN", "HAWK_TOKEN_FILE"):
            env.pop(name, None)
        os.mkdir(f"{d}/bin")
        os.symlink(HAWK, f"{d}/bin/hawk")
        os.symlink("/usr/bin/python3", f"{d}/bin/python3")
        os.mkdir(f"{d}/work")
        daemons = []
        try:
            if heading in ON_A_CLUSTER:
                daemons, env["HAWK_DIST"] = start_cluster(d, env)
            elif not any("hawk up" in b for b in blocks):
                daemons.append(Daemon("up", "--slots", "4", "--output-dir", f"{d}/out", env=env))
                daemons[0].ready()
            for command, shown in (step for block in blocks for step in steps(block)):
                if command.endswith(" &"):
                    argv = shlex.split(command[:-2])
                    assert argv[:2] == ["hawk", "up"], command
                    daemons.append(Daemon(*argv[1:], "--output-dir", f"{d}/out", env=env))
                    said = f"ready up {daemons[-1].ready()}\n"
                else:
                    said = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, timeout=2 * BOUND, cwd=f"{d}/work", env=env,
                                          check=False).stdout
                check(where, command, shown, said, d)
        finally:
            for daemon in reversed(daemons):
                daemon.stop()


def run_page(page):
    number = 0
    for heading, blocks in sections(page):
        run_section(page, heading, blocks)
        number += sum(len(steps(b)) for b in blocks)
    assert number, f"{page} shows no command"
    print(f"{page}: {number} commands", flush=True)


def test_readme():
    run_page("README.md")


def test_guide():
    run_page("docs/guide.md")


def test_python_users():
    run_page("docs/python.md")


def test_slurm_users():
    run_page("docs/slurm.md")


def test_parallel_users():
    run_page("docs/parallel.md")


def test_operating():
    run_page("docs/operating.md")


def test_configuration():
    run_page("docs/reference/configuration.md")


def test_commands():
    run_page("docs/reference/commands.md")


def test_api():
    run_page("docs/reference/api.md")


def test_every_command_has_a_row():
    listed = subprocess.run([HAWK, "help"], capture_output=True, text=True, check=True).stdout
    with open(f"{ROOT}/docs/reference/commands.md", encoding="utf-8") as f:
        rows = re.findall(r"^\| `hawk ([a-z]+)", f.read(), re.M)
    assert set(re.findall(r"^  ([a-z]+)  ", listed, re.M)) == set(rows), rows


run_tests(sys.modules[__name__])
