#!/usr/bin/env bash
# HolisticTraceAnalysis: short kernels of a trace in nanoseconds are lost, and may have negative lengths.
#
# Versions: HolisticTraceAnalysis 0.5.0 (PyPI), pandas 3.1.1, Python 3.11.
# Expected: "dur" is the length of a kernel. A kernel whose name begins with nccl is communication.
# Observed: if any "ts" has a fraction, or an event has no "ts", each begin is rounded up and each end down to whole
#           microseconds. A kernel of 2.5 us counts as 1 us, one of 0.4 us as -1 us. There is a warning; if most kernels are short,
#           get_temporal_breakdown() ends in an AssertionError.
#           "nccl:all_reduce", the name in torch.profiler's CPU events, is computation: only ^nccl.*Kernel is
#           communication. The overlap of computation and communication is NaN then.
# In kolo: `kolo trace merge` writes whole microseconds, and names reductions ncclKernel_<algorithm>, in ranks/.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" || exit 2
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
  HolisticTraceAnalysis==0.5.0 pandas==3.1.1 numpy==2.4.6 || exit 2

cat >"$folder/try.py" <<'PY'
import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis

def breakdown(name, kernels):
    folder = os.path.join(sys.argv[1], name)
    os.mkdir(folder)
    events = [
        {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
         "args": {"stream": stream}}
        for kernel, stream, ts, dur in kernels
    ]
    events.append({"ph": "M", "name": "process_name", "pid": 0, "ts": 0, "args": {"name": "python"}})
    with open(os.path.join(folder, "rank0.json"), "w") as file:
        json.dump({"distributedInfo": {"rank": 0}, "traceEvents": events}, file)
    analysis = TraceAnalysis(trace_dir=folder)
    try:
        compute = f"{analysis.get_temporal_breakdown(visualize=False).iloc[0]['compute_time(us)']:g}"
    except AssertionError:
        compute = "AssertionError"
    kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False)
    overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
    kinds = " ".join(f"{kind}={sum}" for kind, sum in zip(kinds["kernel_type"], kinds["sum"]) if sum)
    print(f"{name}: compute_time {compute}, {kinds}, overlap {overlap:g}")

gemms = lambda begin, length: [("gemm", 7, 100 * i + begin, length) for i in range(1, 101)]
breakdown("whole", gemms(0, 3))
breakdown("2.5us", gemms(0.3, 2.5))
breakdown("0.4us", gemms(0.3, 0.4))
for name in ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "nccl:all_reduce"):
    breakdown(name, [("gemm", 7, 0, 100), (name, 20, 50, 100)])
PY
observed=$("$folder/venv/bin/python" "$folder/try.py" "$folder") || exit 2
echo "$observed"
[ "$observed" = "whole: compute_time 300, COMPUTATION=300, overlap nan
2.5us: compute_time 100, COMPUTATION=100, overlap nan
0.4us: compute_time AssertionError, , overlap nan
ncclDevKernel_AllReduce_Sum_f32_RING_LL: compute_time 100, COMMUNICATION=50 COMPUTATION=50 \
COMPUTATION overlapping COMMUNICATION=50, overlap 50
nccl:all_reduce: compute_time 150, COMPUTATION=150, overlap nan" ] || { echo "CHANGED"; exit 1; }
echo "as described"
