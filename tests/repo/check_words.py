#!/usr/bin/env python3
"""Words that do not belong into the project: notes to self, paths of a machine, other names for our terms. Names that
were replaced stay out of the public headers, and vague subjects out of the comments of rewritten files."""
import re
import sys

from common import main, without_comments

ENDINGS = (".h", ".cpp", ".cu", ".md", ".txt", ".cmake", ".py", ".json", ".sh", ".proto", ".pml", ".in")
# Written in two pieces, so that this file does not complain about itself.
FORBIDDEN = {
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b": "a note to self: do it, or write it down as an issue",
    r"(^|[\s\"'`(=:])/(ro" r"ot|wo" r"rk|ho" r"me)/\w": "a path of somebody's machine",
    r"\b[Pp]rocess " r"set\b": "say group",
    r"\b(issue|ticket) " r"#?\d+\b": "the reader has no tracker: say the thing itself",
    r"\bas an " r"AI\b|\blanguage " r"model\b": "says nothing about kolo",
}

# Identifiers that have a better name, by case and as whole words. docs/glossary.md has the terms.
REPLACED = re.compile(
    r"\b(Way|FillWay|Lanes?|RingPlace|HostPlace|[Pp]lace|Machine|QueuedMachine|TurnQueue|turn|Share|ShareCrossing|"
    r"DirectMeeting|LateValue|Surroundings|Wires|Watch|Scattering|can_scatter|note|moved|give_up|given_up|GradientRounds|"
    r"RoundHost|MembershipHost|LinksHost|Frozen|doom|orphan|bury|hopeless|Visitor|Awaited|Before|End)\b")
PUBLIC = ("include",)
# The subject of a sentence is a noun of the field. Rewritten files; the list grows.
VAGUE = re.compile(r"\b(who|whoever|nobody|somebody|everybody)\b", re.I)
REWRITTEN = PUBLIC + ("examples", "findings", "src/torch/param_group_sync", "src/engine/unnamed_calls",
                      "src/comm/probe_link", "tools/version")


def comments_of(text):
    """The text with everything but comments blanked out; line numbers stay."""
    kept = without_comments(text).splitlines()
    return "\n".join(line[len(code):] if line.startswith(code) else line
                     for line, code in zip(text.splitlines(), kept))


def names_in(text):
    """The text without comments and string literals; line numbers stay."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', without_comments(text))


def found_lines(pattern, text):
    for number, line in enumerate(text.splitlines(), 1):
        found = pattern.search(line)
        if found:
            yield number, found.group(0)


def check_code(project):
    for path in sorted(project.code()):
        if path.startswith(PUBLIC):
            for number, name in found_lines(REPLACED, names_in(project.text(path))):
                yield f"{path}:{number}: '{name}' has a better name: see docs/glossary.md"
        if path.startswith(REWRITTEN):
            for number, word in found_lines(VAGUE, comments_of(project.text(path))):
                yield f"{path}:{number}: '{word}': name the rank, process, thread or caller"


def check(project):
    yield from check_code(project)
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
    ({"include/kolo/a.h": "enum class Way { ring };\n"}, "'Way' has a better name"),
    ({"include/kolo/a.h": "void f();  // for whoever waits\n"}, "'whoever'"),
    ({"examples/a.cpp": "/* Nobody\n   waits. */\n"}, "'Nobody'"),
]
GOOD = {
    "src/a.cpp": "// https://a.org/work/x build/work/x, for whoever waits\nenum class Way { ring };\n",
    "include/kolo/a.h": 'const char* a = "who"; const char* b = "the Way";  // a Way, by the way\nint Waypoint;\n',
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
