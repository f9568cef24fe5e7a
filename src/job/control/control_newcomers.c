/* Helpers that come while the job runs. Rank 0 admits one after the other: it gives it the next number, tells all
 * others, and welcomes it when all have said that they know it. So whatever names that number later, a plan or a
 * connection, comes to somebody who knows it. A rank that is stopped holds newcomers up; a helper is given up. */
#include <stdlib.h>
#include <string.h>

#include "connector.h"
#include "control_parts.h"
#include "log.h"

enum { NUMBER_BYTES = 4 };

struct by_newcomer {
  struct by_newcomer *next;
  struct end *end;  /* NULL: it is gone */
  uint32_t process; /* 0: others are before it */
  uint32_t missing; /* answers */
  size_t length;
  uint8_t joined[HELLO_MOST + NUMBER_BYTES]; /* what all are told: its number, and what describes it */
};

/* ---- one process more: every member of the job makes room for it before it may do anything, so that a plan which
 * names it finds it known everywhere */

static enum banyan_status read_newcomer(struct by_job *job, const void *bytes, size_t length) {
  struct by_reader reader;
  struct by_member *member = &job->members[job->processes];
  by_reader_init(&reader, bytes, length);
  uint32_t process = by_read_u32(&reader);
  BY_TRY(by_member_read(&reader, &job->arena, member));
  BY_TRY(by_reader_check(&reader, "a helper that comes"));
  if (process == job->processes && member->kind == BY_MEMBER_HELPER) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 tells of process %u; the next one is %u", process, job->processes);
}

/* Where the connector or the engine has one more than the other, this process takes no part in the job any more. */
static enum banyan_status add_locked(const struct by_control *control, const void *bytes, size_t length) {
  struct by_job *job = control->job;
  BY_TRY(by_job_make_room(job));
  BY_TRY(read_newcomer(job, bytes, length));
  const char *name = by_job_name_member(job, job->processes);
  if (!name) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for names");
  BY_TRY(by_connector_add(control->connector));
  BY_TRY(by_engine_add(job->engine));
  job->names[job->processes] = name;
  job->processes++; /* from now on others look at it */
  return BANYAN_OK;
}

static enum banyan_status add_member(const struct by_control *control, const void *bytes, size_t length) {
  by_job_lock(control->job);
  enum banyan_status status = add_locked(control, bytes, length);
  by_job_unlock(control->job);
  return status;
}

/* ---- making it known */

static enum banyan_status make_room(struct by_control *control) {
  size_t n = (size_t)control->job->processes + 1;
  struct end **of_rank = realloc(control->of_rank, n * sizeof(struct end *));
  if (of_rank) control->of_rank = of_rank;
  bool *lost = realloc(control->lost, n * sizeof *lost);
  if (lost) control->lost = lost;
  if (!of_rank || !lost) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a helper");
  control->of_rank[n - 1] = NULL;
  control->lost[n - 1] = false;
  return BANYAN_OK;
}

static void tell_all(struct by_control *control, struct by_newcomer *newcomer) {
  for (struct end *end = control->ends; end; end = end->next) {
    if (end->rank <= 0 || end->over || end->leaving) continue;
    if (by_control_is_helper(control, end->rank) && control->lost[end->rank]) continue; /* it may be stopped */
    end->asked = by_control_say(end, JOINED, newcomer->joined, newcomer->length);
    newcomer->missing += end->asked;
  }
  by_loop_set_delay(control->job->loop, &control->known_late, SILENCE_MS * BY_MILLISECOND);
}

static struct end *find_silent_helper(const struct by_control *control) {
  struct end *end = control->ends;
  while (end && (!end->asked || end->over || !by_control_is_helper(control, end->rank))) end = end->next;
  return end;
}

/* The last of them lets the next newcomer in, of which the others are asked anew. */
void by_control_known_late(void *argument) {
  struct by_control *control = argument;
  uint32_t process = control->newcomers->process;
  while (control->newcomers && control->newcomers->process == process) {
    const struct end *silent = find_silent_helper(control);
    if (silent) by_control_lose_silent(control, (uint32_t)silent->rank);
    if (!silent || !control->lost[silent->rank]) return; /* the job is ending */
  }
}

static enum banyan_status begin(struct by_control *control, struct by_newcomer *newcomer) {
  struct by_writer writer;
  BY_TRY(make_room(control));
  uint32_t process = control->job->processes;
  by_writer_init(&writer, newcomer->joined, NUMBER_BYTES);
  by_write_u32(&writer, process);
  BY_TRY(add_member(control, newcomer->joined, newcomer->length));
  newcomer->process = process;
  tell_all(control, newcomer);
  return BANYAN_OK;
}

static void welcome(struct by_control *control, const struct by_newcomer *newcomer) {
  uint32_t process = newcomer->process;
  if (!newcomer->end) {
    by_control_lose(control, process, "it left before it had joined");
    return;
  }
  newcomer->end->rank = process;
  control->of_rank[process] = newcomer->end;
  if (by_control_send_welcome(control, process) != BANYAN_OK) {
    by_control_lose(control, process, banyan_error_text());
    return;
  }
  by_control_tell_class_to(newcomer->end);
  by_info("control", "%s has joined", by_job_name(control->job, process));
}

static void advance(struct by_control *control) {
  for (struct by_newcomer *first; (first = control->newcomers);) {
    bool begun = first->process || (first->end && begin(control, first) == BANYAN_OK);
    if (begun && first->missing) return;
    control->newcomers = first->next;
    by_loop_cancel_timer(&control->known_late);
    if (begun)
      welcome(control, first);
    else if (first->end)
      by_control_refuse(first->end, banyan_error_text());
    free(first);
  }
}

/* ---- coming and going */

static struct by_newcomer *make_newcomer(struct end *end, const struct by_member *member) {
  struct by_newcomer *newcomer = calloc(1, sizeof *newcomer);
  struct by_writer writer;
  if (!newcomer) return NULL;
  newcomer->end = end;
  by_writer_init(&writer, newcomer->joined, sizeof newcomer->joined);
  by_write_u32(&writer, 0);
  by_member_write(&writer, member);
  newcomer->length = writer.length;
  return newcomer;
}

static bool is_ending(const struct by_control *control) {
  return control->told || control->leavers.n || atomic_load(&control->leaving);
}

void by_control_newcomer_joins(struct end *end, const struct by_member *member) {
  struct by_control *control = end->control;
  struct by_newcomer **last = &control->newcomers;
  if (!control->job->engine) { /* it comes again: the job is still being made here */
    by_stream_refuse(end->stream);
    return;
  }
  if (is_ending(control)) {
    by_control_refuse(end, "the job is ending");
    return;
  }
  while (*last) last = &(*last)->next;
  *last = make_newcomer(end, member);
  if (*last)
    advance(control);
  else
    by_control_refuse(end, "out of memory for a helper");
}

void by_control_heard_known(struct end *end) {
  struct by_newcomer *first = end->control->newcomers;
  if (!end->asked || !first) return;
  end->asked = false;
  first->missing--;
  advance(end->control);
}

void by_control_newcomer_lost(struct end *end) {
  for (struct by_newcomer *newcomer = end->control->newcomers; newcomer; newcomer = newcomer->next)
    if (newcomer->end == end) newcomer->end = NULL;
  by_control_heard_known(end);
}

void by_control_forget_newcomers(struct by_control *control) {
  while (control->newcomers) {
    struct by_newcomer *first = control->newcomers;
    control->newcomers = first->next;
    free(first);
  }
}

/* ---- the others */

void by_control_heard_joined(struct by_control *control, const void *payload, size_t length) {
  enum banyan_status status = add_member(control, payload, length);
  for (struct end *end = control->ends; end && status == BANYAN_OK; end = end->next)
    if (end->rank == 0 && !end->over) status = by_stream_send(end->stream, KNOWN, NULL, 0);
  if (status != BANYAN_OK) by_control_fail(control, status, control->job->rank, banyan_error_text());
}
