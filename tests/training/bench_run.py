#!/usr/bin/env python3
"""Runs bench/step.py once with as few steps as possible and checks its JSON lines: bench_run.py STEP_PY TRAINER"""
import json
import subprocess
import sys
import tempfile

FIELDS = {"kind", "impl", "coordinator", "malloc", "gradients", "update", "memory_format", "arch", "batch", "image_size", "ranks", "threads",
          "repetitions", "steps", "step_ms_p50", "step_ms_p10", "step_ms_p90", "repetitions_ms", "over_alone", "kolo_speedup",
          "exposed_ms_p50", "forward_ms_p50", "update_ms_p50", "page_faults", "hosts", "rate", "wire_ms", "over_bound"}


def expect(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def run(step, *options):
    return subprocess.run([sys.executable, "-B", step, *options], capture_output=True, text=True, timeout=240, check=False)


def main():
    step, trainer = sys.argv[1:]
    with tempfile.NamedTemporaryFile() as file:
        done = run(step, "--trainer", trainer, "--no-ddp", "--repetitions", "2", "--steps", "3", "--warmup", "1", "--batch", "2",
                   "--image-size", "32", "--formats", "channels_last", "--coordinators", "never", "--gradients", "packed,shared", "--updates", "after,overlapped",
                   "--json", file.name)
        expect(done.returncode == 0, done.stderr)
        lines = [json.loads(line) for line in file.read().splitlines()]
    expect([line["impl"] for line in lines] == ["alone"] + 4 * ["kolo"], "a line for each setting")
    expect(all(set(line) == FIELDS and line["kind"] == "step_bench" for line in lines), "the documented fields")
    expect(all(line["steps"] == 4 and len(line["repetitions_ms"]) == 2 for line in lines), "two of three steps, twice")
    expect([(line["gradients"], line["update"]) for line in lines] ==
           [(None, None), ("packed", "after"), ("packed", "overlapped"), ("shared", "after"), ("shared", "overlapped")],
           "both kinds of gradients, and of updates")
    alone, kolo = (line["step_ms_p50"] for line in lines[:2])
    expect(lines[1]["over_alone"] == kolo / alone and lines[0]["over_alone"] == 1, "ratios are of medians")
    expect(f"{kolo:.1f}" in done.stdout, "the table has the same figures")
    for wrong, text in ((["--trainer", "/nonexistent"], "no trainer"), (["--trainer", trainer, "--launcher", "/nonexistent"], "--launcher"),
                        (["--trainer", trainer, "--ddp-python", "/nonexistent"], "--ddp-python")):
        done = run(step, *wrong)
        expect(done.returncode == 1 and text in done.stderr, f"{wrong} is an error that names {text}: {done.stderr}")
    print("ok")


if __name__ == "__main__":
    main()
