#pragma once
#include "kernels/leave.h"
#include "kernels/table_view.h"

namespace kolo::kernels {

// What kolo_adamw takes.
struct AdamwArguments {
  TableView table;   // columns: gradient, weight, first moment, second moment
  Leave leave;       // whether anything is done
  float scale = 1;   // of gradients
  float step = 0;    // lr / (1 - beta1^t)
  float shrink = 1;  // 1 - lr * weight_decay
  float keep1 = 0;   // beta1
  float take1 = 0;   // 1 - beta1
  float keep2 = 0;
  float take2 = 0;
  float root = 1;  // sqrt(1 - beta2^t)
  float epsilon = 0;
};

}  // namespace kolo::kernels
