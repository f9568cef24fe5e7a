/* A controller of negotiation: it collects what ranks have submitted, and, at the root, decides what starts. */
#include "controller_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <banyan/collectives.h>

#include "text.h"

enum { OFTEN = 3 /* Starts after which an operation enters the table although no step was marked. */ };

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for negotiating");
}

/* --- making one --- */

static uint32_t *copy_ranks(const uint32_t *ranks, uint32_t n) {
  uint32_t *copy = malloc((n + 1) * sizeof *copy);
  if (copy && n) memcpy(copy, ranks, n * sizeof *copy);
  return copy;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

enum banyan_status by_controller_create(const struct by_controller_config *config, struct by_controller **out) {
  struct by_controller *c = calloc(1, sizeof *c);
  if (!c) return no_memory();
  c->config = *config;
  c->up_children = copy_ranks(config->up_children, config->n_up_children);
  c->down_children = copy_ranks(config->down_children, config->n_down_children);
  c->deadline = UINT64_MAX;
  c->operations.have_words = (config->n_up_children + 63) / 64;
  if (!c->up_children || !c->down_children) {
    by_controller_destroy(c);
    return no_memory();
  }
  qsort(c->up_children, config->n_up_children, sizeof *c->up_children, by_number);
  c->config.up_children = c->up_children;
  c->config.down_children = c->down_children;
  *out = c;
  return BANYAN_OK;
}

enum banyan_status by_controller_create_in(const struct by_controller_config *config,
                                           const struct by_controller_tree *tree, struct by_controller **out) {
  struct by_controller_config alone = *config;
  alone.ranks = tree->ranks;
  alone.up_parent = alone.down_parent = alone.rank;
  alone.n_up_children = alone.n_down_children = 0;
  BY_TRY(by_controller_create(&alone, out));
  if (by_controller_take_place(*out, tree)) return BANYAN_OK;
  by_controller_destroy(*out);
  *out = NULL;
  return no_memory();
}

void by_controller_destroy(struct by_controller *c) {
  if (!c) return;
  for (int i = 0; i < BY_LISTS; i++) by_list_writer_fini(&c->lists[i]);
  by_list_writer_fini(&c->message);
  by_list_writer_fini(&c->part);
  by_questions_fini(c);
  by_tree_fini(&c->next_tree);
  by_controller_drop_kept(c);
  by_operations_fini(&c->operations);
  free(c->table);
  free(c->bits);
  free(c->complete);
  free(c->ready);
  free(c->group);
  free(c->cookies);
  free(c->up_children);
  free(c->down_children);
  free(c);
}

uint32_t by_controller_child(const struct by_controller *c, uint32_t rank) {
  const uint32_t *found = bsearch(&rank, c->up_children, c->config.n_up_children, sizeof *c->up_children, by_number);
  return found ? (uint32_t)(found - c->up_children) : UINT32_MAX;
}

/* --- at the root: what all ranks have submitted waits to start --- */

/* Returns the rank in the order of starts, where larger values start earlier: by priority, then those with a bit, the
 * highest bit first, then the others. */
static uint64_t urgency_of(const struct by_variant *variant) {
  uint64_t priority = (uint32_t)variant->priority ^ 1u << 31;
  return priority << 32 | (variant->bit == BY_NO_NUMBER ? 0 : variant->bit + 1);
}

/* Queues an operation that all ranks have submitted, behind those at least as urgent. Returns false if memory is
 * exhausted. */
static bool make_ready(struct by_controller *c, struct by_variant *variant) {
  uint64_t urgency = urgency_of(variant);
  uint32_t from = 0, to = c->n_ready;
  if (!BY_ARRAY_GROW(&c->ready, &c->room_ready, c->n_ready + 1)) return false;
  while (from < to) { /* Find the position behind equally urgent ones. */
    uint32_t middle = (from + to) / 2;
    if (urgency_of(c->ready[middle]) >= urgency)
      from = middle + 1;
    else
      to = middle;
  }
  memmove(c->ready + from + 1, c->ready + from, (c->n_ready - from) * sizeof *c->ready);
  c->ready[from] = variant;
  c->n_ready++;
  return true;
}

/* --- which ranks have submitted what --- */

/* Queues an operation that all ranks below have at the root, or reports it upward. */
static void complete(struct by_controller *c, struct by_variant *variant) {
  if (by_is_root(c)) {
    if (!make_ready(c, variant)) c->failed = true;
    return;
  }
  struct by_writer *writer = by_list_entry(&c->lists[BY_LIST_WANTED]);
  by_write_u32(writer, variant->witness);
  by_write_subject(writer, variant->named->name, &variant->operation);
}

void by_controller_conflict(struct by_controller *c, struct by_named *named,
                            const struct by_refused_operation *refusal) {
  if (named->conflicts) return;
  named->conflicts = true;
  by_write_refusal(by_list_entry(&c->lists[by_is_root(c) ? BY_LIST_REFUSED : BY_LIST_CONFLICTS]), refusal);
}

/* Returns a rank that has submitted an operation; UINT32_MAX if none is known here. */
static uint32_t find_witness(const struct by_controller *c, const struct by_variant *variant) {
  if (variant->bit == BY_NO_NUMBER) return variant->own || variant->n_have ? variant->witness : UINT32_MAX;
  uint32_t own = c->config.n_up_children;
  const uint64_t *rows = by_bits_of(c, 0, variant->bit / 64);
  for (uint32_t row = 0; row <= own; row++)
    if (by_bit_is_set(&rows[row], variant->bit % 64)) return row < own ? c->up_children[row] : c->config.rank;
  return UINT32_MAX;
}

/* Reports upward or refuses a name under which ranks have submitted different operations. */
static void compare(struct by_controller *c, struct by_named *named) {
  struct by_refused_operation refusal = {.name = named->name};
  uint32_t n = 0;
  for (const struct by_variant *variant = named->variants; variant && n < 2; variant = variant->next) {
    refusal.ranks[n] = find_witness(c, variant);
    refusal.operations[n] = variant->operation;
    n += refusal.ranks[n] != UINT32_MAX;
  }
  if (n == 2) by_controller_conflict(c, named, &refusal);
}

enum banyan_status by_controller_note(struct by_controller *c, struct by_variant *variant, uint32_t row,
                                      uint32_t witness) {
  bool own = row == c->config.n_up_children;
  if (variant->bit != BY_NO_NUMBER) {
    uint64_t *word = by_bits_of(c, row, variant->bit / 64), bit = 1ull << (variant->bit % 64);
    if (*word & bit) return by_fail(BANYAN_ERR_PROTOCOL, "operation \"%s\" is submitted twice", variant->named->name);
    *word |= bit;
    c->dirty = true;
  } else {
    uint64_t *word = &variant->have[row / 64], bit = 1ull << (row % 64);
    if (own ? variant->own : (*word & bit) != 0)
      return by_fail(BANYAN_ERR_PROTOCOL, "operation \"%s\" is submitted twice", variant->named->name);
    if (own) {
      variant->own = true;
    } else {
      *word |= bit;
      variant->n_have++;
    }
    variant->witness = witness;
  }
  if (variant->next || variant->named->variants != variant) compare(c, variant->named);
  if (variant->bit == BY_NO_NUMBER && variant->own && variant->n_have == c->config.n_up_children) {
    by_operations_clear(&c->operations, variant);
    complete(c, variant);
  }
  return BANYAN_OK;
}

/* --- bits --- */

/* Reports the operations whose bits are set in all rows, and clears these bits. */
static void combine(struct by_controller *c) {
  uint32_t rows = c->config.n_up_children + 1, words = (c->n_table + 63) / 64;
  c->dirty = false;
  for (uint32_t w = 0; w < words; w++) {
    uint64_t *bits = by_bits_of(c, 0, w), all = UINT64_MAX;
    for (uint32_t row = 0; row < rows && all; row++) all &= bits[row];
    if (!all) continue;
    for (uint32_t row = 0; row < rows; row++) bits[row] &= ~all;
    c->complete[w] |= all;
    if (!by_is_root(c)) continue;
    for (; all; all &= all - 1) complete(c, c->table[w * 64 + (uint32_t)__builtin_ctzll(all)]);
    c->complete[w] = 0;
  }
}

static bool has_reported_bits(const struct by_controller *c) {
  for (uint32_t w = 0; w < (c->n_table + 63) / 64; w++)
    if (c->complete[w]) return true;
  return false;
}

/* --- at the root: what starts, by priority and as far as the network has room; small operations are fused --- */

/* Returns the bytes that a group counts as. The minimum limits the number of small groups in progress, so that
 * operations are left to be fused. */
static uint64_t charge_of(const struct by_controller *c, uint64_t bytes) {
  return MAX(bytes, c->config.window / 4);
}

void by_controller_charge(struct by_controller *c, uint64_t bytes) {
  c->under_way += charge_of(c, bytes);
}

static bool is_small(const struct by_controller *c, const struct by_variant *variant) {
  return !c->config.fuse_each || by_operation_bytes(&variant->operation) <= c->config.fuse_each;
}

static bool fuses(const struct by_controller *c, const struct by_variant *a, const struct by_variant *b) {
  const struct by_operation *x = &a->operation, *y = &b->operation;
  return is_small(c, a) && is_small(c, b) && x->collective == BANYAN_ALLREDUCE && y->collective == BANYAN_ALLREDUCE &&
         x->dtype == y->dtype && x->op == y->op;
}

/* Inserts an operation into the group in the configured order. */
static void pick(struct by_controller *c, struct by_variant *variant) {
  if (!BY_ARRAY_GROW(&c->group, &c->room_group, c->n_group + 1)) {
    c->failed = true;
    return;
  }
  uint32_t at = c->n_group++;
  for (; at && c->config.before && c->config.before(variant->cookie, c->group[at - 1]->cookie); at--)
    c->group[at] = c->group[at - 1];
  c->group[at] = variant;
  variant->picked = true;
}

static void send_started(struct by_controller *c, struct by_variant *variant) {
  bool by_name = variant->bit == BY_NO_NUMBER;
  if (by_name && variant->id == BY_NO_NUMBER && !by_operations_number(&c->operations, variant, c->next_id++))
    c->failed = true;
  struct by_writer *writer = by_list_entry(&c->part);
  by_write_u8(writer, by_name);
  by_write_u32(writer, by_name ? variant->id : variant->bit);
  if (by_name) by_write_subject(writer, variant->named->name, &variant->operation);
}

/* Starts the operation `first` of those that are ready, with the following ones that can be fused with it and fit. */
static void release_group(struct by_controller *c, uint32_t first) {
  uint64_t bytes = by_operation_bytes(&c->ready[first]->operation), fuse = c->config.fuse;
  c->n_group = 0;
  pick(c, c->ready[first]);
  for (uint32_t i = first + 1; i < c->n_ready && bytes < fuse && !c->failed; i++) {
    struct by_variant *next = c->ready[i];
    uint64_t size = by_operation_bytes(&next->operation);
    if (next->picked || size > fuse - bytes || !fuses(c, c->ready[first], next)) continue;
    pick(c, next);
    bytes += size;
  }
  by_list_writer_clear(&c->part);
  for (uint32_t i = 0; i < c->n_group; i++) send_started(c, c->group[i]);
  by_list_add(&c->lists[BY_LIST_GROUPS], &c->part);
  by_controller_charge(c, bytes);
}

/* Writes the groups that may start now to the lists downward. */
static void release(struct by_controller *c) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < c->n_ready; i++) {
    bool full = c->config.window && c->under_way >= c->config.window;
    if (!c->ready[i]->picked && !full && !c->failed) release_group(c, i);
    if (!c->ready[i]->picked) c->ready[left++] = c->ready[i];
    c->ready[i]->picked = false;
  }
  c->n_ready = left;
}

void by_controller_ended(struct by_controller *c, uint64_t bytes) {
  c->under_way -= MIN(charge_of(c, bytes), c->under_way);
}

/* --- at the root: what comes again enters the table --- */

static int by_id(const void *a, const void *b) {
  const struct by_variant *x = *(struct by_variant *const *)a, *y = *(struct by_variant *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Puts operations that have started repeatedly into the table. */
static void renew(struct by_controller *c) {
  if (!c->renew) return;
  c->renew = false;
  uint32_t n = 0;
  struct by_variant **chosen = calloc(HASH_COUNT(c->operations.ids) + 1, sizeof(struct by_variant *));
  if (!chosen) {
    c->failed = true;
    return;
  }
  /* After the first iteration, all operations enter the table; later, those that started twice. */
  uint32_t enough = !c->stepped ? OFTEN : c->n_table ? 2 : 1;
  for (struct by_variant *variant = c->operations.ids; variant; variant = variant->hh.next)
    if (variant->bit == BY_NO_NUMBER && variant->starts >= enough) chosen[n++] = variant;
  qsort(chosen, n, sizeof *chosen, by_id);
  for (uint32_t i = 0; i < n && c->n_table + i < BY_TABLE_MOST; i++)
    by_write_u32(by_list_entry(&c->lists[BY_LIST_TABLE]), chosen[i]->id);
  free(chosen);
}

/* --- submitting --- */

static enum banyan_status owed_refusal(struct by_named *named) {
  const struct by_refused_operation *refusal = &named->refusal;
  char text[2][BY_OPERATION_TEXT];
  named->owed--;
  return by_fail(BANYAN_ERR_MISMATCH,
                 "operation \"%s\": rank %u has submitted %s, rank %u %s: all ranks must submit the same", named->name,
                 refusal->ranks[0], by_operation_describe(&refusal->operations[0], text[0]), refusal->ranks[1],
                 by_operation_describe(&refusal->operations[1], text[1]));
}

static enum banyan_status explain_name(const char *name) {
  size_t length = strlen(name), fits = by_printable_length(name);
  if (fits == length)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of an operation must have 1 to %d bytes, not %zu", BY_OPERATION_NAME,
                   length);
  return by_fail(
      BANYAN_ERR_ARGUMENT,
      "the name of an operation must be UTF-8 without control characters: byte %zu of it, counted from 0, is "
      "0x%02x",
      fits, (unsigned char)name[fits]);
}

enum banyan_status by_controller_submit(struct by_controller *c, const char *name, const struct by_operation *operation,
                                        int32_t priority, void *cookie, uint64_t now) {
  if (!by_operation_name_fits(name)) return explain_name(name);
  c->now = now;
  struct by_variant *variant = by_operations_get(&c->operations, name, operation);
  if (!variant)
    return by_fail(BANYAN_ERR_NO_MEMORY, "operation \"%s\": no memory, or more than %d operations", name,
                   BY_OPERATIONS_MOST);
  if (variant->named->owed) return owed_refusal(variant->named);
  for (const struct by_variant *other = variant->named->variants; other; other = other->next)
    if (other->submitted)
      return by_fail(BANYAN_ERR_ARGUMENT, "operation \"%s\" is submitted again before it has started", name);
  variant->submitted = true;
  variant->cookie = cookie;
  variant->priority = priority;
  variant->since = now;
  variant->asked = 0;
  if (c->config.timeout && now + c->config.timeout < c->deadline) c->deadline = now + c->config.timeout;
  c->waiting++;
  if (variant->bit == BY_NO_NUMBER)
    c->counters.by_name++;
  else
    c->counters.by_bit++;
  return by_controller_note(c, variant, c->config.n_up_children, c->config.rank);
}

/* --- sending --- */

static bool has_entries(const struct by_controller *c, int first, int end) {
  for (int i = first; i < end; i++)
    if (c->lists[i].n || c->lists[i].out.failed) return true;
  return false;
}

static void begin_message(struct by_controller *c, uint8_t kind, uint64_t place) {
  by_list_writer_clear(&c->message);
  struct by_writer *writer = by_list_entry(&c->message);
  by_write_u8(writer, kind);
  by_write_u64(writer, place);
}

static void add_list(struct by_controller *c, struct by_list_writer *list) {
  by_list_add(&c->message, list);
  by_list_writer_clear(list);
}

static void send(struct by_controller *c, uint32_t to, const void *message, size_t bytes, uint64_t *counter) {
  ++*counter;
  c->counters.bytes += bytes;
  c->config.send(c->config.context, to, message, bytes);
}

/* Adds the complete bits as a list or as words, whichever is shorter. */
static void add_bits(struct by_controller *c) {
  uint32_t last = 0, n = 0;
  for (uint32_t w = 0; w < (c->n_table + 63) / 64; w++)
    if (c->complete[w]) {
      last = w + 1;
      n += (uint32_t)__builtin_popcountll(c->complete[w]);
    }
  uint8_t in_words = n >= 2 * last && n;
  by_write_u8(by_list_entry(&c->message), in_words);
  for (uint32_t w = 0; w < last; w++) {
    uint64_t word = c->complete[w];
    c->complete[w] = 0;
    if (in_words) by_write_u64(by_list_entry(&c->part), word);
    for (; !in_words && word; word &= word - 1)
      by_write_u32(by_list_entry(&c->part), w * 64 + (uint32_t)__builtin_ctzll(word));
  }
  add_list(c, &c->part);
}

static void send_up(struct by_controller *c) {
  if (!has_reported_bits(c) && !has_entries(c, 0, BY_LISTS_DOWN)) return;
  begin_message(c, BY_NEGOTIATION_UP, c->place);
  add_bits(c);
  for (int i = 0; i < BY_LISTS_DOWN; i++) add_list(c, &c->lists[i]);
  if (c->message.out.failed)
    c->failed = true;
  else
    send(c, c->config.up_parent, c->message.out.data, c->message.out.length, &c->counters.messages_up);
}

void by_controller_send_down(struct by_controller *c, const void *message, size_t bytes) {
  for (uint32_t i = 0; i < c->config.n_down_children; i++)
    send(c, c->down_children[i], message, bytes, &c->counters.messages_down);
}

/* Sends a message downward; the root also applies it itself. */
static enum banyan_status send_down(struct by_controller *c) {
  begin_message(c, BY_NEGOTIATION_DOWN, c->place + 1);
  for (int i = BY_LISTS_DOWN; i < BY_LISTS; i++) add_list(c, &c->lists[i]);
  if (c->message.out.failed) {
    c->failed = true;
    return BANYAN_OK;
  }
  by_controller_send_down(c, c->message.out.data, c->message.out.length);
  return by_controller_apply(c, c->message.out.data, c->message.out.length);
}

/* ---- another tree */

/* Reports again what is submitted here and has not started, since the tree has changed. */
static enum banyan_status announce_again(struct by_controller *c) {
  for (struct by_named *named = c->operations.names; named; named = named->hh.next)
    for (struct by_variant *variant = named->variants; variant; variant = variant->next) {
      if (!variant->submitted) continue;
      BY_TRY(by_controller_note(c, variant, c->config.n_up_children, c->config.rank));
      if (variant->given_up) by_controller_stalled(c, named->name, &variant->operation, true);
    }
  return BANYAN_OK;
}

enum banyan_status by_controller_enter(struct by_controller *c, const struct by_controller_tree *tree) {
  by_questions_fini(c);
  c->counters.trees++;
  if (!by_controller_take_place(c, tree)) return no_memory();
  BY_TRY(announce_again(c));
  if (c->config.moved) c->config.moved(c->config.context);
  return BANYAN_OK;
}

/* Changes the tree. The message is sent along the previous tree. */
static enum banyan_status change_tree(struct by_controller *c) {
  while (has_entries(c, BY_LISTS_DOWN, BY_LISTS) && !c->failed) BY_TRY(send_down(c));
  by_tree_write(&c->message, ++c->place, &c->next_tree);
  if (c->failed || c->message.out.failed) return no_memory();
  by_controller_send_down(c, c->message.out.data, c->message.out.length);
  struct by_controller_tree tree = c->next_tree;
  c->next_tree = (struct by_controller_tree){0};
  enum banyan_status status = by_controller_enter(c, &tree);
  by_tree_fini(&tree);
  return status;
}

enum banyan_status by_controller_move(struct by_controller *c, const struct by_controller_tree *tree) {
  if (!by_is_root(c) || tree->number <= c->tree_number || tree->number <= c->next_tree.number) return BANYAN_OK;
  by_tree_fini(&c->next_tree);
  if (by_tree_hash(tree) == c->tree_hash) {
    c->tree_number = tree->number;
    return BANYAN_OK;
  }
  return by_tree_copy(tree, &c->next_tree) ? BANYAN_OK : no_memory();
}

const struct by_controller_config *by_controller_place(const struct by_controller *c) {
  return &c->config;
}

uint32_t by_controller_tree_number(const struct by_controller *c) {
  return c->tree_number;
}

/* Sends the root's messages. Notes precede what starts after them. Repeats, since starts may lead to new submissions.
 */
static enum banyan_status flush_root(struct by_controller *c) {
  if (has_entries(c, BY_LIST_NOTES, BY_LISTS)) BY_TRY(send_down(c));
  if (c->next_tree.up) BY_TRY(change_tree(c));
  for (bool again = true; again && !c->failed && by_is_root(c);) {
    if (c->dirty) combine(c);
    release(c);
    renew(c);
    again = has_entries(c, BY_LISTS_DOWN, BY_LISTS);
    if (again) BY_TRY(send_down(c));
  }
  return BANYAN_OK;
}

enum banyan_status by_controller_flush(struct by_controller *c) {
  if (by_is_root(c)) BY_TRY(flush_root(c));
  if (!by_is_root(c)) { /* Not an else: flush_root may have moved the root elsewhere. */
    if (c->dirty) combine(c);
    send_up(c);
  }
  return c->failed ? no_memory() : BANYAN_OK;
}

/* --- small things --- */

void by_controller_announce(struct by_controller *c, uint32_t note) {
  if (by_is_root(c)) by_write_u32(by_list_entry(&c->lists[BY_LIST_NOTES]), note);
}

void by_controller_step(struct by_controller *c, uint64_t i) {
  if (c->stepped && i != c->iteration) c->renew = true;
  c->stepped = true;
  c->iteration = i;
}

const struct by_controller_counters *by_controller_counters(const struct by_controller *c) {
  return &c->counters;
}
