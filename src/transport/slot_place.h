#pragma once
// Where the memories of several ranks are mapped in one process, so that a reduction can read all of them at once.
//
// AMD's processors guess in which way of the first-level cache a line lies, from a hash of bits 12 to 27 of its virtual
// address; of two lines with one hash and one place in their pages, each makes the other one a miss (Lipp et al., "Take
// A Way: Exploring the Security Implications of AMD's Cache Way Predictors", AsiaCCS 2020). The hash does not see a
// distance of 256 MiB nor, for half of all pages, one of 128 MiB and a page; and the kernel puts one mapping next to
// the other. See docs/decisions/0010.
#include <cstddef>

namespace kolo::transport {

inline constexpr int kSlotPlaces = 18;

// Where to map the memory of local rank `index`: that of rank 0 is at `first`, and each has `length` bytes. There are
// kSlotPlaces such places, of which any will do. Null: there is none.
[[nodiscard]] void* slot_place(void* first, std::size_t index, std::size_t length, int place) noexcept;

}  // namespace kolo::transport
