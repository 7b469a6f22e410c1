#!/usr/bin/env python3
"""Subjects of commits, `module: imperative` in at most 72 characters: commit_subjects.py BASE checks the commits after BASE.
script/lint runs it and names the base."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT

LENGTH = 72
# First words that are no verb. A list of verbs would be longer, and never complete.
NOT_VERBS = set("a all an another any both each every few he how it its many more most no one several some that the their there "
                "these they this those three two we what when where which who why you".split())
VERBS = {"bring", "embed", "exceed", "feed", "need", "ping", "proceed", "seed", "shed", "speed"}  # that end in -ing or -ed


def problems_of(subject):
    if len(subject) > LENGTH:
        yield f"{len(subject)} characters, the limit is {LENGTH}"
    found = re.fullmatch(r"[a-z][a-z0-9_./-]*: ([A-Za-z_.-]+)(?:\W.*)?", subject)
    if not found:
        yield "not `module: imperative`"
        return
    word = found[1]
    if word.lower() in NOT_VERBS or word not in VERBS and re.fullmatch(r"[a-z]{2,}(ing|ed)", word):
        yield f"'{word}' is no imperative"
    elif re.match("[A-Z]", word):
        yield f"'{word}': a small letter follows the colon"
    if ";" in subject:
        yield "one change for each commit"
    if subject.endswith("."):
        yield "no full stop at the end"


def git(repository, *words):
    outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # hooks of git set GIT_DIR
    return subprocess.run(["git", "-C", repository, *words], check=False, capture_output=True, text=True, env=outside)


def subjects_after(base, repository):
    """(pairs of commit and subject, why there are none)."""
    # Without its own .git, a tarball may lie in another project's repository.
    if not (pathlib.Path(repository) / ".git").exists():
        return [], "no git history here"
    if not shutil.which("git"):
        return [], "git is not installed"
    if git(repository, "merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        return [], f"this history does not reach back to {base}"
    lines = git(repository, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD").stdout.splitlines()
    return [tuple(line.partition(" ")[::2]) for line in lines], ""


def check(base, repository=ROOT):
    """(exit status, text)."""
    commits, why_none = subjects_after(base, repository)
    if why_none:
        return 0, f"commit_subjects: not checked, {why_none}"
    complaints = [f"{commit} {subject}: {problem}" for commit, subject in commits for problem in problems_of(subject)]
    count = f"commit_subjects: {len(commits)} commits, {len(complaints)} complaints"
    return (1 if complaints else 0), "\n".join(complaints + [count])


GOOD = ["launcher: prefix each output line with its rank", "tcp: bound the receive drain during shutdown", "docs: feed x",
        "unit/base: delete call_limit", "x: " + "keep " * 13 + "text"]
BAD = {
    "Whose line kolo run writes": "not `module: imperative`",
    "Read again: a reducer dooms its own round": "not `module: imperative`",
    "tcp:bound the drain": "not `module: imperative`",
    'Revert "tcp: bound the drain"': "not `module: imperative`",
    "tests: one function compares a window": "'one' is no imperative",
    "tests: added a function": "'added' is no imperative",
    "tests: comparing windows": "'comparing' is no imperative",
    "tests: Compare windows": "'Compare': a small letter",
    "tests: compare windows.": "no full stop",
    "tests: compare windows; docs: say so": "one change",
    "x: " + "keep " * 13 + "texts": "73 characters",
}


def self_test():
    """Subjects, and repositories of its own: only commits after the base count, and each complaint names its commit."""
    failures = [f"complains about '{subject}'" for subject in GOOD if list(problems_of(subject))]
    failures += [f"accepts '{subject}'" for subject, expected in BAD.items() if expected not in " ".join(problems_of(subject))]
    with tempfile.TemporaryDirectory() as folder:
        full, shallow, plain = (str(pathlib.Path(folder) / name) for name in ("full", "shallow", "plain"))

        def commit(subject):
            git(full, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", subject)
            return git(full, "rev-parse", "HEAD").stdout.strip()

        def expect(repository, status, text):
            got = check(base, repository)
            if got[0] != status or text not in got[1]:
                failures.append(f"expected {status} with '{text}', got {got}")

        git(folder, "init", "-q", full)
        base = commit("Of another form")
        commit("tcp: bound the drain")
        expect(full, 0, "1 commits, 0 complaints")
        bad = commit("tcp: bounded the drain")
        expect(full, 1, f"{bad[:7]} tcp: bounded the drain: 'bounded' is no imperative")
        git(folder, "clone", "-q", "--depth=1", f"file://{full}", shallow)
        expect(shallow, 0, "does not reach back to")
        pathlib.Path(plain).mkdir()
        expect(plain, 0, "no git history here")
    print("\n".join(failures + ["self-test: " + ("FAILED" if failures else "all cases are right")]))
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        if not shutil.which("git"):
            print("git is not installed")
            return 77
        return self_test()
    status, text = check(*arguments)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
