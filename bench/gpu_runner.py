"""Runs the parts of script/gpu-check, one after the other, whatever the ones before did."""
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time

FAILURE = re.compile(r"Failure|FAILED|[Ee]rror|ERROR SUMMARY|what\(\)|Traceback")
PATIENCE = 10  # seconds for a group to end
SHOWN = 25  # lines of a failed part's output: from its first failure on, and the last ones


@dataclasses.dataclass
class Result:
    name: str
    what: str
    status: str  # passed, failed, timed out, missing, skipped, not run
    seconds: float = 0.0
    why: str = ""
    figures: list = dataclasses.field(default_factory=list)  # the JSON lines that it wrote

    @property
    def passed(self):
        return self.status == "passed"

    @property
    def failed(self):
        """Has shown that something is wrong. What is neither passed nor failed has not been done."""
        return self.status in ("failed", "timed out", "missing")


def end_group(process):
    """All that the part has started, which is a group of its own: asked first, so that mpirun ends its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + PATIENCE
        try:
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return  # nobody is left


def figures_in(text):
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # a line of a log that happens to begin so
    return found


def excerpt(text):
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if FAILURE.search(line)), 0)
    last = max(first + SHOWN, len(lines) - SHOWN)
    gap = ["[...]"] if last > first + SHOWN else []
    return "\n".join([*lines[first:first + SHOWN], *gap, *lines[last:]])


def run_part(part, environment, log):
    """Its output goes to `log`, an open text file."""
    log.write(f"\n===== {part.name}: {' '.join(part.command)}\n")
    log.flush()
    if part.tool and shutil.which(part.command[0]) is None:
        log.write(f"skipped: {part.tool} is not there\n")
        return Result(part.name, part.what, "skipped", why=f"{part.tool} is not there")
    begin = time.monotonic()
    result = Result(part.name, part.what, "passed")
    at = log.tell()
    try:
        process = subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   env={**environment, **part.environment}, start_new_session=True)
    except OSError as error:
        result.status, result.why = "missing", str(error)
    else:
        try:
            status = process.wait(timeout=part.seconds)
            if status != 0:
                result.status, result.why = "failed", f"status {status}"
        except subprocess.TimeoutExpired:
            end_group(process)
            result.status, result.why = "timed out", f"not over after {part.seconds} s"
    result.seconds = round(time.monotonic() - begin, 1)
    log.flush()
    with open(log.name, encoding="utf-8", errors="replace") as file:
        file.seek(at)
        text = file.read()
    log.seek(0, os.SEEK_END)  # where the part stopped writing
    if part.figures:
        result.figures = figures_in(text)
        if result.passed and not result.figures:
            result.status, result.why = "failed", "it wrote no figures"
    if not result.passed:
        print(f"----- {part.name}: {result.why}")
        print(excerpt(text), flush=True)
    return result


def run_parts(parts, environment, log, budget, done):
    """Calls `done` with all results so far after each part. Parts that would begin after `budget` seconds are not run."""
    begin = time.monotonic()
    results = []
    for part in parts:
        if time.monotonic() - begin >= budget:
            results.append(Result(part.name, part.what, "not run", why=f"the {budget:.0f} s for all parts were over"))
        else:
            print(f"{part.name}: {part.what}", flush=True)
            results.append(run_part(part, environment, log))
            last = results[-1]
            print(f"{part.name}: {last.status}" + (f": {last.why}" if last.status == "skipped" else f" in {last.seconds} s"),
                  flush=True)
        done(results)
    return results
