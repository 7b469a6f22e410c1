# Run by ctest: builds kolo without device code, NCCL and LibTorch, and runs what is about devices there.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

# Beside kolo's own build: see build_consumer.cmake.
set(build ${KOLO_BUILD}-without_cuda)
file(REMOVE_RECURSE ${build})
run(${CMAKE_COMMAND} -S ${KOLO_SOURCE} -B ${build} -G ${GENERATOR} -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_CXX_COMPILER=${COMPILER} -D KOLO_WITH_CUDA=OFF -D KOLO_WITH_NCCL=OFF -D KOLO_WITH_TORCH=OFF
  -D KOLO_BUILD_TOOLS=OFF -D KOLO_BUILD_EXAMPLES=OFF -D KOLO_BUILD_BENCH=OFF)
set(tests unit.kernels unit.cuda unit.device multirank.device)
run(${CMAKE_COMMAND} --build ${build} --parallel 2 --target ${tests})
string(REPLACE ";" "|" names "${tests}")
run(${CMAKE_CTEST_COMMAND} --test-dir ${build} --output-on-failure --no-tests=error -R "^(${names})$")
file(REMOVE_RECURSE ${build})
