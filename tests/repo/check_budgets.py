#!/usr/bin/env python3
"""Files that a reader can take in: headers up to 250 lines, sources up to 500, functions up to 60, lines up to 120 columns."""
import re
import sys

from common import main, without_comments

HEADER, SOURCE, FUNCTION, COLUMNS = 250, 500, 60, 120


def without_literals(line):
    """The line with its string and character literals emptied, so that braces in them do not count."""
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', '""', line)


def long_functions(text):
    """(first line, length) of blocks that are neither namespace nor type and longer than FUNCTION lines. Only the outermost."""
    blocks, head = [], ""
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        line = without_literals(line)
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            if character == "{":
                outer = re.search(r"\b(namespace|class|struct|union|enum|extern)\b(?!.*\)\s*(const|noexcept|override)*\s*$)", head)
                blocks.append((number, bool(outer)))
                head = ""
            elif character == "}":
                if blocks:
                    start, outer = blocks.pop()
                    if not outer and all(kind for _, kind in blocks) and number - start + 1 > FUNCTION:
                        yield start, number - start + 1
                head = ""
            elif character == ";":
                head = ""
            else:
                head += character
        head += " "


def check(project):
    for path in project.code("include", "src", "kernels", "tools", "examples", "bench", "tests"):
        text = project.text(path)
        lines = text.splitlines()
        budget = HEADER if path.endswith(".h") else SOURCE
        if len(lines) > budget:
            yield f"{path}: {len(lines)} lines, the budget is {budget}"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                yield f"{path}:{number}: {len(line)} columns, the budget is {COLUMNS}"
        if not path.startswith("tests/"):
            for number, length in long_functions(text):
                yield f"{path}:{number}: a function of {length} lines, the budget is {FUNCTION}"


LONG = "void f() {\n" + "  g();\n" * 70 + "}\n"
BAD = [
    ({"src/base/a.h": "\n" * 251}, "251 lines"),
    ({"src/base/a.cpp": "\n" * 501}, "501 lines"),
    ({"src/base/a.cpp": "//" + "x" * 119 + "\n"}, "121 columns"),
    ({"src/base/a.cpp": "namespace kolo {\n" + LONG + "}\n"}, "src/base/a.cpp:2: a function of 72 lines"),
    ({"src/base/a.cpp": "class A {\n" + LONG + "};\n"}, "a function of 72 lines"),
]
GOOD = {
    "src/base/a.h": "// head\n" * 250,
    "src/base/a.cpp": "namespace kolo {\nstruct A {\n" + "  int a; // { \n" * 100 + "};\nvoid f() { g('{', \"{\"); }\n}\n",
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
