/* The timeline and the counters of a job, which programs read as text in Prometheus' format. */
#include <banyan/timeline.h>

#include <string.h>

#include "comm.h"
#include "control.h"
#include "control_messages.h"
#include "feature.h"
#include "job_state.h"
#include "json_doc.h"
#include "membership.h"
#include "opening.h"
#include "refusal.h"
#include "text.h"
#include "timeline.h"

static void add_counters(struct by_text *text, const struct banyan_comm *comm) {
  struct banyan_counters c;
  banyan_comm_counters(comm, &c);
  const struct {
    const char *name;
    uint64_t value;
  } rows[] = {{"calls", c.calls},
              {"bytes_sent", c.bytes_sent},
              {"bytes_received", c.bytes_received},
              {"frames_sent", c.frames_sent},
              {"frames_received", c.frames_received},
              {"sleeps", c.sleeps},
              {"wakes_sent", c.wakes_sent},
              {"allocations", c.allocations},
              {"links", c.links},
              {"in_network", c.in_network},
              {"in_network_fallbacks", c.in_network_fallbacks}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    by_text_add(text, "# TYPE banyan_%s_total counter\nbanyan_%s_total{rank=\"%u\"} %llu\n", rows[i].name, rows[i].name,
                comm->job->rank, (unsigned long long)rows[i].value);
}

/* Adds the metrics of elastic groups. */
static void add_membership(struct by_text *text, struct by_job *job) {
  const struct by_membership *formed = job->formed;
  if (!formed) return;
  by_job_lock(job);
  unsigned long long memberships = job->memberships;
  by_job_unlock(job);
  by_text_add(text,
              "# TYPE banyan_memberships_total counter\nbanyan_memberships_total{rank=\"%u\",membership=", job->rank);
  by_json_add_string(text, formed->name);
  by_text_add(text, "} %llu\n", memberships);
}

/* Adds whether the job encrypts; 0: data crosses the network in plain text. */
static void add_encryption(struct by_text *text, const struct by_job *job) {
  by_text_add(text, "# TYPE banyan_encryption gauge\nbanyan_encryption{rank=\"%u\"} %d\n", job->rank,
              by_encryption_of(job->settings.encrypt) != BY_ENCRYPT_OFF);
}

/* Adds, at rank 0, the refusals reported by helpers and servers, which have no metrics. */
static void add_refusals_of_helpers(struct by_text *text, struct by_job *job) {
  by_job_lock(job);
  for (uint32_t p = job->size; p < job->processes; p++) {
    const struct by_refusals_message *of = by_control_get_refusals(job->control, p);
    for (int r = 0; of && r < BY_REFUSAL_REASONS; r++) {
      by_text_add(text, "banyan_refused_connections_total{process=");
      by_json_add_string(text, by_job_name(job, p));
      by_text_add(text, ",reason=\"%s\"} %llu\n", by_refusal_name((enum by_refusal)r),
                  (unsigned long long)of->counts[r]);
    }
  }
  by_job_unlock(job);
}

/* Adds this process's refusals, whichever of its groups they concern. */
static void add_refusals(struct by_text *text, struct by_job *job) {
  by_text_add(text, "# TYPE banyan_refused_connections_total counter\n");
  for (int r = 0; r < BY_REFUSAL_REASONS; r++)
    by_text_add(text, "banyan_refused_connections_total{rank=\"%u\",reason=\"%s\"} %llu\n", job->rank,
                by_refusal_name((enum by_refusal)r), (unsigned long long)by_refusals((enum by_refusal)r));
  if (job->control) add_refusals_of_helpers(text, job);
}

static void add_class(struct by_text *text, struct by_job *job) {
  by_job_lock(job);
  long class_ = job->class_;
  unsigned long long changes = job->class_changes;
  by_job_unlock(job);
  by_text_add(text, "# TYPE banyan_class gauge\nbanyan_class{rank=\"%u\"} %ld\n", job->rank, class_);
  by_text_add(text, "# TYPE banyan_class_changes_total counter\nbanyan_class_changes_total{rank=\"%u\"} %llu\n",
              job->rank, changes);
}

static void add_states(struct by_text *text, struct by_job *job) {
  struct by_trace_totals totals[BY_TRACE_STATES];
  static const char *const whats[] = {"operations", "bytes", "seconds"};
  by_tracer_totals(&job->tracer, totals);
  for (int w = 0; w < 3; w++) {
    by_text_add(text, "# TYPE banyan_state_%s_total counter\n", whats[w]);
    for (int s = 0; s < BY_TRACE_STATES; s++) {
      double values[] = {(double)totals[s].n, (double)totals[s].bytes, (double)totals[s].ns * 1e-9};
      by_text_add(text, "banyan_state_%s_total{rank=\"%u\",state=\"%s\"} %.15g\n", whats[w], job->rank,
                  by_trace_state_name((enum by_trace_state)s), values[w]);
    }
  }
}

size_t banyan_comm_metrics(const struct banyan_comm *comm, char *out, size_t room) {
  struct by_text text;
  if (!comm || by_job_is_of_parent(comm->job)) return 0;
  by_text_init(&text);
  add_counters(&text, comm);
  add_membership(&text, comm->job);
  add_encryption(&text, comm->job);
  by_features_add_metrics(comm->job, &text);
  add_refusals(&text, comm->job);
  add_class(&text, comm->job);
  add_states(&text, comm->job);
  size_t length = text.length;
  if (out && room) {
    size_t n = length < room ? length : room - 1;
    memcpy(out, by_text_get(&text), n);
    out[n] = 0;
  }
  by_text_fini(&text);
  return length;
}

/* ---- the timeline */

enum banyan_status banyan_timeline_start(struct banyan_comm *comm, const char *path) {
  BY_TRY(by_comm_check(comm));
  struct by_job *job = comm->job;
  if (job->rank != 0) return by_tracer_start(&job->tracer);
  if (!path) return by_fail(BANYAN_ERR_ARGUMENT, "the timeline's path is NULL");
  return by_timeline_begin(job->timeline, path);
}

enum banyan_status banyan_timeline_stop(struct banyan_comm *comm) {
  BY_TRY(by_comm_check(comm));
  return comm->job->rank == 0 ? by_timeline_end(comm->job->timeline) : BANYAN_OK;
}
