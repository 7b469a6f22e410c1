#pragma once
// What one thread does of pack() and unpack().
#include "kernels/device_run.h"
#include "kernels/floating.h"
#include "kernels/pack_arguments.h"
#include "kernels/scale_element.h"

namespace kolo::kernels {

// `visit(tensor, element of the bucket, count)` for every chunk that is this block's; `tensor` null where there is
// none.
template <class TensorElement, class Visitor>
KOLO_HOST_DEVICE void for_each_chunk(const TableView& table, const Position& at, const Visitor& visit) {
  for (std::size_t i = at.block; i < table.chunk_count; i += at.blocks) {
    const Chunk chunk = table.chunks[i];
    std::byte* tensor = table.addresses[chunk.tensor];
    if (tensor != nullptr) tensor += chunk.first * sizeof(typename TensorElement::Bits);
    visit(tensor, table.offsets[chunk.tensor] + chunk.first, static_cast<std::size_t>(chunk.count));
  }
}

template <class Tensor, class Bucket, class Op>
KOLO_HOST_DEVICE void pack_chunks(const PackArguments& arguments, const Position& at, const Op& op) {
  const Share share = share_of_block(at);
  for_each_chunk<Tensor>(arguments.table, at, [&](const std::byte* tensor, std::size_t place, std::size_t count) {
    std::byte* out = arguments.bucket + place * sizeof(typename Bucket::Bits);
    if (tensor != nullptr) {
      transform_run<Tensor, Bucket>(tensor, out, count, op, share);
    } else {
      zero_run<Bucket>(out, count, share);
    }
  });
}

template <class Tensor, class Bucket, class Op>
KOLO_HOST_DEVICE void unpack_chunks(const PackArguments& arguments, const Position& at, const Op& op) {
  const Share share = share_of_block(at);
  for_each_chunk<Tensor>(arguments.table, at, [&](std::byte* tensor, std::size_t place, std::size_t count) {
    const std::byte* in = arguments.bucket + place * sizeof(typename Bucket::Bits);
    if (tensor != nullptr) transform_run<Bucket, Tensor>(in, tensor, count, op, share);
  });
}

KOLO_HOST_DEVICE inline void pack_body(const PackArguments& arguments, const Position& at) {
  if (arguments.element_bytes != 0) {
    return with_plain(arguments.element_bytes, [&](auto element) {
      using E = decltype(element);
      pack_chunks<E, E>(arguments, at, CopyElement<E>{});
    });
  }
  with_floating(arguments.tensor_type, [&](auto tensor) {
    with_floating(arguments.bucket_type, [&](auto bucket) {
      using Tensor = decltype(tensor);
      using Bucket = decltype(bucket);
      pack_chunks<Tensor, Bucket>(arguments, at, ScaleElement<Tensor, Bucket>(arguments.scale));
    });
  });
}

KOLO_HOST_DEVICE inline void unpack_body(const PackArguments& arguments, const Position& at) {
  if (arguments.element_bytes != 0) {
    return with_plain(arguments.element_bytes, [&](auto element) {
      using E = decltype(element);
      unpack_chunks<E, E>(arguments, at, CopyElement<E>{});
    });
  }
  with_floating(arguments.tensor_type, [&](auto tensor) {
    with_floating(arguments.bucket_type, [&](auto bucket) {
      using Tensor = decltype(tensor);
      using Bucket = decltype(bucket);
      unpack_chunks<Tensor, Bucket>(arguments, at, ScaleElement<Bucket, Tensor>(arguments.scale));
    });
  });
}

}  // namespace kolo::kernels
