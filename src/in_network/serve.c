/* Runs the servers of trees through switches: each joins the job by itself, and one loop moves the fragments of all. */
#include "serve.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "comm.h"
#include "control.h"
#include "control_messages.h"
#include "follow.h"
#include "in_network.h"
#include "log.h"
#include "udp.h"

enum { LOOKS_MS = 50, KEEN_US = 200, TURN_MS = 10 };

struct service;

/* A tree that this process serves. On the thread that transfers fragments. */
struct tree {
  LIST_ENTRY(tree) entry;
  struct role *role;
  struct by_tree_message message;
  struct by_served_tree *served;
};

/* A slot's part in one membership, or in the job, with its trees: those of the plan in use, of the next plan, and of
 * plans that have not ended. */
struct role {
  LIST_ENTRY(role) entry; /* Entry of its slot's list. */
  struct slot *slot;
  _Atomic bool joined; /* It has joined, or cannot join any more. */
  _Atomic int posted;  /* Posted tasks that refer to it. */
  bool over;
  struct by_job *job; /* NULL: it could not join. */
  LIST_HEAD(, tree) trees;
};

/* A server that joins once, with a socket that is kept from one membership to the next. */
struct slot {
  struct service *service;
  struct banyan_options options;
  struct by_follower *follower;
  pthread_t thread; /* The thread of the first join. */
  bool has_thread, over;
  enum banyan_status status;
  char text[1024];
  _Atomic int tos;    /* IP type of service; -1: the system's. */
  struct by_udp *udp; /* The slot's own socket: switches divide their work by the servers' ports. */
  struct by_watch *watch;
  LIST_HEAD(, role) roles;  /* All roles that are not over, or that tasks refer to. */
  struct role *role, *next; /* The current role; the role in the membership that is being joined, or NULL. */
};

struct service {
  const struct by_serve_options *options;
  struct by_process_identity *identity; /* Shared by all slots, which join with one ticket. */
  struct by_loop *loop;                 /* The loop that transfers fragments, on the thread that called by_serve. */
  struct by_timer again;                /* Sends again what did not fit into a socket. */
  bool reported;                        /* It was reported that all have joined this membership. */
  unsigned n;
  struct slot slots[BY_SERVE_TREES];
};

/* ---- fragments */

/* Transfers fragments as long as they come, and a little longer, as the next ones are often on their way. Other tasks
 * get their turn, as trees come and go while calls are made. */
static void transfer(void *context) {
  struct service *service = context;
  uint64_t begun = by_clock_now(&by_clock_system), last = begun, now = begun;
  while (now - last < KEEN_US * BY_MICROSECOND && now - begun < TURN_MS * BY_MILLISECOND) {
    bool any = false;
    for (unsigned i = 0; i < service->n; i++) any |= by_udp_progress(service->slots[i].udp, now);
    if (any)
      last = now;
    else
      sched_yield();
    now = by_clock_now(&by_clock_system);
  }
  bool all = true;
  for (unsigned i = 0; i < service->n; i++) all &= by_udp_flush(service->slots[i].udp);
  if (!all) by_loop_set_delay(service->loop, &service->again, BY_MILLISECOND);
}

static void ready(void *context, uint32_t events) {
  (void)events;
  transfer(context);
}

/* ---- trees */

static void end_tree(struct tree *tree) {
  by_served_tree_destroy(tree->served);
  free(tree);
}

static void report(const struct role *role, enum by_tree_report_kind kind, uint32_t version, uint32_t server) {
  struct by_tree_report what = {.kind = kind, .version = version, .server = server};
  if (kind == BY_TREE_REFUSED) snprintf(what.text, sizeof what.text, "%s", banyan_error_text());
  by_own_trees_report(&by_in_network_of(role->job)->own, &what);
}

static enum banyan_status post(struct role *role, void (*task)(void *context), void *context) {
  atomic_fetch_add(&role->posted, 1);
  enum banyan_status status = by_loop_post(role->slot->service->loop, task, context);
  if (status != BANYAN_OK) atomic_fetch_sub(&role->posted, 1);
  return status;
}

/* Returns whether the role has not joined yet, as rank 0's message may arrive before the join ends; posts the task
 * again then. */
static bool is_early(struct role *role, void (*task)(void *context), void *context) {
  atomic_fetch_sub(&role->posted, 1);
  return !atomic_load(&role->joined) && post(role, task, context) == BANYAN_OK;
}

/* On the thread that transfers fragments. */
static void begin(void *context) {
  struct tree *tree = context;
  struct role *role = tree->role;
  if (is_early(role, begin, tree)) return;
  if (!atomic_load(&role->joined) || !role->job) {
    end_tree(tree);
    return;
  }
  by_job_lock(role->job);
  const struct by_member self = by_job_members(role->job)[by_job_rank(role->job)]; /* Borrows its texts. */
  by_job_unlock(role->job);
  enum banyan_status status = by_served_tree_create(role->slot->udp, &self, &tree->message, &tree->served);
  report(role, status == BANYAN_OK ? BY_TREE_READY : BY_TREE_REFUSED, tree->message.version, by_job_rank(role->job));
  if (status == BANYAN_OK) {
    LIST_INSERT_HEAD(&role->trees, tree, entry);
    return;
  }
  by_error("communicator", "a tree cannot be served: %s", banyan_error_text());
  end_tree(tree);
}

/* On the control thread. */
static enum banyan_status notified(void *context, const struct by_tree_message *message) {
  struct role *role = context;
  struct tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a tree");
  tree->role = role;
  tree->message = *message;
  enum banyan_status status = post(role, begin, tree);
  if (status != BANYAN_OK) free(tree);
  return status;
}

/* Trees that are to end. */
struct ending {
  struct role *role;
  uint32_t version;
};

static void forget_tree(struct tree *tree) {
  LIST_REMOVE(tree, entry);
  end_tree(tree);
}

/* Ends a version, on the thread that transfers fragments. Fragments of its trees that still come are dropped. */
static void end_version(void *context) {
  struct ending *ending = context;
  struct role *role = ending->role;
  if (is_early(role, end_version, ending)) return;
  for (struct tree *tree = LIST_FIRST(&role->trees), *next; tree; tree = next) {
    next = LIST_NEXT(tree, entry);
    if (tree->message.version == ending->version) forget_tree(tree);
  }
  if (atomic_load(&role->joined) && role->job) report(role, BY_TREE_UNUSED, ending->version, by_job_rank(role->job));
  free(ending);
}

/* On the control thread. */
static void unserve(void *context, uint32_t version) {
  struct role *role = context;
  struct ending *ending = malloc(sizeof *ending);
  if (ending) *ending = (struct ending){role, version};
  if (ending && post(role, end_version, ending) == BANYAN_OK) return;
  by_error("communicator", "out of memory: this server keeps trees that are over");
  free(ending);
}

/* On the thread that transfers fragments. */
static void mark(void *context) {
  struct slot *slot = context;
  by_udp_set_mark(slot->udp, &(struct by_mark){atomic_load(&slot->tos), -1});
}

/* Called while the role joins, or on the control thread. */
static void marked(void *context, const struct by_mark *how) {
  struct slot *slot = ((struct role *)context)->slot;
  if (atomic_exchange(&slot->tos, how->tos) == how->tos) return;
  if (by_loop_post(slot->service->loop, mark, slot) != BANYAN_OK)
    by_warn("communicator", "what this server sends keeps its ToS: %s", banyan_error_text());
}

/* ---- memberships: one after the other, or one job */

/* On the control thread. */
static void follow(void *context, const char *root, const char *ticket) {
  const struct slot *slot = ((struct role *)context)->slot;
  by_follower_announce(slot->follower, root, ticket);
  by_loop_wake(slot->service->loop);
}

/* Begins the role in the membership that a slot is about to join. */
static bool begin_role(void *context, struct by_job_role *out) {
  struct slot *slot = context;
  struct role *role = calloc(1, sizeof *role);
  if (!role) return false;
  role->slot = slot;
  LIST_INIT(&role->trees);
  LIST_INSERT_HEAD(&slot->roles, role, entry);
  slot->next = role;
  *out = (struct by_job_role){.kind = BY_MEMBER_SERVER,
                              .identity = slot->service->identity,
                              .udp_port = by_udp_port(slot->udp),
                              .serve = notified,
                              .unserve = unserve,
                              .follow = follow,
                              .mark = marked,
                              .context = role};
  return true;
}

/* Ends a role: no more tasks are posted about it. */
static void end_role(struct role *role) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&role->trees)) forget_tree(LIST_FIRST(&role->trees));
  by_job_release(role->job);
  role->job = NULL;
  role->over = true;
}

/* Frees roles to which no task refers. `all`: the loop has been closed. */
static void free_roles(struct slot *slot, bool all) {
  for (struct role *role = LIST_FIRST(&slot->roles), *next; role; role = next) {
    next = LIST_NEXT(role, entry);
    if (!all && (!role->over || atomic_load(&role->posted))) continue;
    LIST_REMOVE(role, entry);
    free(role);
  }
}

static void enter(struct slot *slot, struct by_job *job) {
  if (slot->role) end_role(slot->role);
  slot->role = slot->next;
  slot->next = NULL;
  slot->role->job = job;
  atomic_store(&slot->role->joined, true);
  slot->service->reported = false;
}

/* The arguments of a slot's joining thread: each has its own, as rank 0 answers when all have come. */
struct joining {
  struct slot *slot;
  struct by_job_role role;
};

static void *join_main(void *argument) {
  struct joining *joining = argument;
  struct slot *slot = joining->slot;
  struct role *role = slot->role;
  slot->status = by_job_create(&slot->options, &joining->role, &role->job);
  snprintf(slot->text, sizeof slot->text, "%s", banyan_error_text());
  free(joining);
  atomic_store(&role->joined, true);
  by_loop_wake(slot->service->loop);
  return NULL;
}

static enum banyan_status join(struct slot *slot) {
  struct joining *joining = calloc(1, sizeof *joining);
  if (!joining || !begin_role(slot, &joining->role)) {
    free(joining);
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  }
  joining->slot = slot;
  slot->role = slot->next;
  slot->next = NULL;
  int error = pthread_create(&slot->thread, NULL, join_main, joining);
  slot->has_thread = !error;
  if (slot->has_thread) return BANYAN_OK;
  free(joining);
  return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread to join the job");
}

/* Looks for lost processes, on the thread that transfers fragments, under lock. */
static void look_for_lost(struct role *role) {
  const struct tree *tree;
  uint32_t process;
  LIST_FOREACH(tree, &role->trees, entry)
  for (uint32_t i = 0; (process = by_served_tree_aggregator(tree->served, i)) != UINT32_MAX; i++)
    if (by_engine_peer(by_job_engine(role->job), process).lost) by_served_tree_lose(tree->served, process);
}

static bool is_membership_over(struct slot *slot) {
  struct by_job *job = slot->role->job;
  by_job_lock(job);
  look_for_lost(slot->role);
  slot->status = by_engine_status(by_job_engine(job));
  if (slot->status != BANYAN_OK)
    snprintf(slot->text, sizeof slot->text, "%s", by_engine_get_state(by_job_engine(job))->error);
  bool over = slot->status != BANYAN_OK || by_control_is_over(by_job_control(job));
  by_job_unlock(job);
  return over;
}

/* Drops the role in a membership that could not be joined, with the messages that wait for it. */
static void drop_next(struct slot *slot) {
  slot->next->over = true;
  atomic_store(&slot->next->joined, true);
  slot->next = NULL;
}

static void look_at(struct slot *slot) {
  if (!slot->role->job) {
    slot->over = true;
    return;
  }
  bool over = is_membership_over(slot);
  by_follower_look(slot->follower, slot->role->job, over);
  struct by_job *next = by_follower_take(slot->follower);
  if (!next && slot->next && !by_follower_joins(slot->follower)) drop_next(slot);
  if (next)
    enter(slot, next);
  else
    slot->over = over && !by_follower_hopes(slot->follower);
  free_roles(slot, false);
}

static bool all_over(struct service *service) {
  unsigned over = 0;
  for (unsigned i = 0; i < service->n; i++) {
    struct slot *slot = &service->slots[i];
    if (!slot->over && atomic_load(&slot->role->joined)) look_at(slot);
    over += slot->over;
  }
  return over == service->n;
}

static bool have_all_joined(const struct service *service) {
  const struct role *first = service->slots[0].role;
  for (unsigned i = 0; i < service->n; i++) {
    const struct role *role = service->slots[i].role;
    if (!atomic_load(&role->joined) || !role->job) return false;
    if (by_job_membership(role->job) != by_job_membership(first->job)) return false;
  }
  return true;
}

/* Reports that all have joined; the host's name is the same in all roles. */
static void report_joined(struct service *service) {
  struct by_job *job = service->slots[0].role->job;
  service->reported = true;
  if (!service->options->joined) return;
  by_job_lock(job);
  service->options->joined(by_job_members(job)[by_job_rank(job)].host, service->n);
  by_job_unlock(job);
}

/* ---- the service */

static enum banyan_status open_slot(struct service *service, struct slot *slot) {
  slot->service = service;
  slot->options = service->options->joining;
  atomic_init(&slot->tos, -1);
  LIST_INIT(&slot->roles);
  slot->follower = by_follower_create(&slot->options, service->identity, begin_role, slot);
  if (!slot->follower) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  BY_TRY(by_follower_find_members(slot->follower, &slot->options));
  BY_TRY(by_udp_create((struct by_port_range){service->options->udp_port, UINT16_MAX}, &slot->udp));
  return by_loop_watch(service->loop, by_udp_fd(slot->udp), EPOLLIN, ready, service, &slot->watch);
}

static enum banyan_status open_service(struct service *service) {
  BY_TRY(by_loop_create(&by_clock_system, &service->loop));
  BY_TRY(by_process_identity_create(&service->identity));
  by_timer_init(&service->again, transfer, service);
  for (; service->n < service->options->trees; service->n++) BY_TRY(open_slot(service, &service->slots[service->n]));
  for (unsigned i = 0; i < service->n; i++) BY_TRY(join(&service->slots[i]));
  return BANYAN_OK;
}

/* Closes a slot, which has joined, or does not try any more. */
static void close_slot(struct slot *slot) {
  struct role *role;
  LIST_FOREACH(role, &slot->roles, entry) end_role(role);
  by_follower_destroy(slot->follower); /* This destroys a membership that was joined and not taken. */
  free_roles(slot, true);
  by_loop_unwatch(slot->watch);
  by_udp_destroy(slot->udp);
}

/* Closes all slots. Those that have joined leave first, since ranks wait for their answers; joining may take until its
 * deadline. */
static void close_service(struct service *service) {
  if (service->loop) by_loop_close(service->loop); /* The loop's tasks refer to the slots. */
  bool left[BY_SERVE_TREES] = {false};
  for (unsigned i = 0; i < service->n; i++) {
    struct slot *slot = &service->slots[i];
    if (!slot->role || !atomic_load(&slot->role->joined)) continue;
    close_slot(slot);
    left[i] = true;
  }
  for (unsigned i = 0; i < BY_SERVE_TREES; i++) {
    if (service->slots[i].has_thread) pthread_join(service->slots[i].thread, NULL);
    if (!left[i] && service->slots[i].service) close_slot(&service->slots[i]);
  }
  by_loop_cancel_timer(&service->again);
  by_loop_destroy(service->loop);
  by_process_identity_destroy(service->identity);
  free(service);
}

enum banyan_status by_serve(const struct by_serve_options *options, volatile sig_atomic_t *stop) {
  if (options->trees < 1 || options->trees > BY_SERVE_TREES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u trees to serve: give 1 to %d", options->trees, BY_SERVE_TREES);
  struct service *service = calloc(1, sizeof *service);
  char text[1024];
  if (!service) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  service->options = options;
  enum banyan_status status = open_service(service);
  while (status == BANYAN_OK && !*stop && !all_over(service)) {
    status = by_loop_run_once(service->loop, LOOKS_MS * BY_MILLISECOND);
    if (!service->reported && have_all_joined(service)) report_joined(service);
  }
  for (unsigned i = 0; i < service->n && status == BANYAN_OK; i++)
    if (service->slots[i].status != BANYAN_OK) status = by_fail(service->slots[i].status, "%s", service->slots[i].text);
  snprintf(text, sizeof text, "%s", banyan_error_text());
  close_service(service);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}
