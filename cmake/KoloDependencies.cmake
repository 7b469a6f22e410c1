# Third parties as targets. Each target that an installed kolo needs again is found again by KoloConfig.cmake.in.
find_package(Threads REQUIRED)

find_path(KOLO_PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
find_path(KOLO_XXHASH_INCLUDE xxhash.h)
find_path(KOLO_SPDLOG_INCLUDE spdlog/spdlog.h)
foreach(needed PROTOZERO_INCLUDE XXHASH_INCLUDE SPDLOG_INCLUDE)
  if(NOT KOLO_${needed})
    message(FATAL_ERROR "KOLO_${needed} not found: install libprotozero-dev libxxhash-dev libspdlog-dev, or run script/setup")
  endif()
endforeach()

# Images. Found here because imported targets are seen only below the folder that found them.
if(KOLO_WITH_DATA)
  find_package(JPEG REQUIRED)
  find_package(PNG REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)

set(KOLO_HAVE_MPI OFF)
if(NOT KOLO_WITH_MPI STREQUAL OFF)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX QUIET)
  if(MPI_CXX_FOUND)
    set(KOLO_HAVE_MPI ON)
  elseif(KOLO_WITH_MPI STREQUAL ON)
    message(FATAL_ERROR "KOLO_WITH_MPI=ON, but no MPI was found: install libopenmpi-dev and openmpi-bin, or run script/setup")
  endif()
endif()

# LibTorch's CPU set, without find_package(Torch), which insists on a CUDA toolkit. Looked for in KOLO_TORCH_DIR,
# CMAKE_PREFIX_PATH and .deps/torch, in this order.
set(KOLO_HAVE_TORCH OFF)
if(NOT KOLO_WITH_TORCH STREQUAL OFF)
  include(KoloFindTorch)
  kolo_find_torch(HINTS ${kolo_SOURCE_DIR}/.deps/torch)
  if(TARGET kolo_libtorch)
    set(KOLO_HAVE_TORCH ON)
  elseif(KOLO_WITH_TORCH STREQUAL ON)
    set(asked ${KOLO_TORCH_DIR} $ENV{KOLO_TORCH_DIR})
    if(asked)
      set(asked " (KOLO_TORCH_DIR=${asked} holds no lib/libtorch_cpu.so with its include folder beside lib)")
    endif()
    message(FATAL_ERROR "KOLO_WITH_TORCH=ON, but no LibTorch was found${asked}: run script/setup, or set KOLO_TORCH_DIR to its folder")
  endif()
endif()

include(KoloFindNvcc)
message(STATUS "kolo: MPI ${KOLO_HAVE_MPI}, LibTorch ${KOLO_HAVE_TORCH}, CUDA device code ${KOLO_HAVE_CUDA}, NCCL ${KOLO_HAVE_NCCL}")
