/* How a process finds the others: through `banyan run`, through a list of members, through the agent of its host and
 * the manager, or by its rank. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <banyan/collectives.h>

#include "clock.h"
#include "cluster_message.h"
#include "log.h"
#include "member_object.h"

/* Maximum seconds of one attempt to form the first membership, whose members were all present a moment ago, and of one
 * attempt to join. After that the launcher is asked for the current members, since those asked may have died. */
static const double most_forming = 15, most_joining = 15;
/* Minimum seconds of such an attempt, used if the others came late. */
static const double least_forming = 1, least_joining = 1e-3;

static const uint64_t keep_pause = 2 * BY_SECOND; /* Nanoseconds between checks of the connection to the agent. */

static double seconds_until(uint64_t end) {
  uint64_t now = by_clock_now(&by_clock_system);
  return end > now ? by_clock_to_seconds(end - now) : 0;
}

/* ---- through `banyan run` */

static void take_death(void *context, const char *text) {
  struct banyan_member *member = context;
  struct by_handle handle;
  struct by_arena arena;
  by_arena_init(&arena);
  if (by_handle_parse(by_key_ring_job(member->keys), text, &arena, &handle) == BANYAN_OK)
    by_member_service_dead(member->service, &handle.fingerprint);
  by_arena_fini(&arena);
}

static void take_leave(void *context, const char *why) {
  by_info("communicator", "banyan run asks this process to leave: %s", why);
  struct banyan_member *member = context;
  if (by_member_service_leave(member->service) != BANYAN_OK)
    by_warn("communicator", "cannot leave: %s", banyan_error_text());
}

static enum banyan_status connect_to_launcher(struct banyan_member *member, const char *place) {
  const struct by_directory_events events = {member, take_death, take_leave};
  struct by_directory *directory;
  BY_TRY(by_directory_create(place, member->handle, &events, &directory));
  member->directory = directory;
  return BANYAN_OK;
}

static enum banyan_status follow(struct banyan_member *member, const struct by_directory_list *list, double seconds,
                                 struct banyan_comm **out) {
  const char *const *handles = (const char *const *)list->handles;
  char name[32];
  if (!list->first)
    return banyan_member_join(member, handles, (int)list->n, MAX(MIN(seconds, most_joining), least_joining), out);
  snprintf(name, sizeof name, "first-%u", list->attempt);
  return banyan_member_reconfigure(member, name, handles, (int)list->n, MAX(MIN(seconds, most_forming), least_joining),
                                   out);
}

/* Tries lists of the launcher until one succeeds. After a failure another list follows, since missing members may have
 * died. */
static enum banyan_status start_by_launcher(struct banyan_member *member, const char *place, uint64_t end,
                                            struct banyan_comm **out) {
  struct by_directory_list list = {0};
  if (!member->directory) BY_TRY(connect_to_launcher(member, place));
  for (;;) {
    BY_TRY(by_directory_wait(member->directory, seconds_until(end), &list));
    enum banyan_status status = follow(member, &list, seconds_until(end), out);
    uint32_t attempt = list.attempt;
    by_directory_list_fini(&list);
    if (status != BANYAN_ERR_TIMEOUT && status != BANYAN_ERR_PEER_DEAD) return status;
    by_directory_report_failure(member->directory, attempt, banyan_error_text());
    if (seconds_until(end) <= 0) return status; /* The next call uses the list that follows. */
  }
}

/* ---- through the agent of this host and the manager */

static enum banyan_status connect_to_agent(struct banyan_member *member) {
  struct by_settings settings;
  BY_TRY(by_job_read_settings(&member->options, &settings));
  const char *agent = settings.agent ? settings.agent : BY_CLUSTER_AGENT;
  if (!strcmp(agent, "off"))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_MEMBERS=agent needs an agent, and BANYAN_AGENT is off");
  if (settings.size < 1 || settings.size > BY_CLUSTER_FOUNDERS)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "BANYAN_MEMBERS=agent needs BANYAN_SIZE, how many processes form the first group, 1 to %d",
                   BY_CLUSTER_FOUNDERS);
  return by_meeting_client_create(agent, by_key_ring_job(member->keys), member->handle, (uint32_t)settings.size,
                                  &member->meeting);
}

/* Waits for a list. If the agent has ended, the next call connects to it again. */
static enum banyan_status wait_for_list(struct banyan_member *member, uint64_t end, struct by_directory_list *out) {
  enum banyan_status status = by_meeting_client_wait(member->meeting, seconds_until(end), out);
  if (status == BANYAN_OK || status == BANYAN_ERR_TIMEOUT) return status;
  by_meeting_client_destroy(member->meeting);
  member->meeting = NULL;
  return status;
}

/* Keeps this process known to newcomers, also through an agent that is restarted. */
static enum banyan_status stay_known(struct banyan_member *member) {
  by_meeting_client_report(member->meeting, true);
  if (by_member_service_repeat(member->service, keep_pause, by_meeting_client_keep, member->meeting) != BANYAN_OK)
    by_warn("communicator", "newcomers do not find this process once its agent has ended: %s", banyan_error_text());
  return BANYAN_OK;
}

/* Tries lists of the agent until one succeeds, as start_by_launcher does. */
static enum banyan_status start_by_agent(struct banyan_member *member, uint64_t end, struct banyan_comm **out) {
  struct by_directory_list list;
  if (!member->meeting) BY_TRY(connect_to_agent(member));
  for (;;) {
    BY_TRY(wait_for_list(member, end, &list));
    enum banyan_status status = follow(member, &list, seconds_until(end), out);
    by_directory_list_fini(&list);
    if (status == BANYAN_OK) return stay_known(member);
    if (status != BANYAN_ERR_TIMEOUT && status != BANYAN_ERR_PEER_DEAD) return status;
    by_meeting_client_report(member->meeting, false);
    if (seconds_until(end) <= 0) return status; /* The next call uses the list that follows. */
  }
}

/* ---- through a list of members */

/* Joins through the members in "HANDLE,HANDLE,...". */
static enum banyan_status start_by_list(struct banyan_member *member, const char *list, uint64_t end,
                                        struct banyan_comm **out) {
  char *copy = strdup(list), *rest = copy, *item;
  const char **handles = calloc(strlen(list) / 2 + 1, sizeof *handles);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  int n = 0;
  if (copy && handles) {
    while ((item = strsep(&rest, ", \t\n")))
      if (*item) handles[n++] = item;
    status = n ? banyan_member_join(member, handles, n, seconds_until(end), out)
               : by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_MEMBERS names no member");
  }
  free(handles);
  free(copy);
  return status;
}

/* ---- by rank: all meet as the ranks of a job, and exchange handles in it */

/* Exchanges handles. Sets *attempt to the highest attempt of any process, so that no name is used twice. */
static enum banyan_status exchange(struct banyan_comm *comm, const char *own, int64_t *attempt, char **out) {
  size_t n = (size_t)banyan_comm_size(comm);
  char mine[BY_HANDLE_MOST] = "";
  BY_TRY(banyan_allreduce(comm, attempt, attempt, 1, BANYAN_INT64, BANYAN_MAX));
  snprintf(mine, sizeof mine, "%s", own);
  *out = calloc(n, BY_HANDLE_MOST);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu handles", n);
  BY_TRY(banyan_allgather(comm, mine, *out, BY_HANDLE_MOST, BANYAN_UINT8));
  for (size_t i = 0; i < n; i++) (*out)[(i + 1) * BY_HANDLE_MOST - 1] = 0;
  return BANYAN_OK;
}

static enum banyan_status form_first(struct banyan_member *member, int64_t attempt, char *all, int n, uint64_t end,
                                     struct banyan_comm **out) {
  char name[32] = "first";
  const char **handles = calloc((size_t)n, sizeof *handles);
  if (!handles) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %d handles", n);
  for (int i = 0; i < n; i++) handles[i] = all + (size_t)i * BY_HANDLE_MOST;
  if (attempt > 1) snprintf(name, sizeof name, "first-%" PRId64, attempt);
  enum banyan_status status =
      banyan_member_reconfigure(member, name, handles, n, MAX(seconds_until(end), least_forming), out);
  free(handles);
  return status;
}

static enum banyan_status start_by_rank(struct banyan_member *member, uint64_t end, struct banyan_comm **out) {
  struct banyan_options options = member->options;
  struct banyan_comm *comm;
  int64_t attempt = ++member->meetings;
  char *all = NULL;
  options.topology = "off"; /* This job ends at once, so its network is not measured. */
  options.timeline = NULL;
  enum banyan_status status = banyan_comm_create(&options, &comm);
  if (status != BANYAN_OK) return by_fail_within(status, "exchanging handles");
  int n = banyan_comm_size(comm);
  status = exchange(comm, member->handle, &attempt, &all);
  banyan_comm_destroy(comm);
  if (status == BANYAN_OK) member->meetings = attempt;
  if (status == BANYAN_OK) status = form_first(member, attempt, all, n, end, out);
  free(all);
  return status;
}

/* ---- */

enum banyan_status banyan_member_start(struct banyan_member *member, double timeout, struct banyan_comm **out) {
  BY_TRY(by_member_check_call(member, out, timeout));
  if (member->given) return by_fail(BANYAN_ERR_ARGUMENT, "this member was started before: call banyan_member_recover");
  /* An earlier start failed after the membership had formed. */
  if (member->current) return banyan_member_recover(member, timeout, out);
  uint64_t end = by_clock_now(&by_clock_system) + by_clock_from_seconds(timeout);
  const char *launcher = by_directory_place(), *members = getenv("BANYAN_MEMBERS");
  if (!launcher && members && !strcmp(members, "agent")) return start_by_agent(member, end, out);
  if (launcher) return start_by_launcher(member, launcher, end, out);
  if (members && *members) return start_by_list(member, members, end, out);
  return start_by_rank(member, end, out);
}
