// Trains a ResNet, one process a rank:
//
//   mpirun -np 2 imagenet_resnet50 --data DIR            the classic 90-epoch recipe
//   imagenet_resnet50 --help
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

#include "kolo/context.h"
#include "kolo/error.h"
#include "options.h"
#include "process.h"
#include "trainer.h"

int main(int argc, char** argv) {
  std::optional<imagenet::Options> options;
  try {
    options = imagenet::parse_options(argc, argv, std::cout);
  } catch (const kolo::UsageError& error) {
    std::fprintf(stderr, "imagenet_resnet50: %s\n", error.what());
    return 2;
  }
  if (!options) return 0;

  imagenet::keep_freed_memory();
  try {
    const auto context = kolo::Context::create();
    context->run([&] { imagenet::train(*context, *options); });
    context->shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "imagenet_resnet50: %s\n", error.what());
    return 1;
  }
  return 0;
}
