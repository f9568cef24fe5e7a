/* Helpers at the control connections: how they join, what rank 0 tells them, and what it tells all when one is gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_parts.h"
#include "log.h"

enum { WORDS_MS = 5 };

/* A message that has to wait until the engine is made. */
struct by_control_word {
  struct by_control_word *next;
  uint16_t type;
  size_t length;
  uint8_t bytes[];
};

bool by_control_is_helper(const struct by_control *control, int64_t process) {
  return process >= (int64_t)control->context->size;
}

/* ---- joining */

void by_control_helper_joins(struct end *end, const struct by_member *member) {
  struct by_control *control = end->control;
  struct by_context *context = control->context;
  const struct by_member *zero = &context->members[0];
  uint32_t place = context->size + control->helpers;
  if (control->done) {
    by_control_refuse(end, "the job has begun: helpers must come while it starts");
  } else if (place == context->places) {
    by_control_refuse(end, "this job has all the helpers it waits for: see BANYAN_HELPERS");
  } else if (member->unasked != zero->unasked || member->credit != zero->credit) {
    by_control_refuse(end, "the ranks have other BANYAN_UNASKED and BANYAN_CREDIT: set both alike");
  } else {
    end->rank = place;
    control->of_rank[place] = end;
    context->members[place] = *member;
    control->helpers++;
    if (control->waits_for_helpers && place + 1 == context->places) by_control_welcome(control);
  }
}

/* The last one takes its place. */
void by_control_helper_left(struct by_control *control, uint32_t process) {
  struct by_context *context = control->context;
  uint32_t last = context->size + --control->helpers;
  control->of_rank[process] = control->of_rank[last];
  context->members[process] = context->members[last];
  if (process != last) control->of_rank[process]->rank = process;
  control->of_rank[last] = NULL;
}

/* ---- gone */

static void lose_here(struct by_control *control, uint32_t process, const char *text) {
  struct by_context *context = control->context;
  by_context_lock(context);
  if (process == context->rank)
    by_engine_fail(context->engine, BANYAN_ERR_PEER_DEAD, process, text);
  else
    by_engine_lost(context->engine, process);
  pthread_cond_broadcast(&context->changed);
  by_context_unlock(context);
  by_context_wake(context);
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
  by_write_u32(&writer, BANYAN_ERR_PEER_DEAD);
  by_write_u32(&writer, process);
  by_write_string(&writer, text);
  if (!writer.failed) by_control_heard_word(control, LOST, bytes, writer.length);
}

void by_control_lose(struct by_control *control, uint32_t process, const char *text) {
  struct by_context *context = control->context;
  char reason[TEXT_MOST];
  if (control->lost[process] || control->told || atomic_load(&control->leaving)) return;
  control->lost[process] = true;
  snprintf(reason, sizeof reason, "helper %u (host %s) is lost (%.300s)", process - context->size,
           context->members[process].host, text);
  by_error("communicator", "%s; what went through it goes among ranks from here on", reason);
  send_lost(control, process, reason);
  hear_own(control, process, reason);
}

/* ---- stopped: the kernel answers for such a process, so its connections stay */

void by_control_ask_helpers(struct by_control *control, const uint8_t *number, size_t length) {
  const struct by_context *context = control->context;
  if (by_timer_is_set(&control->silence)) return;
  for (uint32_t p = context->size; p < context->processes; p++) {
    struct end *end = control->of_rank[p];
    if (!end || end->leaving || end->over || control->lost[p]) continue;
    end->silent = by_stream_send(end->stream, DESCRIBE, number, length) == BANYAN_OK;
  }
  by_loop_set_delay(context->loop, &control->silence, SILENCE_MS * BY_MILLISECOND);
}

void by_control_silence_over(void *argument) {
  struct by_control *control = argument;
  const struct by_context *context = control->context;
  for (uint32_t p = context->size; p < context->processes; p++) {
    const struct end *end = control->of_rank[p];
    if (end && end->silent && !end->leaving && !end->over)
      by_control_lose(control, p, "it does not answer: is it stopped, or its machine overloaded?");
  }
}

/* ---- words */

static void heard_lost(struct by_control *control, const void *payload, size_t length) {
  struct by_reader reader;
  char text[TEXT_MOST];
  by_reader_init(&reader, payload, length);
  (void)by_read_u32(&reader);
  uint32_t process = by_read_u32(&reader);
  by_read_string(&reader, text, sizeof text);
  bool sound = by_reader_check(&reader, "a control message") == BANYAN_OK;
  if (!sound || !by_control_is_helper(control, process) || process >= control->context->processes)
    by_warn("control", "a malformed word about a helper; ignored");
  else
    lose_here(control, process, text);
}

/* Whether all numbers are of this job. */
static bool are_processes(const struct by_context *context, const uint32_t *list, uint32_t n, bool may_lack) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] >= context->processes && !(may_lack && list[i] == UINT32_MAX)) return false;
  return true;
}

static uint32_t *read_list(struct by_reader *reader, uint32_t *n) {
  *n = by_read_count(reader, sizeof(uint32_t));
  uint32_t *list = calloc((size_t)*n + 1, sizeof *list);
  for (uint32_t i = 0; list && i < *n; i++) list[i] = by_read_u32(reader);
  return list;
}

static enum banyan_status set_plan(struct by_context *context, uint32_t id, const uint32_t *processes, uint32_t n,
                                   const uint32_t *helpers, struct by_plan *plan) {
  struct by_domain *domain = by_engine_domain(context->engine, id);
  enum banyan_status status = BANYAN_OK;
  if (!domain) status = by_domain_create(context->engine, id, n, n, processes, &domain);
  if (status == BANYAN_OK) return by_domain_set_helped_plan(domain, plan, helpers);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status take_plan(struct by_context *context, struct by_reader *reader, uint32_t id,
                                    const uint32_t *processes, uint32_t n, const uint32_t *helpers,
                                    uint32_t n_helpers) {
  struct by_plan *plan = NULL;
  uint32_t length = by_read_count(reader, 1);
  const char *json = (const char *)by_read_bytes(reader, length);
  BY_TRY(by_reader_check(reader, "a plan for helpers"));
  if (!processes || !helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  if (!are_processes(context, processes, n, false) || !are_processes(context, helpers, n_helpers, true))
    return by_fail(BANYAN_ERR_PROTOCOL, "a plan for helpers names processes that do not exist");
  BY_TRY(by_plan_parse("rank 0's plan", json, length, &plan));
  if (plan->n_ranks != n || plan->n_vertices - n != n_helpers) {
    by_plan_destroy(plan);
    return by_fail(BANYAN_ERR_PROTOCOL, "a plan for helpers that does not fit its ranks");
  }
  return set_plan(context, id, processes, n, helpers, plan);
}

static void heard_plan(struct by_control *control, const void *payload, size_t length) {
  struct by_context *context = control->context;
  struct by_reader reader;
  uint32_t n, n_helpers;
  by_reader_init(&reader, payload, length);
  uint32_t id = by_read_u32(&reader), *processes = read_list(&reader, &n), *helpers = read_list(&reader, &n_helpers);
  by_context_lock(context);
  enum banyan_status status = take_plan(context, &reader, id, processes, n, helpers, n_helpers);
  if (status != BANYAN_OK) by_engine_fail(context->engine, status, context->rank, banyan_error_text());
  by_context_unlock(context);
  by_context_wake(context);
  free(processes);
  free(helpers);
}

static void hear(struct by_control *control, uint16_t type, const void *payload, size_t length) {
  if (type == LOST)
    heard_lost(control, payload, length);
  else if (control->context->helper)
    heard_plan(control, payload, length);
}

void by_control_heard_word(struct by_control *control, uint16_t type, const void *payload, size_t length) {
  if (control->context->engine && !control->words) {
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
  while (control->words && control->context->engine) {
    struct by_control_word *word = take_word(control);
    hear(control, word->type, word->bytes, word->length);
    free(word);
  }
  if (control->words) by_loop_set_delay(control->context->loop, &control->words_due, WORDS_MS * BY_MILLISECOND);
}

void by_control_forget_words(struct by_control *control) {
  while (control->words) free(take_word(control));
}
