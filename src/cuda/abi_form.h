#pragma once
// Whether a function type of ours has the binary form of a vendor's, for checks at compile time.
#include <type_traits>

namespace kolo::cuda {

// Two types pass through a call in the same way: equal ones, pointers to whatever, whole numbers and enumerations of
// one size, and structs of one size.
template <class Ours, class Vendors>
constexpr bool same_form() {
  constexpr bool pointers = std::is_pointer_v<Ours> && std::is_pointer_v<Vendors>;
  constexpr bool numbers =
      (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(std::is_integral_v<Vendors> || std::is_enum_v<Vendors>);
  constexpr bool structs = std::is_class_v<Ours> && std::is_class_v<Vendors>;
  return std::is_same_v<Ours, Vendors> || pointers ||
         ((numbers || structs) && sizeof(Ours) == sizeof(Vendors) && alignof(Ours) == alignof(Vendors));
}

// What pointers point to matters where the callee reads or writes it: handles are themselves pointers, numbers are
// compared like arguments, and text and untyped memory are what they are.
template <class Ours, class Vendors>
constexpr bool same_target() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Vendors>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Vendors>;
    if constexpr (std::is_const_v<Our> != std::is_const_v<Their>) {
      return false;
    } else if constexpr (std::is_void_v<Our> || std::is_void_v<Their>) {
      return true;  // a handle, or memory
    } else {
      return same_form<std::remove_cv_t<Our>, std::remove_cv_t<Their>>();
    }
  } else {
    return same_form<Ours, Vendors>();
  }
}

template <class Ours, class Vendors>
struct SameCall : std::false_type {};
template <class OurResult, class... Ours, class TheirResult, class... Theirs>
struct SameCall<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  template <class... Each>
  struct List {};
  template <class... Our, class... Their>
  static constexpr bool all(List<Our...>, List<Their...>) {
    if constexpr (sizeof...(Our) == sizeof...(Their)) {
      return (same_target<Our, Their>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = same_target<OurResult, TheirResult>() && all(List<Ours...>{}, List<Theirs...>{});
};

}  // namespace kolo::cuda
