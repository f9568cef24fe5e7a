/* `banyan topo`: shows, converts and draws topologies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/comm.h>

#include "commands.h"
#include "measure.h"
#include "output.h"
#include "plan.h"
#include "plan_load.h"
#include "plan_topology.h"
#include "text.h"
#include "topology.h"
#include "topology_draw.h"
#include "topology_formats.h"

/* ---- `banyan topo --measure`: as a rank of a job */

static void print_progress(const char *text) {
  by_command_note("banyan topo: %s", text);
}

/* Joins the job that the environment describes, measures the network between its hosts with all other ranks, and
 * leaves. *out is set on rank 0, which reports its progress on standard error; NULL elsewhere. BANYAN_ERR_ARGUMENT:
 * there is no job, or only one rank. */
static enum banyan_status measure_network(struct by_topology **out) {
  struct banyan_comm *comm = NULL;
  struct by_measured measured = {0};
  BY_TRY(banyan_comm_create(&(struct banyan_options){.topology = "off"}, &comm));
  enum banyan_status status;
  if (banyan_comm_size(comm) < 2)
    status = by_fail(BANYAN_ERR_ARGUMENT,
                     "--measure needs a job around it: banyan run -H alpha,beta -- banyan topo --measure");
  else
    status = by_measure(comm, &(struct by_measure_options){.notify = print_progress}, &measured);
  banyan_comm_destroy(comm);
  *out = measured.topology;
  measured.topology = NULL;
  by_measured_fini(&measured);
  return status;
}

enum { LABEL_BYTES = 300 };

struct topo_options {
  const char *plan, *svg, *title, *output;
  uint64_t bytes;
  bool json, all, list, measure, dark;
};

#define VALUES struct topo_options

static const struct by_option options[] = {
    BY_FLAG("json", 0, json, "print it as JSON, see docs/topology-format.md"),
    BY_FLAG("measure", 0, measure,
            "instead of TOPOLOGY: as a rank of a job, measure the network\nbetween the job's hosts; rank 0 prints"),
    BY_TEXT("output", 'o', output, "FILE", "write it into this file as JSON"),
    BY_TEXT("svg", 0, svg, "FILE", "draw it into this file as SVG; \"-\": standard output"),
    BY_FLAG("dark", 0, dark, "with --svg: light on dark; default: as the viewer is set"),
    BY_TEXT("plan", 'p', plan, "PLAN",
            "a built-in plan's name or a plan file: show the load of its\nAllReduce on every link"),
    BY_BYTES("bytes", 0, bytes, "SIZE", "for --plan: size of the buffer, which selects the size class;\ndefault 64M"),
    BY_TEXT("title", 0, title, "TEXT", "title of the drawing; default: the topology's name"),
    BY_FLAG("all", 'a', all, "print long tables in full"),
    BY_FLAG("list", 'l', list, "list the short texts and the formats of files"),
    {.name = NULL},
};

/* Letters that mean something else in other commands. */
static const struct by_habit habits[] = {
    {"-m", "--measure"},
    {"-s", "--svg FILE"},
    {"-t", "--title TEXT"},
    {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan topo",
    .usage = "TOPOLOGY|--measure [options]",
    .about = "Checks a topology and prints it: tables of its nodes and links, and a drawing.\n"
             "TOPOLOGY is a file in any known format, or a short text such as star:4,nic=500m\n"
             "or clos:racks=8,hosts=8,nic=100g,oversub=4; see --list. With --measure, the\n"
             "hosts of a job measure the network between them in some seconds:\n"
             "  banyan run -H alpha,beta,gamma -- banyan topo --measure -o net.json",
    .options = options,
    .habits = habits,
    .max_operands = 1,
};

static int print_list(void) {
  const struct by_topology_kind *kind;
  const struct by_topology_format *format;
  printf("short texts (sizes first; RATES as 1g/1g/200m; each also takes delay=TIME):\n\n");
  for (uint32_t i = 0; (kind = by_topology_kind_list(i)) != NULL; i++)
    printf("  %s\n      %s\n", kind->usage, kind->help);
  printf("\nformats of files:\n\n");
  for (uint32_t i = 0; (format = by_topology_format_list(i)) != NULL; i++)
    printf("  %-10s %s\n", format->name, format->help);
  return 0;
}

/* --- the load of a plan --- */

/* What is drawn: a topology and optionally the load of a plan. */
struct subject {
  struct by_topology *topology;
  struct by_plan *plan;
  struct by_plan_load load;
  char load_name[LABEL_BYTES];
  struct by_draw_options draw;
};

/* Appends the maximum rate of the plan, and its bottleneck. */
static void add_verdict(const struct subject *s, struct by_text *text) {
  const struct by_plan_load *load = &s->load;
  const struct by_node *nodes = s->topology->nodes;
  char rate[32];
  if (!s->draw.load) return;
  by_text_add(text, "\n  %s: ", s->load_name);
  if (!isfinite(load->rate)) {
    by_text_add(text, "sends nothing\n");
    return;
  }
  by_text_add(text, "AllReduce at %s of input at most, limited by ", by_print_rate(load->rate, rate));
  if (load->tightest_node != UINT32_MAX) {
    by_text_add(text, "what \"%s\" can %s\n", nodes[load->tightest_node].name,
                load->tightest_direction ? "receive" : "send");
    return;
  }
  const struct by_link *link = &s->topology->links[load->tightest_link];
  bool back = load->tightest_direction == BY_BA;
  by_text_add(text, "the link from \"%s\" to \"%s\"\n", nodes[back ? link->b : link->a].name,
              nodes[back ? link->a : link->b].name);
}

/* --- output --- */

static enum banyan_status print_output(const struct subject *s, const struct topo_options *asked) {
  struct by_text text = {0};
  if (asked->json) {
    by_topology_print(s->topology, &text);
    by_text_add(&text, "\n");
    return by_print_text(&text, BANYAN_OK, stdout);
  }
  enum banyan_status status = by_topology_draw(s->topology, &s->draw, &text);
  if (status == BANYAN_OK) add_verdict(s, &text);
  return by_print_text(&text, status, stdout);
}

/* Writes the requested files, and prints the rest on standard output. */
static enum banyan_status show_subject(struct subject *s, const struct topo_options *asked) {
  if (asked->plan) {
    BY_TRY(by_plan_named(asked->plan, by_plan_count_ranks(s->topology), &s->plan));
    BY_TRY(by_plan_find_load(&s->load, s->plan, asked->bytes, s->topology));
    snprintf(s->load_name, sizeof s->load_name, "plan %s", s->plan->name);
    s->draw.load = (const double(*)[2])s->load.link;
    s->draw.load_name = s->load_name;
  }
  if (asked->svg) BY_TRY(by_write_svg(asked->svg, s->topology, &s->draw));
  if (asked->output) {
    struct by_text text = {0};
    by_topology_print(s->topology, &text);
    by_text_add(&text, "\n");
    enum banyan_status status = by_write_text(asked->output, &text);
    by_text_fini(&text);
    BY_TRY(status);
  }
  return (asked->svg || asked->output) && !asked->json ? BANYAN_OK : print_output(s, asked);
}

static enum banyan_status check_topology(const struct topo_options *asked, const struct by_operands *operands) {
  bool drawn_to_output = asked->svg && strcmp(asked->svg, "-") == 0;
  if (asked->dark && !asked->svg) return by_fail(BANYAN_ERR_ARGUMENT, "--dark is for drawings: give --svg FILE, too");
  if (drawn_to_output && asked->json)
    return by_fail(BANYAN_ERR_ARGUMENT, "both --json and --svg - go to standard output");
  if (asked->measure && operands->count)
    return by_fail(BANYAN_ERR_ARGUMENT, "--measure finds the topology itself: give either --measure or \"%s\"",
                   operands->items[0]);
  if (!asked->measure && !operands->count)
    return by_fail(BANYAN_ERR_ARGUMENT, "no topology: give a file, or a text such as star:4; see --list");
  return BANYAN_OK;
}

int by_cli_topo(int argc, char **argv) {
  struct topo_options asked = {.bytes = 64 << 20};
  struct subject subject = {.topology = NULL};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (asked.list) return print_list();
  subject.draw = (struct by_draw_options){.title = asked.title, .all = asked.all, .dark = asked.dark};
  enum banyan_status status = check_topology(&asked, &operands);
  if (status == BANYAN_OK)
    status =
        asked.measure ? measure_network(&subject.topology) : by_topology_named(operands.items[0], &subject.topology);
  if (status == BANYAN_OK && subject.topology) status = show_subject(&subject, &asked);
  by_plan_load_fini(&subject.load);
  by_plan_destroy(subject.plan);
  by_topology_destroy(subject.topology);
  return status == BANYAN_ERR_ARGUMENT ? by_command_misused(&command) : by_command_end(&command, status);
}
