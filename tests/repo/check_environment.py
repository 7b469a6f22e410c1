#!/usr/bin/env python3
"""The environment is read in one file; the library never prints, exits or aborts."""
import re
import sys

from common import main, without_comments

ENVIRONMENT = "src/base/environment.cpp"
# Where log lines end up when the program gives no sink of its own.
PRINTS = re.compile(r"\bstd::(cout|cerr|clog)\b|\b(std::)?(printf|puts|putchar|fprintf|fputs)\s*\(")
ENDS = re.compile(r"\b(std::)?(exit|abort|_Exit|quick_exit|terminate)\s*\(")
READS = re.compile(r"\b(std::|::)?(secure_)?(getenv|setenv|putenv|unsetenv)\s*\(|\benviron\b")


def check(project):
    for path in project.code("include", "src", "kernels"):
        for number, line in enumerate(without_comments(project.text(path)).splitlines(), 1):
            line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
            if READS.search(line) and path != ENVIRONMENT:
                yield f"{path}:{number}: the environment is read in {ENVIRONMENT} only"
            if PRINTS.search(line) and not path.startswith("src/telemetry/"):
                yield f"{path}:{number}: the library prints nothing; say it to the log"
            if ENDS.search(line):
                yield f"{path}:{number}: the library never ends the program"


BAD = [
    ({"src/engine/a.cpp": 'auto* x = std::getenv("KOLO_X");\n'}, "environment is read"),
    ({"src/engine/a.cpp": 'std::cerr << "x";\n'}, "prints nothing"),
    ({"src/engine/a.cpp": 'printf("x");\n'}, "prints nothing"),
    ({"src/engine/a.cpp": "std::abort();\n"}, "never ends"),
]
GOOD = {
    ENVIRONMENT: 'auto* x = std::getenv("KOLO_X");\n',
    "src/engine/a.cpp": '// getenv()\nauto text = "exit()"; snprintf(b, 3, "x"); request.abort_round();\n',
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
