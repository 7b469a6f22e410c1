#!/usr/bin/env bash
# A small training from end to end, called by script/demo after the build: makes JPEG files of ten classes, trains ResNet-50 for
# one epoch on two ranks with one thread each, and checks that it learned. A few minutes on two cores.
#   demo.sh [FOLDER OF PROGRAMS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${1:-build/release/bin}
if [[ $# -gt 1 || ! -x $bin/kolo || ! -x $bin/imagenet_resnet50 ]]; then
  echo "demo.sh: there are no programs of kolo's in '$bin'; usage: demo.sh [FOLDER OF PROGRAMS]" >&2
  exit 2
fi
out=data/demo
rm -rf "$out/checkpoints"  # of a demo before this one
mkdir -p "$out"

"$bin/kolo" data synth "$out/images" --classes 10 --images 4000 --val-images 400 --size 72
mpirun -np 2 --oversubscribe --bind-to none "$bin/imagenet_resnet50" --arch resnet50 --data "$out/images" --image-size 64 \
  --batch 8 --epochs 1 --lr 0.15 --warmup-epochs 0.1 --schedule cosine --zero-init-residual --no-decay-norm-bias \
  --threads 1 --workers 1 --checkpoint-dir "$out/checkpoints" --json "$out/demo.jsonl"

python3 - "$out/demo.jsonl" <<'CHECK'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
steps = [line for line in lines if line["kind"] == "step"]
epoch = [line for line in lines if line["kind"] == "epoch"][-1]
first = sum(s["loss"] for s in steps[:10]) / 10
last = sum(s["loss"] for s in steps[-20:]) / 20
times = sorted(s["step_ms"] for s in steps)
print(f"loss {first:.2f} -> {last:.2f}, validation top-1 {100 * epoch['top1']:.1f} % (chance: 10 %), "
      f"median step {times[len(times) // 2]:.0f} ms, {epoch['seconds']:.0f} s")
sys.exit(0 if last < 0.6 * first and epoch["top1"] > 0.4 else "the network has not learned")
CHECK
