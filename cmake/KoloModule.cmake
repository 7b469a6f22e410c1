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
  set_target_properties(kolo_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  foreach(module IN LISTS arg_DEPENDS)
    target_link_libraries(kolo_${name} PUBLIC kolo_${module})
  endforeach()
  target_link_libraries(kolo_${name} PRIVATE ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY KOLO_MODULES kolo_${name})
  set_property(GLOBAL APPEND PROPERTY KOLO_MODULE_LIBRARIES ${arg_LINK})
endfunction()
