#!/usr/bin/env python3
"""Trains ResNet-50 under PyTorch's DistributedDataParallel, with the options, images and weights of imagenet_resnet50.

    KOLO_STEP_LOG=/tmp/steps mpirun -np 2 python3 bench/peers/ddp.py --data synthetic:device --batch 4 --image-size 64

`kolo scaling --peers ddp` starts it. Each rank writes a step log (docs/formats.md) to <KOLO_STEP_LOG>.rank<R>.jsonl. The
ranks meet by a file beside it, which all hosts must see. DDP has its default settings; gloo reduces on CPUs, NCCL on GPUs.
exposed is the time from the last gradient until backward() returns. DDP reduces during backward, so how long its
reductions take is unknown. Without --steps the training has no end.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import socket
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    sys.exit(f"ddp.py: {sys.executable} has no PyTorch ({error}). Run: pip install torch==2.11.0 numpy")

from resnet50 import ResNet50, use_onednn

AMP = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}
IMAGES = 1281167  # of an epoch
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet
# Variables of Open MPI, of PMI, of Slurm, and of torchrun: rank, ranks, rank on its host.
LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
             ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
             ("RANK", "WORLD_SIZE", "LOCAL_RANK"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--data", required=True, choices=("synthetic:device",))
    parser.add_argument("--arch", default="resnet50", choices=("resnet50",))
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--image-size", type=int, default=224, help="pixels per side")
    parser.add_argument("--steps", type=int, default=0, help="stop after this number of steps; 0: no limit")
    parser.add_argument("--threads", type=int, default=0, help="PyTorch threads per rank; 0: OMP_NUM_THREADS, or this rank's share of the cores")
    parser.add_argument("--memory-format", default="channels_last", choices=("contiguous", "channels_last"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--amp", default="off", choices=tuple(AMP))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate for a global batch of 256")
    parser.add_argument("--warmup-epochs", type=float, default=5, help="epochs in which the learning rate rises")
    for name in ("--workers", "--log-interval", "--shared-gradients", "--overlap-update"):
        parser.add_argument(name, help="of imagenet_resnet50; no effect here")
    return parser.parse_args()


def placement():
    """Rank, number of ranks, and rank on its host."""
    for names in LAUNCHERS:
        if all(name in os.environ for name in names[:2]):
            rank, size = (int(os.environ[name]) for name in names[:2])
            return rank, size, int(os.environ.get(names[2], 0))
    return 0, 1, 0


def default_threads():
    """As the trainer: OMP_NUM_THREADS, or this rank's share of the cores that it may use."""
    cores, local_size = len(os.sched_getaffinity(0)), int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", 1))
    share = cores if cores < os.cpu_count() else cores // local_size
    return int(os.environ.get("OMP_NUM_THREADS") or max(1, share))


class HostClock:
    """Marks are nanoseconds of the clock that all processes of a host share."""

    mark = staticmethod(time.monotonic_ns)

    @staticmethod
    def microseconds(begin, end):
        return (end - begin) / 1000

    @staticmethod
    def has_passed(_):
        return True


class DeviceClock:
    """Marks are events in the current stream of the GPU."""

    @staticmethod
    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def microseconds(begin, end):
        return 1000 * begin.elapsed_time(end)

    @staticmethod
    def has_passed(event):
        return event.query()


class StepLog:
    """A step lasts from one update of the weights to the next. On a GPU its line is written when its events have passed,
    so that no step waits for the device."""

    def __init__(self, path, head, clock, reduced_bytes):
        self.clock, self.reduced_bytes = clock, reduced_bytes
        self.file = open(path, "a", buffering=1, encoding="utf-8")  # as long as the process
        self.line(head)
        self.steps, self.start_us = 0, time.monotonic_ns() / 1000
        self.marks = [clock.mark()]
        self.pending = collections.deque()

    def line(self, fields):
        print(json.dumps(fields, separators=(",", ":")), file=self.file)

    def mark(self):
        """In each step: at the first and the last gradient, after backward, and after the update."""
        self.marks.append(self.clock.mark())
        if len(self.marks) == 5:
            self.pending.append(self.marks)
            self.marks = self.marks[-1:]
            self.write()

    def write(self):
        while self.pending and self.clock.has_passed(self.pending[0][-1]):
            marks = self.pending.popleft()
            before, backward, exposed, optimizer = map(self.clock.microseconds, marks, marks[1:])
            step, self.steps = before + backward + exposed + optimizer, self.steps + 1
            self.line({"kind": "step", "step": self.steps, "start_us": self.start_us, "step_us": step,
                       "before_first_gradient_us": before, "backward_us": backward, "exposed_us": exposed,
                       "optimizer_us": optimizer, "other_us": 0, "communication_us": None,
                       "synchronize_us": before + backward, "reductions": None, "reduced_bytes": self.reduced_bytes})
            self.start_us += step


def synthetic_batch(options, rank):
    """The images and labels that the trainer makes on this rank: noise on a color of the class, normalized."""
    generator = torch.Generator().manual_seed(options.seed * 2 * 1000003 + rank)
    labels = torch.randint(0, options.classes, (options.batch,), generator=generator)
    tint = torch.stack([labels.remainder(7) * 8, labels.div(7, rounding_mode="floor").remainder(7) * 8,
                        labels.div(49, rounding_mode="floor").remainder(7) * 8], 1)
    shape = (options.batch, options.image_size, options.image_size, 3)
    noise = torch.randint(0, 200, shape, generator=generator, dtype=torch.uint8)
    images = (noise + tint.to(torch.uint8).view(-1, 1, 1, 3)).permute(0, 3, 1, 2).float() / 255
    mean, deviation = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (MEAN, DEVIATION))
    return (images - mean) / deviation, labels


class Training:
    def __init__(self, options, device, rank, size):
        self.options, self.size = options, size
        layout = torch.channels_last if options.memory_format == "channels_last" else torch.contiguous_format
        torch.manual_seed(options.seed)
        model = ResNet50(options.classes).to(memory_format=layout)
        if device.type == "cpu":
            use_onednn(model)
        self.parameters = list(model.to(device).parameters())
        self.model = nn.parallel.DistributedDataParallel(model, [device] if device.type == "cuda" else None)
        self.optimizer = torch.optim.SGD(self.parameters, lr=options.lr, momentum=0.9, weight_decay=1e-4, fused=True)
        self.scaler = torch.amp.GradScaler(device.type, enabled=options.amp == "fp16")
        images, labels = synthetic_batch(options, rank)
        self.images, self.labels = images.contiguous(memory_format=layout).to(device), labels.to(device)
        self.totals = torch.zeros(2, dtype=torch.float64, device=device)  # loss, correct images
        self.done = 0

    def autocast(self):
        kind = AMP[self.options.amp]
        return torch.autocast(self.images.device.type, kind) if kind else contextlib.nullcontext()

    def learning_rate(self):
        """As the trainer's in its first epochs."""
        global_batch = self.options.batch * self.size
        steps = self.options.warmup_epochs * (IMAGES // global_batch)  # of the warm-up
        return self.options.lr * global_batch / 256 * min(1, (self.done + 1) / max(1, steps))

    def step(self, log):
        """Returns the loss, which the device may not have computed yet."""
        self.optimizer.param_groups[0]["lr"] = self.learning_rate()
        with self.autocast():
            logits = self.model(self.images)
        logits = logits.float()
        loss = nn.functional.cross_entropy(logits, self.labels)
        self.scaler.scale(loss).backward()
        log.mark()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        log.mark()
        self.optimizer.zero_grad()
        if loss.device.type == "cpu":
            loss.item()
        with torch.no_grad():
            self.totals[0] += loss * len(self.labels)
            self.totals[1] += logits.argmax(1).eq(self.labels).sum()
        self.done += 1
        return loss.detach()


def connect(options, meeting, rank, size):
    """The ranks meet by the file, which must be new. gloo does not need it afterwards; NCCL does."""
    store = dist.FileStore(str(meeting), size)
    dist.init_process_group("gloo" if options.device == "cpu" else "nccl", store=store, rank=rank, world_size=size)
    dist.barrier()
    if rank == 0 and options.device == "cpu":
        meeting.unlink()


def facts():
    count = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
    return {"threads": str(torch.get_num_threads()), "pytorch": torch.__version__,
            **({"local_ranks": count} if count else {})}


def main():
    options = arguments()
    log_start = os.environ.get("KOLO_STEP_LOG")
    if not log_start:
        sys.exit("ddp.py: KOLO_STEP_LOG is not set. Set it to a file in an existing folder that all hosts see")
    rank, size, local_rank = placement()
    device = torch.device("cpu")
    if options.device == "cuda":
        if not torch.cuda.is_available():
            sys.exit(f"ddp.py: --device cuda: PyTorch {torch.__version__} of {sys.executable} sees no GPU. "
                     "Pass --python with a PyTorch for CUDA, and check nvidia-smi")
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    torch.set_num_threads(options.threads or default_threads())
    meeting = pathlib.Path(log_start + ".meeting")
    connect(options, meeting, rank, size)
    training = Training(options, device, rank, size)
    head = {"kind": "step_log", "rank": rank, "size": size, "host": socket.gethostname(), "process": os.getpid(),
            "clock_offset_us": 0, "clock_error_us": None, "facts": facts()}
    clock = HostClock if options.device == "cpu" else DeviceClock
    log = StepLog(f"{log_start}.rank{rank}.jsonl", head, clock, sum(4 * each.numel() for each in training.parameters))
    # The last parameter gets its gradient first, and the first parameter gets it last.
    for parameter in (training.parameters[-1], training.parameters[0]):
        parameter.register_hook(lambda _: log.mark())
    while options.steps == 0 or training.done < options.steps:
        loss = training.step(log)
    dist.all_reduce(loss)
    if device.type == "cuda":
        torch.cuda.synchronize()
    log.write()
    if rank == 0:
        print(f"step {training.done}: loss {loss.item() / size:.6f}", flush=True)
    dist.barrier()
    if rank == 0:
        meeting.unlink(missing_ok=True)
    os._exit(0)  # threads of gloo that outlive the interpreter can abort the process


if __name__ == "__main__":
    main()
