/* Prints results of `banyan bench` in the columns of nccl-tests, for programs and people that read these. */
#include <inttypes.h>
#include <stdio.h>

#include "bench_values.h"

static const char *type_name(enum banyan_dtype dtype) {
  switch (dtype) {
  case BANYAN_FLOAT64: return "double";
  case BANYAN_FLOAT16: return "half";
  case BANYAN_BFLOAT16: return "bfloat16";
  case BANYAN_INT8: return "int8";
  case BANYAN_UINT8: return "uint8";
  case BANYAN_INT32: return "int32";
  case BANYAN_INT64: return "int64";
  default: return "float";
  }
}

static bool has_root(enum banyan_collective collective) {
  return collective == BANYAN_REDUCE || collective == BANYAN_BROADCAST || collective == BANYAN_GATHER ||
         collective == BANYAN_SCATTER;
}

void by_nccl_print_head(const struct by_bench_case *c, int hosts) {
  printf("# banyan bench %s: %d ranks on %d host%s; time: median of the slowest rank; in place: none is N/A\n#\n",
         by_bench_collective_name(c), c->ranks, hosts, hosts == 1 ? "" : "s");
  printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "", "",
         "", "");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size", "count", "type", "redop",
         "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "(B)", "(elements)", "", "", "",
         "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

/* As nccl-tests do: fewer digits for larger times. */
static void print_time(double us) {
  printf("  %7.*f", us < 100 ? 2 : us < 1000 ? 1 : 0, us);
}

void by_nccl_print_case(const struct by_bench_case *c) {
  printf("%12zu  %12zu  %8s  %6s  %6d", c->bytes, c->count, type_name(c->dtype),
         by_bench_reduces(c) ? banyan_op_name(c->op) : "none", has_root(c->collective) ? c->root : -1);
}

double by_nccl_print_result(const struct by_bench_case *c, double seconds, bool checked, uint64_t wrong) {
  double algbw = seconds > 0 ? (double)c->bytes / seconds / 1e9 : 0, busbw = algbw * by_bench_bus_factor(c);
  print_time(seconds * 1e6);
  printf("  %6.2f  %6.2f", algbw, busbw);
  if (checked)
    printf("  %6" PRIu64, wrong);
  else
    printf("  %6s", "N/A");
  return busbw;
}

void by_nccl_print_absent(void) {
  printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
}

void by_nccl_print_end(uint64_t wrong, double mean_busbw) {
  printf("# Out of bounds values : %" PRIu64 " %s\n# Avg bus bandwidth    : %g\n#\n", wrong, wrong ? "FAILED" : "OK",
         mean_busbw);
}
