#pragma once
// Where the blocks of a Ring lie, and who computes there.
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/reduction.h"

namespace kolo::collectives {

class RingPlace {
 public:
  static constexpr std::size_t kSlots = 4;  // segments that are received at a time

  virtual ~RingPlace() = default;
  // Room for a segment that is received to be reduced. Stays until the slot is asked for again.
  [[nodiscard]] virtual std::span<std::byte> room(std::size_t slot, std::size_t bytes) = 0;
  // This rank's part, before it is used for the first time.
  virtual void prescale(const Reduction& reduction, std::byte* own, std::size_t count) = 0;
  // Begins to combine what has come into the slot's room with `own`, which becomes the result.
  virtual void combine(std::size_t slot, const Reduction& reduction, std::byte* own, std::size_t count,
                       const Reduction::Step& step) = 0;
  // Whether that is done. Throws BackendError.
  [[nodiscard]] virtual bool combined(std::size_t slot) = 0;
};

// Memory of the host, and its processor: at once.
class HostPlace final : public RingPlace {
 public:
  [[nodiscard]] std::span<std::byte> room(std::size_t slot, std::size_t bytes) override;
  void prescale(const Reduction& reduction, std::byte* own, std::size_t count) override;
  void combine(std::size_t slot, const Reduction& reduction, std::byte* own, std::size_t count,
               const Reduction::Step& step) override;
  [[nodiscard]] bool combined(std::size_t /*slot*/) override { return true; }

 private:
  std::vector<std::vector<std::byte>> rooms_{kSlots};
};

}  // namespace kolo::collectives
