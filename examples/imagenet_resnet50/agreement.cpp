#include "agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recipe.h"

namespace imagenet {

using json = nlohmann::ordered_json;

std::string terms_of(const Options& o) {
  json terms = {{"arch", o.arch},
                {"data kind", static_cast<int>(o.data_kind)},
                {"classes", o.classes},
                {"synthetic-images", o.synthetic_images},
                {"image-size", o.image_size},
                {"steps", o.steps},
                {"batch", o.batch},
                {"val-batch", o.val_batch},
                {"sync", o.sync},
                {"shared-gradients", static_cast<int>(o.shared_gradients)},
                {"memory-format channels_last", o.channels_last},
                {"device", static_cast<int>(o.device)},
                {"amp", static_cast<int>(o.amp)},
                {"log-interval", o.log_interval},
                {"checkpoint-dir given", !o.checkpoint_dir.empty()},
                {"resume given", !o.resume.empty()}};
  const json recipe = recipe_of(o);
  for (const auto& [name, value] : recipe.items()) {
    std::string option = name;
    std::ranges::replace(option, '_', '-');
    terms[option] = value;
  }
  return terms.dump();
}

std::string disagreement_of(const std::vector<std::string>& terms) {
  for (std::size_t rank = 1; rank < terms.size(); ++rank) {
    if (terms[rank] == terms[0]) continue;
    const json first = json::parse(terms[0]);
    const json other = json::parse(terms[rank]);
    for (const auto& [option, value] : first.items()) {
      if (other.at(option) == value) continue;
      return "all ranks need the same options, but --" + option + " is " + value.dump() + " on rank 0 and " +
             other.at(option).dump() + " on rank " + std::to_string(rank);
    }
  }
  return "";
}

}  // namespace imagenet
