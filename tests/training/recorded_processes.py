#!/usr/bin/env python3
"""A program of two processes whose steps are recorded: recorded_processes.py PROGRAM MPIRUN... The program is
first_program, which knows nothing of it and takes 200 steps."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 200
PARTS = ("before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us")
MISSING = "No such file or directory"


class Run:
    """What two ranks printed and left in `folder`, with these settings."""

    def __init__(self, command, folder, **settings):
        environment = {**os.environ, **{"KOLO_" + name.upper(): str(value) for name, value in settings.items()}}
        self.folder = pathlib.Path(folder)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                              stdin=subprocess.DEVNULL, timeout=100)
        self.status, self.text = done.returncode, done.stdout

    def lines(self, name):
        with open(self.folder / name) as file:
            return [json.loads(line) for line in file]

    def trace(self, name):
        with open(self.folder / name) as file:
            return json.load(file)

    def times(self, words):
        return self.text.count(words)


def nanoseconds(line, field):
    return round(1000 * line[field])


def problems_of_steps(steps, rank):
    """Of the lines of one run."""
    if [step["step"] for step in steps] != list(range(1, STEPS + 1)):
        yield f"rank {rank}: steps {[step['step'] for step in steps]}"
    for last, step in zip(steps, steps[1:]):
        if nanoseconds(step, "start_us") != nanoseconds(last, "start_us") + nanoseconds(last, "step_us"):
            yield f"rank {rank}: step {step['step']} does not begin where the last one ends"
    for step in steps:
        if sum(nanoseconds(step, part) for part in PARTS) != nanoseconds(step, "step_us"):
            yield f"rank {rank}: the parts do not add up: {step}"
        if not 0 <= nanoseconds(step, "exposed_us") <= nanoseconds(step, "communication_us"):
            yield f"rank {rank}: exposed and communication: {step}"


def both_files(command, folder):
    """Twice: the step log is appended to, and the timeline is replaced."""
    for runs in (1, 2):
        run = Run(command, folder, step_log=f"{folder}/steps", timeline=f"{folder}/trace")
        if run.status != 0:
            yield f"status {run.status}: {run.text}"
            return
        for rank in (0, 1):
            lines = run.lines(f"steps.rank{rank}.jsonl")
            heads = [line for line in lines if line["kind"] == "step_log"]
            if [(head["rank"], head["size"], head["clock_offset_us"]) for head in heads] != [(rank, 2, 0)] * runs:
                yield f"heads: {heads}"
            yield from problems_of_steps([line for line in lines if line["kind"] == "step"][-STEPS:], rank)
            if len(lines) != runs * (1 + STEPS):
                yield f"rank {rank}: {len(lines)} lines after {runs} runs"
            spans = [event["name"] for event in run.trace(f"trace.rank{rank}.json") if event["ph"] == "X"]
            if spans.count("reduction") < STEPS or spans.count("optimizer") != STEPS:
                yield f"rank {rank}: {spans.count('reduction')} reductions, {spans.count('optimizer')} updates"


def missing_folder(command, folder):
    for setting, file in (("step_log", "x.rank0.jsonl"), ("timeline", "x.rank0.json")):
        run = Run(command, folder, **{setting: f"{folder}/missing/x"})
        if run.status == 0 or run.times(f"{folder}/missing/{file}: {MISSING}") != 2 or run.times("rank 0: ") != 2:
            yield f"{setting}: status {run.status}, not twice the path and rank 0: {run.text}"


def file_of_one_rank(command, folder):
    for setting, file in (("step_log", "one.rank1.jsonl"), ("timeline", "one.rank1.json")):
        os.mkdir(f"{folder}/{file}")
        run = Run(command, folder, **{setting: f"{folder}/one"})
        if run.status == 0 or run.times(f"{folder}/{file}: Is a directory") != 2 or run.times("rank 1: ") != 2:
            yield f"{setting}: status {run.status}, not twice the path and rank 1: {run.text}"


def full_disk(command, folder):
    for file in ("full.rank0.jsonl", "full.rank0.json"):
        os.symlink("/dev/full", f"{folder}/{file}")
    run = Run(command, folder, step_log=f"{folder}/full", timeline=f"{folder}/full")
    if run.status != 0 or run.times("No space left on device") != 2 or run.times("state=ended") != 2:
        yield f"status {run.status}, not one warning for each file: {run.text}"
    yield from problems_of_steps(run.lines("full.rank1.jsonl")[1:], 1)


def without_reduction(command, folder):
    run = Run(command, folder, step_log=f"{folder}/alone", sync="off")
    if run.status != 0 or run.times("sync=off") != 1:
        yield f"status {run.status}, not one warning: {run.text}"
    for rank in (0, 1):
        head, *steps = run.lines(f"alone.rank{rank}.jsonl")
        if head["size"] != 2 or head["facts"].get("KOLO_SYNC") != "off":
            yield f"head: {head}"
        yield from problems_of_steps(steps, rank)
        if any(step["reductions"] for step in steps):
            yield f"rank {rank} reduced gradients"


def main(program, *mpirun):
    command, failures = [*mpirun, "-np", "2", program], 0
    for case in (both_files, missing_folder, file_of_one_rank, full_disk, without_reduction):
        with tempfile.TemporaryDirectory() as folder:
            problems = list(case(command, folder))
        failures += bool(problems)
        print(f"{case.__name__}: {'; '.join(problems[:5]) or 'ok'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
