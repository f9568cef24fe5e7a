/* The reports that a rank sends to an agent or manager: its calls, its paths, and the user's plan. */
#include "agent_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "key_ring.h"
#include "log.h"
#include "plan.h"
#include "plan_switch.h"
#include "planner.h"

void by_agent_client_send(struct by_agent_client *link, const struct by_cluster_message *message) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory") : BANYAN_OK;
  if (status == BANYAN_OK && link->stream) status = by_stream_send(link->stream, 0, by_text_get(&text), text.length);
  if (status != BANYAN_OK)
    by_info("cluster", "\"%s\" is not sent: %s", by_cluster_type_name(message->type), banyan_error_text());
  by_text_fini(&text);
}

/* ---- cells of switches */

void by_agent_client_send_reservation(struct by_agent_client *link) {
  if (!link->reservation || !link->welcome) return;
  if (by_stream_send(link->stream, 0, link->reservation, strlen(link->reservation)) != BANYAN_OK)
    by_info("cluster", "the request for memory of switches is not sent: %s", banyan_error_text());
}

void by_agent_client_reserve(struct by_agent_client *link, const struct by_cluster_cells *cells, uint32_t n) {
  struct by_text text;
  by_text_init(&text);
  by_cluster_message_print(
      &(struct by_cluster_message){.type = BY_MESSAGE_RESERVE, .job = link->id, .n_cells = n, .cells = cells}, &text);
  free(link->reservation);
  link->reservation = text.failed ? NULL : strdup(by_text_get(&text));
  by_text_fini(&text);
  by_agent_client_send_reservation(link);
}

/* ---- who this is */

enum { MAX_PLAN = 256 << 10 /* Maximum bytes of the user's plan; of a longer one only the name is sent. */ };

/* Prints the user's plan as JSON, as all ranks use it; nothing if there is none, or it is too long. */
static struct by_text print_own_plan(struct by_agent_client *link) {
  struct by_text text;
  by_text_init(&text);
  link->own_version = by_agent_client_find_own_plan(link, link->own_plan);
  if (link->own_version) by_plan_switches_print(link->job, 0, &text);
  if (!text.failed && text.length <= MAX_PLAN) return text;
  by_text_fini(&text);
  by_text_init(&text);
  return text;
}

static void send_job(struct by_agent_client *link) {
  const struct by_job *job = link->job;
  const struct by_settings *settings = by_job_settings(job);
  struct by_text own_plan = print_own_plan(link);
  const char **hosts = calloc(by_job_size(job), sizeof *hosts);
  char name[BY_CLUSTER_NAME + 1], key[BY_TICKET_KEY_TEXT], ways[BY_PLAN_METHODS_BYTES];
  struct by_planner_managed asked;
  bool shares = settings->accept_helpers && by_key_ring_ticket_text(by_job_keys(job), key) == BANYAN_OK;
  by_keep_printable(settings->job ? settings->job : program_invocation_short_name, name, sizeof name);
  for (uint32_t r = 0; hosts && r < by_job_size(job); r++) hosts[r] = by_job_members(job)[r].host;
  if (by_planner_managed_parse(settings->planner, &asked) != BANYAN_OK) /* The job has failed for it, or fails next. */
    by_warn("cluster", "the manager is not asked for what BANYAN_PLANNER has: %s", banyan_error_text());
  if (hosts)
    by_agent_client_send(
        link, &(struct by_cluster_message){.type = BY_MESSAGE_JOB,
                                           .job = link->id,
                                           .name = name,
                                           .n_hosts = by_job_size(job),
                                           .hosts = hosts,
                                           .root = settings->root,
                                           .began = link->began,
                                           .own_plan = *link->own_plan ? link->own_plan : NULL,
                                           .plan = own_plan.length ? by_text_get(&own_plan) : NULL,
                                           .replace_plan = settings->replace_plan,
                                           .ways = asked.ways ? by_plan_methods_print(asked.ways, ways) : NULL,
                                           .tree_penalty = asked.tree_penalty,
                                           .steps = asked.steps,
                                           .trees = MIN(asked.trees, BY_CLUSTER_TREES),
                                           .key = shares ? key : NULL});
  explicit_bzero(key, sizeof key);
  by_text_fini(&own_plan);
  free(hosts);
}

void by_agent_client_send_switched(struct by_agent_client *link) {
  by_agent_client_send(link, &(struct by_cluster_message){
                                 .type = BY_MESSAGE_SWITCHED, .job = link->id, .number = link->number, .at = link->at});
}

void by_agent_client_send_released(struct by_agent_client *link) {
  if (link->released)
    by_agent_client_send(
        link, &(struct by_cluster_message){.type = BY_MESSAGE_RELEASED, .job = link->id, .number = link->released});
}

void by_agent_client_introduce(struct by_agent_client *link) {
  const struct by_job *job = link->job;
  by_agent_client_send(link, &(struct by_cluster_message){.type = BY_MESSAGE_HELLO,
                                                          .version = BY_CLUSTER_VERSION,
                                                          .host = by_job_members(job)[by_job_rank(job)].host,
                                                          .job = link->id,
                                                          .rank = by_job_rank(job)});
  if (by_job_rank(job) != 0) return;
  send_job(link);
  if (by_agent_client_runs_plan(link)) by_agent_client_send_switched(link);
  by_agent_client_send_released(link);
}

/* ---- reports */

enum { MANY = 256 /* Connections above which looks are rarer. */ };

struct report {
  struct by_observed observed;
  uint64_t sent, expected;
  struct by_cluster_size sizes[BY_CLUSTER_SIZES];
  uint32_t n_sizes;
};

static void resume_reports(void *context) {
  struct by_agent_client *link = context;
  if (!link->welcome || by_timer_is_set(&link->report)) return;
  by_loop_set_timer(by_job_loop(link->job), &link->report, link->reported_at + link->interval);
}

/* Called under lock, in any thread, at the first call after a time in which there was nothing to report. */
static void on_next_call(void *context) {
  struct by_agent_client *link = context;
  if (by_loop_post(by_job_loop(link->job), resume_reports, link) != BANYAN_OK)
    link->observed->on_next_call = on_next_call;
}

/* Makes a report. False: nothing has changed, and there is no news of links; then no look follows before the next call.
 */
static bool take_report(struct by_agent_client *link, bool news, struct report *report) {
  struct by_job *job = link->job;
  by_job_lock(job);
  by_observe_look(link->observed, &report->observed);
  report->sent = by_engine_sent(by_job_engine(job));
  report->expected = by_job_rank(job) == 0 ? by_job_settings(job)->iterations : 0;
  bool changed = news || report->observed.calls != link->reported.calls ||
                 report->observed.iterations != link->reported.iterations || report->sent != link->reported_sent ||
                 report->expected != link->reported_expected;
  report->n_sizes = 0;
  for (uint32_t i = 0; i < BY_CLUSTER_SIZES; i++) {
    uint64_t n = link->observed->sizes[i];
    if (n) report->sizes[report->n_sizes++] = (struct by_cluster_size){i, n};
  }
  if (!changed) {
    link->observed->on_next_call = on_next_call;
    link->observed->context = link;
  }
  by_job_unlock(job);
  return changed;
}

/* Returns the seconds to the job's end, as rank 0 states it; 0: unknown, or over. */
static double ends_in(const struct by_job *job) {
  time_t now = time(NULL);
  uint64_t end = by_job_settings(job)->end_time;
  return by_job_rank(job) == 0 && end > (uint64_t)now ? (double)(end - (uint64_t)now) : 0;
}

static void send_report(struct by_agent_client *link, const struct report *report) {
  struct by_cluster_job job = {.job = link->id,
                               .n_ranks = 1,
                               .ranks = &(uint32_t){by_job_rank(link->job)},
                               .n_sizes = report->n_sizes,
                               .sizes = report->sizes,
                               .n_paths = link->paths.list.n,
                               .paths = link->paths.list.paths,
                               .iterations = report->observed.iterations,
                               .expected = report->expected,
                               .ends_in = ends_in(link->job),
                               .iteration_time = report->observed.iteration_time,
                               .calls = report->observed.calls,
                               .sent = report->sent,
                               .input = report->observed.input};
  link->reported = report->observed;
  link->reported_sent = report->sent;
  link->reported_expected = report->expected;
  link->reported_at = by_loop_now(by_job_loop(link->job));
  by_agent_client_send(link, &(struct by_cluster_message){.type = BY_MESSAGE_REPORT, .n_jobs = 1, .jobs = &job});
}

/* Reports that the user has set another plan, or none any more. An agent's records of a job start anew with each
 * introduction. */
static void send_own_plan(struct by_agent_client *link) {
  char own_plan[BY_CLUSTER_NAME + 1];
  if (by_job_rank(link->job) != 0) return;
  uint32_t version = by_agent_client_find_own_plan(link, own_plan);
  if (strcmp(own_plan, link->own_plan) == 0 && version == link->own_version) return;
  send_job(link);
  by_agent_client_send_reservation(link);
  if (by_agent_client_runs_plan(link)) by_agent_client_send_switched(link);
  by_agent_client_send_released(link);
}

/* Takes a look. False: there is nothing to report before the next call. */
static bool look_for_news(struct by_agent_client *link) {
  struct report report;
  bool news = by_path_watch_look(&link->paths);
  bool due = by_loop_now(by_job_loop(link->job)) >= link->reported_at + link->interval;
  if (!due && !news) return true;
  if (due) send_own_plan(link);
  if (!take_report(link, news, &report)) return false;
  if (!news) by_path_watch_take(&link->paths);
  send_report(link, &report);
  return true;
}

/* Looks a few times in each interval, and reports at its end, or when the network has changed. */
void by_agent_client_report(void *argument) {
  struct by_agent_client *link = argument;
  by_path_watch_glance(&link->paths);
  if (link->paths.glances >= BY_PATH_GLANCES && !look_for_news(link)) return;
  uint64_t looks = link->paths.last_look.n > MANY ? 1 : BY_PATH_LOOKS;
  by_loop_set_delay(by_job_loop(link->job), &link->report, link->interval / looks / BY_PATH_GLANCES);
}
