#pragma once
// What the trainer asks of the operating system and the C library for its own process.
#include <cstdint>
#include <string>

namespace imagenet {

// Opens closed standard streams on /dev/null, so that no file gets their descriptors and what is printed. A write to a
// closed pipe is an error instead of the end of the process. Call before any file is opened.
void prepare_streams();

// Keeps freed memory in the process. By default glibc gives every large block back to the kernel and takes it again
// zeroed, page by page: 9,000 to 14,000 page faults a training step. Call once, before anything large is allocated.
void keep_freed_memory();

// Minor page faults of this process so far.
std::uint64_t minor_faults();

// A warning when mpirun has bound this rank, all its threads included, to one core, and that is not its share of the
// host, on which there are so many ranks; empty when all is well.
std::string binding_warning(int ranks, int threads, int workers);

// Whether what is printed is read as it comes, by a terminal with a cursor; seen through mpirun.
bool stdout_is_terminal();

}  // namespace imagenet
