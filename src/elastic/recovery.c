/* Members of groups that change: forming the memberships that they agree on. */
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "member_object.h"

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
  if (status == BANYAN_OK) status = by_member_form(member, formation, formed, out);
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
