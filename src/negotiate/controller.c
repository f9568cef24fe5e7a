#include "controller_parts.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

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
  by_operations_init(&c->operations, config->n_up_children);
  if (!c->up_children || !c->down_children) {
    by_controller_destroy(c);
    return no_memory();
  }
  qsort(c->up_children, config->n_up_children, sizeof *c->up_children, by_number);
  *out = c;
  return BANYAN_OK;
}

void by_controller_destroy(struct by_controller *c) {
  if (!c) return;
  struct by_list_writer *list_writers[] = {&c->up.wanted,   &c->up.conflicts, &c->up.stalled,   &c->up.lacking,
                                           &c->down.groups, &c->down.table,   &c->down.refused, &c->down.asked,
                                           &c->down.notes,  &c->message,      &c->told};
  for (size_t i = 0; i < sizeof list_writers / sizeof *list_writers; i++) by_list_writer_fini(list_writers[i]);
  by_questions_fini(c);
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

/* --- which ranks have submitted what --- */

static void send_by_name(struct by_controller *c, struct by_variant *variant) {
  by_operations_clear(&c->operations, variant);
  by_controller_complete(c, variant);
}

enum banyan_status by_controller_note(struct by_controller *c, struct by_variant *variant, uint32_t row,
                                      uint32_t witness) {
  bool own = row == c->config.n_up_children;
  if (variant->bit != BY_NO_NUMBER) {
    uint64_t *word = &by_bits_of(c, row)[variant->bit / 64], bit = 1ull << (variant->bit % 64);
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
  if (variant->named->variants->next) by_controller_compare(c, variant->named);
  if (variant->bit == BY_NO_NUMBER && variant->own && variant->n_have == c->config.n_up_children)
    send_by_name(c, variant);
  return BANYAN_OK;
}

void by_controller_unnote(struct by_controller *c, struct by_variant *variant) {
  by_operations_clear(&c->operations, variant);
  if (variant->bit == BY_NO_NUMBER) return;
  for (uint32_t row = 0; row <= c->config.n_up_children; row++)
    by_bits_of(c, row)[variant->bit / 64] &= ~(1ull << (variant->bit % 64));
}

/* A rank that has submitted it; UINT32_MAX: none has, as far as is known here. */
static uint32_t find_witness(const struct by_controller *c, const struct by_variant *variant) {
  if (variant->bit == BY_NO_NUMBER) return variant->own || variant->n_have ? variant->witness : UINT32_MAX;
  for (uint32_t row = 0; row < c->config.n_up_children; row++)
    if (by_bit_is_set(by_bits_of(c, row), variant->bit)) return c->up_children[row];
  return by_bit_is_set(by_bits_of(c, c->config.n_up_children), variant->bit) ? c->config.rank : UINT32_MAX;
}

void by_controller_compare(struct by_controller *c, struct by_named *named) {
  struct by_refusal refusal = {.name = named->name};
  uint32_t n = 0;
  for (const struct by_variant *variant = named->variants; variant && n < 2; variant = variant->next) {
    refusal.ranks[n] = find_witness(c, variant);
    refusal.operations[n] = variant->operation;
    n += refusal.ranks[n] != UINT32_MAX;
  }
  if (n == 2) by_controller_conflict(c, named, &refusal);
}

void by_controller_conflict(struct by_controller *c, struct by_named *named, const struct by_refusal *refusal) {
  if (named->conflicts) return;
  named->conflicts = true;
  by_list_writer_refusal(by_is_root(c) ? &c->down.refused : &c->up.conflicts, refusal);
}

/* --- bits --- */

/* Operations that all have are reported, and removed from all rows. */
static void combine(struct by_controller *c) {
  uint32_t rows = c->config.n_up_children + 1, words = (c->n_table + 63) / 64;
  c->dirty = false;
  for (uint32_t w = 0; w < words; w++) {
    uint64_t all = c->bits[w];
    for (uint32_t row = 1; row < rows && all; row++) all &= by_bits_of(c, row)[w];
    if (!all) continue;
    for (uint32_t row = 0; row < rows; row++) by_bits_of(c, row)[w] &= ~all;
    c->complete[w] |= all;
    if (!by_is_root(c)) continue;
    for (; all; all &= all - 1) by_controller_complete(c, c->table[w * 64 + (uint32_t)__builtin_ctzll(all)]);
    c->complete[w] = 0;
  }
}

static bool has_reported_bits(const struct by_controller *c) {
  for (uint32_t w = 0; w < (c->n_table + 63) / 64; w++)
    if (c->complete[w]) return true;
  return false;
}

void by_controller_complete(struct by_controller *c, struct by_variant *variant) {
  if (!by_is_root(c))
    by_list_writer_wanted(&c->up.wanted, variant->witness, variant->named->name, &variant->operation);
  else if (!by_controller_make_ready(c, variant))
    c->failed = true;
}

/* --- submitting --- */

static enum banyan_status owed_refusal(struct by_named *named) {
  const struct by_refusal *refusal = &named->refusal;
  char text[2][BY_OPERATION_TEXT];
  named->owed--;
  return by_fail(BANYAN_ERR_MISMATCH,
                 "operation \"%s\": rank %u has submitted %s, rank %u %s: all ranks must submit the same", named->name,
                 refusal->ranks[0], by_operation_describe(&refusal->operations[0], text[0]), refusal->ranks[1],
                 by_operation_describe(&refusal->operations[1], text[1]));
}

static bool waits_here(const struct by_named *named) {
  for (const struct by_variant *variant = named->variants; variant; variant = variant->next)
    if (variant->submitted) return true;
  return false;
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
  if (waits_here(variant->named))
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

static bool is_empty(const struct by_list_writer *list_writer) {
  return list_writer->n == 0 && !list_writer->failed;
}

static void begin_message(struct by_controller *c, uint8_t kind, uint64_t place) {
  uint8_t head[9] = {kind};
  by_put_u64(head + 1, place);
  by_list_writer_clear(&c->message);
  by_list_writer_bytes(&c->message, head, sizeof head);
}

static void add_list(struct by_controller *c, struct by_list_writer *list) {
  by_list_writer_list(&c->message, list);
  by_list_writer_clear(list);
}

static void send(struct by_controller *c, uint32_t to, const void *message, size_t bytes, uint64_t *counter) {
  ++*counter;
  c->counters.bytes += bytes;
  c->config.send(c->config.context, to, message, bytes);
}

/* As a list or as words, whichever is shorter. */
static void add_bits(struct by_controller *c) {
  uint32_t last = 0, n = 0;
  for (uint32_t w = 0; w < (c->n_table + 63) / 64; w++)
    if (c->complete[w]) {
      last = w + 1;
      n += (uint32_t)__builtin_popcountll(c->complete[w]);
    }
  uint8_t in_words = n >= 2 * last && n;
  by_list_writer_bytes(&c->message, &in_words, 1);
  for (uint32_t w = 0; w < last; w++) {
    uint64_t word = c->complete[w];
    c->complete[w] = 0;
    if (in_words) by_list_writer_word(&c->told, word);
    for (; !in_words && word; word &= word - 1)
      by_list_writer_number(&c->told, w * 64 + (uint32_t)__builtin_ctzll(word));
  }
  add_list(c, &c->told);
}

static void send_up(struct by_controller *c) {
  if (!has_reported_bits(c) && is_empty(&c->up.wanted) && is_empty(&c->up.conflicts) && is_empty(&c->up.stalled) &&
      is_empty(&c->up.lacking))
    return;
  begin_message(c, BY_NEGOTIATION_UP, c->place);
  add_bits(c);
  add_list(c, &c->up.wanted);
  add_list(c, &c->up.conflicts);
  add_list(c, &c->up.stalled);
  add_list(c, &c->up.lacking);
  if (c->message.failed)
    c->failed = true;
  else
    send(c, c->config.up_parent, c->message.data, c->message.length, &c->counters.messages_up);
}

void by_controller_send_down(struct by_controller *c, const void *message, size_t bytes) {
  for (uint32_t i = 0; i < c->config.n_down_children; i++)
    send(c, c->down_children[i], message, bytes, &c->counters.messages_down);
}

/* The root handles its own message as well. */
static enum banyan_status send_down(struct by_controller *c) {
  begin_message(c, BY_NEGOTIATION_DOWN, c->place + 1);
  add_list(c, &c->down.groups);
  add_list(c, &c->down.table);
  add_list(c, &c->down.refused);
  add_list(c, &c->down.asked);
  add_list(c, &c->down.notes);
  if (c->message.failed) {
    c->failed = true;
    return BANYAN_OK;
  }
  by_controller_send_down(c, c->message.data, c->message.length);
  return by_controller_apply(c, c->message.data, c->message.length);
}

static bool has_to_send(const struct by_controller *c) {
  return !is_empty(&c->down.groups) || !is_empty(&c->down.table) || !is_empty(&c->down.refused) ||
         !is_empty(&c->down.asked) || !is_empty(&c->down.notes);
}

/* A note stands before what starts after it was made. What starts may bring new submissions. */
static enum banyan_status flush_root(struct by_controller *c) {
  if (!is_empty(&c->down.notes)) BY_TRY(send_down(c));
  for (bool again = true; again && !c->failed;) {
    if (c->dirty) combine(c);
    by_controller_release(c);
    by_controller_renew(c);
    again = has_to_send(c);
    if (again) BY_TRY(send_down(c));
  }
  return BANYAN_OK;
}

enum banyan_status by_controller_flush(struct by_controller *c) {
  if (by_is_root(c)) {
    BY_TRY(flush_root(c));
  } else {
    if (c->dirty) combine(c);
    send_up(c);
  }
  return c->failed ? no_memory() : BANYAN_OK;
}

/* --- small things --- */

void by_controller_announce(struct by_controller *c, uint32_t note) {
  if (by_is_root(c)) by_list_writer_number(&c->down.notes, note);
}

void by_controller_step(struct by_controller *c, uint64_t i) {
  if (c->stepped && i != c->iteration) c->renew = true;
  c->stepped = true;
  c->iteration = i;
}

uint32_t by_controller_waiting(const struct by_controller *c) {
  return c->waiting;
}

uint32_t by_controller_table(const struct by_controller *c) {
  return c->n_table;
}

uint32_t by_controller_known(const struct by_controller *c) {
  return c->operations.n;
}

const struct by_controller_counters *by_controller_counters(const struct by_controller *c) {
  return &c->counters;
}
