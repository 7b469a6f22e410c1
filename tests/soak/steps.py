#!/usr/bin/env python3
"""Runs soak.steps and judges whether it stayed flat.

    steps.py --programs build/release/bin --state build/soak [--minutes M | --steps N] [--ranks R] [--sample SECONDS]
             [--trainer]

Each rank samples itself: memory resident and on the heap, open files, mappings, page faults a step, and the median time
of a step. With --trainer it is the reference trainer, with a tiny network and made-up images, and this script looks at
its processes from outside. The first half of the samples is warming up. In the second half the linear trend (the median of the slopes of
all pairs of samples, which a few disturbed ones do not move) must stay within the bounds below: what is multiplied by
the half's length is how much more there is at the end than in the middle. Prints a table and writes steps.json beside
the samples; exit status 1 when something grew."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# By metric: growth over the second half that is allowed, as a part of the mean and in the metric's own unit.
BOUNDS = {
    "rss_kib": (0.01, 256),
    "heap_kib": (0.01, 32),
    "files": (0, 0.5),
    "mappings": (0, 2),
    "faults_per_step": (0.1, 0.5),
    "step_us": (0.15, 20),  # on a machine that does nothing else
}
FEWEST = 8  # samples in the half that is judged


def trend(xs, ys):
    slopes = [(ys[j] - ys[i]) / (xs[j] - xs[i])
              for i in range(len(xs)) for j in range(i + 1, len(xs)) if xs[j] > xs[i]]
    return statistics.median(slopes) if slopes else 0.0


def judge(samples):
    """Rows of (metric, first, mean, growth, allowed, fine) over the second half of one rank's samples."""
    half = samples[len(samples) // 2:]
    if len(half) < FEWEST:
        raise SystemExit(f"[soak] FAILED: {len(samples)} samples are too few to judge: run longer, or sample more often")
    seconds = [sample["seconds"] for sample in half]
    rows = []
    for metric, (part, absolute) in BOUNDS.items():
        if metric not in half[0]:
            continue
        values = [sample[metric] for sample in half]
        mean = statistics.fmean(values)
        growth = trend(seconds, values) * (seconds[-1] - seconds[0])
        if metric == "files":  # a count: any that stays counts
            growth = max(growth, statistics.fmean(values[-3:]) - statistics.fmean(values[:3]))
        allowed = part * mean + absolute
        rows.append((metric, samples[0][metric], mean, growth, allowed, growth <= allowed))
    return rows


def report(folder, ranks):
    """Prints the table, writes steps.json; true if all is flat."""
    flat, result = True, []
    print(f"\n| rank | metric | first sample | mean of 2nd half | growth in 2nd half | allowed | |\n|{'---|' * 7}")
    for rank in range(ranks):
        with open(os.path.join(folder, f"rank-{rank}.jsonl")) as file:
            samples = [json.loads(line) for line in file]
        for metric, first, mean, growth, allowed, fine in judge(samples):
            print(f"| {rank} | {metric} | {first:.6g} | {mean:.6g} | {growth:+.4g} | {allowed:.4g} | "
                  f"{'flat' if fine else 'GREW'} |")
            result.append({"rank": rank, "metric": metric, "first": first, "mean": mean, "growth": growth,
                           "allowed": allowed, "flat": fine})
            flat = flat and fine
        result.append({"rank": rank, "steps": samples[-1]["steps"], "seconds": samples[-1]["seconds"],
                       "samples": len(samples)})
        print(f"| {rank} | steps | {samples[-1]['steps']} in {samples[-1]['seconds']:.0f} s | | | | |")
    with open(os.path.join(folder, "steps.json"), "w") as file:
        json.dump(result, file, indent=1)
    print(f"\n[soak] {'PASSED: flat' if flat else 'FAILED: something grew'} ({folder}/steps.json)")
    return flat


def ranks_of(job, program):
    """The processes of `program` below the process `job`, by rank."""
    found, below = {}, {job}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent not in below:
                continue
            below.add(pid)
            if os.readlink(f"/proc/{pid}/exe") == program:
                with open(f"/proc/{pid}/environ") as file:
                    variables = dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)
                found[int(variables["OMPI_COMM_WORLD_RANK"])] = pid
        except (OSError, KeyError):
            continue  # ended meanwhile
    return found


def look_at(pid):
    with open(f"/proc/{pid}/statm") as file:
        resident = int(file.read().split()[1])
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/maps") as file:
        mappings = sum(1 for _ in file)
    return {"rss_kib": resident * os.sysconf("SC_PAGESIZE") // 1024, "files": len(os.listdir(f"/proc/{pid}/fd")),
            "mappings": mappings, "faults": int(fields[7]) + int(fields[9])}


def watch_trainer(job, program, folder, interval):
    """Samples the trainer's ranks until it ends. Steps and their times are those of its own JSON lines."""
    start, before, lines, rest = time.monotonic(), {}, None, ""
    path = os.path.join(folder, "trainer.jsonl")
    while job.poll() is None:
        time.sleep(interval)
        if lines is None and os.path.exists(path):
            lines = open(path)
        *text, rest = (rest + (lines.read() if lines else "")).split("\n")  # the last line may be half written
        steps = [line for line in map(json.loads, text) if line["kind"] == "step"]
        if not steps:
            continue
        for rank, pid in ranks_of(job.pid, program).items():
            try:
                sample = look_at(pid)
            except OSError:
                continue
            last = before.get(rank)
            before[rank] = (sample["faults"], steps[-1]["step"])
            if last is None or steps[-1]["step"] == last[1]:
                continue
            sample.update(seconds=time.monotonic() - start, steps=steps[-1]["step"],
                          faults_per_step=(sample.pop("faults") - last[0]) / (steps[-1]["step"] - last[1]),
                          step_us=statistics.median(1000 * step["step_ms"] for step in steps))
            with open(os.path.join(folder, f"rank-{rank}.jsonl"), "a") as file:
                file.write(json.dumps(sample) + "\n")
    return job.returncode


def trainer_command(arguments, folder):
    program = os.path.realpath(os.path.join(arguments.programs, "imagenet_resnet50"))
    return program, [program, "--arch", "resnet18", "--image-size", "32", "--batch", "2", "--data", "synthetic:host",
                     "--classes", "10", "--threads", "1", "--workers", "1", "--log-interval", "1", "--epochs", "100000",
                     "--synthetic-images", str(2000 * arguments.ranks), "--steps", str(arguments.steps or 0),
                     "--json", os.path.join(folder, "trainer.jsonl")]


def run_trainer(arguments, folder, mpirun, environment):
    program, command = trainer_command(arguments, folder)
    print("[soak]", " ".join(mpirun + command), flush=True)
    with open(os.path.join(folder, "trainer.log"), "w") as log:
        limit = [] if arguments.steps else ["timeout", "--signal=TERM", str(arguments.minutes * 60)]
        job = subprocess.Popen(limit + mpirun + command, env=environment, stdout=log, stderr=log)
        try:
            status = watch_trainer(job, program, folder, arguments.sample)
        finally:
            job.terminate()
    ended_by_time = not arguments.steps and status == 124
    return 0 if ended_by_time else status


def train(arguments, folder):
    """Runs the program; its exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    seconds = 0 if arguments.steps else arguments.minutes * 60
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(arguments.ranks)]
    if arguments.trainer:
        return run_trainer(arguments, folder, mpirun, environment)
    command = mpirun + [os.path.join(arguments.programs, "soak.steps"), folder, str(arguments.steps or 0), str(seconds),
                        str(arguments.sample)]
    print("[soak]", " ".join(command), flush=True)
    return subprocess.run(command, env=environment).returncode


def run(arguments):
    folder = os.path.join(arguments.state, "steps")
    status = train(arguments, folder)
    if status != 0:
        print(f"[soak] FAILED: exit status {status}")
        return 1
    return 0 if report(folder, arguments.ranks) else 1


def self_test(arguments):
    """A few seconds of the real program, however many steps that is; then made-up samples, of which each leak must be
    found."""
    arguments.state = tempfile.mkdtemp()
    arguments.steps, arguments.minutes, arguments.sample, arguments.ranks, arguments.trainer = None, 0.1, 0.02, 2, False
    try:
        folder = os.path.join(arguments.state, "steps")
        assert train(arguments, folder) == 0
        report(folder, arguments.ranks)  # seconds are no soak: only that it runs, checks its results and is sampled
        flat = dict(rss_kib=30000, heap_kib=9000, files=40, mappings=200, faults_per_step=0.1, step_us=300)
        samples = [dict(flat, seconds=10 * i, steps=1000 * i) for i in range(40)]
        assert all(row[-1] for row in judge(samples))
        for metric, slope in (("rss_kib", 40), ("heap_kib", 10), ("files", 0.1), ("mappings", 0.3),
                              ("faults_per_step", 0.1), ("step_us", 5)):
            leaking = [dict(sample, **{metric: flat[metric] + slope * i}) for i, sample in enumerate(samples)]
            assert [row[0] for row in judge(leaking) if not row[-1]] == [metric], metric
    finally:
        shutil.rmtree(arguments.state)
    print("self-test: PASSED")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, help="where soak.steps is")
    parser.add_argument("--state", required=True, help="folder for the samples")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sample", type=float, default=10, help="seconds between samples")
    parser.add_argument("--trainer", action="store_true", help="the reference trainer instead of soak.steps")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    return self_test(arguments) if arguments.self_test else run(arguments)


if __name__ == "__main__":
    sys.exit(main())
