kolo_test(unit.config LABELS unit SOURCES
  runtime/agree_on_settings_test.cpp runtime/choose_network_test.cpp runtime/device_agreement_test.cpp runtime/config_values_test.cpp runtime/config_table_test.cpp)
kolo_test(unit.create_local LABELS unit PROCESSORS 2 SOURCES runtime/create_local_test.cpp)
kolo_test(unit.gather_texts LABELS unit PROCESSORS 2 SOURCES runtime/gather_texts_test.cpp)
kolo_test(unit.recording LABELS unit PROCESSORS 2 SOURCES runtime/recording_test.cpp)
if(KOLO_HAVE_MPI)
  kolo_test(unit.recording_processes LABELS unit PROCESSES 2 3 SOURCES runtime/recording_processes_test.cpp)
endif()
kolo_test(unit.start_line LABELS unit LINK kolo_simulated_device SOURCES runtime/start_line_test.cpp)

if(TARGET kolo_program)
  # docs/configuration.md is what `kolo config --markdown` prints.
  add_test(NAME unit.configuration_doc COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:kolo_program>
    -D DOCUMENT=${kolo_SOURCE_DIR}/docs/configuration.md -P ${CMAKE_CURRENT_LIST_DIR}/runtime/compare_configuration.cmake)
  set_tests_properties(unit.configuration_doc PROPERTIES LABELS unit TIMEOUT 60)
endif()
