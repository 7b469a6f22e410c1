#pragma once
// A program that polls for its operations by name instead of waiting for them.
#include <gmock/gmock.h>

#include <cstring>

#include "multirank/engine/world.h"

namespace kolo::test {

// A thread that polls, or one that waits.
enum class Completion { polled, waited };

inline void complete(Context& context, Work work, Completion completion) {
  while (completion == Completion::polled && !work.done()) context.engine().progress();
  work.wait();
}

// Operations that need memory: the first of each kind, and later allreduces of larger sizes.
inline void check_operations(Context& context, Completion completion) {
  const int size = context.size();
  for (const std::size_t count : {std::size_t{1}, std::size_t{10}, std::size_t{5000}, std::size_t{300'000}}) {
    const std::vector<float> ranks(count, static_cast<float>(context.rank() + 1));
    std::vector<float> sums(count);
    complete(context, context.engine().submit(allreduce("sum", ranks, &sums)), completion);
    EXPECT_EQ(far_from(static_cast<float>(size * (size + 1)) / 2, sums), 0);

    std::vector<float> data(count, context.rank() == size - 1 ? 7.0F : 0.0F);
    Request broadcast = allreduce("broadcast", data, &data);
    broadcast.kind = RequestKind::broadcast;
    broadcast.root = size - 1;
    complete(context, context.engine().submit(broadcast), completion);
    EXPECT_EQ(far_from(7, data), 0);

    Request gather = allreduce("gather", ranks, nullptr);
    gather.kind = RequestKind::allgather;
    Work gathered = context.engine().submit(gather);
    complete(context, gathered, completion);
    std::vector<float> all(count * static_cast<std::size_t>(size));
    ASSERT_EQ(gathered.result().size(), all.size() * sizeof(float));
    std::memcpy(all.data(), gathered.result().data(), gathered.result().size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i / count + 1));

    Request barrier;
    barrier.name = "barrier";
    barrier.kind = RequestKind::barrier;
    complete(context, context.engine().submit(barrier), completion);
  }
}

}  // namespace kolo::test
