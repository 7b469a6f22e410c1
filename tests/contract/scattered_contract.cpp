#include "contract/scattered_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "contract/contract_data.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

constexpr std::chrono::milliseconds kLimit{60000};
constexpr std::size_t kLine = 64;

// An allreduce in pieces, and the memory for it. Every rank decides for itself which pieces lie apart, and where.
class Pieces {
 public:
  // `lines`: of each piece but the last, which has `tail` elements.
  Pieces(Communicator& comm, DType dtype, const std::vector<std::size_t>& lines, std::size_t tail)
      : comm_(comm), dtype_(dtype) {
    std::size_t at = 0;
    for (const std::size_t piece : lines) {
      begins_.push_back(at);
      at += piece * kLine / size_of(dtype);
    }
    begins_.push_back(at);
    count_ = at + tail;
    const std::size_t bytes = (count_ * size_of(dtype) + kLine - 1) / kLine * kLine;
    const std::size_t sizes[] = {kLine + bytes + SegmentedBuffer::table_bytes(begins_.size()), 3 * bytes + kLine};
    buffers_ = comm.allocate(sizes, kLimit);
    places_.resize(begins_.size());
  }

  // Contributions at places that differ by rank and `seed`, in another order than the pieces'.
  void scatter(std::uint32_t seed) {
    std::minstd_rand random(seed * 977 + static_cast<std::uint32_t>(comm_.rank()) + 1);
    std::vector<std::size_t> order(begins_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const auto home = buffers_[1]->data();
    std::fill(home.begin(), home.end(), std::byte{0x5a});
    std::size_t at = 0;
    for (const std::size_t piece : order) {
      places_[piece] = nullptr;
      if (random() % 3 == 0) continue;
      at += kLine * (random() % 2);
      places_[piece] = home.data() + at;
      at += (bytes_of(piece) + kLine - 1) / kLine * kLine;
    }
    write(contribution(dtype_, comm_.rank(), count_));
  }

  [[nodiscard]] AllreduceOptions options(ReduceOp op = ReduceOp::sum) {
    AllreduceOptions options;
    options.data = data();
    options.count = count_;
    options.dtype = dtype_;
    options.op = op;
    options.registered = buffers_[0].get();
    return options;
  }
  [[nodiscard]] SegmentedBuffer scattering() { return {begins_, places_, buffers_[1].get()}; }
  void run(const AllreduceOptions& options) {
    const auto operation = comm_.start_segmented(options, scattering());
    comm_.drive(*operation, kLimit, "a scattered allreduce");
  }

  // What the pieces hold, in their order.
  [[nodiscard]] std::vector<std::byte> gathered() {
    std::vector<std::byte> all;
    for (std::size_t piece = 0; piece < begins_.size(); ++piece) {
      all.insert(all.end(), address(piece), address(piece) + bytes_of(piece));
    }
    return all;
  }
  // Elements that are nobody's: the buffer's own place of a piece that lies apart, and all of the home between pieces.
  [[nodiscard]] std::size_t apart() const {
    return static_cast<std::size_t>(
        std::count_if(places_.begin(), places_.end(), [](auto* p) { return p != nullptr; }));
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::vector<std::byte*>& places() { return places_; }
  [[nodiscard]] std::vector<std::size_t>& begins() { return begins_; }

 private:
  std::byte* data() { return buffers_[0]->data().data() + kLine; }  // not at the start: offsets count
  [[nodiscard]] std::size_t bytes_of(std::size_t piece) const {
    return ((piece + 1 < begins_.size() ? begins_[piece + 1] : count_) - begins_[piece]) * size_of(dtype_);
  }
  std::byte* address(std::size_t piece) {
    return places_[piece] != nullptr ? places_[piece] : data() + begins_[piece] * size_of(dtype_);
  }
  void write(const std::vector<std::byte>& values) {
    for (std::size_t piece = 0; piece < begins_.size(); ++piece) {
      const auto* from = values.data() + begins_[piece] * size_of(dtype_);
      std::copy(from, from + bytes_of(piece), address(piece));
    }
  }

  Communicator& comm_;
  DType dtype_;
  std::vector<std::size_t> begins_;
  std::vector<std::byte*> places_;
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<RegisteredBuffer>> buffers_;
};

const std::vector<std::size_t> kSmall{1, 3, 1, 0, 20, 2};
const std::vector<std::size_t> kLarge{1, 9000, 2, 4000, 5000};  // more than is reduced at a time; slices end within

bool refuses(Communicator& comm) {
  if (comm.supports_segmented()) return false;
  Pieces pieces(comm, DType::f32, kSmall, 5);
  EXPECT_THROW((void)comm.start_segmented(pieces.options(), pieces.scattering()), UsageError);
  comm.barrier(kLimit);
  return true;
}

}  // namespace

void scattered_all_types(Communicator& comm, Algorithm /*algorithm*/) {
  if (refuses(comm)) return;
  std::uint32_t seed = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16,
                            DType::i32, DType::i64, DType::boolean}) {
    for (const std::size_t tail : {std::size_t{0}, std::size_t{1}, std::size_t{77}}) {
      Pieces pieces(comm, dtype, kSmall, tail);
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max}) {
        pieces.scatter(++seed);
        pieces.run(pieces.options(op));
        EXPECT_TRUE(pieces.gathered() == reduction(dtype, op, comm.size(), 0, pieces.count()))
            << "rank " << comm.rank() << ", " << name_of(dtype) << " " << name_of(op) << ", tail " << tail;
        comm.barrier(kLimit);
      }
    }
  }
}

void scattered_anew_each_time(Communicator& comm, Algorithm /*algorithm*/) {
  if (refuses(comm)) return;
  Pieces pieces(comm, DType::f32, kLarge, 12345);
  constexpr std::uint32_t kSeeds = fewer_sanitized(8U, 3U);
  std::size_t apart = 0;
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    pieces.scatter(seed);
    apart += pieces.apart();
    AllreduceOptions options = pieces.options(ReduceOp::average);
    options.prescale = 0.5;
    options.postscale = 2;
    pieces.run(options);
    EXPECT_TRUE(pieces.gathered() == reduction(DType::f32, ReduceOp::average, comm.size(), 0, pieces.count()))
        << "rank " << comm.rank() << ", seed " << seed;
    comm.barrier(kLimit);
  }
  EXPECT_GT(apart, kSeeds);
  EXPECT_LT(apart, kSeeds * pieces.begins().size());
}

// Every rank in turn says no; the operation after it works, and an unscattered one on the same memory too.
void scattered_veto_leaves_data(Communicator& comm, Algorithm /*algorithm*/) {
  if (refuses(comm)) return;
  Pieces pieces(comm, DType::f32, kLarge, 3);
  for (int round = 0; round < comm.size(); ++round) {
    pieces.scatter(static_cast<std::uint32_t>(round));
    std::vector<std::uint64_t> words = {comm.rank() == round ? 4U : 2U, std::uint64_t{1} << comm.rank()};
    AllreduceOptions options = pieces.options();
    options.flags = {words, 4};
    pieces.run(options);
    EXPECT_NE(words[0] & 4, 0U);
    EXPECT_EQ(words[1], (std::uint64_t{1} << comm.size()) - 1);
    EXPECT_TRUE(pieces.gathered() == contribution(DType::f32, comm.rank(), pieces.count()));
    words = {2, 0};
    pieces.run(options);
    EXPECT_TRUE(pieces.gathered() == reduction(DType::f32, ReduceOp::sum, comm.size(), 0, pieces.count()));
    comm.barrier(kLimit);
    const auto values = contribution(DType::f32, comm.rank(), pieces.count());
    AllreduceOptions whole = pieces.options();
    std::copy(values.begin(), values.end(), whole.data);
    comm.allreduce(whole, kLimit);
    const auto wanted = reduction(DType::f32, ReduceOp::sum, comm.size(), 0, pieces.count());
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), whole.data));
    comm.barrier(kLimit);
  }
}

void scattered_misuse_is_refused(Communicator& comm, Algorithm /*algorithm*/) {
  if (refuses(comm)) return;
  Pieces pieces(comm, DType::f32, kSmall, 5);
  const auto refused = [&](const AllreduceOptions& options) {
    EXPECT_THROW((void)comm.start_segmented(options, pieces.scattering()), UsageError);
  };
  pieces.scatter(1);
  std::byte* const elsewhere = pieces.options().data;
  for (std::byte* place : {elsewhere, pieces.scattering().home->data().data() + 4,
                           pieces.scattering().home->data().data() + pieces.scattering().home->data().size() - 64}) {
    const auto kept = pieces.places();
    pieces.places()[4] = place;
    refused(pieces.options());
    pieces.places() = kept;
  }
  pieces.begins()[1] += 1;
  refused(pieces.options());
  pieces.begins()[1] -= 1;
  pieces.places().pop_back();
  refused(pieces.options());
  pieces.places().push_back(nullptr);
  AllreduceOptions large = pieces.options();
  large.count += 64;  // where the table would be
  refused(large);
  pieces.scatter(2);
  pieces.run(pieces.options());  // and everything still works
  EXPECT_TRUE(pieces.gathered() == reduction(DType::f32, ReduceOp::sum, comm.size(), 0, pieces.count()));
  comm.barrier(kLimit);
}

}  // namespace kolo::test
