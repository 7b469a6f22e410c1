#include "manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/json_text.h"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kFormat = "kolo-checkpoint";
constexpr int kVersion = 1;
constexpr int kHexDigits = 16;

// JSON numbers are doubles to many readers: 64-bit checksums are text.
std::string to_hex(std::uint64_t value) {
  std::array<char, kHexDigits> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const std::string text(digits.data(), result.ptr);
  return std::string(kHexDigits - text.size(), '0') + text;
}

std::uint64_t from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != kHexDigits || result.ptr != text.data() + text.size())
    throw std::invalid_argument("'" + text + "' is not a checksum");
  return value;
}

json body_of(const Manifest& manifest) {
  json files = json::array();
  for (const WrittenFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"size", file.size}, {"xxh3", to_hex(file.checksum)}});
  }
  json body = {{"format", kFormat},
               {"version", kVersion},
               {"step", manifest.info.step},
               {"epoch", manifest.info.epoch},
               {"metadata", manifest.info.metadata},
               {"files", std::move(files)}};
  if (!manifest.info.finite) body["finite"] = false;
  if (manifest.info.time != 0) body["time"] = manifest.info.time;
  return body;
}

// Deeper than any manifest: the library's own functions recurse.
constexpr int kMaxDepth = 4;

json parse_json(std::string_view text) {
  const auto refuse_depth = [](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
    if (depth > kMaxDepth) throw std::invalid_argument("its JSON is nested too deeply");
    return true;
  };
  return json::parse(text, refuse_depth);
}

// A file of the folder itself: what is outside is no part of a checkpoint.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." &&
         name != "..";
}

Manifest parse(json document) {
  const std::uint64_t checksum = from_hex(document.at("checksum").get<std::string>());
  document.erase("checksum");
  if (base::hash64(document.dump()) != checksum) throw std::invalid_argument("its checksum does not match its content");
  if (document.at("format") != kFormat || document.at("version") != kVersion) {
    throw std::invalid_argument("unknown format or version");
  }
  Manifest manifest;
  manifest.info.step = document.at("step").get<std::int64_t>();
  manifest.info.epoch = document.at("epoch").get<std::int64_t>();
  manifest.info.metadata = document.at("metadata").get<Metadata>();
  manifest.info.finite = !document.contains("finite");
  manifest.info.time = document.value("time", std::int64_t{0});
  for (const json& entry : document.at("files")) {
    manifest.files.push_back({entry.at("name").get<std::string>(), entry.at("size").get<std::uint64_t>(),
                              from_hex(entry.at("xxh3").get<std::string>())});
    if (!is_plain_name(manifest.files.back().name))
      throw std::invalid_argument("it lists a file outside the checkpoint");
  }
  if (body_of(manifest) != document) throw std::invalid_argument("it has unknown or missing fields");
  return manifest;
}

}  // namespace

Manifest describe_folder(const fs::path& folder, const CheckpointInfo& info) {
  Manifest manifest{info, {}};
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file()) throw UsageError("cannot save a checkpoint: '" + name + "' is not a regular file");
    if (name == kManifestName)
      throw UsageError("cannot save a checkpoint: kolo writes manifest.json, so the caller must not");
    const std::vector<std::byte> content = read_file(entry.path());
    manifest.files.push_back({name, content.size(), base::hash64(content)});
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const WrittenFile& a, const WrittenFile& b) { return a.name < b.name; });
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  try {
    // Names are read back and compared, so they are written exactly or not at all.
    for (const auto& [name, value] : manifest.info.metadata) (void)json(name).dump();
    for (const WrittenFile& file : manifest.files) (void)json(file.name).dump();
  } catch (const json::exception& error) {
    throw UsageError(std::string("names of a checkpoint's metadata and files must be UTF-8: ") + error.what());
  }
  json document = body_of(manifest);
  document["checksum"] = to_hex(base::hash64(json_text(document)));
  return json_text(document, 2) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  try {
    return parse(parse_json(text));
  } catch (const std::exception& error) {
    throw BackendError(name + " is damaged: " + error.what());
  }
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path file = folder / kManifestName;
  const std::vector<std::byte> content = read_file(file);
  return parse_manifest({reinterpret_cast<const char*>(content.data()), content.size()}, file.string());
}

}  // namespace kolo::checkpoint
