/* Members of groups that change: forming one membership after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include <banyan/elastic.h>

#include "carry.h"
#include "connector.h"
#include "context.h"
#include "descriptor.h"
#include "formation.h"
#include "join.h"
#include "log.h"

struct banyan_member {
  struct by_arena arena; /* of what follows */
  struct banyan_options options;
  struct by_key key;
  struct by_handle self;
  char handle[BY_HANDLE_MOST];
  int listener;                      /* where others come to form a membership with this process as the first */
  uint32_t generation;               /* see by_process_generation */
  struct by_used_names used;         /* others may have formed a membership under one with which this member failed */
  struct by_context *current;        /* held; NULL: no membership yet */
  char name[BY_MEMBERSHIP_NAME + 1]; /* of the current one */
  struct by_carried carried;         /* from one to the next */
};

/* ---- life */

static const char *keep(struct by_arena *arena, const char *text) {
  return text ? by_arena_string(arena, text) : NULL;
}

/* The program's strings need not live on. */
static enum banyan_status copy_options(struct banyan_member *member, const struct banyan_options *options) {
  struct banyan_options *o = &member->options;
  if (options) BY_TRY(by_copy_versioned("banyan_options", options, options->size_of_struct, o, sizeof *o));
  *o = (struct banyan_options){.size_of_struct = sizeof *o,
                               .key = keep(&member->arena, o->key),
                               .host = keep(&member->arena, o->host),
                               .transport = keep(&member->arena, o->transport),
                               .plan = keep(&member->arena, o->plan),
                               .topology = keep(&member->arena, o->topology),
                               .timeline = keep(&member->arena, o->timeline),
                               .deadline = o->deadline};
  return BANYAN_OK;
}

static enum banyan_status begin(struct banyan_member *member, const struct banyan_options *options) {
  struct by_settings settings;
  struct by_job_keys keys;
  BY_TRY(copy_options(member, options));
  BY_TRY(by_context_settings(&member->options, &settings));
  if (!settings.key || !*settings.key)
    return by_fail(BANYAN_ERR_ARGUMENT, "a member needs the job's key: set BANYAN_KEY to the same secret in all "
                                        "processes that may form a group");
  BY_TRY(by_job_keys_derive(settings.key, false, &keys));
  member->key = keys.own;
  if (RAND_bytes(member->self.fingerprint.bytes, BY_FINGERPRINT_BYTES) != 1)
    return by_fail(BANYAN_ERR_SYSTEM, "the system has no randomness for a fingerprint");
  BY_TRY(by_member_describe(&settings, &member->arena, &member->self.member));
  BY_TRY(by_member_listen(&settings, &member->arena, &member->self.member, &member->listener));
  return by_handle_print(&member->key, &member->self, member->handle);
}

enum banyan_status banyan_member_create(const struct banyan_options *options, struct banyan_member **out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the member is NULL");
  struct banyan_member *member = calloc(1, sizeof *member);
  if (!member) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a member");
  by_arena_init(&member->arena);
  member->listener = -1;
  member->generation = by_process_generation();
  by_descriptors_close_in_children();
  enum banyan_status status = begin(member, options);
  if (status != BANYAN_OK) {
    banyan_member_destroy(member);
    return status;
  }
  *out = member;
  return BANYAN_OK;
}

static void release(struct by_context *context) {
  if (!context) return;
  by_context_lock(context);
  by_context_unlock_and_release(context);
}

static bool is_of_parent(const struct banyan_member *member) {
  return member->generation != by_process_generation();
}

void banyan_member_destroy(struct banyan_member *member) {
  if (!member || is_of_parent(member)) return;
  release(member->current);
  if (member->listener >= 0) by_close(member->listener);
  by_arena_fini(&member->arena);
  by_used_names_fini(&member->used);
  by_carried_fini(&member->carried);
  free(member);
}

const char *banyan_member_handle(const struct banyan_member *member) {
  return member->handle;
}

/* ---- memberships */

static enum banyan_status parse_handles(const struct banyan_member *member, const char *const *handles, int n,
                                        struct by_arena *arena, struct by_handle **out) {
  *out = BY_ARENA_ARRAY(arena, struct by_handle, (size_t)n);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %d handles", n);
  for (int i = 0; i < n; i++) {
    if (!handles[i]) return by_fail(BANYAN_ERR_ARGUMENT, "handle %d of the membership is NULL", i);
    enum banyan_status status = by_handle_parse(&member->key, handles[i], arena, &(*out)[i]);
    if (status != BANYAN_OK) return by_fail_within(status, "handle %d of the membership", i);
  }
  return BANYAN_OK;
}

/* The communicator of the new membership takes the place of the one before. */
static void succeed(struct banyan_member *member, struct banyan_comm *comm, const char *name) {
  struct by_context *before = member->current;
  char text[2 * BY_MEMBERSHIP_NAME + 200];
  snprintf(text, sizeof text,
           "this process left the membership \"%s\" for \"%s\": use the communicator that "
           "banyan_member_reconfigure returned",
           member->name, name);
  member->current = comm->context;
  by_context_lock(member->current);
  by_context_hold(member->current);
  by_context_unlock(member->current);
  snprintf(member->name, sizeof member->name, "%s", name);
  if (before) {
    by_context_retire(before, text);
    by_carried_take(&member->carried, before);
    by_context_keep_lanes(member->current, before);
  }
  release(before);
}

static enum banyan_status form(struct banyan_member *member, struct by_formation *formation, struct banyan_comm **out) {
  const char *name = formation->membership->name;
  const struct by_job_role role = {.kind = BY_MEMBER_RANK, .formation = formation};
  BY_TRY(by_used_names_add(&member->used, name));
  formation->listener = member->listener;
  BY_TRY(by_join(&member->options, &role, out));
  by_info("communicator", "membership \"%s\" of %u processes: this one is rank %u", name, formation->membership->n,
          formation->rank);
  succeed(member, *out, name);
  return by_join_plan(out, &member->carried);
}

static enum banyan_status reconfigure(struct banyan_member *member, const char *name, const char *const *handles, int n,
                                      double timeout, struct by_arena *arena, struct banyan_comm **out) {
  struct by_handle *all;
  struct by_formation formation;
  BY_TRY(parse_handles(member, handles, n, arena, &all));
  enum banyan_status status = by_formation_init(&member->key, name, all, (uint32_t)n, &member->self, arena, &formation);
  formation.deadline = timeout;
  if (status == BANYAN_OK) status = form(member, &formation, out);
  by_formation_fini(&formation);
  return status;
}

enum banyan_status banyan_member_reconfigure(struct banyan_member *member, const char *name, const char *const *handles,
                                             int n, double timeout, struct banyan_comm **out) {
  if (!member || !handles || !out)
    return by_fail(BANYAN_ERR_ARGUMENT, "the member, the handles, or the place for the communicator is NULL");
  if (is_of_parent(member))
    return by_fail(BANYAN_ERR_ARGUMENT, "a process that was made by fork() cannot use its parent's member");
  if (n < 1) return by_fail(BANYAN_ERR_ARGUMENT, "a membership of %d processes: there is at least one", n);
  if (!(timeout > 0) || !isfinite(timeout))
    return by_fail(BANYAN_ERR_ARGUMENT, "the timeout is %g s: it is more than 0", timeout);
  struct by_arena arena;
  by_arena_init(&arena);
  enum banyan_status status = reconfigure(member, name, handles, n, timeout, &arena, out);
  by_arena_fini(&arena);
  return status;
}
