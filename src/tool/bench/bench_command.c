/* `banyan bench`: times one collective over a list of sizes. With -n it starts
 * its own ranks, which run it again; otherwise it is a rank of the job that its
 * environment describes. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "bench_measure.h"
#include "commands.h"
#include "launch.h"
#include "process.h"
#include "settings.h"
#include "socket.h"
#include "text.h"

/* ---- Results of a bench: a table for people, or a JSON object a line. */

struct by_bench_setting {
  const char *transport, *plan, *congestion; /* plan: as it was given, "": it was not */
  bool json, registered, counters;
  int hosts;
};

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

/* `plan`: in use now; in print_result for buffers of the case's size, after it was timed. */
static void print_head(const struct by_bench_case *c, const struct by_bench_setting *setting,
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

static void print_result(const struct by_bench_case *c, const struct by_bench_setting *setting,
                         const struct banyan_plan_info *plan, const struct by_bench_result *result) {
  double algbw = result->median > 0 ? 8 * (double)c->bytes / result->median : 0;
  double busbw = algbw * by_bench_bus_factor(c);
  (setting->json ? print_json : print_row)(c, setting, plan, result, algbw, busbw);
  fflush(stdout);
}

enum { MOST_OWN_RANKS = 8, PRIORITY = 5, MOST_CALLS = 1000000 };

struct bench_options {
  long ranks, root, warm_up;
  int transport, check; /* -1: not given */
  const char *sizes, *dtype, *op, *plan, *iterations;
  double budget;
  bool registered, in_place, barrier, json, counters, pin, realtime, as_rank;
};

#define VALUES struct bench_options

static const struct by_option options[] = {
    BY_INT("ranks", 'n', ranks, "N", 1, BY_MOST_RANKS,
           "start N ranks here; default: be a rank of the surrounding\njob; if there is none, start one rank for each "
           "core"),
    BY_TEXT("sizes", 's', sizes, "LIST",
            "bytes: \"8,64K,16M\"; \"8..64M\" means every power of two in this\nrange; default 8,1K,64K,1M,16M"),
    BY_TEXT("dtype", 'd', dtype, "TYPE", "f32 (default), f64, f16, bf16, i8, u8, i32, i64"),
    BY_TEXT("op", 0, op, "OP", "sum (default), avg, min, max, prod, and, or, xor"),
    BY_INT("root", 0, root, "R", 0, BY_MOST_RANKS, "root of reduce, broadcast, gather and scatter; default 0"),
    BY_CHOICE("transport", 't', transport, BY_TRANSPORT_CHOICES, "how ranks reach each other"),
    BY_TEXT("plan", 'p', plan, "PLAN", "a built-in plan's name or a plan file; default: by size"),
    BY_FLAG("registered", 0, registered, "buffers from banyan_alloc"),
    BY_FLAG("in-place", 0, in_place, "send and receive in one buffer"),
    BY_TEXT("iterations", 0, iterations, "auto|N", "number of timed calls; auto: as the budget allows, 8 to 2000"),
    BY_INT("warmup", 0, warm_up, "N", 0, MOST_CALLS,
           "number of calls before them; default: as a fifth of the\nbudget allows; 0: only two, which determine how "
           "many to time"),
    BY_SECONDS("budget", 0, budget, "TIME", "time for the timed calls of a size; default 0.5 s"),
    BY_CHOICE("check", 0, check, "all|off", "compare every element of one call; default all"),
    BY_FLAG("barrier", 0, barrier,
            "run a barrier before every timed call, outside its time;\ncalls with a root otherwise overlap"),
    BY_FLAG("counters", 0, counters,
            "also show frames, sleeps and wake-ups (mean of the ranks) and\nallocations; JSON always has them"),
    BY_FLAG("json", 0, json, "print one JSON object a size; rates in bit/s"),
    BY_FLAG("pin", 0, pin, "bind rank r to core r, cyclically"),
    BY_FLAG("realtime", 0, realtime, "try the scheduler's real-time class (round-robin, priority 5)"),
    BY_FLAG("as-rank", 0, as_rank, NULL),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan bench",
    .usage = "[COLLECTIVE] [-n N] [options]",
    .about = "Measures the time of a collective: allreduce (default), reduce, broadcast,\n"
             "reduce_scatter, allgather, gather, scatter, alltoall, barrier, or sendrecv\n"
             "(ping-pong, half of a round trip). The time of a call is that of its slowest\n"
             "rank and includes all work of network and hosts. `banyan plan TOPOLOGY\n"
             "--explain` predicts it for an allreduce, and `banyan simulate` the links' part.\n"
             "The table shows the median, least and greatest time. Bytes are those of the\n"
             "largest buffer; bus bandwidth is algorithm bandwidth times the factor of\n"
             "nccl-tests. Under `banyan run`, mpirun or srun it is a rank of that job.\n"
             "\n"
             "Returns 0 if every call succeeded and no element was wrong.",
    .options = options,
    .most_operands = 1,
};

static enum banyan_status parse_case(const struct bench_options *bench, const struct by_operands *operands,
                                     struct by_bench_case *out) {
  *out = (struct by_bench_case){.root = (int)bench->root, .in_place = bench->in_place};
  BY_TRY(by_bench_parse_collective(operands->count ? operands->items[0] : "allreduce", out));
  BY_TRY(banyan_dtype_parse(bench->dtype, &out->dtype));
  BY_TRY(banyan_op_parse(bench->op, &out->op));
  out->ranks = BY_MOST_RANKS + 1; /* not known yet */
  return by_bench_check(out);
}

static enum banyan_status parse_how(const struct bench_options *bench, struct by_bench_how *out) {
  *out = (struct by_bench_how){.registered = bench->registered,
                               .check = bench->check <= 0,
                               .barrier = bench->barrier,
                               .warm_up = bench->warm_up,
                               .budget = bench->budget};
  if (!strcmp(bench->iterations, "auto")) return BANYAN_OK;
  return by_parse_int("--iterations", bench->iterations, 1, MOST_CALLS, &out->calls);
}

/* ---- starting ranks */

static int usable_cores(void) {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) ? 2 : CPU_COUNT(&allowed);
}

static enum banyan_status start_ranks(int ranks, char *const *words, int *exit_code) {
  struct by_launch_hosts hosts;
  struct by_job_environment environment;
  by_hosts_init(&hosts);
  enum banyan_status status = by_job_environment_init(&environment);
  if (!status) status = by_hosts_add_self(&hosts, ranks);
  if (!status) status = by_hosts_place(&hosts, ranks);
  struct by_job job = {.title = command.name,
                       .hosts = &hosts,
                       .ranks = ranks,
                       .command = words,
                       .environment = environment.items,
                       .output = BY_OUTPUT_RANK0,
                       .report = 1,
                       .grace = 5,
                       .start = 60};
  if (!status) *exit_code = by_launch(&job);
  by_job_environment_fini(&environment);
  by_hosts_fini(&hosts);
  return status;
}

/* `words`: the command of the ranks but for the path of this program. */
static int launch(const struct bench_options *bench, char **words) {
  char self[BY_PROGRAM_PATH];
  int exit_code = 1, ranks = bench->ranks ? (int)bench->ranks : MIN(MAX(usable_cores(), 2), MOST_OWN_RANKS);
  if (!by_program_path(self))
    return by_command_end(&command, by_fail(BANYAN_ERR_SYSTEM, "cannot find its own program"));
  if (by_check_plan(bench->plan, ranks, 1, true)) return by_command_misused(&command);
  words[0] = self;
  enum banyan_status status = start_ranks(ranks, words, &exit_code);
  return status ? by_command_end(&command, status) : exit_code;
}

/* ---- being a rank */

static int count_hosts(const struct banyan_comm *comm) {
  int n = 0;
  for (int rank = 0; rank < banyan_comm_size(comm); rank++) {
    bool seen = false;
    for (int k = 0; k < rank && !seen; k++) seen = !strcmp(banyan_comm_host(comm, k), banyan_comm_host(comm, rank));
    n += !seen;
  }
  return n;
}

/* What a fresh TCP socket gets. */
static void read_congestion(const struct by_settings *settings, char *out) {
  struct by_address any;
  struct by_port_range ports = {0};
  int fd = -1;
  snprintf(out, BY_CONGESTION_TEXT, "%s", settings->congestion ? settings->congestion : "unknown");
  if (settings->congestion || by_socket_listen(NULL, ports, &fd, &any)) return;
  if (by_socket_get_congestion(fd, out)) strcpy(out, "unknown");
  close(fd);
}

/* Before the communicator is made, whose threads inherit it. */
static void arrange_scheduling(const struct bench_options *bench, const struct by_settings *settings) {
  struct sched_param priority = {.sched_priority = PRIORITY};
  int rank = settings->rank > 0 ? (int)settings->rank : 0;
  if (bench->pin && !by_pin_process(rank)) fprintf(stderr, "banyan bench: cannot bind to a core\n");
  if (bench->realtime && sched_setscheduler(0, SCHED_RR, &priority) && rank == 0)
    fprintf(stderr, "banyan bench: no real-time priority: %s\n", strerror(errno));
}

static enum banyan_status measure_all(struct by_bench_case *c, const struct by_bench_how *how,
                                      const struct by_bench_setting *setting, const struct by_sizes *sizes,
                                      struct banyan_comm *comm, uint64_t *wrong) {
  c->rank = banyan_comm_rank(comm);
  c->ranks = banyan_comm_size(comm);
  BY_TRY(by_bench_check(c));
  size_t n = c->collective == BANYAN_BARRIER ? 1 : sizes->count;
  struct banyan_plan_info plan;
  BY_TRY(banyan_comm_plan(comm, 0, &plan));
  if (!c->rank) print_head(c, setting, &plan);
  for (size_t i = 0; i < n; i++) {
    struct by_bench_result result;
    by_bench_resize(c, sizes->bytes[i]);
    BY_TRY(by_bench_measure(c, how, comm, &result));
    BY_TRY(banyan_comm_plan(comm, c->bytes, &plan));
    if (!c->rank) print_result(c, setting, &plan, &result);
    *wrong += result.wrong;
  }
  return BANYAN_OK;
}

static int report(enum banyan_status status, long rank) {
  fprintf(stderr, "banyan bench: rank %ld: %s: %s\n", rank, banyan_status_name(status), banyan_error_text());
  return 1;
}

static int be_rank(const struct bench_options *bench, const struct by_settings *settings, struct by_bench_case *c,
                   const struct by_bench_how *how, const struct by_sizes *sizes) {
  char congestion[BY_CONGESTION_TEXT];
  const char *transport = by_transport_at(bench->transport);
  struct banyan_options wanted = {.transport = transport, .plan = bench->plan};
  struct banyan_comm *comm = NULL;
  uint64_t wrong = 0;
  arrange_scheduling(bench, settings);
  enum banyan_status status = banyan_comm_create(&wanted, &comm);
  if (status) return report(status, MAX(settings->rank, 0));
  read_congestion(settings, congestion);
  const char *plan = bench->plan ? bench->plan : settings->plan;
  struct by_bench_setting setting = {.transport = transport ? transport : settings->transport,
                                     .plan = plan ? plan : "",
                                     .congestion = congestion,
                                     .json = bench->json,
                                     .registered = bench->registered,
                                     .counters = bench->counters,
                                     .hosts = count_hosts(comm)};
  status = measure_all(c, how, &setting, sizes, comm, &wrong);
  int exit_code = status ? report(status, banyan_comm_rank(comm)) : wrong > 0;
  banyan_comm_destroy(comm);
  return exit_code;
}

static int run(const struct bench_options *bench, const struct by_operands *operands, char **words) {
  struct by_bench_case c;
  struct by_bench_how how;
  struct by_sizes sizes;
  struct by_settings settings;
  enum banyan_status status = parse_case(bench, operands, &c);
  if (!status) status = parse_how(bench, &how);
  if (!status) status = by_parse_sizes(bench->sizes, &sizes);
  if (!status) status = by_settings_read(&settings);
  if (status) return by_command_misused(&command);
  bool alone = settings.rank < 0 && settings.size < 0;
  if (!bench->as_rank && (bench->ranks || alone)) return launch(bench, words);
  return be_rank(bench, &settings, &c, &how, &sizes);
}

int by_cli_bench(int argc, char **argv) {
  struct bench_options bench = {.transport = -1,
                                .check = -1,
                                .warm_up = -1,
                                .budget = 0.5,
                                .sizes = "8,1K,64K,1M,16M",
                                .dtype = "f32",
                                .op = "sum",
                                .iterations = "auto"};
  struct by_operands operands;
  char *const first[] = {NULL, (char[]){"bench"}, (char[]){"--as-rank"}};
  size_t rest = (size_t)argc * sizeof *argv; /* with the NULL at the end */
  char **words = malloc(sizeof first + rest);
  if (!words) return by_command_end(&command, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory"));
  memcpy(words, first, sizeof first);
  memcpy(words + 3, argv + 1, rest); /* before parsing, which moves them about */
  int exit_code = by_options_parse(&command, argc, argv, &bench, &operands);
  if (exit_code < 0) exit_code = run(&bench, &operands, words);
  free(words);
  return exit_code;
}
