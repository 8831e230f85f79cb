"""House rules on every tracked text file: no registry host names, no paths of one machine, no source over 800 lines."""
import re
import subprocess
from pathlib import Path

MAX_LINES = 800
SOURCE_SUFFIXES = {".cc", ".h", ".inc", ".rs", ".py", ".sh", ".cmake", ".md"}

# Put together from pieces, so that this file obeys its own rules.
HOSTS = re.compile("|".join(re.escape(".".join(parts)) for parts in (
    ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("crates", "io"), ("debian", "org"),
    ("download", "pytorch", "org"), ("huggingface", "co"))), re.I)
FOLDERS = re.compile(r"(?<![\w.~/})\]-])/(?:" + "|".join(("work", "root", "home")) + r")(?:/|\b(?![\w-]))")
# What Cargo writes by itself names the index it resolved against.
GENERATED = {"Cargo.lock"}


def tracked(root):
    """Files git tracks or would track; without git, every file outside build folders."""
    listing = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-co", "--exclude-standard",
                              "-z"], capture_output=True)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
        return sorted({root / name for name in names if (root / name).is_file()})
    skip = {"build", ".git", "target", "__pycache__"}
    return sorted(p for p in root.rglob("*") if p.is_file() and not skip & set(p.relative_to(root).parts))


def check(root):
    root = Path(root)
    problems = []
    for path in tracked(root):
        where = path.relative_to(root)
        data = path.read_bytes()
        if b"\0" in data[:8192] or path.name in GENERATED or where.parts[:2] == ("tests", "data") and path.suffix != ".md":
            continue
        if where.parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        lines = data.decode(errors="replace").splitlines()
        if path.suffix in SOURCE_SUFFIXES and len(lines) > MAX_LINES:
            problems.append(f"{where}: {len(lines)} lines, at most {MAX_LINES}")
        for number, line in enumerate(lines, 1):
            host = HOSTS.search(line)
            if host:
                problems.append(f"{where}:{number}: names the registry host {host[0]}")
            folder = FOLDERS.search(line)
            if folder:
                problems.append(f"{where}:{number}: names the machine path {folder[0]}")
    return problems
