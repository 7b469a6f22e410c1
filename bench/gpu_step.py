#!/usr/bin/env python3
"""Images a second of kolo's trainer, with kolo and without, and of the same loop in PyTorch, alternating.

    bench/gpu_step.py --trainer build/release/bin/imagenet_resnet50 --python /opt/torch/.venv/bin/python3 [--ranks 8]

One rank a GPU, each with --batch images a step. Several ranks without kolo exchange nothing: what kolo reaches of them is
its scaling efficiency. PyTorch without DDP is one rank only.

In a repetition each setting runs in its own process, one setting after the other; every other repetition is in reverse
order. A repetition starts only if it is expected to end within --seconds. JSON lines on stdout, one for each batch and
variant: images_per_s is the median over the intervals of all repetitions, except the first --warmup steps of each process.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_parts

PEER = pathlib.Path(__file__).resolve().parent / "gpu_peer.py"


@dataclasses.dataclass
class Setting:
    variant: str
    batch: int
    rates: list = dataclasses.field(default_factory=list)  # one list for each repetition


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--libraries", help="the trainer's LD_LIBRARY_PATH")
    parser.add_argument("--python", default=sys.executable, help="one that can import torch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--amp", choices=("off", "bf16", "fp16"), default="bf16")
    parser.add_argument("--batch", type=lambda text: [int(each) for each in text.split(",")], default=[64, 128, 256])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--log-interval", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=400)
    return parser.parse_args()


def command(setting, options, json_file):
    common = ["--device", options.device, "--batch", str(setting.batch), "--image-size", str(options.image_size), "--amp",
              options.amp, "--steps", str(options.steps), "--log-interval", str(options.log_interval)]
    if setting.variant.startswith("kolo"):
        sync = "on" if setting.variant == "kolo" else "off"
        mpirun = [*gpu_parts.MPIRUN, "-np", str(options.ranks)] if options.ranks > 1 else []
        return [*mpirun, options.trainer, "--data", "synthetic:device", "--memory-format", "channels_last", "--sync", sync, "--json",
                json_file, *common]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)] if options.ranks > 1 else []
    return [options.python, *torchrun, str(PEER), *common, *(["--ddp"] if "DDP" in setting.variant else [])]


def run(setting, options):
    """images_per_s of each interval after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        json_file = f"{folder}/steps.jsonl"
        line = command(setting, options, json_file)
        trains = setting.variant.startswith("kolo") and options.libraries
        environment = gpu_parts.environment() | ({"LD_LIBRARY_PATH": options.libraries} if trains else {})
        done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"gpu_step.py: status {done.returncode} of {' '.join(line)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        text = pathlib.Path(json_file).read_text(encoding="utf-8") if setting.variant.startswith("kolo") else done.stdout
    rates = {}
    for line in map(json.loads, filter(lambda line: line.startswith("{"), text.splitlines())):
        if line["kind"] in ("step", "interval") and line["step"] >= options.warmup:
            rates[line["step"] // options.log_interval] = line["images_per_s"]
    if not rates:
        sys.exit(f"gpu_step.py: no step after {options.warmup} in what {setting.variant} wrote:\n{text[-3000:]}")
    return list(rates.values())


def record(setting, settings, options):
    middle = {each.variant: statistics.median(sum(each.rates, [])) for each in settings if each.batch == setting.batch}
    others = {"of_alone": "kolo's trainer without kolo", "of_pytorch": "PyTorch", "of_ddp": "PyTorch DDP"}
    return {"what": "images a second", "variant": setting.variant, "ranks": options.ranks, "batch": setting.batch,
            "image_size": options.image_size, "amp": options.amp, "device": options.device,
            "images_per_s": round(middle[setting.variant], 1),
            "repetitions": [round(statistics.median(each), 1) for each in setting.rates],
            **{name: round(middle[setting.variant] / middle[variant], 4) for name, variant in others.items() if variant in middle}}


def main():
    options = arguments()
    ways = ("kolo", "kolo's trainer without kolo", *(["PyTorch"] if options.ranks == 1 else []), "PyTorch DDP")
    settings = [Setting(variant, batch) for batch in options.batch for variant in ways]
    begin = time.monotonic()
    for number in range(options.repetitions):
        spent = time.monotonic() - begin
        if number > 0 and spent * (number + 1) / number > options.seconds:
            break
        for setting in settings if number % 2 == 0 else reversed(settings):
            setting.rates.append(run(setting, options))
    for setting in settings:
        print(json.dumps(record(setting, settings, options)), flush=True)


if __name__ == "__main__":
    main()
