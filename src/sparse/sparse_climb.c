/* Rows are merged on the way up the plan's trees. Each tree has a range of rows, cut so that the union is shared out as
 * the plan shares out a buffer. Three trees over three ranks, each a star:
 *
 *   rows        0 ........ 40 ........ 95 ........ height
 *   tree of     rank 0     rank 1      rank 2
 *
 * A vertex takes what its children have, merges it with its own, and sends it on. Ranges of deep trees are cut into
 * pieces that climb by themselves: a vertex merges one while it gets the next. At last each root has a range's union;
 * ranges lie in the order of their roots, so an AllGather of what the roots have is the union in order. */
#include <stdlib.h>

#include "sparse_parts.h"

enum { COUNT, ROWS, VALUES, MESSAGES }; /* The messages that go up an edge. */

static struct by_sparse_climb *climb_of(struct by_sparse_exchange *exchange, uint32_t strand) {
  return &exchange->queue->climbs[strand - 1];
}

/* ---- the places in the trees */

void by_sparse_climbs_free(struct by_sparse_queue *queue) {
  for (uint32_t t = 0; t < queue->n_climbs; t++) {
    banyan_sparse_free(&queue->climbs[t].all);
    banyan_sparse_free(&queue->climbs[t].merged);
  }
  by_arena_fini(&queue->climb_arena);
  by_arena_init(&queue->climb_arena);
  queue->climbs = NULL;
  queue->n_climbs = 0;
}

static enum banyan_status no_memory(uint32_t trees) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u trees", trees);
}

/* Finds the children. `from` and `to`: for each rank, how many earlier climbs went from it to this rank, and from this
 * rank to it. */
static enum banyan_status find_children(struct by_sparse_queue *queue, struct by_sparse_climb *climb, uint32_t *from,
                                        uint32_t *to) {
  uint32_t self = by_team_rank(queue->team), n = by_sparse_tree_below(queue->trees, climb->tree, self, NULL);
  climb->n_children = n;
  climb->children = BY_ARENA_ARRAY(&queue->climb_arena, uint32_t, n);
  climb->tags = BY_ARENA_ARRAY(&queue->climb_arena, uint32_t, n);
  climb->counts = BY_ARENA_ARRAY(&queue->climb_arena, uint64_t, n);
  if (!climb->children || !climb->tags || !climb->counts) return no_memory(queue->trees->n);
  by_sparse_tree_below(queue->trees, climb->tree, self, climb->children);
  for (uint32_t c = 0; c < n; c++) climb->tags[c] = from[climb->children[c]]++;
  climb->up = by_sparse_tree_up(queue->trees, climb->tree, self);
  if (climb->up != self) climb->tag = to[climb->up]++;
  return BANYAN_OK;
}

static enum banyan_status make_climbs(struct by_sparse_queue *queue, const struct by_sparse_trees *trees,
                                      uint32_t pieces) {
  if (queue->climbs && queue->trees == trees && queue->pieces == pieces) return BANYAN_OK;
  by_sparse_climbs_free(queue);
  uint32_t n = trees->n * pieces, *edges = BY_ARENA_ARRAY(&queue->climb_arena, uint32_t, 2 * (size_t)trees->n_ranks);
  struct by_sparse_climb *climbs = BY_ARENA_ARRAY(&queue->climb_arena, struct by_sparse_climb, n);
  if (!climbs || !edges) return no_memory(trees->n);
  queue->trees = trees;
  for (uint32_t c = 0; c < n; c++) {
    climbs[c].tree = &trees->trees[c / pieces];
    BY_TRY(find_children(queue, &climbs[c], edges, edges + trees->n_ranks));
  }
  queue->climbs = climbs;
  queue->n_climbs = n;
  queue->pieces = pieces;
  return BANYAN_OK;
}

/* ---- down again: all unions to all ranks */

static enum banyan_status finish(struct by_sparse_exchange *exchange, uint32_t strand) {
  by_sparse_end(exchange, BANYAN_OK);
  return BANYAN_OK;
}

/* Adds the number of rows that a rank reports as merged. */
static enum banyan_status add_count(const struct by_sparse_exchange *exchange, uint32_t rank, uint64_t count,
                                    uint64_t *total) {
  if (count <= exchange->all.total && (*total += count) <= exchange->all.total) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "rank %u reports %llu merged rows, more than there are", rank,
                 (unsigned long long)count);
}

static enum banyan_status copy_pieces(struct by_sparse_exchange *exchange, uint32_t strand,
                                      struct by_sparse_scratch *scratch) {
  const struct by_sparse_queue *queue = exchange->queue;
  size_t first = by_sparse_before_own(exchange);
  struct banyan_sparse *out = exchange->call.out;
  for (uint32_t t = 0; t < queue->n_climbs; t++) {
    const struct banyan_sparse *piece = &queue->climbs[t].piece;
    if (queue->climbs[t].tree->root != by_team_rank(queue->team) || !piece->count) continue;
    struct banyan_sparse to = by_sparse_slice(out, first, piece->count);
    by_sparse_copy(piece, &to, 0);
    by_sparse_average(exchange, &to);
    first += piece->count;
  }
  return BANYAN_OK;
}

static enum banyan_status gather_pieces(struct by_sparse_exchange *exchange, uint32_t strand) {
  exchange->strands[0].then = finish;
  return by_sparse_gather_blocks(exchange, exchange->call.out);
}

static enum banyan_status spread(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct by_sparse_queue *queue = exchange->queue;
  struct banyan_sparse *out = exchange->call.out;
  uint64_t total = 0;
  for (uint32_t r = 0; r < queue->options.n; r++) BY_TRY(add_count(exchange, r, exchange->union_counts[r], &total));
  BY_TRY(by_sparse_make(&exchange->in, total, out));
  out->count = total;
  size_t own = by_sparse_bytes(exchange, exchange->union_counts[by_team_rank(queue->team)]);
  return by_sparse_do(exchange, 0, own, copy_pieces, gather_pieces);
}

static enum banyan_status send_union(struct by_sparse_exchange *exchange) {
  const struct by_sparse_queue *queue = exchange->queue;
  uint32_t self = by_team_rank(queue->team);
  uint64_t *mine = &exchange->union_counts[self];
  *mine = 0;
  for (uint32_t t = 0; t < queue->n_climbs; t++)
    if (queue->climbs[t].tree->root == self) *mine += queue->climbs[t].piece.count;
  struct banyan_call call = {
      .collective = BANYAN_ALLGATHER, .dtype = BANYAN_INT64, .send = mine, .recv = exchange->union_counts, .count = 1};
  exchange->strands[0].then = spread;
  return by_sparse_call(exchange, 0, &call);
}

/* ---- up one tree */

static enum banyan_status pass(struct by_sparse_exchange *exchange, uint32_t strand, enum banyan_collective collective,
                               uint32_t peer, uint32_t tag, uint32_t message, struct banyan_sparse *rows,
                               uint64_t *count) {
  struct banyan_call call = {.collective = collective, .root = (int)peer, .tag = tag * MESSAGES + message};
  void *memory = message == COUNT ? (void *)count : message == ROWS ? rows->rows : rows->values;
  call.dtype = message == COUNT ? BANYAN_INT64 : message == ROWS ? rows->row_dtype : rows->dtype;
  call.count = message == COUNT ? 1 : message == ROWS ? rows->count : rows->count * rows->width;
  if (collective == BANYAN_SEND)
    call.send = memory;
  else
    call.recv = memory;
  return by_sparse_call(exchange, strand, &call);
}

static enum banyan_status at_rest(struct by_sparse_exchange *exchange, uint32_t strand) {
  return --exchange->climbing ? BANYAN_OK : send_union(exchange);
}

static enum banyan_status send_up(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct by_sparse_climb *climb = climb_of(exchange, strand);
  uint32_t self = by_team_rank(exchange->queue->team), up = climb->up;
  exchange->strands[strand].then = at_rest;
  if (up == self) return BANYAN_OK;
  climb->count = climb->piece.count;
  for (uint32_t m = COUNT; m < (climb->count ? MESSAGES : ROWS); m++)
    BY_TRY(pass(exchange, strand, BANYAN_SEND, up, climb->tag, m, &climb->piece, &climb->count));
  return BANYAN_OK;
}

static enum banyan_status merge(struct by_sparse_exchange *exchange, uint32_t strand,
                                struct by_sparse_scratch *scratch) {
  struct by_sparse_climb *climb = climb_of(exchange, strand);
  by_sparse_copy(&climb->own, &climb->all, 0);
  BY_TRY(by_sparse_merge(&climb->all, scratch, &climb->merged));
  climb->piece = climb->merged;
  return BANYAN_OK;
}

static enum banyan_status merge_rows(struct by_sparse_exchange *exchange, uint32_t strand) {
  size_t bytes = by_sparse_bytes(exchange, climb_of(exchange, strand)->all.count);
  return by_sparse_do(exchange, strand, bytes, merge, send_up);
}

static enum banyan_status take_rows(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct by_sparse_climb *climb = climb_of(exchange, strand);
  uint64_t total = climb->own.count;
  for (uint32_t c = 0; c < climb->n_children; c++)
    BY_TRY(add_count(exchange, climb->children[c], climb->counts[c], &total));
  if (total == climb->own.count) return send_up(exchange, strand);
  BY_TRY(by_sparse_make(&climb->own, total, &climb->all));
  climb->all.count = total;
  size_t first = climb->own.count;
  exchange->strands[strand].then = merge_rows;
  for (uint32_t c = 0; c < climb->n_children; first += climb->counts[c], c++) {
    struct banyan_sparse part = by_sparse_slice(&climb->all, first, climb->counts[c]);
    if (!part.count) continue;
    BY_TRY(pass(exchange, strand, BANYAN_RECV, climb->children[c], climb->tags[c], ROWS, &part, NULL));
    BY_TRY(pass(exchange, strand, BANYAN_RECV, climb->children[c], climb->tags[c], VALUES, &part, NULL));
  }
  return BANYAN_OK;
}

static enum banyan_status take_counts(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct by_sparse_climb *climb = climb_of(exchange, strand);
  exchange->strands[strand].then = take_rows;
  for (uint32_t c = 0; c < climb->n_children; c++)
    BY_TRY(pass(exchange, strand, BANYAN_RECV, climb->children[c], climb->tags[c], COUNT, NULL, &climb->counts[c]));
  return BANYAN_OK;
}

/* ---- beginning */

/* Returns where a climb's piece ends, as a fraction of the union. */
static double end_of(const struct by_sparse_queue *queue, uint32_t climb) {
  uint32_t tree = climb / queue->pieces, piece = climb % queue->pieces + 1;
  double before = tree ? queue->trees->upto[tree - 1] : 0, end = queue->trees->upto[tree];
  return piece == queue->pieces ? end : before + (end - before) * piece / queue->pieces;
}

static enum banyan_status cut(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  uint32_t n = queue->n_climbs;
  uint64_t *cuts = calloc((size_t)n + 1, sizeof *cuts);
  double *upto = calloc(n, sizeof *upto);
  if (cuts && upto) {
    for (uint32_t c = 0; c < n; c++) upto[c] = end_of(queue, c);
    by_sparse_union_cut(&exchange->all, exchange->in.height, upto, n, cuts);
    for (uint32_t c = 0; c < n; c++) {
      size_t first = by_sparse_place_of(&exchange->in, cuts[c]), end = by_sparse_place_of(&exchange->in, cuts[c + 1]);
      queue->climbs[c].own = queue->climbs[c].piece = by_sparse_slice(&exchange->in, first, end - first);
    }
  }
  enum banyan_status status = cuts && upto ? BANYAN_OK : no_memory(queue->trees->n);
  free(cuts);
  free(upto);
  return status;
}

static enum banyan_status put_in_order(struct by_sparse_exchange *exchange, uint32_t strand,
                                       struct by_sparse_scratch *scratch) {
  return by_sparse_put_in_order(exchange, scratch);
}

static enum banyan_status start(struct by_sparse_exchange *exchange, uint32_t strand) {
  struct by_sparse_queue *queue = exchange->queue;
  BY_TRY(cut(exchange));
  BY_TRY(by_sparse_need_strands(exchange, 1 + queue->n_climbs));
  exchange->climbing = queue->n_climbs;
  for (uint32_t c = 0; c < queue->n_climbs; c++) BY_TRY(take_counts(exchange, 1 + c));
  return BANYAN_OK;
}

enum banyan_status by_sparse_begin_climb(struct by_sparse_exchange *exchange) {
  struct by_sparse_queue *queue = exchange->queue;
  const struct by_sparse_trees *trees;
  double row = (double)by_sparse_row_bytes(&exchange->in);
  BY_TRY(by_sparse_get_trees(queue, exchange->all.rows * row, &trees));
  BY_TRY(make_climbs(queue, trees, by_sparse_pieces(&exchange->all, trees, row)));
  bool as_it_is = exchange->ascending && !exchange->tables.n;
  return by_sparse_do(exchange, 0, as_it_is ? 0 : by_sparse_bytes(exchange, exchange->in.count), put_in_order, start);
}
