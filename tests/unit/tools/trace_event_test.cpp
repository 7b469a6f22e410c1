#include "trace_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kolo::tools {
namespace {

using testing::HasSubstr;

TraceEvent parsed(const std::string& line) {
  TraceEvent event;
  parse_event(line, event);
  return event;
}

std::string time_text(std::int64_t ns) {
  std::string text;
  append_time(text, ns);
  return text;
}

TEST(TraceEvent, ReductionHasAllFields) {
  const TraceEvent event = parsed(R"({"name":"reduction","ph":"X","pid":1,"tid":1002,"ts":10.250,"dur":0.5,)"
                                  R"("args":{"bytes":128,"round":7,"algorithm":"direct"}})");
  EXPECT_EQ(event.name, "reduction");
  EXPECT_EQ(event.phase, "X");
  EXPECT_EQ(event.tid, 1002);
  EXPECT_EQ(event.begin_ns, 10250);
  EXPECT_EQ(event.duration_ns, 500);
  EXPECT_EQ(event.round, 7U);
  EXPECT_EQ(event.algorithm, "direct");
  EXPECT_EQ(event.args, R"({"bytes":128,"round":7,"algorithm":"direct"})");
  EXPECT_EQ(event.rest, "");
}

TEST(TraceEvent, FieldsOfTheLastLineAreGone) {
  TraceEvent event;
  parse_event(R"({"name":"a","ph":"X","tid":1,"ts":1,"dur":2,"cat":"c","args":{"round":7,"algorithm":"ring"}})", event);
  parse_event(R"({"name":"b","ph":"M"})", event);
  EXPECT_EQ(event.name, "b");
  EXPECT_FALSE(event.tid || event.begin_ns || event.duration_ns || event.round);
  EXPECT_EQ(event.args + event.algorithm + event.rest, "");
}

TEST(TraceEvent, NestedAndUnknownFieldsSurvive) {
  const std::string args = R"({"a":[1,-2.50,[],{}],"b":{"round":1,"c":null},"d \"e\"":true,"f":"\u0001\\"})";
  const TraceEvent event =
      parsed(R"({"name":"n","ph":"X","cat":"x,y","tid":1,"id":[{"k":1},2],"ts":1,"dur":2,"args":)" + args + "}");
  EXPECT_EQ(nlohmann::json::parse(event.args), nlohmann::json::parse(args));
  EXPECT_EQ(event.rest, R"(,"cat":"x,y","id":[{"k":1},2])");
  EXPECT_FALSE(event.round) << "it is not a field of args itself";
}

TEST(TraceEvent, NameWithQuotesAndOtherLettersIsQuotedAgain) {
  const TraceEvent event = parsed(R"({"name":"läuft \"gut\"\n","ph":"M"})");
  std::string text;
  append_quoted(text, event.name);
  EXPECT_EQ(text, R"("läuft \"gut\"\n")");
}

// The clock of a host that is up for 30 years.
TEST(TraceEvent, NanosecondsAreExactForAnyUptime) {
  for (const auto& [text, ns] :
       std::initializer_list<std::pair<std::string, std::int64_t>>{{"946080000000001.001", 946080000000001001},
                                                                   {"946080000000001.999", 946080000000001999},
                                                                   {"946080000000000", 946080000000000000},
                                                                   {"0.001", 1},
                                                                   {"0", 0},
                                                                   {"-0.001", -1},
                                                                   {"-12.5", -12500},
                                                                   {"1e3", 1000000},
                                                                   {"1.5E-3", 2},
                                                                   {"0.0006", 1},
                                                                   {"7.12345", 7123}}) {
    EXPECT_EQ(parsed(R"({"name":"a","ph":"M","ts":)" + text + "}").begin_ns, ns) << text;
  }
}

TEST(TraceEvent, TimeTextHasThreeDecimals) {
  EXPECT_EQ(time_text(0), "0.000");
  EXPECT_EQ(time_text(1), "0.001");
  EXPECT_EQ(time_text(-1), "-0.001");
  EXPECT_EQ(time_text(-1'234'567), "-1234.567");
  EXPECT_EQ(time_text(946080000000001001), "946080000000001.001");
}

TEST(TraceEvent, BadLinesAreNamed) {
  const auto error_of = [](const std::string& line) -> std::string {
    try {
      static_cast<void>(parsed(line));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto span = [](const std::string& ts, const std::string& dur) {
    return R"({"name":"a","ph":"X","tid":1,"ts":)" + ts + R"(,"dur":)" + dur + "}";
  };
  EXPECT_EQ(error_of(span("1", "2")), "accepted");
  EXPECT_THAT(error_of(span("1", "nan")), HasSubstr("not valid JSON at column 44: `\"dur\":na`"));
  EXPECT_THAT(error_of(span("1", "Infinity")), HasSubstr("not valid JSON"));
  EXPECT_EQ(error_of(span("1", "-3.25")), "dur -3.250 is negative");
  EXPECT_EQ(error_of(span("1e300", "1")), "ts 1e300 is not a time in microseconds");
  EXPECT_EQ(error_of(span("1", "9223372036854775807")), "dur 9223372036854775807 is not a time in microseconds");
  EXPECT_THAT(error_of(span("1e999", "1")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(span("\"1\"", "1")), HasSubstr("without `tid`, `ts` or `dur`"));
  EXPECT_THAT(error_of(R"({"name":"a","ph":"X","tid":1.5,"ts":1,"dur":1})"), HasSubstr("tid 1.5"));
  EXPECT_THAT(error_of(R"({"ph":"X","tid":1,"ts":1,"dur":1})"), HasSubstr("without `name`"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("not an event"));
  EXPECT_THAT(error_of("3"), HasSubstr("not an event"));
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(R"({"name":"a","ph":"M"} {})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{\"name\":\"\xff\",\"ph\":\"M\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("not an event"));
}

}  // namespace
}  // namespace kolo::tools
