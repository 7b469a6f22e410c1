#!/usr/bin/env python3
"""Jobs of `kolo run` that go well, fail, hang and are interrupted: run_jobs.py KOLO. Checks the status, what was said, and
that nothing is left: processes, shared memory, temporary files."""
import fcntl
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from leftovers import Leftovers
from terminals import terminal_pair

PATIENCE = 60  # seconds for any job here


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def expect(self, status, *texts):
        """Texts are looked for in both streams."""
        problems = [] if self.status == status else [f"status {self.status}, expected {status}"]
        problems += [f"nowhere: {text}" for text in texts if not re.search(text, self.out + self.err)]
        return problems


class Runner:
    def __init__(self, kolo):
        self.kolo = kolo

    def start(self, left, options, script, files=None, redirection=""):
        """`script` is run by a shell on every rank. `files`: the limits of open files that `kolo run` starts with.
        `redirection`: of its streams, as a shell has it."""
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)) if files else None
        command = [self.kolo, "run", "--bind", "none", *options.split(), "--", "sh", "-c", script]
        if redirection:
            command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                env=left.environment, start_new_session=True, preexec_fn=limit)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return Result("none: it hangs", out, err)
        return Result(process.returncode, out or "", err)  # None: it went to a terminal

    def job(self, left, options, script, files=None, redirection=""):
        return self.finish(self.start(left, options, script, files, redirection))


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def rank_of(text, rank):
    """The lines of one rank, without their prefix."""
    return re.findall(rf"^\[{rank}\] (.*)$", text, re.M)


def normal(run, left):
    result = run.job(left, "-np 3", "echo rank $OMPI_COMM_WORLD_RANK, $TERM; echo complaint >&2")
    problems = result.expect(0, r"3 ranks: 3 ok")
    for rank in range(3):
        if rank_of(result.out, rank) != [f"rank {rank}, dumb"] or rank_of(result.err, rank) != ["complaint"]:
            problems.append(f"rank {rank} said {rank_of(result.out, rank)}, {rank_of(result.err, rank)}")
    return problems


def library(run, left):
    """MPI starts in the supervisor's child, and kolo with it."""
    return run.job(left, "-n 2", f"exec '{run.kolo}' perf allreduce --min 1K --max 4K --iterations 2").expect(0, "2 ok")


def one_fails(run, left):
    script = "[ $OMPI_COMM_WORLD_RANK != 1 ] || exit 3; sleep 100"
    return run.job(left, "-n 3 --grace 0.5", script).expect(
        3, "3 ranks: 0 ok, 3 failed", "rank 1 on .*: exit status 3", "rank 0 on .*: killed by SIGTERM.*when the job was ended")


def last_words(run, left):
    """Ranks that see a peer's end by themselves get to say what they saw."""
    script = "[ $OMPI_COMM_WORLD_RANK != 1 ] || exit 3; sleep 1; echo seen; exit 4"
    return run.job(left, "-n 2 --grace 20", script).expect(3, r"\[0\] seen", "rank 0 on .*: exit status 4")


def who_failed(run, left, where="run", timeout="60s"):
    """A rank that failed is the one that the status is of, though those that were told of it end before."""
    program = pathlib.Path(run.kolo).parent / "failing_rank"
    problems = []
    for _ in range(3):
        problems += run.job(left, "-n 3", f"KOLO_TIMEOUT={timeout} exec '{program}' {where}").expect(
            3, r"exit status 3\n.*  rank 1 on .*: exit status 3, after [0-9.]+ s\n",
            r"rank 0 on .*: exit status 4, .*because another rank failed", r"rank 2 on .*: exit status 4, .*because")
    return problems


def who_left(run, left):
    return who_failed(run, left, "outside")


def who_did_not_come(run, left):
    return who_failed(run, left, "absent", "1s")


def killed(run, left):
    return run.job(left, "-n 2 --grace 0.5", "[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -9 $$; sleep 100").expect(
        137, "rank 1 on .*: killed by SIGKILL")


def killed_with_recovery(run, left):
    return run.job(left, "-n 2 --recovery", "[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -9 $$; sleep 1; echo done").expect(
        137, r"\[0\] done", "2 ranks: 1 ok, 1 failed", "killed by SIGKILL")


def killed_and_allowed(run, left):
    return run.job(left, "-n 2 --recovery --allow-lost", "[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -9 $$; sleep 1").expect(
        0, "2 ranks: 1 ok, 1 failed", "killed by SIGKILL")


def stopped(run, left):
    return run.job(left, "-n 2 --timeout 2 --grace 0.5", "[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -STOP $$; sleep 100").expect(
        124, "the time limit has passed")


def stubborn(run, left):
    return run.job(left, "-n 2 --timeout 1 --grace 0.5", "trap '' TERM; while :; do sleep 100; done").expect(
        124, "killed by SIGKILL")


def forks(run, left):
    """Children of a rank, also those that have left its process group, end with it."""
    script = "sleep 100 & setsid sleep 100 & setsid setsid sleep 100 & echo started; sleep 0.3"
    return run.job(left, "-n 2", script).expect(0, "2 ok", r"\[1\] started")


def long_lines(run, left):
    script = "yes $OMPI_COMM_WORLD_RANK | head -c 200000 | tr -d '\\n'; echo; echo next; printf last"
    result = run.job(left, "-n 3", script)
    problems = result.expect(0)
    for rank in range(3):
        if rank_of(result.out, rank) != [str(rank) * 100000, "next", "last"]:
            problems.append(f"rank {rank}: {[len(line) for line in rank_of(result.out, rank)]}")
    return problems


def much_output(run, left):
    """More than all buffers hold, to a reader who takes his time; nothing is lost, nothing is blocked for ever."""
    process = run.start(left, "-n 2", "seq 1 300000")
    time.sleep(2)
    result = run.finish(process)
    problems = result.expect(0, "2 ok")
    for rank in range(2):
        if rank_of(result.out, rank) != [str(number) for number in range(1, 300001)]:
            problems.append(f"rank {rank}: not its lines")
    return problems


def reader_pauses(run, left):
    """A reader that empties the pipe and pauses, again and again: a line that waits for its rank stays whole."""
    process = run.start(left, "-n 2", "seq 1 300000")
    output = process.stdout.fileno()
    text = b""
    for pause in range(1, 11):
        while len(text) < pause * 200_000:
            text += os.read(output, 1 << 20)
        time.sleep(0.4)  # twice as long as an unfinished line waits
    result = run.finish(process)
    result.out = text.decode() + result.out
    problems = result.expect(0, "2 ok")
    for rank in range(2):
        lines = rank_of(result.out, rank)
        broken = [line for line, number in zip(lines, range(1, 300001)) if line != str(number)]
        if broken or len(lines) != 300000:
            problems.append(f"rank {rank}: {len(lines)} lines, the first wrong one is {broken[:1]}")
    return problems


def reader_stalls(run, left):
    """Nobody reads, ever: the time limit holds all the same, and the rank is not called lost."""
    process = run.start(left, "-n 1 --timeout 1 --grace 0.5", "seq 1 300000")
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
    return run.finish(process).expect(124, "the time limit has passed", "rank 0 on .*: killed by SIGTERM")


def terminal_stalls(run, left):
    """The same with a terminal, which takes a part of what it is given and waits for room. It stays as it was."""
    other_end, terminal = terminal_pair()
    command = [run.kolo, "run", "-n", "1", "--timeout", "2", "--grace", "0.5", "--", "sh", "-c", "seq 1 300000"]
    process = subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                               env=left.environment, start_new_session=True)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
    problems = run.finish(process).expect(124, "the time limit has passed")
    if not os.get_blocking(terminal):
        problems.append("the terminal no longer blocks")
    os.close(terminal)
    os.close(other_end)
    return problems


def reader_stalls_at_the_end(run, left):
    """What the job leaves is taken away before the reader has read all, and Ctrl-C ends the waiting for him."""
    orphan = "(setsid sleep 87654 &); sleep 0.5; kill -9 $PPID; sleep 100"
    process = run.start(left, "-n 1 --grace 0.2", f"seq 1 3000 | cat; {orphan}")
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    problems = []
    if not until(lambda: ": sleep 87654" in "".join(left.sentences())):
        problems.append("the rank has started nothing")
    if not until(lambda: ": sleep 87654" not in "".join(left.sentences())):
        problems.append("what the rank has started stays while the reader stalls")
    time.sleep(0.5)
    if process.poll() is not None:
        problems.append("it does not wait for its reader")
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        problems.append("it goes on waiting for its reader")
        process.kill()
    process.communicate()
    return problems


def stopped_itself(run, left):
    """kolo run is stopped, and its ranks have much to say, in large pieces and in small ones: they wait for it."""
    small = "for i in $(seq 1 20000); do echo $i; done"
    process = run.start(left, "-n 2", f"[ $OMPI_COMM_WORLD_RANK = 0 ] && exec seq 1 300000; {small}")
    first = ""
    while not ("[0]" in first and "[1]" in first):
        first += os.read(process.stdout.fileno(), 1024).decode()
    process.send_signal(signal.SIGSTOP)
    time.sleep(13)  # a host that is gone is noticed within 10
    process.send_signal(signal.SIGCONT)
    result = run.finish(process)
    result.out = first + result.out
    problems = result.expect(0, "2 ok")
    for rank, count in enumerate([300000, 20000]):
        if rank_of(result.out, rank) != [str(number) for number in range(1, count + 1)]:
            problems.append(f"rank {rank}: not its lines")
    return problems


def reader_leaves(run, left):
    process = run.start(left, "-n 2 --grace 1", "while :; do echo line; done")
    process.stdout.readline()
    process.stdout.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return ["it hangs"]
    process.stderr.close()
    return [] if process.returncode == 141 else [f"status {process.returncode}, expected 141"]


def without_prefix(run, left):
    result = run.job(left, "-n 1 --no-prefix --quiet", "echo hello")
    return result.expect(0) + ([] if result.out == "hello\n" and result.err == "" else [repr(result.out + result.err)])


def without_newlines(run, left):
    """More than it keeps of a line, and an end without a newline: neither gets one."""
    result = run.job(left, "-n 1 --no-prefix --quiet", "head -c 3000000 /dev/zero | tr '\\0' x; echo; printf last")
    problems = result.expect(0)
    if result.out != "x" * 3000000 + "\nlast":
        problems.append(f"{len(result.out)} characters, {result.out.count(chr(10))} newlines")
    return problems


def progress_bar(run, left):
    """Pieces without a newline come while the rank sleeps; a line of another rank does not land behind one."""
    script = ("[ $OMPI_COMM_WORLD_RANK = 0 ] || { sleep 1; echo line; exit; }; "
              "printf '\\r10%%'; sleep 2; printf '\\r20%%'; sleep 1; echo")
    process = run.start(left, "-n 2 --quiet", script)
    seen, text, begin = [], b"", time.monotonic()
    while piece := os.read(process.stdout.fileno(), 4096):
        text += piece
        seen.append((time.monotonic(), text))
    problems = run.finish(process).expect(0)
    if text != b"[0] \r[0] 10%\n[1] line\n[0] \r[0] 20%\n":
        problems.append(f"not the text: {text}")
    first = min((moment for moment, so_far in seen if b"10%" in so_far), default=begin + PATIENCE)
    if seen and first > seen[-1][0] - 1.5:
        problems.append(f"the first piece came {seen[-1][0] - first:.1f} s before the end")
    return problems


def terminal(run, left):
    """Ranks know whether what they write goes to a terminal, how wide that is, and what kind."""
    # Where the system has no terminals to give, a rank writes to a pipe.
    script = "[ ! -t 1 ] || size=$(stty size <&1); echo $TERM $KOLO_RUN_COLUMNS ${COLUMNS-none} ${size#* }"
    left.environment.pop("COLUMNS", None)
    problems = run.job(left, "-n 1 --quiet --env TERM=xterm", script).expect(0, r"\[0\] dumb 0 none( 0)?\n")
    other_end, terminal = terminal_pair()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [run.kolo, "run", "--bind", "none", "-n", "1", "--quiet", "--", "sh", "-c", script]
    environment = {**left.environment, "TERM": "xterm"}
    done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment,
                          timeout=PATIENCE)
    text = os.read(other_end, 4096)
    os.close(terminal)
    os.close(other_end)
    if done.returncode != 0 or not re.fullmatch(rb"\[0\] xterm 76 76( 76)?\r\n", text):
        problems.append(f"on a terminal: {text} {done.stderr}")
    return problems


def words(run, left):
    """The program's words are its own, whatever they look like, with and without `--` before them."""
    given = ["[30,60,80]", "[[1,2],[3]]", "[]", "[%s]", "", "a b", "--x=[1,2]", "-n", "--", "-np", "--env", "'\"$x", "\n", "run", ":", "\\:", "::",
             ":", "-s", "200", "--mca", "-x", "--app", "a"]
    problems = []
    for before, own in ((["--"], given), ([], ["[1,2]", "", "[]", "a b"])):
        command = [run.kolo, "run", "--env", "A=[1,2]", "--no-prefix", "--quiet", "-np", "1", *before, "printf", "%s\\0", *own]
        done = subprocess.run(command, capture_output=True, text=True, env=left.environment, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)
        if done.stdout.split("\0")[:-1] != own:
            problems.append(f"{own} became {done.stdout}{done.stderr}")
    return problems + run.job(left, "-n 1 --env A=[1,2] --env B=", "echo $A${B-unset}.").expect(0, r"\[0\] \[1,2\]\.\n")


def closed_streams(run, left):
    problems = []
    for redirection, texts in (("<&-", ["0. out", "0. err", "1 ok"]), (">&-", ["0. err", "1 ok"]), ("2>&-", ["0. out"]),
                               ("<&- >&- 2>&-", [])):
        result = run.job(left, "-n 1", "echo out; echo err >&2; cat", redirection=redirection)
        problems += [f"{redirection}: {problem}" for problem in result.expect(0, *texts)]
    return problems


def full_disk(run, left):
    """What cannot be written is told, and ends the job, whether ranks go on or end with 0."""
    no_space = "cannot write standard output: No space left on device; further output of the ranks to it is lost"
    problems = run.job(left, "-n 2 --quiet", "echo line; sleep 100", redirection=">/dev/full").expect(122, no_space)
    problems += run.job(left, "-n 1", "echo line", redirection=">/dev/full").expect(
        122, no_space, "; standard output could not be written: No space left on device; exit status 122")
    return problems + run.job(left, "-n 1", "echo line >&2", redirection="2>/dev/full").expect(122)


def missing_interpreter(run, left):
    program = left.folder / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    command = [run.kolo, "run", "-n", "1", "--", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=left.environment, timeout=PATIENCE)
    program.unlink()
    return Result(done.returncode, done.stdout, done.stderr).expect(
        126, "program' could not be started: the file exists, but the interpreter that its first line names")


def missing_program(run, left):
    command = [run.kolo, "run", "-n", "2", "--", "./no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, env=left.environment, timeout=PATIENCE)
    return Result(done.returncode, done.stdout, done.stderr).expect(127, "'./no-such-program' could not be started: No such file")


def replace_mpirun(left, text):
    script = left.folder / "mpirun"
    script.write_text(text)
    script.chmod(0o755)
    return script


def few_files(run, left):
    """More ranks than the files that it may have open at first, which is what its children may have."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = replace_mpirun(left, "#!/bin/sh\n[ $1 = --version ] || echo given $(ulimit -Sn) files >&2\n"
                            f"ulimit -Sn {most}\nexec mpirun \"$@\"\n")
    process = run.start(left, f"-n 12 --grace 1 --timeout 30 --mpirun {script}", "echo ready; exec sleep 100", (16, most))
    for _ in range(12):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    problems = run.finish(process).expect(130, "given 16 files")
    script.unlink()
    return problems


CALLERS = """#!/usr/bin/env python3
import os, socket, sys, time
if "--version" in sys.argv:
    sys.exit(print("Open MPI"))
os.fork()
address, port = os.environ["KOLO_RUN_ADDRESS"].split(":")
calls = []
while len(calls) < 1000:
    try:
        calls.append(socket.create_connection((address, int(port))))
    except OSError:
        break
time.sleep(100)
"""


def too_few_files(run, left):
    """More connections than it may ever have: said, and not waited for."""
    script = replace_mpirun(left, CALLERS)
    problems = run.job(left, f"-n 50 --grace 0.5 --mpirun {script}", "true", (40, 40)).expect(
        121, "cannot accept further ranks: Too many open files .*ulimit -Hn", r"rank \d+: was not started", r"and \d+ more ranks")
    script.unlink()
    return problems


def launcher_without_files(run, left):
    """mpirun says that it has too few, and waits for ever: one that only does that, and Open MPI's own."""
    script = replace_mpirun(left, "#!/bin/sh\n[ $1 = --version ] && exec echo Open MPI\n"
                            "echo 'The system limit on number of pipes a process can open was reached in file x'\nexec sleep 1000\n")
    problems = []
    for mpirun, files in ((script, None), ("mpirun", (32, 32))):
        problems += run.job(left, f"-n 20 --grace 0.5 --mpirun {mpirun}", "true", files).expect(
            121, "the launcher may open too few files to start the ranks .*ulimit -n", "rank 0: was not started", "and 4 more ranks")
    script.unlink()
    return problems


def missing_mpirun(run, left):
    return run.job(left, "-n 2 --mpirun no-such-mpirun", "true").expect(1, "install Open MPI")


def interrupted(run, left, wanted=signal.SIGINT, status=130):
    process = run.start(left, "-n 2 --grace 1", "echo ready; exec sleep 100")
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(wanted)
    result = run.finish(process)
    result.out += "".join(lines)
    return result.expect(status, "interrupted by", "0 ok")


def terminated(run, left):
    return interrupted(run, left, signal.SIGTERM, 143)


def alarmed(run, left):
    """An alarm ends a job as SIGTERM does."""
    return interrupted(run, left, signal.SIGALRM, 142)


def warned(run, left):
    """What a batch system sends before a time limit is for the ranks, and ends nothing."""
    script = "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; while :; do sleep 0.05; done"
    process = run.start(left, "-n 2", script)
    lines = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGUSR1)
    lines += [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGUSR2)
    result = run.finish(process)
    problems = result.expect(0, "2 ranks: 2 ok in [0-9.]+ s\n")
    result.out = "".join(lines) + result.out
    for rank in range(2):
        if rank_of(result.out, rank) != ["ready", "one", "two"]:
            problems.append(f"rank {rank} said {rank_of(result.out, rank)}")
    return problems


def impatient(run, left):
    """The second signal does not wait for the grace time."""
    process = run.start(left, "-n 2 --grace 100", "trap '' INT; echo ready; while :; do sleep 100; done")
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    return run.finish(process).expect(130, "killed by SIGKILL")


def gone_itself(run, left):
    """kolo run is killed: its ranks end all the same."""
    process = run.start(left, "-n 2", "echo ready; sleep 100")
    for _ in range(2):
        process.stdout.readline()
    process.kill()
    process.communicate()
    return []


def mpirun_killed(run, left):
    process = run.start(left, "-n 2 --grace 1", "echo ready; sleep 100")
    for _ in range(2):
        process.stdout.readline()
    for pid in left.processes():
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "mpirun":
                os.kill(pid, signal.SIGKILL)
        except OSError:  # the process has ended: FileNotFoundError, or ProcessLookupError while /proc is read
            pass
    return run.finish(process).expect(120, "the launcher's daemon on its host is gone")


CASES = [normal, library, one_fails, last_words, who_failed, who_left, who_did_not_come, killed, killed_with_recovery,
         killed_and_allowed, stopped, stubborn, forks, long_lines, much_output, reader_pauses, reader_stalls,
         terminal_stalls, reader_stalls_at_the_end, stopped_itself, reader_leaves, without_prefix,
         without_newlines, progress_bar, terminal, words, closed_streams, full_disk, missing_program, missing_interpreter, few_files,
         too_few_files, launcher_without_files, missing_mpirun, interrupted, terminated, alarmed, warned,
         impatient, gone_itself, mpirun_killed]


def main(kolo, *names):
    run = Runner(os.path.abspath(kolo))
    failures = 0
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        begin = time.monotonic()
        with Leftovers() as left:
            problems = case(run, left)
            # Without kolo run nobody takes mpirun's files away, and mpirun takes its time with the rest.
            alone = case is gone_itself
            problems += [f"left behind: {item}" for item in left.found(15 if alone else 2, files=not alone)]
        failures += bool(problems)
        print(f"{case.__name__}: {'; '.join(problems) or 'ok'} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
