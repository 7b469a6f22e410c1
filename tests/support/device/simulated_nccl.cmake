# NCCL for ranks as threads, on the simulated device.
target_sources(kolo_simulated_device PRIVATE nccl_arithmetic.cpp nccl_core.cpp nccl_meeting.cpp
  simulated_nccl.cpp simulated_nccl_calls.cpp)
if(KOLO_HAVE_NCCL)
  target_sources(kolo_simulated_device PRIVATE simulated_library.cpp)
else()
  target_sources(kolo_simulated_device PRIVATE no_simulated_library.cpp)
endif()
