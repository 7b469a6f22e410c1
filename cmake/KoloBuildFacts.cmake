# What `kolo --version` says of a build, one `key value` a line.

# The value that `header` gives a macro, without quotes, or "unknown".
function(kolo_macro_of header macro result)
  set(line "")
  if(EXISTS "${header}")
    file(STRINGS "${header}" line REGEX "^#define[ \t]+${macro}[ \t]" LIMIT_COUNT 1)
  endif()
  set(${result} unknown PARENT_SCOPE)
  if(line MATCHES "^#define[ \t]+${macro}[ \t]+\"?([^\" \t]+)")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# The commit of this checkout, or "unknown". A tarball has no .git: git would answer for a repository around it. A new
# commit configures again.
function(kolo_commit result)
  set(${result} unknown PARENT_SCOPE)
  if(NOT EXISTS ${kolo_SOURCE_DIR}/.git)
    return()
  endif()
  execute_process(COMMAND git rev-parse HEAD --git-path logs/HEAD WORKING_DIRECTORY ${kolo_SOURCE_DIR}
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0 AND said MATCHES "^([0-9a-f]+)\n(.+)$")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    get_filename_component(log ${CMAKE_MATCH_2} ABSOLUTE BASE_DIR ${kolo_SOURCE_DIR})
    if(EXISTS ${log})
      set_property(DIRECTORY ${kolo_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
endfunction()

# Sets `result` to the lines. kolo_program adds those of the compiler's library and of MPI.
function(kolo_build_facts result)
  kolo_commit(commit)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" flags)
  set(sanitizers none)
  if(KOLO_SANITIZE)
    set(sanitizers ${KOLO_SANITIZE})
  endif()
  set(cuda "not built")
  if(KOLO_HAVE_CUDA)
    string(REPLACE ";" " sm_" architectures "sm_${KOLO_CUDA_ARCHITECTURES}")
    set(cuda "${KOLO_NVCC_VERSION} ${architectures}")
  endif()
  set(nccl "not built")
  if(KOLO_HAVE_NCCL)  # its header is optional, for NCCL is found at run time
    kolo_macro_of("${KOLO_NCCL_INCLUDE}/nccl.h" NCCL_MAJOR major)
    kolo_macro_of("${KOLO_NCCL_INCLUDE}/nccl.h" NCCL_MINOR minor)
    kolo_macro_of("${KOLO_NCCL_INCLUDE}/nccl.h" NCCL_PATCH patch)
    set(nccl "header ${major}.${minor}.${patch}")
    if(major STREQUAL unknown)
      set(nccl "built without its header")
    endif()
  endif()
  find_file(KOLO_JPEG_CONFIG jconfig.h HINTS ${JPEG_INCLUDE_DIR} NO_CACHE)
  kolo_macro_of("${KOLO_JPEG_CONFIG}" LIBJPEG_TURBO_VERSION turbo)
  set(jpeg "libjpeg ${JPEG_VERSION}")
  if(NOT turbo STREQUAL unknown)
    set(jpeg "libjpeg-turbo ${turbo}")
  endif()
  string(JOIN "\n" lines
    "kolo ${PROJECT_VERSION}"
    "commit ${commit}"
    "compiler ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    "build_type ${CMAKE_BUILD_TYPE}"
    "cxx_flags ${flags}"
    "sanitizers ${sanitizers}"
    "cpu_kernels ${KOLO_CPU_KERNELS}"
    "cuda ${cuda}"
    "nccl ${nccl}"
    "jpeg ${jpeg}"
    "png libpng ${PNG_VERSION_STRING}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()
