#!/usr/bin/env python3
"""The peers of `kolo scaling` and the trainer compute the same: peers_run.py DDP_PY AFTER_BACKWARD TRAINER MPIRUN...

PyTorch DDP takes part if this Python has PyTorch.
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DDP, AFTER_BACKWARD, TRAINER, *MPIRUN = sys.argv[1:]
COMMON = ["--data", "synthetic:device", "--image-size", "64", "--threads", "1", "--memory-format", "contiguous",
          "--classes", "10", "--warmup-epochs", "0"]
TINY = [*COMMON, "--arch", "resnet18", "--batch", "2", "--lr", "1", "--steps", "3"]
# In a new ResNet-50, rounding changes the second loss by about 0.1 %. One step of this size changes it by 6 %.
DEEP = [*COMMON, "--arch", "resnet50", "--batch", "8", "--lr", "0.002", "--steps", "2"]
TIMES = ("before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us")


def run(command, ranks=2, **variables):
    done = subprocess.run([*MPIRUN, "-np", str(ranks), *command], env={**os.environ, **variables}, text=True, timeout=200,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def loss_of_trainer(options, folder):
    """Mean over the ranks, in the last step."""
    path = folder / "trainer.jsonl"
    status, text = run([TRAINER, *options, "--log-interval", "1", "--json", str(path)])
    expect(status == 0, text)
    losses = [line["loss"] for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "step"]
    expect(abs(losses[-1] - losses[0]) > 0.1, f"the weights change the loss: {losses}")
    return losses[-1]


def loss_of_peer(command, steps, folder):
    for path in folder.glob("steps*"):
        path.unlink()
    status, text = run(command, KOLO_STEP_LOG=str(folder / "steps"))
    expect(status == 0, f"{command}: {text}")
    expect(not (folder / "steps.meeting").exists(), "the meeting file is removed")
    found = re.search(rf"step {steps}: loss ([0-9.]+)", text)
    expect(found, text)
    return float(found[1])


def check_log(folder, rank, count):
    head, *steps = map(json.loads, (folder / f"steps.rank{rank}.jsonl").read_text().splitlines())
    expect((head["rank"], head["size"], head["clock_error_us"]) == (rank, 2, None), head)
    expect([step["step"] for step in steps] == list(range(1, count + 1)), steps)
    for step in steps:
        expect(all(step[name] >= 0 for name in TIMES) and step["backward_us"] > 0, step)
        expect(abs(sum(step[name] for name in TIMES) - step["step_us"]) < 1, f"the parts add up: {step}")
        expect(step["communication_us"] in (step["exposed_us"], None) and step["reduced_bytes"] > 40_000_000, step)


def main():
    os.environ.pop("KOLO_STEP_LOG", None)
    jobs = [(TINY, 1e-4, [[AFTER_BACKWARD, "--way", way] for way in ("mpi", "loop", "torchfort")])]
    if importlib.util.find_spec("torch"):
        jobs.append((DEEP, 1e-2, [[sys.executable, "-B", DDP]]))
    for options, tolerance, peers in jobs:
        steps = int(options[-1])
        with tempfile.TemporaryDirectory(prefix="kolo-peers-") as name:
            folder = pathlib.Path(name)
            expected = loss_of_trainer(options, folder)
            for peer in peers:
                loss = loss_of_peer([*peer, *options], steps, folder)
                expect(abs(loss - expected) < tolerance * loss, f"{peer}: loss {loss}, not {expected}")
                for rank in (0, 1):
                    check_log(folder, rank, steps)
                print(f"{peer[-1]}: loss {loss}, trainer {expected:.6f}", flush=True)
    for wrong, words in ((["--way", "ring"], "unknown way 'ring'"), ([], "the first option must be --way"),
                         (["--way", "mpi", *TINY, "--amp", "fp16"], "--amp must be off or bf16"),
                         (["--way", "loop", *TINY, "--device", "cuda"], "--device must be cpu"),
                         (["--way", "torchfort", "--data", "synthetic:device"], "contiguous gradients only"),
                         (["--way", "mpi", "--data", "synthetic:device", "--stepz", "3"], "unknown argument '--stepz'")):
        status, text = run([AFTER_BACKWARD, *wrong], ranks=1)
        expect(status != 0 and words in text, f"{wrong}: {text}")


if __name__ == "__main__":
    main()
