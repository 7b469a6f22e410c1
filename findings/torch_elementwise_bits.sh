#!/usr/bin/env bash
# LibTorch on the CPU: the last bit of an element-wise function depends on the place of the element in the tensor, and
# so on the number of threads.
#
# Versions: torch 2.11.0 (PyPI), g++ 12.2 (Debian 12), x86-64 with AVX2.
# Expected: equal elements have equal results. More threads change no bit, because no element depends on another.
# Observed: softplus, mish and pow give two different results for one value. The vector loop computes most elements;
#           the elements that remain at the end of each thread's part go through the C library. More threads have more
#           ends. exp and tanh use vectors for the ends too, and give one result.
# In kolo: replicas with other thread counts drift apart. kolo warns of different thread counts and compares weights.
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

cat >"$folder/bits.cpp" <<'CPP'
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>

using Function = at::Tensor (*)(const at::Tensor&);

// Computes 100,003 equal elements, for each of 200 values.
void observe(const char* name, Function function) {
  int unequal = 0;
  int changed = 0;
  for (int i = 1; i <= 200; ++i) {
    const at::Tensor equal = at::full({100003}, 0.02 * i, at::kFloat);
    at::set_num_threads(1);
    const at::Tensor one = function(equal);
    at::set_num_threads(2);
    const at::Tensor two = function(equal);
    unequal += one.min().equal(one.max()) ? 0 : 1;
    changed += one.equal(two) ? 0 : 1;
  }
  std::printf("%-8s equal elements differ: %s, threads change bits: %s\n", name, unequal > 0 ? "yes" : "no",
              changed > 0 ? "yes" : "no");
}

int main() {
  observe("softplus", [](const at::Tensor& x) { return at::softplus(x); });
  observe("mish", [](const at::Tensor& x) { return at::mish(x); });
  observe("pow", [](const at::Tensor& x) { return at::pow(x, 1.3); });
  observe("exp", [](const at::Tensor& x) { return at::exp(x); });
  observe("tanh", [](const at::Tensor& x) { return at::tanh(x); });
}
CPP
compile "$folder/bits.cpp" "$folder/bits"
observed=$(ATEN_CPU_CAPABILITY=avx2 "$folder/bits")
echo "$observed"
[ "$observed" = "softplus equal elements differ: yes, threads change bits: yes
mish     equal elements differ: yes, threads change bits: yes
pow      equal elements differ: yes, threads change bits: yes
exp      equal elements differ: no, threads change bits: no
tanh     equal elements differ: no, threads change bits: no" ] || { echo "CHANGED"; exit 1; }
echo "as described"
