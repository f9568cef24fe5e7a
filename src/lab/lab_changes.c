#include "lab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "text.h"

enum { WORD_BYTES = BY_TOPOLOGY_MOST_NAME + 1 };

/* The first of them, if there are several. */
static bool find_link(const struct by_topology *t, uint32_t a, uint32_t b, uint32_t *out) {
  for (*out = 0; *out < t->n_links; ++*out) {
    const struct by_link *link = &t->links[*out];
    if ((link->a == a && link->b == b) || (link->a == b && link->b == a)) return true;
  }
  return false;
}

enum banyan_status by_lab_changes_parse(const char *text, const struct by_topology *topology,
                                        struct by_lab_planned_change *out) {
  char after[32], rate[32], a[WORD_BYTES], b[WORD_BYTES];
  int end = 0;
  if (sscanf(text, "%31s %255s %255s %31s %n", after, a, b, rate, &end) != 4 || text[end])
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is not TIME NODE NODE RATE, such as \"20s leaf0 spine0 10m\"", text);
  BY_TRY(by_parse_seconds(after, &out->after));
  BY_TRY(by_parse_rate(rate, &out->rate));
  if (!(out->rate > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\": a link must carry something", text);
  uint32_t from = by_topology_find(topology, a), to = by_topology_find(topology, b);
  if (from != UINT32_MAX && to != UINT32_MAX && find_link(topology, from, to, &out->link)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\": the topology has no link between \"%.64s\" and \"%.64s\"", text, a,
                 b);
}

static const struct by_lab_planned_change *next_after(const struct by_lab_planned_change *changes, uint32_t n,
                                                      const struct by_lab_planned_change *last) {
  const struct by_lab_planned_change *next = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const struct by_lab_planned_change *c = &changes[i];
    bool later = !last || c->after > last->after || (c->after == last->after && c > last);
    if (later && (!next || c->after < next->after)) next = c;
  }
  return next;
}

static void make(struct by_lab *lab, const struct by_topology *t, const struct by_lab_planned_change *change) {
  const struct by_link *link = &t->links[change->link];
  char rate[32];
  if (by_lab_change(lab, change->link, change->rate) == BANYAN_OK)
    fprintf(stderr, "banyan lab: %s - %s carries %s\n", t->nodes[link->a].name, t->nodes[link->b].name,
            by_print_rate(change->rate, rate));
  else
    fprintf(stderr, "banyan lab: %s - %s cannot be changed: %s\n", t->nodes[link->a].name, t->nodes[link->b].name,
            banyan_error_text());
}

static void run(struct by_lab *lab, const struct by_topology *t, const struct by_lab_planned_change *changes,
                uint32_t n, pid_t parent) {
  uint64_t start = by_clock_now(&by_clock_system);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  const struct by_lab_planned_change *next = NULL;
  while ((next = next_after(changes, n, next))) {
    uint64_t at = start + by_clock_from_seconds(next->after);
    struct timespec moment = {.tv_sec = (time_t)(at / BY_SECOND), .tv_nsec = (long)(at % BY_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) continue;
    make(lab, t, next);
  }
  _exit(0);
}

enum banyan_status by_lab_changes_start(struct by_lab *lab, const struct by_topology *topology,
                                        const struct by_lab_planned_change *changes, uint32_t n, pid_t *out) {
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) run(lab, topology, changes, n, parent);
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot start the process that changes links");
  *out = pid;
  return BANYAN_OK;
}

void by_lab_changes_stop(pid_t process) {
  if (process <= 0) return;
  kill(process, SIGKILL);
  waitpid(process, NULL, 0);
}
