#include "kolo/context.h"
#include "kolo/spi/communicator.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kolo/error.h"

namespace kolo {
namespace {

std::vector<std::string> allgather(Context& context, const std::string& mine) {
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

}  // namespace

std::vector<std::string> gather_texts(Context& context, const std::string& purpose, const std::string& mine) {
  auto texts = allgather(context, purpose + '\0' + mine);
  std::vector<std::string> purposes;
  for (std::string& text : texts) {
    const auto end = std::min(text.find('\0'), text.size());
    purposes.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  for (std::size_t rank = 1; rank < purposes.size(); ++rank) {
    if (purposes[rank] == purposes[0]) continue;
    throw MismatchError("ranks are in different collectives: rank 0 in " + purposes[0] + ", rank " +
                        std::to_string(rank) + " in " + purposes[rank] +
                        ". All ranks must make the same calls in the same order");
  }
  return texts;
}

}  // namespace kolo
