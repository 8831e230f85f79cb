"""Rooms: a file includes only its own room and rooms of strictly lower rank; src/ROOMS lists every room there is."""
import re
from pathlib import Path

SOURCE_SUFFIXES = {".cc", ".h", ".inc"}
# Folders of the repository outside src/ whose headers one room may include.
OUTSIDE = {"bridge": {"text"}}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\b|\benviron\b")


def read_rooms(root):
    rooms = {}
    for line in (root / "src" / "ROOMS").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, rank = line.split()
            rooms[name] = int(rank)
    return rooms


def include_problem(root, rooms, room, opener, target):
    """What is wrong with `room` including `target`, or None."""
    head = target.split("/")[0] if "/" in target else None
    if head is None:  # a header found through an include path on one of the outside folders
        head = next((folder for folder in OUTSIDE if (root / folder / target).is_file()), None)
    if opener == "<" and head not in rooms:
        return None  # a system or library header
    if head is None:
        return f'includes "{target}": write it as room/file'
    if head in OUTSIDE:
        return None if room in OUTSIDE[head] else f"includes {target}: only {sorted(OUTSIDE[head])} may"
    if head not in rooms:
        return f"includes {target}: {head} is not a room of src/ROOMS"
    if head == room:
        return None
    if rooms[head] == rooms[room]:
        return f"includes {target}: sideways, {head} has the same rank {rooms[room]}"
    if rooms[head] > rooms[room]:
        return f"includes {target}: upward, {head} has rank {rooms[head]}, {room} has {rooms[room]}"
    return None


def check(root):
    root = Path(root)
    rooms = read_rooms(root)
    problems = []
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if folder.name not in rooms:
            problems.append(f"src/{folder.name}: not listed in src/ROOMS")
            continue
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
            where = path.relative_to(root)
            text = path.read_text(errors="replace")
            for match in INCLUDE.finditer(text):
                problem = include_problem(root, rooms, folder.name, match[1], match[2])
                if problem:
                    problems.append(f"{where}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")
            if folder.name != "base" and ENVIRONMENT.search(COMMENT.sub("", text)):
                problems.append(f"{where}: reads the environment; only base may")
    return problems
