/* The reference, and the only level of machines without AVX2: plain C. */
#define LEVEL by_kernel_scalar
#include "level_body.h"
