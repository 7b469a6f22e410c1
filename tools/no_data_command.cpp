// The build without kolo::data.
#include "commands.h"

namespace kolo::tools {

void add_data_command(CLI::App& /*app*/) {}

}  // namespace kolo::tools
