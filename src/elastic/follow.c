/* Takes a helper or server from one membership to the next, beside the membership that it is in. */
#include "follow.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "control.h"
#include "descriptor.h"
#include "formation.h"
#include "key_ring.h"
#include "log.h"
#include "socket.h"

enum {
  ATTEMPT_S = 2,
  ROOT_MOST = 2048,
  CONNECT_MS = 500,
  PAUSE_MS = 5,
  AGAIN_MS = 200,
  LEAVING_MS = 300 /* Milliseconds in which others leave after rank 0. */
};

/* At most one attempt to join is under way. */
struct by_follower {
  const struct banyan_options *options;
  by_follower_begin *begin; /* NULL for a helper. */
  void *context;
  pthread_mutex_t lock;
  /* Addresses of rank 0 of the next membership and a ticket for it, as announced; "" if unknown. Protected by the lock.
   */
  char announced[ROOT_MOST + 1], announced_ticket[BY_TICKET_TEXT];
  struct by_process_identity *identity;
  /* The attempt. */
  pthread_t thread;
  bool joins, asks; /* asks: whether to find out which addresses of the root listen before joining. */
  _Atomic bool ended, stops;
  char root[ROOT_MOST + 1];    /* Addresses to join at; "" after an attempt if none listened. */
  char ticket[BY_TICKET_TEXT]; /* Last announced ticket; "" to use the one that this process was given. */
  struct by_job_role role;
  struct by_job *next; /* NULL: the attempt failed. */
  /* The fields below are for a membership that is over. */
  uint64_t until; /* End of the search for the next membership; 0: the current one is not over. */
  uint64_t pause; /* Time before which no address is tried again. */
  bool hopeless;  /* No process is there that could form another one. */
};

void by_follower_announce(struct by_follower *follower, const char *root, const char *ticket) {
  pthread_mutex_lock(&follower->lock);
  snprintf(follower->announced_ticket, sizeof follower->announced_ticket, "%s", ticket);
  snprintf(follower->announced, sizeof follower->announced, "%s", root);
  pthread_mutex_unlock(&follower->lock);
}

static void follow(void *follower, const char *root, const char *ticket) {
  by_follower_announce(follower, root, ticket);
}

struct by_follower *by_follower_create(const struct banyan_options *options, struct by_process_identity *identity,
                                       by_follower_begin *begin, void *context) {
  struct by_follower *follower = calloc(1, sizeof *follower);
  if (!follower) return NULL;
  follower->options = options;
  follower->identity = by_process_identity_hold(identity);
  follower->begin = begin;
  follower->context = context;
  pthread_mutex_init(&follower->lock, NULL);
  return follower;
}

struct by_job_role by_follower_role(struct by_follower *follower) {
  return (struct by_job_role){
      .kind = BY_MEMBER_HELPER, .identity = follower->identity, .follow = follow, .context = follower};
}

/* ---- joining */

static bool answers(const char *place) {
  struct by_address address;
  size_t n;
  int fd;
  bool done = false;
  if (by_address_resolve(place, &address, 1, &n) != BANYAN_OK || by_socket_connect_start(&address, &fd) != BANYAN_OK)
    return false;
  struct pollfd waits = {.fd = fd, .events = POLLOUT};
  bool there = poll(&waits, 1, CONNECT_MS) == 1 && by_socket_connect_finish(fd, &address, &done) == BANYAN_OK && done;
  by_close(fd);
  return there;
}

/* Keeps in the root only addresses at which a process listens, as far as there is time to connect to them. */
static void keep_answering(struct by_follower *follower) {
  char *copy = strdup(follower->root), *rest = copy, *place;
  size_t length = 0;
  follower->root[0] = '\0';
  while (copy && !atomic_load(&follower->stops) && by_clock_now(&by_clock_system) < follower->until &&
         (place = strsep(&rest, ",")))
    if (answers(place))
      length +=
          (size_t)snprintf(follower->root + length, sizeof follower->root - length, "%s%s", length ? "," : "", place);
  free(copy);
}

static void *join_main(void *argument) {
  struct by_follower *follower = argument;
  struct banyan_options options = *follower->options;
  options.root = follower->root;
  if (follower->asks) keep_answering(follower);
  if (follower->root[0] && by_job_create(&options, &follower->role, &follower->next) != BANYAN_OK) {
    follower->next = NULL;
    by_info("communicator", "the next membership is not joined: %s", banyan_error_text());
  }
  atomic_store(&follower->ended, true);
  return NULL;
}

static void join(struct by_follower *follower, bool is_announced) {
  follower->role = by_follower_role(follower);
  if (follower->begin && !follower->begin(follower->context, &follower->role)) return;
  if (follower->ticket[0]) follower->role.ticket = follower->ticket;
  follower->role.deadline = is_announced ? BY_FOLLOW_S : ATTEMPT_S;
  follower->asks = !is_announced;
  atomic_store(&follower->ended, false);
  follower->joins = by_thread_start(&follower->thread, join_main, follower) == 0;
}

static bool take_announced(struct by_follower *follower) {
  pthread_mutex_lock(&follower->lock);
  bool announced = follower->announced[0];
  if (announced) memcpy(follower->root, follower->announced, sizeof follower->root);
  if (announced) memcpy(follower->ticket, follower->announced_ticket, sizeof follower->ticket);
  follower->announced[0] = '\0';
  pthread_mutex_unlock(&follower->lock);
  return announced;
}

/* ---- places where members meet */

/* Adds the addresses of a member. Returns false if no more fit. */
static bool add_places(const struct by_member *member, const struct by_member *self, struct by_text *out) {
  size_t before = out->length;
  by_formation_print_places(member, self, out);
  if (out->length <= ROOT_MOST || out->failed) return !out->failed;
  out->data[before] = '\0'; /* The preceding addresses are enough. */
  out->length = before;
  return false;
}

static enum banyan_status print_listed(const char *list, const struct by_settings *settings, struct by_arena *arena,
                                       struct by_text *out) {
  struct by_member self = {.kind = BY_MEMBER_HELPER}; /* The addresses do not depend on the kind. */
  struct by_key_ring *keys;
  char *rest = by_arena_string(arena, list), *item;
  if (!rest) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for handles");
  if (!settings->key || !*settings->key)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_MEMBERS needs BANYAN_KEY_FILE, a file with the job's key");
  BY_TRY(by_key_ring_create(settings->key, NULL, NULL, &keys));
  enum banyan_status status = by_member_describe(settings, arena, &self);
  while (status == BANYAN_OK && (item = strsep(&rest, ", \t\n"))) {
    struct by_handle handle;
    if (!*item) continue;
    status = by_handle_parse(by_key_ring_job(keys), item, arena, &handle);
    if (status == BANYAN_OK && !add_places(&handle.member, &self, out)) break;
  }
  by_key_ring_destroy(keys);
  return status;
}

enum banyan_status by_follower_find_members(struct by_follower *follower, struct banyan_options *options) {
  const char *list = getenv("BANYAN_MEMBERS");
  struct by_settings settings;
  struct by_arena arena;
  struct by_text places;
  BY_TRY(by_job_read_settings(options, &settings));
  if (!list || !*list || settings.root) return BANYAN_OK;
  BY_TRY(by_settings_find_key(&settings));
  by_arena_init(&arena);
  by_text_init(&places);
  enum banyan_status status = print_listed(list, &settings, &arena, &places);
  if (status == BANYAN_OK && !places.length)
    status = by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_MEMBERS names no member that can be reached from here");
  if (status == BANYAN_OK) snprintf(follower->root, sizeof follower->root, "%s", by_text_get(&places));
  if (status == BANYAN_OK) options->root = follower->root;
  by_settings_wipe_key(&settings);
  by_text_fini(&places);
  by_arena_fini(&arena);
  return status;
}

/* ---- looking for the next one where rank 0 cannot say where it is */

/* Lists the addresses of the other members in the order in which they become rank 0, and then those of rank 0, which
 * may have left for another membership without this helper. */
static void print_places(struct by_job *job, struct by_arena *arena, struct by_text *out) {
  const struct by_member *members = by_job_members(job), *self = &members[by_job_rank(job)];
  for (uint32_t i = 1; i <= by_job_size(job); i++) {
    const struct by_member *member = &members[i % by_job_size(job)];
    struct by_handle handle;
    if (!member->handle || !*member->handle ||
        by_handle_parse(by_key_ring_job(by_job_keys(job)), member->handle, arena, &handle) != BANYAN_OK)
      continue;
    if (!add_places(&handle.member, self, out)) break;
  }
}

static void look_around(struct by_follower *follower, struct by_job *job) {
  struct by_arena arena;
  struct by_text places;
  by_arena_init(&arena);
  by_text_init(&places);
  print_places(job, &arena, &places);
  snprintf(follower->root, sizeof follower->root, "%s", places.failed ? "" : by_text_get(&places));
  by_text_fini(&places);
  by_arena_fini(&arena);
  if (follower->root[0])
    join(follower, false);
  else
    follower->hopeless = true;
}

/* ---- as the helper sees it */

void by_follower_look(struct by_follower *follower, struct by_job *job, bool over) {
  uint64_t now = by_clock_now(&by_clock_system);
  if (over) usleep(PAUSE_MS * 1000);
  if (over && !follower->until) {
    follower->until = now + BY_FOLLOW_S * BY_SECOND;
    follower->hopeless = !by_job_membership(job);
    if (by_control_is_over(by_job_control(job))) follower->pause = now + LEAVING_MS * BY_MILLISECOND;
  }
  bool nobody = false;
  if (follower->joins && atomic_load(&follower->ended) && !follower->next) {
    pthread_join(follower->thread, NULL);
    follower->joins = false;
    follower->pause = now + AGAIN_MS * BY_MILLISECOND;
    nobody = !follower->root[0];
  }
  if (follower->joins || follower->hopeless) return;
  if (take_announced(follower))
    join(follower, true);
  else if (over && (nobody || now >= follower->until))
    follower->hopeless = true;
  else if (over && now >= follower->pause && by_control_is_cut(by_job_control(job))) /* Rank 0 cannot announce it. */
    look_around(follower, job);
}

bool by_follower_has_news(struct by_follower *follower) {
  if (follower->joins) return atomic_load(&follower->ended);
  pthread_mutex_lock(&follower->lock);
  bool announced = follower->announced[0];
  pthread_mutex_unlock(&follower->lock);
  return announced;
}

bool by_follower_joins(const struct by_follower *follower) {
  return follower->joins;
}

struct by_job *by_follower_take(struct by_follower *follower) {
  if (!follower->joins || !atomic_load(&follower->ended) || !follower->next) return NULL;
  struct by_job *next = follower->next;
  pthread_join(follower->thread, NULL);
  follower->joins = false;
  follower->next = NULL;
  follower->until = 0;
  return next;
}

bool by_follower_hopes(const struct by_follower *follower) {
  return !follower->hopeless;
}

void by_follower_destroy(struct by_follower *follower) {
  if (!follower) return;
  atomic_store(&follower->stops, true);
  if (follower->joins) pthread_join(follower->thread, NULL);
  by_job_release(follower->next);
  by_process_identity_destroy(follower->identity);
  pthread_mutex_destroy(&follower->lock);
  explicit_bzero(follower->ticket, sizeof follower->ticket);
  explicit_bzero(follower->announced_ticket, sizeof follower->announced_ticket);
  free(follower);
}
