"""What tests of hawk-run-as share: a machine with accounts of its own (a mount namespace), and the helper, installed setuid
root in a directory of the test's and built for a configuration that lies beside it."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HAWK_USER, ANN, BOB, LOW, LAB = 61100, 61001, 61002, 901, 61201
ACCOUNTS = {"hawk": HAWK_USER, "ann": ANN, "bob": BOB, "low": LOW, "toor": 0}


def enter_machine():
    """Goes on in a machine whose accounts are those above. Ends the test where none can be made."""
    if os.environ.get("HAWK_TEST_MACHINE"):
        return os.environ["HAWK_TEST_MACHINE"]
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        print("skipped: no machine can be made here\n# tests 0")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="hawk-run-as-") as d:
        os.chmod(d, 0o755)
        for name in ("passwd", "group"):
            shutil.copy(f"/etc/{name}", f"{d}/{name}")
        with open(f"{d}/passwd", "a", encoding="ascii") as f:
            f.writelines(f"{user}:x:{uid}:{uid or 1}::{d}/{user}:/bin/sh\n" for user, uid in ACCOUNTS.items())
        with open(f"{d}/group", "a", encoding="ascii") as f:
            f.writelines(f"{user}:x:{uid}:\n" for user, uid in ACCOUNTS.items() if uid)
            f.write(f"lab:x:{LAB}:ann\n")
        for user, uid in ACCOUNTS.items():
            os.mkdir(f"{d}/{user}", 0o700)
            os.chown(f"{d}/{user}", uid, uid)
        script = f"mount --bind {d}/passwd /etc/passwd; mount --bind {d}/group /etc/group; exec \"$@\""
        code = subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", sys.executable, *sys.argv],
                              env={**os.environ, "HAWK_TEST_MACHINE": d}, check=False).returncode
    sys.exit(code)


def install_helper(dir, hawk, *settings, callers="caller hawk"):
    """Returns its path; `hawk` is the program of users' runners."""
    conf, helper = f"{dir}/run-as.conf", f"{dir}/hawk-run-as"
    with open(conf, "w", encoding="utf-8") as f:
        f.write("\n".join(["# for a test", f"hawk {hawk}", callers, *settings, ""]))
    os.chmod(conf, 0o644)
    if not os.path.exists(helper):
        subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}", f'-DRUN_AS_CONF="{conf}"', "-o", helper,
                        f"{ROOT}/runas/hawk_run_as.c", f"{ROOT}/runas/config.c"], check=True)
        os.chown(helper, 0, HAWK_USER)
        os.chmod(helper, 0o4750)
    return helper
