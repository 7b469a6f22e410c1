#!/usr/bin/env python3
"""The trainer on a GPU: its losses are those of the CPU, and every way to feed it and every precision runs.

trainer_run.py TRAINER DEVICE RANKS MPIRUN...; with DEVICE cpu the CPU is compared with itself, to try this script.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

SMALL = ["--arch", "resnet18", "--image-size", "64", "--epochs", "1", "--log-interval", "1"]


def losses(trainer, mpirun, ranks, options, amp="off"):
    """Of each step. Ends the program when the trainer fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "steps.jsonl"
        command = [*mpirun, "-np", str(ranks), trainer, *SMALL, "--json", str(file), "--amp", amp, *options]
        # fp32 is fp32: no convolution in TF32.
        done = subprocess.run(command, env={**os.environ, "NVIDIA_TF32_OVERRIDE": "0"}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"FAILED: status {done.returncode} of {' '.join(command)}\n{done.stdout[-4000:]}")
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line["loss"] for line in lines if line["kind"] == "step"]


def compare(trainer, device, ranks, mpirun):
    options = ["--data", "synthetic:device", "--batch", "8", "--steps", "4", "--lr", "0.05", "--warmup-epochs", "0"]
    wanted = losses(trainer, mpirun, ranks, [*options, "--device", "cpu"])
    found = losses(trainer, mpirun, ranks, [*options, "--device", device])
    print(f"losses on the CPU {wanted}, on {device} {found}")
    if len(wanted) != 4 or len(found) != 4:
        return False
    if max(wanted) < 1.05 * min(wanted):
        print("the losses change too little to tell whether the weights did")
        return False
    # Rounding differs, and what it changes grows from step to step: tenfold at this rate, at ten times the rate so much
    # that two kinds of CPU differ by 8 % after four steps.
    return all(math.isclose(a, b, rel_tol=tolerance) for a, b, tolerance in zip(wanted, found, (1e-4, 1e-3, 1e-2, 3e-2)))


def runs(trainer, device, ranks, mpirun, data, amp):
    options = ["--data", data, "--batch", "16", "--steps", "20", "--lr", "0.02", "--device", device]
    found = losses(trainer, mpirun, ranks, options, amp)
    print(f"{data}, {amp}: first loss {found[0]}, last {found[-1]}")
    return len(found) == 20 and all(loss is not None and math.isfinite(loss) for loss in found)


def main(trainer, device, ranks, *mpirun):
    ok = compare(trainer, device, int(ranks), mpirun)
    if not ok:
        print("FAILED: they differ")
    for data, amp in (("synthetic:host", "bf16"), ("synthetic:jpeg", "bf16"), ("synthetic:host", "fp16")):
        if device == "cpu" and amp == "fp16":
            continue  # the CPU's convolutions have no fp16 everywhere
        if not runs(trainer, device, int(ranks), mpirun, data, amp):
            ok = False
            print("FAILED: not all steps have a finite loss")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
