#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "safetensors_format.h"

namespace kolo::checkpoint {
namespace {

using nlohmann::json;

// What is wrong, without the file's name, which parse() adds.
struct BadFormat {
  std::string what;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw BadFormat{what};
}

std::uint64_t read_length(std::span<const std::byte> content) {
  require(content.size() >= kLengthBytes, "the file has fewer than the 8 bytes of the header length");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint64_t>(content[i]) << (8 * i);
  require(length <= kMaxHeaderBytes, "its header length is " + std::to_string(length) + " bytes, above the limit");
  require(length <= content.size() - kLengthBytes, "its header length is " + std::to_string(length) +
                                                       " bytes, but only " +
                                                       std::to_string(content.size() - kLengthBytes) + " follow");
  return length;
}

json parse_header(std::string_view text) {
  require(!text.empty() && text.front() == '{', "its header does not begin with '{'");
  std::set<std::string> names;
  // Of two equal keys the parser would silently keep the last one.
  const auto refuse_duplicates = [&names](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      const auto name = parsed.get<std::string>();
      require(names.insert(name).second, "its header has '" + name + "' twice");
    }
    return true;
  };
  try {
    return json::parse(text, refuse_duplicates);
  } catch (const json::exception& error) {
    throw BadFormat{std::string("its header is not JSON: ") + error.what()};
  }
}

Metadata parse_metadata(const json& value) {
  require(value.is_object(), "__metadata__ is not an object");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    require(text.is_string(), "__metadata__ '" + key + "' is not a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

DType parse_format_dtype(const json& value, const std::string& where) {
  require(value.is_string(), where + " has no dtype");
  for (const auto& [dtype, name] : kDTypeNames) {
    if (value.get_ref<const std::string&>() == name) return dtype;
  }
  throw BadFormat{where + " has dtype " + value.get<std::string>() + ", which kolo does not support"};
}

const json& field(const json& entry, const char* key, const std::string& where) {
  const auto found = entry.find(key);
  require(found != entry.end(), where + " has no " + key);
  return *found;
}

std::vector<std::int64_t> parse_shape(const json& value, const std::string& where) {
  require(value.is_array(), where + " has a shape that is not an array");
  std::vector<std::int64_t> shape;
  for (const json& extent : value) {
    require(extent.is_number_unsigned() && extent.get<std::uint64_t>() <= INT64_MAX,
            where + " has an impossible shape");
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

TensorView parse_tensor(const std::string& name, const json& entry, std::span<const std::byte> data) {
  const std::string where = "tensor '" + name + "'";
  require(entry.is_object() && entry.size() == 3, where + " is not described by dtype, shape and data_offsets");
  TensorView tensor{name, parse_format_dtype(field(entry, "dtype", where), where), {}, {}};
  tensor.shape = parse_shape(field(entry, "shape", where), where);
  const json& offsets = field(entry, "data_offsets", where);
  require(
      offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned(),
      where + " has data_offsets that are not two numbers");
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  require(begin <= end && end <= data.size(), where + " exceeds the file");
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    require(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes),
            where + " has an impossible shape");
  }
  require(bytes == end - begin, where + " has " + std::to_string(end - begin) +
                                    " bytes, but its shape and dtype need " + std::to_string(bytes));
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

// Every byte belongs to exactly one tensor: nothing is hidden in gaps, nothing is shared.
void check_layout(const std::vector<TensorView>& tensors, std::span<const std::byte> data) {
  const std::byte* expected = data.data();
  for (const TensorView& tensor : tensors) {
    require(tensor.bytes.data() == expected, "tensor '" + tensor.name + "' does not follow the one before it");
    expected += tensor.bytes.size();
  }
  require(expected == data.data() + data.size(), "the file has bytes after the last tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : SafetensorsFile(file.string(), read_file(file)) {}

SafetensorsFile::SafetensorsFile(std::string name, std::vector<std::byte> content)
    : name_(std::move(name)), content_(std::move(content)) {
  try {
    parse();
  } catch (const BadFormat& bad) {
    throw BackendError("cannot read safetensors file " + name_ + ": " + bad.what);
  }
}

void SafetensorsFile::parse() {
  const std::uint64_t length = read_length(content_);
  const std::span<const std::byte> data = std::span<const std::byte>(content_).subspan(kLengthBytes + length);
  const json header = parse_header({reinterpret_cast<const char*>(content_.data()) + kLengthBytes, length});
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(entry);
    } else {
      tensors_.push_back(parse_tensor(name, entry, data));
    }
  }
  // An empty tensor shares its place with the next one and must come first.
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  check_layout(tensors_, data);
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) throw BackendError(name_ + " has no tensor '" + std::string(name) + "'");
  return tensors_[found->second];
}

bool SafetensorsFile::contains(std::string_view name) const { return by_name_.find(name) != by_name_.end(); }

}  // namespace kolo::checkpoint
