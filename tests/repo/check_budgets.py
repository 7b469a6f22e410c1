#!/usr/bin/env python3
"""Files, functions and a project that a reader can take in: the limits of budgets.json. A limit may be raised: then its
reason, one sentence beside it, says why."""
import json
import re
import sys

from common import main, without_comments

LIMITS = "tests/repo/budgets.json"
TRAINER = "examples/imagenet_resnet50"
GLOSSARY = "docs/glossary.md"
SETTINGS = "docs/configuration.md"
README = "README.md"
HISTORY = "CHANGELOG.md"  # grows with each release, and is not read from its beginning to its end


def without_literals(line):
    """The line with its string and character literals emptied, so that braces in them do not count."""
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', '""', line)


def long_functions(text, limit):
    """(first line, length) of blocks that are neither namespace nor type and longer than `limit`. Only the outermost."""
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
                    if not outer and all(kind for _, kind in blocks) and number - start + 1 > limit:
                        yield start, number - start + 1
                head = ""
            elif character == ";":
                head = ""
            else:
                head += character
        head += " "


def terms(text):
    """How many rows the tables of a page have, without their heads."""
    rows = len(re.findall(r"^\|", text, re.M))
    return rows - 2 * len(re.findall(r"^\|[ :|-]+\|$", text, re.M))


def pages(project):
    return [path for path in project.files(endings=".md") if path != HISTORY]


def words(project, path):
    return len(project.text(path).split())


def main_table(text):
    """The page up to its first heading of level 2: the settings that few programs change."""
    return text.split("\n## ")[0]


def count(project):
    """What the whole project has of each."""
    yield "words of documents", sum(words(project, path) for path in pages(project))
    yield "words of README.md", words(project, README) if project.has(README) else 0
    yield "settings in the main table", terms(main_table(project.text(SETTINGS))) if project.has(SETTINGS) else 0
    yield "lines of src", sum(len(project.text(path).splitlines()) for path in project.code("src"))
    yield "user headers", len([path for path in project.code("include") if re.fullmatch(r"include/kolo/(torch/)?\w+\.h", path)])
    yield "trainer files", len(project.files(TRAINER))
    yield "glossary terms", terms(project.text(GLOSSARY)) if project.has(GLOSSARY) else 0


def read_limits(text):
    """(limits by name, names without a limit or without a reason)."""
    table = json.loads(text)
    bad = [name for name, entry in table.items()
           if not isinstance(entry.get("limit"), int) or not re.search(r"\w \w.*\.$", entry.get("reason", ""))]
    return {name: entry.get("limit") for name, entry in table.items()}, bad


def check_files(project, limits):
    for path in project.code("include", "src", "kernels", "tools", "examples", "bench", "tests"):
        text = project.text(path)
        lines = text.splitlines()
        limit = limits["lines of a header" if path.endswith(".h") else "lines of a source"]
        if len(lines) > limit:
            yield f"{path}: {len(lines)} lines, the limit is {limit}"
        for number, line in enumerate(lines, 1):
            if len(line) > limits["columns"]:
                yield f"{path}:{number}: {len(line)} columns, the limit is {limits['columns']}"
        if not path.startswith("tests/"):
            for number, length in long_functions(text, limits["lines of a function"]):
                yield f"{path}:{number}: a function of {length} lines, the limit is {limits['lines of a function']}"


def check_pages(project, limit):
    for path in pages(project):
        for number, line in enumerate(project.text(path).splitlines(), 1):
            if len(re.sub(r"\]\([^)]*\)", "]", line)) > limit and not line.startswith("|"):
                yield f"{path}:{number}: {len(line)} columns, the limit of documents is {limit}"


def check(project):
    limits, bad = read_limits(project.text(LIMITS))
    if bad:
        yield f"{LIMITS}: a limit and a reason of one sentence are needed: {', '.join(bad)}"
        return
    yield from check_files(project, limits)
    yield from check_pages(project, limits["columns of documents"])
    for name, number in count(project):
        if number > limits[name]:
            yield f"{number} {name}, the limit in {LIMITS} is {limits[name]}"
    if project.has(GLOSSARY) and terms(project.text(GLOSSARY)) < 1:
        yield f"{GLOSSARY}: has no table, and so no term is counted"


LONG = "void f() {\n" + "  g();\n" * 70 + "}\n"
BUDGETS = {
    LIMITS: json.dumps({name: {"limit": limit, "reason": "Because of this."} for name, limit in {
        "lines of a header": 250, "lines of a source": 500, "lines of a function": 60, "columns": 120, "lines of src": 510,
        "user headers": 2, "trainer files": 1, "glossary terms": 1, "words of documents": 44, "words of README.md": 4,
        "settings in the main table": 1, "columns of documents": 20}.items()})
}
TABLE = "# Glossary\n\n| term | what it is |\n|---|---|\n| rank | a process |\n"
BAD = [
    ({**BUDGETS, "src/base/a.h": "\n" * 251}, "251 lines"),
    ({**BUDGETS, "src/base/a.cpp": "\n" * 501}, "501 lines"),
    ({**BUDGETS, "src/base/a.cpp": "//" + "x" * 119 + "\n"}, "121 columns"),
    ({**BUDGETS, "src/base/a.cpp": "namespace kolo {\n" + LONG + "}\n"}, "src/base/a.cpp:2: a function of 72 lines"),
    ({**BUDGETS, "src/base/a.cpp": "class A {\n" + LONG + "};\n"}, "a function of 72 lines"),
    ({**BUDGETS, "src/base/a.cpp": "\n" * 300, "src/base/b.cu": "\n" * 211}, "511 lines of src, the limit in"),
    ({**BUDGETS, **{f"include/kolo/{name}.h": "" for name in ("a", "b", "torch/c")}}, "3 user headers"),
    ({**BUDGETS, **{f"{TRAINER}/{name}": "" for name in ("a.cpp", "demo.sh")}}, "2 trainer files"),
    ({**BUDGETS, GLOSSARY: TABLE + "| host | a machine |\n"}, "2 glossary terms"),
    ({**BUDGETS, GLOSSARY: "rank: a process\n"}, "no term is counted"),
    ({**BUDGETS, README: "a b c d e\n"}, "5 words of README.md"),
    ({**BUDGETS, "docs/a.md": "a " * 25, "tests/b/README.md": "b\n" * 20}, "45 words of documents"),
    ({**BUDGETS, "docs/a.md": "# A\n" + "x" * 21 + "\n"}, "docs/a.md:2: 21 columns"),
    ({**BUDGETS, "docs/a.md": "x" * 21 + " [a](b)\n"}, "docs/a.md:1: 28 columns"),
    ({**BUDGETS, SETTINGS: "| a | b |\n|---|---|\n| x | y |\n| x | y |\n"}, "2 settings in the main table"),
    ({LIMITS: '{"columns": {"limit": 121, "reason": ""}}'}, "a reason of one sentence are needed: columns"),
]
GOOD = {
    **BUDGETS,
    "src/base/a.h": "// head\n" * 250,
    "src/base/a.cpp": "namespace kolo {\nstruct A {\n" + "  int a; // { \n" * 100 + "};\nvoid f() { g('{', \"{\"); }\n}\n",
    **{f"include/kolo/{name}.h": "" for name in ("a", "torch/b", "data/c", "spi/d")},
    f"{TRAINER}/a.cpp": "",
    GLOSSARY: TABLE,
    README: "a b c d\n",
    HISTORY: "a " * 50,
    SETTINGS: "| a | b |\n|---|---|\n| xxxxxxxxxxxx | y |\n\n## Others\n\n| x | y |\n",
    "docs/a.md": "[xxxxxxxxxxx](https://a)\n| xxxxxxxxxxxxxxxxxxxx |\n",
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
