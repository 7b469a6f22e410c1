#!/usr/bin/env python3
"""The environment is read and changed in one file, for tools too; the library never prints, exits or aborts."""
import re
import sys

from common import main, without_comments

ENVIRONMENT = "src/base/environment.cpp"
# Where log lines end up when the program gives no sink of its own.
PRINTS = re.compile(r"\bstd::(cout|cerr|clog)\b|\b(std::)?(printf|puts|putchar|fprintf|fputs)\s*\(")
# Not a member function of that name: a communicator has abort().
ENDS = re.compile(r"(\bstd::|(?<![\w>.:])(?<!void ))(_?exit|abort|_Exit|quick_exit|terminate)\s*\(")
# Where a process is ended because MPI_Init or MPI_Finalize does not.
ENDING = "src/cluster/exit_limit.cpp"
READS = re.compile(r"\b(std::|::)?(secure_)?(getenv|setenv|putenv|unsetenv)\s*\(|\benviron\b")


def check(project):
    for path in project.code("include", "src", "kernels", "tools"):
        for number, line in enumerate(without_comments(project.text(path)).splitlines(), 1):
            line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
            if READS.search(line) and path != ENVIRONMENT:
                yield f"{path}:{number}: the environment is read and changed in {ENVIRONMENT} only"
            if path.startswith("tools/"):
                continue
            if PRINTS.search(line) and not path.startswith("src/telemetry/"):
                yield f"{path}:{number}: the library prints nothing; say it to the log"
            if ENDS.search(line) and path != ENDING:
                yield f"{path}:{number}: the library never ends the program"


BAD = [
    ({"src/engine/a.cpp": 'auto* x = std::getenv("KOLO_X");\n'}, "environment is read"),
    ({"tools/a.cpp": "char** entry = ::environ;\n"}, "environment is read"),
    ({"tools/a.cpp": '::setenv("KOLO_X", "1", 1);\n'}, "environment is read"),
    ({"src/engine/a.cpp": 'std::cerr << "x";\n'}, "prints nothing"),
    ({"src/engine/a.cpp": 'printf("x");\n'}, "prints nothing"),
    ({"src/engine/a.cpp": "std::abort();\n"}, "never ends"),
    ({"src/cluster/a.cpp": "_exit(1);\n"}, "never ends"),
]
GOOD = {
    ENVIRONMENT: 'auto* x = std::getenv("KOLO_X");\n',
    "src/engine/a.cpp": '// getenv()\nauto text = "exit()"; snprintf(b, 3, "x"); request.abort_round();\nvoid abort() { a->abort(); }\n',
    "tools/a.cpp": 'std::printf("%s", base::get_environment("KOLO_X")); std::exit(1);\n',
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
