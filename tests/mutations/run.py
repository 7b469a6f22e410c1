#!/usr/bin/env python3
"""Leaves out each wait for a device in turn, in a copy of the code, and sees that a test fails then (script/mutations)."""
import argparse
import pathlib
import shutil
import subprocess
import sys

from waits import WAITS

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build/mutations/source"
BUILD = SOURCE / "build/release"  # as in the original: so ccache has what was compiled there
TEST_SECONDS = 300  # one that hangs has failed too


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def fail(text):
    sys.exit(f"script/mutations: {text}")


def copy_sources():
    """What git knows or would; files that are alike stay as they are, so that little is built again."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT).stdout.split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for old in [path for path in SOURCE.rglob("*") if path.is_file() and BUILD not in path.parents]:
        if str(old.relative_to(SOURCE)) not in names:
            old.unlink()
    for name in names:
        new, old = ROOT / name, SOURCE / name
        if old.is_file() and old.read_bytes() == new.read_bytes():
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(new, old)


def configure():
    off = [f"-DKOLO_{what}=OFF" for what in ("WITH_TORCH", "BUILD_EXAMPLES", "BUILD_BENCH")]
    done = run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *off])
    if done.returncode != 0:
        fail(done.stdout + done.stderr)


def build(targets):
    done = run(["ninja", "-C", BUILD, *sorted(targets)])
    if done.returncode != 0:
        fail("a mutation that does not compile says nothing:\n" + done.stdout[-3000:])


def verdict(mutation):
    """Why the test fails, or nothing."""
    try:
        done = run([BUILD / "bin" / mutation.test, f"--gtest_filter={mutation.cases}", "--gtest_brief=1",
                    "--gtest_fail_fast"], timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return "hangs"
    if " 0 tests from" in done.stdout or "0 tests ran" in done.stdout:
        fail(f"{mutation.test} has no cases {mutation.cases}")
    if done.returncode == 0:
        return ""
    failed = [line.split("]")[1].split(",")[0].split("(")[0].strip() for line in done.stdout.splitlines() if "[  FAILED  ]" in line]
    return failed[0] if failed else f"ends with status {done.returncode}"


def mutate(mutation):
    path = SOURCE / mutation.file
    text = path.read_text()
    if text.count(mutation.found) != 1:
        fail(f"{mutation.file} has {text.count(mutation.found)} times what '{mutation.name}' changes: {mutation.found}")
    path.write_text(text.replace(mutation.found, mutation.becomes))
    try:
        build({mutation.test})
        return verdict(mutation)
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(prog="script/mutations", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="mutations whose name has these words in it")
    options = parser.parse_args()
    chosen = [mutation for mutation in WAITS if options.only in mutation.name]
    if not chosen:
        fail(f"no mutation has '{options.only}' in its name")
    copy_sources()
    configure()
    build({mutation.test for mutation in chosen})
    for test in sorted({mutation.test for mutation in chosen}):
        whole = next(mutation for mutation in chosen if mutation.test == test)._replace(cases="*")
        if why := verdict(whole):
            fail(f"{test} fails without any mutation: {why}")
    missed = 0
    for number, mutation in enumerate(chosen, 1):
        why = mutate(mutation)
        missed += not why
        print(f"{number}/{len(chosen)} {mutation.name}: {'found by ' + mutation.test + ' ' + why if why else 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
