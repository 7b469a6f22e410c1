#include "kolo/gather_texts.h"

#include <cstdint>
#include <numeric>

namespace kolo {

std::vector<std::string> gather_texts(Context& context, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(context.size());
  std::vector<std::size_t> counts(ranks, sizeof(std::uint64_t));
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  AllgatherOptions options;
  options.input = reinterpret_cast<const std::byte*>(&length);
  options.counts = counts;
  options.output = reinterpret_cast<std::byte*>(lengths.data());
  context.communicator().allgather(options, context.config().timeout);

  counts.assign(lengths.begin(), lengths.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  options.input = reinterpret_cast<const std::byte*>(mine.data());
  options.counts = counts;
  options.output = reinterpret_cast<std::byte*>(all.data());
  context.communicator().allgather(options, context.config().timeout);

  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(at, count));
    at += count;
  }
  return texts;
}

}  // namespace kolo
