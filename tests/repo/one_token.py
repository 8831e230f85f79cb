"""docs/one_token.md: every row of its table names a file and a symbol that this file defines or declares.

A row starts with "| `src/room/file.cc` | `Symbol` |". Several symbols may stand in the second cell, each in its own
backquotes; a symbol may be qualified (`Class::Method`): its last part is what the file must contain.
"""
import re
from pathlib import Path

ROW = re.compile(r"^\s*\|(?:\s*\d+\s*\|)?\s*`([^`|]+)`\s*\|\s*([^|]*`[^|]*)\|")
MINIMUM_ROWS = 8


def check(root, minimum=MINIMUM_ROWS):
    root = Path(root)
    document = root / "docs" / "one_token.md"
    if not document.is_file():
        return ["docs/one_token.md is missing"]
    problems, rows = [], 0
    for number, line in enumerate(document.read_text().splitlines(), 1):
        match = ROW.match(line)
        if not match:
            continue
        rows += 1
        path = root / match[1]
        where = f"docs/one_token.md:{number}"
        if not path.is_file():
            problems.append(f"{where}: {match[1]} does not exist")
            continue
        text = path.read_text(errors="replace")
        for symbol in re.findall(r"`([^`]+)`", match[2]):
            last = re.split(r"::|\.", symbol.split("(")[0].strip())[-1]
            if not re.search(rf"\b{re.escape(last)}\b", text):
                problems.append(f"{where}: {match[1]} has no symbol {symbol}")
    if rows < minimum:
        problems.append(f"docs/one_token.md: {rows} table rows with a file and a symbol, expected at least {minimum}")
    return problems
