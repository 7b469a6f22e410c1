# Sourced. Sets `torch` to a LibTorch 2.11.0: the one of LIBTORCH, or the CPU part of PyPI's wheel (530 MB to fetch) in
# "$folder". compile SOURCE PROGRAM FLAGS... makes a program with it.
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
