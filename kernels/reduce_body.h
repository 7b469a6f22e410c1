#pragma once
// The arithmetic of reduce(), for any instruction set. See host_vector.h on what may stand here.
//
//   input 0  |a0 a1 a2 ...|  \                               / |r0 r1 r2 ...| output 0
//   input 1  |b0 b1 b2 ...|  -  a pack at a time, registers  - |r0 r1 r2 ...| output 1
//   input p  |c0 c1 c2 ...|  /  ((a + b) + c) * scale        \ |r0 r1 r2 ...| output p
//
// Every byte is read once and written once. Elements before the first line boundary of streamed outputs and the last
// few of any buffer go one by one through the same functions, so a value does not depend on where it lies.
//
// What other cores wrote last is fetched ahead, twice: far ahead for when it comes from a distant cache (the hardware's
// own prefetching stops at every page), and close by for when the line has since left the first-level cache again. Both
// distances were measured, on neighbouring cores and on cores of different cache groups. Only for 2, 4 and 8 ranks.
#include "base/cache_line.h"
#include "kernels/host_kernels.h"
#include "kernels/host_vector.h"
#include "kernels/reduce_operators.h"

namespace kolo::kernels {
namespace {

template <class E, class Op, class S>
void reduce_singly(const ReduceJob& job, const S& scaling, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t at = i * sizeof(typename E::Storage);
    auto value = scaling.first(E::load_one(job.inputs[0] + at));
    for (int k = 1; k < job.input_count; ++k) {
      value = (typename E::Compute)Op::of(value, scaling.first(E::load_one(job.inputs[k] + at)));
    }
    for (int k = 0; k < job.output_count; ++k) E::store_one(job.outputs[k] + at, scaling.last(value));
  }
}

// The job's pointers where the loop can keep them in registers: a store to a byte might else change them, for all the
// compiler knows. The fewer instructions a line takes, the more lines are on their way from other caches at once.
// `fixed` > 0: that many inputs and as many outputs, unrolled; 0: any numbers.
template <int fixed>
struct Columns {
  static constexpr int inputs = fixed;
  static constexpr int outputs = fixed;
  const std::byte* in[fixed];
  std::byte* out[fixed];
  const std::byte* far[fixed];  // outputs but the near one
  KOLO_INLINE explicit Columns(const ReduceJob& job) {
    for (int k = 0; k < fixed; ++k) in[k] = job.inputs[k];
    for (int k = 0; k < fixed; ++k) out[k] = job.outputs[k];
    for (int k = 0; k + 1 < fixed; ++k) far[k] = job.outputs[k < job.near ? k : k + 1];
  }
};
template <>
struct Columns<0> {
  int inputs;
  int outputs;
  const std::byte* const* in;
  std::byte* const* out;
  KOLO_INLINE explicit Columns(const ReduceJob& job)
      : inputs(job.input_count), outputs(job.output_count), in(job.inputs), out(job.outputs) {}
};

enum class Pass { plain, streaming, fetching };
constexpr std::size_t kFarAhead = 2048;  // bytes
constexpr std::size_t kCloseAhead = 512;
constexpr std::size_t kFetchedFrom = 10 * 1024;  // what is shorter has come before this pays

// To be written to: a line then leaves another core's cache once instead of twice, for the load and again for the
// store.
template <int fixed>
KOLO_INLINE void fetch_ahead(const Columns<fixed>& columns, std::size_t at, std::size_t pack_bytes) {
  for (int k = 0; k + 1 < fixed; ++k) {
    for (std::size_t line = 0; line < pack_bytes; line += kLine) {
      base::own_line(columns.far[k] + at + line + kCloseAhead);
      base::own_line(columns.far[k] + at + line + kFarAhead);
    }
  }
}

// What the first packs need, all at once.
template <int fixed>
KOLO_INLINE void fetch_first(const Columns<fixed>& columns) {
  for (std::size_t at = 0; at < kFarAhead; at += kLine) {
    for (int k = 0; k + 1 < fixed; ++k) base::own_line(columns.far[k] + at);
  }
}

// From element `first` up to `last`, as far as whole packs go.
template <class E, class Op, class S, int fixed, Pass pass>
std::size_t reduce_packs(const ReduceJob& job, const S& given, std::size_t first, std::size_t last) {
  using Accumulator = Pack<typename E::Compute>;
  const Columns<fixed> columns(job);
  const S scaling = given;
  std::size_t i = first;
  for (; i + kLanes <= last; i += kLanes) {
    const std::size_t at = i * sizeof(typename E::Storage);
    if constexpr (pass == Pass::fetching) fetch_ahead(columns, at, kLanes * sizeof(typename E::Storage));
    Accumulator sum = E::load(columns.in[0] + at);
    for (auto& v : sum.v) v = scaling.first(v);
    for (int k = 1; k < columns.inputs; ++k) {
      const Accumulator next = E::load(columns.in[k] + at);
      for (std::size_t j = 0; j < Accumulator::kVectors; ++j) sum.v[j] = Op::of(sum.v[j], scaling.first(next.v[j]));
    }
    for (auto& v : sum.v) v = scaling.last(v);
    const auto encoded = E::encode(sum);
    for (int k = 0; k < columns.outputs; ++k) store<pass == Pass::streaming>(columns.out[k] + at, encoded);
  }
  return i;
}

template <class E, class Op, class S, int fixed>
void reduce_all(const ReduceJob& job) {
  const S scaling(job);
  std::size_t head = 0;
  bool streaming = job.streaming;
  if (streaming) {
    head = elements_to_line(job.outputs[0], sizeof(typename E::Storage), job.count);
    for (int k = 1; k < job.output_count; ++k) {
      if (((std::size_t)job.outputs[k] - (std::size_t)job.outputs[0]) % kLine != 0) streaming = false;
    }
    if (head == job.count) streaming = false;
    if (!streaming) head = 0;
  }
  reduce_singly<E, Op, S>(job, scaling, 0, head);
  std::size_t done = head;
  if (streaming) {
    done = reduce_packs<E, Op, S, fixed, Pass::streaming>(job, scaling, done, job.count);
  } else {
    // Nothing beyond the end: that is another core's to write.
    constexpr std::size_t ahead = kFarAhead / sizeof(typename E::Storage);
    if constexpr (fixed > 0) {
      if (job.near >= 0 && job.count >= kFetchedFrom / sizeof(typename E::Storage)) {
        fetch_first<fixed>(Columns<fixed>(job));
        done = reduce_packs<E, Op, S, fixed, Pass::fetching>(job, scaling, done, job.count - ahead);
      }
    }
    done = reduce_packs<E, Op, S, fixed, Pass::plain>(job, scaling, done, job.count);
  }
  reduce_singly<E, Op, S>(job, scaling, done, job.count);
  if (streaming) fence_streaming();
}

// --- dispatch on type and operation ---------------------------------------------------------------------------------

template <class E, class S>
void reduce_floats_scaled(const ReduceJob& job) {
  if (job.op == ReduceOp::min) return reduce_all<E, Min, S, 0>(job);
  if (job.op == ReduceOp::max) return reduce_all<E, Max, S, 0>(job);
  if (job.op == ReduceOp::product) return reduce_all<E, Product, S, 0>(job);
  if (job.input_count == job.output_count) {
    if (job.input_count == 2) return reduce_all<E, Sum, S, 2>(job);
    if (job.input_count == 4) return reduce_all<E, Sum, S, 4>(job);
    if (job.input_count == 8) return reduce_all<E, Sum, S, 8>(job);
  }
  reduce_all<E, Sum, S, 0>(job);
}

template <class E>
void reduce_floats(const ReduceJob& job) {
  using C = typename E::Compute;
  return job.prescale == 1.0 ? reduce_floats_scaled<E, ScalingAtEnd<C>>(job) : reduce_floats_scaled<E, Scaling<C>>(job);
}

// Not a hot path: metrics and counters. Sums wrap in 64 bits, the division truncates.
template <class T>
void average_integers(const ReduceJob& job) {
  for (std::size_t i = 0; i < job.count; ++i) {
    const std::size_t at = i * sizeof(T);
    std::uint64_t sum = 0;
    for (int k = 0; k < job.input_count; ++k) sum += (std::uint64_t)(std::int64_t)read<T>(job.inputs[k] + at);
    const T average = (T)((std::int64_t)sum / job.divisor);
    for (int k = 0; k < job.output_count; ++k) write(job.outputs[k] + at, average);
  }
}

// Unsigned is the same bits modulo 2^n and has no undefined overflow.
template <class T, class Unsigned>
void reduce_integers(const ReduceJob& job) {
  switch (job.op) {
    case ReduceOp::sum:
      return reduce_all<Plain<Unsigned>, Sum, NoScaling, 0>(job);
    case ReduceOp::average:
      return average_integers<T>(job);
    case ReduceOp::min:
      return reduce_all<Plain<T>, Min, NoScaling, 0>(job);
    case ReduceOp::max:
      return reduce_all<Plain<T>, Max, NoScaling, 0>(job);
    case ReduceOp::product:
      return reduce_all<Plain<Unsigned>, Product, NoScaling, 0>(job);
  }
}

void reduce_booleans(const ReduceJob& job) {
  const bool either = job.op == ReduceOp::sum || job.op == ReduceOp::max;
  return either ? reduce_all<Plain<std::uint8_t>, Or, NoScaling, 0>(job)
                : reduce_all<Plain<std::uint8_t>, And, NoScaling, 0>(job);
}

void reduce_job(const ReduceJob& job) {
  switch (job.dtype) {
    case DType::f32:
      return reduce_floats<Plain<float>>(job);
    case DType::f64:
      return reduce_floats<Plain<double>>(job);
    case DType::f16:
      return reduce_floats<Float16>(job);
    case DType::bf16:
      return reduce_floats<BFloat16>(job);
    case DType::i8:
      return reduce_integers<std::int8_t, std::uint8_t>(job);
    case DType::u8:
      return reduce_integers<std::uint8_t, std::uint8_t>(job);
    case DType::i16:
      return reduce_integers<std::int16_t, std::uint16_t>(job);
    case DType::i32:
      return reduce_integers<std::int32_t, std::uint32_t>(job);
    case DType::i64:
      return reduce_integers<std::int64_t, std::uint64_t>(job);
    case DType::boolean:
      return reduce_booleans(job);
  }
}

}  // namespace
}  // namespace kolo::kernels
