#include "perf_json.h"

#include "kolo/context.h"
#include "kolo/error.h"
#include "perf_measure.h"

namespace kolo::tools {

std::ofstream open_json(Context& context, const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  if (context.rank() == 0) file.open(path);
  if (total(context.communicator(), file ? 0 : 1, context.config().timeout) != 0)
    throw UsageError("--json: cannot write " + path);
  return file;
}

}  // namespace kolo::tools
