// Uses of memory that no edge orders, on the device and by the host.
#include <cstring>

#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

TEST(SimulatedOrder, AReadThatDoesNotWaitForTheWrite) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    if (right) rig.order(rig.b.view(), rig.a.view());
    rig.copy(rig.y.data(), rig.x.data(), rig.b.view());
  });
}

TEST(SimulatedOrder, AWriteThatDoesNotWaitForTheRead) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.copy(rig.y.data(), rig.x.data(), rig.a.view());
    if (right) rig.order(rig.b.view(), rig.a.view());
    rig.fill(rig.x, rig.b.view());
  });
}

TEST(SimulatedOrder, AWriteThatDoesNotWaitForTheOtherWrite) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    if (right) rig.order(rig.b.view(), rig.a.view());
    rig.fill(rig.x, rig.b.view());
  });
}

TEST(SimulatedOrder, TwoReadersAndAWriterThatWaitsForOneOfThem) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.copy(rig.y.data(), rig.x.data(), rig.a.view());
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.b.view());
    rig.order(rig.c.view(), rig.a.view());
    if (right) rig.order(rig.c.view(), rig.b.view());
    rig.fill(rig.x, rig.c.view());
  });
}

TEST(SimulatedOrder, AChainThroughAThirdStreamWithALinkMissing) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    rig.order(rig.b.view(), rig.a.view());
    rig.fill(rig.y, rig.b.view());
    if (right) rig.order(rig.c.view(), rig.b.view());
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.c.view());
  });
}

TEST(SimulatedOrder, AnEventThatWasRecordedTooEarly) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    if (!right) rig.event.record(rig.a.view());
    rig.fill(rig.x, rig.a.view());
    if (right) rig.event.record(rig.a.view());
    cuda::wait_for(*rig.runtime, rig.b.view(), rig.event);
    rig.copy(rig.y.data(), rig.x.data(), rig.b.view());
  });
}

TEST(SimulatedOrder, AWaitHoldsForWhatWasRecordedByThen) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    rig.order(rig.b.view(), rig.a.view());
    rig.fill(rig.y, rig.a.view());
    rig.event.record(rig.a.view());  // again: the wait above stays where it was
    rig.copy(rig.pinned.data().data(), right ? rig.x.data() : rig.y.data(), rig.b.view());
  });
}

TEST(SimulatedOrder, OnlyBytesThatBothUse) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    const std::size_t half = Rig::kBytes / 2;
    cuda::fill_zero(*rig.runtime, rig.x.data(), half + (right ? 0 : 1), rig.a.view());
    cuda::fill_zero(*rig.runtime, rig.x.data() + half, half, rig.b.view());
  });
}

TEST(SimulatedOrder, APieceOfWhatWasWrittenLongBefore) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    cuda::fill_zero(*rig.runtime, rig.x.data(), 48, rig.a.view());
    cuda::fill_zero(*rig.runtime, rig.x.data() + 16, 16, rig.a.view());
    rig.order(rig.b.view(), rig.a.view());
    cuda::fill_zero(*rig.runtime, rig.x.data() + 40, 8, rig.b.view());
    if (right) rig.order(rig.c.view(), rig.b.view());
    rig.copy(rig.y.data(), rig.x.data() + 36, rig.c.view(), 8);
  });
}

TEST(SimulatedOrder, KernelsWhoseRangesLieInTheDevicesMemory) {
  struct Arguments {
    std::byte** table;
  };
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.device.add_kernel(
        "clear", sizeof(Arguments),
        [](const void* given, unsigned, unsigned) { **static_cast<const Arguments*>(given)->table = std::byte{0}; },
        [](const void* given) {
          std::byte** const table = static_cast<const Arguments*>(given)->table;
          return std::vector<Range>{{table, sizeof *table, Access::read}, {*table, 1, Access::write}};
        });
    std::byte* const address = rig.x.data();
    std::memcpy(rig.pinned.data().data(), &address, sizeof address);
    rig.copy(rig.y.data(), rig.pinned.data().data(), rig.a.view(), sizeof address);
    rig.order(rig.b.view(), rig.a.view());
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    api.load_library(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0);
    ASSERT_EQ(api.get_kernel(&kernel, library, "clear"), cuda::kSuccess);
    Arguments arguments{reinterpret_cast<std::byte**>(rig.y.data())};
    void* list[] = {&arguments};
    ASSERT_EQ(api.launch(kernel, {}, {}, list, 0, rig.b.view().handle), cuda::kSuccess);
    if (right) rig.order(rig.c.view(), rig.b.view());
    rig.fill(rig.x, rig.c.view());
  });
}

TEST(SimulatedOrder, StreamsOfBothKindsAndTheDefaultStream) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::StreamHandle blocking = nullptr;
    ASSERT_EQ(api.stream_create(&blocking, 0, 0), cuda::kSuccess);
    rig.fill(rig.x, {blocking, 0});
    rig.fill(rig.x, {nullptr, 0});  // waits for it by itself
    rig.copy(rig.y.data(), rig.x.data(), right ? Stream{blocking, 0} : rig.a.view());
  });
}

TEST(SimulatedOrder, ACommunicatorInTwoStreams) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    void* const communicator = rig.device.token("communicator 7");
    rig.device.enqueue(rig.a.view().handle, {.what = "one", .ranges = {{communicator, 1, Access::write}}});
    if (right) rig.order(rig.b.view(), rig.a.view());
    rig.device.enqueue(rig.b.view().handle, {.what = "two", .ranges = {{communicator, 1, Access::write}}});
  });
}

TEST(SimulatedOrder, WhatTheHostHasSeenTheEndOfComesBefore) {
  expect_reported(Fault::race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    if (right) rig.event.record(rig.a.view());
    rig.fill(rig.y, rig.a.view());
    if (!right) return rig.copy(rig.pinned.data().data(), rig.y.data(), rig.b.view());
    rig.see(rig.event);
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.b.view());
  });
}

TEST(SimulatedOrder, TheHostReadsBeforeTheCopyHasEnded) {
  expect_reported(Fault::host_race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.a.view());
    rig.event.record(rig.a.view());
    if (right) rig.see(rig.event);
    rig.device.host_reads(rig.pinned.data().data(), 8);
  });
}

TEST(SimulatedOrder, TheHostReadsAfterAnEventThatIsBeforeTheCopy) {
  expect_reported(Fault::host_race, [](Rig& rig, bool right) {
    rig.fill(rig.x, rig.a.view());
    if (!right) rig.event.record(rig.a.view());
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.a.view());
    if (right) rig.event.record(rig.a.view());
    rig.see(rig.event);
    rig.device.host_reads(rig.pinned.data().data(), Rig::kBytes);
  });
}

TEST(SimulatedOrder, TheHostReadsWhatHasRunButWasNotSeenToHaveEnded) {
  expect_reported(Fault::host_race, [](Rig& rig, bool right) {
    rig.copy(rig.pinned.data().data(), rig.x.data(), rig.a.view());
    if (right) {
      while (!rig.a.idle()) {
      }
    } else {
      while (rig.device.queued() != 0) rig.device.run_some();
    }
    rig.device.host_reads(rig.pinned.data().data(), Rig::kBytes);
  });
}

TEST(SimulatedOrder, TheHostWritesWhatACopyStillReads) {
  expect_reported(Fault::host_race, [](Rig& rig, bool right) {
    rig.copy(rig.x.data(), rig.pinned.data().data(), rig.a.view());
    if (right) rig.runtime->check(rig.runtime->api().stream_synchronize(rig.a.view().handle), "synchronize");
    rig.device.host_reads(rig.pinned.data().data(), Rig::kBytes);  // which is fine
    rig.device.host_writes(rig.pinned.data().data(), Rig::kBytes);
  });
}

}  // namespace
}  // namespace kolo::test
