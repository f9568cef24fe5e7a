/* `banyan plan`: makes plans, and looks at them. Shows what every rank would run, without running anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"
#include "plan.h"
#include "plan_control.h"
#include "plan_fit.h"
#include "plan_in_network.h"
#include "plan_topology.h"
#include "schedule.h"
#include "text.h"

enum { NO_RANK = -1 };

struct plan_options {
  const char *builtin, *file, *hosts, *collective;
  long schedule, root;
  uint64_t bytes;
  bool json, list;
  bool control, in_network;
  const char *fit; /* a file; NULL: not asked for */
  struct by_control_request controlled;
  struct by_plan_request request; /* its `ranks` also as a number, where no topology is given */
};

#define AT(member) offsetof(struct plan_options, member)

static const struct by_option options[] = {
    {"builtin", 'b', BY_OPTION_TEXT, AT(builtin), "NAME", "a built-in plan, \"ring\" or \"tree:4\"; see --list", 0, 0},
    {"file", 'f', BY_OPTION_TEXT, AT(file), "FILE", "a plan file", 0, 0},
    {"ranks", 'n', BY_OPTION_TEXT, AT(request.ranks), "N|NAME,...",
     "number of ranks; of a TOPOLOGY: the hosts that take\npart, rank 0 first; default: all it says", 0, 0},
    {"hosts", 'H', BY_OPTION_TEXT, AT(hosts), "HxR|R,R,...",
     "ranks of each host, \"2x4\" or \"4,2\": the plan is made over\nhosts, and the ranks of each combine first", 0, 0},
    {"trees", 'k', BY_OPTION_INT, AT(request.trees), "K", "of a TOPOLOGY: at most so many trees; default 8", 1, 1024},
    {"max-height", 0, BY_OPTION_TEXT, AT(request.max_height), "H",
     "most hops, or seconds, from a tree's root to its leaves", 0, 0},
    {"height-metric", 0, BY_OPTION_CHOICE, AT(request.metric), "hops|delay", "what heights are; default hops", 0, 0},
    {"min-rate", 0, BY_OPTION_TEXT, AT(request.min_rate), "RATE", "least rate of a tree, \"100m\"", 0, 0},
    {"tolerance", 0, BY_OPTION_TEXT, AT(request.tolerance), "PART",
     "throughput that may be lost for lower trees; default\n0.05, of more than 8 trees 0.01", 0, 0},
    {"seed", 0, BY_OPTION_INT, AT(request.seed), "N", "of the search; default 1", 0, 1 << 30},
    {"helpers", 0, BY_OPTION_TEXT, AT(request.helpers), "NAME,...", "hosts that may add and forward for others", 0, 0},
    {"method", 0, BY_OPTION_CHOICE, AT(request.method), BY_PLAN_METHODS,
     "at most K low trees (default), all that the largest\nthroughput needs, nearly that for large topologies, or "
     "a\nfew of many ways "
     "for a job on a shared cluster, or trees through\nswitches that add, to servers",
     0, 0},
    {"cost", 0, BY_OPTION_TEXT, AT(request.cost), "NAME=VALUE,...",
     "what predicted times are made of: \"hop=25us,message=5us,\nwire=1.05,grain=32K\"; docs/performance.md", 0, 0},
    {"fit", 0, BY_OPTION_TEXT, AT(fit), "FILE",
     "of a TOPOLOGY: not the plan, but what --cost takes, so that\npredicted times are nearest to those in FILE, lines "
     "of\n"
     "`banyan bench --plan PLAN --json`",
     0, 0},
    {"explain", 0, BY_OPTION_FLAG, AT(request.explain), NULL,
     "say what limits the plan, what is used for which sizes,\nwhat else there is, and what predicted times hold, "
     "on\nstandard error",
     0, 0},
    {"control", 0, BY_OPTION_FLAG, AT(control), NULL,
     "of a TOPOLOGY: not the plan, but how ranks agree on what\nis ready: the control tree, and a ring if there is one",
     0, 0},
    {"fan-out", 0, BY_OPTION_INT, AT(controlled.fan_out), "D",
     "of --control: most children of a rank; default: as delay\nand costs of messages advise", 1,
     BY_PLAN_MOST_VERTICES},
    {"control-height", 0, BY_OPTION_INT, AT(controlled.height), "H",
     "of --control: most hops to the root; default: the least", 1, BY_PLAN_MOST_VERTICES},
    {"control-distance", 0, BY_OPTION_TEXT, AT(controlled.distance), "D",
     "of --control: most links, or seconds, between a rank and\nits parent; default: the least", 0, 0},
    {"in-network", 0, BY_OPTION_FLAG, AT(in_network), NULL,
     "of a TOPOLOGY: which switches add gradients on their way\nto a server, and what that gains", 0, 0},
    {"server", 0, BY_OPTION_TEXT, AT(request.placed.servers), "NAME,...",
     "of in-network: where sums are finished; default: the\nhelper or rank that does best", 0, 0},
    {"adding", 0, BY_OPTION_INT, AT(request.placed.most_adding), "K",
     "of in-network: at most so many switches of a tree add", 0, BY_PLAN_MOST_VERTICES},
    {"svg", 0, BY_OPTION_TEXT, AT(request.svg), "FILE",
     "of a TOPOLOGY: draw it into this file, with what the plan\ntakes of each link; \"-\": standard output", 0, 0},
    {"json", 0, BY_OPTION_FLAG, AT(json), NULL, "print the plan, or with --schedule the schedule, as JSON", 0, 0},
    {"list", 'l', BY_OPTION_FLAG, AT(list), NULL, "list the built-in plans", 0, 0},
    {"schedule", 's', BY_OPTION_INT, AT(schedule), "RANK", "print what this rank does, step by step", 0,
     BY_PLAN_MOST_VERTICES - 1},
    {"collective", 'c', BY_OPTION_TEXT, AT(collective), "NAME", "of --schedule; default allreduce", 0, 0},
    {"root", 'r', BY_OPTION_INT, AT(root), "RANK", "of --schedule, for collectives that have a root; default 0", 0,
     BY_PLAN_MOST_VERTICES - 1},
    {"bytes", 0, BY_OPTION_BYTES, AT(bytes), "SIZE",
     "of --schedule and --svg: the buffer, which decides the size\nclass; default 64M", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan plan",
    .usage = "[TOPOLOGY | --builtin NAME | --file FILE] [-n N | --hosts HxR] [options]",
    .about = "Makes or checks a plan and draws it: its trees with their shares, and the way\n"
             "up and down. TOPOLOGY is a file or a short text, see `banyan topo`; its plan is\n"
             "a set of weighted trees in what its links have left. With none of TOPOLOGY,\n"
             "--builtin and --file it is the plan that is used when none is given, which\n"
             "depends on the size of the buffer.",
    .options = options,
    .most_operands = 1,
};

static int list_builtins(void) {
  const struct by_plan_builtin_entry *entry;
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)) != NULL; i++) printf("%-14s %s\n", entry->usage, entry->help);
  return 0;
}

/* --- hosts --- */

/* Which host each rank is on; one host for each rank if none are given. */
struct placement {
  uint32_t *host_of; /* n_ranks; NULL: --hosts was not given */
  uint32_t n_ranks, n_hosts;
};

static enum banyan_status add_host(struct placement *placement, uint32_t ranks) {
  if (ranks < 1 || ranks > BY_PLAN_MOST_VERTICES - placement->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "--hosts: 1 to %d ranks in all, at least one on each", BY_PLAN_MOST_VERTICES);
  for (uint32_t i = 0; i < ranks; i++) placement->host_of[placement->n_ranks++] = placement->n_hosts;
  placement->n_hosts++;
  return BANYAN_OK;
}

/* "2x4" or "4,2,1". */
static enum banyan_status parse_hosts(const char *text, struct placement *placement) {
  uint32_t hosts = 0, ranks = 0;
  int end = 0;
  placement->host_of = calloc(BY_PLAN_MOST_VERTICES, sizeof *placement->host_of);
  if (!placement->host_of) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %d ranks", BY_PLAN_MOST_VERTICES);
  if (strspn(text, "0123456789x,") == strlen(text)) {
    if (sscanf(text, "%5ux%5u%n", &hosts, &ranks, &end) == 2 && !text[end] && hosts > 0) {
      for (uint32_t h = 0; h < hosts; h++) BY_TRY(add_host(placement, ranks));
      return BANYAN_OK;
    }
    for (const char *at = text; sscanf(at, "%5u%n", &ranks, &end) == 1;) {
      BY_TRY(add_host(placement, ranks));
      at += end;
      if (!*at) return BANYAN_OK;
      if (*at++ != ',') break;
    }
  }
  return by_fail(BANYAN_ERR_ARGUMENT, "--hosts: \"%.64s\" is neither like 2x4 nor like 4,2", text);
}

static enum banyan_status place(const struct plan_options *asked, struct placement *placement) {
  if (asked->hosts) BY_TRY(parse_hosts(asked->hosts, placement));
  long ranks = 0;
  if (asked->request.topology) return BANYAN_OK;
  if (asked->request.ranks) BY_TRY(by_parse_int("--ranks", asked->request.ranks, 1, BY_PLAN_MOST_VERTICES, &ranks));
  if (asked->hosts && ranks && (uint32_t)ranks != placement->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "-n says %ld ranks, --hosts %u", ranks, placement->n_ranks);
  if (!asked->hosts) placement->n_ranks = placement->n_hosts = (uint32_t)ranks;
  return BANYAN_OK;
}

/* --- the plan --- */

/* A plan over the hosts becomes one over the ranks; one over the ranks, or over no given number, stays. */
static enum banyan_status fit(struct by_plan *plan, const struct placement *placement, struct by_plan **out) {
  uint32_t n = placement->n_ranks;
  enum banyan_status status;
  *out = plan;
  if (n == 0 || plan->n_ranks == n) return BANYAN_OK;
  if (placement->host_of && plan->n_ranks == placement->n_hosts)
    status = by_plan_expand(plan, placement->host_of, n, out);
  else
    status = by_fail(BANYAN_ERR_PLAN, "plan %s is for %u ranks, not for %u", plan->name, plan->n_ranks, n);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status make(const struct plan_options *asked, const struct placement *placement,
                               struct by_plan **out) {
  struct by_plan *plan;
  if (!!asked->builtin + !!asked->file + !!asked->request.topology > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "TOPOLOGY, --builtin and --file cannot both be given: name one");
  if (asked->request.svg && !asked->request.topology)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--svg draws a TOPOLOGY, which is not given; `banyan topo` draws any plan on one");
  if (asked->request.topology) {
    struct by_plan_request request = asked->request;
    request.bytes = asked->bytes;
    BY_TRY(by_plan_from_topology(&request, &plan));
    return fit(plan, placement, out);
  }
  if (!asked->file && placement->n_ranks == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "how many ranks? Give -n N or --hosts");
  if (asked->file)
    BY_TRY(by_plan_read(asked->file, &plan));
  else if (asked->builtin)
    BY_TRY(by_plan_builtin(asked->builtin, placement->n_hosts, &plan));
  else
    return by_plan_default(placement->n_ranks, placement->host_of, false, out);
  return fit(plan, placement, out);
}

/* --- what is printed --- */

static bool goes_through_switches(const struct by_plan *plan) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_server(plan, &plan->classes[c].groups[g])) return true;
  return false;
}

static enum banyan_status add_schedule(const struct plan_options *asked, const struct by_plan *plan,
                                       struct by_text *text) {
  enum banyan_collective collective = BANYAN_ALLREDUCE;
  struct by_schedule *schedule;
  if (asked->collective) BY_TRY(banyan_collective_parse(asked->collective, &collective));
  if ((uint32_t)asked->schedule >= plan->n_ranks || (uint32_t)asked->root >= plan->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no rank %ld: the plan has %u",
                   asked->schedule >= (long)plan->n_ranks ? asked->schedule : asked->root, plan->n_ranks);
  BY_TRY(by_schedule_compile(plan, by_plan_class(plan, asked->bytes), collective, (uint32_t)asked->root,
                             (uint32_t)asked->schedule, &schedule));
  (asked->json ? by_schedule_print_json : by_schedule_print)(schedule, text);
  by_schedule_destroy(schedule);
  return BANYAN_OK;
}

/* Ranks send to the server, whoever is between. */
static enum banyan_status add_schedule_of_rank(const struct plan_options *asked, const struct by_plan *plan,
                                               struct by_text *text) {
  struct by_plan *stars;
  if (!goes_through_switches(plan)) return add_schedule(asked, plan, text);
  BY_TRY(by_plan_without_switches(plan, &stars));
  enum banyan_status status = add_schedule(asked, stars, text);
  by_plan_destroy(stars);
  return status;
}

static enum banyan_status add_plan(const struct plan_options *asked, const struct by_plan *plan, struct by_text *text) {
  if (asked->schedule != NO_RANK) return add_schedule_of_rank(asked, plan, text);
  if (asked->request.svg && strcmp(asked->request.svg, "-") == 0) return BANYAN_OK; /* it is there already */
  if (!asked->json) return by_plan_draw(plan, text);
  by_plan_print(plan, text);
  return BANYAN_OK;
}

static enum banyan_status show(const struct plan_options *asked, const struct placement *placement) {
  struct by_plan *plan;
  struct by_text text;
  BY_TRY(make(asked, placement, &plan));
  by_text_init(&text);
  enum banyan_status status = add_plan(asked, plan, &text);
  if (text.length && text.data[text.length - 1] != '\n') by_text_add(&text, "\n");
  if (status == BANYAN_OK && text.failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text");
  if (status == BANYAN_OK) fputs(by_text_get(&text), stdout);
  by_text_fini(&text);
  by_plan_destroy(plan);
  return status;
}

/* --- what is asked for beside the plan --- */

static enum banyan_status show_control(struct plan_options *asked) {
  struct by_control_request *request = &asked->controlled;
  request->topology = asked->request.topology;
  request->ranks = asked->request.ranks;
  request->seed = asked->request.seed;
  request->by_delay = asked->request.metric == 1;
  request->json = asked->json;
  return by_plan_show_control(request);
}

static enum banyan_status show_in_network(struct plan_options *asked) {
  struct by_in_network_request *request = &asked->request.placed;
  request->ranks = asked->request.ranks;
  return by_plan_show_in_network(request, asked->request.topology, asked->json);
}

static enum banyan_status show_beside(struct plan_options *asked) {
  if (asked->control + asked->in_network + !!asked->fit > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "--control, --in-network and --fit are different questions: ask one");
  if (!asked->request.topology)
    return by_fail(BANYAN_ERR_ARGUMENT, "--%s is made for a topology: name one, such as clos:racks=4,hosts=8",
                   asked->control      ? "control"
                   : asked->in_network ? "in-network"
                                       : "fit");
  if (asked->fit) return by_plan_show_fit(asked->request.topology, asked->request.cost, asked->fit);
  return asked->control ? show_control(asked) : show_in_network(asked);
}

static bool is_builtin(const char *text) {
  const struct by_plan_builtin_entry *entry;
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)) != NULL; i++)
    if (strcmp(text, entry->name) == 0) return true;
  return false;
}

int by_cli_plan(int argc, char **argv) {
  struct plan_options asked = {.schedule = NO_RANK, .bytes = 64 << 20};
  asked.request = (struct by_plan_request){.metric = -1, .method = -1, .seed = 1, .placed = {.most_adding = -1}};
  struct placement placement = {0};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  if (asked.list) return list_builtins();
  if (operands.count) asked.request.topology = operands.items[0];
  if (operands.count && is_builtin(operands.items[0]))
    return by_options_misuse(&command,
                             "what is \"%s\"? A built-in plan is named with --builtin, a file with --file, and a "
                             "topology has a size, such as ring:8",
                             operands.items[0]);
  bool beside = asked.control || asked.in_network || asked.fit;
  enum banyan_status status = beside ? show_beside(&asked) : place(&asked, &placement);
  if (status == BANYAN_OK && !beside) status = show(&asked, &placement);
  free(placement.host_of);
  if (status == BANYAN_OK) return 0;
  if (status == BANYAN_ERR_ARGUMENT) return by_options_misuse(&command, "%s", banyan_error_text());
  return by_options_failure(&command, banyan_error_text());
}
