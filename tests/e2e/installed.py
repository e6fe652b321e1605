"""What `make install` installs, in a directory of its own, and programs compiled against nothing else of ours."""
import os
import subprocess
import sys
import tempfile

from hawktest import HAWK

if os.environ.get("SANITIZE"):
    print("skip: programs are linked without sanitizers")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
installed = tempfile.TemporaryDirectory()
clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
subprocess.run(["make", "-s", "-C", ROOT, f"B={os.path.relpath(os.path.dirname(HAWK), ROOT)}", f"PREFIX={installed.name}",
                f"SYSCONFDIR={installed.name}/etc", "install-files"],
               check=True, env=clean, stdout=subprocess.DEVNULL)


def compiled(source):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hawk"], check=True, capture_output=True, text=True,
                           env={**clean, "PKG_CONFIG_PATH": f"{installed.name}/lib/pkgconfig"}).stdout.split()
    program = f"{installed.name}/{os.path.basename(source)[:-2]}"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", source, *flags,
                    "-o", program], check=True)
    return program


def example(name):
    return compiled(f"{installed.name}/share/doc/hawk/examples/{name}.c")
