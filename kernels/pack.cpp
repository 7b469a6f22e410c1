#include "kernels/pack.h"

#include "kernels/floating.h"
#include "kernels/launch_shape.h"
#include "kernels/pack_arguments.h"
#include "kolo/error.h"

namespace kolo::kernels {
namespace {

void check(const Transfer& transfer) {
  const bool floats = is_floating(transfer.tensor_type) && is_floating(transfer.bucket_type);
  if (transfer.tensor_type != transfer.bucket_type && !floats) {
    throw UsageError("pack: cannot cast between " + std::string(name_of(transfer.tensor_type)) + " and " +
                     std::string(name_of(transfer.bucket_type)));
  }
  if (transfer.scale != 1.0 && !floats) {
    throw UsageError("pack: " + std::string(name_of(transfer.tensor_type)) + " cannot be scaled");
  }
}

void launch(cuda::KernelImage& image, std::string_view kernel, TensorTable& table, const PackArguments& arguments,
            Stream stream) {
  if (table.blocks() != 0) image.launch({kernel, table.blocks(), kThreads}, arguments, stream);
}

PackArguments arguments_of(const TableView& table, const Transfer& transfer) {
  const bool as_it_is = transfer.tensor_type == transfer.bucket_type && transfer.scale == 1.0;
  return {table,
          static_cast<std::byte*>(transfer.bucket),
          transfer.scale,
          transfer.tensor_type,
          transfer.bucket_type,
          static_cast<std::uint8_t>(as_it_is ? size_of(transfer.tensor_type) : 0)};
}

}  // namespace

void pack(cuda::KernelImage& image, TensorTable& table, std::span<void* const> tensors, const Transfer& transfer,
          Stream stream) {
  check(transfer);
  launch(image, "kolo_pack", table, arguments_of(table.with(tensors, stream), transfer), stream);
}

void unpack(cuda::KernelImage& image, TensorTable& table, std::span<void* const> tensors, const Transfer& transfer,
            Stream stream) {
  check(transfer);
  launch(image, "kolo_unpack", table, arguments_of(table.with(tensors, stream), transfer), stream);
}

}  // namespace kolo::kernels
