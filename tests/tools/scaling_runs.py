#!/usr/bin/env python3
"""kolo scaling as users start it."""
import argparse
import gzip
import html
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("kolo")
parser.add_argument("program", help="first_program")
parser.add_argument("without", help="a program that ends without a step")
parser.add_argument("--trainer", help="imagenet_resnet50, if the peers are built")
parser.add_argument("--simulated-gpus", help="the program of simulated_gpus.cpp")
OPTIONS = parser.parse_args()
KOLO, PROGRAM, WITHOUT, TRAINER = OPTIONS.kolo, OPTIONS.program, OPTIONS.without, OPTIONS.trainer
LIMIT = 120
TINY = ("--data", "synthetic:device", "--arch", "resnet18", "--image-size", 32, "--batch", 2, "--threads", 1,
        "--memory-format", "contiguous")


def scaling(*words, folder, status=0):
    done = subprocess.run([KOLO, "scaling", *map(str, words)], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=LIMIT, stdin=subprocess.DEVNULL)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def check_table(folder):
    text = scaling("--ranks", 2, "--steps", 50, "--repeat", 2, "--items-per-step", 32, "--ablate", "overlap", "--out",
                   "out", "--", PROGRAM, folder=folder)
    for words in ("1 rank", "2 ranks", "2 ranks, sync off", "2 ranks, overlap off", "items/s"):
        assert words in text, (words, text)
    results = json.loads((folder / "out/results.json").read_text())
    rows = {row["key"]: row for row in results["rows"]}
    assert list(rows) == ["ranks1", "ranks2", "ranks2-sync-off", "ranks2-overlap-off"], list(rows)
    for row in rows.values():
        assert len(row["runs"]) == 2 and all(len(run) == 40 for run in row["runs"]), row
        assert row["step_ms"]["value"] > 0 and row["items_per_s"] > 0, row
    assert rows["ranks2"]["parts"]["communication_ms"] > 0, rows["ranks2"]
    assert rows["ranks2"]["reduced_bytes"] > 0 and "slowest_rank" in rows["ranks2"], rows["ranks2"]
    assert rows["ranks2-sync-off"]["parts"]["communication_ms"] == 0, rows["ranks2-sync-off"]
    assert {"cpu", "kernel", "kolo", "mpi", "libtorch"} <= results["environment"].keys(), results["environment"]
    assert results["advice"] and all(f"* {each}\n" in text for each in results["advice"]), (results["advice"], text)
    page = html.unescape((folder / "out/index.html").read_text())
    assert "report: out/index.html\n" in text and f"<li>{results['advice'][0]}</li>" in page, page[:3000]
    trace = json.loads(gzip.decompress((folder / "out/trace/trace.json.gz").read_bytes()))
    assert {event["pid"] for event in trace["traceEvents"]} == {0, 1}, trace["traceEvents"][:5]
    assert any(event["name"] == "reduction" for event in trace["traceEvents"])
    # The same command has nothing left to run.
    again = scaling("--ranks", 2, "--steps", 50, "--repeat", 2, "--items-per-step", 32, "--ablate", "overlap", "--out",
                    "out", "--", PROGRAM, folder=folder)
    assert "nothing was run" in again and "2 ranks" in again, again
    assert "no change beyond noise" in scaling("--compare", "out", "out", folder=folder)
    assert "report: changes/index.html" in scaling("--compare", "out", "out", "--out", "changes", folder=folder)
    assert "no change beyond noise" in (folder / "changes/index.html").read_text()
    text = scaling("--compare", "out", "out", "--out", "out", folder=folder, status=1)
    assert "out holds results" in text and "What limits" in (folder / "out/index.html").read_text(), text
    # More rows join the runs that are complete.
    more = scaling("--ranks", 2, "--steps", 50, "--repeat", 2, "--items-per-step", 32, "--ablate", "overlap,algorithm",
                   "--out", "out", "--", PROGRAM, folder=folder)
    assert "2 ranks, algorithm ring, repetition 2" in more and "2 ranks, repetition" not in more, more
    other = scaling("--ranks", 2, "--steps", 60, "--out", "out", "--", PROGRAM, folder=folder, status=1)
    assert "steps. Choose another folder" in other, other


def check_peers(folder):
    if TRAINER is None:
        return
    python = folder / "python-without-torch"
    python.write_text('#!/bin/sh\necho "No module named torch" >&2\nexit 1\n')
    python.chmod(0o755)
    text = scaling("--ranks", 2, "--steps", 30, "--repeat", 1, "--peers", "ddp,mpi,loop,torchfort", "--python", python,
                   "--out", "peers", "--", TRAINER, *TINY, folder=folder)
    assert text.count("peer ddp is missing: ") == 2 and "pip install torch" in text, text
    results = json.loads((folder / "peers/results.json").read_text())
    assert list(results["missing_peers"]) == ["ddp"], results["missing_peers"]
    rows = {row["key"]: row for row in results["rows"]}
    peers = ["mpi", "loop", "torchfort"]
    assert list(rows) == ["ranks1", *(f"ranks1-{peer}" for peer in peers), "ranks2", "ranks2-sync-off",
                          *(f"ranks2-{peer}" for peer in peers)], list(rows)
    for peer in peers:
        row = rows[f"ranks2-{peer}"]
        parts = row["parts"]
        assert row["peer"] == peer and parts["communication_ms"] == parts["exposed_ms"] > 0, row
        assert "slowest_rank" not in row and "slowest_wait_ms" not in parts, row
        assert {"efficiency_to_one_rank", "step_to_default"} <= row.keys() and row["reduced_bytes"] > 40_000_000, row
        total = sum(ms for name, ms in parts.items() if name != "communication_ms")
        assert abs(total - row["step_ms"]["value"]) < 0.3 * total, row
    refused = scaling("--ranks", 1, "--peers", "mpi", "--out", "refused", "--", PROGRAM, folder=folder, status=1)
    assert "--peers compares with imagenet_resnet50" in refused, refused
    # Without --peers the runs of the peers stay, and the command has nothing left to run.
    assert "nothing was run" in scaling("--ranks", 2, "--steps", 30, "--repeat", 1, "--out", "peers", "--", TRAINER,
                                        *TINY, folder=folder)
    text = scaling("--ranks", 1, "--steps", 30, "--repeat", 1, "--peers", "mpi", "--out", "refused", "--", TRAINER,
                   "--data", "synthetic:host", *TINY[2:], folder=folder)
    assert "peer mpi is left out: 1 rank, flat MPI: " in text and "--data must be synthetic:device" in text, text
    results = json.loads((folder / "refused/results.json").read_text())
    assert list(results["missing_peers"]) == ["mpi"] and [row["key"] for row in results["rows"]] == ["ranks1"], results


def check_dry_run(folder):
    text = scaling("--ranks", "1,2", "--dry-run", "--", PROGRAM, folder=folder)
    launched = scaling("--ranks", "1", "--dry-run", "--launcher", f"{KOLO} run -n {{ranks}} --quiet --", "--", PROGRAM,
                       folder=folder)
    assert f"{KOLO} run -n 1 --quiet -- {PROGRAM}" in launched, launched
    assert "2 ranks, sync off: 3 x" in text and "KOLO_SYNC=off" in text and "in all" in text, text
    assert not (folder / "scaling").exists()


def check_errors(folder):
    def error(*words, status=1):
        return scaling(*words, folder=folder, status=status)

    assert "say how many ranks" in error("--", PROGRAM)
    assert "without a step in its step log" in error("--ranks", 1, "--out", "a", "--", WITHOUT)
    text = error("--ranks", 1, "--out", "b", "--", "sh", "-c", "echo some words >&2; exit 7")
    assert "ended with status 7" in text and "some words" in text, text
    text = error("--ranks", 1, "--out", "c", "--launcher", "no-such-launcher -n", "--", PROGRAM)
    assert "no-such-launcher" in text, text
    text = error("--ranks", 1, "--timeout", "2s", "--out", "d", "--", "sleep", "1000")
    assert "no step was recorded within 2 s" in text, text
    text = error("--ranks", 1, "--steps", 1000, "--warmup", 500, "--out", "e", "--", PROGRAM)
    assert "ended by itself after 200 recorded steps" in text, text
    (folder / "used").mkdir()
    (folder / "used/file").write_text("")
    assert "used is not empty" in error("--ranks", 1, "--out", "used", "--", PROGRAM)
    assert "cannot open" in error("--compare", "a", "no-such-folder")


def check_lost_results(folder):
    """What is removed from a complete folder is measured again, and results.json is written in any case."""
    words = ("--ranks", 1, "--steps", 40, "--repeat", 2, "--out", "h", "--", PROGRAM)
    scaling(*words, folder=folder)
    shutil.rmtree(folder / "h/runs/ranks1/1")
    (folder / "h/runs/ranks1/2/done.json").write_text("{}")
    assert "run 2 of 2" in scaling(*words, folder=folder)
    (folder / "h/results.json").unlink()
    assert "nothing was run" in scaling(*words, folder=folder)
    assert [len(row["runs"]) for row in json.loads((folder / "h/results.json").read_text())["rows"]] == [2]
    (folder / "h/runs/ranks1/1/steps.rank0.jsonl").write_text('{"kind":"step_log"}\n{"kind":"step","step":1}\n')
    text = scaling(*words, folder=folder, status=1)
    assert "steps.rank0.jsonl:2" in text and "Remove the folder of this run" in text, text


def check_budget(folder):
    """A run that would end after the budget is left out; without the budget the same command runs it."""
    words = ("--ranks", 2, "--steps", 40, "--repeat", 2, "--out", "k")
    text = scaling(*words, "--budget", "1ms", "--", PROGRAM, folder=folder)
    assert "the time budget leaves out 5 of 6 runs; the same command continues" in text, text
    assert not (folder / "k/trace").exists()
    results = json.loads((folder / "k/results.json").read_text())
    assert [(row["key"], len(row["runs"])) for row in results["rows"]] == [("ranks1", 1)], results
    assert results["missing_rows"] == ["2 ranks", "2 ranks, sync off"], results
    assert "2 ranks, sync off: 0 of 2 runs" in (folder / "k/index.html").read_text()
    # Each call runs at least once.
    assert "leaves out 4 of 6 runs" in scaling(*words, "--budget", "1ms", "--", PROGRAM, folder=folder)
    text = scaling(*words, "--budget", "10min", "--", PROGRAM, folder=folder)
    assert "run 6 of 6" in text and "leaves out" not in text, text
    rows = json.loads((folder / "k/results.json").read_text())["rows"]
    assert [(row["key"], len(row["runs"])) for row in rows] == [("ranks1", 2), ("ranks2", 2), ("ranks2-sync-off", 2)], rows
    assert (folder / "k/trace/trace.json.gz").exists()


def check_gpus(folder):
    """A stand-in for nvidia-smi on a host with four GPUs; the program runs on CPUs."""
    tool = folder / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1" = topo ] && { printf "\\033[4mGPU0\\033[0m\\n"; exit; }\n'
                    '[ "$3" = "" ] || [ "$3" = --id=0,2,3 ] || { echo No devices were found; exit 6; }\n'
                    'for gpu in 0 2 3 ${3:-4}; do [ "$gpu" = "$3" ] || echo "NVIDIA H200, 580.65.06"; done\n')
    tool.chmod(0o755)

    def gpus(*words, status=0, visible=None):
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        done = subprocess.run([KOLO, "scaling", *words], cwd=folder, capture_output=True, text=True, check=False,
                              timeout=LIMIT, env=environment, stdin=subprocess.DEVNULL)
        assert done.returncode == status, (words, done)
        return done.stdout + done.stderr

    text = gpus("--gpus", "all", "--repeat", "1", "--steps", "40", "--out", "l", "--", PROGRAM, visible="0,2,3")
    assert "3 ranks, sync off" in text and "4 ranks" not in text, text
    results = json.loads((folder / "l/results.json").read_text())
    assert [row["key"] for row in results["rows"] if not row["variant"]] == ["ranks1", "ranks2", "ranks3"], results
    facts = results["environment"]
    assert (facts["gpus"], facts["gpu_driver"]) == ("3 x NVIDIA H200", "580.65.06") and facts["gpu_links"] == "GPU0\n", facts
    assert "no GPU is visible (CUDA_VISIBLE_DEVICES is empty)" in gpus("--gpus", "all", "--out", "m", status=1, visible="")
    assert "--id=9: No devices were found" in gpus("--gpus", "all", "--out", "m", status=1, visible="9")
    assert "visible GPUs: 4" in gpus("--gpus", "8", "--out", "m", status=1)
    assert "neither `all` nor a number" in gpus("--gpus", "many", "--out", "m", status=1)
    assert not (folder / "m").exists()


def check_simulated_gpus(folder):
    """Step logs with the times of devices give a complete table."""
    if OPTIONS.simulated_gpus is None:
        return
    scaling("--ranks", "1,2,4", "--steps", 60, "--repeat", 1, "--launcher", OPTIONS.simulated_gpus, "--out", "n", "--", "gpus",
            folder=folder)
    rows = {row["key"]: row for row in json.loads((folder / "n/results.json").read_text())["rows"]}
    assert list(rows) == ["ranks1", "ranks2", "ranks2-sync-off", "ranks4", "ranks4-sync-off"], list(rows)
    assert rows["ranks4"]["parts"]["communication_ms"] > 0 and "efficiency_to_one_rank" in rows["ranks4"], rows["ranks4"]
    assert rows["ranks4-sync-off"]["parts"]["communication_ms"] == 0, rows["ranks4-sync-off"]


def check_processes_left(folder):
    """A process that the program leaves behind, with its output, neither stops the measurement nor survives it."""
    launcher = folder / "direct"
    launcher.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    program = folder / "leaves"
    program.write_text(f'#!/bin/sh\nsleep 1000 &\necho $! > {folder}/pid\nexec {PROGRAM}\n')
    launcher.chmod(0o755)
    program.chmod(0o755)
    scaling("--ranks", 1, "--repeat", 1, "--steps", 200, "--launcher", launcher, "--out", "i", "--", program, folder=folder)
    status = pathlib.Path("/proc", (folder / "pid").read_text().strip(), "stat")
    assert not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z", "the process is still there"


def check_two_commands(folder):
    first = subprocess.Popen([KOLO, "scaling", "--ranks", "1", "--out", "j", "--timeout", "60s", "--", "sleep", "1000"],
                             cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    limit = time.monotonic() + LIMIT
    while not (folder / "j/runs/ranks1/1/output.txt").exists():
        assert time.monotonic() < limit and first.poll() is None
        time.sleep(0.05)
    text = scaling("--ranks", 1, "--out", "j", "--", PROGRAM, folder=folder, status=1)
    assert "another `kolo scaling` writes to j" in text, text
    first.send_signal(signal.SIGHUP)
    assert first.wait(timeout=LIMIT) == 128 + signal.SIGHUP
    scaling("--ranks", 1, "--steps", 40, "--repeat", 1, "--out", "j", "--", PROGRAM, folder=folder)  # nothing was complete


def check_dying_rank(folder):
    """A rank that dies in the middle: complete runs are kept, and the same command continues."""
    script = folder / "dies"
    script.write_text(f'#!/bin/sh\nif [ -e {folder}/die ] && [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then\n'
                      f'  KOLO_LOG_LEVEL=error {PROGRAM} & pid=$!; sleep 0.1; kill -9 $pid; wait $pid; exit 9\nfi\nexec {PROGRAM}\n')
    script.chmod(0o755)
    (folder / "die").write_text("")
    words = ("--ranks", 2, "--steps", 40, "--repeat", 1, "--out", "f", "--", script)
    text = scaling(*words, folder=folder, status=1)
    assert "2 ranks: the job ended with status" in text, text
    rows = json.loads((folder / "f/results.json").read_text())["rows"]
    assert [row["key"] for row in rows] == ["ranks1"], rows
    (folder / "die").unlink()
    text = scaling(*words, folder=folder)
    assert "repetition 1" in text and "1 rank, repetition" not in text, text


def check_interrupt(folder):
    job = subprocess.Popen([KOLO, "scaling", "--ranks", "1", "--out", "g", "--timeout", "60s", "--", "sleep", "1000"],
                           cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    limit = time.monotonic() + LIMIT
    while not (folder / "g/runs/ranks1/1/output.txt").exists():
        assert time.monotonic() < limit and job.poll() is None
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=LIMIT)
    assert job.returncode == 128 + signal.SIGINT and "the same command continues" in err, (job.returncode, err)


def main():
    for name in ("OMPI_COMM_WORLD_SIZE", "KOLO_SYNC", "KOLO_STEP_LOG", "KOLO_TIMELINE"):
        os.environ.pop(name, None)
    for check in (check_table, check_peers, check_dry_run, check_errors, check_lost_results, check_budget, check_gpus,
                  check_simulated_gpus, check_processes_left, check_two_commands, check_dying_rank, check_interrupt):
        with tempfile.TemporaryDirectory(prefix="kolo-scaling-") as folder:
            check(pathlib.Path(folder))
        print(f"{check.__name__}: fine", flush=True)


if __name__ == "__main__":
    main()
