#!/usr/bin/env python3
"""ARCHITECTURE.md's module table names exactly the modules that there are, with exactly the layers of layers.txt."""
import re
import sys

from check_layers import read_layers
from common import main

PAGE = "ARCHITECTURE.md"
OUTSIDE_SRC = ("kernels", "tools", "examples", "bench")


def rows(text):
    """(module, may include) of the rows `| `module` | ... | includes |`."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([a-z_-]+)/?`", cells[0]) if line.startswith("|") else None
        if name and len(cells) == 3:
            yield name.group(1), cells[2].split()


def check(project):
    modules = read_layers(project.text("layers.txt"))["modules"]
    if not project.has(PAGE):
        yield f"{PAGE} is missing"
        return
    table = dict(rows(project.text(PAGE)))
    there = set(project.folders("src")) | {name for name in OUTSIDE_SRC if project.has(name)} | {"public", "torch-public"}
    for name in sorted(there - set(table)):
        yield f"{PAGE}: no row for {name}"
    for name in sorted(set(table) - there):
        yield f"{PAGE}: a row for {name}, which does not exist"
    for name in sorted(set(modules) - there):
        yield f"layers.txt: a line for {name}, which does not exist"
    for name, listed in table.items():
        if name in modules and set(listed) != modules[name]:
            yield f"{PAGE}: {name} may include {' '.join(sorted(modules[name]))}, the table says {' '.join(listed)}"


LAYERS = "[modules]\npublic:\ntorch-public: public\nbase: public\n"
PAGE_TEXT = "| module | what | may include |\n|---|---|---|\n| `public` | x | |\n| `torch-public` | x | public |\n"
BAD = [
    ({"layers.txt": LAYERS, "src/base/a.h": "", PAGE: PAGE_TEXT}, "no row for base"),
    ({"layers.txt": LAYERS, "src/base/a.h": "", PAGE: PAGE_TEXT + "| `base` | x | engine |\n"}, "the table says engine"),
    ({"layers.txt": LAYERS, PAGE: PAGE_TEXT + "| `base` | x | public |\n"}, "which does not exist"),
    ({"layers.txt": LAYERS, "src/base/a.h": ""}, "is missing"),
]
GOOD = {"layers.txt": LAYERS, "src/base/a.h": "", PAGE: PAGE_TEXT + "| `base` | x | public |\n"}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
