#pragma once

// One copy of each loop per vector width, chosen when the library is loaded. Sanitizers run before that choice works.
// Tests define it as nothing and compile the loops for one width.
#if defined(KOLO_VECTOR_CLONES)
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KOLO_VECTOR_CLONES
#endif
