#pragma once
// KOLO_EXPORT gives the declarations of a namespace block default visibility. The shared libraries hide all other
// symbols, so internal symbols cannot collide with symbols of the program.
#define KOLO_EXPORT __attribute__((visibility("default")))
