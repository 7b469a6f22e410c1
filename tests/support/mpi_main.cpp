// main() of GoogleTest programs that run under mpirun: all ranks run the same tests in the same order. A failure on any
// rank fails the program on every rank. Rank 0 prints progress; every rank prints its own failures.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string>

namespace {

class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestStart(const testing::TestInfo& info) override {
    test_ = std::string(info.test_suite_name()) + "." + info.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() != nullptr ? result.file_name() : "?";
    // One call a failure, so that the lines of several ranks do not mix.
    std::fprintf(stderr, "[rank %d] %s\n%s:%d\n%s\n", rank_, test_.c_str(), file, result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string test_ = "(outside tests)";
};

int run_all_ranks(int rank) {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailurePrinter(rank));
  int mine = RUN_ALL_TESTS();
  int worst = 0;
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (worst != 0 && mine == 0 && rank == 0) std::fprintf(stderr, "[rank 0] passed here, failed on another rank\n");
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // ctest lists tests without a launcher: no MPI for that.
  if (testing::FLAGS_gtest_list_tests) return RUN_ALL_TESTS();

  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (level < MPI_THREAD_SERIALIZED) {
    std::fprintf(stderr, "this MPI does not offer MPI_THREAD_SERIALIZED\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int result = run_all_ranks(rank);
  MPI_Finalize();
  return result;
}
