#include "serve.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "comms.h"
#include "control.h"
#include "control_messages.h"
#include "follow.h"
#include "log.h"
#include "served_tree.h"
#include "udp.h"

enum { LOOKS_MS = 50, KEEN_US = 200, TURN_MS = 10, LAST_MS = 2000 /* for what is under way when rank 0 has left */ };

/* ---- helpers */

struct help {
  struct by_context *context, *next; /* NULL: the next membership is not joined */
  struct by_follower *follower;
  volatile sig_atomic_t *stop;
  uint64_t until; /* 0: rank 0 is still there */
  bool over;      /* this membership is */
};

/* Ranks leave when all calls are over everywhere; no process needs what this helper still sends then. */
static bool is_over(void *argument) {
  struct help *help = argument;
  struct by_context *context = help->context;
  if (*help->stop || by_engine_status(context->job.engine) != BANYAN_OK) return true;
  if (!by_control_is_over(context->control)) return false;
  uint64_t now = by_clock_now(&by_clock_system);
  if (!help->until) help->until = now + LAST_MS * BY_MILLISECOND;
  return !by_engine_pending(context->job.engine) || now >= help->until;
}

/* At each look, so that the follower has its turn: often enough, as no wait is longer than 100 ms. */
static bool has_news(void *argument) {
  struct help *help = argument;
  help->over = help->over || is_over(argument);
  return help->over || by_follower_has_news(help->follower);
}

/* One membership, or the job. Under lock. */
static void help_one(struct help *help) {
  struct by_context *context = help->context;
  while (!*help->stop) {
    by_progress_wait(&context->progress, has_news, help);
    by_context_unlock(context);
    by_follower_look(help->follower, context, help->over);
    help->next = by_follower_take(help->follower);
    by_context_lock(context);
    if (help->next || (help->over && !by_follower_hopes(help->follower))) return;
  }
}

static enum banyan_status help_all(struct help *help, void (*joined)(const char *name, uint32_t ranks)) {
  enum banyan_status status = BANYAN_OK;
  char text[1024] = "";
  for (struct by_context *context; (context = help->context);) {
    by_context_lock(context);
    by_info("communicator", "%s helps %u ranks", by_context_name(context, context->job.rank), context->job.size);
    if (joined) joined(context->job.members[context->job.rank].host, context->job.size);
    help_one(help);
    status = help->next ? BANYAN_OK : by_engine_status(context->job.engine);
    snprintf(text, sizeof text, "%s", by_engine_error(context->job.engine));
    by_context_unlock(context);
    by_context_release(context);
    help->context = help->next;
    help->next = NULL;
    help->until = 0;
    help->over = false;
  }
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}

enum banyan_status by_helper_run(const struct banyan_options *options, volatile sig_atomic_t *stop,
                                 void (*joined)(const char *name, uint32_t ranks)) {
  struct banyan_options own = options ? *options : (struct banyan_options){0};
  struct help help = {.stop = stop, .follower = by_follower_create(&own)};
  if (!help.follower) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a helper");
  const struct by_job_role role = by_follower_role(help.follower);
  enum banyan_status status = by_follower_find_members(help.follower, &own);
  if (status == BANYAN_OK) status = by_context_create(&own, &role, &by_context_events, &help.context);
  if (status == BANYAN_OK) status = help_all(&help, joined);
  char text[1024];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_follower_destroy(help.follower);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}

/* ---- servers */

struct service;

/* A tree that is served. On the thread that transfers fragments. */
struct tree {
  LIST_ENTRY(tree) entry;
  struct role *role;
  struct by_tree_message message;
  struct by_served_tree *served;
};

/* One part in the job, and its trees: those of the plan in use, of the next one, and of plans that have not ended. */
struct role {
  struct service *service;
  pthread_t thread; /* joins */
  bool has_thread, over;
  _Atomic bool joined;
  struct by_context *context; /* NULL: could not join */
  enum banyan_status status;
  char text[1024];
  _Atomic int tos;    /* -1: the system's */
  struct by_udp *udp; /* of its own, as switches divide their work by the servers' ports */
  struct by_watch *watch;
  LIST_HEAD(, tree) trees;
};

struct service {
  const struct by_serve_options *options;
  struct by_loop *loop;  /* transfers fragments, on the thread that called by_serve */
  struct by_timer again; /* what found no room in a socket */
  bool reported;         /* that all have joined */
  unsigned n;
  struct role roles[BY_SERVE_TREES];
};

/* ---- fragments */

/* As long as something comes, and a little longer, as what comes next is often on its way; but trees come and go while
 * calls are made, so these get their turn. */
static void transfer(void *context) {
  struct service *service = context;
  uint64_t begun = by_clock_now(&by_clock_system), last = begun, now = begun;
  while (now - last < KEEN_US * BY_MICROSECOND && now - begun < TURN_MS * BY_MILLISECOND) {
    bool any = false;
    for (unsigned i = 0; i < service->n; i++) any |= by_udp_progress(service->roles[i].udp, now);
    if (any)
      last = now;
    else
      sched_yield();
    now = by_clock_now(&by_clock_system);
  }
  bool all = true;
  for (unsigned i = 0; i < service->n; i++) all &= by_udp_flush(service->roles[i].udp);
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
  by_control_report_tree(role->context->control, &what);
}

/* On the thread that transfers fragments. Rank 0's message may overtake the end of joining. */
static void begin(void *context) {
  struct tree *tree = context;
  struct role *role = tree->role;
  bool joined = atomic_load(&role->joined);
  if (!joined && by_loop_post(role->service->loop, begin, tree) == BANYAN_OK) return;
  if (!joined || !role->context) {
    end_tree(tree);
    return;
  }
  by_context_lock(role->context);
  const struct by_member self = role->context->job.members[role->context->job.rank]; /* its texts stay */
  by_context_unlock(role->context);
  enum banyan_status status = by_served_tree_create(role->udp, &self, &tree->message, &tree->served);
  report(role, status == BANYAN_OK ? BY_TREE_READY : BY_TREE_REFUSED, tree->message.version, role->context->job.rank);
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
  enum banyan_status status = by_loop_post(role->service->loop, begin, tree);
  if (status != BANYAN_OK) free(tree);
  return status;
}

/* Trees that are over. */
struct ending {
  struct role *role;
  uint32_t version;
};

static void forget_tree(struct tree *tree) {
  LIST_REMOVE(tree, entry);
  end_tree(tree);
}

/* On the thread that transfers fragments. What still comes of such a tree is of nobody there. */
static void end_version(void *context) {
  struct ending *ending = context;
  if (!atomic_load(&ending->role->joined) &&
      by_loop_post(ending->role->service->loop, end_version, ending) == BANYAN_OK)
    return;
  for (struct tree *tree = LIST_FIRST(&ending->role->trees), *next; tree; tree = next) {
    next = LIST_NEXT(tree, entry);
    if (tree->message.version == ending->version) forget_tree(tree);
  }
  if (ending->role->context) report(ending->role, BY_TREE_UNUSED, ending->version, ending->role->context->job.rank);
  free(ending);
}

/* On the control thread. */
static void unserve(void *context, uint32_t version) {
  struct role *role = context;
  struct ending *ending = malloc(sizeof *ending);
  if (ending) *ending = (struct ending){role, version};
  if (ending && by_loop_post(role->service->loop, end_version, ending) == BANYAN_OK) return;
  by_error("communicator", "out of memory: this server keeps trees that are over");
  free(ending);
}

/* On the thread that transfers fragments. */
static void mark(void *context) {
  struct role *role = context;
  by_udp_set_mark(role->udp, &(struct by_mark){atomic_load(&role->tos), -1});
}

/* While it joins, or on the control thread. */
static void marked(void *context, const struct by_mark *how) {
  struct role *role = context;
  if (atomic_exchange(&role->tos, how->tos) == how->tos) return;
  if (by_loop_post(role->service->loop, mark, role) != BANYAN_OK)
    by_warn("communicator", "what this server sends keeps its ToS: %s", banyan_error_text());
}

static void end_role(struct role *role) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&role->trees)) forget_tree(LIST_FIRST(&role->trees));
  by_context_release(role->context);
  by_loop_unwatch(role->watch);
  by_udp_destroy(role->udp);
}

/* ---- the job */

/* Each role joins on a thread of its own, as rank 0 answers when all have come. */
static void *join_main(void *argument) {
  struct role *role = argument;
  struct service *service = role->service;
  struct by_job_role part = {.kind = BY_MEMBER_SERVER,
                             .udp_port = by_udp_port(role->udp),
                             .serve = notified,
                             .unserve = unserve,
                             .mark = marked,
                             .context = role};
  role->status = by_context_create(&service->options->joining, &part, &by_context_events, &role->context);
  snprintf(role->text, sizeof role->text, "%s", banyan_error_text());
  atomic_store(&role->joined, true);
  by_loop_wake(service->loop);
  return NULL;
}

/* On the thread that transfers fragments, under lock. */
static void look_for_lost(struct role *role) {
  const struct tree *tree;
  uint32_t process;
  LIST_FOREACH(tree, &role->trees, entry)
  for (uint32_t i = 0; (process = by_served_tree_aggregator(tree->served, i)) != UINT32_MAX; i++)
    if (by_engine_has_lost(role->context->job.engine, process)) by_served_tree_lose(tree->served, process);
}

static void look_at(struct role *role) {
  struct by_context *context = role->context;
  if (!context) {
    role->over = true;
    return;
  }
  by_context_lock(context);
  look_for_lost(role);
  role->status = by_engine_status(context->job.engine);
  if (role->status != BANYAN_OK) snprintf(role->text, sizeof role->text, "%s", by_engine_error(context->job.engine));
  role->over = role->status != BANYAN_OK || by_control_is_over(context->control);
  by_context_unlock(context);
}

static bool all_over(struct service *service) {
  unsigned over = 0;
  for (unsigned i = 0; i < service->n; i++) {
    struct role *role = &service->roles[i];
    if (!role->over && atomic_load(&role->joined)) look_at(role);
    over += role->over;
  }
  return over == service->n;
}

static bool have_all_joined(const struct service *service) {
  unsigned joined = 0;
  for (unsigned i = 0; i < service->n; i++)
    joined += atomic_load(&service->roles[i].joined) && service->roles[i].context != NULL;
  return joined == service->n;
}

/* Its host's name is the same in all its parts. */
static void report_joined(struct service *service) {
  struct by_context *context = service->roles[0].context;
  service->reported = true;
  if (!service->options->joined) return;
  by_context_lock(context);
  service->options->joined(context->job.members[context->job.rank].host, service->n);
  by_context_unlock(context);
}

static enum banyan_status open_role(struct service *service, struct role *role) {
  role->service = service;
  atomic_init(&role->tos, -1);
  LIST_INIT(&role->trees);
  BY_TRY(by_udp_create((struct by_port_range){service->options->udp_port, UINT16_MAX}, &role->udp));
  return by_loop_watch(service->loop, by_udp_fd(role->udp), EPOLLIN, ready, service, &role->watch);
}

static enum banyan_status open_service(struct service *service) {
  BY_TRY(by_loop_create(&by_clock_system, &service->loop));
  by_timer_init(&service->again, transfer, service);
  for (; service->n < service->options->trees; service->n++) BY_TRY(open_role(service, &service->roles[service->n]));
  for (unsigned i = 0; i < service->n; i++) {
    struct role *role = &service->roles[i];
    int error = pthread_create(&role->thread, NULL, join_main, role);
    if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread to join the job");
    role->has_thread = true;
  }
  return BANYAN_OK;
}

/* Roles that have joined leave first, since ranks wait for their answers; joining may take as long as its deadline. */
static void close_service(struct service *service) {
  if (service->loop) by_loop_close(service->loop); /* its tasks are about the roles */
  bool left[BY_SERVE_TREES] = {false};
  for (unsigned i = 0; i < service->n; i++) {
    if (!atomic_load(&service->roles[i].joined)) continue;
    end_role(&service->roles[i]);
    left[i] = true;
  }
  for (unsigned i = 0; i < BY_SERVE_TREES; i++) {
    if (service->roles[i].has_thread) pthread_join(service->roles[i].thread, NULL);
    if (!left[i]) end_role(&service->roles[i]);
  }
  by_loop_cancel_timer(&service->again);
  by_loop_destroy(service->loop);
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
    if (service->roles[i].status != BANYAN_OK) status = by_fail(service->roles[i].status, "%s", service->roles[i].text);
  snprintf(text, sizeof text, "%s", banyan_error_text());
  close_service(service);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}
