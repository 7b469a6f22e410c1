// MPI_Comm_create_group needs the members only, so it works where others are dead; but it has no non-blocking form, and
// when a member dies inside it the others never return. So it is called in a thread of its own, which in that case is
// given up: it goes on asking MPI for ever, in a process that has an error to deal with.
#include "cluster/mpi_group.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/deadline.h"
#include "cluster/mpi_runtime.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

constexpr std::chrono::milliseconds kLook{2};

// Shared with a thread that may outlive the call.
struct Attempt {
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  int tag = 0;
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;  // guarded by lock, as are these
  int code = MPI_SUCCESS;
  MPI_Comm made = MPI_COMM_NULL;
};

void make(Attempt& attempt) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(attempt.parent, attempt.group, attempt.tag, &made);
  const std::lock_guard lock(attempt.lock);
  attempt.made = made;
  attempt.code = code;
  attempt.done = true;
  attempt.changed.notify_all();
}

}  // namespace

MPI_Comm create_mpi_group(const Subworld& subworld) {
  if (!mpi_is_concurrent()) {
    throw UsageError("a Context over the survivors needs MPI initialised at MPI_THREAD_MULTIPLE");
  }
  auto attempt = std::make_shared<Attempt>();
  attempt->parent = *static_cast<const MPI_Comm*>(subworld.world.mpi_comm());
  attempt->tag = subworld.tag;
  MPI_Group all = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(attempt->parent, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(all, static_cast<int>(subworld.members.size()), subworld.members.data(), &attempt->group),
            "MPI_Group_incl");
  MPI_Group_free(&all);
  std::thread([attempt] { make(*attempt); }).detach();
  const base::Deadline deadline(subworld.timeout);
  std::unique_lock lock(attempt->lock);
  while (!attempt->changed.wait_for(lock, kLook, [&] { return attempt->done; })) {
    if (subworld.while_waiting) subworld.while_waiting();
    if (deadline.passed()) throw TimeoutError({}, "MPI_Comm_create_group: not every survivor came");
  }
  check_mpi(attempt->code, "MPI_Comm_create_group");
  MPI_Group_free(&attempt->group);
  MPI_Comm_set_errhandler(attempt->made, MPI_ERRORS_RETURN);
  return attempt->made;
}

}  // namespace kolo::cluster
