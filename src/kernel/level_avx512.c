/* 64-byte vectors: compiled for AVX-512 F, BW, DQ and VL. */
#include <immintrin.h>

#define LEVEL by_kernel_avx512
#define WIDTH 64
#define F16C
#include "level_body.h"
