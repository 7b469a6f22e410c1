#include "report.h"

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "process.h"
#include "recipe.h"

namespace imagenet {
namespace {

using json = nlohmann::ordered_json;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string validation_text(const EpochRecord& r) {
  return format("validation loss %.4f, top-1 %.2f %%, top-5 %.2f %% of %lld images", r.val_loss, 100 * r.top1,
                100 * r.top5, static_cast<long long>(r.val_images));
}

}  // namespace

Reporter::Reporter(bool active, const std::string& path, bool append)
    : active_(active), terminal_(active && stdout_is_terminal()) {
  if (!active || path.empty()) return;
  json_path_ = path;
  json_ = std::make_unique<JsonLines>(path, append);
}

void Reporter::write(const json& line) {
  if (!json_) return;
  const std::string reason = json_->write(line);
  if (!reason.empty()) ++lines_missing_;
  if (!reason.empty() && !write_failed_) {
    note("warning: --json: '" + json_path_ + "' cannot be written: " + reason +
         ". Training goes on; lines are missing from now on");
  }
  if (reason.empty() && write_failed_) {
    note("warning: --json: '" + json_path_ + "' can be written again; " + std::to_string(lines_missing_) +
         " lines are missing");
  }
  write_failed_ = !reason.empty();
}

void Reporter::header(const Options& o, const kolo::Placement& placement, const std::string& torch_version) {
  if (!active_) return;
  const char* const device = name_of(o.device);
  const char* const amp = name_of(o.amp);
  const json gradients = !o.sync ? json() : o.shared_gradients == Choice::on ? "shared" : "packed";
  const json line = {{"kind", "header"},
                     {"arch", o.arch},
                     {"ranks", placement.size},
                     {"hosts", placement.cross_size},
                     {"batch", o.batch},
                     {"global_batch", o.batch * placement.size},
                     {"image_size", o.image_size},
                     {"classes", o.classes},
                     {"data", o.data},
                     {"sync", o.sync ? "on" : "off"},
                     {"gradients", gradients},
                     {"overlap_update", o.overlap_update == Choice::on ? "on" : "off"},
                     {"device", device},
                     {"amp", amp},
                     {"memory_format", o.channels_last ? "channels_last" : "contiguous"},
                     {"threads", o.threads},
                     {"workers", o.workers},
                     {"versions", {{"kolo", KOLO_VERSION}, {"torch", torch_version}}},
                     {"recipe", recipe_of(o)}};
  write(line);
  note(format(
      "%s, %d rank%s on %d host%s, device %s, amp %s, batch %d a rank, %d px, %d classes, %d + %d threads a rank",
      o.arch.c_str(), placement.size, placement.size == 1 ? "" : "s", placement.cross_size,
      placement.cross_size == 1 ? "" : "s", device, amp, o.batch, o.image_size, o.classes, o.threads, o.workers));
}

void Reporter::position(std::int64_t epoch, std::int64_t epochs, std::int64_t step, std::int64_t steps) {
  if (!active_) return;
  // In a file a line every few seconds is plenty, and none says the same as the one before; a terminal's bar moves
  // visibly.
  if (!terminal_ && !fresh_) return;
  const auto pause = std::chrono::milliseconds(terminal_ ? 200 : 5000);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < pause && step != steps) return;
  last_drawn_ = now;
  fresh_ = false;
  done_ = static_cast<double>(step) / static_cast<double>(steps);
  where_ = format("epoch %lld/%lld  step %lld/%lld", static_cast<long long>(epoch + 1), static_cast<long long>(epochs),
                  static_cast<long long>(step), static_cast<long long>(steps));
  draw();
}

void Reporter::draw() {
  if (last_.step_ms == 0) return;  // nothing is known yet
  const std::string numbers = format("loss %.4f  lr %.4g  %.1f images/s  data %.0f ms  exposed %.0f ms", shown_loss_,
                                     last_.lr, last_.images_per_s, last_.data_ms, last_.exposed_ms);
  if (terminal_) {
    constexpr int kWidth = 16;
    const int filled = static_cast<int>(done_ * kWidth);
    const std::string bar = std::string(filled, '=') + std::string(kWidth - filled, ' ');
    std::printf("\r\033[K%s [%s]  %s", where_.c_str(), bar.c_str(), numbers.c_str());
    bar_drawn_ = true;
  } else {
    std::printf("%s  %s\n", where_.c_str(), numbers.c_str());
  }
  std::fflush(stdout);
}

void Reporter::step(const StepRecord& r) {
  if (!active_) return;
  // Of single small batches the loss jumps; what is shown follows it slowly.
  shown_loss_ = last_.step_ms == 0 ? r.loss : 0.9 * shown_loss_ + 0.1 * r.loss;
  last_ = r;
  fresh_ = true;
  if (!json_) return;
  const json line = {{"kind", "step"},
                     {"step", r.step},
                     {"epoch", r.epoch},
                     {"step_ms", r.step_ms},
                     {"data_ms", r.data_ms},
                     {"forward_ms", r.forward_ms},
                     {"exposed_ms", r.exposed_ms},
                     {"update_ms", r.update_ms},
                     {"images_per_s", r.images_per_s},
                     {"loss", r.loss},
                     {"lr", r.lr},
                     {"page_faults", r.page_faults},
                     {"loss_scale", r.loss_scale > 0 ? json(r.loss_scale) : json()}};
  write(line);
}

void Reporter::epoch(const EpochRecord& r, std::int64_t epochs) {
  if (!active_) return;
  json line = {{"kind", "epoch"}, {"epoch", r.epoch}, {"train_loss", r.train_loss}, {"train_top1", r.train_top1}};
  line["val_loss"] = r.validated ? json(r.val_loss) : json();
  line["top1"] = r.validated ? json(r.top1) : json();
  line["top5"] = r.validated ? json(r.top5) : json();
  line["val_images"] = r.val_images;
  line["images"] = r.images;
  line["seconds"] = r.seconds;
  line["images_per_s"] = r.seconds > 0 ? static_cast<double>(r.images) / r.seconds : 0.0;
  write(line);
  std::string text = format("epoch %lld/%lld %s: train loss %.4f, top-1 %.2f %%, %lld images in %.1f s (%.1f images/s)",
                            static_cast<long long>(r.epoch + 1), static_cast<long long>(epochs),
                            r.whole ? "done" : "not finished (--steps)", r.train_loss, 100 * r.train_top1,
                            static_cast<long long>(r.images), r.seconds,
                            r.seconds > 0 ? static_cast<double>(r.images) / r.seconds : 0.0);
  if (r.validated) text += "; " + validation_text(r);
  note(text);
}

void Reporter::validation(const EpochRecord& r) { note(validation_text(r)); }

void Reporter::counters(const kolo::CounterSnapshot& counters) {
  if (!active_ || !json_) return;
  json line = {{"kind", "counters"}};
  for (const auto& [name, value] : counters) line[name] = value;
  write(line);
  if (lines_missing_ > 0) {
    note("warning: --json: " + std::to_string(lines_missing_) + " lines are missing in '" + json_path_ + "'");
  }
}

void Reporter::note(const std::string& line) {
  if (!active_) return;
  if (bar_drawn_) std::printf("\r\033[K");
  bar_drawn_ = false;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace imagenet
