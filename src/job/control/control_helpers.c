/* Helpers at the control connections: how they join, what rank 0 tells them, and what it tells all when one is gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_parts.h"
#include "log.h"
#include "tree_word.h"

enum { WORDS_MS = 5 };

/* A message that has to wait until the engine is made. */
struct by_control_word {
  struct by_control_word *next;
  uint16_t type;
  size_t length;
  uint8_t bytes[];
};

bool by_control_is_helper(const struct by_control *control, int64_t process) {
  return process >= (int64_t)control->job->size;
}

/* ---- joining */

/* Whether rank 0 waits for no more of this kind. */
static bool has_enough(const struct by_control *control, enum by_member_kind kind) {
  const struct by_job *job = control->job;
  uint32_t most = job->servers, n = 0;
  if (kind == BY_MEMBER_HELPER) most = job->places - job->size - job->servers;
  for (uint32_t i = 0; i < control->helpers; i++) n += job->members[job->size + i].kind == kind;
  return n == most;
}

/* A helper comes again, and joins when the job has begun. */
static void say_enough(struct end *end, enum by_member_kind kind) {
  if (kind == BY_MEMBER_SERVER)
    by_control_refuse(end, "this job has all the servers it waits for: see BANYAN_SERVERS");
  else
    by_stream_refuse(end->stream);
}

void by_control_helper_joins(struct end *end, const struct by_member *member) {
  struct by_control *control = end->control;
  struct by_job *job = control->job;
  uint32_t place = job->size + control->helpers;
  if (control->done && member->kind == BY_MEMBER_HELPER) {
    by_control_newcomer_joins(end, member);
  } else if (control->done) {
    by_control_refuse(end, "the job has begun: servers must come while it starts");
  } else if (has_enough(control, member->kind)) {
    say_enough(end, member->kind);
  } else {
    end->rank = place;
    control->of_rank[place] = end;
    job->members[place] = *member;
    control->helpers++;
    if (control->waits_for_helpers && place + 1 == job->places) by_control_welcome(control);
  }
}

/* The last one takes its place. */
void by_control_helper_left(struct by_control *control, uint32_t process) {
  struct by_job *job = control->job;
  uint32_t last = job->size + --control->helpers;
  control->of_rank[process] = control->of_rank[last];
  job->members[process] = job->members[last];
  if (process != last) control->of_rank[process]->rank = process;
  control->of_rank[last] = NULL;
}

/* ---- gone */

static void lose_here(struct by_control *control, uint32_t process, const char *text) {
  struct by_job *job = control->job;
  by_job_lock(job);
  if (!job->lost[process]) job->lost[process] = by_arena_string(&job->arena, text);
  if (process == job->rank)
    by_engine_fail(job->engine, BANYAN_ERR_PEER_DEAD, process, text);
  else
    by_engine_lost(job->engine, process);
  pthread_cond_broadcast(&job->changed);
  by_job_unlock(job);
  by_job_wake(job);
}

static void send_lost(const struct by_control *control, uint32_t process, const char *text) {
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank > 0 && !end->leaving) by_control_send_text(end, LOST, BANYAN_ERR_PEER_DEAD, process, text);
}

/* Rank 0 hears its own word in the way the others do. */
static void hear_own(struct by_control *control, uint32_t process, const char *text) {
  uint8_t bytes[TEXT_MOST + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_word_write(&writer, BANYAN_ERR_PEER_DEAD, process, text);
  if (!writer.failed) by_control_heard_word(control, LOST, bytes, writer.length);
}

void by_control_lose(struct by_control *control, uint32_t process, const char *text) {
  struct by_job *job = control->job;
  char reason[TEXT_MOST];
  if (control->lost[process] || control->told || atomic_load(&control->leaving)) return;
  control->lost[process] = true;
  snprintf(reason, sizeof reason, "%s %u (host %s) is lost (%.300s)", by_member_kind_name(job->members[process].kind),
           process - job->size, job->members[process].host, text);
  by_error("communicator", "%s; what went through it goes among ranks from here on", reason);
  send_lost(control, process, reason);
  hear_own(control, process, reason);
  by_control_drop_moves_with(control, process, reason);
  if (control->of_rank && control->of_rank[process]) by_control_heard_known(control->of_rank[process]);
}

/* ---- stopped: the kernel answers for such a process, so its connections stay */

void by_control_lose_silent(struct by_control *control, uint32_t process) {
  by_control_lose(control, process, "it does not answer: is it stopped, or its machine overloaded?");
}

static bool is_silent(const struct by_control *control, uint32_t process) {
  const struct end *end = control->of_rank[process];
  return end && end->silent && !end->leaving && !end->over && !control->lost[process];
}

static void ask(struct by_control *control, uint32_t process, const uint8_t *number, size_t length) {
  struct end *end = control->of_rank[process];
  if (!end || end->leaving || end->over || control->lost[process] || end->silent) return;
  end->silent = by_stream_send(end->stream, DESCRIBE, number, length) == BANYAN_OK;
  end->asked_at = by_loop_now(control->job->loop);
}

void by_control_ask_helpers(struct by_control *control, const uint8_t *number, size_t length) {
  const struct by_job *job = control->job;
  for (uint32_t p = job->size; p < job->processes; p++) ask(control, p, number, length);
  if (!by_timer_is_set(&control->silence)) by_loop_set_delay(job->loop, &control->silence, SILENCE_MS * BY_MILLISECOND);
}

/* Those that were asked later have their time, too. */
void by_control_silence_over(void *argument) {
  struct by_control *control = argument;
  const struct by_job *job = control->job;
  uint64_t now = by_loop_now(job->loop), next = UINT64_MAX;
  for (uint32_t p = job->size; p < job->processes; p++) {
    if (!is_silent(control, p)) continue;
    uint64_t until = control->of_rank[p]->asked_at + SILENCE_MS * BY_MILLISECOND;
    if (until <= now)
      by_control_lose_silent(control, p);
    else if (until < next)
      next = until;
  }
  if (next != UINT64_MAX) by_loop_set_timer(job->loop, &control->silence, next);
}

/* ---- words */

static void heard_lost(struct by_control *control, const void *payload, size_t length) {
  struct by_text_word word;
  if (by_text_word_read(payload, length, &word) != BANYAN_OK || !by_control_is_helper(control, word.process) ||
      word.process >= control->job->processes)
    by_warn("control", "a malformed word about a helper; ignored");
  else
    lose_here(control, word.process, word.text);
}

static enum banyan_status take_plan(const struct by_job *job, const void *payload, size_t length) {
  struct by_plan_word word;
  BY_TRY(by_plan_word_read(payload, length, (struct by_roster){job->size, job->processes}, &word));
  enum banyan_status status = by_plan_word_set(&word, job->engine, job->rank);
  by_plan_word_fini(&word);
  return status;
}

static void heard_plan(struct by_control *control, const void *payload, size_t length) {
  struct by_job *job = control->job;
  by_job_lock(job);
  enum banyan_status status = take_plan(job, payload, length);
  if (status != BANYAN_OK) by_engine_fail(job->engine, status, job->rank, banyan_error_text());
  by_job_unlock(job);
  by_job_wake(job);
}

static enum banyan_status take_tree(const struct by_control *control, const void *payload, size_t length) {
  const struct by_job *job = control->job;
  struct by_tree_word word;
  struct by_roster roster = {job->size, job->processes};
  BY_TRY(by_tree_word_read(payload, length, roster, &word));
  if ((word.worker == BY_TREE_FOR_SERVER) != (job->role.kind == BY_MEMBER_SERVER))
    return by_fail(BANYAN_ERR_PROTOCOL, "a tree through switches in which this is no such end");
  if (word.worker != BY_TREE_FOR_SERVER) return control->events.attach_tree(control->events.context, &word);
  return job->role.serve(job->role.context, &word);
}

/* A server fails; a rank for which the tree fails does without its server. */
static void heard_tree(struct by_control *control, const void *payload, size_t length) {
  struct by_job *job = control->job;
  struct by_reader reader;
  char text[TEXT_MOST];
  if (take_tree(control, payload, length) == BANYAN_OK) return;
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_reader_init(&reader, payload, length);
  uint32_t server = by_read_u32(&reader);
  by_error("control", "a tree through switches cannot be used: %s", text);
  if (job->role.kind == BY_MEMBER_SERVER)
    by_control_fail(control, BANYAN_ERR_PEER_DEAD, job->rank, text);
  else if (server >= job->size && server < job->processes)
    by_control_suspect_here(control, server, text);
}

static void hear(struct by_control *control, uint16_t type, const void *payload, size_t length) {
  enum by_member_kind kind = control->job->role.kind;
  if (type == LOST)
    heard_lost(control, payload, length);
  else if (type == JOINED)
    by_control_heard_joined(control, payload, length);
  else if (type == TREE && kind != BY_MEMBER_HELPER)
    heard_tree(control, payload, length);
  else if (type == PLAN && kind == BY_MEMBER_HELPER)
    heard_plan(control, payload, length);
}

void by_control_heard_word(struct by_control *control, uint16_t type, const void *payload, size_t length) {
  if (control->job->engine && !control->words) {
    hear(control, type, payload, length);
    return;
  }
  struct by_control_word *word = malloc(sizeof *word + length), **last = &control->words;
  if (!word) {
    by_error("control", "out of memory for what rank 0 says of helpers");
    return;
  }
  *word = (struct by_control_word){.type = type, .length = length};
  memcpy(word->bytes, payload, length);
  while (*last) last = &(*last)->next;
  *last = word;
  if (!by_timer_is_set(&control->words_due)) by_control_words_due(control);
}

static struct by_control_word *take_word(struct by_control *control) {
  struct by_control_word *word = control->words;
  control->words = word->next;
  return word;
}

void by_control_words_due(void *argument) {
  struct by_control *control = argument;
  while (control->words && control->job->engine) {
    struct by_control_word *word = take_word(control);
    hear(control, word->type, word->bytes, word->length);
    free(word);
  }
  if (control->words) by_loop_set_delay(control->job->loop, &control->words_due, WORDS_MS * BY_MILLISECOND);
}

void by_control_forget_words(struct by_control *control) {
  while (control->words) free(take_word(control));
}
