// Settings that all ranks must have alike, compared before anything is built on them.
#include <algorithm>
#include <string>
#include <vector>

#include "base/fields.h"
#include "kolo/error.h"
#include "runtime/config_table.h"

namespace kolo::runtime {
namespace {

std::vector<const ConfigRow*> common_rows() {
  std::vector<const ConfigRow*> rows;
  for (const ConfigRow& row : config_rows()) {
    if (row.same_on_all) rows.push_back(&row);
  }
  return rows;
}

}  // namespace

void agree_on_settings(cluster::Bootstrap& bootstrap, const Config& config) {
  const auto rows = common_rows();
  std::vector<std::string> values;
  for (const ConfigRow* row : rows) values.push_back(row->print(config));
  const auto all = bootstrap.allgather(base::join_fields(values));
  // Every rank compares with rank 0, so that all say the same.
  const auto first = base::split_fields(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const auto theirs = base::split_fields(all[rank]);
    if (first.size() != rows.size() || theirs.size() != rows.size()) {
      throw MismatchError("ranks 0 and " + std::to_string(rank) +
                          " have different settings. Do all ranks run the same version of kolo?");
    }
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(first, theirs).in1 - first.begin());
    const std::string name(rows[at]->name);
    throw MismatchError(name + " is " + first[at] + " on rank 0 and " + theirs[at] + " on rank " +
                        std::to_string(rank) + ". Set the same value on all ranks (mpirun -x " + name + ")");
  }
}

}  // namespace kolo::runtime
