# Sets KOLO_HAVE_CUDA, and KOLO_NVCC: the compiler of device code. Only nvcc is needed, and only to build: what a program
# calls of CUDA it finds at run time. Nothing of the toolkit becomes a dependency of whoever uses kolo.
set(KOLO_HAVE_CUDA OFF)
set(KOLO_CUDA_ARCHITECTURES "80;90" CACHE STRING
  "Devices that get machine code, by compute capability; newer ones compile the last one's intermediate code when first used")
if(KOLO_WITH_CUDA STREQUAL OFF)
  return()
endif()

# Whether `nvcc` works with this host compiler and knows every architecture, once for each such set; `why_not` says what
# it answered.
function(kolo_try_nvcc nvcc why_not)
  set(key "${nvcc} ${CMAKE_CXX_COMPILER} ${KOLO_CUDA_ARCHITECTURES}")
  if(key STREQUAL "${KOLO_NVCC_WORKS_AS}")
    return()
  endif()
  set(folder ${kolo_BINARY_DIR}/CMakeFiles/KoloNvcc)
  file(WRITE ${folder}/try.cu "#include <cstring>\n__global__ void f(const __grid_constant__ int a) { memset(0, a, 1); }\n")
  execute_process(COMMAND ${nvcc} ${KOLO_NVCC_FLAGS} -fatbin ${folder}/try.cu -o ${folder}/try.fatbin
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(status EQUAL 0)
    set(KOLO_NVCC_WORKS_AS "${key}" CACHE INTERNAL "")
  else()
    set(${why_not} "${nvcc} does not work: ${said}" PARENT_SCOPE)
  endif()
endfunction()

find_program(KOLO_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin
  DOC "nvcc of NVIDIA's CUDA toolkit, 12.0 or newer")
# -fmad=false: a fused multiply-add rounds once less, and the host's bodies have none. Not compressed: a test reads it.
set(KOLO_NVCC_FLAGS -std=c++17 -O3 -fmad=false --no-compress -ccbin ${CMAKE_CXX_COMPILER})
foreach(architecture IN LISTS KOLO_CUDA_ARCHITECTURES)
  list(APPEND KOLO_NVCC_FLAGS -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET KOLO_CUDA_ARCHITECTURES -1 newest)
list(APPEND KOLO_NVCC_FLAGS -gencode arch=compute_${newest},code=compute_${newest})

set(why_not "")
if(NOT KOLO_NVCC)
  set(why_not "no nvcc was found")
else()
  execute_process(COMMAND ${KOLO_NVCC} --version OUTPUT_VARIABLE said ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" said "${said}")
  set(KOLO_NVCC_VERSION "${CMAKE_MATCH_1}")
  if(KOLO_NVCC_VERSION VERSION_LESS 12.0)
    set(why_not "${KOLO_NVCC} says it is of CUDA '${KOLO_NVCC_VERSION}', not of 12.0 or newer")
  else()
    kolo_try_nvcc(${KOLO_NVCC} why_not)
  endif()
endif()
if(NOT why_not)
  set(KOLO_HAVE_CUDA ON)
elseif(KOLO_WITH_CUDA STREQUAL ON)
  message(FATAL_ERROR "KOLO_WITH_CUDA=ON, but ${why_not}\nInstall nvcc 12.0 or newer of NVIDIA's CUDA toolkit, from NVIDIA's "
    "packages (cuda-nvcc and cuda-cudart-dev of its Debian repository; distributions have none that is new enough), and "
    "set KOLO_NVCC to it where it is not in PATH, CUDA_HOME or /usr/local/cuda. Or use AUTO or OFF: kolo then runs "
    "without kernels on devices.")
elseif(KOLO_NVCC)
  message(STATUS "kolo: no device code: ${why_not}")
endif()
