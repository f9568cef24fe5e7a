/* Messages that arrive: first all of a message is checked, then it is applied. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "arena.h"
#include "controller_parts.h"

enum { GENERATION = 4096 /* Starts by name in a generation, after which unused names are forgotten. */ };

static enum banyan_status malformed(struct by_controller *c, uint32_t from, const char *what) {
  c->counters.malformed++;
  return by_fail(BANYAN_ERR_PROTOCOL, "negotiation: rank %u has received a message from rank %u %s", c->config.rank,
                 from, what);
}

static bool is_stale(const struct by_named *named, uint64_t seen) {
  return seen < named->refused_at;
}

static void read_refusal(const struct by_controller *c, struct by_reader *reader, struct by_subject *subject,
                         struct by_refused_operation *out) {
  by_read_refusal(reader, subject, out);
  if (out->ranks[0] >= c->config.ranks || out->ranks[1] >= c->config.ranks) reader->failed = true;
}

/* ---- upward */

static void take_bit(struct by_controller *c, uint32_t child, uint32_t bit) {
  struct by_variant *variant = c->table[bit];
  if (c->reading < c->refusal && is_stale(variant->named, c->reading)) return;
  if (by_controller_note(c, variant, child, c->up_children[child]) != BANYAN_OK) c->twice = true;
}

/* Reads bits in either form, and applies them if `apply`. */
static void read_bits(struct by_controller *c, uint32_t child, struct by_reader *reader, bool apply) {
  uint8_t in_words = by_read_u8(reader);
  uint32_t n = by_read_count(reader, in_words ? 8 : 4);
  if (in_words > 1) reader->failed = true;
  for (uint32_t i = 0; i < n && !reader->failed; i++) {
    uint64_t word = in_words ? by_read_u64(reader) : 1;
    uint32_t first = in_words ? i * 64 : by_read_u32(reader);
    for (; word; word &= word - 1) {
      uint32_t bit = first + (uint32_t)__builtin_ctzll(word);
      if (bit >= c->n_table)
        reader->failed = true;
      else if (apply)
        take_bit(c, child, bit);
    }
  }
}

/* Reads a message upward behind its head. It is called without `apply` first, to check everything except whether
 * something is submitted twice. */
static void read_up(struct by_controller *c, uint32_t child, struct by_reader *reader, bool apply) {
  struct by_subject subject;
  struct by_refused_operation refusal;
  struct by_stall lacking;
  read_bits(c, child, reader, apply);
  for (uint32_t n = by_read_count(reader, 8); n && !reader->failed; n--) {
    uint32_t rank = by_read_u32(reader);
    if (rank >= c->config.ranks) reader->failed = true;
    by_read_subject(reader, &subject);
    struct by_variant *variant = apply ? by_operations_get(&c->operations, subject.name, &subject.operation) : NULL;
    c->failed |= apply && !variant;
    if (variant && !is_stale(variant->named, c->reading) && by_controller_note(c, variant, child, rank) != BANYAN_OK)
      c->twice = true;
  }
  for (uint32_t n = by_read_count(reader, 8); n && !reader->failed; n--) {
    read_refusal(c, reader, &subject, &refusal);
    struct by_variant *variant = apply ? by_operations_get(&c->operations, refusal.name, refusal.operations) : NULL;
    c->failed |= apply && !variant;
    if (variant && !is_stale(variant->named, c->reading)) by_controller_conflict(c, variant->named, &refusal);
  }
  for (uint32_t n = by_read_count(reader, 9); n && !reader->failed; n--) {
    uint8_t late = by_read_u8(reader);
    if (late > 1) reader->failed = true;
    by_read_subject(reader, &subject);
    if (apply) by_controller_stalled(c, subject.name, &subject.operation, late);
  }
  for (uint32_t n = by_read_count(reader, 8); n && !reader->failed; n--) {
    by_read_stall(reader, &subject, &lacking);
    if (lacking.top >= c->config.ranks) reader->failed = true;
    if (apply) by_controller_answer(c, child, &lacking);
  }
}

/* Handles a message of a child, which cannot have read more of the log than this controller. */
static enum banyan_status from_child(struct by_controller *c, uint32_t child, const void *message, size_t bytes) {
  struct by_reader reader;
  by_reader_init(&reader, message, bytes);
  (void)by_read_u8(&reader);
  c->reading = by_read_u64(&reader);
  struct by_reader checked = reader;
  read_up(c, child, &reader, false);
  if (c->reading > c->place || by_reader_check(&reader, "message") != BANYAN_OK)
    return malformed(c, c->up_children[child], "that is malformed");
  c->twice = false;
  read_up(c, child, &checked, true);
  if (c->failed && c->operations.n >= BY_OPERATIONS_MOST)
    return by_fail(BANYAN_ERR_NO_MEMORY,
                   "rank %u, or one below it in the control tree, has submitted more names of "
                   "operations than the %d that are kept",
                   c->up_children[child], BY_OPERATIONS_MOST);
  return c->twice ? malformed(c, c->up_children[child], "that submits something twice") : BANYAN_OK;
}

/* ---- downward */

/* Reads which operation starts; NULL if it is unknown. *id becomes the number that the root gave it with this start. */
static struct by_variant *read_started(struct by_controller *c, struct by_reader *reader, uint32_t *id) {
  struct by_subject subject;
  bool by_name = by_read_u8(reader) != 0;
  uint32_t number = by_read_u32(reader);
  *id = BY_NO_NUMBER;
  if (!by_name) return number < c->n_table ? c->table[number] : NULL;
  *id = number;
  by_read_subject(reader, &subject);
  return reader->failed ? NULL : by_operations_find(&c->operations, subject.name, &subject.operation);
}

bool by_controller_has_reported(const struct by_controller *c, const struct by_variant *variant) {
  return variant->bit == BY_NO_NUMBER
             ? !variant->own
             : !by_bit_is_set(by_bits_of(c, c->config.n_up_children, variant->bit / 64), variant->bit % 64);
}

static void check_groups(struct by_controller *c, struct by_reader *reader) {
  uint32_t id;
  for (uint32_t n = by_read_count(reader, 9); n && !reader->failed; n--)
    for (uint32_t k = by_read_count(reader, 5); k && !reader->failed; k--) {
      const struct by_variant *variant = read_started(c, reader, &id);
      if (!variant || !variant->submitted || !by_controller_has_reported(c, variant)) reader->failed = true;
    }
}

/* Checks a message downward. Sets *refuses if it contains refusals. */
static bool check_down(struct by_controller *c, const void *message, size_t bytes, bool *refuses) {
  struct by_reader reader;
  struct by_subject subject;
  struct by_refused_operation refusal;
  by_reader_init(&reader, message, bytes);
  if (by_read_u8(&reader) != BY_NEGOTIATION_DOWN || by_read_u64(&reader) != c->place + 1) return false;
  check_groups(c, &reader);
  uint32_t n_table = by_read_count(&reader, 4);
  if (n_table > BY_TABLE_MOST - c->n_table) reader.failed = true;
  (void)by_read_bytes(&reader, 4 * (size_t)n_table);
  uint32_t n_refused = by_read_count(&reader, 8);
  *refuses = n_refused > 0;
  for (; n_refused && !reader.failed; n_refused--) read_refusal(c, &reader, &subject, &refusal);
  for (uint32_t n = by_read_count(&reader, 8); n && !reader.failed; n--) by_read_subject(&reader, &subject);
  (void)by_read_bytes(&reader, 4 * (size_t)by_read_count(&reader, 4));
  return by_reader_check(&reader, "message") == BANYAN_OK;
}

static bool start_one(struct by_controller *c, struct by_variant *variant, uint32_t id) {
  if (id != BY_NO_NUMBER) {
    c->named_starts++;
    c->next_id = MAX(c->next_id, id + 1); /* Another rank may become the root later. */
    if (!by_operations_number(&c->operations, variant, id)) return false;
  }
  variant->submitted = variant->late = variant->given_up = false;
  variant->age = c->generation;
  variant->starts++;
  if (variant->starts == 3 && variant->bit == BY_NO_NUMBER && !c->stepped) c->renew = true;
  c->waiting--;
  c->counters.started++;
  return true;
}

static enum banyan_status apply_groups(struct by_controller *c, struct by_reader *reader) {
  uint32_t id;
  for (uint32_t n = by_read_u32(reader); n; n--) {
    uint32_t members = by_read_u32(reader);
    uint64_t bytes = 0;
    if (!BY_ARRAY_GROW(&c->cookies, &c->room_cookies, members))
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for negotiating");
    for (uint32_t k = 0; k < members; k++) {
      struct by_variant *variant = read_started(c, reader, &id);
      if (!variant || !variant->submitted || !start_one(c, variant, id))
        return malformed(c, c->config.down_parent, "that starts something twice");
      c->cookies[k] = variant->cookie;
      bytes += by_operation_bytes(&variant->operation);
    }
    if (!by_is_root(c)) by_controller_charge(c, bytes);
    c->counters.groups++;
    c->config.start(c->config.context, c->cookies, members);
  }
  return BANYAN_OK;
}

/* ---- the table */

static bool make_room_in_table(struct by_controller *c) {
  if (c->n_table < c->room_table) return true;
  uint32_t rows = c->config.n_up_children + 1, old = c->room_table / 64, room = old ? 2 * c->room_table : 256;
  struct by_variant **table = realloc(c->table, room * sizeof(struct by_variant *));
  if (table) c->table = table;
  uint64_t *bits = realloc(c->bits, (size_t)rows * (room / 64) * sizeof *bits);
  if (bits) c->bits = bits;
  uint64_t *complete = realloc(c->complete, room / 64 * sizeof *complete);
  if (complete) c->complete = complete;
  if (!table || !bits || !complete) return false;
  memset(by_bits_of(c, 0, old), 0, (size_t)rows * (room / 64 - old) * sizeof *bits);
  memset(complete + old, 0, (room / 64 - old) * sizeof *complete);
  c->room_table = room;
  return true;
}

/* Gives an operation a bit, and converts what has been submitted of it. */
static bool give_bit(struct by_controller *c, struct by_variant *variant) {
  if (!make_room_in_table(c)) return false;
  variant->bit = c->n_table;
  c->table[c->n_table++] = variant;
  uint64_t *rows = by_bits_of(c, 0, variant->bit / 64), bit = 1ull << (variant->bit % 64);
  for (uint32_t row = 0; row < c->config.n_up_children; row++)
    if (by_bit_is_set(variant->have, row)) rows[row] |= bit;
  if (variant->own) rows[c->config.n_up_children] |= bit;
  by_operations_clear(&c->operations, variant);
  c->dirty = true;
  return true;
}

static enum banyan_status apply_table(struct by_controller *c, struct by_reader *reader) {
  for (uint32_t n = by_read_u32(reader); n; n--) {
    struct by_variant *variant = by_operations_id(&c->operations, by_read_u32(reader));
    if (!variant || variant->bit != BY_NO_NUMBER)
      return malformed(c, c->config.down_parent, "that puts into the table what is unknown, or there");
    if (!give_bit(c, variant)) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for negotiating");
  }
  return BANYAN_OK;
}

/* ---- refusals */

/* Clears the ranks that have submitted an operation. */
static void unnote(struct by_controller *c, struct by_variant *variant) {
  by_operations_clear(&c->operations, variant);
  if (variant->bit == BY_NO_NUMBER) return;
  for (uint32_t row = 0; row <= c->config.n_up_children; row++)
    *by_bits_of(c, row, variant->bit / 64) &= ~(1ull << (variant->bit % 64));
}

static void refuse(struct by_controller *c, struct by_named *named, const struct by_refused_operation *refusal) {
  struct by_variant *here = NULL;
  named->refused_at = c->refusal = c->place;
  named->conflicts = false;
  for (struct by_variant *variant = named->variants; variant; variant = variant->next) {
    unnote(c, variant);
    if (variant->submitted) here = variant;
  }
  if (!here) {
    named->owed++;
    named->refusal = *refusal;
    named->refusal.name = named->name;
    return;
  }
  here->submitted = here->late = here->given_up = false;
  c->waiting--;
  c->counters.refused++;
  c->config.refused(c->config.context, here->cookie, refusal);
}

static enum banyan_status apply_refusals(struct by_controller *c, struct by_reader *reader) {
  struct by_subject subject;
  struct by_refused_operation refusal;
  for (uint32_t n = by_read_u32(reader); n; n--) {
    by_read_refusal(reader, &subject, &refusal);
    struct by_variant *variant = by_operations_get(&c->operations, refusal.name, &refusal.operations[0]);
    if (!variant) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for negotiating");
    refuse(c, variant->named, &refusal);
  }
  return BANYAN_OK;
}

enum banyan_status by_controller_apply(struct by_controller *c, const void *message, size_t bytes) {
  struct by_reader reader;
  struct by_subject subject;
  by_reader_init(&reader, message, bytes);
  (void)by_read_bytes(&reader, 9);
  c->place++;
  BY_TRY(apply_groups(c, &reader));
  BY_TRY(apply_table(c, &reader));
  BY_TRY(apply_refusals(c, &reader));
  for (uint32_t n = by_read_u32(&reader); n; n--) {
    by_read_subject(&reader, &subject);
    by_controller_ask(c, &subject);
  }
  for (uint32_t n = by_read_u32(&reader); n; n--) {
    uint32_t note = by_read_u32(&reader);
    if (c->config.noted) c->config.noted(c->config.context, note);
  }
  if (c->named_starts >= GENERATION) {
    c->named_starts = 0;
    by_operations_forget(&c->operations, c->generation++);
  }
  return BANYAN_OK;
}

/* Handles a message that changes the tree. */
static enum banyan_status take_tree(struct by_controller *c, uint32_t from, const void *message, size_t bytes) {
  struct by_controller_tree tree;
  struct by_reader reader;
  by_reader_init(&reader, message, bytes);
  (void)by_read_u8(&reader);
  if (by_read_u64(&reader) != c->place + 1 || !by_tree_read(message, bytes, c->config.ranks, &tree))
    return malformed(c, from, "that is malformed");
  by_controller_send_down(c, message, bytes);
  c->place++;
  enum banyan_status status = by_controller_enter(c, &tree);
  by_tree_fini(&tree);
  return status;
}

static enum banyan_status take_now(struct by_controller *c, uint32_t from, const void *message, size_t bytes) {
  uint32_t child = by_controller_child(c, from);
  uint8_t kind = bytes ? *(const uint8_t *)message : 0;
  if (kind == BY_NEGOTIATION_UP && child != UINT32_MAX) return from_child(c, child, message, bytes);
  bool down = kind == BY_NEGOTIATION_DOWN || kind == BY_NEGOTIATION_TREE;
  if (!down || from != c->config.down_parent || by_is_root(c))
    return malformed(c, from, "that it does not accept from there");
  if (kind == BY_NEGOTIATION_TREE) return take_tree(c, from, message, bytes);
  bool refuses;
  if (!check_down(c, message, bytes, &refuses)) return malformed(c, from, "that is malformed");
  if (refuses) BY_TRY(by_controller_flush(c)); /* Submissions after the refusal are new ones. */
  by_controller_send_down(c, message, bytes);
  return by_controller_apply(c, message, bytes);
}

static enum banyan_status take(struct by_controller *c, uint32_t from, const void *message, size_t bytes) {
  if (from >= c->config.ranks) return malformed(c, from, "that it does not accept from there");
  switch (by_controller_when(c, message, bytes)) {
  case BY_NOW: return take_now(c, from, message, bytes);
  case BY_EARLY: return by_controller_keep(c, from, message, bytes);
  case BY_LATE: break;
  }
  return BANYAN_OK;
}

enum banyan_status by_controller_take(struct by_controller *c, uint32_t from, const void *message, size_t bytes,
                                      uint64_t now) {
  c->now = now;
  enum banyan_status status = take(c, from, message, bytes);
  struct by_early *early;
  c->counters.taken++;
  while (c->early && (early = by_controller_find_kept(c, &from, &message, &bytes))) {
    enum banyan_status another = take(c, from, message, bytes);
    free(early);
    if (status == BANYAN_OK) status = another;
  }
  return status;
}
