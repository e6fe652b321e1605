"""What others on the machines, and other users of the cluster, can read of a job: its output, its environment."""
# make test-all
import contextlib
import grp
import os
import shutil
import stat
import subprocess
import sys
import tempfile

import grpc

import etcdtest
from grpctest import BOUND, Caller, generated, pb
from hawktest import HAWK, Cluster, Daemon, run_hawk, run_tests, user_environment, wait_for


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def modes_below(path):
    """Of directories and of files: the set of each."""
    dirs, files = set(), set()
    for root, _, names in os.walk(path):
        dirs.add(mode(root))
        files.update(mode(f"{root}/{n}") for n in names)
    return dirs, files


def submit_with(mask, cluster, *args):
    """A job of somebody with this umask."""
    r = subprocess.run([HAWK, "submit", "--wait", *args], umask=mask, capture_output=True, text=True,
                       env={**os.environ, "HAWK_DIST": cluster.dist_addrs[0]})
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_output_is_its_workers_alone():
    # Whatever the daemons' own umask is.
    for mask in (0o000, 0o077):
        with umask(mask), Cluster(workers=1) as c:
            job = submit_with(0o022, c, "--array", "1-3", "--", "echo", "{}")
            assert modes_below(f"{c.dir}/out-w1") == ({0o700}, {0o600}), modes_below(f"{c.dir}/out-w1")
            assert c.hawk("cat", job).stdout == "1\n2\n3\n"
            # The worker's next life closes what an earlier version left open.
            for path in (f"{c.dir}/out-w1", f"{c.dir}/out-w1/{job}"):
                os.chmod(path, 0o755)
            c.workers.pop().stop()
            c.start_worker("w1")
            assert mode(f"{c.dir}/out-w1") == 0o700
            # In one that holds other things, too, the output is closed, and nothing else.
            os.chmod(f"{c.dir}/out-w1", 0o755)
            os.mkdir(f"{c.dir}/out-w1/other", 0o755)
            os.chmod(f"{c.dir}/out-w1/other", 0o755)
            c.workers.pop().stop()
            w = c.start_worker("w1")
            assert [mode(f"{c.dir}/out-w1/{name}") for name in ("", "other", job)] == [0o755, 0o755, 0o700]
            assert "holds other things, as other" in w.text(), w.text()


def test_a_group_may_read_it():
    name = grp.getgrgid(os.getgid()).gr_name
    with Cluster(workers=1, worker=("--output-group", name)) as c:
        job = submit_with(0o077, c, "--", "echo", "hi")
        out = f"{c.dir}/out-w1"
        assert modes_below(out) == ({0o2750}, {0o640}), modes_below(out)
        assert {os.stat(f"{out}/{job}/{n}").st_gid for n in os.listdir(f"{out}/{job}")} == {os.getgid()}
        assert c.hawk("cat", job).stdout == "hi\n"
        # Its tasks have their submitter's umask all the same.
        assert c.hawk("cat", submit_with(0o077, c, "--", "sh", "-c", "umask")).stdout == "0077\n"
    w = Daemon("worker", "--output-group", "no-such-group", "--output-dir", "/nonexistent/out")
    assert w.wait() == 1 and "there is no group no-such-group here" in w.text(), w.text()


def test_named_files_follow_their_submitters_umask():
    with umask(0o077), Cluster(workers=1) as c:
        for mask, file, dir in ((0o022, 0o644, 0o755), (0o007, 0o660, 0o770), (0o000, 0o666, 0o777), (0o077, 0o600, 0o700)):
            at = f"{c.dir}/named{mask}"
            job = submit_with(mask, c, "--stdout", f"{at}/%t", "--", "sh", "-c", f"umask; touch {at}/made")
            assert (mode(f"{at}/0"), mode(at), mode(f"{at}/made")) == (file, dir, file), oct(mask)
            assert c.hawk("cat", job).stdout == f"{mask:04o}\n"


def test_output_of_hawk_up():
    with tempfile.TemporaryDirectory() as d:
        env = user_environment(d)
        up = Daemon("up", "--slots", "1", "--output-dir", f"{d}/out", env=env)
        up.ready()
        job = run_hawk(env, "submit", "--wait", "--", "echo", "hi").stdout.strip()
        assert modes_below(f"{d}/out") == ({0o700}, {0o600}), modes_below(f"{d}/out")
        assert run_hawk(env, "cat", job).stdout == "hi\n"
        assert up.stop() == 0, up.text()


def test_every_unit_sets_a_umask():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for name in os.listdir(f"{root}/systemd"):
        if name.endswith(".service"):
            assert "\nUMask=0077\n" in open(f"{root}/systemd/{name}").read(), name


SECRET = "s3cret-7c9d1b"


def holds_secret(dir):
    """The files below it that do."""
    found = []
    for root, _, names in os.walk(dir):
        for name in names:
            if not os.path.isfile(f"{root}/{name}"):
                continue  # a socket
            with contextlib.suppress(FileNotFoundError), open(f"{root}/{name}", "rb") as f:
                if SECRET.encode() in f.read():
                    found.append(f"{root}/{name}")
    return found


def test_an_environment_is_gone_with_its_job():
    env = {"API_KEY": SECRET}
    gate = tempfile.mkdtemp()
    with Cluster(workers=2, slots=2, central=("--short-partition", "0%")) as c:  # neither waits for the other
        wait_for_gate = f"until [ -e {gate}/open ]; do sleep 0.1; done; printf %s $API_KEY | wc -c"
        jobs = [c.hawk("submit", *flags, "--env", "API_KEY", "--", "sh", "-c", wait_for_gate, env=env).stdout.strip()
                for flags in (("--class", "short"), ("--class", "long"))]
        for job in jobs:
            wait_for("it to run", lambda j=job: c.job(j)["running"] == 1)
        # While they run, those who may need it again have it, and nobody else.
        assert holds_secret(f"{c.dir}/d1") and holds_secret(f"{c.dir}/central")
        for job in jobs:
            for command in ("job", "explain", "jobs"):
                assert SECRET not in c.hawk(command, *([job] if command != "jobs" else []), "--output", "json").stdout
        # A dist that comes back runs on with it.
        c.dists.pop().kill()
        c.dist_addrs.clear()
        c.start_dist("d1")
        for job in jobs:
            wait_for("the dist to know it again", lambda j=job: c.job(j)["running"] == 1)
        open(f"{gate}/open", "w").close()
        for job in jobs:
            c.hawk("wait", job)
            assert c.hawk("cat", job).stdout == f"{len(SECRET)}\n"
        left = lambda: holds_secret(f"{c.dir}/d1") + holds_secret(f"{c.dir}/central")
        wait_for("the journals to be without it", lambda: not left() or None)
        # Nor does it come back, and the jobs are still known.
        c.dists.pop().kill()
        c.dist_addrs.clear()
        c.start_dist("d1")
        assert not left() and c.job(jobs[0])["state"] == "done" and c.job(jobs[1])["state"] == "done"
    shutil.rmtree(gate)


def test_a_cancelled_jobs_environment_is_gone_too():
    with Cluster(workers=1) as c:
        job = c.hawk("submit", "--array", "1-50", "--env", "API_KEY", "--", "sleep", "600", env={"API_KEY": SECRET}).stdout.strip()
        wait_for("it to run", lambda: c.job(job)["running"] == 1)
        assert holds_secret(f"{c.dir}/d1")
        c.hawk("cancel", job)
        c.hawk("wait", job, check=1)
        wait_for("the journal to be without it", lambda: not holds_secret(f"{c.dir}/d1") or None)


def test_an_environment_is_gone_from_etcd_too():
    etcd = generated("etcd")
    with etcdtest.Cluster(workers=2, central=("--short-partition", "0%")) as c, \
            grpc.insecure_channel(c.etcd.addr) as channel:
        read = channel.unary_unary("/etcdserverpb.KV/Range", request_serializer=etcd.RangeRequest.SerializeToString,
                                   response_deserializer=etcd.RangeResponse.FromString)

        def everything(revision=0):
            reply = read(etcd.RangeRequest(key=b"\0", range_end=b"\0", revision=revision), timeout=BOUND)
            return any(SECRET.encode() in kv.value for kv in reply.kvs), reply.header.revision

        job = c.hawk("submit", "--class", "long", "--env", "API_KEY", "--", "sleep", "600", env={"API_KEY": SECRET}).stdout.strip()
        wait_for("it to run", lambda: c.job(job)["running"] == 1)
        there, revision = everything()
        assert there
        c.hawk("cancel", job)
        c.hawk("wait", job, check=1)
        wait_for("the keys to be without it", lambda: not everything()[0])

        def compacted():
            try:
                return not everything(revision)
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.OUT_OF_RANGE and "compacted" in e.details(), e
                return True
        wait_for("what the keys were to be compacted", compacted)


def test_the_api_returns_neither_environment_nor_input():
    with Cluster(workers=1) as c:
        with open(f"{c.dir}/input", "w") as f:
            f.write(SECRET)
        job = c.hawk("submit", "--stdin", f"{c.dir}/input", "--env", "API_KEY", "--", "sleep", "600",
                     env={"API_KEY": SECRET}).stdout.strip()
        reply = Caller(c.dist_addrs[0])("GetJob", pb.GetJobRequest(job=job, spec=True), pb.GetJobReply)
        assert list(reply.spec.argv) == [b"sleep", b"600"] and SECRET not in str(reply), reply
        c.hawk("cancel", job)


run_tests(sys.modules[__name__])
