/* What changes with the tree: who is above and below, what is known of the children, and messages that arrive before
 * this controller has read the place in the log from which on their tree is used. */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "controller_parts.h"

/* Maximum bytes kept of one sender; a child may submit much before this controller has read as much of the log. */
enum { MOST_EARLY_BYTES = 16 << 20 };

/* ---- the message: see negotiation_message.h */

void by_tree_write(struct by_list_writer *message, uint64_t place, const struct by_controller_tree *tree) {
  by_list_writer_clear(message);
  struct by_writer *writer = by_list_entry(message);
  by_write_u8(writer, BY_NEGOTIATION_TREE);
  by_write_u64(writer, place);
  by_write_u32(writer, tree->number);
  by_write_u32(writer, tree->ranks);
  for (uint32_t r = 0; r < tree->ranks; r++) {
    writer = by_list_entry(message); /* An entry has room for one rank only. */
    by_write_u32(writer, tree->up[r]);
    by_write_u32(writer, tree->down[r]);
  }
}

/* Whether all ranks are connected to the root. `state` of each rank is 0 if unseen, 1 if on the current path, 2 if
 * connected. Takes O(ranks). */
static bool is_tree(const uint32_t *parent, uint32_t root, uint32_t ranks, uint8_t *state) {
  memset(state, 0, ranks);
  state[root] = 2;
  for (uint32_t r = 0; r < ranks; r++) {
    uint32_t u = r;
    for (; state[u] != 2; u = parent[u]) {
      if (state[u] || parent[u] == u) return false;
      state[u] = 1;
    }
    for (u = r; state[u] != 2; u = parent[u]) state[u] = 2;
  }
  return true;
}

static bool check_ways(const struct by_controller_tree *tree) {
  uint32_t root = 0;
  uint8_t *state = calloc(tree->ranks, 1);
  while (root < tree->ranks && tree->up[root] != root) root++;
  bool good = state && root < tree->ranks && tree->down[root] == root && is_tree(tree->up, root, tree->ranks, state) &&
              is_tree(tree->down, root, tree->ranks, state);
  free(state);
  return good;
}

bool by_tree_read(const void *message, size_t bytes, uint32_t ranks, struct by_controller_tree *out) {
  struct by_reader reader;
  by_reader_init(&reader, message, bytes);
  (void)by_read_bytes(&reader, 9);
  uint32_t number = by_read_u32(&reader);
  *out = (struct by_controller_tree){.number = number, .ranks = ranks};
  if (by_read_count(&reader, 8) != ranks || reader.failed) return false;
  out->up = malloc(2 * (size_t)ranks * sizeof *out->up);
  if (!out->up) return false;
  out->down = out->up + ranks;
  for (uint32_t r = 0; r < ranks; r++) {
    out->up[r] = by_read_u32(&reader);
    out->down[r] = by_read_u32(&reader);
    if (out->up[r] >= ranks || out->down[r] >= ranks) reader.failed = true;
  }
  if (by_reader_check(&reader, "message") == BANYAN_OK && check_ways(out)) return true;
  by_tree_fini(out);
  return false;
}

void by_tree_fini(struct by_controller_tree *tree) {
  free(tree->up);
  *tree = (struct by_controller_tree){0};
}

/* Computes FNV-1a over words. */
uint64_t by_tree_hash(const struct by_controller_tree *tree) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t r = 0; r < tree->ranks; r++) {
    hash = (hash ^ ((uint64_t)tree->up[r] << 32 | tree->down[r])) * 0x100000001b3ull;
    hash ^= hash >> 29;
  }
  return hash;
}

bool by_tree_copy(const struct by_controller_tree *from, struct by_controller_tree *out) {
  *out = *from;
  out->up = malloc(2 * (size_t)from->ranks * sizeof *out->up);
  if (!out->up) return false;
  out->down = out->up + from->ranks;
  memcpy(out->up, from->up, from->ranks * sizeof *out->up);
  memcpy(out->down, from->down, from->ranks * sizeof *out->down);
  return true;
}

/* ---- another place */

/* Lists the children of a rank in ascending order. The caller frees the list; NULL if memory is exhausted. */
static uint32_t *list_children(const uint32_t *parent, uint32_t ranks, uint32_t rank, uint32_t *n) {
  *n = 0;
  for (uint32_t r = 0; r < ranks; r++) *n += r != rank && parent[r] == rank;
  uint32_t *children = malloc((*n + 1) * sizeof *children), i = 0;
  for (uint32_t r = 0; r < ranks && children; r++)
    if (r != rank && parent[r] == rank) children[i++] = r;
  return children;
}

/* Clears which ranks have submitted the operations in the table. */
static bool clear_bits(struct by_controller *c) {
  size_t words = (size_t)(c->config.n_up_children + 1) * (c->room_table / 64);
  uint64_t *bits = calloc(words + 1, sizeof *bits);
  if (!bits) return false;
  free(c->bits);
  c->bits = bits;
  if (c->complete) memset(c->complete, 0, c->room_table / 64 * sizeof *c->complete);
  c->dirty = false;
  return true;
}

bool by_controller_take_place(struct by_controller *c, const struct by_controller_tree *tree) {
  uint32_t rank = c->config.rank, n_up, n_down;
  uint32_t *up = list_children(tree->up, tree->ranks, rank, &n_up);
  uint32_t *down = list_children(tree->down, tree->ranks, rank, &n_down);
  if (!up || !down) {
    free(up);
    free(down);
    return false;
  }
  free(c->up_children);
  free(c->down_children);
  c->config.up_children = c->up_children = up;
  c->config.down_children = c->down_children = down;
  c->config.n_up_children = n_up;
  c->config.n_down_children = n_down;
  c->config.up_parent = tree->up[rank];
  c->config.down_parent = tree->down[rank];
  for (int i = 0; i < BY_LISTS; i++) by_list_writer_clear(&c->lists[i]);
  by_list_writer_clear(&c->part);
  c->n_ready = c->n_group = 0;
  c->tree_number = tree->number;
  c->tree_hash = by_tree_hash(tree);
  c->began = c->place;
  return clear_bits(c) && by_operations_set_children(&c->operations, n_up);
}

/* ---- messages that are early */

struct by_early {
  struct by_early *next;
  uint32_t from;
  size_t bytes;
  unsigned char data[];
};

enum by_when by_controller_when(const struct by_controller *c, const void *message, size_t bytes) {
  struct by_reader reader;
  by_reader_init(&reader, message, bytes);
  uint8_t kind = by_read_u8(&reader);
  uint64_t place = by_read_u64(&reader);
  if (reader.failed) return BY_NOW;
  if (kind == BY_NEGOTIATION_UP && place < c->began) return BY_LATE;
  if (by_is_root(c)) return BY_NOW; /* The root writes the log, so no rank can be ahead of it. */
  if (kind == BY_NEGOTIATION_UP) return place > c->place ? BY_EARLY : BY_NOW;
  bool down = kind == BY_NEGOTIATION_DOWN || kind == BY_NEGOTIATION_TREE;
  return down && place > c->place + 1 ? BY_EARLY : BY_NOW;
}

enum banyan_status by_controller_keep(struct by_controller *c, uint32_t from, const void *message, size_t bytes) {
  struct by_early **end = &c->early;
  size_t kept = sizeof **end + bytes;
  for (; *end; end = &(*end)->next)
    if ((*end)->from == from) kept += sizeof **end + (*end)->bytes;
  struct by_early *early = kept <= MOST_EARLY_BYTES ? malloc(sizeof *early + bytes) : NULL;
  if (!early)
    return by_fail(BANYAN_ERR_NO_MEMORY,
                   "out of memory for control messages of rank %u for another control tree, or more than %d bytes",
                   from, MOST_EARLY_BYTES);
  *early = (struct by_early){.from = from, .bytes = bytes};
  memcpy(early->data, message, bytes);
  *end = early;
  return BANYAN_OK;
}

struct by_early *by_controller_find_kept(struct by_controller *c, uint32_t *from, const void **message, size_t *bytes) {
  struct by_early **place = &c->early;
  while (*place && by_controller_when(c, (*place)->data, (*place)->bytes) == BY_EARLY) place = &(*place)->next;
  struct by_early *early = *place;
  if (!early) return NULL;
  *place = early->next;
  *from = early->from;
  *message = early->data;
  *bytes = early->bytes;
  return early;
}

void by_controller_drop_kept(struct by_controller *c) {
  while (c->early) {
    struct by_early *next = c->early->next;
    free(c->early);
    c->early = next;
  }
}
