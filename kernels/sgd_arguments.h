#pragma once
#include "kernels/leave.h"
#include "kernels/table_view.h"

namespace kolo::kernels {

// What kolo_sgd takes.
struct SgdArguments {
  TableView table;  // columns: gradient, weight, and momentum if there is one
  Leave leave;      // whether anything is done
  float scale = 1;  // of gradients
  float lr = 0;
  float keep = 0;  // momentum
  float take = 0;  // 1 - dampening
  float decay = 0;
  bool with_momentum = false;
  bool with_decay = false;  // no decay is not a decay of 0, which would make NaN of a weight that is infinite
  bool nesterov = false;
  bool first = false;
};

}  // namespace kolo::kernels
