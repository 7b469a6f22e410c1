#!/usr/bin/env python3
"""As C++17 the first error of each public header says what to set: old_standard.py INCLUDE HEADER... -- COMPILER..."""
import subprocess
import sys

TEXT = "kolo needs C++20: compile with -std=c++20 or set CMAKE_CXX_STANDARD to 20"


def problem_of(compiler, include, header):
    said = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-x", "c++", f"-I{include}", header], check=False,
                          capture_output=True, text=True)
    errors = [line for line in said.stderr.splitlines() if "error:" in line]
    if said.returncode == 0 or not errors:
        return "compiles"
    return "" if TEXT in errors[0] else errors[0]


def main(arguments):
    separator = arguments.index("--")
    include, headers, compilers = arguments[0], arguments[1:separator], arguments[separator + 1:]
    problems = [f"{compiler}: {header}: {problem}" for compiler in compilers for header in headers
                if (problem := problem_of(compiler, include, header))]
    print("\n".join(problems + [f"{len(headers)} headers, {len(compilers)} compilers, {len(problems)} problems"]))
    return 1 if problems or not headers or not compilers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
