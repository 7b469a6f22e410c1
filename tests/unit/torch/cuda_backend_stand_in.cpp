// A library in the place of libtorch_cuda.so, with as many GPUs as the build says, for tests of how it is looked for.
extern "C" {
int cudaGetDeviceCount(int* count) {
  *count = GPUS;
  return GPUS > 0 ? 0 : 100;
}
const char* cudaGetErrorString(int) { return "no CUDA-capable device is detected"; }
int cudaDeviceGetPCIBusId(char* text, int, int device) {
  text[0] = static_cast<char>('A' + device);
  text[1] = '\0';
  return 0;
}
}
