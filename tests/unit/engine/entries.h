#pragma once
// What a rank has submitted under a name, for tests of matching and negotiation.
#include <string>

#include "engine/messages.h"

namespace kolo::engine {

inline Entry entry(const std::string& name, Rank rank, std::int64_t size = 4) {
  Entry result;
  result.name = name;
  result.rank = rank;
  result.signature.sizes = {size};
  return result;
}

}  // namespace kolo::engine
