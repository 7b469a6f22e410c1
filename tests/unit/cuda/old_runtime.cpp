// A CUDA runtime that is too old for kolo.
extern "C" int cudaRuntimeGetVersion(int* version) {
  *version = 12040;
  return 0;
}
