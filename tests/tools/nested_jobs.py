#!/usr/bin/env python3
"""Programs that a rank starts: nested_jobs.py BIN MPIRUN..., with the folder of kolo's programs and the command that starts
two ranks. A program that would start MPI a second time in a rank gets one error, and the rank goes on."""
import pathlib
import re
import subprocess
import sys

PATIENCE = 60
LISTED = r"env (-u \w+ )*-u OMPI_COMM_WORLD_SIZE -u PMIX_RANK (-u \w+ )*PROGRAM"


class Runner:
    def __init__(self, folder, mpirun):
        self.folder, self.mpirun = pathlib.Path(folder), mpirun

    def job(self, *words):
        command = [*self.mpirun, str(self.folder / "nesting_rank"), *words]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)


def problems(result, *texts):
    """The job ends with 0, both ranks have the sum of both, the texts are there, and MPI says nothing."""
    found = [] if result.returncode == 0 else [f"status {result.returncode}"]
    found += [f"nowhere: {text}" for text in ("rank 0: sum 3", "rank 1: sum 3", *texts) if not re.search(text, result.stdout)]
    found += [f"there: {text}" for text in ("ORTE", "OPAL", "PMIX ERROR", "MPI_Init", "recursive") if text in result.stdout]
    return found + ([result.stdout] if found else [])


def program(run):
    """A program that creates a Context: alone, in a shell script, in the background."""
    child = run.folder / "nesting_rank"
    refused = "variables of rank 0, and another process of that rank has started MPI.*" + LISTED
    found = problems(run.job("system", str(child)), refused, "status 1")
    found += problems(run.job("system", f"sh -c '{child}; exit 7'"), refused, "status 7")
    return found + problems(run.job("system", f"{child} & wait"), refused, "status 0")


def freed_program(run):
    """Without the variables that the error names the program is a world of its own."""
    child = run.folder / "nesting_rank"
    names = re.search(LISTED, run.job("system", str(child)).stdout)
    if not names:
        return ["the error names no variables"]
    return problems(run.job("system", names[0].replace("PROGRAM", str(child))), "rank 0: sum 1\n", "status 0")


def kolo_run(run):
    kolo = run.folder / "kolo"
    result = run.job("system", f"{kolo} run -n 2 -- true")
    found = problems(result, "kolo: this process is a rank of a job already.*-u OMPI_UNIVERSE_SIZE .*kolo run", "status 1")
    names = re.search(r"env (-u \w+ )+kolo run", result.stdout)
    if not names:
        return found + ["the error names no variables"]
    free = names[0].replace("kolo run", f"{kolo} run -n 2 --bind none -- {run.folder / 'nesting_rank'}")
    return found + problems(run.job("system", free), r"\[1\] rank 1: sum 3", "2 ok", "status 0")


def forked(run):
    return problems(run.job("fork"), "child: this process was forked from process.* has started MPI.*" + LISTED)


def several_contexts(run):
    return problems(run.job("contexts"))


def own_mpi(run):
    return problems(run.job("again"))


def exec_itself(run):
    return problems(run.job("exec"), "status 0")


def wrapped(run):
    """A wrapper has the rank's variables, too, and is no rank with a Context."""
    wrapper = Runner(run.folder, [*run.mpirun, "sh", "-c", '"$@"; exit $?', "sh"])
    return problems(wrapper.job("system", "true"), "status 0")


CASES = [program, freed_program, kolo_run, forked, several_contexts, own_mpi, exec_itself, wrapped]


def main(folder, *mpirun):
    run = Runner(folder, mpirun)
    failures = 0
    for case in CASES:
        found = case(run)
        failures += bool(found)
        print(f"{case.__name__}: {'; '.join(found) or 'ok'}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
