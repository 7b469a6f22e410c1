// Writes the file that read_safetensors.py expects.
#include <cstdio>
#include <exception>
#include <vector>

#include "kolo/checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const std::vector<float> weight{0.5F, -1.0F, 2.25F, 3.0F, -4.5F, 1e-3F};
    const std::int64_t tracked = 12345678901;
    const std::vector<std::uint8_t> flags{1, 0, 1};
    const std::vector<kolo::checkpoint::TensorView> tensors{
        {"layer1.0.conv1.weight", kolo::DType::f32, {2, 3}, std::as_bytes(std::span(weight))},
        {"bn1.num_batches_tracked", kolo::DType::i64, {}, std::as_bytes(std::span(&tracked, 1))},
        {"empty", kolo::DType::f16, {0, 7}, {}},
        {"flags \"quoted\" \u00e9", kolo::DType::boolean, {3}, std::as_bytes(std::span(flags))}};
    kolo::checkpoint::write_safetensors(argv[1], tensors, {{"format", "pt"}, {"step", "7"}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
