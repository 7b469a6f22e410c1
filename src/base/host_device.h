#pragma once
// KOLO_HOST_DEVICE before a function: nvcc compiles it for the device too, other compilers see nothing. Such a function
// and what it includes keep to C++17.
#ifdef __CUDACC__
#define KOLO_HOST_DEVICE __host__ __device__
#else
#define KOLO_HOST_DEVICE
#endif
