#pragma once
// Whether this is a build with sanitizers. Those look at accesses, not at results, and make everything 5 to 20 times as
// slow: what a test repeats for the sake of values, sizes and seeds it repeats less often there.
#include <type_traits>

namespace kolo::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// A test that takes a wait out lets threads race on purpose: the thread sanitizer finds that first, and fails the run
// for it. Such a test looks in the other builds whether kolo's own checks find it:
//   if (kThreadSanitized) GTEST_SKIP() << kRacesOnPurpose;
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
inline constexpr const char* kRacesOnPurpose = "a host races with a device here on purpose";

// So many, but with sanitizers only `few`.
template <class Number>
[[nodiscard]] constexpr Number fewer_sanitized(Number many, std::type_identity_t<Number> few) {
  return kSanitized ? few : many;
}

}  // namespace kolo::test
