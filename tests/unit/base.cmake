kolo_test(unit.base SOURCES base/adamw_factors_test.cpp base/types_test.cpp base/fields_test.cpp base/strings_test.cpp base/environment_test.cpp base/first_failure_test.cpp base/float16_test.cpp base/keep_for_good_test.cpp
  base/call_limit_test.cpp base/cores_test.cpp base/deadline_test.cpp base/hash_test.cpp base/trials_test.cpp base/unique_fd_test.cpp LABELS unit)
