/* Members of groups that change: their life, forming explicit memberships, and forming those that members agree on. */
#include "member_object.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connector.h"
#include "control.h"
#include "control_messages.h"
#include "descriptor.h"
#include "first_plan.h"
#include "host_trust.h"
#include "join.h"
#include "log.h"
#include "opening.h"

/* ---- life */

static const char *keep(struct by_arena *arena, const char *text) {
  return text ? by_arena_string(arena, text) : NULL;
}

/* Copies the options with their strings, which the program may free. */
static enum banyan_status copy_options(struct banyan_member *member, const struct banyan_options *options) {
  struct banyan_options *o = &member->options;
  if (options) BY_TRY(by_copy_versioned("banyan_options", options, options->size_of_struct, o, sizeof *o));
  *o = (struct banyan_options){.size_of_struct = sizeof *o,
                               .key = o->key, /* Borrowed until begin() has read it. */
                               .host = keep(&member->arena, o->host),
                               .transport = keep(&member->arena, o->transport),
                               .plan = keep(&member->arena, o->plan),
                               .topology = keep(&member->arena, o->topology),
                               .timeline = keep(&member->arena, o->timeline),
                               .quorum = keep(&member->arena, o->quorum),
                               .deadline = o->deadline,
                               .join_deadline = o->join_deadline};
  return BANYAN_OK;
}

/* Opens a second port for the service at the same addresses. */
static enum banyan_status listen_for_service(struct banyan_member *member, const struct by_settings *settings,
                                             int *listener) {
  struct by_member other = {.kind = BY_MEMBER_RANK};
  BY_TRY(by_member_listen(settings, &member->arena, &other, listener));
  if (!other.n_addresses) return by_fail(BANYAN_ERR_SYSTEM, "this host has no address by which others could reach it");
  member->self.service_port = (uint32_t)by_address_port(&other.addresses[0]);
  return BANYAN_OK;
}

static enum banyan_status begin_service(struct banyan_member *member, const struct by_settings *settings) {
  int listener = -1;
  enum banyan_status status = listen_for_service(member, settings, &listener);
  if (status == BANYAN_OK) status = by_handle_print(by_key_ring_job(member->keys), &member->self, member->handle);
  if (status != BANYAN_OK) {
    if (listener >= 0) by_close(listener);
    return status;
  }
  struct by_member_service_options options = {.keys = member->keys,
                                              .self = &member->self,
                                              .handle = member->handle,
                                              .encryption = by_encryption_of(settings->encrypt),
                                              .identity = member->identity,
                                              .statement = member->statement,
                                              .listener = listener,
                                              .silence = settings->silence};
  return by_member_service_create(&options, &member->service);
}

static enum banyan_status take_statement(struct banyan_member *member, const struct by_settings *settings) {
  if (by_encryption_of(settings->encrypt) == BY_ENCRYPT_OFF) return BANYAN_OK;
  return by_own_statement_create(&(struct by_own_statement_options){.agent = by_settings_agent(settings),
                                                                    .keys = settings->keys,
                                                                    .host = member->self.member.host,
                                                                    .process = &member->self.fingerprint,
                                                                    .job = by_key_ring_job(member->keys),
                                                                    .required = settings->policy.certified},
                                 &member->statement);
}

static enum banyan_status begin(struct banyan_member *member, const struct banyan_options *options) {
  struct by_settings settings;
  BY_TRY(copy_options(member, options));
  BY_TRY(by_job_read_settings(&member->options, &settings));
  BY_TRY(by_settings_find_key(&settings));
  if (!settings.key || !*settings.key)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "a member needs the job's key: start it with `banyan run`, or generate one with "
                   "`banyan keys job FILE`, and set BANYAN_KEY_FILE=FILE in all processes that may "
                   "form a group");
  enum banyan_status status = by_quorum_rule_parse(settings.quorum, &member->rule);
  if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_QUORUM");
  status = by_key_ring_create(settings.key, settings.key_file, NULL, &member->keys);
  by_settings_wipe_key(&settings);
  BY_TRY(status);
  member->options.key = NULL;
  BY_TRY(by_process_identity_create(&member->identity));
  member->self.fingerprint = *by_process_identity_fingerprint(member->identity);
  BY_TRY(by_member_describe(&settings, &member->arena, &member->self.member));
  BY_TRY(take_statement(member, &settings));
  BY_TRY(by_member_listen(&settings, &member->arena, &member->self.member, &member->listener));
  return begin_service(member, &settings);
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
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the member has been freed */
    return status;
  }
  *out = member;
  return BANYAN_OK;
}

static void release(struct by_job *job) {
  if (!job) return;
  by_job_lock(job);
  by_job_unlock_and_release(job);
}

static bool is_of_parent(const struct banyan_member *member) {
  return member->generation != by_process_generation();
}

void banyan_member_destroy(struct banyan_member *member) {
  if (!member || is_of_parent(member)) return;
  by_directory_destroy(member->directory);
  if (member->service) by_member_service_watch(member->service, 0, NULL, NULL);
  by_member_service_close(member->service);
  by_meeting_client_destroy(member->meeting);
  free(member->kept);
  by_interrupted_fini(&member->interrupted);
  release(member->current);
  if (member->listener >= 0) by_close(member->listener);
  by_key_ring_destroy(member->keys);
  by_arena_fini(&member->arena);
  by_own_statement_release(member->statement);
  by_process_identity_destroy(member->identity);
  by_used_names_fini(&member->used);
  by_carried_fini(&member->carried);
  free(member);
}

const char *banyan_member_handle(const struct banyan_member *member) {
  return member ? member->handle : NULL;
}

int banyan_member_handles(const struct banyan_member *member, const char *const **out) {
  if (out) *out = member ? member->handles : NULL;
  return member && out && member->current ? (int)by_job_size(member->current) : 0;
}

/* ---- memberships */

static enum banyan_status parse_handles(const struct banyan_member *member, const char *const *handles, int n,
                                        struct by_arena *arena, struct by_handle **out) {
  *out = BY_ARENA_ARRAY(arena, struct by_handle, (size_t)n);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %d handles", n);
  for (int i = 0; i < n; i++) {
    if (!handles[i]) return by_fail(BANYAN_ERR_ARGUMENT, "handle %d of the membership is NULL", i);
    enum banyan_status status = by_handle_parse(by_key_ring_job(member->keys), handles[i], arena, &(*out)[i]);
    if (status != BANYAN_OK) return by_fail_within(status, "handle %d of the membership", i);
  }
  return BANYAN_OK;
}

static bool interrupt(void *context, const char *text, bool at_once) {
  return by_job_interrupt(context, text, at_once);
}

/* Notifies the service of a membership that was formed. An agreed membership is known to the service already. */
static enum banyan_status notify_service(struct banyan_member *member, struct by_job *job, bool agreed) {
  struct by_member_service *service = member->service;
  const struct by_membership *formed = by_job_formed(job);
  if (agreed) {
    BY_TRY(by_member_service_formed(service, formed->number, member->handles, formed->n));
  } else {
    BY_TRY(by_member_service_found(service, formed, member->handles));
  }
  by_member_service_watch(service, formed->number, interrupt, job);
  return BANYAN_OK;
}

/* Replaces the current membership by the new one. */
static enum banyan_status succeed(struct banyan_member *member, struct banyan_comm *comm, bool agreed) {
  struct by_job *before = member->current, *job = comm->job;
  char text[2 * BY_MEMBERSHIP_NAME + 200];
  by_job_lock(job);
  enum banyan_status status = by_job_list_handles(job, &member->handles);
  by_job_hold(job);
  by_job_unlock(job);
  member->current = job;
  /* The previous membership ends, whether or not this succeeds. */
  by_member_service_watch(member->service, 0, NULL, NULL);
  if (status == BANYAN_OK) status = notify_service(member, job, agreed);
  if (before) {
    snprintf(
        text, sizeof text,
        "this process left the membership \"%s\" for \"%s\": use the communicator of that, and make groups of it anew",
        by_job_formed(before)->name, by_job_formed(job)->name);
    by_job_retire(before, text);
    by_carried_take(&member->carried, before);
    by_job_inherit(job, before);
    enum banyan_status kept = by_interrupted_keep(&member->interrupted, before, &member->self.fingerprint);
    if (status == BANYAN_OK) status = kept;
  }
  release(before);
  return status;
}

/* Forms the membership, which replaces the current one. After an error, *formed says whether its members had met. */
static enum banyan_status form_membership(struct banyan_member *member, struct by_formation *formation, bool *formed,
                                          struct banyan_comm **out) {
  const struct by_job_role role = {.kind = BY_MEMBER_RANK, .formation = formation};
  formation->listener = member->listener;
  formation->service = member->service;
  formation->ops = &by_member_service_ops;
  formation->identity = member->identity;
  formation->statement = member->statement;
  formation->keys = member->keys;
  formation->follows = member->current;
  *formed = false;
  if (member->current && by_job_control(member->current))
    by_control_send_follow(by_job_control(member->current), formation->root);
  BY_TRY(by_join(&member->options, &role, out));
  *formed = true;
  by_info("communicator", "membership \"%s\" of %u processes: this one is rank %u", formation->membership->name,
          formation->membership->n, formation->rank);
  enum banyan_status status = succeed(member, *out, formation->superseded);
  if (status == BANYAN_OK) status = by_first_plan_make(*out, &member->carried);
  /* Nothing that may fail follows, since the exchange drops the ledgers that another membership would decide by. */
  if (status == BANYAN_OK) status = by_interrupted_exchange(&member->interrupted, *out, formation->deadline);
  if (status == BANYAN_OK) {
    if (member->directory)
      by_directory_report_member(member->directory, formation->membership->name, formation->rank,
                                 formation->membership->n);
    member->given = true;
    return BANYAN_OK;
  }
  banyan_comm_destroy(*out);
  *out = NULL;
  return status;
}

/* Tells all members that their lists differ, whichever of them has noticed. */
static enum banyan_status tell_others(const struct by_formation *formation) {
  char text[BY_MESSAGE_TEXT];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_member_service_tell(formation->service, formation, text);
  return by_fail(BANYAN_ERR_MISMATCH, "%s", text);
}

static enum banyan_status reconfigure(struct banyan_member *member, const char *name, const char *const *handles, int n,
                                      double timeout, struct by_arena *arena, struct banyan_comm **out) {
  struct by_handle *all;
  struct by_membership *membership;
  struct by_formation formation;
  bool formed = false;
  BY_TRY(parse_handles(member, handles, n, arena, &all));
  BY_TRY(by_formation_found(by_key_ring_job(member->keys), member->rule, name, all, (uint32_t)n, &membership));
  enum banyan_status status = by_formation_init(membership, all, &member->self, member->handle, arena, &formation);
  formation.deadline = timeout;
  formation.texts = handles;
  if (status == BANYAN_OK) status = by_used_names_add(&member->used, name);
  if (status == BANYAN_OK) status = by_member_service_form(member->service, &formation);
  if (status == BANYAN_OK) status = form_membership(member, &formation, &formed, out);
  if (status == BANYAN_ERR_MISMATCH && !formed) status = tell_others(&formation);
  by_formation_fini(&formation);
  return status;
}

enum banyan_status by_member_check_process(const struct banyan_member *member) {
  if (!member) return by_fail(BANYAN_ERR_ARGUMENT, "the member is NULL");
  if (!is_of_parent(member)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "a process that was made by fork() cannot use its parent's member");
}

enum banyan_status by_member_check_call(const struct banyan_member *member, const void *out, double timeout) {
  BY_TRY(by_member_check_process(member));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the communicator is NULL");
  if (timeout > 0 && isfinite(timeout)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the timeout is %g s: it is more than 0", timeout);
}

enum banyan_status banyan_member_reconfigure(struct banyan_member *member, const char *name, const char *const *handles,
                                             int n, double timeout, struct banyan_comm **out) {
  BY_TRY(by_member_check_call(member, out, timeout));
  if (!handles) return by_fail(BANYAN_ERR_ARGUMENT, "the handles of the membership are NULL");
  if (n < 1) return by_fail(BANYAN_ERR_ARGUMENT, "a membership of %d processes: there is at least one", n);
  struct by_arena arena;
  by_arena_init(&arena);
  by_member_service_set_forming(member->service, true);
  enum banyan_status status = reconfigure(member, name, handles, n, timeout, &arena, out);
  by_member_service_set_forming(member->service, false);
  by_arena_fini(&arena);
  return status;
}

/* ---- memberships that members agree on */

/* An attempt to form one membership. */
struct attempt {
  struct banyan_member *member;
  struct by_formation formation;
};

static bool is_superseded(void *context) {
  const struct attempt *attempt = context;
  return by_member_service_newest(attempt->member->service) != attempt->formation.membership->number;
}

/* Asks a missing member to leave unless it comes now; its program may be busy or hang. */
static void missing(void *context, uint32_t rank) {
  const struct attempt *attempt = context;
  const struct by_membership *membership = attempt->formation.membership;
  by_member_service_late(attempt->member->service, membership->number, &membership->members[rank].fingerprint);
}

/* Uses up a name. An agreed name may be tried repeatedly with the same list. */
static enum banyan_status use_name(struct banyan_member *member, const char *name) {
  if (strcmp(member->tried, name) == 0) return BANYAN_OK;
  BY_TRY(by_used_names_add(&member->used, name));
  snprintf(member->tried, sizeof member->tried, "%s", name);
  return BANYAN_OK;
}

/* Forms an agreed membership, which is taken over. */
static enum banyan_status form(struct banyan_member *member, struct by_membership *membership,
                               const struct by_handle *handles, uint64_t left, struct by_arena *arena, bool *formed,
                               struct banyan_comm **out) {
  struct attempt attempt = {.member = member};
  struct by_formation *formation = &attempt.formation;
  enum banyan_status status = by_formation_init(membership, handles, &member->self, member->handle, arena, formation);
  formation->deadline = by_clock_to_seconds(left);
  formation->meeting_timeout = formation->deadline / 2;
  formation->superseded = is_superseded;
  formation->missing = missing;
  formation->context = &attempt;
  *formed = false;
  if (status == BANYAN_OK) status = use_name(member, membership->name);
  if (status == BANYAN_OK) status = form_membership(member, formation, formed, out);
  if (status == BANYAN_ERR_TIMEOUT && formation->rank != 0) missing(&attempt, 0);
  by_formation_fini(formation);
  return status;
}

/* Reports the process that made the calls of the group fail. A process whose links have ended may be alive and have
 * left the group a moment before this one, so it is probed. A process for which a call has waited until its deadline is
 * suspected at once, since it might answer a probe. */
static void suspect_lost(const struct banyan_member *member) {
  struct by_job *job = member->current;
  if (!job) return;
  by_job_lock(job);
  uint32_t lost = by_engine_get_state(by_job_engine(job))->failed_process;
  enum banyan_status status = by_engine_status(by_job_engine(job));
  by_job_unlock(job);
  bool ended = status == BANYAN_ERR_PEER_DEAD;
  bool silent = ended || status == BANYAN_ERR_TIMEOUT || status == BANYAN_ERR_CONNECT;
  if (!silent || lost >= by_job_size(job) || lost == by_job_rank(job)) return;
  const struct by_fingerprint *fingerprint = &by_job_formed(job)->members[lost].fingerprint;
  if (ended)
    by_member_service_probe(member->service, fingerprint);
  else
    by_member_service_suspect(member->service, fingerprint);
}

/* Whether another attempt may help. */
static bool is_worth_another(enum banyan_status status) {
  return status != BANYAN_ERR_NO_MEMORY && status != BANYAN_ERR_SYSTEM && status != BANYAN_ERR_UNSUPPORTED &&
         status != BANYAN_ERR_AUTH && status != BANYAN_ERR_PLAN;
}

static uint64_t time_left(uint64_t until) {
  uint64_t now = by_clock_now(&by_clock_system);
  return until > now ? until - now : 0;
}

/* One attempt: waits for another membership than *last, and forms it. */
static enum banyan_status attempt(struct banyan_member *member, uint64_t until, uint64_t *last, bool *tried,
                                  struct banyan_comm **out) {
  struct by_membership *membership;
  struct by_handle *handles;
  struct by_arena arena;
  bool formed = false;
  by_arena_init(&arena);
  *tried = false;
  enum banyan_status status =
      by_member_service_await(member->service, *last, time_left(until), &arena, &membership, &handles);
  if (status == BANYAN_OK) {
    *tried = true;
    *last = membership->number;
    status = form(member, membership, handles, time_left(until) + 1, &arena, &formed, out);
  }
  if (formed && status != BANYAN_OK) suspect_lost(member);
  by_arena_fini(&arena);
  return status;
}

/* Forms memberships that follow `last` until one has met. */
static enum banyan_status take_part(struct banyan_member *member, uint64_t until, uint64_t last,
                                    struct banyan_comm **out) {
  char why[600] = "";
  for (;;) {
    bool tried;
    enum banyan_status status = attempt(member, until, &last, &tried, out);
    if (status == BANYAN_OK) return BANYAN_OK;
    if (!tried && status == BANYAN_ERR_TIMEOUT && why[0])
      return by_fail(status, "%s; before that: %s", banyan_error_text(), why);
    if (!tried || !is_worth_another(status) || !time_left(until)) return status;
    snprintf(why, sizeof why, "%s", banyan_error_text());
    by_info("communicator", "a membership was not formed: %s", why);
    if (by_member_service_newest(member->service) == last) BY_TRY(by_member_service_request(member->service));
  }
}

static enum banyan_status recover(struct banyan_member *member, uint64_t until, struct banyan_comm **out) {
  struct by_member_service *service = member->service;
  uint64_t number = member->current ? by_job_membership(member->current) : 0;
  suspect_lost(member);
  if (by_member_service_newest(service) == number) {
    if (!number)
      return by_fail(BANYAN_ERR_ARGUMENT, "this process is in no group: join one with banyan_member_join, or form one "
                                          "with banyan_member_reconfigure");
    BY_TRY(by_member_service_request(service));
  }
  return take_part(member, until, number, out);
}

enum banyan_status banyan_member_recover(struct banyan_member *member, double timeout, struct banyan_comm **out) {
  BY_TRY(by_member_check_call(member, out, timeout));
  uint64_t until = by_clock_now(&by_clock_system) + by_clock_from_seconds(timeout);
  by_member_service_set_forming(member->service, true);
  enum banyan_status status = recover(member, until, out);
  by_member_service_set_forming(member->service, false);
  return status;
}

static enum banyan_status join(struct banyan_member *member, const char *const *handles, int n, uint64_t until,
                               struct banyan_comm **out) {
  struct by_member_service *service = member->service;
  if (member->current)
    return by_fail(BANYAN_ERR_ARGUMENT, "this member is in a group already: call banyan_member_recover, or join with "
                                        "another member");
  if (!by_member_service_newest(service)) BY_TRY(by_member_service_join(service, handles, (uint32_t)n));
  enum banyan_status status = take_part(member, until, 0, out);
  if (status != BANYAN_OK) by_member_service_stop_join(service);
  return status;
}

enum banyan_status banyan_member_join(struct banyan_member *member, const char *const *handles, int n, double timeout,
                                      struct banyan_comm **out) {
  BY_TRY(by_member_check_call(member, out, timeout));
  if (!handles || n < 1) return by_fail(BANYAN_ERR_ARGUMENT, "there is no handle of a process to ask");
  for (int i = 0; i < n; i++)
    if (!handles[i]) return by_fail(BANYAN_ERR_ARGUMENT, "handle %d of the group is NULL", i);
  uint64_t until = by_clock_now(&by_clock_system) + by_clock_from_seconds(timeout);
  by_member_service_set_forming(member->service, true);
  enum banyan_status status = join(member, handles, n, until, out);
  by_member_service_set_forming(member->service, false);
  return status;
}

enum banyan_status banyan_member_leave(struct banyan_member *member) {
  BY_TRY(by_member_check_process(member));
  if (member->directory) by_directory_report_leaving(member->directory);
  return by_member_service_leave(member->service);
}

int banyan_member_change_wanted(struct banyan_member *member) {
  return member && by_member_service_change_wanted(member->service);
}
