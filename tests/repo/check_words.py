#!/usr/bin/env python3
"""Words that do not belong into the project: notes to self, paths of somebody's machine, other names for our terms."""
import re
import sys

from common import main

ENDINGS = (".h", ".cpp", ".cu", ".md", ".txt", ".cmake", ".py", ".json", ".sh", ".proto", ".pml", ".in")
# Written in two pieces, so that this file does not complain about itself.
FORBIDDEN = {
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b": "a note to self: do it, or write it down as an issue",
    r"(^|[\s\"'`(=:])/(ro" r"ot|wo" r"rk|ho" r"me)/\w": "a path of somebody's machine",
    r"\b[Pp]rocess " r"set\b": "say group",
    r"\b(issue|ticket) " r"#?\d+\b": "the reader has no tracker: say the thing itself",
    r"\bas an " r"AI\b|\blanguage " r"model\b": "says nothing about kolo",
}


def check(project):
    names = project.files(endings=ENDINGS) + project.files("script", ".ci")
    for path in sorted(set(names)):
        for number, line in enumerate(project.text(path).splitlines(), 1):
            for pattern, why in FORBIDDEN.items():
                found = re.search(pattern, line)
                if found:
                    yield f"{path}:{number}: '{found.group(0).strip()}': {why}"


BAD = [
    ({"src/a.cpp": "// TO" "DO: later\n"}, "note to self"),
    ({"docs/a.md": "see /ro" "ot/x\n"}, "somebody's machine"),
    ({"docs/a.md": "the process " "set of\n"}, "say group"),
    ({"docs/a.md": "as in issue " "3\n"}, "no tracker"),
]
GOOD = {"src/a.cpp": "// https://a.org/work/x build/work/x\n"}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
