#!/usr/bin/env python3
"""Ranks that wait for one that does not create a Context: late_ranks.py PROGRAM MPIRUN..., which starts three ranks. The
warnings name the rank; when it comes, all go on."""
import os
import re
import subprocess
import sys
import tempfile
import threading

PATIENCE = 90
CREATE = r"stall: waited_ms=\d+: {}Context::create\(\): waiting for rank 2, which has not called it\. .*Context::create_over\(\)"
OVER = (r"stall: waited_ms=\d+: Context::create_over\(\): waiting for rank 1 of the communicator \(rank 2 of MPI_COMM_WORLD\), which "
        "has not called it")
CASES = {"before": (CREATE.format("MPI_Init of "), {0, 1}, 3), "after": (CREATE.format(""), {0, 1}, 3),
         "second": (CREATE.format(""), {0, 1}, 3), "over": (OVER, {0}, 2)}


def run(program, mpirun, kind):
    """What was wrong. Writes to the late rank's FIFO when all others have warned twice."""
    wanted, waiting, ranks = CASES[kind]
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        process = subprocess.Popen([*mpirun, program, kind, fifo], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   stdin=subprocess.DEVNULL, env={**os.environ, "KOLO_STALL_WARNING": "1s"})
        killer = threading.Timer(PATIENCE, process.kill)
        killer.start()
        lines, warned = [], {rank: 0 for rank in waiting}
        released = False
        for line in process.stdout:
            lines.append(line)
            found = re.match(r"warning of (\d): (.*)", line)
            if found and re.search(wanted, found[2]):
                warned[int(found[1])] = warned.get(int(found[1]), 0) + 1
            if not released and all(count >= 2 for count in warned.values()):
                with open(fifo, "w") as rank:
                    rank.write("\n")
                released = True
        killer.cancel()
        status = process.wait()
    total = f"sum {ranks * (ranks + 1) // 2}\n"
    problems = [] if status == 0 else [f"status {status}"]
    problems += [] if set(warned) == waiting and released else [f"warnings: {warned}"]
    problems += [] if lines.count(total) == ranks else [f"not {ranks} times {total}"]
    return problems + (["".join(lines)] if problems else [])


def main(program, *mpirun):
    failures = 0
    for kind in CASES:
        problems = run(program, mpirun, kind)
        failures += bool(problems)
        print(f"{kind}: {'; '.join(problems) or 'ok'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
