#!/usr/bin/env python3
"""Check the protocol models with spin: each model must hold, and each mutation of it must be found.

usage: check.py [--work DIR] [--deep] [--only WORD]

Every case is `spin -a`, `gcc -DSAFETY -DCOLLAPSE` and one exhaustive run (no bitstate, no depth cut). Exit status 1
if a correct model has an error, a search is cut short, or a mutation survives.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEPTH = 2_000_000
CASE_TIMEOUT_S = 900

# (model, definitions)
HOLDS = [
    ("plan_channel", ["N=2"]),  # any number of rounds and events
    ("plan_channel", ["N=3", "EVENTS=2"]),  # any number of rounds, two events
    ("named_channel", ["N=2", "REQUESTS=3"]),
    ("named_channel", ["N=3", "REQUESTS=1"]),
]
HOLDS_DEEP = [
    ("plan_channel", ["N=3", "EVENTS=3"]),
]
MUTATIONS = {
    "plan_channel": [
        "COMMIT_EARLY", "COMMIT_UNCONFIRMED", "VOID_LOCAL_ONLY", "VOID_DROPS", "FLAGS_EARLY", "NO_CARRIER", "LEAVE_SILENT",
        "LEAVE_LATE",
    ],
    "named_channel": ["CANCEL_ALONE", "CANCEL_STALE", "CANCEL_KEEPS", "LEAVE_ALONE", "LEAVE_OVERTAKES"],
}
MUTATION_SIZE = {"plan_channel": ["EVENTS=2"], "named_channel": ["REQUESTS=2"]}


def run(command, folder):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=CASE_TIMEOUT_S)


def search(model, definitions, work, optimize):
    """Build and run one case; return (problems found, search complete, states, output)."""
    folder = work / "_".join([model, *definitions]).replace("=", "")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flags = ["-D" + word for word in definitions]
    for command in (["spin", *flags, "-a", str(HERE / (model + ".pml"))],
                    ["gcc", "-w", optimize, "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"]):
        built = run(command, folder)
        if built.returncode != 0:
            sys.exit(f"{' '.join(command)} failed in {folder}:\n{built.stdout}")
    searched = run(["./pan", f"-m{DEPTH}"], folder)
    output = searched.stdout
    (folder / "output").write_text(output)
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"([\d.e+]+) states, stored", output)
    if not errors or not states:
        sys.exit(f"no verdict (exit status {searched.returncode}) in {folder}/output:\n{output[-2000:]}")
    complete = "not completed" not in output and "max search depth too small" not in output
    return int(errors[1]), complete, int(float(states[1])), output


def reason(output):
    found = re.search(r"^pan:\d+: (.*)$", output, re.MULTILINE)
    return found[1] if found else ""


def cases(deep):
    for model, definitions in HOLDS + (HOLDS_DEEP if deep else []):
        yield model, definitions, False
    for model, names in MUTATIONS.items():
        for name in names:
            for ranks in (2, 3):
                yield model, [f"N={ranks}", *MUTATION_SIZE[model], "MUTATE_" + name], True


def main():
    parser = argparse.ArgumentParser(description="check the protocol models with spin")
    parser.add_argument("--work", type=Path, default=Path("model_work"), help="folder for generated files")
    parser.add_argument("--deep", action="store_true", help="also the larger case (minutes, GiBs)")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    arguments = parser.parse_args()
    wrong = 0
    ran = 0
    for model, definitions, mutated in cases(arguments.deep):
        name = " ".join([model, *definitions])
        if arguments.only not in name:
            continue
        start = time.monotonic()
        # A mutation is found after few states: it would take longer to optimize its search than to run it.
        optimize = "-O0" if mutated else "-O2"
        errors, complete, states, output = search(model, definitions, arguments.work.resolve(), optimize)
        good = errors > 0 if mutated else errors == 0 and complete
        verdict = ("found: " + reason(output) if mutated else "holds") if good else (
            "SURVIVES" if mutated else "FAILS: " + (reason(output) or "search cut short"))
        print(f"{name:64} {states:>10} states {time.monotonic() - start:6.1f} s  {verdict}", flush=True)
        ran += 1
        wrong += not good
    print(f"{ran} cases, {wrong} wrong")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
