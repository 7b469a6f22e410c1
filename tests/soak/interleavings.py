#!/usr/bin/env python3
"""Tries seeds of random interleavings, several processes at a time, and goes on where it was interrupted.

    interleavings.py --programs build/release/bin --state build/soak [--kind negotiation|programs|devices]
                     [--seeds N] [--from SEED] [--jobs N]

Three kinds: `negotiation`, the named channel's messages in one thread (a million seeds by default), `programs`, random
programs on the real engine with threads as ranks (20,000), and `devices`, schedules of simulated devices under training
steps (10,000). The state file holds, for each kind, the first seed
that has not been tried; --from starts elsewhere and leaves the file alone. The first seed that fails ends the run with
status 1 and the command that repeats it."""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

SEEDS = {"negotiation": 1_000_000, "programs": 20_000, "devices": 10_000}
CHUNK = {"negotiation": 5_000, "programs": 50, "devices": 25}  # a second or two
PATIENCE = 600  # seconds for a chunk: beyond it hangs


def say(text):
    print(f"[soak] {text}", flush=True)


class State:
    """The first seed of each kind that has not been tried, on disk."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "interleavings.json")
        try:
            with open(self.path) as file:
                self.next = json.load(file)
        except FileNotFoundError:
            self.next = {}

    def save(self, kind, seed):
        self.next[kind] = seed
        with open(self.path + ".tmp", "w") as file:
            json.dump(self.next, file)
        os.replace(self.path + ".tmp", self.path)


def try_chunk(program, first, count):
    """None, or what failed."""
    try:
        done = subprocess.run([program, str(first), str(count)], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{program} {first} {count} has not ended after {PATIENCE} s"
    if done.returncode == 0:
        return None
    failed = re.search(r"^FAILED seed (\d+)$", done.stdout, re.MULTILINE)
    repeat = f"{program} {failed.group(1)} 1" if failed else f"{program} {first} {count}"
    return f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nexit status {done.returncode}; to repeat it: {repeat}"


def run(kind, program, first, end, jobs, passed):
    """Tries the seeds from `first` to `end`; calls passed(seed) as all before `seed` have been tried. True if none failed."""
    start, said, done, next_chunk = time.monotonic(), 0.0, first, first
    finished, running = {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while done < end:
            while next_chunk < end and len(running) < jobs:
                count = min(CHUNK[kind], end - next_chunk)
                running[pool.submit(try_chunk, program, next_chunk, count)] = (next_chunk, count)
                next_chunk += count
            ready, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                chunk, count = running.pop(future)
                if future.result() is not None:
                    say(future.result())
                    return False
                finished[chunk] = count
            while done in finished:
                done += finished.pop(done)
            passed(done)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                say(f"{kind}: seeds {first} to {done} of {end}, {(done - first) / (said - start + 1e-9):.0f} a second")
    say(f"{kind}: PASSED, {end - first} seeds from {first} in {time.monotonic() - start:.1f} s")
    return True


def soak(arguments):
    state = State(arguments.state)
    for kind in [arguments.kind] if arguments.kind else list(SEEDS):
        program = os.path.join(arguments.programs, f"soak.{kind}")
        seeds = arguments.seeds or SEEDS[kind]
        if arguments.start is not None:
            first, end, passed = arguments.start, arguments.start + seeds, lambda seed: None
        else:
            first, end = state.next.get(kind, 0), seeds
            passed = lambda seed, kind=kind: state.save(kind, seed)
            if first >= end:
                say(f"{kind}: the state file says that all {end} seeds have passed; --from 0 tries them again")
        if first < end and not run(kind, program, first, end, arguments.jobs, passed):
            return 1
    return 0


def self_test(arguments):
    """Few real seeds; then that a run is resumed, and that a failing seed is found and named."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, seeds in (("negotiation", 2000), ("programs", 20), ("devices", 10)):
            assert run(kind, os.path.join(arguments.programs, f"soak.{kind}"), 0, seeds, 2, lambda seed: None)
        program = os.path.join(folder, "soak.negotiation")
        with open(program, "w") as file:  # fails at 12345
            file.write("#!/bin/sh\nif [ $1 -le 12345 ] && [ $(($1 + $2)) -gt 12345 ]; then "
                       "echo 'FAILED seed 12345'; exit 1; fi\n")
        os.chmod(program, 0o755)
        arguments.programs, arguments.state = folder, os.path.join(folder, "state")
        arguments.kind, arguments.seeds, arguments.start, arguments.jobs = "negotiation", 12_000, None, 2
        assert soak(arguments) == 0 and State(arguments.state).next == {"negotiation": 12_000}
        arguments.seeds = 20_000
        assert soak(arguments) == 1
        left = State(arguments.state).next["negotiation"]
        assert 12_000 <= left <= 12_345, left
        failure = try_chunk(program, 12_000, 5_000)
        assert failure.endswith(f"to repeat it: {program} 12345 1"), failure
        arguments.start, arguments.seeds = 12_346, 5_000
        assert soak(arguments) == 0 and State(arguments.state).next["negotiation"] == left
    say("self-test: PASSED")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, help="where soak.negotiation and the others are")
    parser.add_argument("--state", required=True, help="folder of the state file")
    parser.add_argument("--kind", choices=list(SEEDS))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--from", dest="start", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    return self_test(arguments) if arguments.self_test else soak(arguments)


if __name__ == "__main__":
    sys.exit(main())
