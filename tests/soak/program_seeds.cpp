// Random programs on the real engine, whose ranks are threads.
#include "multirank/engine/random_program.h"
#include "soak/seeds.h"

int main(int argc, char** argv) { return kolo::soak::try_seeds(argc, argv, kolo::test::run_seed); }
