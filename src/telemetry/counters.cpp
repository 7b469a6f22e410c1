#include "telemetry/counters.h"

#include <string_view>

namespace kolo::telemetry {
namespace {

struct Row {
  std::string_view name;
  Counter Counters::*member;
};

constexpr Row kRows[] = {
    {"control_messages", &Counters::control_messages},
    {"control_bytes", &Counters::control_bytes},
    {"control_depth_max", &Counters::control_depth_max},
    {"messages_sent", &Counters::messages_sent},
    {"bytes_on_wire", &Counters::bytes_on_wire},
    {"bytes_early", &Counters::bytes_early},
    {"mpi_calls", &Counters::mpi_calls},
    {"bytes_reduced_shared", &Counters::bytes_reduced_shared},
    {"bytes_copied", &Counters::bytes_copied},
    {"copies", &Counters::copies},
    {"bytes_carried", &Counters::bytes_carried},
    {"pieces_travelling_max", &Counters::pieces_travelling_max},
    {"coordinator_wakeups", &Counters::coordinator_wakeups},
    {"polls", &Counters::polls},
    {"launches", &Counters::launches},
    {"plan_hits", &Counters::plan_hits},
    {"plan_misses", &Counters::plan_misses},
    {"plans_voided", &Counters::plans_voided},
    {"steps_recorded", &Counters::steps_recorded},
    {"timeline_events", &Counters::timeline_events},
    {"timeline_dropped", &Counters::timeline_dropped},
    {"wait_ns", &Counters::wait_ns},
};
static_assert(sizeof(Counters) == std::size(kRows) * sizeof(Counter), "every counter has a row here");

}  // namespace

CounterSnapshot Counters::snapshot() const {
  CounterSnapshot values;
  for (const Row& row : kRows) values.emplace(row.name, (this->*row.member).value());
  return values;
}

}  // namespace kolo::telemetry
