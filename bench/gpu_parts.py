"""What script/gpu-check runs: its parts, each a command with a limit of time."""
import dataclasses
import os
import pathlib
import shutil

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]


@dataclasses.dataclass
class Part:
    name: str
    what: str
    command: list
    seconds: int  # after which it has failed
    environment: dict = dataclasses.field(default_factory=dict)
    figures: bool = False  # writes JSON lines for the report
    tool: str = ""  # a program that a machine may lack: where it does, the part is skipped


@dataclasses.dataclass
class Layout:
    """Where things are: in a source tree, or in an unpacked bundle, which has the same folders."""

    root: pathlib.Path
    programs: pathlib.Path
    python: str  # one that can import torch
    torch: pathlib.Path  # the folder of its wheel
    gpus: int = 1  # that torch sees

    def program(self, name):
        return str(self.programs / name)

    def script(self, name):
        return [self.python, "-B", str(self.root / name)]

    def libraries(self):
        """LD_LIBRARY_PATH of our programs, and of nothing else: a bundle's libraries are not what Python was built with."""
        folders = [self.root / "lib", self.torch / "lib", *sorted(self.torch.parent.glob("nvidia/*/lib"))]
        return ":".join(filter(None, [*map(str, folders), os.environ.get("LD_LIBRARY_PATH")]))


def with_libraries(layout, ranks=1):
    """The environment of a program of ours. More ranks than GPUs share them, over sockets of the host itself."""
    several = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN"} if ranks > 1 else {}
    shared = {"KOLO_SHARED_DEVICE": "on"} if ranks > layout.gpus else {}
    return {"LD_LIBRARY_PATH": layout.libraries(), **several, **shared}


SANITIZER = "compute-sanitizer"


def compute_sanitizer():
    known = (f"/usr/local/cuda/bin/{SANITIZER}", f"/usr/local/cuda/{SANITIZER}/{SANITIZER}")
    return next(filter(None, map(shutil.which, (SANITIZER, *known))), SANITIZER)


def of_ranks(layout, program, ranks):
    return [*MPIRUN, "-np", str(ranks), layout.program(program), "--gtest_color=no"]


def on_gpus(layout, ranks):
    return f"{ranks} ranks on {min(ranks, layout.gpus)} GPU{'s' if min(ranks, layout.gpus) > 1 else ''}"


def tests(layout):
    all_gpus = [layout.gpus] if layout.gpus > 3 else []
    yield Part("kernels", "the kernels' cases of tests/unit, and launches, on the device", [layout.program("gpu.kernels")], 120,
               with_libraries(layout))
    for ranks in (2, 3, *all_gpus):
        yield Part(f"nccl{ranks}", f"the contract of communicators over NCCL, {on_gpus(layout, ranks)}",
                   of_ranks(layout, "gpu.nccl", ranks), 600, with_libraries(layout, ranks))
    for ranks in (1, 2, *all_gpus):
        yield Part(f"training{ranks}", f"training like the CPU, streams and the caching allocator, {ranks} rank(s)",
                   of_ranks(layout, "gpu.training", ranks), 180, with_libraries(layout, ranks))
    for way, network in (("hierarchical", "tcp"), ("mixed", "tcp"), ("mixed", "mpi"), ("host", "tcp")):
        yield Part(f"hosts_{way}_{network}", f"the same on 4 ranks of 2 pretended hosts: {way}, {network} between them",
                   of_ranks(layout, "gpu.training", 4), 240,
                   {**with_libraries(layout, 4), "PRETENDED_HOSTS": "0011", "KOLO_DEVICE_REDUCTION": way,
                    "KOLO_NETWORK": network})
    for ranks in (1, 2):
        settings = [f"{key}={value}" for key, value in with_libraries(layout, ranks).items()]
        yield Part(f"trainer{ranks}", f"the trainer's losses are the CPU's; sources and precisions, {ranks} rank(s)",
                   [*layout.script("tests/gpu/trainer_run.py"), layout.program("imagenet_resnet50"), "cuda", str(ranks), "env",
                    *settings, *MPIRUN], 240)
    settings = [f"{key}={value}" for key, value in with_libraries(layout, 2).items()]
    yield Part("killed", "a rank is killed while the other trains on the GPU",
               [*layout.script("tests/faults/peer_killed.py"), layout.program("gpu.peer_killed"), "2", "all",
                "before_backward,before_step", "env", *settings, *MPIRUN], 300)
    for tool in ("memcheck", "racecheck"):
        yield Part(tool, f"compute-sanitizer's {tool} over the kernels' tests",
                   [compute_sanitizer(), "--tool", tool, "--error-exitcode", "9", layout.program("gpu.kernels")], 600,
                   with_libraries(layout), tool=SANITIZER)


def numbers_of_ranks(gpus):
    """1, 2, 4 and so on, and all."""
    return [1 << power for power in range(gpus.bit_length()) if 1 << power < gpus] + [gpus]


def benchmarks(layout, options):
    yield Part("bench_kernels", "each kernel against the rate of a copy and torch's own",
               [layout.program("gpu_kernels"), "100"], 120, with_libraries(layout), figures=True)
    yield Part("bench_launches", "what kolo adds to a step, counted", [layout.program("gpu_launches")], 120,
               with_libraries(layout), figures=True)
    for way in ("", "--ddp"):
        name = "bench_launches_ddp" if way else "bench_launches_torch"
        yield Part(name, f"launches of a step of PyTorch{' under DDP' if way else ''}, counted",
                   [*layout.script("bench/gpu_peer.py"), "--count", *([way] if way else [])], 120, figures=True)
    for amp in options.amp.split(","):
        for batch in options.batch.split(","):
            yield Part(f"bench_overhead_{amp}_{batch}", f"what kolo costs a step in {amp}, alternating in one process, batch {batch}",
                       [layout.program("gpu_overhead"), batch, amp], 180, with_libraries(layout), figures=True)
            yield Part(f"bench_overhead_{amp}_{batch}_ddp", f"what DDP costs a step in {amp}, likewise, batch {batch}",
                       [*layout.script("bench/gpu_peer.py"), "--ddp", "--blocks", "9", "--batch", batch, "--amp", amp], 180,
                       figures=True)
        for ranks in numbers_of_ranks(layout.gpus):
            command = [*layout.script("bench/gpu_step.py"), "--trainer", layout.program("imagenet_resnet50"),
                       "--python", layout.python, "--libraries", layout.libraries(), "--amp", amp, "--batch", options.batch,
                       "--repetitions", str(options.repetitions), "--seconds", str(options.seconds), "--ranks", str(ranks)]
            others = "PyTorch plain and under DDP" if ranks == 1 else f"and under DDP, {ranks} GPUs"
            yield Part(f"bench_step_{amp}" + (f"_{ranks}" if ranks > 1 else ""), f"images a second in {amp}: kolo on and off, {others}",
                       command, int(options.seconds * 1.3) + 60, figures=True)


def environment():
    """Of every part."""
    result = dict(os.environ)
    result["PYTHONUNBUFFERED"] = "1"
    if os.geteuid() == 0:
        result.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if not shutil.which("ssh") and not shutil.which("rsh"):
        result.setdefault("OMPI_MCA_plm", "isolated")  # there may be no launcher for other hosts
    return result
