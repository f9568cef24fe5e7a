/* 32-byte vectors: compiled for AVX2 and F16C. */
#include <immintrin.h>

#define LEVEL by_kernel_avx2
#define WIDTH 32
#define F16C
#include "level_body.h"
