#pragma once
// Which ways are fastest on this processor, where families of processors differ. Every way gives the same bits.
namespace kolo::kernels {

// What was measured, on Intel's Sapphire Rapids, AMD's Zen 4 and AMD's Zen 5:
//   lines fetched ahead that a peer wrote: a fifth slower on Intel's, whose own prefetching follows them; a tenth to a
//     fifth slower on Zen 4; faster on Zen 5
//   copies past the caches by one core: a third faster on Intel's; faster on Zen 4 (a tenth of the whole operation, or
//     more); two fifths slower on Zen 5
[[nodiscard]] bool on_intel() noexcept;
[[nodiscard]] bool on_zen4() noexcept;

}  // namespace kolo::kernels
