/* `banyan plan`: looks at plans. Shows what every rank would run, without running anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"
#include "plan.h"
#include "schedule.h"
#include "text.h"

enum { NO_RANK = -1 };

struct plan_options {
  const char *builtin, *file, *hosts, *collective;
  long ranks, schedule, root;
  uint64_t bytes;
  bool json, list;
};

#define AT(member) offsetof(struct plan_options, member)

static const struct by_option options[] = {
    {"builtin", 'b', BY_OPTION_TEXT, AT(builtin), "NAME", "a built-in plan, \"ring\" or \"tree:4\"; see --list", 0, 0},
    {"file", 'f', BY_OPTION_TEXT, AT(file), "FILE", "a plan file", 0, 0},
    {"ranks", 'n', BY_OPTION_INT, AT(ranks), "N", "number of ranks", 1, BY_PLAN_MOST_VERTICES},
    {"hosts", 'H', BY_OPTION_TEXT, AT(hosts), "HxR|R,R,...",
     "ranks of each host, \"2x4\" or \"4,2\": the plan is made over\nhosts, and the ranks of each combine first", 0, 0},
    {"json", 0, BY_OPTION_FLAG, AT(json), NULL, "print the plan, or with --schedule the schedule, as JSON", 0, 0},
    {"list", 'l', BY_OPTION_FLAG, AT(list), NULL, "list the built-in plans", 0, 0},
    {"schedule", 's', BY_OPTION_INT, AT(schedule), "RANK", "print what this rank does, step by step", 0,
     BY_PLAN_MOST_VERTICES - 1},
    {"collective", 'c', BY_OPTION_TEXT, AT(collective), "NAME", "of --schedule; default allreduce", 0, 0},
    {"root", 'r', BY_OPTION_INT, AT(root), "RANK", "of --schedule, for collectives that have a root; default 0", 0,
     BY_PLAN_MOST_VERTICES - 1},
    {"bytes", 0, BY_OPTION_BYTES, AT(bytes), "SIZE",
     "of --schedule: the buffer, which decides the size class; default 64M", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan plan",
    .usage = "[--builtin NAME | --file FILE] [-n N | --hosts HxR] [options]",
    .about = "Checks a plan and draws it: its trees with their shares, and the way up and\n"
             "down. With neither --builtin nor --file it is the plan that is used when none\n"
             "is given, which depends on the size of the buffer.",
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
  if (asked->hosts && asked->ranks && (uint32_t)asked->ranks != placement->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "-n says %ld ranks, --hosts %u", asked->ranks, placement->n_ranks);
  if (!asked->hosts) placement->n_ranks = placement->n_hosts = (uint32_t)asked->ranks;
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
  if (asked->builtin && asked->file) return by_fail(BANYAN_ERR_ARGUMENT, "both --builtin and --file are given");
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

static enum banyan_status add_plan(const struct plan_options *asked, const struct by_plan *plan, struct by_text *text) {
  if (asked->schedule != NO_RANK) return add_schedule(asked, plan, text);
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

int by_cli_plan(int argc, char **argv) {
  struct plan_options asked = {.schedule = NO_RANK, .bytes = 64 << 20};
  struct placement placement = {0};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  if (asked.list) return list_builtins();
  if (operands.count)
    return by_options_misuse(&command, "what is \"%s\"? A built-in plan is named with --builtin, a file with --file",
                             operands.items[0]);
  enum banyan_status status = place(&asked, &placement);
  if (status == BANYAN_OK) status = show(&asked, &placement);
  free(placement.host_of);
  if (status == BANYAN_OK) return 0;
  if (status == BANYAN_ERR_ARGUMENT) return by_options_misuse(&command, "%s", banyan_error_text());
  return by_options_failure(&command, banyan_error_text());
}
