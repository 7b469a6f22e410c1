#!/usr/bin/env python3
"""Ranks under an affinity mask: bound_ranks.py KOLO PROGRAM MPIRUN..., where PROGRAM prints what a rank knows of cores.
Ends with 77, which ctest takes for "skipped", where this process has less than two CPUs."""
import os
import re
import subprocess
import sys

PATIENCE = 60


def run(command, cpus, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    return subprocess.run(["taskset", "-c", cpus, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE, stdin=subprocess.DEVNULL, env={**environment, **variables})


def expect(name, result, *lines):
    found = re.findall(r"rank \d+: .*", result.stdout)
    right = result.returncode == 0 and sorted(found) == sorted(lines)
    print(f"{name}: {'ok' if right else f'status {result.returncode}, expected {lines}: {result.stdout}'}", flush=True)
    return right


def main(kolo, program, *mpirun):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return 77
    if " cores 1," in run([program], f"{cpus[0]},{cpus[1]}").stdout:
        return 77  # a CPU quota
    one, two = str(cpus[1]), f"{cpus[0]},{cpus[1]}"
    job = lambda ranks, *options: [kolo, "run", "-n", str(ranks), *options, "--", program]
    alone = f"rank 0: 1 from {one}, cores 1, threads 1"
    both = [f"rank {rank}: 1 from {one}, cores 1, threads 1" for rank in range(2)]
    own = [f"rank {rank}: 1 from {cpus[rank]}, cores 2, threads 1" for rank in range(2)]
    free = [f"rank {rank}: 2 from {cpus[0]}, cores 2, threads 1" for rank in range(2)]
    right = [
        expect("one rank on one core", run(job(1), one), alone),
        expect("two ranks on one core", run(job(2), one), *both),
        expect("two ranks on one core, bound", run(job(2, "--bind", "core"), one), *both),
        expect("a rank on each core", run(job(2), two), *own),
        expect("ranks on two cores, not bound", run(job(2, "--bind", "none"), two), *free),
        expect("the union of masks", run([*mpirun, "sh", "-c",
               f'exec taskset -c $(echo {two} | cut -d, -f$((OMPI_COMM_WORLD_RANK + 1))) {program}'], two), *own),
        expect("a process without a launcher", run([program], one), alone),
        expect("OMP_NUM_THREADS", run([program], two, OMP_NUM_THREADS="3,1"),
               f"rank 0: 2 from {cpus[0]}, cores 2, threads 3"),
        expect("OMP_NUM_THREADS that is invalid", run([program], two, OMP_NUM_THREADS="0"),
               f"rank 0: 2 from {cpus[0]}, cores 2, threads 2"),
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
