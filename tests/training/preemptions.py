#!/usr/bin/env python3
"""Jobs that are killed during checkpoints, and jobs that are preempted, resume: preemptions.py KOLO PROGRAM [options].

kills        SIGKILL of a random rank or of all, at a random moment: no checkpoint is torn, and the next job resumes from
             the newest one.
preemptions  SIGTERM, SIGUSR1 or SIGUSR2 to a random rank, or a signal to `kolo run`: exit status 75, a checkpoint of the
             step at which the ranks stopped, and at the end the weights of a job without interruptions.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

STOPPED = 75
SECONDS = 60  # for each job


class Job:
    def __init__(self, arguments, folder, ranks, steps, every):
        command = [arguments.kolo, "run", "-n", str(ranks), "--quiet", "--no-prefix", "--grace", "20s", "--",
                   arguments.program, folder, str(steps), str(every)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.ranks, self.pids, self.text = ranks, [], ""

    def read_until(self, begin):
        """Reads lines until one begins so, and returns its number; None at the end."""
        for line in self.process.stdout:
            self.text += line
            if line.startswith("pid "):
                self.pids.append(int(line.split()[1]))
            if line.startswith(begin):
                return int(line.split()[1])
        return None

    def end(self):
        try:
            rest, _ = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit(f"a job did not end within {SECONDS} s:\n{self.text}")
        self.text += rest
        return self.process.returncode


def newest(arguments, folder):
    """The step of the newest checkpoint; 0 without one. All must be undamaged."""
    if not any(name.startswith("checkpoint-") for name in os.listdir(folder)):
        return 0
    for command in ("verify", "list"):
        done = subprocess.run([arguments.kolo, "checkpoint", command, folder, *(["--json"] if command == "list" else [])],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"a checkpoint is torn:\n{done.stdout}{done.stderr}")
    return max(json.loads(line)["step"] for line in done.stdout.splitlines())


def start(arguments, folder, ranks, steps, every, at_least):
    """A job that has restored."""
    job = Job(arguments, folder, ranks, steps, every)
    restored = job.read_until("restored ")
    if restored is None:
        job.end()
        sys.exit(f"a job did not start:\n{job.text}")
    if restored < at_least:
        sys.exit(f"restored step {restored}, but a checkpoint of step {at_least} was complete:\n{job.text}")
    return job


def weights_of(text):
    return re.search(r"^weights (\d+) (\w+)", text, re.M)


def uninterrupted(arguments, ranks, steps):
    with tempfile.TemporaryDirectory() as folder:
        job = start(arguments, folder, ranks, steps, 1_000_000, 0)
        if job.end() != 0:
            sys.exit(f"the uninterrupted job failed:\n{job.text}")
        return weights_of(job.text).group(2)


def finish_and_compare(arguments, folder, ranks, done):
    steps = done + 20
    job = start(arguments, folder, ranks, steps, 1_000_000, done)
    if job.end() != 0:
        sys.exit(f"the last job failed:\n{job.text}")
    found, expected = weights_of(job.text).group(2), uninterrupted(arguments, ranks, steps)
    if found != expected:
        sys.exit(f"weights after {steps} steps on {ranks} ranks: {found}, without interruptions {expected}")


def kills(arguments, rng):
    with tempfile.TemporaryDirectory() as folder:
        ranks, done, torn = 3, 0, 0
        for _ in range(arguments.kills):
            job = start(arguments, folder, ranks, 10_000_000, 7, done)
            time.sleep(rng.uniform(0.02, 0.6))
            for pid in job.pids if rng.random() < 0.5 else [rng.choice(job.pids)]:
                os.kill(pid, signal.SIGKILL)
            job.end()
            torn += any(name.startswith(".tmp-") for name in os.listdir(folder))
            done = newest(arguments, folder)
        finish_and_compare(arguments, folder, ranks, done)
        print(f"{arguments.kills} kills, {torn} of them during a write: step {done}")


def preempt(job, rng):
    if rng.random() < 0.3:
        job.process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]))
    else:
        os.kill(rng.choice(job.pids), rng.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]))


def preemptions(arguments, rng):
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            done = 0
            for _ in range(arguments.preemptions):
                job = start(arguments, folder, ranks, 10_000_000, 50, done)
                time.sleep(rng.uniform(0, 0.4))
                preempt(job, rng)
                status = job.end()
                stopped = re.search(r"^stopped (\d+)", job.text, re.M)
                if status != STOPPED or not stopped:
                    sys.exit(f"exit status {status}, expected {STOPPED}:\n{job.text}")
                done = newest(arguments, folder)
                if done != int(stopped.group(1)):
                    sys.exit(f"stopped at step {stopped.group(1)}, the newest checkpoint is of step {done}")
            finish_and_compare(arguments, folder, ranks, done)
            print(f"{arguments.preemptions} preemptions of {ranks} ranks: step {done}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kolo")
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--preemptions", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kills(arguments, rng)
    preemptions(arguments, rng)


if __name__ == "__main__":
    main()
