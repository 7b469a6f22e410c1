#pragma once
// Collectives outside the gradient path, errors that are printed once for all ranks, and the process of this rank.
#include <cstdint>
#include <exception>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "kolo/context.h"

namespace imagenet {

// Collectives. All ranks call them in the same order. Each call first exchanges its purpose, the caller's file and
// line: if ranks are in different calls, every rank throws kolo::MismatchError, which names both.
using Where = std::source_location;

// Returns the texts of all ranks, in rank order.
std::vector<std::string> gather(kolo::Context& context, const std::string& text, Where where = Where::current());

// In place; all ranks pass the same number of values.
void sum_over_ranks(kolo::Context& context, std::span<double> values, Where where = Where::current());
void average_over_ranks(kolo::Context& context, std::span<float> values, Where where = Where::current());
// As sum_over_ranks(), but without the exchange of the purpose: for calls in each step.
void sum_in_step(kolo::Context& context, std::span<double> values);

// Runs `action` on rank 0 and returns its result on all ranks. If it throws, all ranks throw kolo::Error with its text.
std::string from_rank_0(kolo::Context& context, const std::function<std::string()>& action,
                        Where where = Where::current());

// "rank 3" or "ranks 0, 1"; after 16 ranks "and 5 more".
[[nodiscard]] std::string names_of(const std::vector<std::size_t>& ranks);
// Merges a text of each rank, "" for none. A text of all ranks appears once and without ranks, others as
// "ranks 0, 2: text", one line each.
[[nodiscard]] std::string summary_of(const std::vector<std::string>& texts);

// Prints the error to stderr. As long as the ranks can communicate it is collective, and rank 0 prints the errors of
// all ranks; after that each rank prints its own.
void report_failure(kolo::Context& context, const std::exception& error);

// The process of this rank.

// Opens closed standard streams on /dev/null, so that no file gets their descriptors and with them the printed text.
// Turns SIGPIPE into a write error. Call before any file is opened.
void prepare_streams();

// Makes glibc keep freed memory. By default it returns large blocks to the kernel, and a training step takes 9,000 to
// 14,000 page faults. Call before large allocations.
void keep_freed_memory();

// Minor page faults of this process since its start.
[[nodiscard]] std::uint64_t minor_faults();

// A warning if this process may use only one core although its share of the host is larger and it has several threads;
// else "". `ranks`: on this host.
[[nodiscard]] std::string binding_warning(int ranks, int threads, int workers);

}  // namespace imagenet
