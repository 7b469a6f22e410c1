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

// A line of just that length has one newline, its own.
TEST(RunLines, TheLongestLine) {
  LineSplitter splitter;
  const std::string text(LineSplitter::kLongest, 'x');
  EXPECT_EQ(splitter.add(text + "\n" + "y\n"), text + "\ny\n");
}

}  // namespace
}  // namespace kolo::tools
