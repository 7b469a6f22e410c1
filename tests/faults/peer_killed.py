#!/usr/bin/env python3
"""Kills one rank at given points and hears all others: peer_killed.py PROGRAM RANKS VICTIM|all POINT,... MPIRUN...

mpirun's own status says nothing when a rank was killed on purpose: what the survivors print decides, and that mpirun ends
at all, which it does when every survivor has ended.
"""
import re
import subprocess
import sys
import time

LIMIT = 75  # seconds a launch; the ranks end themselves before
SLOW = 40  # seconds; survivors hear of it within 15, and ending must not take much longer


def launch(command):
    """What the ranks printed, or None when they did not end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        return process.communicate(timeout=LIMIT)[0], True
    except subprocess.TimeoutExpired:
        process.terminate()  # mpirun ends its ranks
        try:
            text = process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0]
        return text, False


def complaint(text, ended, ranks, victim):
    said = dict(re.findall(r"survivor (\d+): (.*)", text))
    for rank in range(ranks):
        expected = "ok" if rank != victim else None
        if said.get(str(rank)) != expected:
            return f"rank {rank} said {said.get(str(rank))}, expected {expected}"
    if "Sanitizer" in text:
        return "a sanitizer has something to say"
    return None if ended else f"not over after {LIMIT} s"


def kill(program, ranks, point, victim, mpirun):
    """Whether all went as it must."""
    begin = time.monotonic()
    text, ended = launch([*mpirun, "--enable-recovery", "-np", str(ranks), program, point, str(victim)])
    wrong = complaint(text, ended, ranks, victim)
    spent = time.monotonic() - begin
    if wrong is None and spent > SLOW:
        wrong = f"took {spent:.0f} s"
    print(f"{point}, rank {victim} of {ranks}: {wrong or 'ok'} ({spent:.1f} s)")
    if wrong is not None:
        print(text)
    return wrong is None


def main(program, ranks, victims, points, *mpirun):
    ranks = int(ranks)
    chosen = range(ranks) if victims == "all" else [int(victims)]
    results = [kill(program, ranks, point, victim, mpirun) for point in points.split(",") for victim in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
