#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace imagenet {

// A file with one JSON value a line. If a write to a regular file fails, the incomplete line is removed at once. If the
// process is killed, the incomplete line is removed when the file is opened with `append`.
class JsonLines {
 public:
  // `append`: keeps the content and removes an incomplete last line; otherwise the first write() empties the file.
  // Throws kolo::UsageError if opening fails.
  JsonLines(const std::string& path, bool append);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // Returns "" or the reason why the line is missing.
  std::string write(const nlohmann::ordered_json& line);

 private:
  void cut_torn_piece();

  std::string path_;
  int fd_ = -1;
  bool keep_;  // the content
};

}  // namespace imagenet
