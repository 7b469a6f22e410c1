# kolo_test_compilation(<target> [TORCH]): how code of tests is compiled. The headers of GoogleTest, TORCH: also those
# of LibTorch, are precompiled (6.9 in place of 17.1 s for a file of the binding's tests); little optimization, as tests
# run once, and the library has its own options; no fused multiply-add, because expected values are rounded without it.
set(kolo_test_options $<$<CONFIG:Release>:-O1> -ffp-contract=off)
if(KOLO_SANITIZE MATCHES undefined)
  list(APPEND kolo_test_options -fno-sanitize=undefined)  # checks of the tests' own code take most of their compile time
endif()
set(kolo_precompile OFF)
if(KOLO_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(kolo_precompile ON)
  list(APPEND kolo_test_options -fpch-preprocess)  # else ccache keeps nothing of what is compiled with them
endif()

function(kolo_test_compilation target)
  cmake_parse_arguments(arg "TORCH" "" "" ${ARGN})
  target_link_libraries(${target} PRIVATE kolo_warnings GTest::gmock)
  target_compile_options(${target} PRIVATE ${kolo_test_options})
  if(kolo_precompile AND arg_TORCH)
    target_precompile_headers(${target} REUSE_FROM kolo_torch_headers)
  elseif(kolo_precompile)
    target_precompile_headers(${target} REUSE_FROM kolo_test_headers)
  endif()
endfunction()

# kolo_precompile(<target> HEADERS <headers>... LINK <libraries>...): compiles them, and nothing else. Headers of others only: a
# change of ours must not compile all tests again. Who uses them has the very options of this target: g++ refuses other
# macros, and crashes at another level of optimization.
function(kolo_precompile target)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp CONTENT "// CMake wants a source.\n")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE kolo_warnings ${arg_LINK})
  target_compile_options(${target} PRIVATE ${kolo_test_options})
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
endfunction()

if(kolo_precompile)
  kolo_precompile(kolo_test_headers LINK GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
endif()
if(kolo_precompile AND KOLO_HAVE_TORCH)
  kolo_precompile(kolo_torch_headers LINK GTest::gmock kolo_libtorch HEADERS <gmock/gmock.h> <gtest/gtest.h>
    <torch/nn/modules/container/sequential.h> <torch/nn/modules/linear.h> <torch/optim/sgd.h> <torch/types.h>)
endif()
