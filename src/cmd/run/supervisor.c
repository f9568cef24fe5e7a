/* Decides which processes of an elastic job start again, forms the first membership, and detects the job's end. */
#include "elastic_job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/wait.h>

#include "clock.h"
#include "launch.h"
#include "process.h"
#include "text.h"

enum {
  INTRODUCED = 16, /* Members that a newcomer may ask. */
  MAX_LINE = 512,
  QUICK_SECONDS = 3, /* A process that ends earlier may be faulty: it is started later each time. */
  MAX_DELAY_SECONDS = 30,
  LAST_SECONDS = 5 /* Seconds for processes without which the others have finished. */
};

static const uint64_t first_delay = 500 * BY_MILLISECOND;

enum state {
  RUNNING,    /* It has not registered. */
  REGISTERED, /* It waits for a list. */
  DEPARTING,  /* It was asked to leave before it got a list. */
  FORMING,    /* It got the list of the first membership. */
  JOINING,    /* It asks members. */
  MEMBER,
  WAITING, /* It has died, and will be started again. */
  FINISHED,
  LEFT,
  LOST, /* It was lost with its host. */
  GONE, /* It has died, and stays dead. */
};

struct process {
  enum state state;
  bool leaving;   /* It leaves; `why` is the reason. */
  bool by_itself; /* It was not asked to. */
  char *why;
  int starts;     /* Number of earlier starts. */
  int seen;       /* The last membership that it reported, see `newest`; 0: none. */
  int quick;      /* Consecutive ends soon after the start. */
  uint64_t since; /* Time of its start; in WAITING, of its next start. */
  char *host;
  char *handle; /* NULL: it has not registered. */
};

struct by_supervisor {
  struct by_supervisor_options options;
  struct by_supervisor_events events;
  struct process *processes;
  int n, capacity;
  int restarts; /* Used restarts. */
  bool formed;  /* Some process has reported a membership, and such a process lives. */
  uint32_t attempt;
  uint64_t form_by;     /* Until then the first membership waits for processes that have not registered. */
  uint64_t below_until; /* UINT64_MAX: enough processes live. */
  bool finishing;       /* A process has finished, so the others are about to. */
  bool ended;           /* `end` was called. */
  int failure;          /* Exit code of the last process that died and stays dead; 0: none did, since one finished. */
  int newest;           /* Number of memberships reported so far. */
  uint64_t over_at; /* Processes that are not in the newest membership are useless from then on; UINT64_MAX: not yet. */
  char membership[BY_DIRECTORY_TEXT]; /* The last reported one. */
};

/* ---- messages to people */

static void print_line(const struct by_supervisor *s, const char *format, ...) BY_PRINTF(2, 3);

static void print_line(const struct by_supervisor *s, const char *format, ...) {
  char text[MAX_LINE], line[MAX_LINE + 64];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  snprintf(line, sizeof line, "%s: %s", s->options.title, text);
  s->events.print(s->events.context, line);
}

static void post_message(const struct by_supervisor *s, int process, enum by_directory_type type, uint32_t number,
                         uint32_t count, const char *text) {
  struct by_directory_message message = {.type = type, .number = number, .count = count};
  snprintf(message.text, sizeof message.text, "%s", text);
  s->events.send(s->events.context, process, &message);
}

/* ---- life of processes */

struct by_supervisor *by_supervisor_create(const struct by_supervisor_options *options,
                                           const struct by_supervisor_events *events, uint64_t now) {
  struct by_supervisor *s = by_cli_zeroed(1, sizeof *s);
  s->options = *options;
  s->events = *events;
  s->form_by = now + options->formation;
  s->below_until = s->over_at = UINT64_MAX;
  return s;
}

void by_supervisor_destroy(struct by_supervisor *s) {
  if (!s) return;
  for (int i = 0; i < s->n; i++) {
    free(s->processes[i].host);
    free(s->processes[i].why);
    free(s->processes[i].handle);
  }
  free(s->processes);
  free(s);
}

void by_supervisor_add(struct by_supervisor *s, const char *host, uint64_t now) {
  if (s->n == s->capacity) {
    s->capacity = MAX(8, 2 * s->capacity);
    s->processes = by_cli_alloc(s->processes, (size_t)s->capacity * sizeof *s->processes);
  }
  s->processes[s->n++] = (struct process){.host = by_cli_print("%s", host), .since = now};
}

static bool is_alive(const struct process *p) {
  return p->state < WAITING;
}

static int count_state(const struct by_supervisor *s, enum state min, enum state max) {
  int n = 0;
  for (int i = 0; i < s->n; i++) n += s->processes[i].state >= min && s->processes[i].state <= max;
  return n;
}

int by_supervisor_count(const struct by_supervisor *s) {
  return s->n;
}

const char *by_supervisor_host(const struct by_supervisor *s, int process) {
  return s->processes[process].host;
}

int by_supervisor_active(const struct by_supervisor *s) {
  return count_state(s, RUNNING, WAITING);
}

bool by_supervisor_may_run(const struct by_supervisor *s, int process) {
  return s->processes[process].state <= WAITING;
}

bool by_supervisor_holds(const struct by_supervisor *s, int process) {
  const struct process *p = &s->processes[process];
  return !p->leaving && p->state != LEFT && p->state != LOST;
}

bool by_supervisor_withdrew(const struct by_supervisor *s, int process) {
  return s->processes[process].by_itself;
}

bool by_supervisor_goes_on(const struct by_supervisor *s) {
  return !s->finishing && !s->ended;
}

bool by_supervisor_waits(const struct by_supervisor *s) {
  return !s->ended && (by_supervisor_active(s) || s->below_until != UINT64_MAX);
}

/* Returns the exit code. Processes that were lost with their hosts are no failure if the others continued, and left
 * when asked. */
int by_supervisor_exit_code(const struct by_supervisor *s) {
  if (s->failure) return s->failure;
  if (s->finishing) return 0;
  return count_state(s, LOST, LOST) && !count_state(s, LEFT, LEFT) ? 1 : BY_EXIT_LEFT;
}

/* ---- minimum of processes */

static void end_job(struct by_supervisor *s) {
  if (s->ended) return;
  s->ended = true;
  s->below_until = UINT64_MAX;
  if (!s->failure) s->failure = 1;
  s->events.end(s->events.context, s->failure);
}

/* Tells whether too few processes continue. A job whose processes all leave must end. */
static bool is_below(const struct by_supervisor *s) {
  int leave = 0, stay = 0;
  for (int i = 0; i < s->n; i++) {
    leave += s->processes[i].leaving;
    stay += s->processes[i].state <= WAITING && !s->processes[i].leaving;
  }
  return by_supervisor_active(s) < s->options.min && !s->finishing && !(leave && !stay);
}

/* If no host can be added, waiting is useless. */
static void check_enough(struct by_supervisor *s, uint64_t now) {
  char span[32];
  if (s->ended) return;
  if (!is_below(s)) {
    s->below_until = UINT64_MAX;
  } else if (!s->options.may_grow) {
    print_line(s, "only %d of --min %d processes are left: ending the job", by_supervisor_active(s), s->options.min);
    end_job(s);
  } else if (s->below_until == UINT64_MAX) {
    s->below_until = now + s->options.min_timeout;
    print_line(s, "only %d of --min %d processes are left: the job ends unless others join within %s",
               by_supervisor_active(s), s->options.min,
               by_print_seconds((double)s->options.min_timeout / BY_SECOND, span));
  }
}

/* ---- lists */

/* Sends a list to one process, or to all: a process that cannot use it gets another one later, or none. */
static void send_peers(const struct by_supervisor *s, int to, const int *list, int n) {
  for (int i = 0; i < n; i++) post_message(s, to, BY_DIRECTORY_PEER, (uint32_t)i, 0, s->processes[list[i]].handle);
}

/* Lists members that a newcomer may ask: those that do not leave, if there are any. */
static int list_members(const struct by_supervisor *s, int out[INTRODUCED]) {
  int n = 0;
  for (int leaving = 0; leaving < 2; leaving++)
    for (int i = 0; i < s->n && n < INTRODUCED; i++)
      if (s->processes[i].state == MEMBER && s->processes[i].leaving == leaving) out[n++] = i;
  return n;
}

static void introduce_process(struct by_supervisor *s, int process) {
  int list[INTRODUCED], n = list_members(s, list);
  s->processes[process].state = JOINING;
  send_peers(s, process, list, n);
  post_message(s, process, BY_DIRECTORY_JOIN, 0, (uint32_t)n, "");
}

/* Forms the first membership of all registered processes; others are waited for until form_by. */
static void form_first(struct by_supervisor *s, uint64_t now) {
  int n = count_state(s, REGISTERED, REGISTERED),
      missing = count_state(s, RUNNING, RUNNING) + count_state(s, WAITING, WAITING);
  if (n < (s->finishing ? 1 : s->options.min) || count_state(s, FORMING, FORMING) || (missing && now < s->form_by))
    return;
  if (missing) print_line(s, "the first membership is formed without %d processes that did not start in time", missing);
  int *list = by_cli_alloc(NULL, (size_t)n * sizeof *list);
  for (int i = 0, k = 0; i < s->n; i++)
    if (s->processes[i].state == REGISTERED) list[k++] = i;
  s->attempt++;
  for (int k = 0; k < n; k++) s->processes[list[k]].state = FORMING;
  send_peers(s, -1, list, n);
  for (int k = 0; k < n; k++) post_message(s, list[k], BY_DIRECTORY_FIRST, s->attempt, (uint32_t)n, "");
  free(list);
}

/* Gives lists to registered processes. If no former member is left, there is no membership to join, and new processes
 * form a first one again. */
static void assign_lists(struct by_supervisor *s, uint64_t now) {
  if (s->ended || (s->finishing && s->newest)) return;
  if (s->formed && !count_state(s, MEMBER, MEMBER) && !count_state(s, FORMING, JOINING)) {
    s->formed = false;
    s->form_by = now + s->options.formation;
  }
  if (!s->formed) {
    form_first(s, now);
    return;
  }
  if (!count_state(s, MEMBER, MEMBER)) return;
  for (int i = 0; i < s->n; i++)
    if (s->processes[i].state == REGISTERED) introduce_process(s, i);
}

/* ---- ends */

static void notify_of_death(const struct by_supervisor *s, int process) {
  if (!s->processes[process].handle) return;
  for (int i = 0; i < s->n; i++)
    if (i != process && is_alive(&s->processes[i]) && s->processes[i].handle)
      post_message(s, i, BY_DIRECTORY_DEAD, 0, 0, s->processes[process].handle);
}

static uint64_t delay_of(struct process *p, uint64_t now) {
  if (now - p->since >= QUICK_SECONDS * BY_SECOND) p->quick = 0;
  /* The first time it may have any cause. */
  if (p->quick++ == 0) return 0;
  return MIN(first_delay << MIN(p->quick - 2, 16), MAX_DELAY_SECONDS * BY_SECOND);
}

/* Starts a process again that has died and was not asked to leave. */
static void restart_process(struct by_supervisor *s, int process, const char *how, int exit_code, uint64_t now) {
  struct process *p = &s->processes[process];
  char span[32];
  if (s->finishing || s->restarts >= s->options.restarts) {
    p->state = GONE;
    s->failure = exit_code;
    if (s->finishing || !s->options.restarts)
      print_line(s, "rank %d on host %s: %s", process, p->host, how);
    else
      print_line(s, "rank %d on host %s: %s: not started again, since all %d restarts are used up", process, p->host,
                 how, s->options.restarts);
    return;
  }
  uint64_t delay = delay_of(p, now);
  s->restarts++;
  p->state = WAITING;
  p->since = now + delay;
  print_line(s, "rank %d on host %s: %s: started again%s%s, %d of %d restarts", process, p->host, how,
             delay ? " in " : "", delay ? by_print_seconds((double)delay / BY_SECOND, span) : "", s->restarts,
             s->options.restarts);
}

/* The first process has finished. Newcomers are too late. */
static void begin_finish(struct by_supervisor *s) {
  s->finishing = true;
  s->failure = 0;
  for (int i = 0; i < s->n && s->newest; i++)
    if (is_alive(&s->processes[i]) && s->processes[i].state != MEMBER)
      by_supervisor_leave(s, i, "the others have finished");
}

static void after_end(struct by_supervisor *s, int process, uint64_t now) {
  free(s->processes[process].handle);
  s->processes[process].handle = NULL;
  by_supervisor_tick(s, now);
}

void by_supervisor_ended(struct by_supervisor *s, int process, int status, uint64_t now) {
  struct process *p = &s->processes[process];
  char how[96];
  if (!is_alive(p)) return;
  notify_of_death(s, process);
  by_print_wait_status(status, how, sizeof how);
  if (p->leaving) {
    p->state = LEFT;
    print_line(s, "rank %d on host %s has left%s%s", process, p->host, WIFSIGNALED(status) ? ": " : "",
               WIFSIGNALED(status) ? how : "");
  } else if (status == 0) {
    p->state = FINISHED;
    if (!s->finishing) begin_finish(s);
  } else
    restart_process(s, process, how, by_wait_exit_code(status), now);
  after_end(s, process, now);
}

void by_supervisor_lost(struct by_supervisor *s, int process, uint64_t now) {
  struct process *p = &s->processes[process];
  if (!is_alive(p) && p->state != WAITING) return;
  p->state = LOST;
  if (s->finishing) s->failure = 1;
  after_end(s, process, now);
}

/* ---- messages */

static void take_register(struct by_supervisor *s, int process, const struct by_directory_message *message,
                          uint64_t now) {
  struct process *p = &s->processes[process];
  if ((int)message->count != p->starts) return; /* From its previous start, which has ended since. */
  if (p->state != RUNNING) {
    by_supervisor_refuse(
        s, process,
        "banyan run accepts one member of each process: start one, and continue with it by banyan_member_recover");
    return;
  }
  p->handle = by_cli_print("%s", message->text);
  p->state = p->leaving ? DEPARTING : REGISTERED;
  if (p->leaving) post_message(s, process, BY_DIRECTORY_LEAVE, 0, 0, p->why);
  assign_lists(s, now);
}

static void take_member(struct by_supervisor *s, int process, const struct by_directory_message *message,
                        uint64_t now) {
  struct process *p = &s->processes[process];
  if (p->state == RUNNING) return;
  p->state = MEMBER;
  s->formed = true;
  if (strcmp(s->membership, message->text) != 0) {
    snprintf(s->membership, sizeof s->membership, "%s", message->text);
    s->newest++;
    print_line(s, "membership \"%.200s\": %u process%s", message->text, message->count,
               message->count == 1 ? "" : "es");
  }
  p->seen = s->newest;
  assign_lists(s, now);
}

static void take_failure(struct by_supervisor *s, int process, const struct by_directory_message *message,
                         uint64_t now) {
  struct process *p = &s->processes[process];
  if (p->state != JOINING && (p->state != FORMING || message->number != s->attempt)) return;
  if (p->state == FORMING)
    print_line(s, "rank %d on host %s could not form the first membership: %.300s", process, p->host, message->text);
  p->state = REGISTERED;
  assign_lists(s, now);
}

/* Also after a request. */
static void handle_leaving(struct by_supervisor *s, int process) {
  struct process *p = &s->processes[process];
  if (p->leaving || p->state == RUNNING) return;
  p->leaving = p->by_itself = true;
  p->why = by_cli_print("its own request");
  if (p->state == REGISTERED) p->state = DEPARTING;
  print_line(s, "rank %d on host %s wants to leave", process, p->host);
}

void by_supervisor_received(struct by_supervisor *s, int process, const struct by_directory_message *message,
                            uint64_t now) {
  if (!is_alive(&s->processes[process])) return;
  switch (message->type) {
  case BY_DIRECTORY_REGISTER: take_register(s, process, message, now); break;
  case BY_DIRECTORY_MEMBER: take_member(s, process, message, now); break;
  case BY_DIRECTORY_FAILED: take_failure(s, process, message, now); break;
  case BY_DIRECTORY_LEAVING: handle_leaving(s, process); break;
  default: break;
  }
}

void by_supervisor_refuse(struct by_supervisor *s, int process, const char *why) {
  post_message(s, process, BY_DIRECTORY_REFUSED, 0, 0, why);
}

bool by_supervisor_leave(struct by_supervisor *s, int process, const char *why) {
  struct process *p = &s->processes[process];
  if (p->leaving || p->state > WAITING) return false;
  p->leaving = true;
  p->why = by_cli_print("%s", why);
  if (p->state == WAITING) p->state = LEFT;
  if (p->state == REGISTERED) p->state = DEPARTING;
  if (p->handle) post_message(s, process, BY_DIRECTORY_LEAVE, 0, 0, why);
  return true;
}

/* ---- timer */

static void start_again(struct by_supervisor *s, int process, uint64_t now) {
  struct process *p = &s->processes[process];
  p->state = RUNNING;
  p->since = now;
  p->seen = 0;
  p->starts++;
  s->events.start(s->events.context, process, p->starts);
}

/* Tells whether the only remaining processes are on a silent host, or newcomers, without which the others have
 * finished. */
static bool is_over(const struct by_supervisor *s) {
  bool any = false, stays = false;
  for (int i = 0; i < s->n; i++) {
    const struct process *p = &s->processes[i];
    if (p->state <= WAITING && !p->leaving) stays = true;
    if (is_alive(p) && p->seen == s->newest) return false;
    any |= is_alive(p);
  }
  return any && s->newest && (s->finishing || !stays);
}

/* Such processes have a moment to end by themselves. */
static void check_over(struct by_supervisor *s, uint64_t now) {
  if (!is_over(s)) {
    s->over_at = UINT64_MAX;
  } else if (s->over_at == UINT64_MAX) {
    s->over_at = now + LAST_SECONDS * BY_SECOND;
  } else if (now >= s->over_at) {
    for (int i = 0; i < s->n; i++) {
      if (!is_alive(&s->processes[i])) continue;
      print_line(s, "rank %d on host %s is terminated: the others continue without it", i, s->processes[i].host);
      s->processes[i].state = LOST;
    }
    s->over_at = UINT64_MAX;
  }
}

void by_supervisor_tick(struct by_supervisor *s, uint64_t now) {
  for (int i = 0; i < s->n && by_supervisor_goes_on(s); i++)
    if (s->processes[i].state == WAITING && s->processes[i].since <= now) start_again(s, i, now);
  for (int i = 0; i < s->n && !by_supervisor_goes_on(s); i++)
    if (s->processes[i].state == WAITING) s->processes[i].state = GONE;
  assign_lists(s, now);
  check_over(s, now);
  check_enough(s, now);
  if (now < s->below_until) return;
  print_line(s, "still fewer than %d processes (--min): ending the job", s->options.min);
  end_job(s);
}

uint64_t by_supervisor_next(const struct by_supervisor *s) {
  uint64_t next = MIN(s->below_until, s->over_at);
  for (int i = 0; i < s->n; i++)
    if (s->processes[i].state == WAITING) next = MIN(next, s->processes[i].since);
  if (!s->formed && by_supervisor_goes_on(s) && count_state(s, REGISTERED, REGISTERED) >= s->options.min &&
      !count_state(s, FORMING, FORMING))
    next = MIN(next, s->form_by);
  return s->ended ? UINT64_MAX : next;
}
