#include "bench_print.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

static const char *op_name(const struct by_bench_case *c) {
  return by_bench_reduces(c) ? banyan_op_name(c->op) : "none";
}

static void print_plan(const struct banyan_plan_info *plan) {
  char rate[32];
  printf("# plan %s (%s%s)", plan->name, banyan_plan_source_name(plan->source),
         *plan->part ? ", by size, see the last column" : "");
  if (plan->throughput > 0) printf(", expected to carry %s", by_print_rate(plan->throughput, rate));
  if (plan->bound > 0) printf(", bound %s", by_print_rate(plan->bound, rate));
  printf("\n");
}

void by_bench_print_head(const struct by_bench_case *c, const struct by_bench_setting *setting,
                         const struct banyan_plan_info *plan) {
  if (setting->json) return;
  printf("# %s, %s, %s; %d ranks on %d host%s; transport %s, congestion control %s%s%s\n", by_bench_collective_name(c),
         banyan_dtype_name(c->dtype), op_name(c), c->ranks, setting->hosts, setting->hosts == 1 ? "" : "s",
         setting->transport, setting->congestion, setting->registered ? ", registered" : "",
         c->in_place ? ", in place" : "");
  print_plan(plan);
  printf("# %10s %6s %11s %11s %11s %9s %9s %9s %9s %7s%s  plan\n", "bytes", "calls", "median", "least", "most",
         "algbw", "busbw", "algbw", "busbw", "wrong", setting->counters ? "   frames   sleeps    wakes  allocs" : "");
  printf("# %10s %6s %11s %11s %11s %9s %9s %9s %9s %7s%s\n", "", "", "us", "us", "us", "Gbit/s", "Gbit/s", "GB/s",
         "GB/s", "", setting->counters ? "  /call    /call    /call" : "");
  fflush(stdout);
}

static void print_row(const struct by_bench_case *c, const struct by_bench_setting *setting,
                      const struct banyan_plan_info *plan, const struct by_bench_result *r, double algbw,
                      double busbw) {
  printf("  %10zu %6ld %11.2f %11.2f %11.2f %9.3f %9.3f %9.3f %9.3f %7" PRIu64, c->bytes, r->calls, r->median * 1e6,
         r->least * 1e6, r->most * 1e6, algbw / 1e9, busbw / 1e9, algbw / 8e9, busbw / 8e9, r->wrong);
  if (setting->counters) printf(" %8.2f %8.3f %8.3f %7" PRIu64, r->frames, r->sleeps, r->wakes, r->allocations);
  printf("  %s\n", *plan->part ? plan->part : plan->name);
}

static json_t *describe_plan(const struct banyan_plan_info *plan) {
  json_t *object = json_pack("{s:s, s:s, s:s}", "plan_name", plan->name, "plan_source",
                             banyan_plan_source_name(plan->source), "plan_part", plan->part);
  if (object && plan->throughput > 0)
    (void)!json_object_set_new(object, "plan_throughput", json_real(plan->throughput));
  if (object && plan->bound > 0) (void)!json_object_set_new(object, "plan_bound", json_real(plan->bound));
  return object;
}

static json_t *describe(const struct by_bench_case *c, const struct by_bench_setting *setting) {
  return json_pack("{s:s, s:s, s:I, s:s, s:s, s:i, s:s, s:s, s:b, s:b, s:s}", "impl", "banyan", "collective",
                   by_bench_collective_name(c), "bytes", (json_int_t)c->bytes, "dtype", banyan_dtype_name(c->dtype),
                   "op", op_name(c), "ranks", c->ranks, "transport", setting->transport, "plan", setting->plan,
                   "registered", setting->registered, "in_place", c->in_place, "cc", setting->congestion);
}

static void print_json(const struct by_bench_case *c, const struct by_bench_setting *setting,
                       const struct banyan_plan_info *plan, const struct by_bench_result *r, double algbw,
                       double busbw) {
  json_t *object = describe(c, setting), *of_plan = describe_plan(plan);
  json_t *figures =
      json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:I}", "calls", (json_int_t)r->calls, "time_us",
                r->median * 1e6, "min_us", r->least * 1e6, "max_us", r->most * 1e6, "algbw", algbw, "busbw", busbw,
                "wrong", (json_int_t)r->wrong, "frames_per_call", r->frames, "sleeps_per_call", r->sleeps,
                "wakes_per_call", r->wakes, "allocations", (json_int_t)r->allocations);
  if (object && figures && of_plan && !json_object_update(object, figures) && !json_object_update(object, of_plan)) {
    char *text = json_dumps(object, JSON_REAL_PRECISION(8));
    if (text) puts(text);
    free(text);
  }
  json_decref(of_plan);
  json_decref(figures);
  json_decref(object);
}

void by_bench_print(const struct by_bench_case *c, const struct by_bench_setting *setting,
                    const struct banyan_plan_info *plan, const struct by_bench_result *result) {
  double algbw = result->median > 0 ? 8 * (double)c->bytes / result->median : 0;
  double busbw = algbw * by_bench_bus_factor(c);
  (setting->json ? print_json : print_row)(c, setting, plan, result, algbw, busbw);
  fflush(stdout);
}
