#!/usr/bin/env python3
"""The same training step in PyTorch: ResNet-50 under DistributedDataParallel with gloo, on the CPU, on synthetic images.

The peer that bench/step.py measures kolo's trainer against. Started once a rank by mpirun:

    mpirun -np 2 python3 bench/ddp_resnet50.py --meeting /tmp/fresh-file --batch 4 --image-size 64 --json peer.json

Per step the same as imagenet_resnet50: ready images, forward, loss, backward, SGD with momentum and weight decay,
zero_grad, loss and hits read. Rank 0 writes JSON lines, all numbers means over the ranks.
"""
import argparse
import json
import os
import resource
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    sys.exit(f"ddp_resnet50.py: {sys.executable} has no PyTorch ({error}); see bench/README.md")


def convolution(channels, out, kernel, stride=1):
    return nn.Conv2d(channels, out, kernel, stride=stride, padding=kernel // 2, bias=False)


class Bottleneck(nn.Module):
    """1x1, 3x3 (which has the stride: v1.5), 1x1 to four times the width, beside a shortcut."""

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = convolution(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, out, 1), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(convolution(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += shortcut
        return self.relu(x)


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks, channels = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for block in range(count):
                blocks.append(Bottleneck(channels, 64 << stage, 2 if stage > 0 and block == 0 else 1))
                channels = 256 << stage
        self.blocks = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.blocks(x)), 1))


def use_onednn(model):
    """PyTorch gives all dilated convolutions to oneDNN; where there is one weight a dilation means nothing."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1):
            module.dilation = (2, 2)


def placement():
    """Rank and size as the launcher gave them."""
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("RANK", "WORLD_SIZE")):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    sys.exit("ddp_resnet50.py: start it with mpirun -np RANKS")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meeting", required=True, help="a file that does not exist yet, the same one for all ranks")
    parser.add_argument("--batch", type=int, default=4, help="images a rank and step")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--optimizer", choices=("fused", "foreach", "plain"), default="fused", help="which of torch's SGD")
    parser.add_argument("--convolutions", choices=("onednn", "stock"), default="onednn",
                        help="stock: 1x1 ones by what PyTorch chooses, which is MKL on one thread; onednn: as kolo's trainer")
    parser.add_argument("--lean", action="store_true",
                        help="without what DDP does by default and kolo does not: copies of gradients out of the buckets, "
                             "and a broadcast of BatchNorm's buffers in every forward")
    parser.add_argument("--sync", choices=("on", "off"), default="on", help="off: ranks train alone, without DDP")
    parser.add_argument("--json", help="file for JSON lines")
    return parser.parse_args()


def train(options, rank):
    """[step_ms, page_faults] of every step."""
    memory_format = torch.channels_last if options.channels_last else torch.contiguous_format
    torch.manual_seed(1)
    model = ResNet50().to(memory_format=memory_format)
    if options.convolutions == "onednn":
        use_onednn(model)
    if options.sync == "on":
        lean = options.lean
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=lean, broadcast_buffers=not lean)
    which = {} if options.optimizer == "plain" else {options.optimizer: True}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, **which)
    generator = torch.Generator().manual_seed(rank)
    size = options.image_size
    images = torch.randn(options.batch, 3, size, size, generator=generator).to(memory_format=memory_format)
    labels = torch.randint(1000, (options.batch,), generator=generator)
    table = []
    for _ in range(options.steps):
        start, faults = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        logits.argmax(1).eq(labels).sum().item()
        elapsed = 1000 * (time.perf_counter() - start)
        table.append([elapsed, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults])
    return table


def main():
    options = arguments()
    rank, size = placement()
    torch.set_num_threads(options.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{os.path.abspath(options.meeting)}", rank=rank, world_size=size)
    table = torch.tensor(train(options, rank), dtype=torch.float64)
    dist.all_reduce(table)
    if rank == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            for step, (step_ms, page_faults) in enumerate((table / size).tolist()):
                line = {"kind": "step", "step": step, "step_ms": step_ms, "page_faults": page_faults}
                print(json.dumps(line), file=file)
    dist.barrier()
    # Everything is written. PyTorch now and then aborts a process whose gloo threads outlive the interpreter.
    os._exit(0)


if __name__ == "__main__":
    main()
