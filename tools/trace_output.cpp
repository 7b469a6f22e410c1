#include "trace_output.h"

#include <cerrno>
#include <system_error>

#include "base/system_error.h"
#include "kolo/error.h"

namespace kolo::tools {
namespace {

constexpr unsigned kBuffer = 1 << 18;
constexpr std::size_t kMostAtOnce = 1 << 30;  // zlib takes an unsigned int

}  // namespace

// In mode T zlib writes as it is told, without compression. Traces repeat themselves: level 4 has most of the gain.
OutputFile::OutputFile(const std::filesystem::path& path, Kind kind)
    : path_(path), file_(gzopen(path.c_str(), kind == Kind::gzip ? "wbx4" : "wbxT")) {
  if (!file_) fail(errno);
  gzbuffer(file_.get(), kBuffer);
}

void OutputFile::fail(int code) const {
  throw Error("trace merge: cannot write " + path_.string() + ": " + base::errno_text(code) +
              ". Free space, or choose another folder with --out");
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kMostAtOnce);
    errno = 0;
    if (gzwrite(file_.get(), part.data(), static_cast<unsigned>(part.size())) <= 0) fail(errno);
    text.remove_prefix(part.size());
  }
}

void OutputFile::close() {
  errno = 0;
  if (gzclose(file_.release()) != Z_OK) fail(errno);
}

OutputFolder::OutputFolder(const std::string& path) : path_(path) {
  std::error_code error;
  existed_ = std::filesystem::exists(path_, error);
  if (!error && existed_ && !std::filesystem::is_directory(path_, error)) {
    throw UsageError("trace merge: --out " + path + " is a file; name a new folder");
  }
  if (!error && existed_ && !std::filesystem::is_empty(path_, error)) {
    throw UsageError("trace merge: --out " + path + " is not empty; name a new folder, or remove its files");
  }
  if (!error) std::filesystem::create_directories(path_, error);
  if (error) throw UsageError("trace merge: cannot create --out " + path + ": " + error.message());
}

OutputFolder::~OutputFolder() {
  if (kept_) return;
  std::error_code ignored;
  if (!existed_) {
    std::filesystem::remove_all(path_, ignored);
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

std::filesystem::path OutputFolder::add(const std::string& name) {
  std::filesystem::path file = path_ / name;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) throw Error("trace merge: cannot create " + file.parent_path().string() + ": " + error.message());
  return file;
}

}  // namespace kolo::tools
