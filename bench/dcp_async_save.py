#!/usr/bin/env python3
"""What PyTorch's distributed.checkpoint.async_save costs, as checkpoint_cost measures kolo:

    [mpirun -np 2] python3 bench/dcp_async_save.py FOLDER REPETITIONS --data synthetic:device --batch 8 --image-size 128

Options of bench/peers/ddp.py follow. Blocks of 20 timed steps under DistributedDataParallel alternate: without
checkpoints, and with two of model and optimizer. A checkpoint that is due while one is being written is skipped.
"""
import os
import pathlib
import random
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from ddp import Training, arguments, connect, default_threads, placement  # noqa: E402

EVERY, UNTIMED, TIMED = 10, 5, 20


class NoLog:
    def mark(self):
        pass


class Saves:
    def __init__(self, training, folder, rank):
        self.training, self.folder, self.rank = training, folder, rank
        self.pending, self.number, self.skipped, self.blocked_ms = None, 0, 0, []

    def save(self):
        if self.pending is not None and not self.pending.done():
            self.skipped += 1
            return
        start = time.monotonic()
        state = {"model": self.training.model.module.state_dict(), "optimizer": self.training.optimizer.state_dict()}
        self.number += 1
        self.pending = dcp.async_save(state, checkpoint_id=f"{self.folder}/{self.number}")
        self.blocked_ms.append(1000 * (time.monotonic() - start))
        if self.rank == 0:  # as many stay as of kolo
            shutil.rmtree(f"{self.folder}/{self.number - 2}", ignore_errors=True)

    def settle(self):
        if self.pending is not None:
            self.pending.result()


def block(training, saves):
    for step in range(1, UNTIMED + TIMED + 1):
        training.step(NoLog())
        if saves is not None and step % EVERY == 0:
            saves.save()
        if step == UNTIMED:
            start = time.monotonic()
    mean = 1000 * (time.monotonic() - start) / TIMED
    if saves is not None:
        saves.settle()
    return mean


def interval(ratios):
    draws = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.4f} [{draws[50]:.4f}, {draws[1949]:.4f}]"


def main():
    folder, repetitions = pathlib.Path(sys.argv[1]).absolute(), int(sys.argv[2])
    del sys.argv[1:3]
    options = arguments()
    rank, size, _ = placement()
    torch.set_num_threads(options.threads or default_threads())
    folder.mkdir(parents=True, exist_ok=True)
    connect(options, folder / f"meeting-{os.getppid()}", rank, size)
    training = Training(options, torch.device("cpu"), rank, size)
    saves = Saves(training, folder, rank)
    block(training, saves)
    plain, saved = [], []
    for _ in range(repetitions):
        plain.append(block(training, None))
        saved.append(block(training, saves))
    if rank == 0:
        print(f"step without checkpoints: {statistics.median(plain):.1f} ms; {saves.number} saved, {saves.skipped} skipped")
        print(f"async_save: {interval([a / b for a, b in zip(saved, plain)])} of a step without checkpoints")
        print(f"async_save() is blocked for {statistics.median(saves.blocked_ms):.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
