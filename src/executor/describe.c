/* What this rank is at, in bytes, for rank 0 to compare when nothing goes on. */
#include "call.h"

#include <stdio.h>

enum { MOST_CALLS = 64 };

static bool awaits(const struct by_call *call, uint32_t peer) {
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++)
    if (call->schedule->incoming[i].peer == peer && call->ins[i].consumed < call->ins[i].length) return true;
  for (uint32_t i = 0; i < call->program->n_outs; i++) {
    uint32_t step = call->outs[i].step;
    if (call->schedule->steps[step].peer == peer && !call->states[step].done) return true;
  }
  return false;
}

/* Of a call and its parts; `writer` NULL: only counts. */
static uint32_t list_awaited(struct by_writer *writer, const struct by_call *call) {
  uint32_t n = 0;
  const struct by_call *part = call;
  for (uint32_t k = 0; part; part = by_joint_part(call, k++))
    for (uint32_t p = 0; p < part->schedule->n_peers; p++) {
      if (!awaits(part, p)) continue;
      n++;
      if (writer) by_write_u32(writer, part->program->links[p]->process);
    }
  return n;
}

static void write_awaited(struct by_writer *writer, const struct by_call *call) {
  by_write_u32(writer, call ? list_awaited(NULL, call) : 0);
  if (call) (void)list_awaited(writer, call);
}

/* `running` NULL: it has ended. */
static void write_call(struct by_writer *writer, const struct by_frame *stamp, const struct by_call *running) {
  by_write_u32(writer, stamp->call);
  by_write_u8(writer, running ? running->pair ? BY_DESCRIBED_PAIR : BY_DESCRIBED_RUNNING : BY_DESCRIBED_ENDED);
  by_write_u8(writer, stamp->collective);
  by_write_u8(writer, stamp->dtype_op);
  by_write_u32(writer, stamp->root);
  by_write_u64(writer, stamp->count);
  by_write_u32(writer, stamp->plan);
  write_awaited(writer, running);
}

/* The call of this number if it is under way or among the last that ended; *running is NULL for the latter. */
static const struct by_frame *find(const struct by_domain *domain, uint32_t number, const struct by_call **running) {
  *running = domain->window[number & (domain->window_size - 1)];
  if (*running && (*running)->stamp.call == number) return &(*running)->stamp;
  *running = NULL;
  const struct by_frame *past = &domain->past[number % BY_PAST];
  return past->call == number ? past : NULL;
}

static void write_domain(struct by_writer *writer, const struct by_domain *domain) {
  uint32_t from = domain->next_call > MOST_CALLS ? domain->next_call - MOST_CALLS : 0, n = 0;
  const struct by_call *running;
  by_write_u32(writer, domain->id);
  by_write_u32(writer, domain->n);
  by_write_u32(writer, domain->processes[0]);
  by_write_u32(writer, domain->next_call);
  for (uint32_t i = from; i < domain->next_call; i++) n += find(domain, i, &running) != NULL;
  for (const struct by_call *pair = domain->pair_calls; pair; pair = pair->ready_next_pair) n++;
  by_write_u32(writer, n);
  for (uint32_t i = from; i < domain->next_call; i++) {
    const struct by_frame *stamp = find(domain, i, &running);
    if (stamp) write_call(writer, stamp, running);
  }
  for (const struct by_call *pair = domain->pair_calls; pair; pair = pair->ready_next_pair)
    write_call(writer, &pair->stamp, pair);
}

void by_engine_describe(const struct by_engine *engine, struct by_writer *writer) {
  uint32_t n = 0;
  for (const struct by_domain *d = engine->domains; d; d = d->next) n++;
  by_write_u32(writer, n);
  for (const struct by_domain *d = engine->domains; d; d = d->next) write_domain(writer, d);
}

void by_engine_differ_text(const struct by_frame *a, const char *a_name, const struct by_frame *b, const char *b_name,
                           char *text, size_t room) {
  char a_call[160], b_call[160] = "something shorter";
  by_call_describe(a, a_call, sizeof a_call);
  if (b) by_call_describe(b, b_call, sizeof b_call);
  snprintf(
      text, room,
      "call %u differs between ranks: %s calls %s, %s calls %s; make the same calls in the same order on all ranks",
      a->call, a_name, a_call, b_name, b_call);
}
