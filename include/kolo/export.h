#pragma once
// KOLO_EXPORT gives the declarations of a namespace block default visibility. The shared libraries hide all other
// symbols, so internal symbols cannot collide with symbols of the program.
#ifdef __clang__
#define KOLO_EXPORT [[gnu::visibility("default")]]  // clang 14 accepts no other form before the name of a namespace
#else
#define KOLO_EXPORT __attribute__((visibility("default")))
#endif
