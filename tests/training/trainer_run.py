#!/usr/bin/env python3
"""Runs the trainer as a user does, tiny, and checks what it wrote: trainer_run.py CASE PROGRAM MPIRUN..."""
import json
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

TINY = ["--arch", "resnet18", "--image-size", "32", "--threads", "1", "--workers", "1", "--log-interval", "3"]
SYNTHETIC = TINY + ["--data", "synthetic:host", "--classes", "5", "--batch", "4"]


class Runner:
    def __init__(self, program, mpirun, folder):
        self.program, self.mpirun, self.folder, self.count = program, mpirun, folder, 0

    def command(self, ranks, *options):
        return [*self.mpirun, "-np", str(ranks), self.program, *map(str, options)]

    def __call__(self, ranks, *options, fails=False, json_path=None):
        """The JSON lines and the printed text of one run, which must succeed, or fail."""
        self.count += 1
        path = json_path or os.path.join(self.folder, f"{self.count}.jsonl")
        command = [*self.command(ranks, *options), "--json", path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=240)
        if (done.returncode != 0) != fails:
            sys.exit(f"{' '.join(command)} returned {done.returncode}:\n{done.stdout}")
        if not os.path.isfile(path):
            return [], done.stdout
        with open(path) as file:
            return [json.loads(line) for line in file], done.stdout


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


def losses(lines):
    return [(line["step"], line["loss"]) for line in of_kind(lines, "step")]


def expect(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def read_safetensors(path):
    """Header of a safetensors file, and its tensors' sizes checked, with nothing but the format's definition."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        rest = len(file.read())
    header.pop("__metadata__", None)
    width = {"F32": 4, "I64": 8, "U8": 1}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        expect(end - begin == width[tensor["dtype"]] * math.prod(tensor["shape"]), f"{name} has a wrong length")
    expect(max(t["data_offsets"][1] for t in header.values()) == rest, "the file is longer than its tensors")
    return header


def case_json(run):
    recipe = ["--epochs", 2, "--warmup-epochs", 1, "--synthetic-images", 43, "--val-batch", 3]
    lines, text = run(2, *SYNTHETIC, *recipe)
    expect([line["kind"] for line in lines[:1]] == ["header"], "the first line is the header")
    header = lines[0]
    for field in ("arch", "ranks", "batch", "versions", "recipe"):
        expect(field in header, f"the header has {field}")
    expect((header["arch"], header["ranks"], header["batch"]) == ("resnet18", 2, 4), "the header's values")
    steps = of_kind(lines, "step")
    expect([s["step"] for s in steps] == list(range(10)), "43 images are 5 steps of 2 x 4, twice")
    for field in ("step_ms", "data_ms", "exposed_ms", "images_per_s", "loss", "lr"):
        expect(all(isinstance(s[field], (int, float)) for s in steps), f"every step has {field}")
    for s in steps:
        expect(abs(s["images_per_s"] - 8000 / s["step_ms"]) < 1e-6 * s["images_per_s"], "images/s is of the time measured")
        expect(s["data_ms"] + s["exposed_ms"] <= s["step_ms"], "parts are not more than the whole")
    expect(all(abs(s["lr"] - 0.1 * 8 / 256 * (i + 1) / 5) < 1e-12 for i, s in enumerate(steps[:5])), "warm-up")
    epochs = of_kind(lines, "epoch")
    expect([e["epoch"] for e in epochs] == [0, 1], "two epochs")
    for e in epochs:
        for field in ("train_loss", "val_loss", "top1", "top5", "images", "seconds"):
            expect(isinstance(e[field], (int, float)), f"every epoch has {field}")
        expect(e["images"] == 40, "images trained on")
        expect(e["val_images"] == 4, "every validation image once, though 4 do not divide into batches of 3 a rank")
        expect(e["top5"] == 1.0, "of five classes one of the best five is right")
    mean = sum(s["loss"] for s in steps[:5]) / 5
    expect(abs(mean - epochs[0]["train_loss"]) < 1e-4 * mean, "the epoch's loss is the mean of its steps'")
    counters = of_kind(lines, "counters")
    expect(len(counters) == 1, "one line of counters")
    for name in ("control_messages", "bytes_on_wire", "bytes_copied", "plan_hits", "plan_misses", "minor_page_faults"):
        expect(name in counters[0], f"counter {name}")
    expect(counters[0]["plan_hits"] > 0, "steady steps run on the plan")
    expect("epoch 2/2 done" in text and "\r" not in text, "plain lines when stdout is no terminal")
    again, _ = run(2, *SYNTHETIC, *recipe)
    expect(losses(again) == losses(lines), "two runs are equal")
    expect(header["gradients"] == "shared", "on one host gradients are shared unless said otherwise")
    expect(header["overlap_update"] == "on", "kolo's SGD updates weights while it waits unless said otherwise")
    afterwards, _ = run(2, *SYNTHETIC, *recipe, "--overlap-update", "off")
    expect(afterwards[0]["overlap_update"] == "off", "said otherwise")
    expect(losses(afterwards) == losses(lines), "updates while waiting change no number")
    packed, _ = run(2, *SYNTHETIC, *recipe, "--shared-gradients", "off")
    expect(packed[0]["gradients"] == "packed", "said otherwise")
    expect(losses(packed) == losses(lines), "shared gradients change no number")
    copied = counters[0]["bytes_copied"]
    expect(copied < of_kind(packed, "counters")[0]["bytes_copied"] / 4, "not copied, but for the first round's")


def case_resume(run):
    recipe = [*SYNTHETIC, "--epochs", 3, "--warmup-epochs", 1, "--synthetic-images", 33, "--schedule", "cosine",
              "--no-decay-norm-bias"]
    whole, _ = run(2, *recipe)
    # Stopped in the middle of the second epoch, and gone on from there.
    folder = os.path.join(run.folder, "checkpoints")
    begin, text = run(2, *recipe, "--steps", 6, "--checkpoint-dir", folder)
    expect("checkpoint: " in text, "a checkpoint is written where --steps stops")
    rest, text = run(2, *recipe, "--resume", folder, "--checkpoint-dir", folder)
    expect(text.count(f"resumed from {folder} at step 6\n") == 1, "one rank says where it goes on")
    expect("nothing to train" not in text, "two epochs are left")
    expect(losses(begin) + losses(rest) == losses(whole), f"resumed losses:\n{losses(begin) + losses(rest)}\n{losses(whole)}")
    # The ranks' statistics were averaged in the middle of an epoch too: the same but for rounding.
    for one, other in zip(of_kind(rest, "epoch"), of_kind(whole, "epoch")[1:], strict=True):
        expect(abs(one["val_loss"] - other["val_loss"]) < 1e-3 * other["val_loss"], f"evaluation: {one} {other}")
    expect("settings differ" not in text, f"the settings are those of the checkpoint:\n{text}")
    idle, text = run(2, *recipe, "--resume", folder)
    expect("at step 12\nnothing to train: the checkpoint has reached --epochs or --steps\n" in text and
           not of_kind(idle, "step"), "a finished run has nothing to do")
    expect(text.count("validation loss ") == 1, f"a finished run is validated:\n{text}")
    epochs = recipe.index("--epochs") + 1
    _, text = run(2, *recipe[:epochs], 4, *recipe[epochs + 1:], "--lr", 0.2, "--momentum", 0.8, "--resume", folder,
                  "--steps", 13)
    lines = [line for line in text.splitlines() if "settings differ" in line]
    expect(len(lines) == 1, f"one message says what differs:\n{text}")
    for difference in ("epochs: 3 in the checkpoint, 4 in this run", "lr: 0.1 in the checkpoint, 0.2 in this run",
                       "momentum: 0.9 in the checkpoint, 0.8 in this run"):
        expect(difference in lines[0], f"{difference}: {lines[0]}")
    expect("seed" not in lines[0] and "global_batch" not in lines[0], f"nothing else: {lines[0]}")
    _, text = run(2, *recipe, "--checkpoint-dir", folder, fails=True)
    expect("has checkpoints of an earlier run, the newest of step 12." in text, f"a new run is not mixed with it:\n{text}")
    oldest = os.path.join(folder, min(name for name in os.listdir(folder) if name.startswith("checkpoint-")))
    _, text = run(2, *recipe, "--resume", oldest, "--checkpoint-dir", folder, fails=True)
    expect("has checkpoints other than that of --resume, the newest of step 12." in text, f"nor is one that goes back:\n{text}")
    # Nothing can be created below a file: said at once, not after the first epoch.
    begin, text = run(2, *recipe, "--checkpoint-dir", os.path.join(__file__, "c"), fails=True)
    expect("--checkpoint-dir" in text and not of_kind(begin, "step"), f"refused before the first step:\n{text}")
    expect(text.count("imagenet_resnet50: ") == 1, f"what every rank has is said once:\n{text}")
    _, text = run(2, *recipe, "--nesterov", "--momentum", 0, fails=True)
    expect(text.count("--nesterov needs a --momentum above 0") == 1, f"a wrong option is said once:\n{text}")
    # Stopped at an epoch's end.
    other = os.path.join(run.folder, "other")
    begin, _ = run(2, *recipe, "--steps", 4, "--checkpoint-dir", other)
    rest, _ = run(2, *recipe, "--resume", other)
    expect(losses(begin) + losses(rest) == losses(whole), "resumed at an epoch's end")
    ends = [[e["val_loss"], e["top1"], e["train_loss"]] for e in of_kind(whole, "epoch")][1:]
    expect([[e["val_loss"], e["top1"], e["train_loss"]] for e in of_kind(rest, "epoch")] == ends, "evaluation")
    names = sorted(n for n in os.listdir(other) if n.startswith("checkpoint-"))
    expect(len(names) == 1, f"one directory a checkpoint: {names}")
    # A damaged newer one is not passed over in silence.
    newer = os.path.join(other, "checkpoint-999999999999")
    shutil.copytree(os.path.join(other, names[0]), newer)
    with open(os.path.join(newer, "model.safetensors"), "ab") as file:
        file.write(b"x")
    _, text = run(2, *recipe, "--resume", other, "--steps", 4)
    expect(text.count(f"warning: skipped damaged checkpoint {newer}: ") == 1, f"what is passed over, once:\n{text}")
    expect(f"resumed from {other} at step 4\n" in text, f"the one before:\n{text}")
    shutil.rmtree(newer)
    model = read_safetensors(os.path.join(other, names[0], "model.safetensors"))
    expect(len(model) == 122 and model["fc.weight"]["shape"] == [5, 512], "torchvision's names")
    expect(model["bn1.num_batches_tracked"] == {"dtype": "I64", "shape": [], "data_offsets":
                                                model["bn1.num_batches_tracked"]["data_offsets"]}, "a scalar")
    momentum = read_safetensors(os.path.join(other, names[0], "optimizer.safetensors"))
    expect(len(momentum) == 62 and "momentum_buffer.layer4.1.conv2.weight" in momentum, "momentum by name")


def case_folder(run):
    """JPEG files, some of them broken; the files come from the `kolo` program beside the trainer."""
    kolo = os.path.join(os.path.dirname(run.program), "kolo")
    data = os.path.join(run.folder, "data")
    subprocess.run([kolo, "data", "synth", data, "--classes", "3", "--images", "60", "--val-images", "11", "--size",
                    "40"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    train = os.path.join(data, "train")
    label = sorted(os.listdir(train))[1]
    generator = random.Random(1)
    with open(os.path.join(train, label, "broken.JPEG"), "wb") as file:
        file.write(bytes(generator.randrange(256) for _ in range(300)))
    lines, text = run(2, *TINY, "--data", data, "--batch", 5, "--epochs", 1, "--warmup-epochs", 0, "--checkpoint-dir",
                      os.path.join(run.folder, "c"))
    epochs = of_kind(lines, "epoch")
    expect(epochs[0]["images"] == 60 and epochs[0]["val_images"] == 11, "images counted")
    expect(f"train/{label}/broken.JPEG" in text, "the broken file is named")
    expect(of_kind(lines, "counters")[0]["broken_files"] == 1, "and counted")
    expect("warning: epoch 1: 1 training images replaced" in text.split("epoch 1/1 done")[0], f"at the epoch's end:\n{text}")
    expect(of_kind(lines, "counters")[0]["images_replaced"] == 1, "one image of one step")
    expect(lines[0]["classes"] == 3, "classes as the folder has them")
    one, _ = run(1, *TINY, "--data", data, "--batch", 5, "--epochs", 1, "--warmup-epochs", 0, "--steps", 1, "--resume",
                 os.path.join(run.folder, "c"))
    expect(of_kind(one, "header"), "a checkpoint of two ranks loads into one")


FOLDER = ["--batch", 4, "--epochs", 1, "--warmup-epochs", 0]


def synth(run, name, images=60, val_images=12):
    """A folder of three classes; the files come from the `kolo` program beside the trainer."""
    kolo = os.path.join(os.path.dirname(run.program), "kolo")
    data = os.path.join(run.folder, name)
    subprocess.run([kolo, "data", "synth", data, "--classes", "3", "--images", str(images), "--val-images",
                    str(val_images), "--size", "40"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    return data


def files_of(data, part):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(data, part))
                  for name in names)


def case_damaged(run):
    """Companion files, other formats, long runs of damaged files, and how many of these end an epoch."""
    data = synth(run, "data")
    for file in files_of(data, "train") + files_of(data, "val"):
        with open(os.path.join(os.path.dirname(file), "._" + os.path.basename(file)), "wb") as companion:
            companion.write(os.urandom(4096))
    with open(os.path.join(data, "train", "class_0000", "notes.txt"), "w") as file:
        file.write("no image")
    lines, text = run(2, *TINY, "--data", data, *FOLDER)
    expect(of_kind(lines, "epoch")[0]["images"] == 56, "60 images are 7 steps of 2 x 4")
    counters = of_kind(lines, "counters")[0]
    expect(counters["broken_files"] == 0 and counters["images_replaced"] == 0, f"nothing is damaged: {counters}")
    expect(text.count("train/: 1 file ignored") == 1, f"the text file is counted:\n{text}")

    # Ten damaged files are allowed, and eleven are not: the checkpoint of that epoch stays.
    images = [file for file in files_of(data, "train") if os.path.basename(file).startswith("class")]
    for file in images[:10]:
        with open(file, "w") as broken:
            broken.write("RIFF....WEBPVP8 ")
    batch = [5 if option == 4 else option for option in FOLDER]  # all 60 images are read
    lines, text = run(2, *TINY, "--data", data, *batch)
    counters = of_kind(lines, "counters")[0]
    expect(counters["broken_files"] == 10 and counters["images_replaced"] == 10, f"samples are counted: {counters}")
    with open(images[20], "w") as broken:
        broken.write("")
    checkpoints = os.path.join(run.folder, "c")
    lines, text = run(2, *TINY, "--data", data, *batch, "--checkpoint-dir", checkpoints, fails=True)
    expect("epoch 1: 11 of " in text and "files are damaged, more than 10. Repair or remove them, or raise --max-broken:\n  train/" in text,
           f"what is too much:\n{text}")
    expect(text.count("imagenet_resnet50: ") == 1, f"said once:\n{text}")
    expect(len(of_kind(lines, "epoch")) == 1 and os.listdir(checkpoints), "the epoch's numbers and checkpoint stay")
    run(2, *TINY, "--data", data, *batch, "--max-broken", 11)
    run(2, *TINY, "--data", data, *batch, "--max-broken", 3, fails=True)

    # Image files of other formats.
    for i in range(2):
        with open(os.path.join(data, "train", "class_0001", f"{i}.WebP"), "w") as file:
            file.write("x")
    lines, text = run(2, *TINY, "--data", data, *FOLDER, fails=True)
    expect("class_0001: 2 of 22 image files have a format that kolo cannot decode (2 .webp)" in text and
           not of_kind(lines, "step"), f"refused before the first step:\n{text}")


def case_classes(run):
    data = synth(run, "data")
    checkpoints = os.path.join(run.folder, "c")
    os.rename(os.path.join(data, "val", "class_0001"), os.path.join(run.folder, "taken"))
    lines, text = run(2, *TINY, "--data", data, *FOLDER, fails=True)
    expect("lacks 1 (class_0001)" in text and not of_kind(lines, "step"), f"a missing class:\n{text}")
    # An empty class shifts no label: the other classes' accuracy is what it is without it.
    os.mkdir(os.path.join(data, "val", "class_0001"))
    lines, text = run(2, *TINY, "--data", data, *FOLDER, "--checkpoint-dir", checkpoints)
    expect(text.count("warning: val/: classes without a JPEG or PNG file: 1 (class_0001)") == 1, f"a warning:\n{text}")
    expect(of_kind(lines, "epoch")[0]["val_images"] == 8, "the images of the other classes")
    expect(text.index("checkpoint: ") < text.index("validation loss"), f"a checkpoint before validation:\n{text}")


def case_changed(run):
    """A run that goes on with other data than the checkpoint's."""
    data = synth(run, "data")
    folder = os.path.join(run.folder, "c")
    recipe = [*TINY, "--data", data, "--batch", 4, "--epochs", 2, "--warmup-epochs", 0, "--checkpoint-dir", folder]
    run(2, *recipe, "--steps", 3)
    shutil.copy(files_of(data, "train")[0], os.path.join(data, "train", "class_0001", "more.jpg"))
    lines, text = run(2, *recipe, "--resume", folder, fails=True)
    expect("60 images in the checkpoint, 61 in this run. The checkpoint is inside an epoch" in text, f"inside:\n{text}")
    os.remove(os.path.join(data, "train", "class_0001", "more.jpg"))
    run(2, *recipe, "--resume", folder, "--steps", 7)
    shutil.copy(files_of(data, "train")[0], os.path.join(data, "train", "class_0001", "more.jpg"))
    lines, text = run(2, *recipe, "--resume", folder, "--steps", 8)
    expect(text.count("warning: the training images of --data differ from those of the checkpoint: 60 images in the "
                      "checkpoint, 61 in this run") == 1 and of_kind(lines, "step"), f"at an epoch's border:\n{text}")
    for part in ("train", "val"):
        os.rename(os.path.join(data, part, "class_0000"), os.path.join(data, part, "zzz"))
    lines, text = run(2, *recipe, "--resume", folder, fails=True)
    expect("--resume: the class names of --data differ from those of the checkpoint" in text and not of_kind(lines, "step"),
           f"labels would shift:\n{text}")


def case_ranks(run):
    """Data sets that differ between ranks; --check."""
    one = synth(run, "one")

    def two(other, *options, fails):
        command = [*run.mpirun, "-np", "1", run.program, *map(str, [*TINY, "--data", one, *FOLDER, *options]), ":", "-np",
                   "1", run.program, *map(str, [*TINY, "--data", other, *FOLDER, *options])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        expect((done.returncode != 0) == fails, f"{' '.join(command)} returned {done.returncode}:\n{done.stdout}")
        expect("loss" not in done.stdout, f"no step was taken:\n{done.stdout}")
        expect(done.stdout.count("imagenet_resnet50: ") == int(fails), f"an error once:\n{done.stdout}")
        return done.stdout

    def changed(name, change):
        other = os.path.join(run.folder, name)
        shutil.copytree(one, other)
        change(other)
        return two(other, fails=True)

    text = two(one, "--check", fails=False)
    expect("check: 2 ranks have equal options, 60 training images with equal names, 12 validation images with equal names, 3 classes" in text,
           f"what was compared:\n{text}")
    shutil.copytree(one, os.path.join(run.folder, "elsewhere"))
    two(os.path.join(run.folder, "elsewhere"), "--check", fails=False)
    text = changed("less", lambda other: os.remove(files_of(other, "train")[30]))
    expect("train/ has 60 samples of 3 classes on rank 0, 59 samples of 3 classes on rank 1" in text, f"a file less:\n{text}")
    text = changed("many", lambda other: [os.remove(file) for file in files_of(other, "train")[:8]])
    expect("train/ has 60 samples of 3 classes on rank 0, 52 samples of 3 classes on rank 1" in text, f"eight less:\n{text}")
    text = changed("name", lambda other: [os.rename(os.path.join(other, part, "class_0000"), os.path.join(other, part, "z"))
                                          for part in ("train", "val")])
    expect("class 0 is 'class_0000' on rank 0, class 0 is 'class_0001' on rank 1" in text, f"a class renamed:\n{text}")
    text = changed("val", lambda other: shutil.rmtree(os.path.join(other, "val")))
    expect("val/ has 12 samples of 3 classes on rank 0, none on rank 1" in text, f"no val/:\n{text}")
    text = changed("none", lambda other: shutil.rmtree(os.path.join(other, "train")))
    expect("rank 1: cannot list " in text, f"no train/:\n{text}")


def case_batch(run):
    """A run that goes on with another global batch."""
    recipe = [*SYNTHETIC, "--epochs", 2, "--warmup-epochs", 1, "--synthetic-images", "60"]
    folder = os.path.join(run.folder, "c")
    run(2, *recipe, "--steps", 3, "--checkpoint-dir", folder)
    wide = ["10" if option == "4" else option for option in recipe]
    lines, text = run(2, *wide, "--resume", folder, "--checkpoint-dir", folder)
    expect(text.count("warning: the global batch changed from 8 to 20. Epoch 1 resumes after its first 24 images") == 1,
           f"a message:\n{text}")
    expect([e["images"] for e in of_kind(lines, "epoch")] == [36, 60], "24 and 36 are all 60 images")
    warm = of_kind(lines, "step")[0]["lr"] / (0.1 * 20 / 256)
    expect(abs(warm - (24 + 20) / 60) < 0.05, f"warm-up over one epoch goes on: {warm}")
    fewer = ["20" if option == "60" else option for option in wide]
    lines, text = run(2, *fewer, "--resume", os.path.join(folder, "checkpoint-000000000003"),
                      fails=True)
    expect("Was the checkpoint written with another dataset?" in text and not of_kind(lines, "step"), f"a position beyond the data:\n{text}")


def checkpoints(folder):
    """Step and whether weights are finite, of each checkpoint."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("checkpoint-"):
            with open(os.path.join(folder, name, "manifest.json")) as file:
                manifest = json.load(file)
            found.append((manifest["step"], manifest.get("finite", True)))
    return found


def case_nan(run):
    recipe = [*SYNTHETIC, "--warmup-epochs", 0, "--synthetic-images", 40]
    diverging = ["--lr", 1e6, "--weight-decay", 1e6]
    folder = os.path.join(run.folder, "checkpoints")
    run(2, *recipe, "--epochs", 4, "--steps", 5, "--checkpoint-dir", folder)
    resumed = [*recipe, "--epochs", 4, *diverging, "--resume", folder, "--checkpoint-dir", folder, "--keep-checkpoints", 1]
    lines, text = run(2, *resumed, fails=True)
    expect("warning: the loss of step " in text and " is not finite on ranks 0, 1" in text, f"a warning:\n{text}")
    expect(text.count("that are not finite. Lower --lr") == 1, f"an error at the end of the epoch, once:\n{text}")
    expect(len(of_kind(lines, "step")) == 5, "the epoch's steps are written")
    expect(checkpoints(folder) == [(5, True)], f"the good checkpoint is the last one: {checkpoints(folder)}")
    lines, text = run(2, *resumed, "--on-nan", "warn")
    expect(len(of_kind(lines, "epoch")) == 3, "three epochs more")
    expect("warning: after 10 steps " in text and "that are not finite" in text, f"a warning for weights:\n{text}")
    expect(checkpoints(folder) == [(5, True), (20, False)], f"the last good one stays: {checkpoints(folder)}")
    _, text = run(2, *recipe, "--epochs", 5, "--resume", folder, "--steps", 21, "--on-nan", "warn")
    expect("checkpoint-000000000020 are not finite. To use finite weights: --resume " in text and
           "checkpoint-000000000005 with another --checkpoint-dir" in text,
           f"which checkpoint is good:\n{text}")
    # One long epoch: the run ends in its middle.
    images = recipe.index("--synthetic-images") + 1
    long = [*recipe[:images], 8 * 60, *recipe[images + 1:], "--epochs", 1, *diverging]
    long[long.index("--log-interval") + 1] = 50
    lines, text = run(2, *long, fails=True)
    first = next(step for step, loss in losses(lines) if loss is None)
    last = losses(lines)[-1][0]
    expect(last == first + 19, f"20 steps in a row: {first} to {last}")
    expect(f"not finite in 20 consecutive steps up to step {last}, on ranks 0, 1." in text, f"which steps:\n{text}")
    expect(f"warning: the loss of step {first} is not finite" in text, f"the first step:\n{text}")
    alone, text = run(2, *long, "--sync", "off", fails=True)
    expect("not finite in 20 consecutive steps" in text, f"ranks alone stop together:\n{text}")


def case_lines(run):
    recipe = [*SYNTHETIC, "--epochs", 2, "--warmup-epochs", 1, "--synthetic-images", 43]
    folder, path = os.path.join(run.folder, "checkpoints"), os.path.join(run.folder, "lines.jsonl")
    run(2, *recipe, "--steps", 5, "--checkpoint-dir", folder, json_path=path)
    with open(path, "ab") as file:
        file.write(b'{"kind":"step","step":5,"epoch":1,"step_m')
    lines, _ = run(2, *recipe, "--resume", folder, json_path=path)  # which reads each line as JSON
    expect(len(of_kind(lines, "header")) == 2, "two headers")
    expect([s["step"] for s in of_kind(lines, "step")] == list(range(10)), "all steps")
    _, text = run(2, *recipe, json_path="/dev/full")
    expect(text.count("cannot be written: No space left on device") == 1, f"said once:\n{text}")
    expect("cannot be written" in text.split("epoch 1/2 done")[0], f"at once:\n{text}")


def case_streams(run):
    """Without a standard output, no file gets what is printed."""
    folder = os.path.join(run.folder, "checkpoints")
    command = ["sh", "-c", 'exec "$@" >&-', "sh", run.program, *map(str, SYNTHETIC), "--steps", "2", "--warmup-epochs", "0",
               "--checkpoint-dir", folder]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    expect(done.returncode == 0, f"a run without standard output returned {done.returncode}:\n{done.stderr}")
    expect(checkpoints(folder) == [(2, True)], "its checkpoint is written")
    done = subprocess.run([run.program, *map(str, SYNTHETIC), "--resume", ""], stderr=subprocess.PIPE, text=True, timeout=120)
    expect(done.returncode != 0 and "--resume: is empty" in done.stderr, f"an unset variable:\n{done.stderr}")


def case_bytes(run):
    kolo = os.path.join(os.path.dirname(run.program), "kolo")
    data = os.path.join(run.folder, "d\udce9\udcff")  # two bytes that are not UTF-8
    subprocess.run([kolo, "data", "synth", data, "--classes", "2", "--images", "12", "--val-images", "2", "--size", "40"],
                   check=True, timeout=120, stdout=subprocess.DEVNULL)
    lines, _ = run(2, *TINY, "--data", data, "--batch", 2, "--epochs", 1, "--warmup-epochs", 0, "--checkpoint-dir",
                   os.path.join(run.folder, "c\udce9"))
    expect(lines[0]["data"] == os.path.join(run.folder, "d\ufffd\ufffd"), f"bytes replaced: {lines[0]['data']!r}")
    expect(len(of_kind(lines, "epoch")) == 1, "training goes on")


def case_lock(run):
    recipe = [*SYNTHETIC, "--epochs", 50, "--warmup-epochs", 1, "--synthetic-images", 80000]
    folder = os.path.join(run.folder, "checkpoints")
    lock = os.path.join(folder, "lock.json")
    with subprocess.Popen(run.command(2, *recipe, "--checkpoint-dir", folder), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as first:
        try:
            deadline = time.monotonic() + 60
            while not os.path.exists(lock) or os.path.getsize(lock) == 0:
                expect(time.monotonic() < deadline, "the first job locks its folder")
                time.sleep(0.05)
            with open(lock) as file:
                owner = json.load(file)
            lines, text = run(2, *recipe, "--checkpoint-dir", folder, fails=True)
            expect(not of_kind(lines, "step"), "the second job takes no step")
            named = f"is in use by process {owner['process']} on host {owner['host']} (started {owner['start_time']})"
            expect(text.count(named) == 1, f"the owner is named, once:\n{text}")
            os.kill(owner["process"], signal.SIGKILL)
            first.wait(timeout=60)
        finally:
            first.kill()
    _, text = run(2, *recipe, "--checkpoint-dir", folder, "--steps", 2)
    expect(f"warning: took over the lock of checkpoint directory {folder} from process {owner['process']}" in text,
           f"the lock of a dead process is taken over:\n{text}")
    expect(not os.path.exists(lock), "the lock ends with the run")


def case_alone(run):
    device = [o if o != "synthetic:host" else "synthetic:device" for o in SYNTHETIC]
    lines, _ = run(2, *device, "--sync", "off", "--steps", 4)
    expect(len(of_kind(lines, "step")) == 4, "four steps")
    expect(all(s["exposed_ms"] == 0 for s in of_kind(lines, "step")), "ranks alone wait for nobody")
    expect(lines[0]["gradients"] is None, "ranks alone reduce nothing")
    jpeg = [o if o != "synthetic:host" else "synthetic:jpeg" for o in SYNTHETIC]
    lines, _ = run(1, *jpeg, "--steps", 2, "--optimizer", "torch")
    expect(len(of_kind(lines, "step")) == 2, "synthetic JPEGs")


def scales(lines):
    return [line["loss_scale"] for line in of_kind(lines, "step")]


def expect_learned(lines, what, left=0.5):
    values = [loss for _, loss in losses(lines)]
    expect(values[-1] < left * values[0], f"{what} learns: {values}")


def case_amp(run):
    recipe = [*SYNTHETIC, "--epochs", 3, "--warmup-epochs", 1, "--synthetic-images", 70]
    bf16, _ = run(2, *recipe, "--amp", "bf16")
    expect(bf16[0]["amp"] == "bf16" and bf16[0]["device"] == "cpu", "the header says in what precision")
    expect_learned(bf16, "bf16")
    expect(set(scales(bf16)) == {None}, "bf16 needs no scale")
    packed, _ = run(2, *recipe, "--amp", "bf16", "--shared-gradients", "off")
    expect(bf16[0]["gradients"] == "shared" and losses(packed) == losses(bf16), "shared gradients change no number")

    # Fewer images: in fp16 a CPU may have to compute the convolutions' gradients by a loop a hundred times as slow.
    fp16 = [*SYNTHETIC, "--epochs", 3, "--warmup-epochs", 1, "--synthetic-images", 38, "--amp", "fp16"]
    whole, _ = run(2, *fp16)
    expect_learned(whole, "fp16", left=0.75)
    expect(scales(whole)[0] == 65536, "the scale at first")
    for before, after in zip(scales(whole), scales(whole)[1:]):
        expect(after in (before, before / 2), f"the scale is halved or stays: {scales(whole)}")
    expect(scales(whole)[-1] < 65536, "gradients of this network overflow at first, which is what is tested here")
    # The scale that has been found is in the checkpoint.
    folder = os.path.join(run.folder, "checkpoints")
    begin, _ = run(2, *fp16, "--steps", 7, "--checkpoint-dir", folder)
    rest, _ = run(2, *fp16, "--resume", folder)
    expect(losses(begin) + losses(rest) == losses(whole), "resumed losses")
    expect(scales(begin) + scales(rest) == scales(whole), f"resumed scales {scales(begin)} {scales(rest)}")
    # A run of another precision goes on too: weights are fp32 in all of them.
    wide = ["8" if option == "4" else option for option in recipe]  # one rank with the batch of two
    other, _ = run(1, *wide, "--resume", folder, "--steps", 9, "--amp", "bf16")
    expect(len(of_kind(other, "step")) == 2 and set(scales(other)) == {None}, "bf16 after fp16")
    alone, _ = run(2, *fp16, "--sync", "off", "--steps", 3)
    expect(len(of_kind(alone, "step")) == 3 and scales(alone)[0] == 65536, "ranks alone have a scale each")


def case_device(run):
    """Without a GPU, as most machines that test this are, the program says so at once, and once."""
    cuda = [*SYNTHETIC, "--device", "cuda", "--steps", 2]
    _, text = run(2, *cuda, "--shared-gradients", "on", fails=True)
    expect(text.count("--shared-gradients on needs --device cpu") == 1, f"said once:\n{text}")
    if os.path.exists("/dev/nvidia0"):
        lines, _ = run(1, *cuda)
        expect(lines[0]["device"] == "cuda" and len(of_kind(lines, "step")) == 2, "a step on the GPU")
        return
    lines, text = run(2, *cuda, fails=True)
    expect(not of_kind(lines, "step"), "no step was taken")
    expect(text.count("imagenet_resnet50: --device cuda: no CUDA device: ranks 0, 1: ") == 1, f"which ranks:\n{text}")
    expect(text.count("imagenet_resnet50: ") == 1 and "use --device cpu" in text, f"once, with a way out:\n{text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        globals()["case_" + sys.argv[1]](Runner(sys.argv[2], sys.argv[3:], temporary))
    print("ok")
