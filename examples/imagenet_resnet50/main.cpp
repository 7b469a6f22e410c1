// Trains a ResNet, one process a rank:
//
//   mpirun -np 2 imagenet_resnet50 --data DIR            the classic 90-epoch recipe
//   imagenet_resnet50 --help
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "agreement.h"
#include "failure.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "options.h"
#include "process.h"
#include "ranks.h"
#include "trainer.h"

int main(int argc, char** argv) {
  imagenet::prepare_streams();
  std::optional<imagenet::Options> options;
  std::string wrong;
  try {
    options = imagenet::parse_options(argc, argv, std::cout);
    if (!options) return 0;
  } catch (const kolo::UsageError& error) {
    wrong = error.what();
  }

  imagenet::keep_freed_memory();
  std::unique_ptr<kolo::Context> context;
  try {
    context = kolo::Context::create();
    // Most often all ranks have the same wrong option.
    auto summary = imagenet::summary_of(imagenet::gather(*context, wrong));
    if (summary.empty()) {
      summary = imagenet::disagreement_of(imagenet::gather(*context, imagenet::terms_of(*options)));
    }
    if (!summary.empty()) {
      if (context->rank() == 0) std::fprintf(stderr, "imagenet_resnet50: %s\n", summary.c_str());
      return 2;
    }
    context->run([&] { imagenet::train(*context, *options); });
    context->shutdown();
    return 0;
  } catch (const std::exception& error) {
    if (context == nullptr) {
      std::fprintf(stderr, "imagenet_resnet50: %s\n", error.what());
    } else {
      imagenet::report_failure(*context, error);
    }
    return 1;
  }
}
