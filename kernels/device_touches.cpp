#include "kernels/device_touches.h"

#include "kernels/update_run.h"

namespace kolo::kernels {
namespace {

using List = std::vector<Touched>;

void add(List& list, const void* memory, std::size_t bytes, bool written) {
  if (memory != nullptr && bytes != 0) list.push_back({memory, bytes, written});
}

void add_table(List& list, const TableView& table, std::size_t columns) {
  add(list, table.addresses, columns * table.tensors * sizeof(*table.addresses), false);
  add(list, table.offsets, table.tensors * sizeof(*table.offsets), false);
  add(list, table.chunks, table.chunk_count * sizeof(*table.chunks), false);
}

// Each tensor's column `column`, as whole as its chunks are; nothing of tensors whose first column is null.
void add_tensors(List& list, const TableView& table, std::size_t column, std::size_t element_bytes, bool written) {
  for (std::size_t i = 0; i < table.chunk_count; ++i) {
    const Chunk& chunk = table.chunks[i];
    const std::byte* tensor = table.addresses[column * table.tensors + chunk.tensor];
    if (table.addresses[chunk.tensor] != nullptr)
      add(list, tensor + chunk.first * element_bytes, chunk.count * element_bytes, written);
  }
}

// The bucket's side of the chunks; without those of tensors that are null where `present_only`.
struct BucketSide {
  const void* bucket = nullptr;
  std::size_t element_bytes = 0;
  bool written = false;
  bool present_only = false;
};
void add_bucket(List& list, const TableView& table, const BucketSide& side) {
  for (std::size_t i = 0; i < table.chunk_count; ++i) {
    const Chunk& chunk = table.chunks[i];
    if (side.present_only && table.addresses[chunk.tensor] == nullptr) continue;
    const std::size_t place = table.offsets[chunk.tensor] + chunk.first;
    add(list, static_cast<const std::byte*>(side.bucket) + place * side.element_bytes, chunk.count * side.element_bytes,
        side.written);
  }
}

List update_touches(const TableView& table, std::size_t columns, const Leave& leave = {}) {
  List list;
  add(list, leave.skip, sizeof(*leave.skip), false);
  add(list, leave.given_up, sizeof(*leave.given_up), false);
  if (is_left(leave)) return list;
  add_table(list, table, columns);
  for (std::size_t column = 0; column < columns; ++column) {
    add_tensors(list, table, column, sizeof(float), column > 0);
  }
  return list;
}

}  // namespace

List pack_touches(const PackArguments& arguments) {
  List list;
  add_table(list, arguments.table, 1);
  add_tensors(list, arguments.table, 0, size_of(arguments.tensor_type), false);
  add_bucket(list, arguments.table, {arguments.bucket, size_of(arguments.bucket_type), true, false});
  return list;
}

List unpack_touches(const PackArguments& arguments) {
  List list;
  add_table(list, arguments.table, 1);
  add_bucket(list, arguments.table, {arguments.bucket, size_of(arguments.bucket_type), false, true});
  add_tensors(list, arguments.table, 0, size_of(arguments.tensor_type), true);
  return list;
}

List scale_touches(const ScaleArguments& arguments) {
  return {{arguments.data, arguments.count * size_of(arguments.dtype), true}};
}

List find_nonfinite_touches(const FindNonfiniteArguments& arguments) {
  List list = update_touches(arguments.table, 1);
  add(list, arguments.flag, sizeof(*arguments.flag), true);
  return list;
}

List sgd_touches(const SgdArguments& arguments) {
  return update_touches(arguments.table, arguments.with_momentum ? 3 : 2, arguments.leave);
}

List adamw_touches(const AdamwArguments& arguments) { return update_touches(arguments.table, 4, arguments.leave); }

List images_touches(const ImagesArguments& arguments) {
  const std::size_t values = std::size_t{3} * arguments.images * arguments.height * arguments.width;
  List list{{arguments.pixels, values, false}, {arguments.out, values * size_of(arguments.dtype), true}};
  add(list, arguments.flips, arguments.images, false);
  return list;
}

}  // namespace kolo::kernels
