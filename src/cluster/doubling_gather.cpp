#include "cluster/doubling_gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kolo/error.h"

namespace kolo::cluster {
namespace {

// A text is its length, then its bytes.
void append(std::vector<std::byte>& bytes, const std::string& text) {
  const std::uint64_t length = text.size();
  const auto head = std::as_bytes(std::span(&length, 1));
  const auto body = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
}

[[noreturn]] void throw_truncated(Rank from, std::size_t bytes, std::uint64_t wanted) {
  throw BackendError("bootstrap: truncated message from rank " + std::to_string(from) + " (" + std::to_string(bytes) +
                     " of " + std::to_string(wanted) + " bytes). Do all ranks run the same version of kolo?");
}

// Takes the first text from the front of `bytes`, which `from` sent.
std::string take_text(std::span<const std::byte>& bytes, Rank from) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) throw_truncated(from, bytes.size(), sizeof length);
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes = bytes.subspan(sizeof length);
  if (bytes.size() < length) throw_truncated(from, bytes.size(), length);
  std::string text(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
  bytes = bytes.subspan(text.size());
  return text;
}

}  // namespace

std::size_t DoublingGather::count() const noexcept {
  return std::min(texts_.size(), static_cast<std::size_t>(size_) - texts_.size());
}

std::vector<std::byte> DoublingGather::outgoing() const {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count(); ++i) append(bytes, texts_[i]);
  return bytes;
}

void DoublingGather::take(std::span<const std::byte> incoming) {
  const std::size_t wanted = count();
  std::vector<std::string> come;
  std::size_t said = 0;
  while (!incoming.empty()) {
    std::string text = take_text(incoming, from());
    if (said++ < wanted) come.push_back(std::move(text));
  }
  if (said != wanted) {
    throw BackendError("bootstrap: rank " + std::to_string(from()) + " sent " + std::to_string(said) + " texts, not " +
                       std::to_string(wanted) + ". Do all ranks run the same version of kolo?");
  }
  std::ranges::move(come, std::back_inserter(texts_));
}

std::vector<std::string> DoublingGather::all() && {
  std::rotate(texts_.begin(), texts_.end() - rank_, texts_.end());
  return std::move(texts_);
}

}  // namespace kolo::cluster
