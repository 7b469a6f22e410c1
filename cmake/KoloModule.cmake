# Code of the libraries, whatever a consumer sets for its own: cmake/kolo.map says which symbols programs see.
function(kolo_library_code target)
  set_property(TARGET ${target} PROPERTY POSITION_INDEPENDENT_CODE ON)
  set_property(TARGET ${target} PROPERTY VISIBILITY_INLINES_HIDDEN OFF)
  set_property(TARGET ${target} PROPERTY CXX_VISIBILITY_PRESET)
endfunction()

# kolo_library(<target> <sources>...): a library that programs link; an archive if BUILD_SHARED_LIBS is OFF.
function(kolo_library target)
  set(type SHARED)
  if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
    set(type STATIC)
  endif()
  add_library(${target} ${type} ${ARGN})
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
  kolo_library_code(${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${kolo_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Never unloaded: exit handlers outlive a dlclose().
  if(type STREQUAL SHARED)
    target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,--version-script=${kolo_SOURCE_DIR}/cmake/kolo.map)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${kolo_SOURCE_DIR}/cmake/kolo.map)
  else()
    target_link_options(${target} INTERFACE -Wl,-z,nodelete)
  endif()
endfunction()

# kolo_module(<name> SOURCES ... [DEPENDS modules...] [LINK libraries...])
# One folder of src/ as an object library kolo_<name>; all of them together are kolo::kolo.
function(kolo_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(kolo_${name} OBJECT ${arg_SOURCES})
  target_include_directories(kolo_${name} PUBLIC
    $<BUILD_INTERFACE:${kolo_SOURCE_DIR}/include> $<BUILD_INTERFACE:${kolo_SOURCE_DIR}/src>
    $<BUILD_INTERFACE:${kolo_SOURCE_DIR}>)
  target_compile_features(kolo_${name} PUBLIC cxx_std_20)
  target_link_libraries(kolo_${name} PRIVATE kolo_warnings)
  kolo_library_code(kolo_${name})
  foreach(module IN LISTS arg_DEPENDS)
    target_link_libraries(kolo_${name} PUBLIC kolo_${module})
  endforeach()
  target_link_libraries(kolo_${name} PRIVATE ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY KOLO_MODULES kolo_${name})
  set_property(GLOBAL APPEND PROPERTY KOLO_MODULE_LIBRARIES ${arg_LINK})
endfunction()
