#include "engine/ready_list.h"

namespace kolo::engine {
namespace {

Item item_of(const Entry& entry, int size) {
  Item item;
  item.names = {entry.name};
  item.conflict = entry.conflict;
  item.order = entry.order;
  item.failed_ranks = entry.failed_ranks;
  item.failure = entry.failure;
  item.beside = entry.beside;
  if (!entry.bytes.empty()) item.bytes.resize(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < entry.bytes.size(); ++i)
    item.bytes[static_cast<std::size_t>(entry.ranks[i])] = entry.bytes[i];
  return item;
}

}  // namespace

bool may_fuse(const Signature& a, const Signature& b) {
  return a.kind == Kind::allreduce && b.kind == Kind::allreduce && a.dtype == b.dtype && a.op == b.op &&
         a.prescale == b.prescale && a.postscale == b.postscale;
}

std::size_t payload_bytes(const Signature& signature) {
  std::size_t bytes = size_of(signature.dtype);
  for (const auto extent : signature.sizes) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

std::vector<Item> make_ready_list(const std::vector<Entry>& entries, std::size_t fusion_bytes, int size,
                                  std::uint64_t first_sequence) {
  std::vector<Item> items;
  const Signature* open = nullptr;  // of the last item, while it may still grow
  std::size_t open_bytes = 0;
  for (const auto& entry : entries) {
    const std::size_t bytes = entry.signature.kind == Kind::allreduce ? payload_bytes(entry.signature) : 0;
    const bool executed = !entry.conflict && entry.failed_ranks.empty();
    if (open != nullptr && executed && may_fuse(*open, entry.signature) && open_bytes + bytes <= fusion_bytes) {
      items.back().names.push_back(entry.name);
      open_bytes += bytes;
      continue;
    }
    items.push_back(item_of(entry, size));
    items.back().sequence = first_sequence++;
    open = executed ? &entry.signature : nullptr;
    open_bytes = bytes;
  }
  return items;
}

}  // namespace kolo::engine
