#pragma once
// The files that `kolo trace merge` writes.
#include <zlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace kolo::tools {

// A new file. Throws kolo::Error that names it if it cannot be written.
class OutputFile {
 public:
  enum class Kind { text, gzip };
  OutputFile(const std::filesystem::path& path, Kind kind);

  void write(std::string_view text);
  // REQUIRES: called once, last.
  void close();

 private:
  struct Close {
    void operator()(gzFile file) const noexcept { gzclose(file); }
  };
  [[noreturn]] void fail(int code) const;

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

// A new or empty folder. What was written is removed again unless keep() is called.
class OutputFolder {
 public:
  // Throws UsageError if the folder has files or cannot be created.
  explicit OutputFolder(const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // A further file. `name` may contain folders.
  [[nodiscard]] std::filesystem::path add(const std::string& name);
  void keep() noexcept { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool existed_;
  bool kept_ = false;
};

}  // namespace kolo::tools
