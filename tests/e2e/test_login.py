"""Users' credentials: who keeps the user root makes them, users take them, and commands find them by themselves."""
# make test-all
import base64
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hawktest import BOUND, HAWK, Daemon, dropped, run_tests, wait_for
from tlstest import Roots, TlsCluster
from userstest import ANN, BOB, others_exist

ALL = "read,submit,operate,admin"


class LoginCluster(TlsCluster):
    """Users are known to it by what `hawk user add` has made."""

    def user(self, *args, check=0):
        r = subprocess.run([HAWK, "user", *args, "--ca", self.ca.dir], capture_output=True, text=True, timeout=BOUND,
                           cwd=self.dir)
        assert r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
        return r.stderr if check else r.stdout

    def users(self):
        return {u["user"]: u for u in json.loads(self.user("list", "-o", "json"))["users"]}

    def clean(self, name, **more):
        """The environment of somebody who has nothing but a home."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HAWK_", "XDG_"))}
        return {**env, "HOME": f"{self.dir}/home-{name}", **more}

    def as_login(self, name, *args, check=0, input=None, **more):
        r = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, env=self.clean(name, **more),
                           input=input, cwd=self.dir)
        assert check is None or r.returncode == check, (args, r.returncode, r.stdout, r.stderr)
        return r

    def log_in(self, name, uid, *more):
        self.user("add", name, "--uid", str(uid), "--dist", self.dist_addrs[0], "--out", f"{self.dir}/{name}.credential",
                  *more)
        return self.as_login(name, "login", f"{self.dir}/{name}.credential").stdout


def test_a_user_logs_in_and_needs_no_flags():
    with LoginCluster(workers=1) as c:
        assert "not logged in" in c.as_login("ann", "login", check=1).stderr
        said = c.log_in("ann", 1001)
        assert "ann (uid 1001; scopes read,submit), until " in said and "home-ann/.config/hawk" in said, said
        place = f"{c.dir}/home-ann/.config/hawk"
        assert os.stat(place).st_mode & 0o777 == 0o700
        for name in ("user.crt", "user.key", "roots.crt", "dist"):
            assert os.stat(f"{place}/{name}").st_mode & 0o777 == 0o600, name
        assert os.stat(f"{c.dir}/ann.credential").st_mode & 0o777 == 0o600
        job = c.as_login("ann", "submit", "--wait", "--", "true").stdout.strip()
        assert c.json("job", job)["jobs"][0]["user"] == "ann"
        r = c.as_login("ann", "drain", "w1", check=3)
        assert "you are ann (uid 1001, by certificate; scopes read,submit): /hawk.v1.Hawk/Drain needs" in r.stderr, r.stderr
        assert c.as_login("ann", "login").stdout == said
        # By standard input, into a directory of one's choice; and gone again.
        with open(f"{c.dir}/ann.credential", encoding="ascii") as f:
            text = f.read()
        c.as_login("bob", "login", "-", input=text, HAWK_LOGIN=f"{c.dir}/elsewhere")
        c.as_login("bob", "nodes", HAWK_LOGIN=f"{c.dir}/elsewhere")
        c.as_login("bob", "logout", HAWK_LOGIN=f"{c.dir}/elsewhere")
        assert os.listdir(f"{c.dir}/elsewhere") == []
        assert "no cluster found" in c.as_login("bob", "nodes", HAWK_LOGIN=f"{c.dir}/elsewhere", check=3).stderr
        assert "no cluster found" in c.as_login("ann", "nodes", HAWK_LOGIN="none", check=3).stderr
        assert "HAWK_LOGIN=none: commands use no credential" in c.as_login("ann", "login", HAWK_LOGIN="none", check=1).stderr
        # Certificates of `hawk ca issue` name no uid.
        shutil.copy(f"{c.ca.dir}/{c.ca.issue('user', 'eve')}.crt", f"{place}/user.crt")
        assert "eve (no uid; scopes " in c.as_login("ann", "login").stdout


def test_a_login_that_is_named_goes_before_a_cluster_that_runs_here():
    with LoginCluster(workers=1) as c:
        c.log_in("ann", 1001)
        named = {"HAWK_LOGIN": f"{c.dir}/home-ann/.config/hawk", "XDG_RUNTIME_DIR": f"{c.dir}/run", "ODD": "odd"}
        here = {**named, "HAWK_LOGIN": ""}
        os.makedirs(f"{c.dir}/run/hawk")
        up = Daemon("up", "--slots", "1", "--socket", f"{c.dir}/run/hawk/up.sock", "--output-dir", f"{c.dir}/run/out",
                    env=c.clean("ann", **here))
        try:
            up.ready()
            assert c.dist_addrs[0] in c.as_login("ann", "nodes", **named).stdout
            assert c.as_login("ann", "exec", "--", "printenv", "HAWK_WORKER", **named).stdout == "w1\n"
            # A cluster's tasks do not have all variables.
            c.as_login("ann", "submit", "--wait", "--", "printenv", "ODD", check=1, **named)
            # His login alone does not: `hawk up` was started to be used.
            assert c.dist_addrs[0] not in c.as_login("ann", "nodes", **here).stdout
            c.as_login("ann", "submit", "--wait", "--", "printenv", "ODD", **here)
            c.as_login("ann", "submit", "--wait", "--", "printenv", "ODD", **{**named, "HAWK_LOGIN": "none"})
            for taken in ([], [f"{c.dir}/ann.credential"]):
                said = c.as_login("ann", "login", *taken, **here).stderr
                assert f"run/hawk/up.sock goes before it: HAWK_LOGIN={named['HAWK_LOGIN']} names" in said, said
                document = json.loads(c.as_login("ann", "login", "-o", "json", *taken, **here).stdout)
                assert "goes before it" in document["warnings"][0]["message"] and document["user"] == "ann", document
                assert c.as_login("ann", "login", *taken, **named).stderr == ""
            # One that is named and not there is no reason to use another.
            r = c.as_login("ann", "nodes", check=3, **{**named, "HAWK_LOGIN": f"{c.dir}/nowhere"})
            assert f"HAWK_LOGIN names {c.dir}/nowhere, where no credential is" in r.stderr, r.stderr
        finally:
            up.stop()


def test_users_are_listed_renewed_and_revoked():
    with LoginCluster(workers=1) as c:
        assert c.users() == {}
        c.log_in("ann", 1001)
        c.log_in("olga", 1002, "--scopes", ALL, "--for", "2h")
        assert {n: (u["uid"], u["scopes"], u["state"]) for n, u in c.users().items()} == {
            "ann": (1001, "read,submit", "good"), "olga": (1002, ALL, "good")}
        assert "olga" in c.user("list")
        before = c.users()["olga"]["until"]
        c.log_in("olga", 1002)  # keeps her scopes
        assert c.users()["olga"]["scopes"] == ALL and c.users()["olga"]["until"] > before
        assert "uid 1001 is ann's already" in c.user("add", "eve", "--uid", "1001", check=2)
        assert "ann has uid 1001" in c.user("add", "ann", "--uid", "1009", check=2)
        assert "no account is called nosuch" in c.user("add", "nosuch", check=2)
        for wrong in (("a/b", "--uid", "7"), ("eve", "--uid", "65534"), ("eve", "--uid", "x"), ("eve", "--uid", "7", "--scopes", "fly"),
                      ("eve", "--uid", "7", "--for", "1ms"), ("eve", "--uid", "7", "--dist", "nowhere")):
            c.user("add", *wrong, check=2)
        assert "has been given no credential" in c.user("revoke", "eve", check=2)
        assert set(c.users()) == {"ann", "olga"}
        c.user("revoke", "ann")
        with open(f"{c.ca.dir}/audit.log", encoding="utf-8") as f:
            said = [line.rstrip().split(": ", 1) for line in f]
        assert all(re.fullmatch(rf"\d{{4}}-[-:T\d]+Z .* \(uid {os.getuid()}\b.*\)", who) for who, _ in said), said
        assert [re.sub(r", (until|version) .*", "", what) for _, what in said][-4:] == [
            "added user ann (uid 1001; scopes read,submit)", f"added user olga (uid 1002; scopes {ALL})",
            f"added user olga (uid 1002; scopes {ALL})", "revoked user ann"], said
        assert c.users()["ann"]["state"] == "revoked" and c.users()["olga"]["state"] == "good"
        # Central has no --ca here: its operator copies the list.
        with open(f"{c.ca.dir}/denied", encoding="ascii") as f:
            text = f.read()
        with open(f"{c.dir}/central/denied", "w", encoding="ascii") as f:
            f.write(text)
        wait_for("ann to be out", lambda: c.as_login("ann", "nodes", check=None).returncode == 3, bound=10)
        c.as_login("olga", "nodes")
        c.log_in("ann", 1001)
        c.as_login("ann", "nodes")
        assert c.users()["ann"]["state"] == "good"


def test_the_user_root_revokes_alone():
    """Where the node root is elsewhere."""
    ca = Roots()
    os.rename(f"{ca.dir}/nodes", f"{ca.dir}-nodes")
    try:
        subprocess.run([HAWK, "user", "add", "ann", "--uid", "1001", "--ca", ca.dir, "--out", f"{ca.dir}/ann"], check=True)
        subprocess.run([HAWK, "user", "revoke", "ann", "--ca", ca.dir], check=True)
        r = subprocess.run([HAWK, "ca", "revoke", ca.dir, "--role", "worker", "--name", "w1"], capture_output=True, text=True)
        assert r.returncode == 1 and "nodes/root.crt" in r.stderr, r
    finally:
        os.rename(f"{ca.dir}-nodes", f"{ca.dir}/nodes")
    ca.issue("worker", "w1")
    r = subprocess.run([HAWK, "ca", "revoke", ca.dir, "--role", "worker", "--name", "w1"], capture_output=True, text=True)
    assert r.returncode == 0 and "version 2" in r.stdout, r
    assert "ann.user.hawk" in ca.read("denied").decode()


def test_revocations_at_once_are_all_kept():
    r = Roots()
    names = [f"n{i}" for i in range(24)]
    running = [subprocess.Popen([HAWK, "ca", "revoke", r.dir, "--yes", "--role", "worker", "--name", name],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for name in names]
    for p in running:
        assert (p.communicate(timeout=BOUND)[1], p.returncode) == ("", 0)
    text = r.read("denied").decode()
    assert text.startswith("hawk denied 1\nversion: 24\n"), text
    assert [name for name in names if f"\n{name}.worker.hawk " not in text] == []


def test_what_is_not_on_record_is_said_with_the_reason():
    r = Roots()
    with open(f"{r.dir}/audit.log", "w", encoding="ascii") as f:
        f.write("x" * 1019 + "\n")
    # As on a full disk, a part of the line finds room.
    p = subprocess.run([sys.executable, "-c", "import os, resource, sys\n"
                        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))\n"
                        "os.execv(sys.argv[1], sys.argv[1:])",  # Python ignores SIGXFSZ
                        HAWK, "ca", "revoke", r.dir, "--yes", "--role", "worker", "--name", "n1"],
                       capture_output=True, text=True, timeout=BOUND, check=True)
    assert f"{r.dir}/audit.log: this is not on record: File too large" in p.stderr, p.stderr


def test_what_is_too_long_is_refused_before_anything_is_written():
    r = Roots()
    roots = r.read("roots.crt")

    def fails(*args, code=1):
        p = subprocess.run([HAWK, *args], capture_output=True, text=True, timeout=BOUND, check=False)
        assert (p.returncode, p.stdout) == (code, ""), (p.returncode, p.stdout, p.stderr)
        return p.stderr
    add = ("user", "add", "ann", "--ca", r.dir, "--uid", "1001", "--out")
    assert "--out is too long" in fails(*add, "x" * 4300, code=2)
    with open(r.roots, "wb") as f:
        f.write(roots * (64 * 1024 // len(roots)))
    remedy = "keep only the roots there that certificates are still of"
    said = fails(*add, f"{r.dir}/ann")
    assert f"{r.roots}: it is too large for a credential (54 KiB): {remedy}" in said, said
    with open(r.roots, "wb") as f:
        f.write(roots * (16 * 1024 // len(roots)))
    said = fails("ca", "invite", r.dir, "--role", "worker", "--name", "n1", "--out", r.dir)
    assert f"{r.roots}: it is too large for an invitation (13 KiB): {remedy}" in said, said
    assert sorted(os.listdir(r.dir)) == ["audit.log", "nodes", "roots.crt", "users"]
    assert not os.path.exists(f"{r.dir}/users/list")
    subprocess.run([HAWK, *add, f"{r.dir}/ann"], check=True, capture_output=True, timeout=BOUND)


def test_a_name_that_no_certificate_was_made_for():
    """A typo is no revocation."""
    ca = Roots()

    def revoke(role, name, code, *more):
        r = subprocess.run([HAWK, "ca", "revoke", ca.dir, "--role", role, "--name", name, *more], capture_output=True, text=True)
        assert r.returncode == code and ("good no more" in r.stdout) == (code == 0), (role, name, r)
        return r.stderr

    ca.issue("worker", "w9")
    ca.issue("user", "bob")
    ca.user("ann", 1001)
    ca.run("invite", ca.dir, "--role", "worker", "--name", "hpc-*", "--out", ca.dir)
    for role, name in (("worker", "w99"), ("dist", "w9"), ("worker", "hpc-"), ("user", "bo"), ("user", "annn"), ("user", "w9")):
        assert f"{ca.dir}/audit.log has no certificate and no invitation of {name}.{role}.hawk" in revoke(role, name, 2)
    assert not os.path.exists(f"{ca.dir}/denied")
    for role, name in (("worker", "w9"), ("user", "bob"), ("user", "ann"), ("worker", "hpc-7")):
        assert revoke(role, name, 0) == ""
    assert revoke("worker", "w99", 0, "--yes") == ""
    # Central makes its own certificate, users' are recorded where their root is, and here is no record at all.
    assert "not on record" in revoke("central", "head", 0)
    os.remove(f"{ca.dir}/users/root.key")
    assert "not on record" in revoke("user", "eve", 0)
    os.remove(f"{ca.dir}/audit.log")
    assert "not on record" in revoke("worker", "w98", 0)


def test_an_expired_login_says_so():
    with LoginCluster(workers=1) as c:
        c.log_in("ann", 1001, "--for", "1s")
        wait_for("it to expire", lambda: c.as_login("ann", "login", check=None).returncode == 1)
        r = c.as_login("ann", "nodes", check=3)
        assert "your certificate has expired" in r.stderr and "hawk user add" in r.stderr, r.stderr
        assert c.users()["ann"]["state"] == "expired"


def test_a_clock_that_is_behind_is_named():
    """A certificate that is good from an hour on is what a machine sees whose clock is an hour behind."""
    with LoginCluster(workers=1) as c:
        c.log_in("ann", 1001)
        path = f"{c.dir}/home-ann/.config/hawk/user.crt"
        with open(path, "rb") as f, open(f"{c.ca.dir}/users/root.key", "rb") as key:
            old, signer = x509.load_pem_x509_certificate(f.read()), serialization.load_pem_private_key(key.read(), None)
        new = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number,
                                      old.not_valid_before + datetime.timedelta(hours=1), old.not_valid_after)
        for e in old.extensions:
            new = new.add_extension(e.value, e.critical)
        with open(path, "wb") as f:
            f.write(new.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        said = c.as_login("ann", "nodes", check=3).stderr
        assert "your certificate is not good yet: the clock of this machine is behind" in said, said


def test_what_is_no_credential():
    with LoginCluster(workers=0) as c:
        c.log_in("ann", 1001)
        c.log_in("bob", 1002)
        text = {}
        for name in ("ann", "bob"):
            with open(f"{c.dir}/{name}.credential", encoding="ascii") as f:
                text[name] = f.read()
        key = {n: t[t.index("-----BEGIN PRIVATE"):t.index("-----END PRIVATE")] for n, t in text.items()}
        other = Roots().read("roots.crt").decode()
        end = text["ann"].index("-----END PRIVATE KEY-----") + len("-----END PRIVATE KEY-----\n")
        for wrong, why in ((text["ann"].replace(key["ann"], key["bob"]), "a key that is not its certificate's"),
                           (text["ann"][:end] + other, "its roots have not signed"), (text["ann"][:end], "not whole"),
                           ("", "not whole"), (text["ann"][:100], "not whole"),
                           (text["ann"].replace("credential 1", "credential 2"), "not whole")):
            assert why in c.as_login("eve", "login", "-", input=wrong, check=2).stderr, why
        assert not os.path.exists(f"{c.dir}/home-eve")


def files_below(*places):
    for place in places:
        for root, _, names in os.walk(place):
            yield from (f"{root}/{name}" for name in names if os.path.isfile(f"{root}/{name}"))


def test_the_key_is_nowhere_else():
    with LoginCluster(workers=1) as c:
        c.log_in("ann", 1001)
        with open(f"{c.dir}/home-ann/.config/hawk/user.key", encoding="ascii") as f:
            secret = f.read().splitlines()[1]
        os.remove(f"{c.dir}/ann.credential")
        said = [c.user("list", "-o", "json"), c.user("list"), c.as_login("ann", "login", "-o", "json").stdout]
        job = c.as_login("ann", "submit", "--export", "ALL", "--", "sh", "-c", "env; cat /proc/$$/cmdline; sleep 600").stdout.strip()
        wait_for("it to write", lambda: "HOME=" in c.as_login("ann", "cat", job, check=None).stdout)
        said += [c.as_login("ann", *args).stdout for args in (("cat", job), ("job", job, "-o", "json"), ("explain", job),
                                                              ("nodes", "-o", "json"))]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as f:
                        said.append(f.read().decode(errors="replace"))
                except OSError:
                    pass
        said += [d.text() for d in (c.central, *c.dists, *c.workers)]
        for path in files_below(c.dir, c.ca.dir):
            if path.endswith("home-ann/.config/hawk/user.key"):
                continue
            with open(path, "rb") as f:
                said.append(f.read().decode(errors="replace"))
        assert not any(secret in text for text in said)
        c.as_login("ann", "cancel", job)


def add_revoked(ca, until_s):
    """What `hawk user add ann` says where she was revoked at that time."""
    text = f"hawk denied 1\nversion: 1\nann.user.hawk {until_s}\n"
    key = serialization.load_pem_private_key(ca.read("users/root.key"), None)
    signature = base64.b64encode(key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))).decode()
    with open(f"{ca.dir}/denied", "w", encoding="ascii") as f:
        f.write(f"{text}signature: {signature}\n")
    return subprocess.run([HAWK, "user", "add", "ann", "--uid", "1001", "--ca", ca.dir, "--out", f"{ca.dir}/ann"],
                          capture_output=True, text=True, timeout=BOUND)


def test_a_revocation_of_a_time_to_come_is_said():
    """The clock was ahead: nobody waits until it is that late, least of all for the list of users."""
    ca = Roots()
    r = add_revoked(ca, int(time.time()) + 3600)
    assert r.returncode == 1 and "ann: was revoked at a time that is yet to come" in r.stderr, r
    assert not os.path.exists(f"{ca.dir}/ann")
    # Who was revoked this very second waits for the next one.
    r = add_revoked(ca, int(time.time()) + 1)
    assert r.returncode == 0, r
    assert "ann (uid 1001; scopes read,submit), until " in r.stdout and os.path.exists(f"{ca.dir}/ann"), r
    r = subprocess.run([HAWK, "user", "list", "--ca", ca.dir, "-o", "json"], capture_output=True, text=True,
                       timeout=BOUND)
    assert [u["state"] for u in json.loads(r.stdout)["users"]] == ["good"], r


def with_accounts(passwd, *args, uid=None, start=subprocess.run, **more):
    """Runs a command where the system's accounts are those of a file."""
    if start is subprocess.run:
        more = {"capture_output": True, "timeout": BOUND, **more}
    return start(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd; exec "$@"', passwd, *dropped(uid), *args],
                 text=True, cwd="/", env={k: v for k, v in os.environ.items() if not k.startswith(("HAWK_", "XDG_", "HOME"))},
                 **more)


def test_root_puts_credentials_into_homes():
    if not others_exist():
        return
    with tempfile.TemporaryDirectory() as d:
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            print("skipped: no mounts")
            return
        os.chmod(d, 0o755)
        with open(f"{d}/passwd", "w", encoding="ascii") as f:
            f.write(f"root:x:0:0::/root:/bin/sh\nann:x:{ANN}:{ANN}::{d}/ann:/bin/sh\n"
                    f"bob:x:{BOB}:{BOB}::{d}/bob:/bin/sh\neve:x:{BOB + 1}:{BOB + 1}::{d}/eve:/bin/sh\n")
        for name, uid in (("ann", ANN), ("bob", BOB), ("eve", BOB + 1)):
            os.mkdir(f"{d}/{name}", 0o700)
            os.chown(f"{d}/{name}", uid, uid)
        ca = Roots()
        r = with_accounts(f"{d}/passwd", HAWK, "user", "add", "ann", "--ca", ca.dir)
        assert r.returncode == 0 and f"ann (uid {ANN}; scopes read,submit)" in r.stdout and f"{d}/ann/.config/hawk" in r.stdout, r
        for name in ("user.crt", "user.key"):
            st = os.stat(f"{d}/ann/.config/hawk/{name}")
            assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (ANN, ANN, 0o600)
        # Her own commands find it, without HOME as well.
        r = with_accounts(f"{d}/passwd", HAWK, "login", uid=ANN)
        assert r.returncode == 0 and r.stdout.startswith(f"ann (uid {ANN}"), r
        # Who has that name here, and not that uid, is somebody else.
        r = with_accounts(f"{d}/passwd", "sh", "-c", 'cd "$0"; exec "$@"', d, HAWK, "user", "add", "eve",
                          "--uid", str(BOB + 2), "--ca", ca.dir)
        assert r.returncode == 0 and ": eve.credential, a secret, is for" in r.stdout, r
        assert os.stat(f"{d}/eve.credential").st_uid == 0 and os.listdir(f"{d}/eve") == []
        # A home that leads to what only root may write is no way in.
        os.mkdir(f"{d}/roots", 0o700)
        os.mkdir(f"{d}/bob/.config")
        os.chown(f"{d}/bob/.config", BOB, BOB)
        os.symlink(f"{d}/roots", f"{d}/bob/.config/hawk")
        r = with_accounts(f"{d}/passwd", HAWK, "user", "add", "bob", "--ca", ca.dir)
        assert r.returncode == 1 and "Permission denied" in r.stderr, r
        assert os.listdir(f"{d}/roots") == []
        who_stops_what_puts_it_there(d, ca)


STOPPER = """
import os, signal, sys
for parent in map(int, sys.stdin):
    child = 0
    while not child and ") Z" not in open(f"/proc/{parent}/stat").read():
        try:
            child = int(open(f"/proc/{parent}/task/{parent}/children").read().split()[0])
            os.kill(child, signal.SIGSTOP)
        except (OSError, IndexError):
            child = 0
    print(child, flush=True)
    if child:
        sys.stdin.read()
        os.kill(child, signal.SIGKILL)
"""


def who_stops_what_puts_it_there(d, ca):
    """What runs as a user is that user's to stop: then his operator's command ends, and others never wait for it."""
    def hawk(*args):
        return with_accounts(f"{d}/passwd", HAWK, "user", *args, "--ca", ca.dir)
    stopper = with_accounts(f"{d}/passwd", sys.executable, "-c", STOPPER, uid=BOB, start=subprocess.Popen,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stopped = 0
    os.unlink(f"{d}/bob/.config/hawk")
    try:
        while not stopped:  # it may be faster
            add = with_accounts(f"{d}/passwd", HAWK, "user", "add", "bob", "--ca", ca.dir, start=subprocess.Popen,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            print(add.pid, file=stopper.stdin, flush=True)
            stopped = int(stopper.stdout.readline())
            if not stopped:
                add.communicate(timeout=BOUND)
        assert hawk("add", "ann").returncode == 0
        assert hawk("revoke", "bob").returncode == 0
        said = add.communicate(timeout=BOUND)[1]
        assert add.returncode == 1 and "could not be put there" in said, said
    finally:
        stopper.stdin.close()
        stopper.wait()
        add.kill()


run_tests(sys.modules[__name__])
