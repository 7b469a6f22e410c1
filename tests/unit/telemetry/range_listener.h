#pragma once
// What range_listener.cpp has heard.

struct Heard {
  int pushes = 0;
  int pops = 0;
  unsigned long long number = 0;
  char name[64] = {};
};

extern "C" const Heard* heard_ranges();
