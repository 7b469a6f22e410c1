# cmake -D PROGRAM=.../kolo -D DOCUMENT=docs/configuration.md -P this
execute_process(COMMAND ${PROGRAM} config --markdown OUTPUT_VARIABLE printed RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "kolo config --markdown: ${result}")
endif()
file(READ ${DOCUMENT} written)
if(NOT printed STREQUAL written)
  message(FATAL_ERROR "docs/configuration.md is out of date: kolo config --markdown > docs/configuration.md")
endif()
