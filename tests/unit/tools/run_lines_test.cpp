#include "run_lines.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kolo::tools {
namespace {

TEST(RunLines, EveryLineOnceAndWhole) {
  const std::string text = "one\n\ntwo three\nlast";
  const std::string expected = "[1] one\n[1] \n[1] two three\n[1] last\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    LineSplitter splitter("[1] ");
    std::string got;
    for (std::size_t begin = 0; begin < text.size(); begin += piece) {
      got += splitter.add(std::string_view(text).substr(begin, piece));
    }
    got += splitter.finish();
    EXPECT_EQ(got, expected);
    EXPECT_EQ(splitter.finish(), "");
  }
}

TEST(RunLines, HalfALineWaits) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.add("half"), "");
  EXPECT_EQ(splitter.add(" and half\nnext"), "half and half\n");
}

TEST(RunLines, AnEndlessLineIsCut) {
  LineSplitter splitter("> ");
  const std::string text(LineSplitter::kLongest * 2 + 5, 'x');
  std::string got = splitter.add(text);
  got += splitter.finish();
  EXPECT_EQ(std::count(got.begin(), got.end(), 'x'), static_cast<std::ptrdiff_t>(text.size()));
  EXPECT_EQ(std::count(got.begin(), got.end(), '\n'), 3);
}

// A line of just that length has one newline, its own, whichever way it comes.
TEST(RunLines, TheLongestLine) {
  const std::string text(LineSplitter::kLongest, 'x');
  for (const std::string prefix : {"", "> "}) {
    LineSplitter at_once(prefix);
    EXPECT_EQ(at_once.add(text + "\n" + "y\n"), prefix + text + "\n" + prefix + "y\n");
    LineSplitter in_pieces(prefix);
    EXPECT_EQ(in_pieces.add(text), "");
    EXPECT_EQ(in_pieces.add("\n"), prefix + text + "\n");
    EXPECT_EQ(in_pieces.finish(), "");
  }
}

TEST(RunLines, RestOfLineFollowsUnfinishedPieceWithoutPrefix) {
  LineSplitter splitter("[1] ");
  EXPECT_EQ(splitter.add("half"), "");
  EXPECT_EQ(splitter.take_unfinished(), "[1] half");
  EXPECT_TRUE(splitter.is_open());
  EXPECT_EQ(splitter.add(" and half\nnext\n"), " and half\n[1] next\n");
  EXPECT_FALSE(splitter.is_open());
}

TEST(RunLines, RestOfLineHasPrefixAfterTheLineWasClosed) {
  LineSplitter splitter("[1] ");
  EXPECT_EQ(splitter.add("half"), "");
  EXPECT_EQ(splitter.take_unfinished(), "[1] half");
  splitter.close_line();
  EXPECT_EQ(splitter.add(" and half\n"), "[1]  and half\n");
}

TEST(RunLines, TextAfterCarriageReturnHasPrefix) {
  for (const bool in_pieces : {false, true}) {
    LineSplitter splitter("[1] ");
    std::string got;
    for (const char* bytes : {"\r10%", "\r", "20%", "\r\n", "\r\n", "\n"}) {
      got += splitter.add(bytes);
      if (in_pieces) got += splitter.take_unfinished();
    }
    EXPECT_EQ(got, "[1] \r[1] 10%\r[1] 20%\r\n[1] \r\n[1] \n") << in_pieces;
  }
}

TEST(RunLines, EndOfStreamClosesAnOpenLine) {
  LineSplitter splitter("[1] ");
  EXPECT_EQ(splitter.add("bar"), "");
  EXPECT_EQ(splitter.take_unfinished(), "[1] bar");
  EXPECT_EQ(splitter.finish(), "\n");
  EXPECT_EQ(splitter.finish(), "");
}

TEST(RunLines, UnfinishedPiecesWithoutPrefixAreTheBytes) {
  LineSplitter splitter;
  std::string got;
  for (const char* bytes : {"\r10%", "\r20%", "\n", "last"}) {
    got += splitter.add(bytes);
    got += splitter.take_unfinished();
  }
  EXPECT_EQ(got + splitter.finish(), "\r10%\r20%\nlast");
}

TEST(RunLines, WithoutAPrefixBytesStayAsTheyAre) {
  const std::string text = "one\n\n" + std::string(LineSplitter::kLongest * 2 + 5, 'x') + "\nlast";
  for (const std::size_t piece : {std::size_t{1000}, LineSplitter::kLongest, text.size()}) {
    LineSplitter splitter;
    std::string got;
    for (std::size_t begin = 0; begin < text.size(); begin += piece) {
      got += splitter.add(std::string_view(text).substr(begin, piece));
    }
    got += splitter.finish();
    EXPECT_TRUE(got == text) << "in pieces of " << piece;
  }
}

}  // namespace
}  // namespace kolo::tools
