#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/json_text.h"
#include "file_io.h"
#include "kolo/checkpoint.h"
#include "kolo/error.h"
#include "safetensors_format.h"

namespace kolo::checkpoint {
namespace {

std::string_view format_name(DType dtype) {
  for (const auto& [known, name] : kDTypeNames) {
    if (known == dtype) return name;
  }
  throw UsageError("write_safetensors: this dtype is not supported");
}

void check(const TensorView& tensor) {
  if (tensor.name == kMetadataKey) throw UsageError("write_safetensors: the tensor name __metadata__ is reserved");
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      throw UsageError("tensor '" + tensor.name + "' has an impossible shape");
    }
  }
  if (bytes != tensor.bytes.size()) {
    throw UsageError("tensor '" + tensor.name + "' has " + std::to_string(tensor.bytes.size()) +
                     " bytes, but its shape and dtype need " + std::to_string(bytes));
  }
}

// Readers look names up, so they are written exactly or not at all.
void require_utf8(const std::string& name) {
  try {
    (void)nlohmann::json(name).dump();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError("write_safetensors: a name of a tensor or of metadata is not UTF-8: " + std::string(error.what()));
  }
}

std::string make_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  for (const auto& [name, value] : metadata) require_utf8(name);
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    check(tensor);
    require_utf8(tensor.name);
    if (!names.insert(tensor.name).second)
      throw UsageError("write_safetensors: two tensors have the name '" + tensor.name + "'");
    const std::uint64_t end = offset + tensor.bytes.size();
    nlohmann::ordered_json entry = {{"dtype", format_name(tensor.dtype)}, {"shape", tensor.shape}};
    entry["data_offsets"] = {offset, end};
    // ordered_json looks a key up linearly; names are unique already.
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back({tensor.name, std::move(entry)});
    offset = end;
  }
  return json_text(header);
}

}  // namespace

WrittenFile write_safetensors(const fs::path& file, std::span<const TensorView> tensors, const Metadata& metadata) {
  std::string header = make_header(tensors, metadata);
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  if (header.size() > kMaxHeaderBytes)
    throw UsageError("write_safetensors: the header of " + std::to_string(header.size()) +
                     " bytes exceeds the limit of " + std::to_string(kMaxHeaderBytes) + "; use shorter or fewer names");
  std::array<std::byte, kLengthBytes> length{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));

  AtomicFile atomic(file);
  atomic.append(length);
  atomic.append(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) atomic.append(tensor.bytes);
  return atomic.commit();
}

WrittenFile write_safetensors_index(const fs::path& index, std::span<const std::pair<std::string, std::string>> files,
                                    std::uint64_t bytes) {
  nlohmann::json map = nlohmann::json::object();
  for (const auto& [tensor, file] : files) {
    require_utf8(tensor);
    map[tensor] = file;
  }
  const nlohmann::ordered_json document = {{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  return write_file(index, std::string_view(json_text(document, 2) + "\n"));
}

}  // namespace kolo::checkpoint
