#pragma once
// A dataset of one file in memory.
#include <string>

#include "kolo/data/dataset.h"

namespace kolo::test {

class OneImage final : public data::Dataset {
 public:
  explicit OneImage(std::string file) : file_(std::move(file)) {}
  [[nodiscard]] std::int64_t size() const override { return 1; }
  [[nodiscard]] std::int64_t classes() const override { return 1; }
  std::span<const std::byte> bytes(std::int64_t, std::vector<std::byte>&) const override {
    return std::as_bytes(std::span(file_));
  }
  [[nodiscard]] std::int64_t label(std::int64_t) const override { return 0; }
  [[nodiscard]] std::string name(std::int64_t) const override { return "one"; }

 private:
  std::string file_;
};

}  // namespace kolo::test
