#!/usr/bin/env python3
"""The median training step of ResNet-50 with kolo, with the same ranks training alone, and with PyTorch DDP.

    bench/step.py --ddp-python ddp-venv/bin/python3 --batch 4,8 --json step.jsonl

In a repetition each setting runs for a few steps in its own processes, one setting after the other. Changes of the
machine's speed therefore affect all settings. Medians are over the steps of all repetitions, except the first steps of
each process. Ratios are of medians. bench/README.md explains the columns.
"""
import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FORMATS = ("contiguous", "channels_last")
GRADIENTS = {"packed": "off", "shared": "on"}  # and the value of --shared-gradients
UPDATES = {"overlapped": "on", "after": "off"}  # and the value of --overlap-update
# What the trainer tells glibc about itself (process.cpp), said from outside: freed memory stays in the process.
KEEP_FREED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_TOP_PAD_": str(64 << 20)}


CLUSTER = HERE.parent / "script/cluster"
RATE = re.compile(r"(\d+(?:\.\d+)?)([mg])bit")
# Of ResNet-50's gradients in f32; and what of a full Ethernet frame of 1514 bytes is TCP's payload.
GRADIENT_BYTES = 4 * 25_557_032
PAYLOAD = 1448 / 1514


@dataclasses.dataclass
class Setting:
    """One row of the table: what to start, and what it has measured so far."""
    name: str
    impl: str  # kolo, alone, ddp
    batch: int
    memory_format: str
    command: list
    environment: dict
    coordinator: str = None
    malloc: str = "tuned"
    gradients: str = None  # of kolo: packed or shared
    update: str = None  # of kolo: overlapped or after
    samples: list = dataclasses.field(default_factory=list)  # JSON lines of steady steps
    repetitions: list = dataclasses.field(default_factory=list)  # median step_ms of each repetition

    def column(self, field):
        return [sample[field] for sample in self.samples if sample.get(field) is not None]

    def median(self, field="step_ms"):
        values = self.column(field)
        return statistics.median(values) if values else None

    def quantile(self, share):
        values = sorted(self.column("step_ms"))
        return values[min(len(values) - 1, int(share * len(values)))]


def fail(text):
    sys.exit(f"bench/step.py: {text}")


class HelpWithDefaults(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpWithDefaults)
    parser.add_argument("--repetitions", type=int, default=5, help="repetitions of each setting; with fewer than 3 the results are noise")
    parser.add_argument("--steps", type=int, default=15, help="of each process")
    parser.add_argument("--warmup", type=int, default=3, help="of them, not counted")
    parser.add_argument("--batch", default="4,8", help="images a rank, a list")
    parser.add_argument("--formats", default=",".join(FORMATS), help="memory formats, a list")
    parser.add_argument("--image-size", type=int, default=64, help="pixels a side")
    parser.add_argument("--ranks", type=int, default=0, help="0: two, or one a host")
    parser.add_argument("--threads", type=int, default=1, help="a rank")
    parser.add_argument("--coordinators", default="auto,never,always", help="values of KOLO_COORDINATOR, a list")
    parser.add_argument("--gradients", help="packed, shared (--shared-gradients on) or both, a list; what the hosts allow unless given")
    parser.add_argument("--updates", default="overlapped",
                        help="of weights, overlapped with the wait for gradients (--overlap-update on), after it, or both, a list")
    parser.add_argument("--trainer", default=str(HERE.parent / "build/release/bin/imagenet_resnet50"), help="the program")
    parser.add_argument("--launcher", default="mpirun --oversubscribe --bind-to none", help="'-np RANKS' is appended")
    parser.add_argument("--hosts", type=int, default=0,
                        help="emulated hosts, one rank each unless --ranks says more; needs root (script/cluster)")
    parser.add_argument("--rate", help="of the hosts' links, in tc's words: 1gbit, 10gbit; not shaped unless given")
    parser.add_argument("--no-ddp", action="store_true", help="leave PyTorch out")
    parser.add_argument("--ddp-python", default="python3", help="a Python that has PyTorch")
    parser.add_argument("--ddp-lean", action="store_true", help="also DDP without the copies and broadcasts it can do without")
    parser.add_argument("--ddp-convolutions", choices=("onednn", "stock"), default="onednn",
                        help="onednn: as in kolo's trainer; stock: as PyTorch has them")
    parser.add_argument("--ddp-optimizer", choices=("fused", "foreach", "plain"), default="fused", help="of PyTorch's SGDs")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a process may take")
    parser.add_argument("--json", help="file for JSON lines, continued")
    options = parser.parse_args()
    options.batch = [int(value) for value in options.batch.split(",")]
    options.formats = options.formats.split(",")
    options.coordinators = options.coordinators.split(",")
    if options.warmup >= options.steps or options.repetitions < 1:
        fail("--steps must be more than --warmup, --repetitions at least 1")
    options.ranks = options.ranks or options.hosts or 2
    shareable = options.hosts < 2 or options.ranks == options.hosts
    options.gradients = (options.gradients or ("packed,shared" if shareable else "packed")).split(",")
    options.updates = options.updates.split(",")
    if options.rate and not (options.hosts and RATE.fullmatch(options.rate)):
        fail("--rate is for --hosts, and is a number of mbit or gbit")
    if set(options.formats) - set(FORMATS):
        fail(f"--formats knows {', '.join(FORMATS)}")
    if set(options.gradients) - set(GRADIENTS):
        fail(f"--gradients knows {', '.join(GRADIENTS)}")
    if set(options.updates) - set(UPDATES):
        fail(f"--updates knows {', '.join(UPDATES)}")
    return options


def check_parts(options):
    """Everything that will be started is there, before anything is measured."""
    if not os.access(options.trainer, os.X_OK):
        fail(f"there is no trainer at {options.trainer}: run script/build, or pass --trainer")
    if options.hosts:
        done = subprocess.run([CLUSTER, "possible"], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            fail(done.stderr.strip())
    launcher = shlex.split(options.launcher)
    try:
        subprocess.run([*launcher[:1], "--version"], capture_output=True, check=False, timeout=30)
    except OSError as error:
        fail(f"--launcher {launcher[0]}: {error.strerror}")
    if options.no_ddp:
        return
    try:
        done = subprocess.run([options.ddp_python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                              capture_output=True, text=True, check=False, timeout=120)
    except OSError as error:
        fail(f"--ddp-python {options.ddp_python}: {error.strerror}")
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        fail(f"{options.ddp_python} has no PyTorch with gloo ({reason}): pass --ddp-python, or --no-ddp")


def kolo_settings(options, batch, memory_format):
    command = [options.trainer, "--data", "synthetic:device", "--memory-format", memory_format, "--batch", batch,
               "--image-size", options.image_size, "--steps", options.steps, "--threads", options.threads,
               "--log-interval", 10**6]
    yield Setting("ranks alone", "alone", batch, memory_format, [*command, "--sync", "off"], {})
    for gradients, coordinator, update in itertools.product(options.gradients, options.coordinators, options.updates):
        name = f"kolo, {gradients}, {coordinator}" + (", after" if update == "after" else "")
        yield Setting(name, "kolo", batch, memory_format,
                      [*command, "--shared-gradients", GRADIENTS[gradients], "--overlap-update", UPDATES[update]],
                      {"KOLO_COORDINATOR": coordinator}, coordinator, gradients=gradients, update=update)


def ddp_settings(options, batch, memory_format):
    command = [options.ddp_python, HERE / "ddp_resnet50.py", "--batch", batch, "--image-size", options.image_size,
               "--steps", options.steps, "--threads", options.threads, "--optimizer", options.ddp_optimizer,
               "--convolutions", options.ddp_convolutions]
    if memory_format == "channels_last":
        command.append("--channels-last")
    for kind, extra in [("ddp", []), ("lean ddp", ["--lean"])][:2 if options.ddp_lean else 1]:
        for malloc, environment in (("stock", {}), ("tuned", KEEP_FREED)):
            yield Setting(f"{kind}, {malloc} malloc", kind.replace(" ", "_"), batch, memory_format, [*command, *extra],
                          environment, None, malloc)


def all_settings(options):
    settings = []
    for batch in options.batch:
        for memory_format in options.formats:
            settings += kolo_settings(options, batch, memory_format)
            if not options.no_ddp:
                settings += ddp_settings(options, batch, memory_format)
    return settings


def measure(setting, options, folder):
    """One run of the setting: its processes from start to end."""
    output = pathlib.Path(folder, "steps.jsonl")
    meeting = pathlib.Path(folder, "meeting")
    for path in (output, meeting):
        path.unlink(missing_ok=True)
    own = {"OMP_NUM_THREADS": str(options.threads), **setting.environment}
    launcher = [*shlex.split(options.launcher), "-np", options.ranks]
    if options.hosts:  # there mpirun hands on only what it is told to
        own["GLOO_SOCKET_IFNAME"] = "eth0"
        launcher = [CLUSTER, "run", "-n", options.ranks, "--", *(word for name in own for word in ("-x", name))]
    command = [*launcher, *setting.command, "--json", output]
    if setting.impl.endswith("ddp"):
        command += ["--meeting", meeting]
    command = [str(word) for word in command]
    environment = {**os.environ, **own}
    if os.geteuid() == 0:  # Open MPI wants to be told twice
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        fail(f"not done after {options.timeout} s: {shlex.join(command)}")
    if done.returncode != 0 or not output.exists():
        fail(f"returned {done.returncode}: {shlex.join(command)}\n{done.stdout}")
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    steady = [line for line in lines if line["kind"] == "step" and line["step"] >= options.warmup]
    setting.samples += steady
    setting.repetitions.append(statistics.median(line["step_ms"] for line in steady))


@contextlib.contextmanager
def emulated_hosts(options):
    """Hosts of this run's own, as long as it lasts; or nothing."""
    if not options.hosts:
        yield
        return
    os.environ["EMULATED_HOSTS"] = f"kolo-step-{os.getpid()}"
    try:
        bandwidth = ["--bandwidth", options.rate] if options.rate else []
        subprocess.run([CLUSTER, "up", "--hosts", str(options.hosts), *bandwidth], check=True, timeout=60)
        yield
    finally:
        subprocess.run([CLUSTER, "down"], check=False, timeout=60)


def run_repetitions(settings, options):
    with tempfile.TemporaryDirectory(prefix="kolo-step-") as folder:
        for number in range(options.repetitions):
            # Every other repetition backwards: no setting is always first, or always behind the same one.
            for place, setting in enumerate(settings if number % 2 == 0 else settings[::-1], 1):
                if sys.stderr.isatty():
                    print(f"\rrepetition {number + 1}/{options.repetitions}, setting {place}/{len(settings)}", end="", file=sys.stderr)
                measure(setting, options, folder)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def measured(settings):
    """Those with samples, of groups in which there is something to compare: not all after an interrupt."""
    with_samples = [s for s in settings if s.samples]
    groups = {(s.batch, s.memory_format, s.impl) for s in with_samples}
    return [s for s in with_samples if all((s.batch, s.memory_format, impl) in groups for impl in ("alone", "kolo"))]


def wire_ms(options):
    """What a ring of this many hosts must send in each direction of a link, at the line rate."""
    if not options.rate:
        return None
    number, unit = RATE.fullmatch(options.rate).groups()
    payload_per_ms = float(number) * {"m": 1e6, "g": 1e9}[unit] / 8 * PAYLOAD / 1000
    return 2 * (options.hosts - 1) / options.hosts * GRADIENT_BYTES / payload_per_ms


def bound_ms(alone, options):
    """No step that updates behind its last gradient can be shorter: its computing, or forward and update with the wire
    busy all the time between."""
    wire = wire_ms(options)
    return None if wire is None else max(alone.median(), alone.median("forward_ms") + wire + alone.median("update_ms"))


def record(setting, settings, options):
    """The JSON line of one setting (docs/formats.md)."""
    alike = [s for s in settings if (s.batch, s.memory_format) == (setting.batch, setting.memory_format)]
    alone = next(s for s in alike if s.impl == "alone")
    floor, bound = alone.median(), bound_ms(alone, options)
    ours = next(s for s in alike if s.impl == "kolo").median()
    median = setting.median()
    return {"kind": "step_bench", "impl": setting.impl, "coordinator": setting.coordinator, "malloc": setting.malloc, "gradients": setting.gradients,
            "update": setting.update,
            "memory_format": setting.memory_format, "arch": "resnet50", "batch": setting.batch,
            "image_size": options.image_size, "ranks": options.ranks, "threads": options.threads,
            "hosts": options.hosts or 1, "rate": options.rate, "wire_ms": wire_ms(options),
            "over_bound": median / bound if bound else None,
            "forward_ms_p50": setting.median("forward_ms"), "update_ms_p50": setting.median("update_ms"),
            "repetitions": len(setting.repetitions), "steps": len(setting.samples), "step_ms_p50": median,
            "step_ms_p10": setting.quantile(0.1), "step_ms_p90": setting.quantile(0.9), "repetitions_ms": setting.repetitions,
            "over_alone": median / floor, "kolo_speedup": median / ours, "exposed_ms_p50": setting.median("exposed_ms"),
            "page_faults": statistics.mean(setting.column("page_faults"))}


def show(records):
    """A table for each batch and memory format."""
    group = None
    for r in records:
        if group != (r["batch"], r["memory_format"]):
            group = (r["batch"], r["memory_format"])
            print(f"\nResNet-50, {r['ranks']} ranks x {r['threads']} thread(s), batch {r['batch']} a rank, {r['image_size']} px, "
                  f"{r['memory_format']}, {r['repetitions']} repetitions"
                  + (f"; {r['hosts']} hosts, {r['rate'] or 'links not shaped'}" if r["hosts"] > 1 else ""))
            if r["wire_ms"]:
                print(f"alone: forward {r['forward_ms_p50']:.1f}, update {r['update_ms_p50']:.1f}; the bytes at line rate: "
                      f"{r['wire_ms']:.1f}; bound = {r['step_ms_p50'] / r['over_bound']:.1f}")
            print(f"{'':26}{'step ms':>9}{'p10':>8}{'p90':>8}{'/ alone':>9}{'/ kolo':>8}{'/ bound':>9}{'exposed':>9}{'faults':>8}")
        exposed = "" if r["exposed_ms_p50"] is None else f"{r['exposed_ms_p50']:.1f}"
        bound = "" if r["over_bound"] is None else f"{r['over_bound']:.3f}"
        print(f"{r['name']:26}{r['step_ms_p50']:9.1f}{r['step_ms_p10']:8.1f}{r['step_ms_p90']:8.1f}{r['over_alone']:9.3f}"
              f"{r['kolo_speedup']:8.2f}{bound:>9}{exposed:>9}{r['page_faults']:8.0f}")


def main():
    options = arguments()
    check_parts(options)
    settings = all_settings(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    interrupted = False
    try:
        with emulated_hosts(options):
            run_repetitions(settings, options)
    except KeyboardInterrupt:  # hours of figures are not lost with the last one
        interrupted = True
    settings = measured(settings)
    records = [record(setting, settings, options) for setting in settings]
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            for line in records:
                print(json.dumps(line), file=file)
    show([{**line, "name": setting.name} for line, setting in zip(records, settings)])
    if interrupted:
        fail("interrupted: these are the figures until then")


if __name__ == "__main__":
    main()
