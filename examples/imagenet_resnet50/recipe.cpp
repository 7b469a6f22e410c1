#include "recipe.h"

#include "kolo/json_text.h"

namespace imagenet {

const char* name_of(Amp amp) noexcept {
  switch (amp) {
    case Amp::bf16:
      return "bf16";
    case Amp::fp16:
      return "fp16";
    case Amp::off:
      break;
  }
  return "off";
}

const char* name_of(DeviceKind device) noexcept { return device == DeviceKind::cuda ? "cuda" : "cpu"; }

const char* name_of(Choice choice) noexcept {
  if (choice == Choice::where_possible) return "auto";
  return choice == Choice::on ? "on" : "off";
}

nlohmann::ordered_json recipe_of(const Options& o) {
  return {{"lr", o.lr},
          {"warmup_epochs", o.warmup_epochs},
          {"schedule", o.schedule == ScheduleKind::cosine ? "cosine" : "step"},
          {"milestones", o.milestones},
          {"epochs", o.epochs},
          {"momentum", o.momentum},
          {"nesterov", o.nesterov},
          {"weight_decay", o.weight_decay},
          {"no_decay_norm_bias", o.no_decay_norm_bias},
          {"label_smoothing", o.label_smoothing},
          {"zero_init_residual", o.zero_init_residual},
          {"optimizer", o.optimizer == OptimizerKind::fused ? "fused" : "torch"},
          {"seed", o.seed}};
}

std::map<std::string, std::string> settings_of(const Options& o, int ranks) {
  nlohmann::ordered_json all = recipe_of(o);
  all["global_batch"] = std::int64_t{o.batch} * ranks;
  all["image_size"] = o.image_size;
  all["classes"] = o.classes;
  all["amp"] = name_of(o.amp);
  if (o.data_kind != DataKind::folder) all["synthetic_images"] = o.synthetic_images;
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : all.items()) {
    settings[name] = value.is_string() ? value.get<std::string>() : kolo::json_text(value);
  }
  return settings;
}

}  // namespace imagenet
