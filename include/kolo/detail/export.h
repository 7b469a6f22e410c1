#pragma once
// KOLO_EXPORT gives the declarations of a namespace block default visibility. The shared libraries hide all other
// symbols, so internal symbols cannot collide with symbols of the program.

// g++ 10 has this value with -std=c++20. nvcc compiles kolo's own device code as C++17.
#if __cplusplus < 201709L && !defined(__CUDACC__)
#error "kolo needs C++20: compile with -std=c++20 or set CMAKE_CXX_STANDARD to 20"
#endif

// The one form that clang 14 accepts before the name of a namespace.
#define KOLO_EXPORT [[gnu::visibility("default")]]
