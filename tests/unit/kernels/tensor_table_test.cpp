#include "kernels/tensor_table.h"

#include "kernels/pack.h"
#include "kolo/error.h"
#include "unit/kernels/launch_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr std::size_t kCounts[] = {100, 0, 3000, 7};

class TensorTableOnDevice : public Launch {
 protected:
  TensorTableOnDevice() {
    for (const std::size_t count : kCounts) {
      places.push_back({end, count});
      end += (count + 15) / 16 * 16;
    }
  }

  struct Round {
    std::vector<cuda::DeviceBuffer> tensors;
    cuda::DeviceBuffer bucket;
    std::vector<void*> addresses;
  };
  // Tensors of their own, filled with `value`.
  Round make_round(float value) {
    Round round{{}, on_device(std::vector<float>(end, -1.0F)), {}};
    for (const std::size_t count : kCounts) {
      round.tensors.push_back(on_device(std::vector<float>(count, value)));
      round.addresses.push_back(round.tensors.back().data());
    }
    return round;
  }
  void pack_round(TensorTable& table, const Round& round) {
    pack(image, table, round.addresses, {round.bucket.data(), DType::f32, DType::f32, 1.0}, stream.view());
  }
  void expect_packed(const Round& round, float value) {
    const std::vector<float> packed = values_of<float>(round.bucket);
    for (const TensorPlace& place : places) {
      for (std::size_t i = 0; i < place.count; ++i) ASSERT_EQ(packed[place.offset + i], value);
    }
    ASSERT_EQ(packed[end - 1], -1.0F) << "behind the last tensor";
  }

  std::vector<TensorPlace> places;
  std::size_t end = 0;
};

TEST_F(TensorTableOnDevice, AddressesAreCopiedOnlyWhenTheyDiffer) {
  TensorTable table(runtime, 0, places);
  const Round first = make_round(1), second = make_round(2);
  const std::vector<std::pair<const Round*, int>> rounds{{&first, 1},  {&first, 1},  {&first, 1},
                                                         {&second, 2}, {&second, 2}, {&first, 3}};
  for (const auto& [round, copies] : rounds) {
    pack_round(table, *round);
    EXPECT_EQ(device.calls("copy"), copies);
  }
  expect_packed(first, 1);
  expect_packed(second, 2);
}

// Many rounds ahead of the device: what is still to be copied is not written over.
TEST_F(TensorTableOnDevice, AStagingBufferIsUsedAgainOnlyWhenItsCopyHasPassed) {
  TensorTable table(runtime, 0, places);
  std::vector<Round> rounds;
  for (int i = 0; i < 20; ++i) rounds.push_back(make_round(static_cast<float>(i)));
  for (const Round& round : rounds) pack_round(table, round);
  for (std::size_t i = 0; i < rounds.size(); ++i) expect_packed(rounds[i], static_cast<float>(i));
  device.drain();
  const std::size_t pinned = table.pinned_bytes();
  EXPECT_EQ(pinned, device.pinned_bytes());
  for (const Round& round : rounds) {
    pack_round(table, round);
    device.drain();
  }
  EXPECT_EQ(table.pinned_bytes(), pinned) << "nothing was on its way, and yet there is more";
}

TEST_F(TensorTableOnDevice, WhatAGraphBringsWithItStaysAndIsNotTrustedAfterwards) {
  TensorTable table(runtime, 0, places);
  const Round round = make_round(3), captured = make_round(4);
  pack_round(table, round);
  device.drain();
  const int asked = device.calls("event_query"), allocated = device.calls("allocate_pinned");
  device.set_capturing(stream.view().handle, true);
  pack_round(table, captured);
  EXPECT_THROW(pack_round(table, round), UsageError) << "what the graph reads would be written again";
  device.set_capturing(stream.view().handle, false);
  EXPECT_EQ(device.calls("event_query"), asked) << "a stream that is captured allows no question";
  EXPECT_EQ(device.calls("allocate_pinned"), allocated);
  const int copies = device.calls("copy");
  for (int i = 1; i <= 3; ++i) {
    pack_round(table, round);
    EXPECT_EQ(device.calls("copy"), copies + i) << "a replay may have written other addresses";
  }
  expect_packed(round, 3);
  expect_packed(captured, 4);
  device.set_capturing(stream.view().handle, true);
  EXPECT_NO_THROW(pack_round(table, captured)) << "another graph, after a run";
  device.set_capturing(stream.view().handle, false);
  device.drain();
}

// Another run may come before the replay, with others.
TEST_F(TensorTableOnDevice, AGraphBringsItsAddressesAlsoWhereTheyAreTheLastOnes) {
  TensorTable table(runtime, 0, places);
  const Round round = make_round(7);
  pack_round(table, round);
  const int copies = device.calls("copy");
  pack_round(table, round);
  EXPECT_EQ(device.calls("copy"), copies);
  device.set_capturing(stream.view().handle, true);
  pack_round(table, round);
  device.set_capturing(stream.view().handle, false);
  EXPECT_EQ(device.calls("copy"), copies + 1);
  device.drain();
}

// The table itself is not on the device yet: the graph brings all of it, and so does the first run.
TEST_F(TensorTableOnDevice, AGraphMayComeFirst) {
  TensorTable table(runtime, 0, places);
  const Round captured = make_round(5), round = make_round(6);
  device.set_capturing(stream.view().handle, true);
  pack_round(table, captured);
  device.set_capturing(stream.view().handle, false);
  pack_round(table, round);
  expect_packed(captured, 5);
  expect_packed(round, 6);
}

TEST_F(TensorTableOnDevice, SaysHowMuchMemoryItTakes) {
  const TensorTable table(runtime, 0, places, {.chunk_bytes = 4096});
  // 1 chunk, none, 3 chunks, 1 chunk.
  EXPECT_EQ(table.device_bytes(), 5 * 16 + 4 * 8 + 4 * 8u);
  EXPECT_EQ(table.pinned_bytes(), table.device_bytes());
  EXPECT_EQ(table.blocks(), 5u);
  EXPECT_EQ(device.device_bytes(0), table.device_bytes());
}

TEST_F(TensorTableOnDevice, OtherAddressesOrDevicesAreRefused) {
  TensorTable table(runtime, 0, places);
  const std::vector<void*> addresses(4, nullptr);
  EXPECT_THROW((void)table.with(std::span(addresses).first(3), stream.view()), UsageError);
  EXPECT_THROW((void)table.with(addresses, Stream{nullptr, 1}), UsageError);
  EXPECT_THROW((void)table.with(addresses, Stream{}), UsageError);
  EXPECT_EQ(device.calls("copy"), 0);
}

TEST_F(TensorTableOnDevice, WithoutElementsNothingIsLaunched) {
  TensorTable table(runtime, 0, std::vector<TensorPlace>{{0, 0}, {0, 0}});
  const std::vector<void*> addresses(2, nullptr);
  pack(image, table, addresses, {nullptr, DType::f32, DType::f32, 1.0}, stream.view());
  TensorTable empty(runtime, 0, {});
  pack(image, empty, {}, {nullptr, DType::f32, DType::f32, 1.0}, stream.view());
  EXPECT_EQ(device.launches("kolo_pack"), 0);
}

}  // namespace
}  // namespace kolo::kernels::test
