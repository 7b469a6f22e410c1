#!/usr/bin/env bash
# LibTorch: at::parallel_for() runs in one thread if the calling file is compiled without -fopenmp.
#
# Versions: torch 2.11.0 (PyPI, built with OpenMP), g++ 12.2 (Debian 12).
# Expected: the function uses LibTorch's threads, as many as at::get_num_threads() returns.
# Observed: without -fopenmp the template is compiled as a plain loop. There is no warning, and
#           at::get_num_threads() still returns 2. The flag is no part of LibTorch's CMake target.
# In kolo: the CPU optimizers split their loops with at::TensorIterator, whose threads are compiled into LibTorch.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# LibTorch 2.11.0: of LIBTORCH, or the CPU part of PyPI's wheel (530 MB to fetch).
if [ -n "${LIBTORCH:-}" ]; then
  torch=$(realpath "$LIBTORCH")
else
  TMPDIR="$folder" python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-cache-dir \
    --no-deps --no-compile --only-binary=:all: --python-version 3.11 --target "$folder/pip" \
    torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85 || exit 2
  torch="$folder/pip/torch"
  cp -L "$folder"/pip/nvidia/cu13/lib/lib{cudart,cupti}.so.13 "$torch/lib/"
fi
grep -qx "#define TORCH_VERSION_MINOR 11" "$torch/include/torch/headeronly/version.h" || exit 2

compile() {
  g++ -std=c++20 -O1 -isystem "$torch/include" "$1" -o "$2" "${@:3}" -L"$torch/lib" -Wl,-rpath,"$torch/lib" \
    -Wl,-rpath-link,"$torch/lib" -ltorch_cpu -lc10 || exit 2
}

cat >"$folder/loop.cpp" <<'CPP'
#include <ATen/Parallel.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

int main() {
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  at::parallel_for(0, 1 << 20, 1024, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  std::printf("get_num_threads() %d, threads in the loop %zu\n", at::get_num_threads(), threads.size());
}
CPP
compile "$folder/loop.cpp" "$folder/plain"
compile "$folder/loop.cpp" "$folder/openmp" -fopenmp
observed="plain: $("$folder/plain")
-fopenmp: $("$folder/openmp")"
echo "$observed"
[ "$observed" = "plain: get_num_threads() 2, threads in the loop 1
-fopenmp: get_num_threads() 2, threads in the loop 2" ] || { echo "CHANGED"; exit 1; }
echo "as described"
