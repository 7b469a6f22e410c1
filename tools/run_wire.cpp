#include "run_wire.h"

#include <charconv>
#include <stdexcept>
#include <vector>

namespace kolo::tools {
namespace {

constexpr std::size_t kHead = 5;

std::string four_bytes(std::uint32_t number) {
  std::string bytes(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (24 - 8 * i));
  return bytes;
}

std::uint32_t from_four_bytes(std::string_view bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

bool known(char type) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::hello:
    case MessageType::output:
    case MessageType::credit:
    case MessageType::signal:
    case MessageType::end:
      return true;
  }
  return false;
}

template <class T>
T number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::runtime_error("message without a number");
  return value;
}

}  // namespace

std::string encode(MessageType type, std::string_view body) {
  std::string message;
  message.reserve(kHead + body.size());
  message.push_back(static_cast<char>(type));
  message.append(four_bytes(static_cast<std::uint32_t>(body.size())));
  message.append(body);
  return message;
}

std::string encode_number(MessageType type, std::uint32_t number) { return encode(type, four_bytes(number)); }

std::uint32_t decode_number(std::string_view body) {
  if (body.size() != 4) throw std::runtime_error("number of " + std::to_string(body.size()) + " bytes instead of 4");
  return from_four_bytes(body);
}

std::string encode(const Hello& hello) {
  return encode(MessageType::hello,
                hello.token + ' ' + std::to_string(hello.rank) + ' ' + std::to_string(hello.pid) + ' ' + hello.host);
}

Hello decode_hello(std::string_view body) {
  std::vector<std::string_view> words;
  while (words.size() < 3) {
    const std::size_t space = body.find(' ');
    if (space == std::string_view::npos) throw std::runtime_error("truncated hello");
    words.push_back(body.substr(0, space));
    body.remove_prefix(space + 1);
  }
  return {std::string(words[0]), number_of<int>(words[1]), std::string(body), number_of<long>(words[2])};
}

std::string encode(const End& end) {
  std::string body(1, static_cast<char>(end.how));
  body.push_back(end.told ? '1' : '0');
  body.append(std::to_string(end.value));
  return encode(MessageType::end, body);
}

End decode_end(std::string_view body) {
  const bool known = body.size() > 2 && std::string_view("xsno").find(body[0]) != body.npos;
  if (!known || (body[1] != '0' && body[1] != '1')) throw std::runtime_error("unknown kind of end");
  return {static_cast<How>(body[0]), number_of<int>(body.substr(2)), body[1] == '1'};
}

std::optional<Message> MessageReader::next() {
  if (pending_.empty()) return std::nullopt;
  if (!known(pending_.front())) throw std::runtime_error("unknown message type");
  if (pending_.size() < kHead) return std::nullopt;
  const std::size_t length = from_four_bytes(std::string_view(pending_).substr(1));
  if (length > kMaxMessage)
    throw std::runtime_error("message of " + std::to_string(length) + " bytes exceeds the limit");
  if (pending_.size() < kHead + length) return std::nullopt;
  Message message{static_cast<MessageType>(pending_.front()), pending_.substr(kHead, length)};
  pending_.erase(0, kHead + length);
  return message;
}

bool same_secret(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned char>(left[i] ^ right[i]);
  return difference == 0;
}

}  // namespace kolo::tools
