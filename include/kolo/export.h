#pragma once
// KOLO_EXPORT marks what the shared libraries show to programs. kolo is compiled with hidden symbols, so that no symbol
// of kolo or of a library inside it meets another of the same name in the program.
#define KOLO_EXPORT __attribute__((visibility("default")))
