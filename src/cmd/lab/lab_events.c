/* Parses the events of a lab, and makes them happen in a child process. */
#include "lab_services.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "text.h"

enum { WORD_BYTES = BY_TOPOLOGY_MAX_NAME + 1, MAX_CHILDREN = 256 };

/* Finds the first link between two nodes. */
static bool find_link(const struct by_topology *t, uint32_t a, uint32_t b, uint32_t *out) {
  for (*out = 0; *out < t->n_links; ++*out) {
    const struct by_link *link = &t->links[*out];
    if ((link->a == a && link->b == b) || (link->a == b && link->b == a)) return true;
  }
  return false;
}

static enum banyan_status parse_rate(const char *text, const char *rest, const struct by_topology *t,
                                     struct by_lab_event *out) {
  char a[WORD_BYTES], b[WORD_BYTES], rate[32];
  int end = 0;
  if (sscanf(rest, "%255s %255s %31s %n", a, b, rate, &end) != 3 || rest[end])
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "\"%.64s\" is not TIME rate NODE NODE RATE, such as \"20s rate leaf0 spine0 10m\"", text);
  BY_TRY(by_parse_rate(rate, &out->rate));
  if (!(out->rate > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\": the rate must be more than 0", text);
  uint32_t from = by_topology_find(t, a), to = by_topology_find(t, b);
  if (from != UINT32_MAX && to != UINT32_MAX && find_link(t, from, to, &out->link)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\": the topology has no link between \"%.64s\" and \"%.64s\"", text, a,
                 b);
}

/* Parses "switch leaf0" or "server h3", which an agent has started. */
static bool find_role(const char *word, struct by_lab_event *out) {
  for (int role = BY_LAB_SWITCH; role <= BY_LAB_MANAGER; role++) {
    out->role = (enum by_lab_role)role;
    if (!strcmp(word, by_lab_role_name(out->role))) return true;
  }
  out->role = BY_LAB_AGENT;
  out->started = !strcmp(word, "server") ? "server" : !strcmp(word, "helper") ? "helper" : NULL;
  return out->started && out->kind == BY_LAB_KILL;
}

static enum banyan_status parse_service(const char *text, const char *rest, const struct by_topology *t,
                                        struct by_lab_event *out) {
  char role[16], node[WORD_BYTES];
  int end = 0;
  bool found = sscanf(rest, "%15s %n", role, &end) == 1 && find_role(role, out);
  out->node = UINT32_MAX;
  if (found && out->role == BY_LAB_MANAGER && !rest[end]) return BANYAN_OK;
  if (!found || sscanf(rest, "%*s %255s %n", node, &end) != 1 || rest[end])
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "\"%.64s\": after \"kill\" there is \"manager\", or switch, agent, server or helper and its node; "
                   "after \"start\" there is \"manager\", or switch or agent and its node",
                   text);
  out->node = by_topology_find(t, node);
  if (out->node != UINT32_MAX) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\": the topology has no \"%.64s\"", text, node);
}

enum banyan_status by_lab_event_parse(const char *text, const struct by_topology *topology, struct by_lab_event *out) {
  char after[32], kind[8];
  int end = 0;
  *out = (struct by_lab_event){0};
  if (sscanf(text, "%31s %7s %n", after, kind, &end) != 2) kind[0] = '\0';
  bool rate = !strcmp(kind, "rate"), kills = !strcmp(kind, "kill");
  if (!rate && !kills && strcmp(kind, "start") != 0)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "\"%.64s\" is not TIME and rate, kill or start, such as \"20s rate leaf0 spine0 10m\" or \"5s kill "
                   "switch leaf0\"",
                   text);
  out->kind = rate ? BY_LAB_RATE : kills ? BY_LAB_KILL : BY_LAB_START;
  BY_TRY(by_parse_seconds(after, &out->after));
  return (rate ? parse_rate : parse_service)(text, text + end, topology, out);
}

/* ---- making events */

static const struct by_lab_event *next_after(const struct by_lab_event *events, uint32_t n,
                                             const struct by_lab_event *last) {
  const struct by_lab_event *next = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const struct by_lab_event *e = &events[i];
    bool later = !last || e->after > last->after || (e->after == last->after && e > last);
    if (later && (!next || e->after < next->after)) next = e;
  }
  return next;
}

static void change_rate(struct by_lab *lab, const struct by_topology *t, const struct by_lab_event *event) {
  const struct by_link *link = &t->links[event->link];
  char rate[32];
  if (by_lab_change(lab, event->link, event->rate) == BANYAN_OK)
    by_command_note("banyan lab: %s - %s carries %s", t->nodes[link->a].name, t->nodes[link->b].name,
                    by_print_rate(event->rate, rate));
  else
    fprintf(stderr, "banyan lab: %s - %s cannot be changed: %s\n", t->nodes[link->a].name, t->nodes[link->b].name,
            banyan_error_text());
}

static int list_children(pid_t pid, pid_t *out) {
  char path[64];
  int n = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *file = fopen(path, "re");
  while (file && n < MAX_CHILDREN && fscanf(file, "%d", &out[n]) == 1) n++;
  if (file) fclose(file);
  return n;
}

/* Tells whether the process is `banyan WORD`. */
static bool is_command(pid_t pid, const char *word) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  FILE *file = fopen(path, "re");
  size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
  if (file) fclose(file);
  line[n] = '\0';
  size_t first = strlen(line) + 1;
  return first < n && !strcmp(line + first, word);
}

/* Kills the children of a process, or those that are `banyan WORD`. */
static int kill_children(pid_t parent, const char *word) {
  pid_t children[MAX_CHILDREN];
  int n = list_children(parent, children), killed = 0;
  for (int i = 0; i < n; i++)
    if (!word || is_command(children[i], word)) killed += kill(children[i], SIGKILL) == 0;
  return killed;
}

static int kill_started(pid_t supervisor, const char *word) {
  pid_t agents[MAX_CHILDREN];
  int n = list_children(supervisor, agents), killed = 0;
  for (int i = 0; i < n; i++) killed += kill_children(agents[i], word);
  return killed;
}

static void act_on_service(const struct by_topology *t, const struct by_lab_services *services,
                           const struct by_lab_event *event) {
  const char *node = event->node == UINT32_MAX ? "" : t->nodes[event->node].name;
  const char *what = event->started ? event->started : by_lab_role_name(event->role);
  pid_t supervisor = by_lab_services_find(services, event->role, event->node);
  bool done = supervisor && (event->kind == BY_LAB_START ? kill(supervisor, SIGHUP) == 0
                             : event->started            ? kill_started(supervisor, event->started) > 0
                                                         : kill_children(supervisor, NULL) > 0);
  by_command_note("banyan lab: %s%s%s %s", what, *node ? " " : "", node,
                  !done                         ? "does not run"
                  : event->kind == BY_LAB_START ? "starts"
                                                : "is killed");
}

static void run_events(struct by_lab *lab, const struct by_topology *t, const struct by_lab_services *services,
                       const struct by_lab_event *events, uint32_t n, pid_t parent) {
  uint64_t start = by_clock_now(&by_clock_system);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  const struct by_lab_event *next = NULL;
  while ((next = next_after(events, n, next))) {
    uint64_t at = start + by_clock_from_seconds(next->after);
    struct timespec moment = {.tv_sec = (time_t)(at / BY_SECOND), .tv_nsec = (long)(at % BY_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) continue;
    if (next->kind == BY_LAB_RATE)
      change_rate(lab, t, next);
    else
      act_on_service(t, services, next);
  }
  _exit(0);
}

enum banyan_status by_lab_events_start(struct by_lab *lab, const struct by_topology *topology,
                                       const struct by_lab_services *services, const struct by_lab_event *events,
                                       uint32_t n, pid_t *out) {
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) run_events(lab, topology, services, events, n, parent);
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot start the process that makes events");
  *out = pid;
  return BANYAN_OK;
}

void by_lab_events_stop(pid_t process) {
  if (process <= 0) return;
  kill(process, SIGKILL);
  waitpid(process, NULL, 0);
}
