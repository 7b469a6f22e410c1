# Code of the libraries. Only what include/kolo/detail/export.h marks is visible to programs.
function(kolo_library_code target)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# kolo_library(<target> <object libraries>... LINK <libraries>...): a library that programs link. <target>_internal is an
# archive of the same objects, for tests and tools that use what the library hides. BUILD_SHARED_LIBS=OFF makes the
# library an archive too.
function(kolo_library target)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  set(type SHARED)
  if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
    set(type STATIC)
  endif()
  add_library(${target} ${type} ${objects})
  add_library(${target}_internal STATIC EXCLUDE_FROM_ALL ${objects})
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
  foreach(library ${target} ${target}_internal)
    target_link_libraries(${library} PRIVATE ${arg_LINK})
    target_include_directories(${library} PUBLIC
      $<BUILD_INTERFACE:${kolo_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    target_compile_features(${library} PUBLIC cxx_std_20)
  endforeach()
  # nodelete: exit handlers outlive a dlclose(). Bsymbolic: if the library used the typeinfo in a plug-in, dlclose() could
  # not unload the plug-in. The version script also hides templates of the standard library.
  if(type STREQUAL SHARED)
    target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,-Bsymbolic
      -Wl,--version-script=${kolo_SOURCE_DIR}/cmake/kolo.map)
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
