#pragma once
#include "kernels/table_view.h"

namespace kolo::kernels {

// What kolo_find_nonfinite takes.
struct FindNonfiniteArguments {
  TableView table;  // column: gradient
  float* flag = nullptr;
};

}  // namespace kolo::kernels
