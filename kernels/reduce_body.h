#pragma once
// The arithmetic of reduce(), for any instruction set. See host_vector.h on what may stand here.
//
//   input 0  |a0 a1 a2 ...|  \                               / |r0 r1 r2 ...| output 0
//   input 1  |b0 b1 b2 ...|  -  a pack at a time, registers  - |r0 r1 r2 ...| output 1
//   input p  |c0 c1 c2 ...|  /  ((a + b) + c) * scale        \ |r0 r1 r2 ...| output p
//
// Every byte is read once and written once. Elements before the first line boundary of streamed outputs and the last
// few of any buffer go one by one through the same functions, so a value does not depend on where it lies.
#include "kernels/host_kernels.h"
#include "kernels/host_vector.h"

namespace kolo::kernels {
namespace {

// --- operators: on one value and on a vector of them; for floats, a NaN on either side is the result ----------------

struct Sum {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a + b;
  }
};
struct Min {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return (b < a) | (b != b) ? b : a;
  }
};
struct Max {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return (b > a) | (b != b) ? b : a;
  }
};
struct Or {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a | b;
  }
};
struct And {
  template <class T>
  KOLO_INLINE static T of(T a, T b) {
    return a & b;
  }
};

// --- scaling
// -----------------------------------------------------------------------------------------------------------

template <class C>
struct Scaling {
  C before;
  C divisor;
  C after;
  bool divides;  // false: the divisor is 1, or a power of two that is already in `after`

  KOLO_INLINE explicit Scaling(const ReduceJob& job)
      : before((C)job.prescale), divisor((C)job.divisor), after((C)job.postscale), divides(job.divisor > 1) {
    if (divides && (job.divisor & (job.divisor - 1)) == 0 && job.postscale == 1.0) {
      after = 1 / divisor;  // exact, and so is the product: the same bits as a division
      divides = false;
    }
  }
  template <class V>
  KOLO_INLINE V first(V value) const {
    return value * before;
  }
  template <class V>
  KOLO_INLINE V last(V value) const {
    if (divides) value = value / divisor;
    return value * after;
  }
};

struct NoScaling {
  KOLO_INLINE explicit NoScaling(const ReduceJob&) {}
  template <class V>
  KOLO_INLINE V first(V value) const {
    return value;
  }
  template <class V>
  KOLO_INLINE V last(V value) const {
    return value;
  }
};

// --- loops
// -------------------------------------------------------------------------------------------------------------

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

// `fixed` > 0: that many inputs and as many outputs, unrolled; 0: any numbers.
template <class E, class Op, class S, int fixed, bool streaming>
std::size_t reduce_packs(const ReduceJob& job, const S& scaling, std::size_t first) {
  using Accumulator = Pack<typename E::Compute>;
  const int inputs = fixed > 0 ? fixed : job.input_count;
  const int outputs = fixed > 0 ? fixed : job.output_count;
  std::size_t i = first;
  for (; i + kLanes <= job.count; i += kLanes) {
    const std::size_t at = i * sizeof(typename E::Storage);
    Accumulator sum = E::load(job.inputs[0] + at);
    for (auto& v : sum.v) v = scaling.first(v);
    for (int k = 1; k < inputs; ++k) {
      const Accumulator next = E::load(job.inputs[k] + at);
      for (std::size_t j = 0; j < Accumulator::kVectors; ++j) sum.v[j] = Op::of(sum.v[j], scaling.first(next.v[j]));
    }
    for (auto& v : sum.v) v = scaling.last(v);
    const auto encoded = E::encode(sum);
    for (int k = 0; k < outputs; ++k) store<streaming>(job.outputs[k] + at, encoded);
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
  const std::size_t done = streaming ? reduce_packs<E, Op, S, fixed, true>(job, scaling, head)
                                     : reduce_packs<E, Op, S, fixed, false>(job, scaling, head);
  reduce_singly<E, Op, S>(job, scaling, done, job.count);
  if (streaming) fence_streaming();
}

// --- dispatch on type and operation ---------------------------------------------------------------------------------

template <class E>
void reduce_floats(const ReduceJob& job) {
  using S = Scaling<typename E::Compute>;
  if (job.op == ReduceOp::min) return reduce_all<E, Min, S, 0>(job);
  if (job.op == ReduceOp::max) return reduce_all<E, Max, S, 0>(job);
  if (job.input_count == job.output_count) {
    if (job.input_count == 2) return reduce_all<E, Sum, S, 2>(job);
    if (job.input_count == 4) return reduce_all<E, Sum, S, 4>(job);
    if (job.input_count == 8) return reduce_all<E, Sum, S, 8>(job);
  }
  reduce_all<E, Sum, S, 0>(job);
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
