/* `banyan bench groups`: AllReduces of several groups of ranks, each group alone and all at the same time, as the
 * groups of a device mesh call. With -n it starts its own ranks, which run it again; otherwise it is a rank of the job
 * that its environment describes. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <banyan/banyan.h>

#include "bench_values.h"
#include "clock.h"
#include "order.h"
#include "process.h"
#include "settings.h"
#include "text.h"

enum { MAX_GROUPS = 64, FIRST_CALLS = 2 };

/* A requested group. Its members have a communicator. */
struct group {
  int *ranks, n;
  struct banyan_comm *comm; /* NULL: this rank is not in it. */
  float *buffer;
  struct banyan_plan_info plan;
  double alone, together; /* Median seconds of the slowest member, on all ranks. */
  uint64_t wrong;
};

struct bench {
  struct by_bench_run run;
  long rounds;
  double wait; /* Seconds to wait for plans. */
  const char *group_list, *size_text;
  bool json;
  uint64_t bytes;
  struct group groups[MAX_GROUPS];
  int n_groups;
  struct banyan_comm *world;
  double all; /* Median seconds until the last group was done. */
};

/* ---- groups */

static enum banyan_status fail_groups(const char *text) {
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "--groups is \"%s\": it must be up to %d lists of two or more different ranks, as in \"0,1/2,3\"",
                 text, MAX_GROUPS);
}

static bool has_rank(const struct group *group, long rank) {
  for (int i = 0; i < group->n; i++)
    if (group->ranks[i] == rank) return true;
  return false;
}

/* Parses one list, up to `end`. */
static bool parse_group(const char *at, const char *end, struct group *group) {
  group->ranks = by_cli_alloc(NULL, ((size_t)(end - at) / 2 + 1) * sizeof *group->ranks);
  while (at < end) {
    char *after;
    long rank = strtol(at, &after, 10);
    if (after == at || *at < '0' || *at > '9' || rank >= BY_MAX_RANKS || has_rank(group, rank)) return false;
    group->ranks[group->n++] = (int)rank;
    at = after;
    if (at < end && *at++ != ',') return false;
  }
  return group->n >= 2 && end[-1] != ',';
}

static enum banyan_status parse_groups(struct bench *b) {
  const char *at = b->group_list;
  for (;;) {
    const char *end = at + strcspn(at, "/");
    if (b->n_groups == MAX_GROUPS || !parse_group(at, end, &b->groups[b->n_groups++]))
      return fail_groups(b->group_list);
    if (!*end) return BANYAN_OK;
    at = end + 1;
  }
}

/* Makes the rows and columns of a mesh of two rows, without --groups. */
static enum banyan_status make_mesh(struct bench *b, int size) {
  if (size < 4 || size % 2)
    return by_fail(BANYAN_ERR_ARGUMENT, "%d ranks are no mesh of two rows: give --groups, as in \"0,1/1,2\"", size);
  for (int g = 0; g < 2 + size / 2 && g < MAX_GROUPS; g++) {
    struct group *group = &b->groups[b->n_groups++];
    group->n = g < 2 ? size / 2 : 2;
    group->ranks = by_cli_alloc(NULL, (size_t)group->n * sizeof *group->ranks);
    for (int i = 0; i < group->n; i++) group->ranks[i] = g < 2 ? g * (size / 2) + i : i * (size / 2) + g - 2;
  }
  return BANYAN_OK;
}

static enum banyan_status open_groups(struct bench *b) {
  int rank = banyan_comm_rank(b->world), size = banyan_comm_size(b->world);
  if (!b->n_groups) BY_TRY(make_mesh(b, size));
  for (int g = 0; g < b->n_groups; g++) {
    struct group *group = &b->groups[g];
    for (int i = 0; i < group->n; i++)
      if (group->ranks[i] >= size)
        return by_fail(BANYAN_ERR_ARGUMENT, "--groups has rank %d, but there are %d", group->ranks[i], size);
    if (!has_rank(group, rank)) continue;
    group->buffer = by_cli_alloc(NULL, b->bytes);
    BY_TRY(banyan_comm_subset(b->world, group->ranks, group->n, (uint32_t)g, &group->comm));
  }
  return BANYAN_OK;
}

/* ---- calls */

/* Returns a small integer, so that sums are exact in any order. */
static float value_at(size_t i, int rank) {
  return (float)((i * 7 + (size_t)rank * 3) % 11);
}

static void fill_buffer(const struct bench *b, struct group *group) {
  int rank = banyan_comm_rank(group->comm);
  for (size_t i = 0; i < b->bytes / sizeof(float); i++) group->buffer[i] = value_at(i, rank);
}

static void count_wrong(const struct bench *b, struct group *group) {
  for (size_t i = 0; i < b->bytes / sizeof(float); i++) {
    float sum = 0;
    for (int r = 0; r < group->n; r++) sum += value_at(i, r);
    group->wrong += group->buffer[i] != sum;
  }
}

static enum banyan_status start_calls(const struct bench *b, struct group *group, struct banyan_request **out) {
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .send = group->buffer,
                             .recv = group->buffer,
                             .count = b->bytes / sizeof(float),
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM};
  return banyan_start(group->comm, &call, out);
}

/* Makes the calls of n groups from `first` on; all members begin at the same time. seconds[g]: of the slowest member of
 * each; seconds[n_groups]: of all of them. */
static enum banyan_status call_at_once(struct bench *b, int first, int n, double *seconds) {
  struct banyan_request *requests[MAX_GROUPS] = {NULL};
  for (int g = first; g < first + n; g++)
    if (b->groups[g].comm) fill_buffer(b, &b->groups[g]);
  memset(seconds, 0, ((size_t)b->n_groups + 1) * sizeof *seconds);
  BY_TRY(banyan_barrier(b->world));
  uint64_t begin = by_clock_now(&by_clock_system);
  for (int g = first; g < first + n; g++)
    if (b->groups[g].comm) BY_TRY(start_calls(b, &b->groups[g], &requests[g]));
  for (int g = first; g < first + n; g++) {
    size_t done = 0;
    if (!b->groups[g].comm) continue; /* As often as there are requests. */
    BY_TRY(banyan_wait_any(requests, MAX_GROUPS, &done));
    seconds[done] = seconds[b->n_groups] = (double)(by_clock_now(&by_clock_system) - begin) * 1e-9;
  }
  for (int g = first; g < first + n; g++)
    if (b->groups[g].comm) count_wrong(b, &b->groups[g]);
  return banyan_allreduce(b->world, seconds, seconds, (size_t)b->n_groups + 1, BANYAN_FLOAT64, BANYAN_MAX);
}

/* Computes the medians of the timed rounds, for each group and for all. */
static enum banyan_status time_groups(struct bench *b, int first, int n, double *median) {
  size_t each = (size_t)b->n_groups + 1, rounds = (size_t)b->rounds;
  double *seconds = by_cli_alloc(NULL, each * sizeof *seconds),
         *column = by_cli_alloc(NULL, rounds * each * sizeof *column);
  enum banyan_status status = BANYAN_OK;
  for (int k = 0; k < FIRST_CALLS && status == BANYAN_OK; k++) status = call_at_once(b, first, n, seconds);
  for (size_t k = 0; k < rounds && status == BANYAN_OK; k++) {
    status = call_at_once(b, first, n, seconds);
    for (size_t g = 0; g < each; g++) column[g * rounds + k] = seconds[g];
  }
  for (size_t g = 0; g < each && status == BANYAN_OK; g++) median[g] = by_median(&column[g * rounds], rounds);
  free(seconds);
  free(column);
  return status;
}

/* Makes calls until every group has a plan other than a built-in one, or the time is over. */
static enum banyan_status wait_for_plans(struct bench *b) {
  uint64_t until = by_clock_now(&by_clock_system) + by_clock_from_seconds(b->wait);
  for (int32_t missing = 1; missing > 0;) {
    missing = 0;
    for (int g = 0; g < b->n_groups; g++) {
      int32_t one = 1;
      if (!b->groups[g].comm) continue;
      BY_TRY(banyan_allreduce(b->groups[g].comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
      BY_TRY(banyan_comm_plan(b->groups[g].comm, b->bytes, &b->groups[g].plan));
      missing += b->groups[g].plan.source == BANYAN_PLAN_BUILTIN;
    }
    int32_t state[] = {missing, by_clock_now(&by_clock_system) >= until};
    BY_TRY(banyan_allreduce(b->world, state, state, 2, BANYAN_INT32, BANYAN_MAX));
    missing = state[1] ? 0 : state[0];
  }
  return BANYAN_OK;
}

/* Collects the plans on rank 0, which prints and need not be in a group: a group's first rank reports its plan. */
static enum banyan_status collect_plans(struct bench *b) {
  for (int g = 0; g < b->n_groups; g++) {
    struct group *group = &b->groups[g];
    int64_t wrong = (int64_t)group->wrong;
    if (group->comm) BY_TRY(banyan_comm_plan(group->comm, b->bytes, &group->plan));
    BY_TRY(banyan_broadcast(b->world, &group->plan, sizeof group->plan, BANYAN_UINT8, group->ranks[0]));
    BY_TRY(banyan_allreduce(b->world, &wrong, &wrong, 1, BANYAN_INT64, BANYAN_SUM));
    group->wrong = (uint64_t)wrong;
  }
  return BANYAN_OK;
}

static enum banyan_status measure_groups(struct bench *b) {
  double median[MAX_GROUPS + 1];
  BY_TRY(wait_for_plans(b));
  for (int g = 0; g < b->n_groups; g++) {
    BY_TRY(time_groups(b, g, 1, median));
    b->groups[g].alone = median[g];
  }
  BY_TRY(time_groups(b, 0, b->n_groups, median));
  for (int g = 0; g < b->n_groups; g++) b->groups[g].together = median[g];
  b->all = median[b->n_groups];
  return collect_plans(b);
}

/* ---- results */

static double rate_of(const struct bench *b, double seconds) {
  return seconds > 0 ? 8 * (double)b->bytes / seconds : 0;
}

static void print_ranks(const struct group *group, struct by_text *text) {
  for (int i = 0; i < group->n; i++) by_text_add(text, "%s%d", i ? "," : "", group->ranks[i]);
}

static void print_json(const struct bench *b, const struct group *group, const char *ranks) {
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I}", "impl", "banyan", "collective",
                "allreduce", "group", ranks, "bytes", (json_int_t)b->bytes, "plan_name", group->plan.name,
                "plan_source", banyan_plan_source_name(group->plan.source), "alone_us", group->alone * 1e6,
                "together_us", group->together * 1e6, "all_us", b->all * 1e6, "algbw", rate_of(b, group->alone),
                "plan_bound", group->plan.bound, "wrong", (json_int_t)group->wrong);
  by_bench_print_json(object);
}

static void print_all(const struct bench *b) {
  char size[32], rate[32];
  if (!b->json) {
    printf("# allreduce, f32, sum, of %s; %d groups of %d ranks\n", by_print_bytes(b->bytes, size), b->n_groups,
           banyan_comm_size(b->world));
    printf("# %11s %9s %11s %9s %7s  group and plan\n", "alone us", "Gbit/s", "together us", "Gbit/s", "wrong");
  }
  for (int g = 0; g < b->n_groups; g++) {
    const struct group *group = &b->groups[g];
    struct by_text ranks;
    by_text_init(&ranks);
    print_ranks(group, &ranks);
    if (b->json)
      print_json(b, group, by_text_get(&ranks));
    else
      printf("  %11.1f %9.3f %11.1f %9.3f %7" PRIu64 "  %s: %s (%s%s%s)\n", group->alone * 1e6,
             rate_of(b, group->alone) / 1e9, group->together * 1e6, rate_of(b, group->together) / 1e9, group->wrong,
             by_text_get(&ranks), group->plan.name, banyan_plan_source_name(group->plan.source),
             group->plan.bound > 0 ? ", bound " : "",
             group->plan.bound > 0 ? by_print_rate(group->plan.bound, rate) : "");
    by_text_fini(&ranks);
  }
  if (!b->json) printf("# all at the same time: %.1f us, %.3f Gbit/s each\n", b->all * 1e6, rate_of(b, b->all) / 1e9);
}

/* ---- command line */

#define VALUES struct bench

static const struct by_option options[] = {
    BY_INT("ranks", 'n', run.ranks, "N", 1, BY_MAX_RANKS,
           "start N ranks here; default: be a rank of the surrounding\njob; if there is none, start one rank for each "
           "core"),
    BY_TEXT("groups", 'g', group_list, "LISTS",
            "ranks of each group: \"0,1/2,3/0,2/1,3\"; default: rows and\ncolumns of a mesh of two rows"),
    BY_TEXT("size", 's', size_text, "BYTES", "of each call; default 16M"),
    BY_CHOICE("transport", 't', run.transport, BY_TRANSPORT_CHOICES, "how ranks reach each other"),
    BY_INT("rounds", 0, rounds, "N", 1, 1000000, "timed calls of each group; default 5"),
    BY_SECONDS("wait", 0, wait, "TIME", "for plans of the groups, before; default 5 s"),
    BY_FLAG("json", 0, json, "print one JSON object a group"),
    BY_FLAG("pin", 0, run.pin, "bind rank r to core r, cyclically"),
    BY_FLAG("as-rank", 0, run.as_rank, NULL),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan bench groups",
    .usage = "[-n N] [options]",
    .about = "Measures an AllReduce of several groups of ranks, as the groups of a device mesh\n"
             "call: each group alone, then all at the same time. Groups are communicators of\n"
             "their own (banyan_comm_subset), which get plans of their own where the job\n"
             "planned from a topology. The time of a call is that of its slowest rank. Every\n"
             "element of every result is checked.\n"
             "\n"
             "Returns 0 if every call succeeded and no element was wrong.",
    .options = options,
};

static enum banyan_status parse_options(struct bench *b) {
  struct by_sizes sizes;
  BY_TRY(by_parse_sizes(b->size_text, &sizes));
  b->bytes = MAX(sizes.bytes[0] / sizeof(float), 1) * sizeof(float);
  if (sizes.count != 1) return by_fail(BANYAN_ERR_ARGUMENT, "--size is \"%s\", must be one size", b->size_text);
  return b->group_list ? parse_groups(b) : BANYAN_OK;
}

static enum banyan_status measure_all(struct by_bench_run *run, const struct by_settings *settings,
                                      struct banyan_comm *comm, uint64_t *wrong) {
  struct bench *b = (struct bench *)run;
  (void)settings;
  b->world = comm;
  enum banyan_status status = open_groups(b);
  if (!status) status = measure_groups(b);
  if (!status && banyan_comm_rank(comm) == 0) print_all(b);
  for (int g = 0; g < b->n_groups; g++) {
    banyan_comm_destroy(b->groups[g].comm);
    *wrong += b->groups[g].wrong;
    free(b->groups[g].buffer);
  }
  return status;
}

int by_cli_bench_groups(int argc, char **argv) {
  struct bench bench = {.run = {.command = &command, .transport = -1, .measure = measure_all},
                        .size_text = "16M",
                        .rounds = 5,
                        .wait = 5};
  char **words = by_bench_words((char *const[]){(char[]){"bench"}, (char[]){"groups"}, NULL}, argc, argv);
  int exit_code = by_options_parse(&command, argc, argv, &bench, NULL);
  if (exit_code < 0) exit_code = parse_options(&bench) ? by_command_misused(&command) : by_bench_run(&bench.run, words);
  for (int g = 0; g < bench.n_groups; g++) free(bench.groups[g].ranks);
  free(words);
  return exit_code;
}
