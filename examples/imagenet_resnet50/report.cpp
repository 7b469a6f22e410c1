#include "report.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>

#include "kolo/error.h"
#include "model.h"
#include "ranks.h"

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

std::string errno_text() { return std::generic_category().message(errno); }

// Of a regular file; -1 for pipes and devices.
off_t size_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

// The bytes after the last newline.
std::string last_line(int fd, off_t size) {
  constexpr off_t kBlock = 65536;
  std::string line;
  while (size > 0) {
    std::string block(static_cast<std::size_t>(std::min(size, kBlock)), '\0');
    size -= static_cast<off_t>(block.size());
    const ssize_t got = ::pread(fd, block.data(), block.size(), size);
    if (got != static_cast<ssize_t>(block.size())) throw kolo::BackendError("cannot read the file: " + errno_text());
    const auto newline = block.rfind('\n');
    if (newline != std::string::npos) return block.substr(newline + 1) + line;
    line.insert(0, block);
  }
  return line;
}

// True if stdout, or that of mpirun, is a terminal with a cursor.
bool stdout_is_terminal() {
  const char* const kind = std::getenv("TERM");
  if (isatty(STDOUT_FILENO) == 0 || kind == nullptr || std::string_view(kind) == "dumb") return false;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return true;
  // mpirun always gives its ranks a pseudo-terminal, without a size. Then mpirun's own stdout decides.
  const std::string launcher = "/proc/" + std::to_string(getppid()) + "/fd/1";
  char target[64] = {};
  if (readlink(launcher.c_str(), target, sizeof target - 1) < 0) return false;
  return std::string_view(target).starts_with("/dev/pts/") || std::string_view(target).starts_with("/dev/tty");
}

std::string validation_text(const EpochRecord& r) {
  return format("validation loss %.4f, top-1 %.2f %%, top-5 %.2f %% of %lld images", r.val_loss, 100 * r.top1,
                100 * r.top5, static_cast<long long>(r.val_images));
}

}  // namespace

// --- JSON lines ---------------------------------------------------------------------------------------------------

JsonLines::JsonLines(const std::string& path, bool append) : path_(path), keep_content_(append) {
  // cut_torn_line() reads the file. Pipes and terminals have no torn line, and may not be readable.
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  fd_ = ::open(path.c_str(), O_CREAT | O_APPEND | O_CLOEXEC | (special ? O_WRONLY : O_RDWR), 0666);
  if (fd_ < 0) throw kolo::UsageError("--json: '" + path + "' cannot be written: " + errno_text());
  try {
    if (append) cut_torn_line();
  } catch (const kolo::BackendError& error) {
    ::close(fd_);
    throw kolo::UsageError("--json: '" + path_ + "': " + error.what());
  }
}

JsonLines::~JsonLines() { ::close(fd_); }

void JsonLines::cut_torn_line() {
  const off_t size = size_of(fd_);
  const std::string line = last_line(fd_, size);
  if (line.empty()) return;
  // A line that lacks only its newline is kept.
  const bool whole = nlohmann::json::accept(line);
  const bool done = whole ? ::write(fd_, "\n", 1) == 1 : ::ftruncate(fd_, size - static_cast<off_t>(line.size())) == 0;
  if (!done) throw kolo::BackendError("cannot remove the incomplete last line: " + errno_text());
}

std::string JsonLines::write(const json& line) {
  const std::string text = json_text(line) + '\n';
  if (!keep_content_ && size_of(fd_) > 0) (void)!::ftruncate(fd_, 0);
  keep_content_ = true;
  const off_t before = size_of(fd_);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string reason = errno_text();
      if (done > 0 && before >= 0) (void)!::ftruncate(fd_, before);
      return reason;
    }
    done += static_cast<std::size_t>(written);
  }
  return {};
}

// --- Reporter -----------------------------------------------------------------------------------------------------

Reporter::Reporter(bool active, const std::string& path, bool append)
    : active_(active), terminal_(active && stdout_is_terminal()) {
  if (!active || path.empty()) return;
  json_path_ = path;
  json_ = std::make_unique<JsonLines>(path, append);
}

void Reporter::write(const json& line) {
  if (!json_) return;
  const std::string reason = json_->write(line);
  const bool failed = !reason.empty();
  if (failed) ++lines_missing_;
  if (failed && !write_failed_) {
    warn("--json: '" + json_path_ + "' cannot be written: " + reason +
         ". Training continues; lines are missing from now on");
  }
  if (!failed && write_failed_) {
    warn("--json: '" + json_path_ + "' can be written again; " + std::to_string(lines_missing_) + " lines are missing");
  }
  write_failed_ = failed;
}

void Reporter::header(const Options& o, const kolo::Placement& placement) {
  if (!active_) return;
  const json options = json_of(o);
  json line = {{"kind", "header"},        {"arch", o.arch},
               {"ranks", placement.size}, {"hosts", placement.cross_size},
               {"batch", o.batch},        {"global_batch", o.batch * placement.size}};
  for (const char* name : {"image_size", "classes", "data", "sync"}) line[name] = options[name];
  line["gradients"] = !o.sync ? json() : o.shared_gradients == Choice::on ? "shared" : "packed";
  for (const char* name : {"overlap_update", "device", "amp", "memory_format", "threads", "workers"}) {
    line[name] = options[name];
  }
  line["versions"] = {{"kolo", KOLO_VERSION}, {"torch", TORCH_VERSION}};
  line["recipe"] = recipe_of(o);
  write(line);
  const auto plural = [](int count) { return count == 1 ? "" : "s"; };
  note(format(
      "%s, %d rank%s on %d host%s, device %s, amp %s, batch %d per rank, %d px, %d classes, %d + %d threads per rank",
      o.arch.c_str(), placement.size, plural(placement.size), placement.cross_size, plural(placement.cross_size),
      options["device"].get<std::string>().c_str(), options["amp"].get<std::string>().c_str(), o.batch, o.image_size,
      o.classes, o.threads, o.workers));
}

void Reporter::progress(std::int64_t epoch, std::int64_t epochs, std::int64_t step, std::int64_t steps) {
  if (!active_ || last_.step_ms == 0) return;
  if (!terminal_ && !fresh_) return;  // a file gets no line twice
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < std::chrono::milliseconds(terminal_ ? 200 : 5000) && step != steps) return;
  last_drawn_ = now;
  fresh_ = false;
  std::string text =
      format("epoch %lld/%lld  step %lld/%lld", static_cast<long long>(epoch + 1), static_cast<long long>(epochs),
             static_cast<long long>(step), static_cast<long long>(steps));
  if (terminal_) {
    constexpr std::int64_t kWidth = 16;
    const auto filled = static_cast<std::size_t>(kWidth * step / steps);
    text = "\r\033[K" + text + " [" + std::string(filled, '=') + std::string(kWidth - filled, ' ') + "]";
  }
  text += format("  loss %.4f  lr %.4g  %.1f images/s  data %.0f ms  exposed %.0f ms", shown_loss_, last_.lr,
                 last_.images_per_s, last_.data_ms, last_.exposed_ms);
  std::printf("%s%s", text.c_str(), terminal_ ? "" : "\n");
  bar_drawn_ = terminal_;
  std::fflush(stdout);
}

void Reporter::step(const StepRecord& r) {
  if (!active_) return;
  // Losses of small batches vary widely, so the console shows a smoothed one.
  shown_loss_ = last_.step_ms == 0 ? r.loss : 0.9 * shown_loss_ + 0.1 * r.loss;
  last_ = r;
  fresh_ = true;
  write({{"kind", "step"},
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
         {"loss_scale", r.loss_scale > 0 ? json(r.loss_scale) : json()}});
}

void Reporter::epoch(const EpochRecord& r, std::int64_t epochs) {
  if (!active_) return;
  const auto if_validated = [&](double value) { return r.validated ? json(value) : json(); };
  const double images_per_s = r.seconds > 0 ? static_cast<double>(r.images) / r.seconds : 0.0;
  write({{"kind", "epoch"},
         {"epoch", r.epoch},
         {"train_loss", r.train_loss},
         {"train_top1", r.train_top1},
         {"val_loss", if_validated(r.val_loss)},
         {"top1", if_validated(r.top1)},
         {"top5", if_validated(r.top5)},
         {"val_images", r.val_images},
         {"images", r.images},
         {"seconds", r.seconds},
         {"images_per_s", images_per_s}});
  const std::string text = format(
      "epoch %lld/%lld %s: train loss %.4f, top-1 %.2f %%, %lld images in %.1f s (%.1f images/s)",
      static_cast<long long>(r.epoch + 1), static_cast<long long>(epochs), r.whole ? "done" : "not finished (--steps)",
      r.train_loss, 100 * r.train_top1, static_cast<long long>(r.images), r.seconds, images_per_s);
  note(r.validated ? text + "; " + validation_text(r) : text);
}

void Reporter::validation(const EpochRecord& r) { note(validation_text(r)); }

void Reporter::counters(const kolo::CounterSnapshot& counters) {
  if (!json_) return;
  json line = {{"kind", "counters"}};
  for (const auto& [name, value] : counters) line[name] = value;
  write(line);
  if (lines_missing_ == 0) return;
  warn("--json: " + std::to_string(lines_missing_) + " lines are missing in '" + json_path_ + "'");
}

void Reporter::note(const std::string& line) {
  if (!active_) return;
  std::printf("%s%s\n", bar_drawn_ ? "\r\033[K" : "", line.c_str());
  bar_drawn_ = false;
  std::fflush(stdout);
}

// --- steps --------------------------------------------------------------------------------------------------------

std::vector<double> StepLog::flush() {
  double time = 0;
  for (const StepRecord& r : pending_) time += r.step_ms;
  std::vector<double> losses;
  for (StepRecord& r : pending_) {
    if (r.device_loss.defined()) {
      r.loss = r.device_loss.item<double>();
      r.step_ms = time / static_cast<double>(pending_.size());
      r.device_loss.reset();
    }
    losses.push_back(r.loss);
  }
  constexpr double StepRecord::*kAveraged[] = {&StepRecord::step_ms,    &StepRecord::data_ms,   &StepRecord::forward_ms,
                                               &StepRecord::exposed_ms, &StepRecord::update_ms, &StepRecord::loss,
                                               &StepRecord::page_faults};
  std::vector<double> values;
  for (const StepRecord& r : pending_) {
    for (const auto field : kAveraged) values.push_back(r.*field);
  }
  sum_over_ranks(context_, values);
  auto value = values.begin();
  for (StepRecord& r : pending_) {
    for (const auto field : kAveraged) r.*field = *value++ / context_.size();
    r.images_per_s = r.step_ms > 0 ? 1000.0 * global_batch_ / r.step_ms : 0.0;
    reporter_.step(r);
  }
  pending_.clear();
  return losses;
}

// --- losses and weights that are not finite -----------------------------------------------------------------------

std::string LossWatch::check(std::int64_t first, std::span<const double> losses) {
  constexpr int kMostSteps = 20;
  std::vector<double> affected;  // number of ranks, for each step
  std::string mine;              // '1' for each step with a non-finite loss
  for (const double loss : losses) {
    affected.push_back(std::isfinite(loss) ? 0 : 1);
    mine += std::isfinite(loss) ? '0' : '1';
  }
  sum_in_step(context_, affected);
  std::vector<std::string> marks;  // by rank; gathered only if a loss is not finite
  for (std::size_t i = 0; i < affected.size(); ++i) {
    if (affected[i] == 0) {
      consecutive_ = 0;
      ranks_.clear();
      continue;
    }
    if (marks.empty()) marks = gather(context_, mine);
    std::vector<std::size_t> which;
    for (std::size_t rank = 0; rank < marks.size(); ++rank) {
      if (marks[rank][i] == '1') which.push_back(rank);
    }
    const std::string step = std::to_string(first + static_cast<std::int64_t>(i));
    const std::string ranks = names_of(which);
    if (ranks != ranks_) reporter_.warn("the loss of step " + step + " is not finite on " + ranks);
    ranks_ = ranks;
    if (++consecutive_ < kMostSteps || on_nan_ == OnNan::warn) continue;
    return "the loss was not finite in " + std::to_string(kMostSteps) + " consecutive steps up to step " + step +
           ", on " + ranks +
           ". Lower --lr or check the data, then resume from the last checkpoint; to continue, use --on-nan warn";
  }
  return {};
}

std::string non_finite_state(kolo::Context& context, const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  std::string mine;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!tensor.is_floating_point()) continue;
    const auto bad = at::isfinite(tensor).logical_not().sum().item<std::int64_t>();
    if (bad == 0) continue;
    mine =
        name + " has " + std::to_string(bad) + " values of " + std::to_string(tensor.numel()) + " that are not finite";
    break;
  }
  return summary_of(gather(context, mine));
}

// --- damaged files ------------------------------------------------------------------------------------------------

namespace {

using Files = std::map<std::string, std::string>;  // description by name

// Ranks read different files, and the same ones in other epochs. Texts hold no NUL.
Files union_over_ranks(kolo::Context& context, const std::vector<kolo::data::OddFile>& mine,
                       Where where = Where::current()) {
  std::string text;
  for (const auto& file : mine) text += file.name + '\0' + file.what + '\0';
  Files files;
  for (const auto& theirs : gather(context, text, where)) {
    std::istringstream in(theirs);
    for (std::string name, what; std::getline(in, name, '\0') && std::getline(in, what, '\0');) {
      files.emplace(name, what);
    }
  }
  return files;
}

// The first 20 files by name.
void append_names(std::vector<std::string>& lines, const Files& files) {
  constexpr std::size_t kNamed = 20;
  std::size_t listed = 0;
  for (const auto& [name, what] : files) {
    if (listed++ == kNamed) break;
    lines.push_back("  " + name + ": " + what);
  }
  if (files.size() > kNamed) lines.push_back("  and " + std::to_string(files.size() - kNamed) + " more");
}

}  // namespace

std::int64_t allowed_broken(std::int64_t max_broken, std::int64_t read) noexcept {
  return max_broken >= 0 ? max_broken : std::max<std::int64_t>(read / 100, 10);
}

void check_broken(kolo::Context& context, const kolo::data::EpochFiles& files, std::int64_t epoch,
                  std::int64_t max_broken) {
  auto read = static_cast<double>(files.read);
  sum_over_ranks(context, {&read, 1});
  const Files broken = union_over_ranks(context, files.broken);
  const auto all = static_cast<std::int64_t>(read);
  const std::int64_t allowed = allowed_broken(max_broken, all);
  if (static_cast<std::int64_t>(broken.size()) <= allowed) return;
  std::vector<std::string> names;
  append_names(names, broken);
  std::string text = "epoch " + std::to_string(epoch + 1) + ": " + std::to_string(broken.size()) + " of " +
                     std::to_string(all) + " files are damaged, more than " + std::to_string(allowed) +
                     ". Repair or remove them, or raise --max-broken:";
  for (const std::string& name : names) text += "\n" + name;
  throw kolo::Error(text);
}

std::vector<std::string> DamageReport::next(kolo::Context& context, const kolo::data::LoaderReport& report) {
  const std::array<double, 2> now = {static_cast<double>(report.replaced), static_cast<double>(report.skipped)};
  std::array<double, 2> images = {now[0] - before_[0], now[1] - before_[1]};
  before_ = now;
  sum_over_ranks(context, images);
  if (images[0] + images[1] == 0) return {};
  Files files = union_over_ranks(context, report.broken);
  std::erase_if(files, [&](const auto& file) { return !named_.insert(file.first).second; });
  std::vector<std::string> lines = {
      std::to_string(static_cast<std::int64_t>(images[0])) + " training images replaced and " +
      std::to_string(static_cast<std::int64_t>(images[1])) + " validation images left out; files damaged or missing: " +
      (files.empty() ? "listed before" : std::to_string(files.size()))};
  append_names(lines, files);
  return lines;
}

std::vector<std::string> report_files(kolo::Context& context, const kolo::data::LoaderReport& report,
                                      kolo::CounterSnapshot& counters) {
  std::array<double, 2> images = {static_cast<double>(report.replaced), static_cast<double>(report.skipped)};
  sum_over_ranks(context, images);
  const Files broken = union_over_ranks(context, report.broken);
  const Files converted = union_over_ranks(context, report.converted);
  counters["broken_files"] = broken.size();
  counters["converted_files"] = converted.size();
  counters["images_replaced"] = static_cast<std::uint64_t>(images[0]);
  counters["images_skipped"] = static_cast<std::uint64_t>(images[1]);
  std::vector<std::string> lines;
  const auto append = [&](const std::string& head, const Files& files) {
    if (files.empty()) return;
    lines.push_back(std::to_string(files.size()) + " " + head);
    append_names(lines, files);
  };
  append("broken files, replaced in training and left out of validation:", broken);
  append("files converted to RGB:", converted);
  return lines;
}

}  // namespace imagenet
