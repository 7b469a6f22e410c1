#pragma once
// The arithmetic of scale_copy(), for any instruction set. See host_vector.h on what may stand here.
#include "kernels/host_kernels.h"
#include "kernels/host_vector.h"

namespace kolo::kernels {
namespace {

template <class In, class Out, bool streaming>
std::size_t scale_packs(const ScaleCopyJob& job, typename In::Compute scale, std::size_t first) {
  std::size_t i = first;
  for (; i + kLanes <= job.count; i += kLanes) {
    auto pack = In::load(job.in + i * sizeof(typename In::Storage));
    for (auto& v : pack.v) v = v * scale;
    store<streaming>(job.out + i * sizeof(typename Out::Storage), Out::encode(pack));
  }
  return i;
}

template <class In, class Out>
void scale_singly(const ScaleCopyJob& job, typename In::Compute scale, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const auto value = In::load_one(job.in + i * sizeof(typename In::Storage)) * scale;
    Out::store_one(job.out + i * sizeof(typename Out::Storage), value);
  }
}

// In and Out compute in the same type.
template <class In, class Out>
void scale_all(const ScaleCopyJob& job) {
  const auto scale = (typename In::Compute)job.scale;
  const std::size_t head = job.streaming ? elements_to_line(job.out, sizeof(typename Out::Storage), job.count) : 0;
  const bool streaming = job.streaming && head < job.count;
  if (!streaming) return scale_singly<In, Out>(job, scale, scale_packs<In, Out, false>(job, scale, 0), job.count);
  scale_singly<In, Out>(job, scale, 0, head);
  scale_singly<In, Out>(job, scale, scale_packs<In, Out, true>(job, scale, head), job.count);
  fence_streaming();
}

// To or from f64: rare, so one by one. With a 16-bit type the way goes through fp32.
template <class In, class Out, class Compute>
void scale_rare(const ScaleCopyJob& job) {
  const auto scale = (Compute)job.scale;
  for (std::size_t i = 0; i < job.count; ++i) {
    const auto value = (Compute)In::load_one(job.in + i * sizeof(typename In::Storage)) * scale;
    Out::store_one(job.out + i * sizeof(typename Out::Storage), (typename Out::Compute)value);
  }
}

template <class In>
void scale_floats(const ScaleCopyJob& job) {
  switch (job.out_type) {
    case DType::f32:
      return scale_all<In, Plain<float>>(job);
    case DType::f16:
      return scale_all<In, Float16>(job);
    case DType::bf16:
      return scale_all<In, BFloat16>(job);
    default:
      return;
  }
}

void scale_from_double(const ScaleCopyJob& job) {
  switch (job.out_type) {
    case DType::f64:
      return scale_all<Plain<double>, Plain<double>>(job);
    case DType::f32:
      return scale_rare<Plain<double>, Plain<float>, double>(job);
    case DType::f16:
      return scale_rare<Plain<double>, Float16, float>(job);
    case DType::bf16:
      return scale_rare<Plain<double>, BFloat16, float>(job);
    default:
      return;
  }
}

void scale_to_double(const ScaleCopyJob& job) {
  switch (job.in_type) {
    case DType::f32:
      return scale_rare<Plain<float>, Plain<double>, double>(job);
    case DType::f16:
      return scale_rare<Float16, Plain<double>, float>(job);
    case DType::bf16:
      return scale_rare<BFloat16, Plain<double>, float>(job);
    default:
      return;
  }
}

// Bytes as they are, past the caches. in == out is a copy onto itself.
void copy_streaming(const ScaleCopyJob& job, std::size_t bytes) {
  const std::size_t head = elements_to_line(job.out, 1, bytes);
  std::memmove(job.out, job.in, head);
  std::size_t at = head;
  for (; at + 4 * kVectorBytes <= bytes; at += 4 * kVectorBytes) {
    store<true>(job.out + at, read<Pack<double>>(job.in + at));  // a pack of doubles is four vectors
  }
  std::memmove(job.out + at, job.in + at, bytes - at);
  fence_streaming();
}

void scale_copy_job(const ScaleCopyJob& job) {
  if (job.in_type == job.out_type && job.scale == 1.0) {
    const std::size_t bytes = job.count * job.element_bytes;
    if (job.streaming) return copy_streaming(job, bytes);
    std::memmove(job.out, job.in, bytes);
    return;
  }
  if (job.in_type == DType::f64) return scale_from_double(job);
  if (job.out_type == DType::f64) return scale_to_double(job);
  if (job.in_type == DType::f32) return scale_floats<Plain<float>>(job);
  if (job.in_type == DType::f16) return scale_floats<Float16>(job);
  if (job.in_type == DType::bf16) return scale_floats<BFloat16>(job);
}

}  // namespace
}  // namespace kolo::kernels
