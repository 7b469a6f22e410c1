#!/usr/bin/env python3
"""Harms a world of ranks and hears what each live one makes of it: world_faults.py PROGRAM one|hosts MPIRUN...

"one" runs on this host, "hosts" on emulated ones (script/cluster), which it makes and takes away. What the ranks print
decides; mpirun's status says nothing once a rank is lost, and after a lost host mpirun does not end by itself at all.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HOSTS = Path(__file__).resolve().parent.parent.parent / "script" / "cluster"
LIMIT = 60  # seconds a case
SOON = 5000  # milliseconds from a death to its error elsewhere; a few on a machine that has time
SHORT = 3  # seconds: the deadline of ranks that wait for an idle one
PAUSE = 8  # seconds: how long a rank is stopped that is not to be lost
SILENCE = 3000  # milliseconds of silence until a rank counts as lost, in the cases that need it


class Job:
    """A launch, and the lines of its ranks as they come."""

    def __init__(self, command, silence=None):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", KOLO_LOG_LEVEL="error")
        if silence:
            environment["KOLO_MONITOR_TIMEOUT"] = f"{silence}ms"
        self.lines, self.changed, self.begin = [], threading.Condition(), time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                        start_new_session=True)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())
                self.changed.notify_all()

    def find(self, pattern):
        return [match for match in (re.search(pattern, line) for line in self.lines) if match]

    def wait_for(self, pattern, count=1):
        """The matches of `count` lines; an AssertionError after LIMIT."""
        with self.changed:
            there = self.changed.wait_for(lambda: len(self.find(pattern)) >= count, LIMIT - (time.monotonic() - self.begin))
            assert there, f"{len(self.find(pattern))} of {count} lines like '{pattern}'"
            return self.find(pattern)

    def end(self):
        """Whether it ended by itself."""
        try:
            self.process.wait(timeout=8)
            return True
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
            return False


def expect_survivors(job, victim, live, harmed, limit):
    """Every live rank names the victim in time, and all agree on the same list."""
    waits = []
    for rank in live:
        lost = job.wait_for(rf"^rank {rank}: lost {victim} at (\d+)")[0]
        waits.append(int(lost.group(1)) - harmed)
        job.wait_for(rf"^rank {rank}: survivors {' '.join(map(str, live))} after")
    assert max(waits) < limit, f"heard of after {waits} ms"
    return waits


def harmed_at(job, victim):
    match = job.wait_for(rf"^rank {victim}: harmed at (\d+) process (\d+)")[0]
    return int(match.group(1)), int(match.group(2))


def dies(launch, ranks, how, who, what):
    """One rank after the other goes; those left begin anew each time and are right."""
    job = launch(ranks, how, ",".join(map(str, who)), what)
    live, waits = list(range(ranks)), []
    for victim in who:
        live.remove(victim)
        waits += expect_survivors(job, victim, live, harmed_at(job, victim)[0], SOON)
    for rank in live:
        job.wait_for(rf"^rank {rank}: ok$")
    return job, waits


def stops(launch, ranks, victim, what, fenced):
    """A stopped rank is silent: the others go on, and it is ended, or finds itself given up when it wakes."""
    job = launch(ranks, "stop", str(victim), what, silence=SILENCE)
    harmed, process = harmed_at(job, victim)
    live = [rank for rank in range(ranks) if rank != victim]
    waits = expect_survivors(job, victim, live, harmed, SILENCE + SOON)
    for rank in live:
        job.wait_for(rf"^rank {rank}: ok$")
    if fenced:
        assert ends(process, 0.1), "it lives"
    else:
        os.kill(process, signal.SIGCONT)
        job.wait_for(rf"^rank {victim}: lost {victim} at .* have excluded this rank")
    assert not job.find(rf"^rank {victim}: (ok|survivors)"), "the stopped rank went on"
    return job, waits


def process_of(job, rank):
    for process in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if os.getsid(process) == job.process.pid and f"OMPI_COMM_WORLD_RANK={rank}".encode() in words:
                return process
        except (OSError, ProcessLookupError):
            pass
    raise AssertionError(f"no process of rank {rank}")


def pauses(launch, ranks, stopped, victim, what):
    """A rank dies while another is stopped, for longer than a host takes to refuse a call: that one is waited for."""
    job = launch(ranks, "stay", str(victim), what)
    process = harmed_at(job, victim)[1]
    sleeper = process_of(job, stopped)
    os.kill(sleeper, signal.SIGSTOP)
    harmed = time.time() * 1000
    os.kill(process, signal.SIGKILL)
    assert not ends(sleeper, PAUSE), "the stopped rank has been ended"
    os.kill(sleeper, signal.SIGCONT)
    live = [rank for rank in range(ranks) if rank != victim]
    waits = expect_survivors(job, victim, live, harmed, PAUSE * 1000 + SOON)
    for rank in live:
        job.wait_for(rf"^rank {rank}: ok$")
    return job, waits


def idles(launch, ranks, victim, what, how="idle"):
    """A rank lives and never comes: the others' deadline passes, and then they end, though MPI would wait for it."""
    job = launch(ranks, how, str(victim), what)
    idle = harmed_at(job, victim)[1]
    for rank in range(ranks):
        if rank != victim:
            process = int(job.wait_for(rf"^rank {rank}: error: process (\d+): .*\brank {victim}\b")[0].group(1))
            assert ends(process, SHORT + SOON / 1000), f"rank {rank} does not end"
            job.wait_for(rf"\bprocess {process}: MPI_Finalize did not return within \d+ ms")
    os.kill(idle, signal.SIGKILL)
    return job, []


def idles_alone(launch, ranks, victim, what):
    """The same under an mpirun that ends the job with the first rank that ends: so it must come to that."""
    job = launch(ranks, "idle", str(victim), what)
    harmed_at(job, victim)
    assert ends(job.process.pid, LIMIT), "mpirun does not end"
    job.process.wait()
    assert job.find(r"^rank \d: error: "), "no rank has seen anything"
    assert job.process.returncode != 0, "mpirun says that all is well"
    return job, []


def leaves(launch, ranks, victim, what):
    """One calls exit(0) within its Context: the others hear of it as of any other leave, and everybody ends."""
    job = launch(ranks, "leave", str(victim), what)
    harmed, waits = harmed_at(job, victim)[0], []
    for rank in range(ranks):
        if rank != victim:
            lost = job.wait_for(rf"^rank {rank}: lost {victim} at (\d+) .*: .*rank {victim} has shut down its Context")[0]
            waits.append(int(lost.group(1)) - harmed)
    assert max(waits) < SOON, f"heard of after {waits} ms"
    assert ends(job.process.pid, LIMIT), "mpirun does not end"
    return job, waits


def all_leave(launch, ranks, what):
    """All call exit(0) within their Context, and have nothing else to do: that is the end of a healthy job."""
    job = launch(ranks, "all_leave", "0", what)
    assert ends(job.process.pid, LIMIT), "mpirun does not end"
    assert job.process.wait() == 0, f"mpirun's status is {job.process.returncode}"
    assert len(job.find(r"^rank \d: harmed")) == ranks and not job.find(r"^rank \d: (lost|error)"), "somebody complains"
    return job, []


def comes_late(launch, ranks, victim, what):
    """Nobody is lost: those who are done wait in MPI_Finalize for the last one, however long that takes."""
    job = launch(ranks, "late", str(victim), what)
    assert ends(job.process.pid, LIMIT), "mpirun does not end"
    job.process.wait()
    assert len(job.find(r"^rank \d: ends in order$")) == ranks, "somebody was not waited for"
    assert job.process.returncode == 0, f"mpirun's status is {job.process.returncode}"
    return job, []


def ends(process, limit):
    """Whether a process has ended after `limit` seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < limit:
        status = Path(f"/proc/{process}/status")
        try:
            if "State:\tZ" in status.read_text():
                return True
        except OSError:  # FileNotFoundError, or ProcessLookupError while /proc is read
            return True
        time.sleep(0.05)
    return False


def cut(launch, ranks, victim, what):
    """The link of the last host goes: the others go on, and who is alone there may not."""
    job = launch(ranks, "stay", str(victim), what, silence=SILENCE)
    harmed = harmed_at(job, victim)[0]
    link(victim, "down")
    live = [rank for rank in range(ranks) if rank != victim]
    waits = expect_survivors(job, victim, live, harmed, 2 * SILENCE + SOON)
    for rank in live:
        job.wait_for(rf"^rank {rank}: ok$")
    link(victim, "up")  # its words have a way again
    job.wait_for(rf"^(a rank ends|rank {victim}: lost {victim} at).*(no majority|have excluded this rank)")
    return job, waits


def host_dies(launch, ranks, victim, what):
    """A rank's host goes with everything on it, mpirun's daemon first."""
    job = launch(ranks, "stay", str(victim), what)
    harmed = harmed_at(job, victim)[0]
    end_processes(f"h{victim}")
    live = [rank for rank in range(ranks) if rank != victim]
    waits = expect_survivors(job, victim, live, harmed, SOON)
    for rank in live:
        job.wait_for(rf"^rank {rank}: ok$")
    return job, waits


def namespace(host):
    return f"{os.environ['EMULATED_HOSTS']}-{host}"


def link(host, state):
    subprocess.run(["nsenter", f"--net=/run/netns/{namespace('hub')}", "ip", "link", "set", f"port{host}", state], check=True)


def end_processes(host):
    listed = subprocess.run(["ip", "netns", "pids", namespace(host)], capture_output=True, text=True, check=False).stdout
    for process in map(int, listed.split()):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(name, case, *arguments):
    begin = time.monotonic()
    job = None
    jobs = []
    launch = arguments[0]
    try:
        job, waits = case(lambda *words, **options: jobs.append(launch(*words, **options)) or jobs[-1], *arguments[1:])
        wrong = "a sanitizer has something to say" if job.find("Sanitizer") else None
    except AssertionError as error:
        wrong, waits = str(error), []
    by_itself = jobs[0].end()
    print(f"{name}: {wrong or 'ok'}; heard of after {waits} ms; {time.monotonic() - begin:.1f} s"
          f"{'' if by_itself else '; mpirun had to be ended'}", flush=True)
    if wrong:
        print("\n".join(jobs[0].lines), flush=True)
    return wrong is None


def one_host(program, mpirun):
    def launch(ranks, how, who, what, silence=None):
        return Job([*mpirun, "--enable-recovery", "-np", str(ranks), program, how, who, what], silence)

    def launch_plainly(ranks, *words):
        return Job([*mpirun, "-np", str(ranks), program, *words])

    return [
        run("killed, by name", dies, launch, 4, "kill", [2], "named"),
        run("ends without a word, rounds", dies, launch, 3, "exit", [0], "rounds"),
        run("calls exit() within its Context, rounds", dies, launch, 3, "orderly_exit", [1], "rounds"),
        run("calls exit(0) within its Context, by name", leaves, launch_plainly, 3, 1, "named"),
        run("calls exit(0) within its Context, plain calls", leaves, launch_plainly, 3, 0, "communicator"),
        run("all call exit(0) within their Context", all_leave, launch_plainly, 3, "rounds"),
        run("one of two", dies, launch, 2, "kill", [0], "rounds"),
        run("one after the other", dies, launch, 4, "kill", [0, 1], "communicator"),
        run("stopped, and ended by its host", stops, launch, 4, 1, "rounds", True),
        run("stopped for a while beside a death", pauses, launch, 5, 0, 4, "named"),
        run("idle, by name", idles, launch, 3, 1, "named"),
        run("idle, rounds", idles, launch, 3, 0, "rounds"),
        run("idle, plain calls", idles, launch, 2, 1, "communicator"),
        run("idle, and nobody says a word", idles, launch, 3, 0, "rounds", "hushed"),
        run("idle, plain mpirun", idles_alone, launch_plainly, 3, 1, "rounds"),
        run("late", comes_late, launch_plainly, 3, 1, "named"),
    ]


def several_hosts(program):
    def launch(ranks, how, who, what, silence=None):
        return Job([HOSTS, "run", "-n", str(ranks), "--", "--enable-recovery", program, how, who, what], silence)

    results = []
    for hosts, cases in {
        3: [
            ("killed, by name", dies, launch, 3, "kill", [2], "named"),
            ("killed, rounds", dies, launch, 3, "kill", [1], "rounds"),
            ("one after the other", dies, launch, 3, "kill", [0, 1], "communicator"),
            ("stopped, and woken", stops, launch, 3, 2, "rounds", False),
            ("its link cut", cut, launch, 3, 2, "named"),
            ("its host gone", host_dies, launch, 3, 2, "rounds"),
        ],
        2: [
            ("one of two on one of two hosts", dies, launch, 4, "kill", [3], "rounds"),
            ("rank 0 and its neighbour", dies, launch, 4, "kill", [0, 1], "named"),
        ],
    }.items():
        for name, *case in cases:
            subprocess.run([HOSTS, "up", "--hosts", str(hosts)], check=True)
            try:
                results.append(run(f"{hosts} hosts: {name}", *case))
            finally:
                for host in [*(f"h{k}" for k in range(hosts)), "hub"]:
                    end_processes(host)
                subprocess.run([HOSTS, "down"], check=True)
    return results


def main(program, where, *mpirun):
    if where == "one":
        return 0 if all(one_host(program, mpirun)) else 1
    os.environ["EMULATED_HOSTS"] = f"kolo-faults-{os.getpid()}"
    possible = subprocess.run([HOSTS, "possible"], capture_output=True, text=True, check=False)
    if possible.returncode != 0:
        print(f"skipped: {possible.stderr.strip()}")
        return 77
    return 0 if all(several_hosts(program)) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
