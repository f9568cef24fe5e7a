/* The life of a member's service, and what happens on its thread. */
#include "member_service_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"
#include "key_ring.h"
#include "log.h"

enum { INTERRUPT_MS = 300, INTERRUPTS_MOST = 20 };

/* ---- reports of other threads */

static void release_service(struct by_member_service *service);

static void hold_service(struct by_member_service *service) {
  atomic_fetch_add(&service->holders, 1);
}

static void take_report(void *context, const struct by_report *report) {
  struct by_member_service *service = context;
  struct by_machines *machines = &service->machines;
  switch (report->kind) {
  case BY_REPORT_LOST: by_member_links_probe(service->links, &report->process); break;
  case BY_REPORT_SUSPECTED: by_machines_suspect(machines, &report->process); break;
  case BY_REPORT_STOPPED:
    by_machines_suspect(machines, &report->process);
    by_machines_request(machines);
    break;
  case BY_REPORT_DISTRUSTED:
    by_member_links_judge(service->links);
    by_machines_suspect(machines, &report->process);
    break;
  case BY_REPORT_DEAD: by_machines_dead(machines, &report->process); break;
  case BY_REPORT_AWAITED:
    by_detection_waits(service->detection, report->number, report->since, &report->rank, 1);
    break;
  }
}

static void take_reports(void *context) {
  struct by_member_service *service = context;
  by_reports_take(&service->reports, take_report, service);
  release_service(service);
}

/* Adds a report, and posts one task for all waiting reports. The loop refuses the task only if it is closed or a
 * thousand tasks wait. */
static void post_report(struct by_member_service *service, const struct by_report *report) {
  if (!by_reports_add(&service->reports, report)) return;
  hold_service(service);
  if (by_loop_post(service->loop, take_reports, service) == BANYAN_OK) return;
  by_debug("member", "a report waits for the next one: %s", banyan_error_text());
  by_reports_retry(&service->reports);
  release_service(service);
}

static void post_process(struct by_member_service *service, const struct by_fingerprint *process,
                         enum by_report_kind kind) {
  post_report(service, &(struct by_report){.kind = kind, .process = *process});
}

void by_member_service_suspect(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_process(service, fingerprint, BY_REPORT_SUSPECTED);
}

static void distrust(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_process(service, fingerprint, BY_REPORT_DISTRUSTED);
}

void by_member_service_probe(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_process(service, fingerprint, BY_REPORT_LOST);
}

void by_member_service_dead(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  post_process(service, fingerprint, BY_REPORT_DEAD);
}

static void report_waits(struct by_member_service *service, uint64_t number, uint64_t since, const uint32_t *ranks,
                         uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    struct by_report report = {.kind = BY_REPORT_AWAITED, .number = number, .since = since, .rank = ranks[i]};
    post_report(service, &report); /* NOLINT(clang-analyzer-unix.Malloc): the caller holds the service, too */
  }
}

/* ---- newcomers, at a member */

void by_member_service_count_waiting(struct by_member_service *service) {
  atomic_store(&service->n_waiting, service->machines.leaves + service->newcomers.n);
}

static void forget_newcomer(struct by_member_service *service, const struct by_fingerprint *fingerprint) {
  if (by_newcomers_remove(&service->newcomers, fingerprint)) by_member_service_count_waiting(service);
}

/* Handles a first or repeated request to join. */
static void handle_join(struct by_member_service *service, const struct by_fingerprint *from) {
  const struct by_membership *newest = by_machines_newest(&service->machines);
  uint32_t rank = newest ? by_membership_find(newest, from) : BY_NO_MEMBER;
  bool fresh = rank == BY_NO_MEMBER && !by_newcomers_has(&service->newcomers, from);
  enum banyan_status status = by_machines_join(&service->machines, from);
  if (status == BANYAN_OK && newest && rank != BY_NO_MEMBER && rank >= newest->n)
    status = by_fail(BANYAN_ERR_CLOSED, "the process was a member of this group, and left it or was excluded: it can "
                                        "come back only as another member");
  if (status == BANYAN_OK && fresh) status = by_newcomers_add(&service->newcomers, from);
  if (status != BANYAN_OK) {
    const char *text = banyan_error_text();
    by_member_links_send(service->links, from, BY_MEMBER_AWAY, text, strnlen(text, BY_AWAY_MOST));
    by_machines_withdraw(&service->machines, from);
    forget_newcomer(service, from);
    return;
  }
  if (!fresh) return;
  by_info("member", "a process wants to join: it can at the next change of members");
  by_member_service_count_waiting(service);
}

/* Welcomes the newcomers that are in the newest membership; the others wait for the next one. */
static void settle_newcomers(struct by_member_service *service) {
  const struct by_membership *newest = by_machines_newest(&service->machines);
  for (struct by_newcomer *newcomer = service->newcomers.all, *next; newcomer; newcomer = next) {
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
  if (!out) return; /* The newcomer will ask again. */
  by_writer_init(&writer, out, bytes);
  by_member_welcome_write(&writer, &welcome);
  by_member_links_send(service->links, to, BY_MEMBER_WELCOME, out, bytes);
  free(out);
}

/* ---- a newcomer */

static void on_ask(void *context, const struct by_fingerprint *to) {
  const struct by_member_service *service = context;
  by_member_links_send(service->links, to, BY_MEMBER_JOIN, "", 0);
}

static void ask_next(struct by_member_service *service, const struct by_fingerprint *refused, const char *text) {
  if (!by_asking_refused(&service->asking, refused)) return;
  pthread_mutex_lock(&service->lock);
  snprintf(service->why, sizeof service->why, "%.*s", BY_SERVICE_TEXT - 1, text);
  pthread_mutex_unlock(&service->lock);
}

static enum banyan_status take_welcome(struct by_member_service *service, const void *payload, size_t length) {
  struct by_arena scratch;
  struct by_member_welcome welcome;
  struct by_membership *membership = NULL;
  uint8_t secret[BY_SECRET_BYTES];
  uint64_t number;
  if (!service->asking.n) return BANYAN_OK; /* A duplicate welcome. */
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
  by_asking_stop(&service->asking);
  return by_machines_welcomed(&service->machines, membership);
}

/* ---- lists of memberships */

void by_member_service_send_list(const struct by_member_service *service, const struct by_fingerprint *to,
                                 enum by_member_frame type, const struct by_member_list *list) {
  uint8_t bytes[BY_MEMBER_LIST_TEXT + 32];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_list_write(&writer, list);
  by_member_links_send(service->links, to, (uint16_t)type, bytes, writer.length);
}

void by_member_service_differ(struct by_member_service *service, uint64_t name, const char *text) {
  pthread_mutex_lock(&service->lock);
  by_lists_differ(&service->lists, name, text);
  pthread_mutex_unlock(&service->lock);
}

static void handle_list(struct by_member_service *service, const struct by_fingerprint *from, uint16_t type,
                        const void *payload, size_t length) {
  struct by_arena scratch;
  struct by_member_list list;
  by_arena_init(&scratch);
  if (by_member_list_read(payload, length, &scratch, &list) != BANYAN_OK) {
    by_warn("member", "a list of a membership was ignored: %s", banyan_error_text());
  } else if (type == BY_MEMBER_DIFFERS) {
    by_member_service_differ(service, list.name, list.text);
  } else {
    pthread_mutex_lock(&service->lock);
    const char *differs = by_lists_compare(&service->lists, &list);
    pthread_mutex_unlock(&service->lock);
    if (differs)
      by_member_service_send_list(service, from, BY_MEMBER_DIFFERS, &(struct by_member_list){list.name, 0, differs});
  }
  by_arena_fini(&scratch);
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
  case BY_MEMBER_FORMS:
  case BY_MEMBER_DIFFERS: handle_list(service, from, type, payload, length); break;
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
  if (by_newcomers_has(&service->newcomers, to)) {
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
  post_process(context, process, BY_REPORT_SUSPECTED);
}

static void on_trust(void *context, const struct by_fingerprint *process) {
  struct by_member_service *service = context;
  by_machines_trust(&service->machines, process);
}

static void on_stopped(void *context, const struct by_fingerprint *process) {
  post_process(context, process, BY_REPORT_STOPPED);
}

void by_member_service_watch_members(struct by_member_service *service) {
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
  const struct by_member_service *service = context;
  return by_machines_has(&service->machines, fingerprint) || by_newcomers_has(&service->newcomers, fingerprint) ||
         by_asking_has(&service->asking, fingerprint);
}

bool by_member_service_interrupt(struct by_member_service *service, bool at_once) {
  static const char agreed[] =
      "the members of this group have agreed on another one: call banyan_member_recover, as they do";
  uint64_t newest = atomic_load(&service->newest);
  if (!service->interrupt || (!service->ended && (!newest || newest == service->number))) return false;
  return !service->interrupt(service->interrupted, service->ended ? service->why : agreed, at_once);
}

/* Interrupts calls after a delay, since calls that other members have completed may still complete here. */
static void interrupt_soon(void *context) {
  struct by_member_service *service = context;
  pthread_mutex_lock(&service->lock);
  bool again = by_member_service_interrupt(service, ++service->interrupts >= INTERRUPTS_MOST);
  pthread_mutex_unlock(&service->lock);
  if (again) by_loop_set_delay(service->loop, &service->interrupting, INTERRUPT_MS * BY_MILLISECOND);
}

static void begin_to_interrupt(struct by_member_service *service) {
  service->interrupts = 0;
  by_loop_set_delay(service->loop, &service->interrupting, INTERRUPT_MS * BY_MILLISECOND);
}

/* Connects the first member to all others until they have met, so that both ends notice when the other one ends. */
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
  by_member_links_prune(service->links);
  by_detection_prune(service->detection, is_kept, service);
  if (by_detection_enter(service->detection, newest) != BANYAN_OK) by_warn("member", "%s", banyan_error_text());
  by_member_service_watch_members(service);
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

/* ---- life */

static void *loop_main(void *argument) {
  struct by_member_service *service = argument;
  if (by_loop_run(service->loop) == BANYAN_OK) return NULL;
  by_error("member", "the service ended: %s", banyan_error_text());
  by_loop_close(service->loop); /* Callers then stop waiting for tasks that will never run. */
  return NULL;
}

static enum banyan_status begin_once(struct by_member_service *service) {
  if (service->runs) return BANYAN_OK;
  if (!service->links) {
    struct by_member_links_options options = {
        .loop = service->loop,
        .keys = service->keys,
        .self = service->options.self,
        .handle = service->options.handle,
        .encryption = service->options.encryption,
        .identity = service->options.identity,
        .statement = service->options.statement,
        .listener = service->listener,
        .silence = service->options.silence,
        .events = {on_frame, on_reached, on_lost, on_unreachable, is_kept, service}};
    service->listener = -1;
    BY_TRY(by_member_links_create(&options, &service->links));
  }
  int error = by_thread_start(&service->thread, loop_main, service);
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting the thread of a member's service");
  service->runs = true;
  return BANYAN_OK;
}

enum banyan_status by_member_service_begin(struct by_member_service *service) {
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
  service->keys = by_key_ring_hold(options->keys);
  service->listener = options->listener;
  atomic_store(&service->holders, 1);
  pthread_mutex_init(&service->beginning, NULL);
  pthread_mutex_init(&service->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&service->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  by_reports_init(&service->reports);
  by_timer_init(&service->interrupting, interrupt_soon, service);
  enum banyan_status status = by_loop_create(&by_clock_system, &service->loop);
  if (status != BANYAN_OK) {
    by_member_service_close(service);
    return status;
  }
  by_asking_init(&service->asking, service->loop, on_ask, service);
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

static void release_service(struct by_member_service *service) {
  if (atomic_fetch_sub(&service->holders, 1) > 1) return;
  by_loop_destroy(service->loop);
  by_reports_fini(&service->reports);
  pthread_mutex_destroy(&service->beginning);
  pthread_mutex_destroy(&service->lock);
  pthread_cond_destroy(&service->changed);
  by_key_ring_destroy(service->keys);
  free(service);
}

void by_member_service_close(struct by_member_service *service) {
  if (!service) return;
  if (service->runs) {
    by_loop_stop(service->loop);
    pthread_join(service->thread, NULL);
  }
  if (service->loop) by_loop_close(service->loop);
  by_asking_stop(&service->asking);
  by_loop_cancel_timer(&service->interrupting);
  by_loop_cancel_timer(&service->repeating);
  by_detection_destroy(service->detection);
  by_machines_fini(&service->machines);
  by_member_links_destroy(service->links);
  if (service->listener >= 0) by_close(service->listener);
  by_newcomers_fini(&service->newcomers);
  release_service(service);
}

const struct by_member_service_ops by_member_service_ops = {.hold = hold_service,
                                                            .release = release_service,
                                                            .suspect = by_member_service_suspect,
                                                            .distrust = distrust,
                                                            .waits = report_waits,
                                                            .ask = by_member_service_ask,
                                                            .compare = by_member_service_compare};
