#pragma once
#include "kernels/table_view.h"
#include "kernels/update_state.h"

namespace kolo::kernels {

// What kolo_adamw takes.
struct AdamwArguments {
  TableView table;  // columns: weight, first moment, second moment
  Gradients gradients;
  float lr = 0;
  float shrink = 1;  // 1 - lr * weight_decay
  float keep1 = 0;   // beta1
  float take1 = 0;   // 1 - beta1
  float keep2 = 0;
  float take2 = 0;
  float epsilon = 0;
};

}  // namespace kolo::kernels
