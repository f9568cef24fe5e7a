/* The calls of the program's threads to a member's service. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "key_ring.h"
#include "member_service_object.h"

/* ---- from the program's threads to the service's */

/* A function that the service's thread runs while the calling thread waits. */
struct task {
  struct by_member_service *service;
  enum banyan_status (*run)(struct by_member_service *service, void *argument);
  void *argument;
  enum banyan_status status;
  char text[BY_SERVICE_TEXT];
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

static enum banyan_status run_in_service(struct by_member_service *service,
                                         enum banyan_status (*run)(struct by_member_service *service, void *argument),
                                         void *argument) {
  struct task task = {.service = service, .run = run, .argument = argument};
  BY_TRY(by_member_service_begin(service));
  BY_TRY(by_loop_post(service->loop, run_task, &task));
  pthread_mutex_lock(&service->lock);
  while (!task.done) pthread_cond_wait(&service->changed, &service->lock);
  pthread_mutex_unlock(&service->lock);
  return task.status == BANYAN_OK ? BANYAN_OK : by_fail(task.status, "%s", task.text);
}

/* ---- calls of the program's thread */

struct founded {
  const struct by_membership *membership;
  uint64_t number;
  const char *const *handles;
  uint32_t n;
};

/* Learns the handles of all members. Those without a handle are skipped. */
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
  by_asking_stop(&service->asking);
  enum banyan_status status = by_machines_found(&service->machines, copy);
  by_member_service_count_waiting(service);
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
  by_member_service_watch_members(service);
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
  (void)by_member_service_interrupt(service, true);
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
  struct by_fingerprint *of = calloc(founded->n, sizeof *of);
  if (!of) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u handles", founded->n);
  enum banyan_status status = BANYAN_OK;
  uint32_t n = 0;
  for (uint32_t i = 0; i < founded->n && status == BANYAN_OK; i++)
    if (strcmp(founded->handles[i], service->options.handle) != 0)
      status = by_member_links_learn(service->links, founded->handles[i], &of[n++]);
  if (status == BANYAN_OK && !n)
    status = by_fail(BANYAN_ERR_ARGUMENT, "the only handle to ask is that of this process itself");
  if (status == BANYAN_OK)
    by_asking_begin(&service->asking, of, n);
  else
    free(of);
  return status;
}

enum banyan_status by_member_service_join(struct by_member_service *service, const char *const *handles, uint32_t n) {
  return run_in_service(service, do_join, &(struct founded){.handles = handles, .n = n});
}

static enum banyan_status do_stop_join(struct by_member_service *service, void *argument) {
  const struct by_fingerprint *whom = by_asking_whom(&service->asking);
  (void)argument;
  if (whom) by_member_links_close(service->links, whom);
  by_asking_stop(&service->asking);
  return BANYAN_OK;
}

void by_member_service_stop_join(struct by_member_service *service) {
  (void)!run_in_service(service, do_stop_join, NULL);
}

static enum banyan_status do_leave(struct by_member_service *service, void *argument) {
  (void)argument;
  by_machines_leave(&service->machines);
  by_member_service_count_waiting(service);
  return BANYAN_OK;
}

enum banyan_status by_member_service_leave(struct by_member_service *service) {
  return run_in_service(service, do_leave, NULL);
}

static void repeat(void *context) {
  struct by_member_service *service = context;
  service->repeated.call(service->repeated.context);
  by_loop_set_delay(service->loop, &service->repeating, service->repeated.pause);
}

static enum banyan_status do_repeat(struct by_member_service *service, void *argument) {
  by_loop_cancel_timer(&service->repeating);
  service->repeated = *(const struct by_repeated *)argument;
  by_timer_init(&service->repeating, repeat, service);
  by_loop_set_delay(service->loop, &service->repeating, service->repeated.pause);
  return BANYAN_OK;
}

enum banyan_status by_member_service_repeat(struct by_member_service *service, uint64_t pause,
                                            void (*repeated)(void *context), void *context) {
  return run_in_service(service, do_repeat, &(struct by_repeated){repeated, context, pause});
}

bool by_member_service_change_wanted(struct by_member_service *service) {
  return atomic_load(&service->n_waiting) > 0;
}

/* ---- lists of memberships */

enum {
  TOLD_MOST = 16, /* Maximum members told by ranks other than rank 0; those tell others. */
  ASKED_MS = 600, /* Milliseconds in which others ask that already wait, also those not in this process's list. */
  TELL_MS = 5000,
  LOOK_MS = 10
};

/* A list to announce, or the members to tell that lists differ. */
struct forming {
  const struct by_formation *formation;
  struct by_member_list list;
  uint32_t rank, n; /* The n ranks from `rank` on are told. */
  bool *told;
  uint32_t left; /* Number of ranks that are not told yet. */
};

static enum banyan_status do_form(struct by_member_service *service, void *argument) {
  const struct forming *forming = argument;
  pthread_mutex_lock(&service->lock);
  by_lists_begin(&service->lists, &forming->list);
  pthread_mutex_unlock(&service->lock);
  return BANYAN_OK;
}

enum banyan_status by_member_service_form(struct by_member_service *service, const struct by_formation *formation) {
  const struct by_member *first = &formation->handles[0].member, *self = &service->options.self->member;
  char text[BY_MEMBER_LIST_TEXT];
  snprintf(text, sizeof text, "process %u on host %.64s gave %u handles, that of process %u on host %.64s first",
           self->pid, self->host, formation->membership->n, first->pid, first->host);
  return run_in_service(service, do_form,
                        &(struct forming){.list = {formation->name, formation->membership->number, text}});
}

/* Finds the process with this rank. Returns false for this process itself, and if the handle cannot be used. */
static bool find_other(struct by_member_service *service, const struct by_formation *formation, uint32_t rank,
                       struct by_fingerprint *out) {
  return rank != formation->rank && by_member_links_learn(service->links, formation->texts[rank], out) == BANYAN_OK;
}

static enum banyan_status do_ask(struct by_member_service *service, void *argument) {
  const struct forming *forming = argument;
  const struct by_known_list *own = &service->lists.own;
  struct by_fingerprint other;
  if (find_other(service, forming->formation, forming->rank, &other))
    by_member_service_send_list(service, &other, BY_MEMBER_FORMS,
                                &(struct by_member_list){own->name, own->number, own->text});
  return BANYAN_OK;
}

void by_member_service_ask(struct by_member_service *service, const struct by_formation *formation, uint32_t r) {
  (void)!run_in_service(service, do_ask, &(struct forming){.formation = formation, .rank = r});
}

enum banyan_status by_member_service_compare(struct by_member_service *service) {
  char text[BY_MEMBER_LIST_TEXT];
  pthread_mutex_lock(&service->lock);
  snprintf(text, sizeof text, "%s", service->lists.own.differs);
  pthread_mutex_unlock(&service->lock);
  return text[0] ? by_fail(BANYAN_ERR_MISMATCH, "%s", text) : BANYAN_OK;
}

/* Sends DIFFERS to the members that are not told yet. A member that cannot be reached at the first attempt has ended,
 * or its host is gone. */
static enum banyan_status do_tell(struct by_member_service *service, void *argument) {
  struct forming *forming = argument;
  const struct by_formation *formation = forming->formation;
  bool first = forming->left == 0;
  by_member_service_differ(service, forming->list.name, forming->list.text);
  forming->left = 0;
  for (uint32_t i = 0; i < forming->n; i++) {
    struct by_fingerprint other;
    if (forming->told[i] || !find_other(service, formation, (forming->rank + i) % formation->membership->n, &other))
      continue;
    enum by_member_link state = by_member_links_state(service->links, &other);
    if (state == BY_LINK_OPEN) by_member_service_send_list(service, &other, BY_MEMBER_DIFFERS, &forming->list);
    if (state == BY_LINK_NONE && first) by_member_links_probe(service->links, &other);
    forming->told[i] = state == BY_LINK_OPEN || (state == BY_LINK_NONE && !first);
    forming->left += !forming->told[i];
  }
  return BANYAN_OK;
}

void by_member_service_tell(struct by_member_service *service, const struct by_formation *formation, const char *text) {
  uint32_t all = formation->membership->n;
  char shown[BY_MEMBER_LIST_TEXT];
  bool root = formation->rank == 0;
  struct forming forming = {.formation = formation,
                            .list = {formation->name, 0, shown},
                            .rank = formation->rank + 1,
                            .n = root ? all - 1 : MIN(all - 1, TOLD_MOST)};
  uint64_t asked = by_clock_now(&by_clock_system) + ASKED_MS * BY_MILLISECOND, until = asked;
  if (root) until += (TELL_MS - ASKED_MS) * BY_MILLISECOND;
  snprintf(shown, sizeof shown, "%s", text);
  forming.told = calloc(all, sizeof *forming.told);
  while (forming.told && run_in_service(service, do_tell, &forming) == BANYAN_OK &&
         by_clock_now(&by_clock_system) < (forming.left ? until : asked))
    (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * (long)BY_MILLISECOND}, NULL);
  free(forming.told);
}

/* ---- */

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
  if (!newest) return BANYAN_OK; /* The membership has ended meanwhile. */
  taken->handles = BY_ARENA_ARRAY(taken->arena, struct by_handle, newest->n);
  if (!taken->handles) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u handles", newest->n);
  for (uint32_t i = 0; i < newest->n; i++) {
    const struct by_fingerprint *fingerprint = &newest->members[i].fingerprint;
    const char *handle = by_member_links_handle(service->links, fingerprint);
    taken->handles[i] = (struct by_handle){.fingerprint = *fingerprint};
    if (by_fingerprint_equal(fingerprint, &service->machines.self))
      taken->handles[i] = *service->options.self;
    else if (handle)
      BY_TRY(by_handle_parse(by_key_ring_job(service->keys), handle, taken->arena, &taken->handles[i]));
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

/* Waits under lock until there is another membership, this process is in none any more, or the timeout has passed.
 * Returns false after the timeout. */
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
  char why[BY_SERVICE_TEXT];
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
