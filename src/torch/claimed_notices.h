#pragma once
// The notices of the engine that reduces gradients, for one Checkpointer.
#include <string>

#include "kolo/context.h"
#include "kolo/spi/engine.h"
#include "torch/agree_on_call.h"

namespace kolo {

class ClaimedNotices {
 public:
  // Collective. All ranks throw if `options` differ, one has another Checkpointer, or one has `trouble` (empty: none).
  ClaimedNotices(Context& context, const std::string& options, const std::string& trouble)
      : notices_(context.engine().for_gradients().notices()), claimed_(notices_.claim()) {
    try {
      agree_on_call(context, "Checkpointer", options, claimed_ ? trouble : "the Context has another Checkpointer");
    } catch (...) {
      if (claimed_) notices_.release();
      throw;
    }
  }
  ~ClaimedNotices() { notices_.release(); }
  ClaimedNotices(const ClaimedNotices&) = delete;
  ClaimedNotices& operator=(const ClaimedNotices&) = delete;

  [[nodiscard]] RoundNotices& get() const noexcept { return notices_; }

 private:
  RoundNotices& notices_;
  bool claimed_;
};

}  // namespace kolo
