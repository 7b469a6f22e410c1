#!/usr/bin/env python3
"""The trainer's loop in PyTorch, on one GPU or, by torchrun, several: what kolo's trainer is measured against.

    bench/gpu_peer.py --batch 128 --amp bf16                 images a second of ResNet-50 at 224 pixels
    bench/gpu_peer.py --ddp                                  the same under DistributedDataParallel, a world of one
    torchrun --nproc-per-node 4 bench/gpu_peer.py --ddp      and of four
    bench/gpu_peer.py --count                                kernels, copies and fills of a step, by torch's profiler
    bench/gpu_peer.py --ddp --blocks 9                        what DDP costs a step: one model, with it and without, alternating
    bench/gpu_peer.py --describe                             the GPU and the versions

As imagenet_resnet50 --data synthetic:device: ready images on the device, autocast, loss in fp32, SGD with momentum and
weight decay (fused), zero_grad; loss and hits are summed on the device, and read when an interval of steps ends. JSON
lines on stdout, of rank 0; bench/gpu_step.py reads them.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    sys.exit(f"gpu_peer.py: {sys.executable} has no PyTorch ({error})")

from peers.resnet50 import ResNet50

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
RANK, SIZE, LOCAL_RANK = (int(os.environ.get(name, default)) for name, default in  # of torchrun
                          (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--amp", choices=("off", "bf16", "fp16"), default="bf16")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--log-interval", type=int, default=20, help="steps between two waits for the device")
    parser.add_argument("--ddp", action="store_true", help="train under DistributedDataParallel")
    parser.add_argument("--count", action="store_true", help="count what the device runs instead of timing it")
    parser.add_argument("--blocks", type=int, default=0, help="with --ddp: blocks of steps with DDP, and as many without")
    parser.add_argument("--describe", action="store_true", help="describe the GPU and the versions, and exit")
    return parser.parse_args()


def copy_rate(elements=1 << 28):
    """GB/s, read and written, of copies inside the device."""
    source, target = torch.rand(elements, device="cuda"), torch.empty(elements, device="cuda")
    times = []
    for _ in range(12):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        source.add_(1)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return 2 * 4 * elements / sorted(times)[len(times) // 2] / 1e6


def describe():
    device = torch.cuda.get_device_properties(0)
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {"gpu": device.name, "gpus": torch.cuda.device_count(), "multiprocessors": device.multi_processor_count,
            "memory_gb": round(device.total_memory / 1e9, 1),
            "capability": f"{device.major}.{device.minor}", "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "nccl": nccl, "copy_gbps": round(copy_rate(), 1), "python": sys.version.split()[0]}


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


class Training:
    def __init__(self, options):
        self.options = options
        device = options.device
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        model = ResNet50().to(device=device, memory_format=torch.channels_last)
        if options.ddp:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(device, enabled=options.amp == "fp16")
        shape = (options.batch, 3, options.image_size, options.image_size)
        self.images = torch.randn(shape).to(memory_format=torch.channels_last).to(device)
        self.labels = torch.randint(1000, (options.batch,)).to(device)
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.hits = torch.zeros((), dtype=torch.float64, device=device)

    def autocast(self):
        if self.options.amp == "off":
            return contextlib.nullcontext()
        return torch.autocast(self.options.device, dtype=TYPES[self.options.amp])

    def step(self):
        with self.autocast():
            logits = self.model(self.images)
        logits = logits.float()
        loss = nn.functional.cross_entropy(logits, self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        with torch.no_grad():
            self.loss += loss * len(self.labels)
            self.hits += logits.argmax(1).eq(self.labels).sum()


def time_steps(training, options):
    """images_per_s of all ranks, of each interval but the first; loss and top1 of rank 0's images."""
    training.step()
    wait_for(options.device)
    done = 1
    while done < options.steps:
        count = min(options.log_interval - done % options.log_interval, options.steps - done)
        begin = time.perf_counter()
        for _ in range(count):
            training.step()
        wait_for(options.device)
        seconds = time.perf_counter() - begin
        done += count
        loss, hits = training.loss.item(), training.hits.item()
        rate = SIZE * count * options.batch / seconds
        line = {"kind": "interval", "step": done - 1, "steps": count, "images_per_s": rate, "loss": loss / (done * options.batch),
                "top1": hits / (done * options.batch)}
        if RANK == 0:
            print(json.dumps(line), flush=True)


def count_launches(training, options, steps=4):
    from torch.profiler import ProfilerActivity, profile

    for _ in range(5):
        training.step()
    wait_for(options.device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            training.step()
        wait_for(options.device)
    kinds = {"kernels": 0, "copies": 0, "fills": 0}
    for event in profiler.events():
        if event.device_type != torch.autograd.DeviceType.CUDA:
            continue
        if getattr(event, "is_user_annotation", False):
            continue
        name = event.name
        kinds["copies" if name.startswith("Memcpy") else "fills" if name.startswith("Memset") else "kernels"] += 1
    line = {"what": "launches a step", "variant": "PyTorch DDP" if options.ddp else "PyTorch"}
    print(json.dumps({**line, **{kind: number / steps for kind, number in kinds.items()}}), flush=True)


def time_blocks(training, options, warm_up=6, steps=20):
    """As bench/gpu_overhead.cpp has it for kolo."""
    models = {"PyTorch DDP": training.model, "PyTorch": training.model.module}
    times = {variant: [] for variant in models}
    for block in range(options.blocks):
        for variant in sorted(models, reverse=block % 2 == 1):
            training.model = models[variant]
            for _ in range(warm_up):
                training.step()
            wait_for(options.device)
            begin = time.perf_counter()
            for _ in range(steps):
                training.step()
            wait_for(options.device)
            times[variant].append(1000 * (time.perf_counter() - begin) / steps)
    same = {"batch": options.batch, "amp": options.amp}
    for variant, each in times.items():
        print(json.dumps({"what": "overhead", "variant": variant, **same, "step_ms": round(statistics.median(each), 3)}), flush=True)
    ratios = sorted(plain / ddp for plain, ddp in zip(times["PyTorch"], times["PyTorch DDP"]))
    print(json.dumps({"what": "of_alone", "variant": "PyTorch DDP", **same, "median": round(ratios[len(ratios) // 2], 4),
                      "least": round(ratios[0], 4), "most": round(ratios[-1], 4)}), flush=True)


@contextlib.contextmanager
def world(options):
    if not options.ddp:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        alone = {"init_method": f"file://{folder}/meeting", "rank": 0, "world_size": 1} if SIZE == 1 else {}
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo", **alone)
        yield
        dist.destroy_process_group()


def main():
    options = arguments()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"gpu_peer.py: no GPU: torch {torch.__version__} of {sys.executable} sees none")
    if options.describe:
        print(json.dumps(describe()))
        return
    if options.blocks and not options.ddp:
        sys.exit("gpu_peer.py: --blocks compares DDP with none: add --ddp")
    if SIZE > 1 and (not options.ddp or options.count or options.blocks):
        sys.exit("gpu_peer.py: several ranks train with --ddp; --count and --blocks are of one")
    if options.device == "cuda":
        torch.cuda.set_device(LOCAL_RANK)
    with world(options):
        training = Training(options)
        if options.count:
            count_launches(training, options)
        elif options.blocks:
            time_blocks(training, options)
        else:
            time_steps(training, options)


if __name__ == "__main__":
    main()
