# Defines the imported target kolo_libtorch: the headers and the CPU libraries of a LibTorch, found in KOLO_TORCH_DIR, the
# environment's KOLO_TORCH_DIR, CMAKE_PREFIX_PATH, or a hint. Installed too: a consumer finds its own LibTorch the same way.
function(kolo_find_torch)
  cmake_parse_arguments(arg "" "" "HINTS" ${ARGN})
  if(TARGET kolo_libtorch)
    return()
  endif()
  set(candidates ${KOLO_TORCH_DIR} $ENV{KOLO_TORCH_DIR})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH from_environment)
    list(APPEND candidates ${prefix} ${prefix}/../..)
  endforeach()
  list(APPEND candidates ${arg_HINTS})
  foreach(folder IN LISTS candidates)
    if(EXISTS ${folder}/lib/libtorch_cpu.so AND EXISTS ${folder}/include/torch/csrc/api/include/torch/torch.h)
      get_filename_component(folder ${folder} REALPATH)
      add_library(kolo_libtorch INTERFACE IMPORTED GLOBAL)
      set_target_properties(kolo_libtorch PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${folder}/include;${folder}/include/torch/csrc/api/include"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${folder}/include;${folder}/include/torch/csrc/api/include"
        INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1"
        INTERFACE_LINK_LIBRARIES "${folder}/lib/libtorch_cpu.so;${folder}/lib/libc10.so"
        INTERFACE_LINK_OPTIONS "-Wl,-rpath-link,${folder}/lib")  # CMake's own rpath finds it at run time
      set(KOLO_TORCH_FOLDER ${folder} PARENT_SCOPE)
      message(STATUS "kolo: LibTorch in ${folder}")
      return()
    endif()
  endforeach()
endfunction()
