#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "options.h"

namespace imagenet {

// As they are typed.
[[nodiscard]] const char* name_of(Amp amp) noexcept;
[[nodiscard]] const char* name_of(DeviceKind device) noexcept;
[[nodiscard]] const char* name_of(Choice choice) noexcept;

// The options that say how is trained, by their names with underscores, as in the header of --json.
[[nodiscard]] nlohmann::ordered_json recipe_of(const Options& options);

// The settings that results depend on, as texts by name, for checkpoints. `ranks`: of the run.
[[nodiscard]] std::map<std::string, std::string> settings_of(const Options& options, int ranks);

}  // namespace imagenet
