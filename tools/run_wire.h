#pragma once
// What a rank's supervisor and `kolo run` say to each other, over one TCP connection a rank.
//
//   supervisor                          kolo run
//      | -- hello token rank host pid ---> |   the first message, or the connection is closed
//      | -- output stream bytes ---------> |   never much more than kWindow that was not granted again, by cost_of,
//      | <------------- credit cost ------ |   so that a slow reader stops the program, not the connection
//      | <------------- signal number ---- |   for the rank and all it has started
//      | -- end how value ---------------> |   the last message, after all output
//
// Each message: its type, the length of the rest as four bytes (the highest first), the rest.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::tools {

inline constexpr std::size_t kWindow = 64 * 1024;
inline constexpr std::size_t kMaxMessage = 64 * 1024;
inline constexpr std::size_t kMaxOutput = 16 * 1024;  // bytes in one message
// What the kernel keeps for `kolo run` while that is stopped: kWindow, one more message of each stream, and as much
// again for its own lists. All of it fits, so that the kernel answers for us: a window that stays closed looks like
// death.
inline constexpr std::size_t kReceiveBuffer = 2 * (kWindow + 2 * kMaxOutput);

enum class MessageType : std::uint8_t { hello = 'H', output = 'O', credit = 'C', signal = 'S', end = 'E' };

struct Message {
  MessageType type{};
  std::string body;
};

// Of output: a message of a few bytes takes the kernel far more.
[[nodiscard]] constexpr std::size_t cost_of(std::size_t bytes) { return bytes + 2048; }

[[nodiscard]] std::string encode(MessageType type, std::string_view body);
[[nodiscard]] std::string encode_number(MessageType type, std::uint32_t number);
// Of a body that holds nothing else; throws std::runtime_error.
[[nodiscard]] std::uint32_t decode_number(std::string_view body);

struct Hello {
  std::string token;
  int rank = -1;
  std::string host;
  long pid = 0;  // the program's; 0 when it could not be started
};
[[nodiscard]] std::string encode(const Hello& hello);
[[nodiscard]] Hello decode_hello(std::string_view body);  // throws std::runtime_error

// How a rank ended, as its supervisor saw it.
enum class How : char {
  exited = 'x',       // value: its status
  signalled = 's',    // value: the signal
  not_started = 'n',  // value: errno
  orphaned = 'o'      // the launcher's daemon on its host is gone, and the rank was ended for it
};
struct End {
  How how = How::exited;
  int value = 0;
  bool told = false;  // of another rank's failure, before it failed itself
};
[[nodiscard]] std::string encode(const End& end);
[[nodiscard]] End decode_end(std::string_view body);  // throws std::runtime_error

// Puts messages together from pieces as they arrive.
class MessageReader {
 public:
  void append(std::string_view bytes) { pending_.append(bytes); }
  // The next whole one. Throws std::runtime_error for what is no message.
  std::optional<Message> next();

 private:
  std::string pending_;
};

// Whether both are equal; takes as long when they differ early as when they differ late.
[[nodiscard]] bool same_secret(std::string_view left, std::string_view right);

}  // namespace kolo::tools
