"""What pages of measurements are written with: the commit, numbers, tables."""
import os
import subprocess


def commit():
    """What the work tree is now; "-dirty": with changes not committed."""
    got = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return got.stdout.strip() or "unknown"


def number(v):
    if v is None:
        return "–"
    return f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(c if isinstance(c, str) else number(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)
