"""What the figures of script/gpu-check say: goals met or missed, one JSON file and one page to read."""
import dataclasses
import json

# Of ResNet-50 at 224 pixels, two bytes an activation: bytes that one trained image moves with separate kernels for
# normalisation, ReLU and sum, counted layer by layer. What the memory allows is its rate over that.
BYTES_OF_AN_IMAGE = 433e6


@dataclasses.dataclass
class Figure:
    what: str
    value: float
    unit: str
    goal: float = None  # at least that
    beside: str = ""  # what else was measured with it

    @property
    def verdict(self):
        if self.goal is None:
            return ""
        return "met" if self.value >= self.goal else "MISSED"


def select(records, **wanted):
    return [each for each in records if all(each.get(key) == value for key, value in wanted.items())]


def one(records, **wanted):
    found = select(records, **wanted)
    return found[0] if found else None


def ratio(what, kolo, other, goal):
    return Figure(f"{what}: time of {other['variant']} over kolo's", round(other["us"] / kolo["us"], 3), "x", goal,
                  f"{other['us']} us")


def kernel_figures(records):
    for what in ("pack f32", "unpack f32", "pack bf16", "unpack bf16", "pack f16", "unpack f16"):
        kolo = one(records, what=what, variant="kolo")
        if kolo is None:
            continue
        beside = f"{kolo['us']} us, {kolo['gbps']} GB/s"
        yield Figure(f"{what}: kolo, of the device-to-device copy's rate", kolo["of_copy"], "", 0.85, beside)
        for variant in ("foreach_copy", "one by one"):
            other = one(records, what=what, variant=variant)
            if other:
                yield ratio(what, kolo, other, 1.0)
    for what, ours, variant, goal in (("sgd", "kolo", "torch's fused", 1.0), ("adamw", "kolo", "torch's fused", 1.0),
                                  ("scale f32", "kolo", "torch's mul_", None), ("scale bf16", "kolo", "torch's mul_", None),
                                  ("find_nonfinite", "kolo", "torch's check and unscale", None),
                                  ("images", "kolo, with flips", "torch, without", None)):
        kolo, other = one(records, what=what, variant=ours), one(records, what=what, variant=variant)
        if kolo and other:
            yield Figure(f"{what}: kolo, of the copy's rate", kolo["of_copy"], "", None, f"{kolo['us']} us, {kolo['gbps']} GB/s")
            yield ratio(what, kolo, other, goal)


def launch_figures(records):
    for each in select(records, what="launches a step"):
        beside = f"{each['copies']} copies, {each['fills']} fills"
        if "step_ms" in each:
            beside += f", {each['step_ms']} ms a step; of kolo: {json.dumps(each['kolo_kernels'])}"
        yield Figure(f"kernels a step, {each['variant']}", each["kernels"], "", None, beside)


def overhead_figures(records):
    for each in select(records, what="of_alone"):
        name = f"batch {each['batch']}, {each['amp']}"
        beside = f"single blocks {each['least']} to {each['most']}"
        same = {"what": "overhead", "batch": each["batch"], "amp": each["amp"]}
        work = one(records, variant=each["variant"], **same)
        if work:
            beside += f"; {work['step_ms']} ms a step"
        for variant in (each["variant"], "without kolo" if each["variant"].startswith("kolo") else "PyTorch"):
            idle = (one(records, variant=variant, **same) or {}).get("idle")
            if idle:
                beside += f"; {variant}: the device does nothing for {idle['us']} us of a profiled step"
        goal = 0.99 if each["variant"].startswith("kolo") else None
        yield Figure(f"{name}: a step without over a step with {each['variant']}, in one process", each["median"], "", goal, beside)


def step_figures(records, copy_gbps):
    for kolo in select(records, what="images a second", variant="kolo"):
        ranks = kolo["ranks"]
        name = f"batch {kolo['batch']}, {kolo['amp']}" + (f", {ranks} ranks" if ranks > 1 else "")
        same = {"what": "images a second", "ranks": ranks, "batch": kolo["batch"], "amp": kolo["amp"]}
        yield Figure(f"{name}: kolo's trainer", kolo["images_per_s"], "images/s", None, f"repetitions {kolo['repetitions']}")
        for variant, key, goal in (("kolo's trainer without kolo", "of_alone", None), ("PyTorch", "of_pytorch", 1.0),
                               ("PyTorch DDP", "of_ddp", 1.0)):
            other = one(records, variant=variant, **same)
            if other:
                yield Figure(f"{name}: kolo, of {variant}", kolo[key], "", goal, f"{other['images_per_s']} images/s")
        if copy_gbps:
            bound = ranks * copy_gbps * 1e9 / BYTES_OF_AN_IMAGE
            yield Figure(f"{name}: kolo, of what the memory allows", round(kolo["images_per_s"] / bound, 3), "", None,
                         f"{bound:.0f} images/s at the {copy_gbps} GB/s of a copy of 1 GiB on each")


def figures_of(machine, results):
    records = [each for result in results for each in result.figures]
    return [*kernel_figures(records), *launch_figures(records), *overhead_figures(records), *step_figures(records, machine.get("copy_gbps"))]


def page(machine, results, figures):
    lines = ["# kolo on a GPU", "", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in machine.items()), ""]
    passed, failed = (sum(getattr(each, key) for each in results) for key in ("passed", "failed"))
    lines += [f"{passed} of {len(results)} parts passed, {failed} failed, {len(results) - passed - failed} were not done.", "", "| part | | s | what |", "|---|---|---|---|"]
    for each in results:
        status = each.status if each.passed else f"**{each.status}**: {each.why}"
        lines.append(f"| {each.name} | {status} | {each.seconds} | {each.what} |")
    if figures:
        lines += ["", "| what | figure | goal | | measured with it |", "|---|---|---|---|---|"]
    for each in figures:
        goal = "" if each.goal is None else f"at least {each.goal}"
        lines.append(f"| {each.what} | {each.value} {each.unit} | {goal} | {each.verdict} | {each.beside} |")
    return "\n".join(lines) + "\n"


def write(folder, machine, results):
    """report.json and report.md in `folder`, a Path. The page is returned too."""
    figures = figures_of(machine, results)
    everything = {"machine": machine, "parts": [dataclasses.asdict(each) for each in results],
                  "figures": [{**dataclasses.asdict(each), "verdict": each.verdict} for each in figures]}
    (folder / "report.json").write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    text = page(machine, results, figures)
    (folder / "report.md").write_text(text, encoding="utf-8")
    return text
