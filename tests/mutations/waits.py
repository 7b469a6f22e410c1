"""Every place where kolo makes something wait for a device, or asks whether it has come or failed, and what leaves that out.

A mutation is (name, file, what stands there once, what it becomes, the test that finds it, a filter of its cases).
"""
import collections

Mutation = collections.namedtuple("Mutation", "name file found becomes test cases")

DEVICE = "multirank.device"
SHARES = "multirank.device_shares"
OTHERS = "-*.IsFoundWhatever*:*OutIsFound*"  # which leave something out themselves
ROUNDS = "src/engine/gradient_rounds.cpp"

WAITS = [
    # streams behind streams
    Mutation("a pack does not wait for who made the gradients", "src/device/bucket_memory.cpp",
             "cuda::wait_for(*lane_.runtime(), lane_.stream(), event);", "", DEVICE, "*DeviceRounds*"),
    Mutation("who reads the results does not wait for the lane", "src/device/bucket_memory.cpp",
             "cuda::wait_for(*lane_.runtime(), user, done_);", "static_cast<void>(user);", DEVICE, "*DeviceRounds*"),
    Mutation("a pack does not wait for who reads the last results", ROUNDS,
             "if (user_ && failure_.empty()) host_.lane()->order_after(*user_);", "", DEVICE, "*DeviceRounds*"),
    Mutation("the user does not wait for what a failed round still reads", ROUNDS,
             "if (host_.lane() != nullptr && !user.on_host()) host_.lane()->order_before(user);", "", DEVICE, OTHERS),
    Mutation("contributors do not wait for what a failed round still reads", ROUNDS,
             "host_.lane()->order_before(each.ready);", "", DEVICE, OTHERS),
    Mutation("a reducer that goes does not wait for who reads its results", ROUNDS,
             "host_.lane()->order_after(*user);", "", DEVICE, OTHERS),
    Mutation("memory that is let go does not wait for who reads it", "src/device/lane.cpp",
             "  order_after(user);\n  retired_", "  static_cast<void>(user);\n  retired_", DEVICE, OTHERS),
    Mutation("a communicator in another stream does not wait for its last", "src/nccl/nccl_communicator.cpp",
             "cuda::wait_for(*group_->runtime, stream, last_->event());", "", "unit.nccl", "*"),
    Mutation("a lone rank's reader does not wait for who made the gradients", "src/engine/solo_bucket.cpp",
             "if (stream.handle != user.handle) lane_->events().order(user, stream);",
             "static_cast<void>(stream), static_cast<void>(user);", DEVICE, "*Solo*"),
    Mutation("a copy out does not wait for the sum inside the host", "src/device/share_stage.cpp",
             "cuda::wait_for(*lane_.runtime(), out, gathered_);", "", SHARES, OTHERS),
    Mutation("a copy back does not wait for the copy out", "src/device/share_stage.cpp",
             "cuda::wait_for(*lane_.runtime(), in, fetched_[piece]);", "", SHARES, OTHERS),
    Mutation("the lane does not wait for the copies back", "src/device/share_stage.cpp",
             "cuda::wait_for(*lane_.runtime(), lane_.stream(), back_);", "", SHARES, OTHERS),
    # the host behind streams
    Mutation("the hosts reduce before the copy out has come", "src/device/bucket_memory.h",
             "return fetched_.passed();", "return true;", DEVICE, "*Staged*"),
    Mutation("a piece leaves before its copy out has come", "src/device/share_stage.h",
             "return fetched_[piece].passed();", "return piece < fetched_.size();", SHARES, OTHERS),
    Mutation("a collective is complete when it is enqueued", "src/nccl/device_operation.cpp",
             "return end_->event().passed();", "return true;", "unit.nccl", "*"),
    Mutation("memory that is let go is released at once", "src/device/lane.cpp",
             "const bool passed = retired->last.passed();", "const bool passed = true;", DEVICE, OTHERS),
    Mutation("a number is read before the device has come to it", "src/device/step_launcher.cpp",
             "if (!seen_ && !memory_->come.passed()) return std::nullopt;", "", "unit.device", "*"),
    Mutation("memory for a number is used again while the device writes to it", "src/device/step_launcher.cpp",
             "    if (seen_) {\n", "    if (true) {\n", "unit.device", "*"),
    Mutation("an update's table is released at once", "src/device/step_launcher.cpp",
             "  retire(std::move(table.table), table.user);\n", "", "unit.device", "*"),
    Mutation("a table is written while the device copies from there", "kernels/tensor_table.cpp",
             "if (!staging.passed.recorded() || staging.passed.passed()) return staging;", "return staging;",
             "unit.kernels.launch", "*"),
    # between calls, and after what has failed
    Mutation("nobody looks at the device between calls", "src/engine/engine_devices.cpp",
             "    parts_.transport->check_peers();\n    lane_->watch();\n", "", DEVICE, "*BetweenCalls*"),
    Mutation("who asks whether the devices are done is told at once", "src/engine/engine_devices.cpp",
             "return !lane_->in_flight() && !lane_failure_ && !held_;", "return true;", DEVICE, "*BetweenCalls*"),
    Mutation("an abort is not told to the updates behind it", "src/nccl/comm_handle.cpp",
             "if (parts_.before_abort) parts_.before_abort();", "", DEVICE, "*BetweenCalls*"),
    Mutation("an update does not look whether what it is behind was aborted", "src/device/step_launcher.cpp",
             "given_up_ == nullptr ? nullptr : given_up_->address()", "nullptr", DEVICE, "*BetweenCalls*"),
    Mutation("a question to the device breaks a graph that is captured", "src/cuda/runtime.cpp",
             "  static_cast<void>(runtime.api().exchange_capture_mode(&mode_));\n", "", "unit.cuda", "*"),
    Mutation("a graph takes a table's addresses from the device as they are", "kernels/tensor_table.cpp",
             "!(known && !cuda::is_captured(*runtime_, stream))", "!known", "unit.kernels.launch", "*"),
    # turns
    Mutation("whatever comes first is enqueued first", "src/device/lane.h",
             "return turn == next_;", "return turn == turn;", DEVICE, "*TwoReducers*"),
    Mutation("of several reducers a turn travels with the flags", "src/engine/turn_agreement.cpp",
             "turn = lane_.has_one_reducer() ? lane_.take_turn() : 0;", "turn = lane_.take_turn();", DEVICE, "*TwoReducers*"),
    Mutation("a plan's memory is made without a turn", "src/engine/turn_agreement.cpp",
             "if (!agreement_.takes_turn()) return false;", "(void)agreement_.takes_turn();", DEVICE, "*TwoReducers*"),
]
