"""House rules on every tracked text file: no registry host names, no paths of one machine, no source over 800 lines, and
no relative link in a Markdown file to something that is not in the repository."""
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

MAX_LINES = 800
SOURCE_SUFFIXES = {".cc", ".h", ".inc", ".rs", ".py", ".sh", ".cmake", ".md"}

# Put together from pieces, so that this file obeys its own rules.
HOSTS = re.compile("|".join(re.escape(".".join(parts)) for parts in (
    ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("crates", "io"), ("debian", "org"),
    ("download", "pytorch", "org"), ("huggingface", "co"))), re.I)
FOLDERS = re.compile(r"(?<![\w.~/})\]-])/(?:" + "|".join(("work", "root", "home")) + r")(?:/|\b(?![\w-]))")
# What Cargo writes by itself names the index it resolved against.
GENERATED = {"Cargo.lock"}

CODE = re.compile(r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"""\]\(\s*<?([^)\s>]+)|^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)|\b(?:src|href)=["']([^"']+)["']""", re.M)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.I)


def tracked(root):
    """Files git tracks or would track; without git, every file outside build folders."""
    listing = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-co", "--exclude-standard",
                              "-z"], capture_output=True)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
        return sorted({root / name for name in names if (root / name).is_file()})
    skip = {"build", ".git", "target", "__pycache__"}
    return sorted(p for p in root.rglob("*") if p.is_file() and not skip & set(p.relative_to(root).parts))


def broken_links(root, path, text, present):
    """Relative links of a Markdown file that lead to nothing in `present`; one that begins with / starts at the root."""
    text = CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in LINK.finditer(text):
        target = next(filter(None, match.groups()))
        if ELSEWHERE.match(target):
            continue
        name = unquote(re.split("[#?]", target)[0])
        file = Path(os.path.normpath(root / name.lstrip("/") if name.startswith("/") else path.parent / name))
        if file not in present:
            yield f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: links to {target}, which is not there"


def check(root):
    root = Path(root)
    problems = []
    files = tracked(root)
    present = {ancestor for file in files for ancestor in (file, *file.parents)}
    for path in files:
        where = path.relative_to(root)
        data = path.read_bytes()
        if b"\0" in data[:8192] or path.name in GENERATED or where.parts[:2] == ("tests", "data") and path.suffix != ".md":
            continue
        if where.parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        text = data.decode(errors="replace")
        lines = text.splitlines()
        if path.suffix == ".md":
            problems += broken_links(root, path, text, present)
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
