#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace imagenet {

// A file of JSON lines in which every line is complete, whatever happens to the process or the disk: each line is one
// write, and a piece of a line that could not be written whole is cut off again.
class JsonLines {
 public:
  // `append`: continues the file, without a torn piece at its end. Throws kolo::UsageError if it cannot be opened.
  JsonLines(const std::string& path, bool append);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // Returns why the line could not be written and is missing, or "".
  std::string write(const nlohmann::ordered_json& line);

 private:
  void cut_torn_piece();

  std::string path_;
  int fd_ = -1;
};

}  // namespace imagenet
