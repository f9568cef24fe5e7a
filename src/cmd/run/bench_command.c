/* `banyan bench`: times one collective over a list of sizes. With -n it starts its own ranks, which run it again;
 * otherwise it is a rank of the job that its environment describes. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "bench_values.h"
#include "clock.h"
#include "collective.h"
#include "commands.h"
#include "order.h"
#include "output.h"
#include "process.h"
#include "settings.h"
#include "socket.h"
#include "text.h"

/* ---- starting a benchmark's own ranks */

enum { MAX_OWN_RANKS = 8, PRIORITY = 5 };

char **by_bench_words(char *const *first, int argc, char **argv) {
  static char as_rank[] = "--as-rank";
  size_t n = 0, rest = (size_t)argc * sizeof *argv; /* Including the NULL at the end. */
  while (first[n]) n++;
  char **words = by_cli_alloc(NULL, (n + 2) * sizeof *words + rest);
  words[0] = NULL;
  memcpy(words + 1, first, n * sizeof *words);
  words[n + 1] = as_rank;
  memcpy(words + n + 2, argv + 1, rest);
  return words;
}

static enum banyan_status start_ranks(const char *name, int ranks, char *const *words, int *exit_code) {
  struct by_launch_hosts hosts;
  struct by_job_environment environment;
  by_hosts_init(&hosts);
  enum banyan_status status = by_job_environment_init(&environment);
  if (!status) status = by_hosts_add_self(&hosts, ranks);
  if (!status) status = by_hosts_place(&hosts, ranks);
  struct by_launch job = by_launch_defaults(name);
  job.hosts = &hosts;
  job.ranks = ranks;
  job.command = words;
  job.environment = environment.items;
  job.output = BY_OUTPUT_RANK0;
  if (!status) *exit_code = by_launch(&job);
  by_job_environment_fini(&environment);
  by_hosts_fini(&hosts);
  return status;
}

static int launch_ranks(const struct by_bench_run *run, char **words) {
  char self[BY_PROGRAM_PATH];
  cpu_set_t allowed;
  int cores = sched_getaffinity(0, sizeof allowed, &allowed) ? 2 : CPU_COUNT(&allowed);
  int exit_code = 1, n = run->ranks ? (int)run->ranks : MIN(MAX(cores, 2), MAX_OWN_RANKS);
  if (!by_program_path(self))
    return by_command_end(run->command, by_fail(BANYAN_ERR_SYSTEM, "cannot find its own program"));
  if (by_check_plan(run->plan, n, 1, true)) return by_command_misused(run->command);
  words[0] = self;
  enum banyan_status status = start_ranks(run->command->name, n, words, &exit_code);
  return status ? by_command_end(run->command, status) : exit_code;
}

/* Called before the communicator is made, whose threads inherit it. */
static void arrange_scheduling(const struct by_bench_run *run, const struct by_settings *settings) {
  struct sched_param priority = {.sched_priority = PRIORITY};
  int rank = settings->rank > 0 ? (int)settings->rank : 0;
  const char *name = run->command->name;
  if (run->pin && !by_pin_process(rank)) fprintf(stderr, "%s: cannot bind to a core\n", name);
  if (run->realtime && sched_setscheduler(0, SCHED_RR, &priority) && rank == 0)
    fprintf(stderr, "%s: no real-time priority: %s\n", name, strerror(errno));
}

static int be_rank(struct by_bench_run *run, const struct by_settings *settings) {
  uint64_t wrong = 0;
  struct banyan_comm *comm = NULL; /* It stays so if joining fails. */
  arrange_scheduling(run, settings);
  struct banyan_options wanted = {.transport = by_transport_at(run->transport), .plan = run->plan};
  enum banyan_status status = banyan_comm_create(&wanted, &comm);
  long rank = status ? MAX(settings->rank, 0) : banyan_comm_rank(comm);
  if (!status) status = run->measure(run, settings, comm, &wrong);
  if (status)
    fprintf(stderr, "%s: rank %ld: %s: %s\n", run->command->name, rank, banyan_status_name(status),
            banyan_error_text());
  banyan_comm_destroy(comm);
  return status || wrong > 0;
}

int by_bench_run(struct by_bench_run *run, char **words) {
  struct by_settings settings;
  if (by_settings_read(&settings)) return by_command_misused(run->command);
  bool alone = settings.rank < 0 && settings.size < 0;
  return !run->as_rank && (run->ranks || alone) ? launch_ranks(run, words) : be_rank(run, &settings);
}

void by_bench_print_json(json_t *object) {
  char *text = json_dumps(object, JSON_REAL_PRECISION(8));
  if (text) puts(text);
  free(text);
  json_decref(object);
}

/* ---- the protocol of bench/README.md for one case: check, count, time, reduce */

struct bench {
  struct by_bench_run run; /* Its plan is that of the settings if none was given. */
  long root, warm_up;      /* `warm_up` -1: as many calls as the budget allows. */
  int check;               /* -1: not given. */
  const char *size_list, *dtype, *op, *iterations;
  double budget;   /* Seconds of timed calls. */
  bool registered; /* Buffers are from banyan_alloc. */
  bool barrier;    /* A barrier precedes every timed call, outside its time. */
  bool in_place, json, counters;
  int format; /* Index in FORMATS; -1: not given. */
  /* ---- The members that follow are derived from these and, on a rank, from its job. */
  struct by_bench_case c;
  struct by_sizes sizes;
  long calls; /* 0: as many as the budget allows. */
  struct banyan_comm *comm;
  const char *transport;
  char congestion[BY_CONGESTION_TEXT];
  int hosts;
};

struct result {
  long calls;
  double median, min, max; /* Seconds; on rank 0. */
  uint64_t wrong;          /* Wrong elements on all ranks. */
  /* ---- The following three are sums over all ranks, divided by ranks and timed calls. */
  double frames, sleeps, wakes;
  uint64_t allocations; /* On all ranks during timed calls. */
};

enum { FIRST_CALLS = 2, MIN_CALLS = 8, MAX_TIMED = 2000, CALLS_BYTES = 64 << 20, ALIGNMENT = 64 };

struct buffers {
  void *memory[2];   /* As allocated; [1] is NULL for calls in place. */
  void *send, *recv; /* Arguments of the call. */
};

static enum banyan_status get_memory(const struct bench *b, size_t bytes, void **out) {
  *out = NULL;
  if (!bytes) return BANYAN_OK;
  if (b->registered) return banyan_alloc(b->comm, bytes, out);
  if (posix_memalign(out, ALIGNMENT, bytes)) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
  return BANYAN_OK;
}

/* Tells whether this rank's own part is in its receive buffer. */
static bool shares_buffer(const struct bench *b) {
  return b->c.in_place && (b->c.collective != BANYAN_GATHER || b->c.rank == b->c.root);
}

static enum banyan_status make_buffers(const struct bench *b, struct buffers *out) {
  size_t size = banyan_dtype_size(b->c.dtype);
  *out = (struct buffers){0};
  if (shares_buffer(b)) {
    BY_TRY(get_memory(b, MAX(b->c.send_count, b->c.recv_count) * size, &out->memory[0]));
    bool block = by_collective(b->c.collective)->send == BY_EXTENT_BLOCK;
    out->recv = out->memory[0];
    out->send = (char *)out->memory[0] + (block ? (size_t)b->c.rank * b->c.count * size : 0);
    return BANYAN_OK;
  }
  BY_TRY(get_memory(b, b->c.send_count * size, &out->memory[0]));
  BY_TRY(get_memory(b, b->c.recv_count * size, &out->memory[1]));
  out->send = out->memory[0];
  out->recv = out->memory[1];
  return BANYAN_OK;
}

/* Fills the send buffer with this rank's values, and all else with 0xff, which no result contains. */
static void fill_buffers(const struct bench *b, const struct buffers *buffers) {
  struct by_pattern own;
  by_pattern_of_rank(&b->c, b->c.rank, &own);
  if (buffers->recv) memset(buffers->recv, 0xff, b->c.recv_count * own.size);
  if (buffers->send) by_pattern_fill(&own, buffers->send, b->c.send_count);
  if (b->c.collective == BANYAN_BROADCAST && b->c.rank == b->c.root)
    by_pattern_fill(&own, buffers->recv, b->c.recv_count);
}

static enum banyan_status check_case(const struct bench *b, const struct buffers *buffers, uint64_t *wrong) {
  fill_buffers(b, buffers);
  BY_TRY(by_bench_call(&b->c, b->comm, buffers->send, buffers->recv));
  *wrong = by_bench_wrong(&b->c, shares_buffer(b) || !b->c.send_count ? NULL : buffers->send, buffers->recv);
  size_t bytes = MAX(b->c.send_count, b->c.recv_count) * banyan_dtype_size(b->c.dtype);
  if (shares_buffer(b) && buffers->recv) memset(buffers->recv, 0, bytes); /* Sums of sums would grow without limit. */
  return BANYAN_OK;
}

static enum banyan_status repeat_calls(const struct bench *b, const struct buffers *buffers, long calls,
                                       double *seconds) {
  for (long k = 0; k < calls; k++) {
    if (b->barrier) BY_TRY(banyan_barrier(b->comm));
    uint64_t start = by_clock_now(&by_clock_system);
    BY_TRY(by_bench_call(&b->c, b->comm, buffers->send, buffers->recv));
    seconds[k] = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
  }
  return BANYAN_OK;
}

static long clamp_calls(double value, long min, long max) {
  return value < (double)min ? min : value > (double)max ? max : (long)value;
}

/* Sends rank 0's number to every rank. */
static enum banyan_status agree_on_number(const struct bench *b, long *number) {
  int64_t agreed = *number;
  BY_TRY(banyan_broadcast(b->comm, &agreed, 1, BANYAN_INT64, 0));
  *number = agreed;
  return BANYAN_OK;
}

/* Makes calls, which all ranks begin at the same time, and returns the mean time of one on this rank. */
static enum banyan_status estimate_time(const struct bench *b, const struct buffers *buffers, long calls,
                                        double *seconds) {
  BY_TRY(banyan_barrier(b->comm));
  uint64_t start = by_clock_now(&by_clock_system);
  for (long k = 0; k < calls; k++) BY_TRY(by_bench_call(&b->c, b->comm, buffers->send, buffers->recv));
  *seconds = (double)(by_clock_now(&by_clock_system) - start) * 1e-9 / (double)calls;
  return BANYAN_OK;
}

/* Warms up and determines how many calls to time: the same number on every rank. */
static enum banyan_status warm_up(const struct bench *b, const struct buffers *buffers, long *calls) {
  long cap = clamp_calls((double)CALLS_BYTES / (double)MAX(b->c.bytes, (size_t)1), MIN_CALLS, MAX_TIMED),
       warm = b->warm_up;
  double each = 0;
  if (warm < 0 || (warm == 0 && !b->calls)) BY_TRY(estimate_time(b, buffers, FIRST_CALLS, &each));
  if (warm < 0) {
    warm = clamp_calls(b->budget / 5 / each, 1, MAX(cap / 10, 1));
    BY_TRY(agree_on_number(b, &warm));
  }
  if (warm > 0) BY_TRY(estimate_time(b, buffers, warm, &each));
  *calls = b->calls ? b->calls : clamp_calls(b->budget / each, MIN_CALLS, cap);
  return agree_on_number(b, calls);
}

/* Computes the slowest rank's time of each call, sorted; `slowest` is only for rank 0. */
static enum banyan_status summarise_times(const struct bench *b, const double *seconds, double *slowest,
                                          struct result *out) {
  size_t n = (size_t)out->calls;
  BY_TRY(banyan_reduce(b->comm, seconds, slowest, n, BANYAN_FLOAT64, BANYAN_MAX, 0));
  if (b->c.rank) return BANYAN_OK;
  double ways = b->c.collective == BANYAN_SEND
                    ? 2
                    : 1; /* A ping-pong call sends in both directions, so it takes two transfers. */
  out->median = by_median(slowest, n) / ways;
  out->min = slowest[0] / ways;
  out->max = slowest[n - 1] / ways;
  return BANYAN_OK;
}

/* Sums the counters' growth and the wrong elements over all ranks. */
static enum banyan_status sum_results(const struct bench *b, const struct banyan_counters *before,
                                      const struct banyan_counters *after, struct result *out) {
  int64_t own[] = {(int64_t)out->wrong, (int64_t)(after->frames_sent - before->frames_sent),
                   (int64_t)(after->sleeps - before->sleeps), (int64_t)(after->wakes_sent - before->wakes_sent),
                   (int64_t)(after->allocations - before->allocations)};
  int64_t all[sizeof own / sizeof *own];
  BY_TRY(banyan_allreduce(b->comm, own, all, sizeof own / sizeof *own, BANYAN_INT64, BANYAN_SUM));
  double share = (double)b->c.ranks * (double)out->calls;
  out->wrong = MAX(out->wrong, (uint64_t)all[0]); /* This rank's own count must survive a wrong sum. */
  out->frames = (double)all[1] / share;
  out->sleeps = (double)all[2] / share;
  out->wakes = (double)all[3] / share;
  out->allocations = (uint64_t)all[4];
  return BANYAN_OK;
}

static enum banyan_status time_calls(const struct bench *b, const struct buffers *buffers, struct result *out) {
  struct banyan_counters before, after;
  size_t bytes = (size_t)out->calls * sizeof(double);
  double *seconds = by_cli_alloc(NULL, 2 * bytes);
  memset(seconds, 0xff, 2 * bytes); /* Touches the memory before timing. */
  enum banyan_status status = banyan_barrier(b->comm);
  banyan_comm_counters(b->comm, &before);
  if (!status) status = repeat_calls(b, buffers, out->calls, seconds);
  banyan_comm_counters(b->comm, &after);
  if (!status) status = summarise_times(b, seconds, seconds + out->calls, out);
  if (!status) status = sum_results(b, &before, &after, out);
  free(seconds);
  return status;
}

/* All ranks call it together. */
static enum banyan_status measure_case(const struct bench *b, struct result *out) {
  struct buffers buffers;
  *out = (struct result){0};
  enum banyan_status status = make_buffers(b, &buffers);
  if (!status && b->check <= 0)
    status = check_case(b, &buffers, &out->wrong);
  else if (!status)
    fill_buffers(b, &buffers);
  if (!status) status = warm_up(b, &buffers, &out->calls);
  if (!status) status = time_calls(b, &buffers, out);
  for (int i = 0; i < 2; i++)
    if (b->registered)
      banyan_free(b->comm, buffers.memory[i]);
    else
      free(buffers.memory[i]);
  return status;
}

/* ---- results: a table for people, or a JSON object a line */

static const char *op_name(const struct by_bench_case *c) {
  return by_bench_reduces(c) ? banyan_op_name(c->op) : "none";
}

static void print_columns(const struct bench *b) {
  printf("# %10s %6s %11s %11s %11s %9s %9s %9s %9s %7s%s  plan\n", "bytes", "calls", "median", "least", "most",
         "algbw", "busbw", "algbw", "busbw", "wrong", b->counters ? "   frames   sleeps    wakes  allocs" : "");
  printf("# %10s %6s %11s %11s %11s %9s %9s %9s %9s %7s%s\n", "", "", "us", "us", "us", "Gbit/s", "Gbit/s", "GB/s",
         "GB/s", "", b->counters ? "  /call    /call    /call" : "");
}

static void print_head(const struct bench *b) {
  if (b->json) return;
  printf("# %s, %s, %s; %d ranks on %d host%s; transport %s, congestion control %s%s%s\n",
         by_bench_collective_name(&b->c), banyan_dtype_name(b->c.dtype), op_name(&b->c), b->c.ranks, b->hosts,
         b->hosts == 1 ? "" : "s", b->transport, b->congestion, b->registered ? ", registered" : "",
         b->c.in_place ? ", in place" : "");
  print_columns(b);
  fflush(stdout);
}

static void print_plan(const struct banyan_plan_info *plan) {
  char rate[32];
  printf("# plan %s (%s%s)", plan->name, banyan_plan_source_name(plan->source),
         *plan->part ? ", by size, see the last column" : "");
  if (plan->throughput > 0) printf(", expected to carry %s", by_print_rate(plan->throughput, rate));
  if (plan->bound > 0) printf(", bound %s", by_print_rate(plan->bound, rate));
  printf("\n");
}

static void print_json(const struct bench *b, const struct banyan_plan_info *plan, const struct result *r, double algbw,
                       double busbw) {
  json_t *object = json_pack(
      "{s:s, s:s, s:I, s:s, s:s, s:i, s:s, s:s, s:b, s:b, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:I, "
      "s:s, s:s, s:s}",
      "impl", "banyan", "collective", by_bench_collective_name(&b->c), "bytes", (json_int_t)b->c.bytes, "dtype",
      banyan_dtype_name(b->c.dtype), "op", op_name(&b->c), "ranks", b->c.ranks, "transport", b->transport, "plan",
      b->run.plan ? b->run.plan : "", "registered", b->registered, "in_place", b->c.in_place, "cc", b->congestion,
      "calls", (json_int_t)r->calls, "time_us", r->median * 1e6, "min_us", r->min * 1e6, "max_us", r->max * 1e6,
      "algbw", algbw, "busbw", busbw, "wrong", (json_int_t)r->wrong, "frames_per_call", r->frames, "sleeps_per_call",
      r->sleeps, "wakes_per_call", r->wakes, "allocations", (json_int_t)r->allocations, "plan_name", plan->name,
      "plan_source", banyan_plan_source_name(plan->source), "plan_part", plan->part);
  if (plan->throughput > 0) (void)!json_object_set_new(object, "plan_throughput", json_real(plan->throughput));
  if (plan->bound > 0) (void)!json_object_set_new(object, "plan_bound", json_real(plan->bound));
  by_bench_print_json(object);
}

/* `plan`: used for buffers of the case's size, after it was timed; `before`: that of the previous result, or NULL. */
static void print_result(const struct bench *b, const struct banyan_plan_info *before,
                         const struct banyan_plan_info *plan, const struct result *r) {
  double algbw = r->median > 0 ? 8 * (double)b->c.bytes / r->median : 0;
  double busbw = algbw * by_bench_bus_factor(&b->c);
  if (b->json) {
    print_json(b, plan, r, algbw, busbw);
  } else {
    if (!before || before->version != plan->version) print_plan(plan);
    printf("  %10zu %6ld %11.2f %11.2f %11.2f %9.3f %9.3f %9.3f %9.3f %7" PRIu64, b->c.bytes, r->calls, r->median * 1e6,
           r->min * 1e6, r->max * 1e6, algbw / 1e9, busbw / 1e9, algbw / 8e9, busbw / 8e9, r->wrong);
    if (b->counters) printf(" %8.2f %8.3f %8.3f %7" PRIu64, r->frames, r->sleeps, r->wakes, r->allocations);
    printf("  %s\n", *plan->part ? plan->part : plan->name);
  }
  fflush(stdout);
}

enum { MAX_CALLS = 1000000 };

#define FORMATS "table|json|nccl-tests"
enum { TABLE, JSON, NCCL_TESTS };

#define VALUES struct bench

static const struct by_option options[] = {
    BY_INT("ranks", 'n', run.ranks, "N", 1, BY_MAX_RANKS,
           "start N ranks here; default: be a rank of the surrounding\njob; if there is none, start one rank for each "
           "core"),
    BY_TEXT("sizes", 's', size_list, "LIST",
            "bytes: \"8,64K,16M\"; \"8..64M\" means every power of two in this\nrange; default 8,1K,64K,1M,16M"),
    BY_TEXT("dtype", 'd', dtype, "TYPE", "f32 (default), f64, f16, bf16, i8, u8, i32, i64"),
    BY_TEXT("op", 0, op, "OP", "sum (default), avg, min, max, prod, and, or, xor"),
    BY_INT("root", 0, root, "R", 0, BY_MAX_RANKS, "root of reduce, broadcast, gather and scatter; default 0"),
    BY_CHOICE("transport", 't', run.transport, BY_TRANSPORT_CHOICES, "how ranks reach each other"),
    BY_TEXT("plan", 'p', run.plan, "PLAN", "a built-in plan's name or a plan file; default: by size"),
    BY_FLAG("registered", 0, registered, "buffers from banyan_alloc"),
    BY_FLAG("in-place", 0, in_place, "send and receive in one buffer"),
    BY_TEXT("iterations", 0, iterations, "auto|N", "number of timed calls; auto: as --budget allows, 8 to 2000"),
    BY_INT("warmup", 0, warm_up, "N", 0, MAX_CALLS,
           "number of warm-up calls; default: as a fifth of --budget allows;\n0: only two, which determine how many "
           "calls to time"),
    BY_SECONDS("budget", 0, budget, "TIME", "time for the timed calls of a size; default 0.5 s"),
    BY_CHOICE("check", 0, check, "all|off", "compare every element of one call; default all"),
    BY_FLAG("barrier", 0, barrier,
            "run a barrier before every timed call, outside its time;\ncalls with a root otherwise overlap"),
    BY_FLAG("counters", 0, counters,
            "also show frames, sleeps and wake-ups (mean of the ranks) and\nallocations; JSON always has them"),
    BY_FLAG("json", 0, json, "print one JSON object a size; rates in bit/s"),
    BY_CHOICE("format", 0, format, FORMATS,
              "what to print; json is --json; nccl-tests: its columns, where\neach size is timed out of place and in "
              "place; rates in GB/s"),
    BY_FLAG("pin", 0, run.pin, "bind rank r to core r, cyclically"),
    BY_FLAG("realtime", 0, run.realtime, "try the scheduler's real-time class (round-robin, priority 5)"),
    BY_FLAG("as-rank", 0, run.as_rank, NULL),
    {.name = NULL},
};

/* Options of nccl-tests. */
static const struct by_habit habits[] = {
    {"-b", "--sizes MIN..MAX, as in -s 8..1M for -b 8 -e 1M -f 2"},
    {"--minbytes", "--sizes MIN..MAX, as in -s 8..1M for -b 8 -e 1M -f 2"},
    {"-e", "--sizes MIN..MAX, as in -s 8..1M for -b 8 -e 1M -f 2"},
    {"--maxbytes", "--sizes MIN..MAX, as in -s 8..1M for -b 8 -e 1M -f 2"},
    {"-f", "--sizes MIN..MAX, whose factor is 2, or list sizes, as in -s 8,32,128"},
    {"--stepfactor", "--sizes MIN..MAX, whose factor is 2, or list sizes, as in -s 8,32,128"},
    {"-i", "--sizes LIST"},
    {"--stepbytes", "--sizes LIST"},
    {"-g", "-n N"},
    {"--ngpus", "-n N"},
    {"--iters", "--iterations N"},
    {"-w", "--warmup N"},
    {"--warmup_iters", "--warmup N"},
    {"-o", "--op OP"},
    {"-r", "--root R"},
    {"-c", "--check all or --check off"},
    {"--datatype", "--dtype TYPE"},
    {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan bench",
    .usage = "[COLLECTIVE] [-n N] [options]",
    .about = "Measures the time of a collective: allreduce (default), reduce, broadcast,\n"
             "reduce_scatter, allgather, gather, scatter, alltoall, barrier, or sendrecv\n"
             "(ping-pong, half of a round trip). The time of a call is that of its slowest\n"
             "rank and includes all work of network and hosts. `banyan plan TOPOLOGY\n"
             "--explain` predicts it for an allreduce, and `banyan simulate` the links' part.\n"
             "The table shows the median, minimum and maximum time. Bytes are those of the\n"
             "largest buffer; bus bandwidth is algorithm bandwidth times the factor of\n"
             "nccl-tests. Under `banyan run`, mpirun or srun it is a rank of that job.\n"
             "`banyan bench sparse` compares the methods for sparse rows, and `banyan bench\n"
             "groups` times groups of ranks alone and at once; see their --help.\n"
             "\n"
             "Returns 0 if every call succeeded and no element was wrong.",
    .first =
        "allreduce|reduce|broadcast|reduce_scatter|allgather|gather|scatter|alltoall|barrier|sendrecv|groups|sparse",
    .examples = "banyan bench -n 4\n"
                "banyan bench allgather -n 4 --sizes 8..64M --transport tcp\n"
                "banyan bench -n 2 --format nccl-tests -s 8..1M\n"
                "banyan run -H alpha:1,beta:1 -- banyan bench --plan ring --json\n",
    .options = options,
    .habits = habits,
    .max_operands = 1,
};

static enum banyan_status parse_options(struct bench *b, const struct by_operands *operands) {
  if (b->json && b->format >= 0 && b->format != JSON)
    return by_fail(BANYAN_ERR_ARGUMENT, "--json and --format exclude each other: give one");
  if (b->format == NCCL_TESTS && (b->in_place || b->counters))
    return by_fail(BANYAN_ERR_ARGUMENT, "--format nccl-tests has no %s: leave it out",
                   b->in_place ? "--in-place, since it times both forms" : "--counters");
  b->json = b->json || b->format == JSON;
  b->c = (struct by_bench_case){.root = (int)b->root, .in_place = b->in_place};
  BY_TRY(by_bench_parse_collective(operands->count ? operands->items[0] : "allreduce", &b->c));
  BY_TRY(banyan_dtype_parse(b->dtype, &b->c.dtype));
  BY_TRY(banyan_op_parse(b->op, &b->c.op));
  b->c.ranks = BY_MAX_RANKS + 1; /* Not known yet. */
  BY_TRY(by_bench_check(&b->c));
  if (strcmp(b->iterations, "auto") != 0) BY_TRY(by_parse_int("--iterations", b->iterations, 1, MAX_CALLS, &b->calls));
  return by_parse_sizes(b->size_list, &b->sizes);
}

/* ---- as a rank */

static int count_hosts(struct banyan_comm *comm) {
  int hosts = 0;
  for (int rank = 0; rank < banyan_comm_size(comm); rank++) {
    bool seen = false;
    for (int k = 0; k < rank && !seen; k++) seen = !strcmp(banyan_comm_host(comm, k), banyan_comm_host(comm, rank));
    hosts += !seen;
  }
  return hosts;
}

/* Reads the congestion control of TCP links: between hosts and without a setting, a new socket's default. */
static void read_congestion(const struct by_settings *settings, int hosts, char *out) {
  struct by_address any;
  struct by_port_range ports = {0};
  int fd = -1;
  const char *known = settings->congestion ? settings->congestion : hosts == 1 ? BY_CONGESTION_WITHIN_HOST : NULL;
  snprintf(out, BY_CONGESTION_TEXT, "%s", known ? known : "unknown");
  if (known || by_socket_listen(NULL, ports, &fd, &any)) return;
  if (by_socket_get_congestion(fd, out)) strcpy(out, "unknown");
  close(fd);
}

/* Measures one size out of place or in place, and appends the result to the row. */
static enum banyan_status add_nccl_result(struct bench *b, bool in_place, double *busbw, uint64_t *wrong) {
  struct result result;
  b->c.in_place = in_place;
  if (by_bench_check(&b->c)) {
    if (!b->c.rank) by_nccl_print_absent();
    return BANYAN_OK;
  }
  BY_TRY(measure_case(b, &result));
  if (!b->c.rank) *busbw += by_nccl_print_result(&b->c, result.median, b->check <= 0, result.wrong);
  *wrong += result.wrong;
  return BANYAN_OK;
}

/* Prints what nccl-tests print. The mean is over all results, as there. */
static enum banyan_status measure_as_nccl(struct bench *b, uint64_t *wrong) {
  double busbw = 0;
  int forms = 1;
  size_t n = b->c.collective == BANYAN_BARRIER ? 1 : b->sizes.count;
  b->c.in_place = true;
  if (!by_bench_check(&b->c)) forms = 2;
  b->c.in_place = false;
  BY_TRY(by_bench_check(&b->c));
  if (!b->c.rank) by_nccl_print_head(&b->c, b->hosts);
  for (size_t i = 0; i < n; i++) {
    b->c.in_place = false;
    by_bench_resize(&b->c, b->sizes.bytes[i]);
    if (!b->c.rank) by_nccl_print_case(&b->c);
    BY_TRY(add_nccl_result(b, false, &busbw, wrong));
    BY_TRY(add_nccl_result(b, true, &busbw, wrong));
    if (!b->c.rank) printf("\n");
    fflush(stdout);
  }
  if (!b->c.rank) by_nccl_print_end(*wrong, busbw / (double)(n * (size_t)forms));
  return BANYAN_OK;
}

static enum banyan_status measure_all(struct bench *b, uint64_t *wrong) {
  BY_TRY(by_bench_check(&b->c));
  size_t n = b->c.collective == BANYAN_BARRIER ? 1 : b->sizes.count;
  struct banyan_plan_info plans[2], *plan;
  if (!b->c.rank) print_head(b);
  for (size_t i = 0; i < n; i++) {
    struct result result;
    by_bench_resize(&b->c, b->sizes.bytes[i]);
    BY_TRY(measure_case(b, &result));
    plan = &plans[i % 2];
    BY_TRY(banyan_comm_plan_of(b->comm, b->c.collective, b->c.bytes, plan));
    if (!b->c.rank) print_result(b, i ? &plans[(i + 1) % 2] : NULL, plan, &result);
    *wrong += result.wrong;
  }
  return BANYAN_OK;
}

static enum banyan_status measure_collective(struct by_bench_run *run, const struct by_settings *settings,
                                             struct banyan_comm *comm, uint64_t *wrong) {
  struct bench *b = (struct bench *)run;
  b->comm = comm;
  b->transport = by_transport_at(b->run.transport);
  if (!b->transport) b->transport = settings->transport;
  if (!b->run.plan) b->run.plan = settings->plan;
  b->c.rank = banyan_comm_rank(comm);
  b->c.ranks = banyan_comm_size(comm);
  b->hosts = count_hosts(comm);
  read_congestion(settings, b->hosts, b->congestion);
  return b->format == NCCL_TESTS ? measure_as_nccl(b, wrong) : measure_all(b, wrong);
}

int by_cli_bench(int argc, char **argv) {
  struct bench bench = {.run = {.command = &command, .transport = -1, .measure = measure_collective},
                        .check = -1,
                        .format = -1,
                        .warm_up = -1,
                        .budget = 0.5,
                        .size_list = "8,1K,64K,1M,16M",
                        .dtype = "f32",
                        .op = "sum",
                        .iterations = "auto"};
  struct by_operands operands;
  if (argc > 1 && !strcmp(argv[1], "groups")) return by_cli_bench_groups(argc - 1, argv + 1);
  if (argc > 1 && !strcmp(argv[1], "sparse")) return by_cli_bench_sparse(argc - 1, argv + 1);
  char **words = by_bench_words((char *const[]){(char[]){"bench"}, NULL}, argc, argv);
  int exit_code = by_options_parse(&command, argc, argv, &bench, &operands);
  if (exit_code < 0)
    exit_code = parse_options(&bench, &operands) ? by_command_misused(&command) : by_bench_run(&bench.run, words);
  free(words);
  return exit_code;
}
