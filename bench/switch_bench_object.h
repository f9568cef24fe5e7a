/* The programs of switch_bench.bpf.c, as bytes (scripts/embed). */
#ifndef BY_BENCH_SWITCH_BENCH_OBJECT_H
#define BY_BENCH_SWITCH_BENCH_OBJECT_H

#include <stddef.h>

extern const unsigned char by_bench_object[];
extern const size_t by_bench_object_bytes;

#endif
