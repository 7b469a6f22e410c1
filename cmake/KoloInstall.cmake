# What `cmake --install` puts where, so that find_package(kolo) gives kolo::kolo, kolo::data and kolo::torch. Nothing installed names a
# folder of the build: a consumer's LibTorch is found again on its machine.
if(NOT KOLO_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(kolo_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)

install(TARGETS kolo EXPORT koloTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT koloTargets NAMESPACE kolo:: DESTINATION ${kolo_package_folder})
install(DIRECTORY ${kolo_SOURCE_DIR}/include/kolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "torch" EXCLUDE PATTERN "fused_optimizer.h" EXCLUDE
  PATTERN "normalize_images.h" EXCLUDE)
set_target_properties(kolo PROPERTIES INSTALL_RPATH "$ORIGIN")

if(TARGET kolo_data)
  install(TARGETS kolo_data EXPORT koloDataTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT koloDataTargets NAMESPACE kolo:: DESTINATION ${kolo_package_folder})
  set_target_properties(kolo_data PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()

if(TARGET kolo_torch)
  install(TARGETS kolo_torch EXPORT koloTorchTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT koloTorchTargets NAMESPACE kolo:: DESTINATION ${kolo_package_folder})
  install(DIRECTORY ${kolo_SOURCE_DIR}/include/kolo/torch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo
    FILES_MATCHING PATTERN "*.h")
  install(FILES ${kolo_SOURCE_DIR}/include/kolo/spi/fused_optimizer.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo/spi)
  install(FILES ${kolo_SOURCE_DIR}/include/kolo/data/normalize_images.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo/data)
  set_target_properties(kolo_torch PROPERTIES EXPORT_NAME torch INSTALL_RPATH "$ORIGIN")
endif()
if(TARGET kolo_program)
  install(TARGETS kolo_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(PROGRAMS ${kolo_SOURCE_DIR}/script/cluster DESTINATION libexec/kolo)  # for `kolo scaling --hosts`
  set_target_properties(kolo_program PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()

get_target_property(kolo_type kolo TYPE)
configure_package_config_file(${kolo_SOURCE_DIR}/cmake/KoloConfig.cmake.in ${kolo_BINARY_DIR}/koloConfig.cmake
  INSTALL_DESTINATION ${kolo_package_folder})
write_basic_package_version_file(${kolo_BINARY_DIR}/koloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${kolo_BINARY_DIR}/koloConfig.cmake ${kolo_BINARY_DIR}/koloConfigVersion.cmake
  ${kolo_SOURCE_DIR}/cmake/KoloFindTorch.cmake DESTINATION ${kolo_package_folder})
install(FILES ${kolo_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kolo)
