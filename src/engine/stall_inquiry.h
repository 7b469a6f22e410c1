#pragma once
// How an engine asks other ranks what keeps them, past its own channel: that may be what stalls.
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo::engine {

// What a rank does instead of what it is waited for at.
struct Activity {
  bool waits = false;  // for others, in a call of kolo: it is not the cause
  std::string text;
};

// Thread-safe; nothing here blocks.
class StallInquiry {
 public:
  struct Answer {
    Rank rank = 0;
    std::string host;
    Activity activity;
  };
  virtual ~StallInquiry() = default;
  // Returns the question's number.
  virtual std::uint64_t ask(const std::vector<Rank>& ranks, const std::string& operation) = 0;
  // Those that have come by now, by rank.
  [[nodiscard]] virtual std::vector<Answer> answers(std::uint64_t question) = 0;
  [[nodiscard]] virtual std::string host(Rank rank) = 0;
};

}  // namespace kolo::engine
