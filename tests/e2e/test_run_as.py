"""Whose commands a worker runs: without the helper its own user's alone, where users are known (worker.run_as)."""
import json
import os
import sys
import tempfile

from hawktest import Daemon, run_tests, wait_for
from tlstest import TlsCluster
from userstest import ANN, UserCluster, others_exist


def uid_of(cluster, job):
    return cluster.hawk("cat", job).stdout.strip()


def test_a_worker_runs_its_own_users_commands_alone():
    if not others_exist():
        return
    with UserCluster(workers=0) as c:
        c.start_worker("w1", flags=("--run-as", "auto"))
        wait_for("its user to be known", lambda: [n["serves"] for n in c.json("nodes")["nodes"] if n["name"] == "w1"] == ["root"])
        for more in ((), ("--class", "long")):
            r = c.as_user(ANN, "submit", "--wait", *more, "--", "id", "-u", check=3)
            assert "the job was not accepted: no worker runs your commands" in r.stderr, r.stderr
            assert "may install hawk-run-as there" in r.stderr and "worker.run_as: any" in r.stderr, r.stderr
            assert uid_of(c, c.hawk("submit", "--wait", *more, "--", "id", "-u").stdout.strip()) == "0"
        assert "w1 runs commands of root alone" in c.hawk("nodes").stdout
        assert "only with hawk-run-as, which is not at " in c.workers[0].text(), c.workers[0].text()
        # Its operator says otherwise for another one, where the job waits for its turn.
        c.start_worker("w2", flags=("--run-as", "any"))
        c.wait_nodes(2)
        for more in ((), ("--class", "long")):
            job = c.as_user(ANN, "submit", "--wait", "--array", "1-20", *more, "--", "true").stdout.strip()
            tasks = json.loads(c.as_user(ANN, "job", job, "--output", "json").stdout)["jobs"][0]["task_list"]
            assert {t["worker_name"] for t in tasks} == {"w2"}, tasks
        c.workers.pop().stop()
        wait_for("it to be gone", lambda: len([n for n in c.json("nodes")["nodes"] if n["role"] == "worker"]) == 1)
        c.as_user(ANN, "submit", "--", "true", check=3)


def test_certificates_name_users_as_well():
    with TlsCluster(workers=0) as c:
        c.start_worker("w1", flags=("--run-as", "auto"))
        wait_for("its user to be known", lambda: [n["serves"] for n in c.json("nodes")["nodes"] if n["name"] == "w1"] != [None])
        r = c.hawk("submit", "--", "true", check=3)
        assert "no worker runs your commands" in r.stderr, r.stderr


def test_a_cluster_in_one_process_as_well():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        up = Daemon("up", "--local-users", "--socket", f"{d}/hawk.sock", "--output-dir", f"{d}/out")
        try:
            addr = up.ready()
            os.chmod(d, 0o755)
            r = UserCluster.as_user(None, ANN, "submit", "--", "true", dist=addr, check=3)
            assert "no worker runs your commands" in r.stderr, r.stderr
            UserCluster.as_user(None, 0, "submit", "--wait", "--", "true", dist=addr)
        finally:
            up.stop()


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
