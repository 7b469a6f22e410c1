// A library that is new enough and lacks what a CUDA runtime has.
extern "C" int cudaRuntimeGetVersion(int* version) {
  *version = 13010;
  return 0;
}
