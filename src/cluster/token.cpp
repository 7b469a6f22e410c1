#include "cluster/token.h"

#include <sys/random.h>

#include "kolo/error.h"

namespace kolo::cluster {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

}  // namespace

std::string random_token() {
  Token token{};
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) return {};
  std::string text;
  for (const std::byte byte : token) {
    text += kHex[std::to_integer<std::size_t>(byte) >> 4];
    text += kHex[std::to_integer<std::size_t>(byte) & 15];
  }
  return text;
}

Token parse_token(const std::string& text) {
  Token token{};
  if (text.size() != 2 * token.size() || text.find_first_not_of(kHex) != std::string::npos) {
    throw BackendError("bootstrap: no token from rank 0: getrandom failed there");
  }
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::byte>(kHex.find(text[2 * i]) * 16 + kHex.find(text[2 * i + 1]));
  }
  return token;
}

bool equal(const Token& a, const Token& b) noexcept {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= std::to_integer<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace kolo::cluster
