/* `banyan plan`: makes plans, and shows what every rank would run, without running anything. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "control_tree.h"
#include "output.h"
#include "plan.h"
#include "plan_topology.h"
#include "planner.h"
#include "process.h"
#include "schedule.h"
#include "text.h"
#include "topology_formats.h"

enum { NO_RANK = -1, MAX_QUEUES = 64 };

struct plan_options {
  const char *builtin, *file, *hosts, *collective;
  long schedule, root;
  uint64_t bytes;
  bool list;
  bool control, in_network, save;
  const char *fit;                  /* A file; NULL: not given. */
  struct by_plan_arguments request; /* Its `ranks` is also a number if no topology is given. */
};

#define VALUES struct plan_options

static const struct by_option options[] = {
    BY_TEXT("builtin", 'b', builtin, "NAME", "a built-in plan, \"ring\" or \"tree:4\"; see --list"),
    BY_TEXT("file", 0, file, "FILE", "a plan file"),
    BY_TEXT("ranks", 'n', request.ranks, "N|NAME,...",
            "number of ranks; for a TOPOLOGY: the hosts that take part,\nrank 0 first; default: all that take part by "
            "the topology"),
    BY_TEXT(
        "hosts", 'H', hosts, "HxR|R,R,...",
        "ranks of each host, \"2x4\" or \"4,2\": the plan is over hosts,\nand the ranks of each host combine first"),
#define ROW(key, name, letter, value, help) BY_TEXT(name, letter, request.planner.of[BY_PLANNER_##key], value, help),
    BY_PLANNER_KEYS(ROW)
#undef ROW
        BY_TEXT("helpers", 0, request.helpers, "NAME,...", "hosts that may aggregate and forward for others"),
    BY_TEXT("fit", 0, fit, "FILE",
            "for a TOPOLOGY: instead of a plan, print the value of --cost\nwith which predicted times are nearest to "
            "those in FILE,\nlines of `banyan bench --plan PLAN --json`"),
    BY_FLAG(
        "save", 0, save,
        "with --fit: keep the costs for this machine, in $BANYAN_CACHE,\n$XDG_CACHE_HOME/banyan or ~/.cache/banyan. "
        "Plans for "
        "topologies\nuse them, here and in jobs whose rank 0 is here, where --cost\nor BANYAN_PLANNER name no others"),
    BY_FLAG("explain", 0, request.explain,
            "explain on standard error what limits the plan, what is used\nfor which sizes, the alternatives, and what "
            "predicted times\ninclude"),
    BY_FLAG("control", 0, control,
            "for a TOPOLOGY: instead of a plan, print the control tree by\nwhich ranks agree on what is ready, and a "
            "ring if there is\none"),
    BY_FLAG("in-network", 0, in_network,
            "for a TOPOLOGY: print which switches should aggregate\ngradients on their way to a server, and the gain"),
    BY_TEXT(
        "server", 0, request.placed.servers, "NAME,...",
        "for in-network: the servers; default: the best helper or rank;\nfor cluster: hosts that may serve; default: "
        "all helpers and ranks"),
    BY_INT("adding", 0, request.placed.max_adding, "K", 0, BY_PLAN_MAX_VERTICES,
           "for in-network: largest number of aggregating switches in a tree"),
    BY_INT("queues", 0, request.placed.queues, "N", 1, MAX_QUEUES,
           "for in-network: split each tree into N with\nequal shares, which N cores of a user-space "
           "switch process in\nparallel; default 1"),
    BY_TEXT(
        "svg", 0, request.svg.path, "FILE",
        "draw the trees, or with --control the control tree, into this\nfile; for a TOPOLOGY also the network with the "
        "plan's load on\neach link; \"-\": standard output"),
    BY_INT("tree", 0, request.svg.tree, "N", 0, BY_PLAN_MAX_VERTICES, "with --svg: draw only tree N, of several"),
    BY_FLAG("dark", 0, request.svg.dark, "with --svg: light on dark; default: as the viewer is set"),
    BY_FLAG("json", 0, request.json,
            "print the plan, or with --schedule the schedule, as JSON; an\nexplanation is printed on standard error"),
    BY_FLAG("list", 'l', list, "list the built-in plans"),
    BY_INT("schedule", 0, schedule, "RANK", 0, BY_PLAN_MAX_VERTICES - 1,
           "print the schedule of this rank, step by step"),
    BY_TEXT("collective", 'c', collective, "NAME",
            "for --schedule, and for --explain, which also prints the\nlargest possible rate of this collective and "
            "the links that\nlimit it; default allreduce"),
    BY_INT("root", 'r', root, "RANK", 0, BY_PLAN_MAX_VERTICES - 1, "for collectives with a root; default 0"),
    BY_BYTES("bytes", 0, bytes, "SIZE",
             "for --schedule and --svg: size of the buffer, which selects\nthe size class; default 64M"),
    {.name = NULL},
};

/* Letters that mean something else in other commands. */
static const struct by_habit habits[] = {
    {"-k", "--trees K"}, {"-f", "--file FILE"}, {"-s", "--schedule RANK"}, {"-m", "--method NAME"}, {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan plan",
    .usage = "[TOPOLOGY | --builtin NAME | --file FILE] [-n N | --hosts HxR] [options]",
    .about = "Makes or checks a plan and draws it: its trees with their shares, how sums go\n"
             "up to the roots, and how results come down. TOPOLOGY is a file or a short text,\n"
             "see `banyan topo`; its plan is a set of weighted trees for the capacity that\n"
             "its links have left. Without TOPOLOGY, --builtin and --file it is the default\n"
             "plan, which depends on the size of the buffer.",
    .examples = "banyan plan star:4,nic=1g --explain\n"
                "banyan plan net.json --trees 4 --json\n"
                "banyan plan --builtin tree:4 -n 8 --schedule 0\n"
                "banyan plan clos:racks=2,hosts=4 --svg plan.svg\n",
    .options = options,
    .habits = habits,
    .max_operands = 1,
};

static int list_builtins(void) {
  const struct by_plan_builtin_entry *entry;
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)) != NULL; i++) printf("%-14s %s\n", entry->usage, entry->help);
  return 0;
}

/* --- hosts --- */

/* The host of each rank; one host for each rank if none are given. */
struct placement {
  uint32_t *host_of; /* n_ranks elements; NULL: --hosts was not given. */
  uint32_t n_ranks, n_hosts;
};

static enum banyan_status add_host(struct placement *placement, uint32_t ranks) {
  if (ranks < 1 || ranks > BY_PLAN_MAX_VERTICES - placement->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "--hosts: 1 to %d ranks in all, at least one on each", BY_PLAN_MAX_VERTICES);
  for (uint32_t i = 0; i < ranks; i++) placement->host_of[placement->n_ranks++] = placement->n_hosts;
  placement->n_hosts++;
  return BANYAN_OK;
}

/* Parses "2x4" or "4,2,1". */
static enum banyan_status parse_hosts(const char *text, struct placement *placement) {
  uint32_t hosts = 0, ranks = 0;
  int end = 0;
  placement->host_of = by_cli_zeroed(BY_PLAN_MAX_VERTICES, sizeof *placement->host_of);
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

static enum banyan_status choose_placement(const struct plan_options *asked, struct placement *placement) {
  if (asked->hosts) BY_TRY(parse_hosts(asked->hosts, placement));
  long ranks = 0;
  if (asked->request.topology) return BANYAN_OK;
  if (asked->request.ranks) BY_TRY(by_parse_int("--ranks", asked->request.ranks, 1, BY_PLAN_MAX_VERTICES, &ranks));
  if (asked->hosts && ranks && (uint32_t)ranks != placement->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "-n gives %ld ranks, --hosts %u", ranks, placement->n_ranks);
  if (!asked->hosts) placement->n_ranks = placement->n_hosts = (uint32_t)ranks;
  return BANYAN_OK;
}

/* --- the plan --- */

/* Turns a plan over the hosts into one over the ranks; one over the ranks, or over no given number, is unchanged. */
static enum banyan_status fit_to_ranks(struct by_plan *plan, const struct placement *placement, struct by_plan **out) {
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

/* Plans over hosts, each of which owns the blocks of its ranks. */
static enum banyan_status plan_topology(struct by_plan_arguments *request, const struct placement *placement,
                                        const char **scope, struct by_plan **out) {
  double *on_host = by_cli_zeroed((size_t)placement->n_hosts + 1, sizeof *on_host);
  for (uint32_t r = 0; placement->host_of && r < placement->n_ranks; r++) on_host[placement->host_of[r]]++;
  if (placement->host_of && request->root < placement->n_ranks) request->root = placement->host_of[request->root];
  request->on_host = on_host;
  request->n_hosts = placement->host_of ? placement->n_hosts : 0;
  enum banyan_status status = by_plan_from_topology(request, scope, out);
  free(on_host);
  return status;
}

static enum banyan_status make_plan(const struct plan_options *asked, const struct placement *placement,
                                    const char **scope, struct by_plan **out) {
  struct by_plan *plan;
  if (!!asked->builtin + !!asked->file + !!asked->request.topology > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "TOPOLOGY, --builtin and --file exclude each other: give one");
  if (asked->request.svg.dark && !asked->request.svg.path)
    return by_fail(BANYAN_ERR_ARGUMENT, "--dark is for drawings: give --svg FILE, too");
  if (asked->request.svg.tree >= 0 && !asked->request.svg.path)
    return by_fail(BANYAN_ERR_ARGUMENT, "--tree is for drawings: give --svg FILE, too");
  struct by_plan_arguments request = asked->request;
  request.svg.bytes = asked->bytes;
  if (request.topology)
    BY_TRY(plan_topology(&request, placement, scope, &plan));
  else if (asked->file)
    BY_TRY(by_plan_read(asked->file, &plan));
  else if (placement->n_ranks == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the number of ranks is missing: give -n N or --hosts");
  else if (asked->builtin)
    BY_TRY(by_plan_builtin(asked->builtin, placement->n_hosts, &plan));
  else
    BY_TRY(by_plan_default(placement->n_ranks, placement->host_of, false, &plan));
  return fit_to_ranks(plan, placement, out);
}

/* --- output --- */

static bool goes_through_switches(const struct by_plan *plan) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      if (by_group_has_server(plan, &plan->classes[c].groups[g])) return true;
  return false;
}

/* Prints the schedule of one rank. Ranks send to the server, whatever switches are in between. */
static enum banyan_status add_schedule(const struct plan_options *asked, const struct by_plan *plan,
                                       struct by_text *text) {
  struct by_schedule *schedule = NULL;
  struct by_plan *stars = NULL;
  if ((uint32_t)asked->schedule >= plan->n_ranks || (uint32_t)asked->root >= plan->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no rank %ld: the plan has %u",
                   asked->schedule >= (long)plan->n_ranks ? asked->schedule : asked->root, plan->n_ranks);
  if (goes_through_switches(plan)) {
    BY_TRY(by_plan_without_switches(plan, &stars));
    plan = stars;
  }
  enum banyan_collective collective = asked->request.collective;
  const struct by_class *class_ = by_plan_class_of(plan, collective, asked->bytes);
  enum banyan_status status =
      by_schedule_compile_part(plan, class_, by_schedule_part(plan, class_, collective, asked->bytes), plan->version,
                               collective, (uint32_t)asked->root, (uint32_t)asked->schedule, &schedule);
  if (status == BANYAN_OK) (asked->request.json ? by_schedule_print_json : by_schedule_print)(schedule, text);
  by_schedule_destroy(schedule);
  by_plan_destroy(stars);
  return status;
}

/* Prints the text unless something failed, and frees it. */
static enum banyan_status print_and_free(struct by_text *text, enum banyan_status status) {
  if (text->length && text->data[text->length - 1] != '\n') by_text_add(text, "\n");
  return by_print_text(text, status, stdout);
}

/* Tells whether a drawing replaces the usual output. */
static bool is_on_output(const struct by_svg_request *svg) {
  return svg->path && strcmp(svg->path, "-") == 0;
}

static enum banyan_status draw_plan(const struct by_plan *plan, const char *scope, struct by_text *text) {
  BY_TRY(by_plan_draw(plan, text));
  if (scope) by_text_add(text, "\n\"At most\" refers to %s; others may be faster on this network.\n", scope);
  return BANYAN_OK;
}

static enum banyan_status show_plan(const struct plan_options *asked, const struct placement *placement) {
  struct by_plan *plan;
  struct by_text text = {0};
  const char *scope = NULL;
  BY_TRY(make_plan(asked, placement, &scope, &plan));
  struct by_svg_request svg = asked->request.svg;
  enum banyan_status status = BANYAN_OK;
  svg.bytes = asked->bytes;
  if (svg.path && !asked->request.topology) status = by_plan_write_svg(&svg, plan, NULL);
  bool drawn = is_on_output(&svg);
  if (status == BANYAN_OK && asked->schedule != NO_RANK)
    status = add_schedule(asked, plan, &text);
  else if (status == BANYAN_OK && !drawn && asked->request.json)
    by_plan_print(plan, &text);
  else if (status == BANYAN_OK && !drawn)
    status = draw_plan(plan, scope, &text);
  by_plan_destroy(plan);
  return print_and_free(&text, status);
}

/* --- other requests --- */

/* Makes the control tree and the ring, and prints them. */
static enum banyan_status show_control(const struct plan_options *asked) {
  const struct by_svg_request *svg = &asked->request.svg;
  struct by_planner_options planner = by_planner_defaults();
  struct by_topology *topology;
  struct by_controller_trees control = {0};
  struct by_text text = {0};
  uint32_t *ranks = NULL;
  BY_TRY(by_planner_options_read(&asked->request.planner, "--", &planner));
  struct by_control_options wanted = {.limits = planner.control, .seed = planner.seed};
  BY_TRY(by_topology_named(asked->request.topology, &topology));
  enum banyan_status status = BANYAN_OK;
  if (asked->request.ranks)
    status = by_plan_find_nodes(topology, "ranks", asked->request.ranks, &ranks, &wanted.n_participants);
  wanted.participants = ranks;
  if (status == BANYAN_OK) status = by_control_make(topology, &wanted, &control);
  if (status == BANYAN_OK && svg->path) status = by_plan_write_control_svg(svg, &control);
  if (status == BANYAN_OK && !is_on_output(svg) && asked->request.json)
    by_control_print(&control, &text);
  else if (status == BANYAN_OK && !is_on_output(svg))
    status = by_control_draw(&control, &text);
  by_control_fini(&control);
  free(ranks);
  by_topology_destroy(topology);
  return print_and_free(&text, status);
}

static enum banyan_status show_beside(struct plan_options *asked) {
  const char *name = asked->control ? "control" : asked->in_network ? "in-network" : "fit";
  struct by_topology *topology;
  if (asked->control + asked->in_network + !!asked->fit > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "--control, --in-network and --fit exclude each other: give one");
  if (asked->save && !asked->fit)
    return by_fail(BANYAN_ERR_ARGUMENT, "--save stores the costs that --fit finds: give --fit, too");
  if (!asked->request.topology)
    return by_fail(BANYAN_ERR_ARGUMENT, "--%s needs a topology: give one, such as clos:racks=4,hosts=8", name);
  if (asked->schedule != NO_RANK)
    return by_fail(BANYAN_ERR_ARGUMENT, "--schedule prints the schedule of a plan: leave out --%s", name);
  if (asked->request.svg.path && !asked->control)
    return by_fail(BANYAN_ERR_ARGUMENT, "--svg draws a plan or the control tree: leave it out with --%s", name);
  if (asked->fit)
    return by_plan_show_fit(asked->request.topology, asked->request.planner.of[BY_PLANNER_COST], asked->fit,
                            asked->save);
  if (asked->control) return show_control(asked);
  asked->request.placed.ranks = asked->request.ranks;
  BY_TRY(by_topology_named(asked->request.topology, &topology));
  enum banyan_status status =
      by_plan_in_network(&asked->request.placed, "in-network", topology, stdout, asked->request.json, NULL);
  by_topology_destroy(topology);
  return status;
}

/* Returns the first given option that only affects a plan for a topology; NULL: none. */
static const char *find_topology_option(const struct by_plan_arguments *request) {
#define ROW(key, name, letter, value, help) name,
  static const char *const planner[] = {BY_PLANNER_KEYS(ROW)};
#undef ROW
  for (size_t i = 0; i < sizeof planner / sizeof *planner; i++)
    if (request->planner.of[i]) return planner[i];
  if (request->helpers) return "helpers";
  if (request->explain) return "explain";
  if (request->placed.servers) return "server";
  if (request->placed.max_adding >= 0) return "adding";
  return request->placed.queues ? "queues" : NULL;
}

/* Returns the first given option that the method ignores; NULL: none. Servers are chosen by two of the methods. */
static const char *find_ignored_option(const struct by_plan_arguments *request, const char **method) {
  *method = request->planner.of[BY_PLANNER_METHOD];
  if (!*method) *method = "few";
  bool in_network = !strcmp(*method, "in-network");
  if (request->placed.servers && !in_network && strcmp(*method, "cluster") != 0) return "server";
  if (request->placed.max_adding >= 0 && !in_network) return "adding";
  return request->placed.queues && !in_network ? "queues" : NULL;
}

/* Reports an option without effect as a mistake. */
static enum banyan_status check_effects(const struct plan_options *asked) {
  const char *name = asked->request.topology ? NULL : find_topology_option(&asked->request);
  if (name)
    return by_fail(BANYAN_ERR_ARGUMENT, "--%s only affects plans for a topology: give one, such as star:4", name);
  const char *method;
  name = find_ignored_option(&asked->request, &method);
  if (name)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--%s has no effect on plans of --method %s: leave it out, or give --in-network or --method "
                   "in-network%s",
                   name, method, strcmp(name, "server") ? "" : " or cluster");
  if ((asked->collective || asked->root) && asked->schedule == NO_RANK && !asked->request.explain)
    return by_fail(BANYAN_ERR_ARGUMENT, "--%s only affects --schedule RANK and --explain: give one of these",
                   asked->collective ? "collective" : "root");
  return BANYAN_OK;
}

static bool is_builtin(const char *text) {
  const struct by_plan_builtin_entry *entry;
  for (uint32_t i = 0; (entry = by_plan_builtin_list(i)) != NULL; i++)
    if (strcmp(text, entry->name) == 0) return true;
  return false;
}

int by_cli_plan(int argc, char **argv) {
  struct plan_options asked = {.schedule = NO_RANK, .bytes = 64 << 20};
  asked.request = (struct by_plan_arguments){.placed = {.max_adding = -1}, .svg = {.tree = -1}};
  struct placement placement = {0};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (asked.list) return list_builtins();
  if (operands.count) asked.request.topology = operands.items[0];
  if (operands.count && is_builtin(operands.items[0]))
    return by_options_misuse(&command,
                             "\"%s\" is a built-in plan: give --builtin %s, or a topology with a size, such as ring:8",
                             operands.items[0], operands.items[0]);
  bool beside = asked.control || asked.in_network || asked.fit || asked.save;
  enum banyan_status status = BANYAN_OK;
  asked.request.root = (uint32_t)asked.root;
  if (asked.collective) status = banyan_collective_parse(asked.collective, &asked.request.collective);
  if (status == BANYAN_OK && !beside) status = check_effects(&asked);
  if (status == BANYAN_OK) status = beside ? show_beside(&asked) : choose_placement(&asked, &placement);
  if (status == BANYAN_OK && !beside) status = show_plan(&asked, &placement);
  free(placement.host_of);
  return status == BANYAN_ERR_ARGUMENT ? by_command_misused(&command) : by_command_end(&command, status);
}
