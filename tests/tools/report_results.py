"""Objects as in results.json, made by a simple model of a step, for the test of the report."""

PEERS = {"ddp": ("PyTorch DDP", 1.25), "mpi": ("flat MPI", 1.45), "loop": ("MPI loop", 1.7),
         "torchfort": ("TorchFort's way", 1.6)}
ONE_RANK = 190.0
BYTES = 102_236_160
PARTS = ("before_first_gradient_ms", "backward_ms", "exposed_ms", "optimizer_ms", "other_ms")


def interval(value, width=0.02):
    return {"value": value, "low": (1 - width) * value, "high": (1 + width) * value}


def step_of(ranks, rate):
    """(step, exposed) in ms: the link carries what does not fit into backward."""
    bits = {"": 40e9, "1gbit": 1e9, "10gbit": 10e9}[rate]
    wire = 8e3 * BYTES * 2 * (ranks - 1) / ranks / bits
    exposed = max(0.1 * wire, wire - 0.4 * ONE_RANK)
    return ONE_RANK * (1 + 0.04 * (ranks > 1)) + exposed, exposed, wire


def make_row(ranks, hosts=0, rate="", variant="", peer=None):
    name = f"{hosts} hosts, {rate}" if hosts else f"{ranks} rank" + "s" * (ranks > 1)
    key = f"hosts{hosts}-{rate}" if hosts else f"ranks{ranks}"
    step, exposed, wire = step_of(ranks, rate)
    if variant == "sync off":
        step, exposed, wire = step - exposed, 0, 0
    factor = PEERS[peer][1] if peer else 1
    computing = factor * step - exposed
    row = {"key": key + (f"-{peer or variant.replace(' ', '-')}" if peer or variant else ""), "name": name,
           "variant": PEERS[peer][0] if peer else variant, "ranks": ranks, "hosts": hosts, "rate": rate,
           "command": ["./train"], "environment": {}, "facts": {"local_cores": "2", "local_ranks": str(1 if hosts else ranks)},
           "steps": 270, "step_ms": interval(factor * step), "step_ms_p95": 1.08 * factor * step,
           "parts": dict(zip(PARTS, (0.5 * computing, 0.4 * computing, exposed, 0.07 * computing, 0.03 * computing))),
           "reduced_bytes": BYTES if ranks > 1 else 0, "items_per_s": 4e3 * ranks / (factor * step), "warnings": [],
           "runs": [[factor * step] * 90] * 3}
    if peer:
        row["peer"] = peer
        row["step_to_default"] = interval(factor)
    else:
        row["parts"].update(communication_ms=wire, slowest_wait_ms=0.03 * step)
        if ranks > 1 and not variant:
            row["slowest_rank"] = {"rank": ranks - 1, "share_of_steps": 0.4}
    if ranks > 1 and variant != "sync off":
        row["efficiency_to_one_rank"] = interval(ONE_RANK / step / (factor if ranks > 2 else factor ** 0.5))
    return row


def make_results(counts=((1, 0, ""), (2, 0, ""), (2, 2, "1gbit"), (2, 2, "10gbit"), (4, 4, "1gbit"), (4, 4, "10gbit")),
                 peers=tuple(PEERS)):
    """`counts`: (ranks, emulated hosts, rate)."""
    rows = []
    for ranks, hosts, rate in counts:
        rows.append(make_row(ranks, hosts, rate))
        if ranks > 1:
            rows.append(make_row(ranks, hosts, rate, variant="sync off"))
        rows += [make_row(ranks, hosts, rate, peer=peer) for peer in peers]
    return {"kind": "kolo_scaling", "format": 1,
            "command": ["build/release/bin/imagenet_resnet50", "--data", "synthetic:device", "--batch", "4"],
            "scaling": "weak", "steps": 100, "warmup": 10, "repeat": 3,
            "environment": {"cpu": "a CPU with two cores", "kernel": "Linux", "kolo": "0.1.0", "libtorch": "2.11.0"},
            "rows": rows, "advice": []}


def without_chance(results):
    """All intervals have no upper end."""
    def walk(value):
        if isinstance(value, dict):
            if "high" in value:
                value.update(low=0, high=None)
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)
    walk(results["rows"])
    return results


def many_rows():
    """64 counts, up to 10,000 ranks."""
    ranks = [1, *range(2, 64), 10_000]
    return make_results([(each, 0, "") for each in ranks], peers=())


def hostile():
    """Texts of users that try to end elements of the page."""
    results = make_results(counts=((1, 0, ""), (2, 0, "")), peers=("ddp",))
    text = "</script><script>alert(1)</script><!--<img src=https://example.org/x onerror=alert(1)>{{data}}"
    results["command"] = ["./train", text]
    results["environment"]["cpu"] = text
    results["missing_peers"] = {"mpi": text}
    for row in results["rows"]:
        row["name"] = f"{row['ranks']} {text}"
        row["warnings"] = [text]
    return results
