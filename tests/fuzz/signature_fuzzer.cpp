// Tables of gradients as text, and what is said when two of them differ: texts are equal exactly if the tables and
// settings are, and a difference is described with both ranks, in bounded length, whatever a peer's text holds.
#include "engine/signature.h"
#include "fuzz/envelopes.h"
#include "fuzz/property.h"
#include "kolo/spi/strides.h"

namespace {

using namespace kolo;
using namespace kolo::engine;

struct Table {
  std::vector<GradientInfo> rows;
  ReducerOptions options;
};

Table make_table(fuzz::ByteSource& source) {
  Table table;
  table.rows.resize(source.below(4));
  for (auto& row : table.rows) {
    row.name = source.text();
    row.sizes = source.numbers<std::int64_t>();
    row.strides = source.numbers<std::int64_t>();
    row.dtype = static_cast<DType>(source.below(static_cast<std::size_t>(DType::boolean) + 1));
  }
  table.options.op = source.coin() ? ReduceOp::sum : ReduceOp::average;
  table.options.prescale = source.number<std::int16_t>() / 3.0;
  table.options.postscale = source.number<std::int16_t>() / 7.0;
  table.options.bucket_bytes = source.number<std::uint8_t>();
  table.options.settings = source.text();
  return table;
}

bool same(const Table& a, const Table& b) {
  const auto same_row = [](const GradientInfo& x, const GradientInfo& y) {
    return x.name == y.name && x.sizes == y.sizes && x.dtype == y.dtype &&
           canonical_strides(x.sizes, x.strides) == canonical_strides(y.sizes, y.strides);
  };
  return std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(), same_row) &&
         a.options.op == b.options.op && a.options.prescale == b.options.prescale &&
         a.options.postscale == b.options.postscale && a.options.bucket_bytes == b.options.bucket_bytes &&
         a.options.settings == b.options.settings;
}

void claim_description(const Conflict& conflict, std::size_t input) {
  const auto text = describe("name", conflict);
  KOLO_CLAIM(text.starts_with("ranks disagree on 'name': ") && text.size() <= 2048 + 64 * input);
  if (agree(conflict.first, conflict.second) && conflict.first == conflict.second) return;
  const auto names = [&](Rank rank) { return text.find("on rank " + std::to_string(rank)) != std::string::npos; };
  KOLO_CLAIM(text.ends_with("tables differ") || (names(conflict.first_rank) && names(conflict.second_rank)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::ByteSource source({data, size});
  if (source.coin()) {
    claim_description(fuzz::make_conflict(source), size);
    return 0;
  }
  const Table first = make_table(source);
  const Table second = source.coin() ? first : make_table(source);
  Conflict conflict;
  conflict.first.table = table_text(first.rows, first.options);
  conflict.second.table = table_text(second.rows, second.options);
  conflict.second_rank = 1;
  KOLO_CLAIM(same(first, second) == (conflict.first.table == conflict.second.table));
  claim_description(conflict, size);
  return 0;
}
