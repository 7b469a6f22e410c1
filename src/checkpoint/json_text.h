#pragma once
// JSON text of values that contain text of users: paths, host names, messages.
#include <string>

namespace kolo::checkpoint {

// The text of `value`, an nlohmann::json or ordered_json. Paths are bytes and JSON is UTF-8: each byte that is not
// UTF-8 becomes U+FFFD.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kolo::checkpoint
