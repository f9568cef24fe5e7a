/* Measures what it takes the ranks to agree on which operations start, along a tree of controllers and, for
 * comparison, with all of them at one controller.
 *
 *   build/negotiate_bench -n 1024 --rounds 50
 *   banyan run -n 64 -- build/negotiate_bench --job */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "control_tree.h"
#include "negotiate_ranks.h"
#include "text.h"

enum { MOST_RANKS = 1 << 20, MOST_ROUNDS = 100000 };

struct negotiate_options {
  long ranks, operations, rounds, fan_out;
  double idle, delay;
  bool simulated, job, apart, json;
};

#define VALUES struct negotiate_options

static const struct by_option options[] = {
    BY_INT("ranks", 'n', ranks, "N", 2, MOST_RANKS, "ranks, each a process; default 64"),
    BY_INT("operations", 0, operations, "N", 1, BY_NEGOTIATE_OPERATIONS,
           "that each rank submits in a round; default 160"),
    BY_INT("rounds", 0, rounds, "N", BY_NEGOTIATE_COLD + 2, MOST_ROUNDS, "negotiations of all of them; default 20"),
    BY_INT("fan-out", 0, fan_out, "N", 0, MOST_RANKS, "children of a controller; 0 (default): what costs advise"),
    BY_SECONDS("idle", 0, idle, "TIME", "to count messages in after the last round; default 0.5 s"),
    BY_FLAG("simulated", 0, simulated,
            "all ranks in this process, in a model of time: messages\ncost what they cost here and travel for --delay"),
    BY_FLAG(
        "job", 0, job,
        "the ranks of a job, whole, with the calls that\noperations become: banyan run -n N -- negotiate_bench --job"),
    BY_FLAG("apart", 0, apart, "in a job: submit each operation by itself, not all at once"),
    BY_SECONDS("delay", 0, delay, "TIME", "of the simulated network; default 10 us"),
    BY_FLAG("json", 0, json, "print one JSON object a shape; times in seconds"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "negotiate_bench",
    .usage = "[-n N] [options]",
    .about = "Times negotiations: every rank submits the same operations by name, each in\n"
             "an order of its own, and learns in which order they start. Along a tree, and\n"
             "along a star, in which the root is everybody's parent. The first round is\n"
             "cold, by names; from the third on a rank sends a bit for each operation.\n"
             "Shown are the root's CPU time, apart from that what its own submissions take,\n"
             "a round's time, the messages that the root receives (up) and sends (down) in a\n"
             "round, and those that all ranks send. Of a job, the CPU time is that of\n"
             "negotiating, without starting calls and progressing them; that of the whole\n"
             "process stands beside it.",
    .options = options,
};

static void print_head(const struct negotiate_options *given) {
  printf("# %ld %s, %ld operations, %ld rounds\n", given->ranks,
         given->simulated ? "simulated ranks"
         : given->job     ? "ranks of a job"
                          : "processes",
         given->operations, given->rounds);
  printf("%-6s %8s %10s %10s %10s %10s %10s %7s %7s %10s %8s\n", "shape", "children", "cold", "by bits", "submitting",
         "process", "round", "up", "down", "messages", "idle");
}

static void print_row(const char *shape, const struct by_negotiate_result *r) {
  char cold[32], by_bits[32], submitting[32], process[32], round[32];
  printf("%-6s %8u %10s %10s %10s %10s %10s %7.1f %7.1f %10.1f %8llu\n", shape, r->children,
         by_print_seconds(r->cold, cold), by_print_seconds(r->by_bits, by_bits),
         by_print_seconds(r->submitting, submitting), by_print_seconds(r->process, process),
         by_print_seconds(r->round, round), r->up, r->down, r->messages, (unsigned long long)r->idle);
}

static void print_json(const char *shape, const struct negotiate_options *given, const struct by_negotiate_result *r) {
  printf(
      "{\"shape\": \"%s\", \"ranks\": %ld, \"operations\": %ld, \"simulated\": %s, \"children\": %u, \"cold\": %.9f, "
      "\"by_bits\": %.9f, \"submitting\": %.9f, \"process\": %.9f, \"round\": %.9f, \"up\": %.3f, \"down\": %.3f, "
      "\"messages\": %.3f, \"idle\": %llu, \"message\": %.9f}\n",
      shape, given->ranks, given->operations, given->simulated ? "true" : "false", r->children, r->cold, r->by_bits,
      r->submitting, r->process, r->round, r->up, r->down, r->messages, (unsigned long long)r->idle, r->message);
}

static enum banyan_status run_shape(const struct negotiate_options *given, const char *shape, uint32_t fan_out) {
  struct by_control_costs costs = by_control_costs_usual();
  struct by_negotiate_case c = {.ranks = (uint32_t)given->ranks,
                                .operations = (uint32_t)given->operations,
                                .rounds = (uint32_t)given->rounds,
                                .idle = given->idle,
                                .delay = given->delay};
  struct by_negotiate_result result;
  BY_TRY(by_control_numbered_make(c.ranks, fan_out, &costs, &c.shape));
  BY_TRY(given->simulated ? by_negotiate_simulated(&c, &result) : by_negotiate_processes(&c, &result));
  if (given->json)
    print_json(shape, given, &result);
  else
    print_row(shape, &result);
  fflush(stdout);
  return BANYAN_OK;
}

/* Rank 0 prints one line. */
static enum banyan_status run_in_job(struct negotiate_options *given) {
  struct by_negotiate_case c = {.operations = (uint32_t)given->operations,
                                .rounds = (uint32_t)given->rounds,
                                .idle = given->idle,
                                .apart = given->apart};
  struct by_negotiate_result result;
  bool reports;
  BY_TRY(by_negotiate_in_job(&c, &result, &reports));
  given->ranks = c.ranks;
  if (!reports) return BANYAN_OK;
  if (given->json) {
    print_json("job", given, &result);
    return BANYAN_OK;
  }
  print_head(given);
  print_row("job", &result);
  return BANYAN_OK;
}

static int run(const struct negotiate_options *given) {
  struct by_control_costs costs = by_control_costs_usual();
  uint32_t ranks = (uint32_t)given->ranks;
  uint32_t fan_out = given->fan_out ? (uint32_t)given->fan_out : by_control_fan_out(ranks, &costs);
  if (!given->json) print_head(given);
  fflush(stdout);
  enum banyan_status status = run_shape(given, "tree", fan_out);
  if (status == BANYAN_OK) status = run_shape(given, "star", ranks - 1);
  return by_command_end(&command, status);
}

int main(int argc, char **argv) {
  struct negotiate_options given = {.ranks = 64, .operations = 160, .rounds = 20, .idle = 0.5, .delay = 10e-6};
  int exit_code = by_options_parse(&command, argc, argv, &given, NULL);
  if (exit_code >= 0) return exit_code;
  if (!given.job) return run(&given);
  return by_command_end(&command, run_in_job(&given));
}
