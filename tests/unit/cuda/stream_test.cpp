#include "cuda/stream.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "cuda/memory.h"
#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::cuda {
namespace {

using test::Fault;
using test::SimulatedDevice;

class Streams : public ::testing::Test {
 protected:
  SimulatedDevice device_{{.devices = 2, .seed = 3}};
  RuntimePtr runtime_ = std::make_shared<const Runtime>(device_.api());
  OwnStream early_{runtime_, 0};
  OwnStream late_{runtime_, 0};
  OwnStream far_{runtime_, 1};
};

TEST_F(Streams, AnEventPassesWhenWhatIsBeforeItIsDone) {
  bool held = true;
  bool done = false;
  device_.enqueue(early_.view().handle,
                  {.what = "operation", .run = [&] { done = true; }, .ready = [&] { return !held; }});
  Event event(runtime_, 0);
  EXPECT_FALSE(event.recorded());
  event.record(early_.view());
  EXPECT_TRUE(event.recorded());
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(event.passed());
  EXPECT_FALSE(early_.idle());
  // Not ready is no error: torch, which asks for the last one after each of its launches, must not find it.
  EXPECT_EQ(device_.api().take_last_error(), kSuccess);
  held = false;
  while (!event.passed()) {
  }
  EXPECT_TRUE(done);
}

TEST_F(Streams, WaitForOrdersAcrossStreamsAndDevices) {
  for (const Stream later : {late_.view(), far_.view()}) {
    std::string order;
    device_.enqueue(early_.view().handle, {.what = "first", .run = [&] { order += '1'; }});
    Event event(runtime_, 0);
    event.record(early_.view());
    wait_for(*runtime_, later, event);
    device_.enqueue(later.handle, {.what = "second", .run = [&] { order += '2'; }});
    device_.drain();
    EXPECT_EQ(order, "12");
  }
}

TEST_F(Streams, MisuseIsFoundBeforeTheDeviceIsAsked) {
  Event event(runtime_, 0);
  EXPECT_THROW(wait_for(*runtime_, late_.view(), event), UsageError);
  EXPECT_THROW(event.record(far_.view()), UsageError);
  EXPECT_TRUE(device_.violations().empty());
  EXPECT_EQ(device_.calls("stream_wait_event") + device_.calls("event_record"), 0);
}

// Whichever thread asks: each begins with device 0, which is another rank's.
TEST(StreamsOfADevice, NoOtherDeviceIsUsed) {
  SimulatedDevice device{{.devices = 2}};
  const RuntimePtr runtime = std::make_shared<const Runtime>(device.api());
  std::optional<OwnStream> stream(std::in_place, runtime, 1);
  std::optional<Event> event(std::in_place, runtime, 1);
  const auto in_a_new_thread = [](const auto& body) { std::thread(body).join(); };
  in_a_new_thread([&] { event->record(stream->view()); });
  in_a_new_thread([&] { static_cast<void>(event->passed()); });
  in_a_new_thread([&] { wait_for(*runtime, stream->view(), *event); });
  in_a_new_thread([&] { static_cast<void>(stream->idle()); });
  in_a_new_thread([&] { EXPECT_FALSE(is_captured(*runtime, Stream{nullptr, 1})); });
  in_a_new_thread([&] { event.reset(); });
  in_a_new_thread([&] { stream.reset(); });
  EXPECT_EQ(device.contexts(), std::set<int>{1});
}

// By its program, in whatever thread: CUDA takes a question for a mistake then, and the graph is lost.
TEST_F(Streams, AGraphMayBeCapturedMeanwhile) {
  Event event(runtime_, 0);
  event.record(early_.view());
  device_.set_capturing(late_.view().handle, true);
  std::thread([&] {
    static_cast<void>(event.passed());
    static_cast<void>(early_.idle());
    const DeviceBuffer memory(runtime_, 0, 100);
  }).join();
  EXPECT_TRUE(device_.violations().empty());
  EXPECT_EQ(device_.api().stream_query(early_.view().handle), 900) << "a thread without a guard is as before";
  device_.set_capturing(late_.view().handle, false);
  EXPECT_EQ(device_.take_violations().size(), 1u);
}

TEST_F(Streams, AnEventMovesWithWhatItIs) {
  const int before = device_.live_events();
  {
    Event one(runtime_, 0);
    Event other(runtime_, 1);
    one.record(early_.view());
    other = std::move(one);
    EXPECT_TRUE(other.recorded());
    EXPECT_EQ(other.device(), 0);
    const Event third(std::move(other));
    EXPECT_TRUE(third.recorded());
    EXPECT_EQ(device_.live_events(), before + 2);
  }
  EXPECT_EQ(device_.live_events(), before);
}

TEST_F(Streams, ThePoolUsesEventsAgainAndWaitsHold) {
  EventPool pool(runtime_, 0);
  std::string order;
  for (int round = 0; round < 5; ++round) {
    device_.enqueue(early_.view().handle, {.what = "first", .run = [&] { order += 'a'; }});
    pool.order(late_.view(), early_.view());
    device_.enqueue(late_.view().handle, {.what = "second", .run = [&] { order += 'b'; }});
  }
  EXPECT_EQ(device_.calls("event_create"), 1);
  device_.drain();
  for (std::size_t end = 1; end <= order.size(); ++end) {  // the n'th b only after n a's
    const auto begin = order.begin();
    const auto stop = begin + static_cast<std::ptrdiff_t>(end);
    EXPECT_GE(std::count(begin, stop, 'a'), std::count(begin, stop, 'b')) << order;
  }
  EXPECT_EQ(order.size(), 10U);
  pool.order(late_.view(), late_.view());  // always so
  EXPECT_EQ(device_.queued(), 0U);
}

TEST_F(Streams, TheDefaultStreamIsTheNamedDevices) {
  use_device(*runtime_, 0);
  Event event(runtime_, 1);
  bool done = false;
  {
    const DeviceGuard guard(*runtime_, 1);
    device_.enqueue(nullptr, {.what = "operation", .run = [&] { done = true; }});
  }
  event.record({nullptr, 1});
  while (!event.passed()) {
  }
  EXPECT_TRUE(done);
  const DeviceBuffer memory(runtime_, 1, 16);
  fill_zero(*runtime_, memory.data(), 16, {nullptr, 1});
  device_.drain();
  // And so in waiting: here nothing runs on device 1 before what is held on device 0.
  bool held = true;
  device_.enqueue(early_.view().handle, {.what = "held", .ready = [&] { return !held; }});
  Event behind(runtime_, 0);
  behind.record(early_.view());
  wait_for(*runtime_, {nullptr, 1}, behind);
  fill_zero(*runtime_, memory.data(), 16, {nullptr, 1});
  for (int i = 0; i < 20; ++i) device_.run_some();
  EXPECT_EQ(device_.queued(), 4U);
  held = false;
  EXPECT_TRUE(device_.drain());
}

TEST_F(Streams, AStreamIsIdleWhenAllIsDone) {
  EXPECT_TRUE(late_.idle());
  bool done = false;
  device_.enqueue(late_.view().handle, {.what = "operation", .run = [&] { done = true; }});
  while (!late_.idle()) EXPECT_EQ(device_.api().take_last_error(), kSuccess);
  EXPECT_TRUE(done);
}

TEST_F(Streams, AreGoneWithTheirOwnersAndNeverOrderedWithTheDefaultOne) {
  std::optional<OwnStream> stream(std::in_place, runtime_, 0, Priority::high);
  EXPECT_EQ(device_.live_streams(), 4);
  std::vector<char> order;
  bool blocked = true;  // the default stream cannot go on
  device_.enqueue(nullptr, {.what = "held", .run = [] {}, .ready = [&] { return !blocked; }});
  device_.enqueue(stream->view().handle, {.what = "operation", .run = [&] { order.push_back('x'); }});
  while (!stream->idle()) {
  }
  EXPECT_EQ(order.size(), 1U);
  stream.reset();
  EXPECT_EQ(device_.live_streams(), 3);
  blocked = false;
  device_.changed();
  EXPECT_TRUE(device_.drain());
}

TEST_F(Streams, FailuresCarryTheDevicesWords) {
  Event event(runtime_, 0);
  event.record(early_.view());
  device_.fail("event_query", 700);
  EXPECT_THROW(static_cast<void>(event.passed()), BackendError);
  device_.fail("event_create", 2);
  EXPECT_THROW(Event(runtime_, 0), BackendError);
  device_.fail("stream_query", 700);
  EXPECT_THROW(static_cast<void>(late_.idle()), BackendError);
  device_.fail("stream_create", 2);
  EXPECT_THROW(OwnStream(runtime_, 0), BackendError);
  EXPECT_EQ(device_.api().take_last_error(), kSuccess);
  EXPECT_EQ(device_.live_streams(), 3);
  EXPECT_EQ(device_.live_events(), 1);
}

}  // namespace
}  // namespace kolo::cuda
