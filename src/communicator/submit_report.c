#include <stdio.h>
#include <string.h>

#include "submitter.h"

static const char *name_of(const struct banyan_comm *comm, uint32_t rank) {
  return by_context_name(comm->context, comm->processes[rank]);
}

void by_report_refusal(const struct banyan_comm *comm, const struct by_refusal *refusal, char text[BY_REPORT_TEXT]) {
  char what[2][BY_OPERATION_TEXT];
  snprintf(text, BY_REPORT_TEXT, "operation \"%s\": %s has submitted %s, %s %s: all ranks must submit the same",
           refusal->name, name_of(comm, refusal->ranks[0]), by_operation_describe(&refusal->operations[0], what[0]),
           name_of(comm, refusal->ranks[1]), by_operation_describe(&refusal->operations[1], what[1]));
}

/* ---- stalls */

/* Adds to a text of limited room. */
static void add(char *text, size_t room, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, room - used, "%s", more);
}

static uint32_t count_lacking(const struct by_stall *stall) {
  uint32_t n = stall->more;
  for (uint32_t i = 0; i < stall->n_ranges; i++) n += stall->ranges[i].last - stall->ranges[i].first + 1;
  return n;
}

/* "2, 5-7 and 3 more". */
static void add_ranks(const struct by_stall *stall, char *text, size_t room) {
  char part[64];
  for (uint32_t i = 0; i < stall->n_ranges; i++) {
    const struct by_rank_range *range = &stall->ranges[i];
    snprintf(part, sizeof part, range->first == range->last ? "%s%u" : "%s%u-%u", i ? ", " : "", range->first,
             range->last);
    add(text, room, part);
  }
  snprintf(part, sizeof part, " and %u more", stall->more);
  if (stall->more) add(text, room, part);
}

/* The host that all of them are on; NULL: there is none, or not all of them are known. */
static const char *shared_host(const struct banyan_comm *comm, const struct by_stall *stall) {
  const char *host = NULL;
  if (stall->more) return NULL;
  for (uint32_t i = 0; i < stall->n_ranges; i++)
    for (uint32_t r = stall->ranges[i].first; r <= stall->ranges[i].last && r < comm->size; r++) {
      const char *own = comm->context->job.members[comm->processes[r]].host;
      if (host && strcmp(host, own) != 0) return NULL;
      host = own;
    }
  return host;
}

static void add_place(const struct banyan_comm *comm, const struct by_stall *stall, char *text, size_t room) {
  const char *host = shared_host(comm, stall);
  add(text, room, host ? " (host " : "; all of them are below ");
  add(text, room, host ? host : name_of(comm, stall->top));
  add(text, room, host ? ")" : " in the control tree");
}

void by_report_left(const struct banyan_comm *comm, char text[BY_REPORT_TEXT]) {
  for (uint32_t r = 0; r < comm->size; r++) {
    if (!comm->context->job.left[comm->processes[r]]) continue;
    add(text, BY_REPORT_TEXT, "; ");
    add(text, BY_REPORT_TEXT, name_of(comm, r));
    add(text, BY_REPORT_TEXT, " has left the job");
    return;
  }
}

void by_report_stall(const struct banyan_comm *comm, const struct by_stall *stall, char text[BY_REPORT_TEXT]) {
  char what[BY_OPERATION_TEXT], part[128];
  uint32_t n = count_lacking(stall);
  snprintf(text, BY_REPORT_TEXT, "operation \"%s\" (%s) waits for", stall->name,
           by_operation_describe(&stall->operation, what));
  snprintf(part, sizeof part, " %u of %u ranks, which have not submitted it: ", n, comm->size);
  add(text, BY_REPORT_TEXT, part);
  add_ranks(stall, text, BY_REPORT_TEXT);
  add_place(comm, stall, text, BY_REPORT_TEXT);
  snprintf(part, sizeof part, "; %u of them do%s not answer, nor do those below", stall->silent,
           stall->silent == 1 ? "es" : "");
  if (stall->silent) add(text, BY_REPORT_TEXT, part);
  by_report_left(comm, text);
}
