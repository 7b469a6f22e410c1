#include "perf_json.h"

#include "kolo/context.h"
#include "kolo/error.h"

namespace kolo::tools {

std::ofstream open_json(Context& context, const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  if (context.rank() == 0) file.open(path);
  std::int64_t failed = file ? 0 : 1;
  AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(&failed);
  options.count = 1;
  options.dtype = DType::i64;
  context.communicator().allreduce(options, context.config().timeout);
  if (failed != 0) throw UsageError("--json: cannot write " + path);
  return file;
}

}  // namespace kolo::tools
