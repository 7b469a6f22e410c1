// Scattered allreduce: direct_allreduce.cpp on data that nobody has copied together. Each piece lies where its rank has
// it anyway, in memory that all ranks of the host have mapped, and receives its result there.
//
//   the whole    |  piece 0  |  piece 1  | 2 |  piece 3  |      rank 0 reduces the first half, rank 1 the second;
//                 - - - - - slice 0 - - -|- - slice 1 - -       a slice ends within a piece where it has to
//
//   rank 0       home: [ 1 ]   [ 0 ]            buffer: |           |           | 2 |     3     | table
//   rank 1       home: [ 3 ]   [ 0 ]            buffer: |           |     1     | 2 |           | table
//
// The table is one word a piece: how far into the rank's home it lies, or kInBuffer. It is written before `arrived` and
// read after everybody has arrived, like the flags, and may be overwritten when they may. So one rank may have a piece
// in its home where another one has copied it into its buffer, and may decide anew each time.
//
// What is read and written, by whom and in which order, is as in direct_allreduce.cpp: 2N bytes a rank, equal bits
// everywhere, nothing written after a veto.
#include <algorithm>
#include <cstring>
#include <string>

#include "collectives/direct_allreduce.h"
#include "collectives/direct_meeting.h"
#include "collectives/scattering.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::collectives {
namespace {

constexpr std::uint64_t kInBuffer = ~std::uint64_t{0};

// Neighbouring elements that are neighbours in every rank's memory.
struct SharedRun {
  std::size_t count = 0;            // elements
  std::vector<std::byte*> columns;  // per rank
};

class ScatteredAllreduce final : public QueuedMachine {
 public:
  ScatteredAllreduce(std::shared_ptr<Group> group, const ScatteredBuffers& buffers, const AllreduceOptions& options,
                     const SegmentedBuffer& scattering, const DirectTuning& tuning)
      : QueuedMachine(std::move(group), buffers.buffer, buffers.buffer->queue),
        buffer_(*buffers.buffer),
        home_(buffers.home),
        options_(options),
        scattering_(scattering),
        rank_(static_cast<std::size_t>(this->group().rank())),
        meeting_(buffer_, this->group().rank()),
        size_(buffer_.memory.size()),
        element_(size_of(options.dtype)),
        offset_(static_cast<std::size_t>(options.data - buffer_.memory[rank_])),
        quantum_(std::max(line_grain(options.dtype), tuning.quantum / element_)),
        stores_(tuning.stores(options.count * element_, size_, this->group().rank())) {}

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    return phase_ == Phase::arrive || phase_ == Phase::done ? meeting_.missing() : std::vector<Rank>{};
  }

 private:
  enum class Phase { publish, arrive, reduce, done };

  bool turn() override {
    if (phase_ == Phase::publish) {
      write_table();
      meeting_.arrive(options_.flags.words);
      phase_ = Phase::arrive;
    }
    if (phase_ == Phase::arrive) {
      if (!meeting_.all_arrived()) return false;
      meeting_.combine(options_.flags.words);
      if (!options_.flags.vetoed()) find_runs();
      phase_ = Phase::reduce;
    }
    if (phase_ == Phase::reduce && !reduce_some()) return false;
    return phase_ == Phase::done && meeting_.all_done();
  }

  [[nodiscard]] std::size_t pieces() const noexcept { return scattering_.begins.size(); }
  [[nodiscard]] std::size_t end_of(std::size_t piece) const { return end_of_piece(scattering_, piece, options_.count); }
  [[nodiscard]] std::uint64_t* table(std::size_t rank) const {
    return reinterpret_cast<std::uint64_t*>(buffer_.memory[rank] + offset_ + whole_lines(options_.count * element_));
  }

  void write_table() {
    for (std::size_t piece = 0; piece < pieces(); ++piece) {
      const std::byte* place = scattering_.segments[piece];
      table(rank_)[piece] = place == nullptr ? kInBuffer : static_cast<std::uint64_t>(place - home_->memory[rank_]);
    }
  }

  // Where `rank` has element `element`, which is of piece `piece`.
  [[nodiscard]] std::byte* address(std::size_t rank, std::size_t piece, std::size_t element) const {
    const std::uint64_t place = table(rank)[piece];
    if (place == kInBuffer) return buffer_.memory[rank] + offset_ + element * element_;
    const std::size_t bytes = (end_of(piece) - scattering_.begins[piece]) * element_;
    if (place > home_->bytes || bytes > home_->bytes - place) {
      throw BackendError("segmented allreduce: rank " + std::to_string(rank) + " published segment " +
                         std::to_string(piece) + " outside its memory");
    }
    return home_->memory[rank] + place + (element - scattering_.begins[piece]) * element_;
  }

  // This rank's slice, cut where pieces end.
  void find_runs() {
    const Range slice =
        part_of(options_.count, static_cast<int>(size_), static_cast<Rank>(rank_), line_grain(options_.dtype));
    const auto& begins = scattering_.begins;
    for (std::size_t piece = piece_of(scattering_, slice.begin); piece < pieces() && begins[piece] < slice.end;
         ++piece) {
      const std::size_t begin = std::max(begins[piece], slice.begin);
      const std::size_t end = std::min(end_of(piece), slice.end);
      if (begin >= end) continue;
      SharedRun run{end - begin, std::vector<std::byte*>(size_)};
      for (std::size_t r = 0; r < size_; ++r) run.columns[r] = address(r, piece, begin);
      append(std::move(run));
    }
  }

  void append(SharedRun run) {
    const auto follows = [&](const SharedRun& last) {
      for (std::size_t r = 0; r < size_; ++r) {
        if (last.columns[r] + last.count * element_ != run.columns[r]) return false;
      }
      return true;
    };
    if (!runs_.empty() && follows(runs_.back())) {
      runs_.back().count += run.count;
    } else {
      runs_.push_back(std::move(run));
    }
  }

  // A quantum at a time. True once the slice is reduced, and that is published.
  bool reduce_some() {
    for (std::size_t left = quantum_; left > 0 && next_ < runs_.size();) {
      SharedRun& run = runs_[next_];
      const std::size_t count = std::min(left, run.count);
      const std::span<const std::byte* const> inputs(run.columns.data(), size_);
      reduction_of(options_).run(inputs, run.columns, count, stores_);
      if (group().counters != nullptr) group().counters->bytes_reduced_shared.add(count * element_);
      for (auto& column : run.columns) column += count * element_;
      run.count -= count;
      left -= count;
      if (run.count == 0) ++next_;
      group().moved = true;
    }
    if (next_ < runs_.size()) return false;
    phase_ = Phase::done;
    meeting_.depart();
    return true;
  }

  DirectBuffer& buffer_;
  std::shared_ptr<DirectBuffer> home_;  // outlives whoever allocated it, as the buffer does
  AllreduceOptions options_;
  SegmentedBuffer scattering_;
  std::size_t rank_;
  DirectMeeting meeting_;
  std::size_t size_;
  std::size_t element_;
  std::size_t offset_;   // of the data in the buffer, bytes
  std::size_t quantum_;  // elements
  Reduction::Stores stores_;
  Phase phase_ = Phase::publish;
  std::vector<SharedRun> runs_;
  std::size_t next_ = 0;  // run
};

}  // namespace

std::unique_ptr<Operation> start_scattered_allreduce(std::shared_ptr<Group> group, const ScatteredBuffers& buffers,
                                                     const AllreduceOptions& options, const SegmentedBuffer& scattering,
                                                     const DirectTuning& tuning) {
  const auto own = [rank = static_cast<std::size_t>(group->rank())](const DirectBuffer& buffer) {
    return std::span<const std::byte>(buffer.memory[rank], buffer.bytes);
  };
  check_scattering(options, scattering, own(*buffers.buffer), own(*buffers.home));
  return std::make_unique<ScatteredAllreduce>(std::move(group), buffers, options, scattering, tuning);
}

}  // namespace kolo::collectives
