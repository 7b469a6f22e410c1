#pragma once
// One job: starts mpirun, hears the supervisors of its ranks, ends what has to be ended, and says how it went.
//
//   running --(a rank fails)--> last_words --(grace)--> asked --(grace)--> killed --(grace)--> given up
//      |                                                 ^
//      +--(interrupt, time limit)------------------------+           over as soon as every rank has ended
//
// last_words: peers of a rank that has failed learn of it by themselves, and may end in their own way. asked: SIGTERM,
// or what the user sent. killed: SIGKILL.
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "run_child.h"
#include "run_job.h"
#include "run_lines.h"
#include "run_options.h"
#include "run_output.h"
#include "run_socket.h"
#include "run_wire.h"

namespace kolo::tools {

class Launcher {
 public:
  using Clock = Job::Clock;

  struct Names {
    std::string job;    // in every process's environment
    std::string token;  // what supervisors prove with that they are ours
  };

  // `line` is mpirun's; `listener` is where its ranks' supervisors will call.
  Launcher(const RunOptions& options, std::vector<std::string> line, Listener listener, Names names);
  // Returns the status to exit with.
  int run();

 private:
  enum class Stage { running, last_words, asked, killed };

  // Standard output or standard error of one rank.
  struct Stream {
    Output* output = nullptr;  // set by the hello
    LineSplitter lines;
    std::optional<Clock::time_point> unfinished_since;
  };

  // A supervisor; of rank -1 until it has said which.
  struct Connection {
    base::UniqueFd socket;
    MessageReader reader;
    std::string unsent;
    Clock::time_point since;
    int rank = -1;
    bool finished = false;          // everything was heard, or nothing more will be
    std::array<Stream, 2> streams;  // output and error
  };

  void start();
  void step();
  void advance();
  void enter(Stage stage, int signal);
  void give_up();

  void on_signals();
  void on_interruption(int signal);
  void on_mpirun_output();
  void on_mpirun_end();
  void on_new_connection();
  void close_doors(int error);
  void end_start();
  void on_connection(Connection& connection);
  void on_message(Connection& connection, const Message& message);
  void on_hello(Connection& connection, const Message& message);
  void on_output(Connection& connection, std::string_view body);
  void close(Connection& connection);
  void finish_streams(Connection& connection);
  void pass_on_unfinished(Clock::time_point now);
  void write(Stream& stream, std::string text, Output::Written written);
  void write(Output& output, LineSplitter* from, std::string text, Output::Written written);

  void send(Connection& connection, std::string_view bytes);
  void send_to_all(int signal);
  void grant(int rank, std::size_t cost, const Output* output);
  void write_output();
  bool note_unwritable();
  void say(const std::string& line);
  void end_mpirun();
  void drain_output();
  [[nodiscard]] std::chrono::milliseconds until_next() const;

  const RunOptions& options_;
  std::vector<std::string> line_;
  Listener listener_;
  Names names_;
  Clock::time_point begin_ = Clock::now();
  Job job_;
  Child mpirun_;
  bool mpirun_ended_ = false;
  LineSplitter mpirun_lines_{"[mpirun] "};
  base::UniqueFd signals_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Output out_;
  Output err_;
  const bool one_file_;                          // out_ and err_ write to the same one
  std::map<const Output*, LineSplitter*> open_;  // whose unfinished line is the last that was written there
  std::set<std::string> unwritable_;             // streams whose loss was told
  Stage stage_ = Stage::running;
  bool stopped_ = false;                               // by the user, or the time limit
  std::optional<Clock::time_point> deadline_;          // of the stage
  std::optional<Clock::time_point> orphans_deadline_;  // ranks that outlive mpirun
};

}  // namespace kolo::tools
