#!/usr/bin/env python3
"""The symbols of kolo's shared libraries: check_symbols.py LIBRARY... They define names of kolo's public headers
only, so that no symbol inside kolo meets one of the program; they need none of protobuf; and they are never unloaded."""
import re
import subprocess
import sys

# Public namespaces are kolo, kolo::data and kolo::checkpoint; types begin with a capital letter.
OWN = re.compile(
    r"(vtable for |VTT for |typeinfo (name )?for |(non-)?virtual thunk to )?kolo::(?!(?!data|checkpoint)[a-z_]+::)"
)


def symbols(library, which):
    text = subprocess.run(["nm", "-DC", which, library], check=True, capture_output=True, text=True).stdout
    return [re.sub(r"^[0-9a-f ]*\w ", "", line) for line in text.splitlines()]


def problems_of(library):
    defined = symbols(library, "--defined-only")
    if not any(name.startswith("kolo::") for name in defined):
        yield "defines no name of kolo"
    yield from (f"defines {name}" for name in defined if not OWN.match(name))
    yield from (f"needs {name}" for name in symbols(library, "--undefined-only") if "google::protobuf" in name)
    if "NODELETE" not in subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout:
        yield "dlclose() may unload it"


def main(libraries):
    problems = [f"{library} {problem}" for library in libraries for problem in problems_of(library)]
    for problem in problems[:40]:
        print(problem)
    print(f"{len(libraries)} libraries, {len(problems)} problems")
    return 1 if problems or not libraries else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
