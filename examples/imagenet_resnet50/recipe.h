#pragma once
#include <nlohmann/json.hpp>

#include "options.h"

namespace imagenet {

// As they are typed.
[[nodiscard]] const char* name_of(Amp amp) noexcept;
[[nodiscard]] const char* name_of(DeviceKind device) noexcept;
[[nodiscard]] const char* name_of(Choice choice) noexcept;

// The options that say how is trained, by their names with underscores, as in the header of --json.
[[nodiscard]] nlohmann::ordered_json recipe_of(const Options& options);

}  // namespace imagenet
