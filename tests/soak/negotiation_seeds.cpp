// Interleavings of the named channel, without threads.
#include "soak/seeds.h"
#include "unit/engine/interleaving.h"

int main(int argc, char** argv) { return kolo::soak::try_seeds(argc, argv, kolo::engine::check_interleaving); }
