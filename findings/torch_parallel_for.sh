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
source "$(dirname "${BASH_SOURCE[0]}")/libtorch.bash"

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
