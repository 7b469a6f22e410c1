#!/usr/bin/env python3
"""Documents against the project: links lead somewhere, commands and paths exist, every KOLO_ name is one that the code
knows, and C++ is copied from a file."""
import re
import sys

from common import main

FENCE = re.compile(r"^( *)(`{3,}|~{3,})[ \t]*([^\n]*)\n(.*?)^ *\2[`~]*[ \t]*$", re.S | re.M)  # a block of code
LANGUAGES = {"", "cmake", "cpp", "python", "sh"}  # of blocks
FOLDERS = "bench|cmake|docker|docs|examples|findings|include|kernels|script|src|tests|tools"


def without_blocks(text):
    """The text with its blocks of code blanked, line by line."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def spans(text):
    """(line number, text) of the code spans."""
    for number, line in enumerate(text.splitlines(), 1):
        for span in re.findall(r"`([^`]+)`", line):
            yield number, span


def anchors(text):
    """Names that GitHub gives the headings."""
    for line in without_blocks(text).splitlines():
        if re.match(r"#+ ", line):
            heading = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower().replace("`", ""))
            yield heading.replace(" ", "-")


def bad_links(project, page):
    text = re.sub(r"`[^`\n]*`", "", without_blocks(project.text(page)))
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (project.root / page).parent / path if path else project.root / page
            if not file.exists():
                yield f"{page}:{number}: link to {target}, which does not exist"
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield f"{page}:{number}: {path or page} has no heading '{anchor}'"


def commands(text):
    """(line number, words) of the lines in shell blocks, and of code spans."""
    for block in FENCE.finditer(text):
        if block[3] == "sh":
            first = text.count("\n", 0, block.start(4)) + 1
            for number, line in enumerate(block[4].splitlines(), first):
                yield number, line.split("#")[0].strip().removeprefix("$ ").split()
    for number, span in spans(without_blocks(text)):
        yield number, span.split()


class Sources:
    """What commands are compared with, read once for all pages."""

    def __init__(self, project):
        def joined(names):
            return "\n".join(project.text(name) for name in names)

        self.cmake = joined(project.files(endings=("CMakeLists.txt", ".cmake")))
        self.tools = joined(project.code("tools"))
        self.all = joined(name for name in project.files() if not name.endswith((".md", ".svg")))


def bad_commands(project, page, sources):
    for number, words in commands(project.text(page)):
        for position, word in enumerate(words):
            word = word.removeprefix("./").rstrip(".,;:")
            script = re.fullmatch(r"(script/[a-z_]+|\.ci/run|tests/support/hosts/once)", word)
            program = re.fullmatch(r"build/(?:release|debug|asan|tsan|<preset>)/bin/([a-z0-9_]+)|(?:.*/)?(kolo)", word)
            option = re.match(r"--([a-z][a-z-]*[a-z])\b", word)
            if script and not project.has(word):
                yield f"{page}:{number}: {word} does not exist"
            if program and program.group(1) and not re.search(rf"[( ]{program.group(1)}\b", sources.cmake):
                yield f"{page}:{number}: no program {program.group(1)} is built"
            if program and "kolo" in program.groups() and len(words) > position + 1:
                subcommand = words[position + 1]
                if re.fullmatch(r"[a-z]+", subcommand) and f'add_subcommand("{subcommand}"' not in sources.tools:
                    yield f"{page}:{number}: kolo has no subcommand {subcommand}"
            if option and not re.search(rf"\b{option[1]}\b", sources.all):
                yield f"{page}:{number}: nothing in the project has an option --{option[1]}"


def bad_paths(project, page):
    """Code spans that are a path of the project, or a header as programs include it."""
    for number, span in spans(project.text(page)):
        path = "include/" + span.strip("<>") if re.fullmatch(r"<?kolo/[\w/]+\.h>?", span) else span
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]*", path) and not project.has(path):
            yield f"{page}:{number}: {span} does not exist"


def known_names(project):
    """Names that the code or the build knows: literals, and one for each field of Config."""
    places = ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src", "script", "tools", "examples", "tests", "kernels")
    names = set()
    for path in project.files(*places, endings=(".h", ".cpp", ".txt", ".cmake", ".in", ".json", ".sh", ".py")) + [
        name for name in project.files("script") if "." not in name
    ]:
        names |= set(re.findall(r"\bKOLO_[A-Z0-9_]+\b", project.text(path)))
    if project.has("include/kolo/config.h"):
        fields = re.findall(r"^  [\w:<>]+(?: [\w:<>]+)* (\w+)(?: =|\{|;)", project.text("include/kolo/config.h"), re.M)
        names |= {"KOLO_" + field.upper() for field in fields}
    return names


def bad_names(project, page, known):
    for number, line in enumerate(project.text(page).splitlines(), 1):
        for name in re.findall(r"\bKOLO_[A-Z0-9_]*[A-Z0-9]\b(?![_*{])", line):
            if name not in known:
                yield f"{page}:{number}: {name} is known nowhere in the code"


def untested_examples(project, page):
    """Each block of C++ stands word for word in the file that the line above it names: `<!-- from PATH -->`."""
    text = project.text(page)
    for match in FENCE.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        language, block = match[3], match[4]
        if language not in LANGUAGES or match[1] or match[2] != "```":
            yield f"{page}:{number}: begin a block with ``` and one of {', '.join(sorted(LANGUAGES - {''}))}, or nothing"
        if language != "cpp":
            if re.search(r"\bkolo::\w+[(<]", block) and not language:
                yield f"{page}:{number}: C++ in a block without ```cpp"
            continue
        source = re.search(r"<!-- from (\S+) -->\n\Z", text[: match.start()])
        if not source:
            yield f"{page}:{number}: no line <!-- from FILE --> above this C++"
        elif not project.has(source.group(1)):
            yield f"{page}:{number}: this C++ is from {source.group(1)}, which does not exist"
        elif not block.strip() or "\n" + block not in "\n" + project.text(source.group(1)):
            yield f"{page}:{number}: this C++ does not stand in {source.group(1)}"


def check(project):
    known = known_names(project)
    sources = Sources(project)
    for page in project.files(endings=".md"):
        yield from untested_examples(project, page)
        yield from bad_links(project, page)
        yield from bad_commands(project, page, sources)
        if page != "CHANGELOG.md":  # it names files that were renamed or removed
            yield from bad_paths(project, page)
        yield from bad_names(project, page, known)


CONFIG = "struct Config {\n  std::size_t bucket_bytes = 1;\n  std::chrono::milliseconds timeout{1};\n  LogSink log_sink;\n};\n"
BAD = [
    ({"README.md": "```cpp\nx();\n```\n"}, "README.md:1: no line <!-- from FILE -->"),
    ({"README.md": "<!-- from a.cpp -->\n```cpp\nx();\n```\n"}, "from a.cpp, which does not exist"),
    ({"README.md": "<!-- from a.cpp -->\n```cpp\nx();\n```\n", "a.cpp": "y();\n"}, "does not stand in a.cpp"),
    ({"README.md": "[x](docs/none.md)\n"}, "link to docs/none.md"),
    ({"README.md": "[x](a.md#two)\n", "a.md": "# One\n"}, "no heading 'two'"),
    ({"README.md": "[x](a.md#two)\n", "a.md": "```sh\n# two\n```\n"}, "no heading 'two'"),
    ({"README.md": "```sh\n$ script/none\n```\n"}, "script/none does not exist"),
    ({"README.md": "See `src/none.h`.\n"}, "src/none.h does not exist"),
    ({"README.md": "Include `<kolo/none.h>`.\n"}, "<kolo/none.h> does not exist"),
    ({"README.md": "Run `kolo none x`.\n"}, "kolo has no subcommand none"),
    ({"README.md": "```c++\nx();\n```\n"}, "begin a block with ```"),
    ({"README.md": "  ```cpp\n  x();\n  ```\n"}, "begin a block with ```"),
    ({"README.md": "```\nkolo::run(1);\n```\n"}, "C++ in a block without ```cpp"),
    ({"README.md": "<!-- from a.cpp -->\n```cpp\n  y();\n```\n", "a.cpp": "x(  y();\n"}, "does not stand in a.cpp"),
    ({"README.md": "```sh\nscript/x --none\n```\n", "script/x": "--some"}, "an option --none"),
    ({"README.md": "Run `build/release/bin/none`.\n"}, "no program none"),
    ({"README.md": "```sh\nbuild/release/bin/kolo none\n```\n", "tools/CMakeLists.txt": "add_executable(kolo x)"}, "no subcommand none"),
    ({"README.md": "Set KOLO_BUCKET_SIZE.\n", "include/kolo/config.h": CONFIG}, "KOLO_BUCKET_SIZE is known nowhere"),
]
GOOD = {
    "README.md": "# A b\n[x](#a-b) [y](https://z) `[n](m)` `src/*.h` `script/test` `kolo/config.h`\n```sh\n$ script/test  # x\n```\nKOLO_BUCKET_BYTES KOLO_TIMEOUT KOLO_* KOLO_WITH_X\n",
    "script/test": "",
    "include/kolo/config.h": CONFIG,
    "CMakeLists.txt": "option(KOLO_WITH_X x ON)",
    "docs/c.md": "One\n\n<!-- from a.cpp -->\n```cpp\n  y();\n```\n",
    "a.cpp": "x();\n  y();\n",
    "docs/b.md": "```sh\nbuild/release/bin/kolo data synth DIR\n```\n",
    "tools/CMakeLists.txt": "add_executable(kolo_tool kolo.cpp)\nset_target_properties(kolo_tool PROPERTIES OUTPUT_NAME kolo)",
    "tools/data.cpp": 'app.add_subcommand("data", "x");',
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
