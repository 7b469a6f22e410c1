#!/usr/bin/env python3
"""Every C++ file is as script/format leaves it. Skipped (exit status 77) where clang-format-14 is not installed."""
import pathlib
import re
import shutil
import subprocess
import sys

from common import ROOT, main

FORMATTER = shutil.which("clang-format-14")


def check(project):
    names = [name for name in project.code() if not name.endswith(".cu")]
    rules = ROOT / ".clang-format"
    for start in range(0, len(names), 50):
        command = [FORMATTER, "--dry-run", f"--style=file:{rules}", *names[start : start + 50]]
        said = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False).stderr
        for path in sorted(set(re.findall(r"^(.+?):\d+:\d+: (?:warning|error)", said, re.M))):
            yield f"{pathlib.PurePosixPath(path)}: not formatted; run script/format"


BAD = [({"src/a.cpp": "int  f( ){return 1 ;}\n"}, "src/a.cpp: not formatted")]
GOOD = {"src/a.cpp": "int f() { return 1; }\n"}
if __name__ == "__main__":
    if FORMATTER is None:
        print("clang-format-14 is not installed")
        sys.exit(77)
    sys.exit(main(check, BAD, GOOD))
