#pragma once
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/data/loader.h"

namespace imagenet {

// What to tell the user at the end about files that were broken or had to be converted, over all ranks: each file once,
// by name. Adds broken_files, converted_files, images_replaced and images_skipped to `counters`. Collective.
std::vector<std::string> report_files(kolo::Context& context, const std::vector<kolo::data::LoaderReport>& reports,
                                      kolo::CounterSnapshot& counters);

}  // namespace imagenet
