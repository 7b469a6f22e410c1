#pragma once
// Which ways are fastest on this processor, where families of processors differ. Every way gives the same bits.
namespace kolo::kernels {

// What was measured (docs/performance.md):
//                                              Intel Sapphire Rapids           AMD Zen 5
//   lines fetched ahead that a peer wrote      a fifth slower: its own         faster
//                                              prefetching follows them
//   a peer's private memory read by the kernel faster from 1 MiB on            half as fast as through lanes
//   copies past the caches by one core         a third faster                  two fifths slower
[[nodiscard]] bool on_intel() noexcept;

}  // namespace kolo::kernels
