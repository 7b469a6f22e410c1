#include "agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kolo/json_text.h"
#include "recipe.h"

namespace imagenet {

using json = nlohmann::ordered_json;

namespace {

std::string given(const std::string& option) { return option.empty() ? "not given" : "given"; }

}  // namespace

// As they are typed. Of a folder only that it is one: each host may have it elsewhere.
std::string terms_of(const Options& o) {
  json terms = {{"arch", o.arch},
                {"data", o.data_kind == DataKind::folder ? "a folder" : o.data},
                {"classes", o.classes},
                {"synthetic-images", o.synthetic_images},
                {"image-size", o.image_size},
                {"check", o.check},
                {"max-broken", o.max_broken},
                {"steps", o.steps},
                {"batch", o.batch},
                {"val-batch", o.val_batch},
                {"sync", o.sync ? "on" : "off"},
                {"shared-gradients", name_of(o.shared_gradients)},
                {"overlap-update", name_of(o.overlap_update)},
                {"memory-format", o.channels_last ? "channels_last" : "contiguous"},
                {"device", name_of(o.device)},
                {"amp", name_of(o.amp)},
                {"log-interval", o.log_interval},
                {"on-nan", o.on_nan == OnNan::stop ? "stop" : "warn"},
                {"checkpoint-dir", given(o.checkpoint_dir)},
                {"resume", given(o.resume)}};
  const json recipe = recipe_of(o);
  for (const auto& [name, value] : recipe.items()) {
    std::string option = name;
    std::ranges::replace(option, '_', '-');
    terms[option] = value;
  }
  return kolo::json_text(terms);
}

std::string disagreement_of(const std::vector<std::string>& terms) {
  for (std::size_t rank = 1; rank < terms.size(); ++rank) {
    if (terms[rank] == terms[0]) continue;
    const json first = json::parse(terms[0]);
    const json other = json::parse(terms[rank]);
    for (const auto& [option, value] : first.items()) {
      if (other.at(option) == value) continue;
      return "all ranks need the same options, but --" + option + " is " + kolo::json_text(value) + " on rank 0 and " +
             kolo::json_text(other.at(option)) + " on rank " + std::to_string(rank);
    }
  }
  return "";
}

}  // namespace imagenet
