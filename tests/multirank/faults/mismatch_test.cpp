// Ranks that disagree, as processes: every rank gets an error with both values, and the next operation works.
#include <gmock/gmock.h>

#include <cstring>

#include "multirank/faults/process_world.h"

namespace kolo::test {
namespace {

std::string on_rank(const std::string& value, Rank rank) { return value + " on rank " + std::to_string(rank); }

// --- operations by name ---

struct Difference {
  const char* name;
  void (*change)(Request&);
  const char* usual;  // as the error names it
  const char* odd;
};

const Difference kDifferences[] = {
    {"shape",
     [](Request& request) {
       request.sizes = {4, 2};
     },
     "[8]", "[4, 2]"},
    {"dtype", [](Request& request) { request.dtype = DType::i32; }, "f32", "i32"},
    {"strides",
     [](Request& request) {
       request.sizes = {2, 4};
       request.strides = {1, 2};
     },
     "[1]", "[1, 2]"},
    {"reduction", [](Request& request) { request.op = ReduceOp::max; }, "sum", "max"},
    {"prescale", [](Request& request) { request.prescale = 0.5; }, "1", "0.5"},
    {"postscale", [](Request& request) { request.postscale = 0.25; }, "1", "0.25"},
    {"operation", [](Request& request) { request.kind = RequestKind::broadcast; }, "allreduce", "broadcast"},
};

TEST(NamedOperation, DifferenceIsMismatchErrorOnEveryRankAndOthersComplete) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> input(8, 1.0F);
    std::vector<float> output(8);
    for (const auto& difference : kDifferences) {
      SCOPED_TRACE(difference.name);
      Request request = allreduce("tensor", input, &output);
      if (roles.is_odd) difference.change(request);
      auto other = context.engine().submit(allreduce("other", input, nullptr));
      auto work = context.engine().submit(request);
      expect_error<MismatchError>([&] { work.wait(); },
                                  {"'tensor'", difference.name, difference.usual + std::string(" on rank "),
                                   on_rank(difference.odd, roles.odd)});
      other.wait();
      context.engine().submit(allreduce("tensor", input, &output)).wait();
      EXPECT_THAT(output, testing::Each(static_cast<float>(context.size())));
    }
  });
}

TEST(NamedOperation, DifferentBroadcastRootsAreMismatchErrorOnEveryRank) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    std::vector<float> data(8, 1.0F);
    Request request = allreduce("data", data, &data);
    request.kind = RequestKind::broadcast;
    request.root = roles.is_odd ? 1 : 0;
    auto work = context.engine().submit(request);
    expect_error<MismatchError>([&] { work.wait(); }, {"'data'", "root", on_rank("1", roles.odd), "0 on rank "});
  });
}

// --- tables of gradients ---

std::vector<GradientInfo> table() {
  return {{"a", {100}, {1}, DType::f32}, {"b", {20, 30}, {30, 1}, DType::f32}, {"c", {10}, {1}, DType::f32}};
}

struct TableDifference {
  const char* name;
  void (*change)(std::vector<GradientInfo>&, ReducerOptions&);
  std::vector<std::string> texts;
};

const std::vector<TableDifference> kTableDifferences = {
    {"shape",
     [](auto& rows, auto&) {
       rows[1].sizes = {30, 20};
       rows[1].strides = {20, 1};
     },
     {"tensor b", "[20, 30]", "[30, 20]"}},
    {"dtype", [](auto& rows, auto&) { rows[1].dtype = DType::f64; }, {"tensor b", "f32", "f64"}},
    {"strides",
     [](auto& rows, auto&) {
       rows[1].strides = {1, 20};
     },
     {"tensor b", "[30, 1]", "[1, 20]"}},
    {"name", [](auto& rows, auto&) { rows[1].name = "z"; }, {"exists on rank", "but not on rank"}},
    {"missing row", [](auto& rows, auto&) { rows.pop_back(); }, {"tensor c exists on rank"}},
    {"operation", [](auto&, auto& options) { options.op = ReduceOp::sum; }, {"average", "sum"}},
    {"prescale", [](auto&, auto& options) { options.prescale = 0.5; }, {"prescale 1", "prescale 0.5"}},
    {"postscale", [](auto&, auto& options) { options.postscale = 0.25; }, {"postscale 1", "postscale 0.25"}},
    {"settings", [](auto&, auto& options) { options.settings = "passes=2"; }, {"passes=2"}},
};

TEST(GradientReducer, DifferentTablesAreMismatchErrorOfMakeReducer) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const std::vector<float> ones(1000, 1.0F);
    for (const auto& difference : kTableDifferences) {
      SCOPED_TRACE(difference.name);
      auto rows = table();
      ReducerOptions options;
      if (roles.is_odd) difference.change(rows, options);
      expect_error<MismatchError>([&] { auto reducer = context.engine().make_reducer(rows, options); },
                                  difference.texts);
      expect_error<MismatchError>([&] { auto reducer = context.engine().make_reducer(rows, options); },
                                  {"rank " + std::to_string(roles.odd)});
      auto reducer = context.engine().make_reducer(table(), {});
      for (std::size_t i = 0; i < 3; ++i) reducer->contribute(i, ones.data());
      reducer->finish();
    }
  });
}

// --- rounds that diverge ---

class Training {
 public:
  explicit Training(Context& context)
      : context_(context), reducer_(context.engine().make_reducer(table(), {})), gradient_(1000) {}

  GradientReducer& reducer() { return *reducer_; }
  void change_table(std::vector<GradientInfo> rows) {
    tensors_ = rows.size();
    reducer_->change_table(std::move(rows));
  }
  void contribute(std::size_t index) {
    std::fill(gradient_.begin(), gradient_.end(), static_cast<float>(context_.rank() + 1));
    reducer_->contribute(index, gradient_.data());
  }
  void round() {
    for (std::size_t i = 0; i < tensors_; ++i) contribute(i);
    reducer_->finish();
  }
  // A round in which all ranks contribute everything; its results.
  void expect_clean_round() {
    round();
    const auto size = static_cast<float>(context_.size());
    for (std::size_t i = 0; i < tensors_; ++i) expect_gradient(i, (size + 1) / 2);
  }
  void expect_gradient(std::size_t index, float value) {
    const auto bytes = reducer_->gradient(index);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_THAT(values, testing::Each(testing::FloatEq(value))) << "tensor " << index;
  }

 private:
  Context& context_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<float> gradient_;
  std::size_t tensors_ = table().size();
};

// In the first round, which is negotiated, and in later ones, without an error.
TEST(GradientReducer, MissingGradientCountsAsZeros) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    const auto size = static_cast<float>(context.size());
    const float all = size * (size + 1) / 2;
    const float without_odd = all - static_cast<float>(roles.odd + 1);
    Training training(context);
    for (int step = 0; step < 6; ++step) {
      if (step == 3) training.expect_clean_round();
      training.contribute(0);
      if (!roles.is_odd) training.contribute(1);  // missing on one rank; 2 is missing on all
      training.reducer().finish();
      training.expect_gradient(0, all / size);
      training.expect_gradient(1, without_odd / size);
      training.expect_gradient(2, 0);
      EXPECT_TRUE(training.reducer().contributed(0));
      EXPECT_TRUE(training.reducer().contributed(1));
      EXPECT_FALSE(training.reducer().contributed(2));
    }
  });
}

TEST(GradientReducer, ParameterAddedOnOneRankIsMismatchErrorOnEveryRank) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    for (const int clean : {0, 2}) {
      for (int step = 0; step < clean; ++step) training.expect_clean_round();
      auto more = table();
      more.push_back({"d", {7}, {1}, DType::f32});
      if (roles.is_odd) training.change_table(more);
      expect_error<MismatchError>([&] { training.round(); },
                                  {"tensor d exists on rank " + std::to_string(roles.odd) + " but not on rank"});
      if (roles.is_odd) training.change_table(table());
      training.expect_clean_round();
    }
    auto more = table();
    more.push_back({"d", {7}, {1}, DType::f32});
    training.change_table(more);  // on all ranks: no error
    for (int step = 0; step < 3; ++step) training.expect_clean_round();
  });
}

TEST(GradientReducer, ShapeChangedOnOneRankIsMismatchErrorOnEveryRank) {
  for_every_odd_rank(quick(), [](Context& context, const Roles& roles) {
    Training training(context);
    for (int step = 0; step < 2; ++step) training.expect_clean_round();
    auto other = table();
    other[1].sizes = {30, 20};
    other[1].strides = {20, 1};
    other[1].strides = {20, 1};
    if (roles.is_odd) training.change_table(other);
    expect_error<MismatchError>([&] { training.round(); },
                                {"tensor b", "[20, 30]", "[30, 20]", on_rank("", roles.odd)});
    if (roles.is_odd) training.change_table(table());
    for (int step = 0; step < 2; ++step) training.expect_clean_round();
  });
}

}  // namespace
}  // namespace kolo::test
