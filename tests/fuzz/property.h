#pragma once
// What a fuzzer claims about every input. A claim that does not hold ends the process, which is how both libFuzzer and
// the replay of the default tests learn of it.
#include <cstdio>
#include <cstdlib>

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the text of the claim
#define KOLO_CLAIM(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
