/* Describes the calls of this rank as bytes, for rank 0 to compare when no call ends. */
#include "engine_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 64 };

static bool is_unused(const struct by_in *in) {
  return in->consumed < in->length;
}

/* Visits the processes for which a call or one of its parts waits. */
static void visit_awaited(const struct by_call *call, void (*visit)(void *context, uint32_t process), void *context) {
  const struct by_call *part = call;
  for (uint32_t k = 0; part; part = by_recoverable_part(call, k++))
    for (uint32_t p = 0; p < part->schedule->n_peers; p++) {
      const struct by_transfer_link *link = part->program->links[p];
      if (by_call_awaits(part, link, is_unused)) visit(context, link->process);
    }
}

void by_engine_visit_awaited(const struct by_engine *engine, void (*visit)(void *context, uint32_t process),
                             void *context) {
  const struct by_call *call = LIST_FIRST(&engine->recovery.runner.running);
  for (; call; call = LIST_NEXT(call, next)) visit_awaited(call, visit, context);
}

static void count_one(void *context, uint32_t process) {
  uint32_t *n = context;
  (void)process;
  (*n)++;
}

static void write_one(void *context, uint32_t process) {
  by_write_u32(context, process);
}

/* Writes a call; `running` NULL: it has ended. */
static void write_call(struct by_writer *writer, const struct by_frame *descriptor, const struct by_call *running) {
  by_write_u32(writer, descriptor->call);
  by_write_u8(writer, running ? running->exchange.pair ? BY_DESCRIBED_PAIR : BY_DESCRIBED_RUNNING : BY_DESCRIBED_ENDED);
  by_write_u8(writer, descriptor->collective);
  by_write_u8(writer, descriptor->dtype_op);
  by_write_u32(writer, descriptor->root);
  by_write_u64(writer, descriptor->count);
  by_write_u32(writer, descriptor->plan);
  uint32_t n = 0;
  if (running) visit_awaited(running, count_one, &n);
  by_write_u32(writer, n);
  if (running) visit_awaited(running, write_one, writer);
}

/* The descriptor of a call that is running or among the last that ended; *running is NULL for the latter. */
static const struct by_frame *find_descriptor(const struct by_team *team, uint32_t number,
                                              const struct by_call **running) {
  *running = team->window[number & (team->window_size - 1)];
  if (*running && (*running)->exchange.descriptor.call == number) return &(*running)->exchange.descriptor;
  *running = NULL;
  const struct by_frame *past = &team->past[number % BY_PAST];
  return past->call == number ? past : NULL;
}

static void write_team(struct by_writer *writer, const struct by_team *team) {
  uint32_t from = team->next_call > MAX_CALLS ? team->next_call - MAX_CALLS : 0, n = 0;
  const struct by_call *running;
  by_write_u32(writer, team->id);
  by_write_u32(writer, team->n);
  by_write_u32(writer, team->vertices.processes[0]);
  by_write_u32(writer, team->next_call);
  by_write_u32(writer, team->plan ? team->plan->version : 0);
  by_write_string(writer, team->plan ? team->plan->name : "");
  for (uint32_t i = from; i < team->next_call; i++) n += find_descriptor(team, i, &running) != NULL;
  for (const struct by_call *pair = LIST_FIRST(&team->pair_calls); pair; pair = LIST_NEXT(pair, listed)) n++;
  by_write_u32(writer, n);
  for (uint32_t i = from; i < team->next_call; i++) {
    const struct by_frame *descriptor = find_descriptor(team, i, &running);
    if (descriptor) write_call(writer, descriptor, running);
  }
  for (const struct by_call *pair = LIST_FIRST(&team->pair_calls); pair; pair = LIST_NEXT(pair, listed))
    write_call(writer, &pair->exchange.descriptor, pair);
}

void by_engine_describe(const struct by_engine *engine, struct by_writer *writer) {
  uint32_t n = 0;
  for (const struct by_team *d = engine->recovery.runner.teams; d; d = d->next) n++;
  by_write_u32(writer, n);
  for (const struct by_team *d = engine->recovery.runner.teams; d; d = d->next) write_team(writer, d);
}

const char *by_engine_call_text(const struct by_frame *descriptor, char *text, size_t capacity) {
  char call[160];
  snprintf(text, capacity, "call %u, %s", descriptor->call, by_call_describe(descriptor, call, sizeof call));
  return text;
}

static bool differ_by_plan(const struct by_frame *a, const struct by_frame *b) {
  return a->plan != b->plan && a->collective == b->collective && a->dtype_op == b->dtype_op && a->root == b->root &&
         a->count == b->count;
}

static void print_plan(const struct by_differing *one, char *text, size_t capacity) {
  if (one->plan)
    snprintf(text, capacity, "plan '%.64s' (version %08x)", one->plan, one->descriptor->plan);
  else
    snprintf(text, capacity, "another plan (version %08x)", one->descriptor->plan);
}

static void print_plans(const struct by_differing *a, const struct by_differing *b, char *text, size_t capacity) {
  char call[160], plans[2][128];
  by_call_describe(a->descriptor, call, sizeof call);
  call[strcspn(call, ")") + 1] = '\0'; /* Cut the plan's version off. */
  print_plan(a, plans[0], sizeof plans[0]);
  print_plan(b, plans[1], sizeof plans[1]);
  snprintf(text, capacity,
           "plans differ between ranks in call %u, %s: %s uses %s, %s uses %s; give all ranks the same plan, and set "
           "plans between the same two calls",
           a->descriptor->call, call, a->rank, plans[0], b->rank, plans[1]);
}

/* Prints what differs in two calls that by_call_describe prints alike, by number as in the frame. */
static void print_hidden(const struct by_frame *a, const struct by_frame *b, char *text, size_t capacity) {
  const struct {
    const char *name;
    uint64_t a, b;
  } fields[] = {{"collective", a->collective, b->collective},
                {"dtype", a->dtype_op >> 4, b->dtype_op >> 4},
                {"operation", a->dtype_op & 15, b->dtype_op & 15},
                {"root", a->root, b->root},
                {"count", a->count, b->count},
                {"plan", a->plan, b->plan}};
  size_t used = (size_t)snprintf(text, capacity, "the same");
  for (size_t i = 0; i < sizeof fields / sizeof *fields && used < capacity; i++)
    if (fields[i].a != fields[i].b)
      used += (size_t)snprintf(text + used, capacity - used, ", but with %s number %llu in place of %llu",
                               fields[i].name, (unsigned long long)fields[i].b, (unsigned long long)fields[i].a);
  if (used == strlen("the same"))
    snprintf(text, capacity, "the same, but divided into other messages: are all ranks using the same version?");
}

void by_engine_differ_text(const struct by_differing *a, const struct by_differing *b, char *text, size_t capacity) {
  char a_call[160], b_call[400] = "something shorter";
  const struct by_frame *other = b->descriptor;
  if (other && differ_by_plan(a->descriptor, other)) {
    print_plans(a, b, text, capacity);
    return;
  }
  by_call_describe(a->descriptor, a_call, sizeof a_call);
  if (other) {
    by_call_describe(other, b_call, sizeof b_call);
    if (!strcmp(a_call, b_call)) print_hidden(a->descriptor, other, b_call, sizeof b_call);
  }
  snprintf(
      text, capacity,
      "call %u differs between ranks: %s calls %s, %s calls %s; make the same calls in the same order on all ranks",
      a->descriptor->call, a->rank, a_call, b->rank, b_call);
}
