/* Turns messages into steps. Messages are processed in the order of their levels, sends first. For every piece it is
 * recorded whether this rank has written it and in which step, which gives buffers and dependencies:
 *
 *    a piece that is not written yet is read from SEND, a written one from where it was written, after that step.
 *
 * No write waits for a read, except in an exchange: elsewhere bytes are overwritten only by results, and no result
 * exists before all have used this rank's contribution to it. The checker proves it. */
#include <stdlib.h>

#include "arena.h"
#include "schedule_compile.h"

#define NO_STEP UINT32_MAX
enum { MAX_WRITERS = 16 };

struct builder {
  struct by_compile *compile;
  struct by_schedule *schedule;
  struct by_message **order; /* The messages in the order in which they are sent and consumed. */
  uint32_t *writer;          /* The last step of this rank that wrote each piece, or NO_STEP. */
  uint32_t *left;            /* The number of messages still to be reduced into each piece. */
  bool *leaves;              /* For each piece, whether its sum is sent to another rank, which makes the result. */
  uint32_t *seen;            /* For each step, the last step whose deps contain it. */
  bool helper;               /* The schedule is a helper's, which has no operand of its own and no caller's buffers. */
  uint8_t sums;              /* The buffer for partial sums. */
  uint8_t result;            /* The buffer for results that this rank makes. */
};

/* Orders messages for folding: those that one REDUCE may fold are adjacent. */
static int compare_batches(const void *left, const void *right) {
  const struct by_message *a = *(struct by_message *const *)left, *b = *(struct by_message *const *)right;
  const uint32_t x[] = {a->group, a->fold, a->first, a->last, a->place, a->level, a->peer};
  const uint32_t y[] = {b->group, b->fold, b->first, b->last, b->place, b->level, b->peer};
  return by_compare_keys(x, y, sizeof x / sizeof *x);
}

static int compare_times(const void *left, const void *right) {
  const struct by_message *a = *(struct by_message *const *)left, *b = *(struct by_message *const *)right;
  const uint32_t x[] = {a->fold, !a->out, a->far, a->batch, a->group, a->first, a->place, a->level, a->peer};
  const uint32_t y[] = {b->fold, !b->out, b->far, b->batch, b->group, b->first, b->place, b->level, b->peer};
  return by_compare_keys(x, y, sizeof x / sizeof *x);
}

static bool same_batch(const struct by_message *a, const struct by_message *b) {
  return a->group == b->group && a->fold == b->fold && a->first == b->first && a->last == b->last;
}

/* Numbers batches of messages with the same pieces; in a rotated group they must have the same level, in a tree they
 * may have any, since all are needed before the sum can be sent. A batch is due at the level of its last message. */
static void make_batches(struct builder *b, struct by_message **in, uint32_t n) {
  const struct by_group *groups = b->compile->class_->groups;
  for (uint32_t i = 0; i < n; i++) in[i]->fold = groups[in[i]->group].kind == BY_GROUP_TREE ? 0 : in[i]->level;
  if (n > 1) qsort(in, n, sizeof *in, compare_batches);
  for (uint32_t start = 0, end, batch = 0; start < n; start = end, batch++) {
    uint32_t level = 0;
    for (end = start; end < n && end - start < BY_SCHEDULE_MAX_IN && same_batch(in[start], in[end]); end++)
      if (in[end]->level > level) level = in[end]->level;
    for (uint32_t i = start; i < end; i++) {
      in[i]->batch = batch;
      in[i]->fold = level;
    }
  }
}

/* Sorts the messages. Sends of one level start with different peers on every rank. Among the messages folded at one
 * level the longest comes first: for it no pieces are written, for the shorter ones all are. */
static void sort_messages(struct builder *b) {
  const struct by_schedule *schedule = b->schedule;
  struct by_compile *compile = b->compile;
  uint32_t n = 0, rank = schedule->rank, ranks = compile->plan->n_vertices;
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    struct by_message *m = &compile->messages[i];
    bool folded = m->phase == BY_PHASE_UP && !m->out;
    m->fold = m->level;
    m->batch = 0;
    m->far = folded   ? UINT32_MAX - (m->last - m->first)
             : m->out ? (m->peer + ranks - rank) % ranks
                      : (rank + ranks - m->peer) % ranks;
    if (folded) b->order[n++] = m;
  }
  make_batches(b, b->order, n);
  for (uint32_t i = 0; i < compile->n_messages; i++) b->order[i] = &compile->messages[i];
  if (compile->n_messages > 1) qsort(b->order, compile->n_messages, sizeof(struct by_message *), compare_times);
}

static uint32_t add_step(struct builder *b, enum by_step_kind kind, uint32_t first, uint32_t last, uint32_t level) {
  uint32_t index = b->schedule->n_steps++;
  b->seen[index] = NO_STEP;
  b->compile->steps[index] = (struct by_step){.kind = (uint8_t)kind,
                                              .level = (uint16_t)(level < UINT16_MAX ? level : UINT16_MAX),
                                              .first = first,
                                              .last = last,
                                              .from_first = first,
                                              .dep = b->schedule->n_deps};
  return index;
}

static void add_dep(struct builder *b, uint32_t index, uint32_t on) {
  struct by_compile *compile = b->compile;
  if (on == NO_STEP || b->seen[on] == index) return;
  b->seen[on] = index;
  if (!BY_ARRAY_GROW(&compile->deps, &compile->allocated_deps, b->schedule->n_deps + 1)) {
    compile->failed = true;
    return;
  }
  compile->deps[b->schedule->n_deps++] = on;
  compile->steps[index].n_dep++;
}

static void add_writer_deps(struct builder *b, uint32_t index) {
  const struct by_step *step = &b->compile->steps[index];
  for (uint32_t i = step->first; i < step->last; i++) add_dep(b, index, b->writer[i]);
}

static void set_writer(struct builder *b, uint32_t index) {
  const struct by_step *step = &b->compile->steps[index];
  for (uint32_t i = step->first; i < step->last; i++) b->writer[i] = index;
}

static bool is_unwritten(const struct builder *b, uint32_t piece) {
  return b->writer[piece] == NO_STEP;
}

static bool ends_here(const struct builder *b, uint32_t piece) {
  return !b->left[piece] && !b->leaves[piece];
}

static uint32_t count_pieces(const struct builder *b, uint32_t first, uint32_t last,
                             bool (*which)(const struct builder *, uint32_t)) {
  uint32_t n = 0;
  for (uint32_t i = first; i < last; i++) n += which(b, i);
  return n;
}

/* Adds a COPY for each run of pieces in first .. last that satisfy `which`. */
static void copy_runs(struct builder *b, uint32_t first, uint32_t last, uint32_t level, enum by_buffer from,
                      enum by_buffer to, bool divide, bool (*which)(const struct builder *, uint32_t)) {
  for (uint32_t start = first, end; start < last; start = end) {
    end = start + 1;
    if (!which(b, start)) continue;
    while (end < last && which(b, end)) end++;
    uint32_t index = add_step(b, BY_STEP_COPY, start, end, level);
    struct by_step *step = &b->compile->steps[index];
    step->from = (uint8_t)from;
    step->to = (uint8_t)to;
    step->divide = divide;
    add_writer_deps(b, index);
    set_writer(b, index);
  }
}

/* Returns the buffer with this rank's part of these pieces. If parts are in both buffers, the missing ones are copied.
 */
static enum by_buffer merge_buffers(struct builder *b, uint32_t first, uint32_t last, uint32_t level) {
  uint32_t n = count_pieces(b, first, last, is_unwritten);
  if (n == last - first) return BY_BUFFER_SEND;
  if (n) copy_runs(b, first, last, level, BY_BUFFER_SEND, b->sums, false, is_unwritten);
  return b->sums;
}

/* Returns the buffer from which results are sent. A rank's own block need not be copied before it is sent. */
static enum by_buffer choose_result_buffer(const struct builder *b, const struct by_message *message) {
  const struct by_schedule *schedule = b->schedule;
  if (b->helper) return (enum by_buffer)b->result;
  if (by_collective(schedule->collective)->direct) return BY_BUFFER_SEND;
  if (schedule->collective != BANYAN_ALLGATHER) return BY_BUFFER_RECV;
  const uint32_t *own = &schedule->block[schedule->rank];
  bool inside = message->first >= own[0] && message->last <= own[1];
  return inside ? BY_BUFFER_SEND : BY_BUFFER_RECV;
}

/* Joins pieces from many steps with one step, a copy onto itself that moves nothing but has a position. Otherwise the
 * centre of a star, which sends n pieces to n ranks, would have n squared dependencies. */
static void join_pieces(struct builder *b, uint32_t first, uint32_t last, uint32_t level, enum by_buffer buffer) {
  uint32_t changes = 1;
  for (uint32_t i = first + 1; i < last; i++) changes += b->writer[i] != b->writer[i - 1];
  if (changes <= MAX_WRITERS) return;
  uint32_t index = add_step(b, BY_STEP_COPY, first, last, level);
  b->compile->steps[index].from = b->compile->steps[index].to = (uint8_t)buffer;
  add_writer_deps(b, index);
  set_writer(b, index);
}

static void add_send(struct builder *b, const struct by_message *message) {
  bool up = message->phase == BY_PHASE_UP;
  enum by_buffer from =
      up ? merge_buffers(b, message->first, message->last, message->level) : choose_result_buffer(b, message);
  if (from != BY_BUFFER_SEND) join_pieces(b, message->first, message->last, message->level, from);
  uint32_t index = add_step(b, BY_STEP_SEND, message->first, message->last, message->level);
  struct by_step *step = &b->compile->steps[index];
  step->from = step->to = (uint8_t)from;
  step->peer = message->peer_index;
  step->tag = message->tag;
  step->copied = message->exchange;
  if (from != BY_BUFFER_SEND) add_writer_deps(b, index);
}

static void add_incoming(struct builder *b, struct by_message *message, uint32_t index) {
  uint32_t at = message->incoming = b->schedule->n_incoming++;
  struct by_step *step = &b->compile->steps[index];
  if (!step->n_in++) step->in = at;
  b->schedule->incoming[at] = (struct by_incoming){
      .peer = message->peer_index, .tag = message->tag, .step = index, .first = message->first, .last = message->last};
}

static void add_receive(struct builder *b, struct by_message *message) {
  uint32_t index = add_step(b, BY_STEP_RECEIVE, message->first, message->last, message->level);
  b->compile->steps[index].from = b->compile->steps[index].to = b->result;
  add_incoming(b, message, index);
  set_writer(b, index);
}

/* Makes an exchange wait for its sends, since it overwrites what it has just sent. These sends do not wait for their
 * receivers. */
static void add_send_deps(struct builder *b, uint32_t index) {
  const struct by_step *step = &b->compile->steps[index];
  for (uint32_t i = index; i-- > 0 && b->compile->steps[i].level == step->level;) {
    const struct by_step *before = &b->compile->steps[i];
    if (before->kind == BY_STEP_SEND && before->copied && before->first == step->first) add_dep(b, index, i);
  }
}

/* Returns the index of the own operand: the first, or in an exchange the own digit, so that all members add in the same
 * order. */
static uint16_t get_own_index(struct by_message *const *batch, uint32_t n) {
  uint32_t own = 0;
  while (batch[0]->exchange && own < n && batch[own]->place == own) own++;
  return (uint16_t)own;
}

static void add_fold(struct builder *b, struct by_message **batch, uint32_t n) {
  uint32_t first = batch[0]->first, last = batch[0]->last, level = batch[0]->fold;
  bool begins = b->helper && is_unwritten(b, first); /* A helper's message is one piece. */
  enum by_buffer from = begins ? BY_BUFFER_TMP : merge_buffers(b, first, last, level);
  uint32_t index = add_step(b, BY_STEP_REDUCE, first, last, level);
  for (uint32_t i = 0; i < n; i++) add_incoming(b, batch[i], index);
  for (uint32_t i = first; i < last; i++) b->left[i] -= n;
  uint32_t n_ending = count_pieces(b, first, last, ends_here);
  bool all = n_ending == last - first;
  struct by_step *step = &b->compile->steps[index];
  step->from = (uint8_t)from;
  step->to = all ? b->result : b->sums;
  step->own = begins ? BY_NO_OWN : get_own_index(batch, n);
  step->divide = all;
  if (begins && n == 1 && !all) step->kind = BY_STEP_RECEIVE; /* The helper only forwards. */
  if (step->kind == BY_STEP_RECEIVE) step->own = 0;
  add_writer_deps(b, index);
  if (batch[0]->exchange) add_send_deps(b, index);
  set_writer(b, index);
  if (n_ending && !all) copy_runs(b, first, last, level, b->sums, b->result, true, ends_here);
}

static void count_folds(struct builder *b) {
  for (uint32_t i = 0; i < b->schedule->n_pieces; i++) b->writer[i] = NO_STEP;
  for (uint32_t i = 0; i < b->compile->n_messages; i++) {
    const struct by_message *m = &b->compile->messages[i];
    if (m->phase == BY_PHASE_DOWN) continue;
    for (uint32_t piece = m->first; piece < m->last; piece++) {
      if (!m->out) b->left[piece]++;
      if (m->out && !m->exchange) b->leaves[piece] = true;
    }
  }
}

/* Copies the own blocks that are not sent over the network. */
static void copy_own_block(struct builder *b) {
  const struct by_schedule *schedule = b->schedule;
  enum banyan_collective collective = schedule->collective;
  bool at_root = schedule->rank == schedule->root && by_collective(collective)->direct;
  if (b->helper || (collective != BANYAN_ALLGATHER && collective != BANYAN_ALLTOALL && !at_root)) return;
  const uint32_t *own = &schedule->block[schedule->rank];
  copy_runs(b, own[0], own[1], 0, BY_BUFFER_SEND, BY_BUFFER_RECV, false, is_unwritten);
}

static void build_steps(struct builder *b) {
  uint32_t n = b->compile->n_messages;
  sort_messages(b);
  count_folds(b);
  copy_own_block(b);
  for (uint32_t i = 0, end; i < n; i = end) {
    struct by_message *message = b->order[i];
    end = i + 1;
    if (message->out)
      add_send(b, message);
    else if (message->phase == BY_PHASE_DOWN)
      add_receive(b, message);
    else {
      while (end < n && !b->order[end]->out && b->order[end]->phase == BY_PHASE_UP &&
             b->order[end]->batch == message->batch)
        end++;
      add_fold(b, &b->order[i], end - i);
    }
  }
  if (by_collective(b->schedule->collective)->up && b->schedule->n_ranks == 1 && !b->helper)
    copy_runs(b, 0, b->schedule->n_pieces, 0, BY_BUFFER_SEND, b->result, false, is_unwritten);
}

enum banyan_status by_steps_build(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  struct by_arena *work = &compile->work;
  uint32_t pieces = schedule->n_pieces, messages = compile->n_messages;
  size_t max_steps = 2 * ((size_t)messages + pieces); /* A piece is copied at most twice, a message joined once. */
  bool helper = schedule->rank >= schedule->n_ranks;
  bool into_recv = !helper && (by_collective_is_everywhere(schedule->collective) ||
                               (schedule->collective == BANYAN_REDUCE && schedule->rank == schedule->root));
  struct builder b = {.compile = compile,
                      .schedule = schedule,
                      .helper = helper,
                      .sums = into_recv ? BY_BUFFER_RECV : BY_BUFFER_TMP,
                      .result = helper ? BY_BUFFER_TMP : BY_BUFFER_RECV,
                      .order = BY_ARENA_ARRAY(work, struct by_message *, messages),
                      .writer = BY_ARENA_ARRAY(work, uint32_t, pieces),
                      .left = BY_ARENA_ARRAY(work, uint32_t, pieces),
                      .leaves = BY_ARENA_ARRAY(work, bool, pieces),
                      .seen = BY_ARENA_ARRAY(work, uint32_t, max_steps)};
  compile->steps = BY_ARENA_ARRAY(work, struct by_step, max_steps);
  uint32_t n_incoming = schedule->n_incoming;
  schedule->incoming = BY_ARENA_ARRAY(&schedule->arena, struct by_incoming, n_incoming);
  if (work->failed || !schedule->incoming) return by_schedule_no_memory();
  schedule->n_incoming = 0;
  build_steps(&b);
  return compile->failed ? by_schedule_no_memory() : BANYAN_OK;
}
