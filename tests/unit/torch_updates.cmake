# The loops of FusedSGD and FusedAdamW, which the library has in one copy for each vector width: each copy in a program of its own.
set(widths portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND widths avx2 avx512)
endif()
foreach(width IN LISTS widths)
  add_library(updates_${width} OBJECT ${kolo_SOURCE_DIR}/src/torch/adamw_update.cpp ${kolo_SOURCE_DIR}/src/torch/sgd_update.cpp)
  target_include_directories(updates_${width} PRIVATE ${kolo_SOURCE_DIR}/src)
  target_link_libraries(updates_${width} PRIVATE kolo_internal)
  target_compile_definitions(updates_${width} PRIVATE KOLO_VECTOR_CLONES=)
  target_compile_options(updates_${width} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math
    $<$<STREQUAL:${width},avx2>:-mavx2 -mfma> $<$<STREQUAL:${width},avx512>:-mavx512f>)
  kolo_test(unit.torch_updates.${width} SOURCES torch/update_loops_test.cpp LINK updates_${width} LABELS unit)
  target_compile_definitions(unit.torch_updates.${width} PRIVATE
    KOLO_NEEDS_AVX2=$<STREQUAL:${width},avx2> KOLO_NEEDS_AVX512=$<STREQUAL:${width},avx512>)
endforeach()
