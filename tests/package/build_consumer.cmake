# Run by ctest with WAY=find_package, add_subdirectory, static or static_package: builds the programs in consumer/ against
# this kolo, and runs them.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

# Installed files name neither the source nor the build: they must work on another machine.
function(check_relocatable prefix build)
  file(GLOB_RECURSE files ${prefix}/*.cmake ${prefix}/*.h)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    foreach(folder ${KOLO_SOURCE} ${build})
      string(FIND "${text}" "${folder}/" position)
      if(NOT position EQUAL -1)
        message(FATAL_ERROR "${file} names ${folder}")
      endif()
    endforeach()
  endforeach()
  find_program(readelf readelf)
  file(GLOB libraries ${prefix}/lib*/*.so ${prefix}/lib*/*/*.so ${prefix}/bin/*)
  foreach(library IN LISTS libraries)
    execute_process(COMMAND ${readelf} -d ${library} OUTPUT_VARIABLE text)
    string(REGEX MATCH "RUNPATH[^\n]*" runpath "${text}")
    if(NOT runpath MATCHES "\\[\\$ORIGIN[^:]*\\]")
      message(FATAL_ERROR "${library}: its runpath is '${runpath}'")
    endif()
  endforeach()
  file(GLOB_RECURSE torch_headers ${prefix}/include/kolo/torch/*.h)
  if(NOT TORCH AND torch_headers)
    message(FATAL_ERROR "installed without LibTorch, and yet with ${torch_headers}")
  endif()
endfunction()

# Beside kolo's own build, as deep in the tree: so ccache, to which paths are relative, has what was compiled there.
set(build ${KOLO_BUILD}-${WAY})
set(ENV{CCACHE_BASEDIR} ${KOLO_SOURCE})
set(ENV{CCACHE_NOHASHDIR} true)
file(REMOVE_RECURSE ${SCRATCH} ${build})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer DESTINATION ${SCRATCH})
set(configure ${CMAKE_COMMAND} -S ${SCRATCH}/consumer -G ${GENERATOR} -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CONSUMER_WAY=${WAY}
  -D CONSUMER_TORCH=${TORCH})

set(kolo_build ${KOLO_BUILD})
if(WAY STREQUAL static_package)
  set(kolo_build ${KOLO_BUILD}-static_kolo)
  run(${CMAKE_COMMAND} -S ${KOLO_SOURCE} -B ${kolo_build} -G ${GENERATOR} -D CMAKE_BUILD_TYPE=Release
    -D CMAKE_CXX_COMPILER=${COMPILER} -D BUILD_SHARED_LIBS=OFF -D KOLO_TORCH_DIR=${TORCH}
    -D KOLO_BUILD_TESTS=OFF -D KOLO_BUILD_TOOLS=OFF -D KOLO_BUILD_EXAMPLES=OFF -D KOLO_BUILD_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${kolo_build} --parallel 2)
endif()
if(WAY MATCHES package)
  run(${CMAKE_COMMAND} --install ${kolo_build} --prefix ${SCRATCH}/first)
  # Moved after it was installed: nothing may depend on where it was.
  file(RENAME ${SCRATCH}/first ${SCRATCH}/prefix)
  check_relocatable(${SCRATCH}/prefix ${kolo_build})
  list(APPEND configure -D CMAKE_PREFIX_PATH=${SCRATCH}/prefix)
else()
  list(APPEND configure -D KOLO_SOURCE=${KOLO_SOURCE})
  if(NOT TORCH)
    list(APPEND configure -D KOLO_WITH_TORCH=OFF)
  endif()
  if(WAY STREQUAL static)
    list(APPEND configure -D BUILD_SHARED_LIBS=OFF)
  else()  # a consumer that hides its own symbols
    list(APPEND configure -D CMAKE_CXX_VISIBILITY_PRESET=hidden -D CMAKE_VISIBILITY_INLINES_HIDDEN=ON)
  endif()
endif()

if(WAY STREQUAL find_package AND TORCH)
  # Asked for and not there is an error that says what to do.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=KOLO_TORCH_DIR --unset=CMAKE_PREFIX_PATH
      ${configure} -B ${SCRATCH}/without -D CONSUMER_HIDES_TORCH=ON
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
  if(status EQUAL 0 OR NOT said MATCHES "KOLO_TORCH_DIR")
    message(FATAL_ERROR "a missing LibTorch is not reported well: ${status} ${said}")
  endif()
endif()

run(${configure} -B ${build})
run(${CMAKE_COMMAND} --build ${build} --parallel 2)
# Programs of a consumer go where the consumer wants them, and kolo brings no tests, tools or examples of its own.
if(NOT EXISTS ${build}/consumer)
  message(FATAL_ERROR "the consumer's program is not in its build folder")
endif()
if(EXISTS ${build}/bin)
  message(FATAL_ERROR "kolo put programs into the consumer's build")
endif()
file(GLOB_RECURSE shared ${build}/libkolo*.so ${SCRATCH}/prefix/libkolo*.so)
if(WAY MATCHES static AND shared)
  message(FATAL_ERROR "BUILD_SHARED_LIBS=OFF made ${shared}")
endif()
run(${build}/consumer)
set(stays)
if(WAY MATCHES static)
  set(stays stays)
endif()
run(${build}/load_plugin ${build}/libplugin.so ${stays})
run(${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 ${build}/sanitized_consumer)  # Open MPI leaks
if(TORCH)
  run(${build}/torch_consumer)
endif()
file(REMOVE_RECURSE ${build})
if(WAY STREQUAL static_package)
  file(REMOVE_RECURSE ${kolo_build})
endif()
