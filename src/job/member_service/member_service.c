#include "member_service.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "descriptor.h"
#include "detection.h"
#include "log.h"
#include "machines.h"
#include "member_links.h"

enum { TEXT = 1024, ASK_MS = 1000, REFUSED_MS = 200, INTERRUPT_MS = 300, INTERRUPTS_MOST = 20 };

/* A process that wants to join, and has asked here. */
struct newcomer {
  struct newcomer *next;
  struct by_fingerprint fingerprint;
};

/* What this process asks for where it wants to join. */
struct asking {
  uint32_t n, at; /* processes, and the one that is asked */
  struct by_fingerprint *of;
  struct by_timer timer;
};

struct by_member_service {
  atomic_uint holders;
  struct by_member_service_options options;
  struct by_job_keys keys;
  pthread_t thread;
  pthread_mutex_t beginning; /* of the next one, and of making `links`: several threads may be the first */
  bool runs;
  struct by_loop *loop;
  int listener; /* until the connections have it */
  atomic_bool forms;
  _Atomic uint64_t newest;
  _Atomic uint32_t n_waiting; /* newcomers, and 1 if this process wants to leave */
  /* The loop's thread: */
  struct by_member_links *links;
  struct by_machines machines;
  struct by_detection *detection;
  struct newcomer *newcomers;
  struct asking asking;
  struct by_timer interrupting; /* until the calls of the program's group are ended */
  uint32_t interrupts;
  /* The rest under this lock. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended;
  char why[TEXT];  /* it has; or what the last process that was asked to let this one join has answered */
  uint64_t number; /* of the program's group */
  bool (*interrupt)(void *context, const char *text, bool at_once);
  void *interrupted;
};

/* ---- from other threads to the service's */

/* A call that is made by the service's thread while another one waits. */
struct task {
  struct by_member_service *service;
  enum banyan_status (*run)(struct by_member_service *service, void *argument);
  void *argument;
  enum banyan_status status;
  char text[TEXT];
  bool done;
};

static void run_task(void *context) {
  struct task *task = context;
  struct by_member_service *service = task->service;
  task->status = task->run(service, task->argument);
  if (task->status != BANYAN_OK) snprintf(task->text, sizeof task->text, "%s", banyan_error_text());
  pthread_mutex_lock(&service->lock);
  task->done = true;
  pthread_cond_broadcast(&service->changed);
  pthread_mutex_unlock(&service->lock);
}

static enum banyan_status begin(struct by_member_service *service);

static enum banyan_status run_in_service(struct by_member_service *service,
                                         enum banyan_status (*run)(struct by_member_service *service, void *argument),
                                         void *argument) {
  struct task task = {.service = service, .run = run, .argument = argument};
  BY_TRY(begin(service));
  BY_TRY(by_loop_post(service->loop, run_task, &task));
  pthread_mutex_lock(&service->lock);
  while (!task.done) pthread_cond_wait(&service->changed, &service->lock);
  pthread_mutex_unlock(&service->lock);
  return task.status == BANYAN_OK ? BANYAN_OK : by_fail(task.status, "%s", task.text);
}

/* What another thread knows of a process. */
struct report {
  struct by_member_service *service;
  struct by_fingerprint fingerprint;
  enum { LOST, SUSPECTED, DEAD, STOPPED } what;
};

static void take_report(void *context) {
  struct report *report = context;
  struct by_machines *machines = &report->service->machines;
  if (report->what == DEAD)
    by_machines_dead(machines, &report->fingerprint);
  else if (report->what == LOST)
    by_member_links_probe(report->service->links, &report->fingerprint);
  else
    by_machines_suspect(machines, &report->fingerprint);
  if (report->what == STOPPED) by_machines_request(machines);
  by_member_service_release(report->service);
  free(report);
}

static void post_report(struct by_member_service *service, const struct by_fingerprint *fingerprint, int what) {
  struct report *report = malloc(sizeof *report);
  if (!report) return;
  *report = (struct report){.service = service, .fingerprint = *fingerprint, .what = what};
  by_member_service_hold(service);
  if (by_loop_post(service->loop, take_report, report) == BANYAN_OK) return;
  by_member_service_release(service);
  free(report);
}

void by_member_service_suspect(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_report(service, fingerprint, SUSPECTED);
}

void by_member_service_probe(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_report(service, fingerprint, LOST);
}

void by_member_service_dead(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_report(service, fingerprint, DEAD);
}

/* Members for which calls wait. */
struct wait {
  struct by_member_service *service;
  uint64_t number, since;
  uint32_t n, ranks[];
};

static void take_wait(void *context) {
  struct wait *wait = context;
  by_detection_waits(wait->service->detection, wait->number, wait->since, wait->ranks, wait->n);
  by_member_service_release(wait->service);
  free(wait);
}

void by_member_service_waits(struct by_member_service *service, uint64_t number, uint64_t since, const uint32_t *ranks,
                             uint32_t n) {
  struct wait *wait = malloc(sizeof *wait + n * sizeof *ranks);
  if (!wait) return;
  *wait = (struct wait){.service = service, .number = number, .since = since, .n = n};
  memcpy(wait->ranks, ranks, n * sizeof *ranks);
  by_member_service_hold(service);
  if (by_loop_post(service->loop, take_wait, wait) == BANYAN_OK) return;
  by_member_service_release(service);
  free(wait);
}

/* ---- newcomers, at a member */

static void count_waiting(struct by_member_service *service) {
  uint32_t n = service->machines.leaves;
  for (const struct newcomer *newcomer = service->newcomers; newcomer; newcomer = newcomer->next) n++;
  atomic_store(&service->n_waiting, n);
}

static struct newcomer **find_newcomer(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  struct newcomer **place = &service->newcomers;
  while (*place && !by_fingerprint_equal(&(*place)->fingerprint, fingerprint)) place = &(*place)->next;
  return place;
}

static void forget_newcomer(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  struct newcomer **place = find_newcomer(service, fingerprint), *newcomer = *place;
  if (!newcomer) return;
  *place = newcomer->next;
  free(newcomer);
  count_waiting(service);
}

/* A newcomer asks, or asks again. */
static void handle_join(struct by_member_service *service, const struct by_fingerprint *from) {
  struct newcomer **place = find_newcomer(service, from);
  const struct by_membership *newest = by_machines_newest(&service->machines);
  uint32_t rank = newest ? by_membership_find(newest, from) : BY_NO_MEMBER;
  enum banyan_status status = by_machines_join(&service->machines, from);
  if (status == BANYAN_OK && newest && rank != BY_NO_MEMBER && rank >= newest->n)
    status = by_fail(BANYAN_ERR_CLOSED, "the process was a member of this group, and left it or was excluded: it can "
                                        "come back only as another member");
  if (status != BANYAN_OK) {
    const char *text = banyan_error_text();
    by_member_links_send(service->links, from, BY_MEMBER_AWAY, text, strnlen(text, BY_AWAY_MOST));
    forget_newcomer(service, from);
    return;
  }
  if (*place || rank != BY_NO_MEMBER) return;
  struct newcomer *newcomer = malloc(sizeof *newcomer);
  if (!newcomer) return; /* it comes again */
  *newcomer = (struct newcomer){.next = service->newcomers, .fingerprint = *from};
  service->newcomers = newcomer;
  by_info("member", "a process wants to join: it can at the next change of members");
  count_waiting(service);
}

/* Those that are in the newest membership have a WELCOME; others wait for the next. */
static void settle_newcomers(struct by_member_service *service) {
  const struct by_membership *newest = by_machines_newest(&service->machines);
  for (struct newcomer *newcomer = service->newcomers, *next; newcomer; newcomer = next) {
    struct by_fingerprint fingerprint = newcomer->fingerprint;
    next = newcomer->next;
    (void)!by_machines_join(&service->machines, &fingerprint);
    if (by_membership_find(newest, &fingerprint) != BY_NO_MEMBER) forget_newcomer(service, &fingerprint);
  }
}

static void on_welcome(void *context, const struct by_membership *membership, const struct by_fingerprint *to,
                       const void *message, size_t length) {
  struct by_member_service *service = context;
  struct by_member_welcome welcome = {.paxos = message, .length = length};
  struct by_writer writer;
  for (uint32_t i = 0; i < membership->n && welcome.n < BY_WELCOME_HANDLES; i++) {
    const struct by_fingerprint *fingerprint = &membership->members[i].fingerprint;
    bool own = by_fingerprint_equal(fingerprint, &service->machines.self);
    const char *handle = own ? service->options.handle : by_member_links_handle(service->links, fingerprint);
    if (handle) welcome.handles[welcome.n++] = handle;
  }
  by_writer_init(&writer, NULL, 0);
  by_member_welcome_write(&writer, &welcome);
  size_t bytes = writer.length;
  uint8_t *out = malloc(bytes);
  if (!out) return; /* it asks again */
  by_writer_init(&writer, out, bytes);
  by_member_welcome_write(&writer, &welcome);
  by_member_links_send(service->links, to, BY_MEMBER_WELCOME, out, bytes);
  free(out);
}

/* ---- a newcomer */

static void stop_asking(struct by_member_service *service) {
  by_loop_cancel_timer(&service->asking.timer);
  free(service->asking.of);
  service->asking.of = NULL;
  service->asking.n = 0;
}

static void ask(void *context) {
  struct by_member_service *service = context;
  struct asking *asking = &service->asking;
  if (!asking->n) return;
  by_member_links_send(service->links, &asking->of[asking->at % asking->n], BY_MEMBER_JOIN, "", 0);
  by_loop_set_delay(service->loop, &asking->timer, ASK_MS * BY_MILLISECOND);
}

/* This one is of no use. After all of them, it rests. */
static void ask_next(struct by_member_service *service, const struct by_fingerprint *refused, const char *text) {
  struct asking *asking = &service->asking;
  if (!asking->n || !by_fingerprint_equal(refused, &asking->of[asking->at % asking->n])) return;
  pthread_mutex_lock(&service->lock);
  snprintf(service->why, sizeof service->why, "%.*s", TEXT - 1, text);
  pthread_mutex_unlock(&service->lock);
  uint64_t delay = ++asking->at % asking->n ? 0 : REFUSED_MS * BY_MILLISECOND;
  by_loop_set_delay(service->loop, &asking->timer, delay);
}

static enum banyan_status take_welcome(struct by_member_service *service, const void *payload, size_t length) {
  struct by_arena scratch;
  struct by_member_welcome welcome;
  struct by_membership *membership = NULL;
  uint8_t secret[BY_SECRET_BYTES];
  uint64_t number;
  if (!service->asking.n) return BANYAN_OK; /* it came twice */
  by_arena_init(&scratch);
  enum banyan_status status = by_member_welcome_read(payload, length, &scratch, &welcome);
  if (status == BANYAN_OK) status = by_paxos_welcome_read(welcome.paxos, welcome.length, &number, &membership, secret);
  for (uint32_t i = 0; status == BANYAN_OK && i < welcome.n; i++)
    status = by_member_links_learn(service->links, welcome.handles[i], NULL);
  by_arena_fini(&scratch);
  if (status != BANYAN_OK) {
    by_membership_destroy(membership);
    return status;
  }
  stop_asking(service);
  return by_machines_welcomed(&service->machines, membership);
}

/* ---- events of connections */

static void on_frame(void *context, const struct by_fingerprint *from, uint16_t type, const void *payload,
                     size_t length) {
  struct by_member_service *service = context;
  char text[BY_AWAY_MOST + 1];
  if (by_detection_handle(service->detection, from, type, payload, length)) return;
  switch (type) {
  case BY_MEMBER_PAXOS: by_machines_receive(&service->machines, from, payload, length); break;
  case BY_MEMBER_JOIN: handle_join(service, from); break;
  case BY_MEMBER_WELCOME:
    if (take_welcome(service, payload, length) != BANYAN_OK)
      by_warn("member", "a welcome is of no use: %s", banyan_error_text());
    break;
  case BY_MEMBER_AWAY:
    snprintf(text, sizeof text, "%.*s", (int)(length < BY_AWAY_MOST ? length : BY_AWAY_MOST), (const char *)payload);
    ask_next(service, from, text);
    break;
  case BY_MEMBER_LATE:
    if (length == 8 && !atomic_load(&service->forms)) by_machines_late(&service->machines, by_get_u64(payload));
    break;
  default: by_debug("member", "a frame of the unknown type %u was ignored", type);
  }
}

static void on_reached(void *context, const struct by_fingerprint *to, bool silent) {
  struct by_member_service *service = context;
  by_machines_trust(&service->machines, to);
  if (silent) by_machines_remind(&service->machines, to);
}

static void on_lost(void *context, const struct by_fingerprint *to) {
  struct by_member_service *service = context;
  struct newcomer **place = find_newcomer(service, to);
  if (*place) {
    by_machines_withdraw(&service->machines, to);
    forget_newcomer(service, to);
  }
  const struct by_membership *newest = by_machines_newest(&service->machines);
  if (newest && by_machines_is_active(&service->machines) && by_membership_find(newest, to) < newest->n)
    by_member_links_probe(service->links, to);
}

static void on_unreachable(void *context, const struct by_fingerprint *to, const char *text) {
  struct by_member_service *service = context;
  by_debug("member", "%s", text);
  by_machines_suspect(&service->machines, to);
  ask_next(service, to, text);
}

/* ---- what is found out about processes. What may enter another membership happens later. */

static void on_detection_send(void *context, const struct by_fingerprint *to, uint16_t type, const void *payload,
                              size_t length) {
  const struct by_member_service *service = context;
  by_member_links_send(service->links, to, type, payload, length);
}

static void on_dead(void *context, const struct by_fingerprint *process) {
  struct by_member_service *service = context;
  by_machines_dead(&service->machines, process);
}

static void on_suspect(void *context, const struct by_fingerprint *process) {
  post_report(context, process, SUSPECTED);
}

static void on_trust(void *context, const struct by_fingerprint *process) {
  struct by_member_service *service = context;
  by_machines_trust(&service->machines, process);
}

static void on_stopped(void *context, const struct by_fingerprint *process) {
  post_report(context, process, STOPPED);
}

/* Those that are known of the newest membership. */
static void watch_members(struct by_member_service *service) {
  const struct by_membership *newest = by_machines_newest(&service->machines);
  for (uint32_t i = 0; newest && i < newest->n; i++) {
    const struct by_handle *handle = by_member_links_find(service->links, &newest->members[i].fingerprint);
    if (handle) by_detection_watch(service->detection, handle);
  }
}

/* ---- events of memberships */

static void on_send(void *context, const struct by_fingerprint *to, const void *message, size_t length) {
  const struct by_member_service *service = context;
  by_member_links_send(service->links, to, BY_MEMBER_PAXOS, message, length);
}

static bool is_kept(void *context, const struct by_fingerprint *fingerprint) {
  struct by_member_service *service = context;
  if (by_machines_has(&service->machines, fingerprint) || *find_newcomer(service, fingerprint)) return true;
  for (uint32_t i = 0; i < service->asking.n; i++)
    if (by_fingerprint_equal(&service->asking.of[i], fingerprint)) return true;
  return false;
}

/* Under lock. Whether the program's group is not the newest one, and its calls have not ended yet. */
static bool interrupt(struct by_member_service *service, bool at_once) {
  static const char agreed[] =
      "the members of this group have agreed on another one: call banyan_member_recover, as they do";
  uint64_t newest = atomic_load(&service->newest);
  if (!service->interrupt || (!service->ended && (!newest || newest == service->number))) return false;
  return !service->interrupt(service->interrupted, service->ended ? service->why : agreed, at_once);
}

/* Calls that other members have completed may still complete here. */
static void interrupt_soon(void *context) {
  struct by_member_service *service = context;
  pthread_mutex_lock(&service->lock);
  bool again = interrupt(service, ++service->interrupts >= INTERRUPTS_MOST);
  pthread_mutex_unlock(&service->lock);
  if (again) by_loop_set_delay(service->loop, &service->interrupting, INTERRUPT_MS * BY_MILLISECOND);
}

static void begin_to_interrupt(struct by_member_service *service) {
  service->interrupts = 0;
  by_loop_set_delay(service->loop, &service->interrupting, INTERRUPT_MS * BY_MILLISECOND);
}

/* The first member has connections to all others until they have met, so that each notices the other's end. */
static void connect_first(const struct by_member_service *service, const struct by_membership *newest) {
  const struct by_fingerprint *self = &service->machines.self;
  bool first = by_fingerprint_equal(&newest->members[0].fingerprint, self);
  for (uint32_t i = 0; i < (first ? newest->n : 1); i++)
    if (!by_fingerprint_equal(&newest->members[i].fingerprint, self))
      by_member_links_probe(service->links, &newest->members[i].fingerprint);
}

static void on_entered(void *context) {
  struct by_member_service *service = context;
  const struct by_membership *newest = by_machines_newest(&service->machines);
  pthread_mutex_lock(&service->lock);
  atomic_store(&service->newest, newest->number);
  service->ended = false;
  pthread_cond_broadcast(&service->changed);
  pthread_mutex_unlock(&service->lock);
  begin_to_interrupt(service);
  by_member_links_prune(service->links, is_kept, service);
  by_detection_prune(service->detection, is_kept, service);
  if (by_detection_enter(service->detection, newest) != BANYAN_OK) by_warn("member", "%s", banyan_error_text());
  watch_members(service);
  settle_newcomers(service);
  connect_first(service, newest);
}

static void on_ended(void *context, const char *text) {
  struct by_member_service *service = context;
  (void)!by_detection_enter(service->detection, NULL);
  pthread_mutex_lock(&service->lock);
  atomic_store(&service->newest, 0);
  service->ended = true;
  snprintf(service->why, sizeof service->why, "%s", text);
  pthread_cond_broadcast(&service->changed);
  pthread_mutex_unlock(&service->lock);
  begin_to_interrupt(service);
}

/* ---- calls of the program's thread */

struct founded {
  const struct by_membership *membership;
  uint64_t number;
  const char *const *handles;
  uint32_t n;
};

/* Of those without a handle, nothing. */
static enum banyan_status learn_all(struct by_member_service *service, const struct founded *founded) {
  for (uint32_t i = 0; i < founded->n; i++)
    if (*founded->handles[i] && strcmp(founded->handles[i], service->options.handle) != 0)
      BY_TRY(by_member_links_learn(service->links, founded->handles[i], NULL));
  return BANYAN_OK;
}

static enum banyan_status do_found(struct by_member_service *service, void *argument) {
  const struct founded *founded = argument;
  struct by_membership *copy;
  BY_TRY(learn_all(service, founded));
  BY_TRY(by_membership_create(founded->membership, &copy));
  stop_asking(service);
  enum banyan_status status = by_machines_found(&service->machines, copy);
  count_waiting(service);
  return status;
}

enum banyan_status by_member_service_found(struct by_member_service *service, const struct by_membership *membership,
                                           const char *const *handles) {
  return run_in_service(service, do_found,
                        &(struct founded){.membership = membership, .handles = handles, .n = membership->n});
}

static enum banyan_status do_formed(struct by_member_service *service, void *argument) {
  const struct founded *founded = argument;
  BY_TRY(learn_all(service, founded));
  watch_members(service);
  by_machines_formed(&service->machines, founded->number);
  return BANYAN_OK;
}

enum banyan_status by_member_service_formed(struct by_member_service *service, uint64_t number,
                                            const char *const *handles, uint32_t n) {
  return run_in_service(service, do_formed, &(struct founded){.number = number, .handles = handles, .n = n});
}

void by_member_service_watch(struct by_member_service *service, uint64_t number,
                             bool (*interrupts)(void *context, const char *text, bool at_once), void *context) {
  pthread_mutex_lock(&service->lock);
  service->number = number;
  service->interrupt = interrupts;
  service->interrupted = context;
  (void)interrupt(service, true);
  pthread_mutex_unlock(&service->lock);
}

static enum banyan_status do_request(struct by_member_service *service, void *argument) {
  (void)argument;
  by_machines_request(&service->machines);
  return BANYAN_OK;
}

enum banyan_status by_member_service_request(struct by_member_service *service) {
  return run_in_service(service, do_request, NULL);
}

static enum banyan_status do_join(struct by_member_service *service, void *argument) {
  const struct founded *founded = argument;
  struct asking *asking = &service->asking;
  stop_asking(service);
  asking->of = calloc(founded->n, sizeof *asking->of);
  if (!asking->of) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u handles", founded->n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < founded->n; i++)
    if (strcmp(founded->handles[i], service->options.handle) != 0)
      BY_TRY(by_member_links_learn(service->links, founded->handles[i], &asking->of[n++]));
  if (!n) return by_fail(BANYAN_ERR_ARGUMENT, "the only handle to ask is that of this process itself");
  asking->n = n;
  asking->at = 0;
  ask(service);
  return BANYAN_OK;
}

enum banyan_status by_member_service_join(struct by_member_service *service, const char *const *handles, uint32_t n) {
  return run_in_service(service, do_join, &(struct founded){.handles = handles, .n = n});
}

static enum banyan_status do_stop_join(struct by_member_service *service, void *argument) {
  const struct asking *asking = &service->asking;
  (void)argument;
  if (asking->n) by_member_links_close(service->links, &asking->of[asking->at % asking->n]);
  stop_asking(service);
  return BANYAN_OK;
}

void by_member_service_stop_join(struct by_member_service *service) {
  (void)!run_in_service(service, do_stop_join, NULL);
}

static enum banyan_status do_leave(struct by_member_service *service, void *argument) {
  (void)argument;
  by_machines_leave(&service->machines);
  count_waiting(service);
  return BANYAN_OK;
}

enum banyan_status by_member_service_leave(struct by_member_service *service) {
  return run_in_service(service, do_leave, NULL);
}

bool by_member_service_change_wanted(struct by_member_service *service) {
  return atomic_load(&service->n_waiting) > 0;
}

void by_member_service_set_forming(struct by_member_service *service, bool forms) {
  atomic_store(&service->forms, forms);
}

struct late {
  uint64_t number;
  struct by_fingerprint fingerprint;
};

static enum banyan_status do_late(struct by_member_service *service, void *argument) {
  const struct late *late = argument;
  uint8_t number[8];
  by_put_u64(number, late->number);
  by_member_links_send(service->links, &late->fingerprint, BY_MEMBER_LATE, number, sizeof number);
  if (!by_member_links_handle(service->links, &late->fingerprint))
    by_machines_suspect(&service->machines, &late->fingerprint);
  return BANYAN_OK;
}

void by_member_service_late(struct by_member_service *service, uint64_t number,
                            const struct by_fingerprint *fingerprint) {
  (void)!run_in_service(service, do_late, &(struct late){number, *fingerprint});
}

uint64_t by_member_service_newest(const struct by_member_service *service) {
  return atomic_load(&service->newest);
}

struct taken {
  struct by_arena *arena;
  struct by_membership *membership;
  struct by_handle *handles;
};

static enum banyan_status do_take(struct by_member_service *service, void *argument) {
  struct taken *taken = argument;
  const struct by_membership *newest = by_machines_newest(&service->machines);
  if (!newest) return BANYAN_OK; /* since a moment */
  taken->handles = BY_ARENA_ARRAY(taken->arena, struct by_handle, newest->n);
  if (!taken->handles) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u handles", newest->n);
  for (uint32_t i = 0; i < newest->n; i++) {
    const struct by_fingerprint *fingerprint = &newest->members[i].fingerprint;
    const char *handle = by_member_links_handle(service->links, fingerprint);
    taken->handles[i] = (struct by_handle){.fingerprint = *fingerprint};
    if (by_fingerprint_equal(fingerprint, &service->machines.self))
      taken->handles[i] = *service->options.self;
    else if (handle)
      BY_TRY(by_handle_parse(&service->keys.own, handle, taken->arena, &taken->handles[i]));
  }
  if (!taken->handles[0].member.host)
    return by_fail(BANYAN_ERR_CONNECT, "the first member of \"%s\" is not known here", newest->name);
  return by_membership_create(newest, &taken->membership);
}

struct explained {
  char text[BY_QUORUM_TEXT];
};

static enum banyan_status do_explain(struct by_member_service *service, void *argument) {
  struct explained *explained = argument;
  if (by_machines_newest(&service->machines))
    by_machines_explain(&service->machines, explained->text);
  else
    snprintf(explained->text, sizeof explained->text, "no member has let this process join%s%.*s",
             service->why[0] ? "; the last one that was asked: "
                             : ": the members do so when they call "
                               "banyan_member_recover",
             256, service->why);
  return BANYAN_OK;
}

/* Under lock. Returns once there is another membership, or this process has ended, or the time is over. */
static bool wait_for_other(struct by_member_service *service, uint64_t not_this, uint64_t timeout) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  uint64_t seconds = timeout / BY_SECOND < 1000000000 ? timeout / BY_SECOND : 1000000000;
  until.tv_sec += (time_t)seconds;
  until.tv_nsec += (long)(timeout % BY_SECOND);
  if (until.tv_nsec >= (long)BY_SECOND) until.tv_sec++, until.tv_nsec -= (long)BY_SECOND;
  for (;;) {
    uint64_t newest = atomic_load(&service->newest);
    if (service->ended || (newest && newest != not_this)) return true;
    if (pthread_cond_timedwait(&service->changed, &service->lock, &until) == ETIMEDOUT) return false;
  }
}

enum banyan_status by_member_service_await(struct by_member_service *service, uint64_t not_this, uint64_t timeout,
                                           struct by_arena *arena, struct by_membership **out,
                                           struct by_handle **handles) {
  struct explained explained = {""};
  struct taken taken = {.arena = arena};
  pthread_mutex_lock(&service->lock);
  bool came = wait_for_other(service, not_this, timeout);
  bool ended = service->ended;
  char why[TEXT];
  snprintf(why, sizeof why, "%s", service->why);
  pthread_mutex_unlock(&service->lock);
  if (ended) return by_fail(BANYAN_ERR_CLOSED, "%s", why);
  if (!came) {
    BY_TRY(run_in_service(service, do_explain, &explained));
    return by_fail(BANYAN_ERR_TIMEOUT, "no group was agreed on in time: %s", explained.text);
  }
  BY_TRY(run_in_service(service, do_take, &taken));
  if (!taken.membership) return by_member_service_await(service, not_this, timeout, arena, out, handles);
  *out = taken.membership;
  *handles = taken.handles;
  return BANYAN_OK;
}

/* ---- life */

static void *loop_main(void *argument) {
  struct by_member_service *service = argument;
  if (by_loop_run(service->loop) == BANYAN_OK) return NULL;
  by_error("member", "the service ended: %s", banyan_error_text());
  by_loop_close(service->loop); /* nobody waits for what would never be done */
  return NULL;
}

static enum banyan_status begin_once(struct by_member_service *service) {
  if (service->runs) return BANYAN_OK;
  if (!service->links) {
    struct by_member_links_options options = {.loop = service->loop,
                                              .keys = &service->keys,
                                              .self = service->options.self,
                                              .handle = service->options.handle,
                                              .listener = service->listener,
                                              .silence = service->options.silence,
                                              .events = {on_frame, on_reached, on_lost, on_unreachable, service}};
    service->listener = -1;
    BY_TRY(by_member_links_create(&options, &service->links));
  }
  int error = by_thread_start(&service->thread, loop_main, service);
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting the thread of a member's service");
  service->runs = true;
  return BANYAN_OK;
}

static enum banyan_status begin(struct by_member_service *service) {
  pthread_mutex_lock(&service->beginning);
  enum banyan_status status = begin_once(service);
  pthread_mutex_unlock(&service->beginning);
  return status;
}

enum banyan_status by_member_service_create(const struct by_member_service_options *options,
                                            struct by_member_service **out) {
  struct by_member_service *service = calloc(1, sizeof *service);
  if (!service) {
    by_close(options->listener);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a member's service");
  }
  pthread_condattr_t attributes;
  service->options = *options;
  service->keys = *options->keys;
  service->listener = options->listener;
  atomic_store(&service->holders, 1);
  pthread_mutex_init(&service->beginning, NULL);
  pthread_mutex_init(&service->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&service->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  by_timer_init(&service->asking.timer, ask, service);
  by_timer_init(&service->interrupting, interrupt_soon, service);
  enum banyan_status status = by_loop_create(&by_clock_system, &service->loop);
  if (status != BANYAN_OK) {
    by_member_service_close(service);
    return status;
  }
  by_machines_init(&service->machines, service->loop, &options->self->fingerprint,
                   &(struct by_machines_events){on_send, on_welcome, on_entered, on_ended, service});
  struct by_detection_options detection = {
      .loop = service->loop,
      .self = options->self,
      .silence = options->silence,
      .events = {on_detection_send, on_dead, on_suspect, on_trust, on_stopped, service}};
  status = by_detection_create(&detection, &service->detection);
  if (status != BANYAN_OK) {
    by_member_service_close(service);
    return status;
  }
  *out = service;
  return BANYAN_OK;
}

void by_member_service_hold(struct by_member_service *service) {
  atomic_fetch_add(&service->holders, 1);
}

void by_member_service_release(struct by_member_service *service) {
  if (atomic_fetch_sub(&service->holders, 1) > 1) return;
  by_loop_destroy(service->loop);
  pthread_mutex_destroy(&service->beginning);
  pthread_mutex_destroy(&service->lock);
  pthread_cond_destroy(&service->changed);
  free(service);
}

void by_member_service_close(struct by_member_service *service) {
  if (!service) return;
  if (service->runs) {
    by_loop_stop(service->loop);
    pthread_join(service->thread, NULL);
  }
  if (service->loop) by_loop_close(service->loop);
  stop_asking(service);
  by_loop_cancel_timer(&service->interrupting);
  by_detection_destroy(service->detection);
  by_machines_fini(&service->machines);
  by_member_links_destroy(service->links);
  if (service->listener >= 0) by_close(service->listener);
  while (service->newcomers) forget_newcomer(service, &service->newcomers->fingerprint);
  by_member_service_release(service);
}
