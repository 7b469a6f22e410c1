# Features are AUTO (used when found), ON (missing is an error that says what to install) or OFF.
foreach(feature MPI TORCH CUDA NCCL)
  set(KOLO_WITH_${feature} AUTO CACHE STRING "Use ${feature}: AUTO, ON or OFF")
  set_property(CACHE KOLO_WITH_${feature} PROPERTY STRINGS AUTO ON OFF)
  if(NOT KOLO_WITH_${feature} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "KOLO_WITH_${feature} is '${KOLO_WITH_${feature}}'; it must be AUTO, ON or OFF")
  endif()
endforeach()

# CUDA: device code is compiled; a program finds CUDA itself at run time, with or without it. NCCL: kolo's code for it is
# compiled; it takes nothing to build, because NCCL too is found at run time.
set(KOLO_HAVE_NCCL ON)
if(KOLO_WITH_NCCL STREQUAL OFF)
  set(KOLO_HAVE_NCCL OFF)
endif()

option(KOLO_WITH_DATA "Build kolo::data, images and loaders; needs libjpeg and libpng" ON)
option(KOLO_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(KOLO_BUILD_TOOLS "Build the kolo program" ${PROJECT_IS_TOP_LEVEL})
option(KOLO_BUILD_EXAMPLES "Build the examples and the trainer" ${PROJECT_IS_TOP_LEVEL})
option(KOLO_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(KOLO_WITH_FUZZERS "Build the fuzzers of tests/fuzz for libFuzzer (clang only); see script/fuzz" OFF)
option(KOLO_PRECOMPILED_HEADERS "Precompile the headers of GoogleTest and LibTorch for the tests (g++ only)" ON)
option(KOLO_INSTALL "Install kolo with the project that builds it" ${PROJECT_IS_TOP_LEVEL})
set(KOLO_SANITIZE "" CACHE STRING "Sanitizers for everything kolo builds, e.g. address,undefined or thread")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
get_property(has_several_build_types GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT has_several_build_types)
  message(WARNING "kolo is compiled without optimization: set CMAKE_BUILD_TYPE, e.g. to Release")
endif()
if(PROJECT_IS_TOP_LEVEL)
  find_program(KOLO_CCACHE ccache)
  if(KOLO_CCACHE)
    # What it must be told before it keeps results of files that use precompiled headers, and before one checkout finds
    # those of another; but not for debuggers, which need the checkout's path.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
    if(KOLO_SANITIZE OR NOT CMAKE_BUILD_TYPE MATCHES Deb)
      list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_NOHASHDIR=true)
    endif()
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${KOLO_CCACHE})
  endif()
endif()
if(KOLO_WITH_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "KOLO_WITH_FUZZERS=ON needs clang, whose libFuzzer it is: use script/fuzz, or set CMAKE_CXX_COMPILER to clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
  set(CMAKE_OPTIMIZE_DEPENDENCIES ON)  # only the modules that are fuzzed, not those whose headers they see
endif()
if(KOLO_SANITIZE)
  # Lines for the reports, without more of debug information (a third less to compile) and without the checkout's path.
  add_compile_options(-fsanitize=${KOLO_SANITIZE} -fno-omit-frame-pointer -g1 -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.)
  add_link_options(-fsanitize=${KOLO_SANITIZE})
endif()

add_library(kolo_warnings INTERFACE)
target_compile_options(kolo_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # false alarms in g++ 12's std::string
