/* Predicts the time and the memory of each method of exchanging sparse rows. Then what exchanges
 * took decides between methods with similar predictions. */
#include "sparse_cost.h"

#include <math.h>
#include <string.h>

enum { MOST_TREES = 4, MOST_SAMPLE = 128, PLACES = 16 /* Bytes of a row's entry while rows are sorted. */ };
enum { PIECE = 128 << 10, MOST_PIECES = 16, LEAST_SAMPLE = 4, MOST_PARTS = 65536 };

struct by_sparse_rates by_sparse_default_rates(bool far) {
  if (far)
    return (struct by_sparse_rates){.call = 15e-6,
                                    .hop = 25e-6,
                                    .message = 3e-6,
                                    .byte = 0.4e-9,
                                    .merge = 0.12e-9,
                                    .clear = 0.1e-9,
                                    .link = 1.25e9};
  return (struct by_sparse_rates){
      .call = 5e-6, .hop = 5e-6, .message = 1e-6, .byte = 0.1e-9, .merge = 0.12e-9, .clear = 0.1e-9, .link = INFINITY};
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static const struct by_sparse_word *first_word(const struct by_sparse_case *of) {
  return by_sparse_word_of(of->words, 0);
}

static double value_bytes(const struct by_sparse_case *of) {
  const struct by_sparse_word *word = first_word(of);
  return (double)word->width * (double)banyan_dtype_size((enum banyan_dtype)word->dtype);
}

double by_sparse_case_row_bytes(const struct by_sparse_case *of) {
  return value_bytes(of) + (double)banyan_dtype_size((enum banyan_dtype)first_word(of)->row_dtype);
}

static bool merges(const struct by_sparse_case *of) {
  return first_word(of)->collective == BANYAN_ALLREDUCE;
}

/* Ranks that share cores work one after the other. */
static double busy(const struct by_sparse_case *of, double busiest, double mean) {
  return larger(busiest, of->all->crowd * mean);
}

static double steps(const struct by_sparse_case *of, double n) {
  return n * (of->rates.hop + of->all->delay);
}

/* Returns the predicted seconds with links that carry `link` bytes/s. */
static double prediction_seconds(const struct by_sparse_prediction *prediction, double link) {
  return prediction->fixed + larger(prediction->work, prediction->bytes / link);
}

/* The largest number of rows that the result may have. */
static double most_merged(const struct by_sparse_case *of) {
  double total = (double)of->all->total, height = (double)first_word(of)->height;
  return total < height ? total : height;
}

/* ---- all rows to all ranks */

/* Rows that the busiest link carries in an AllGather of `total`, of which rank r has own(r). */
static double gather_load(const struct by_sparse_case *of, const struct by_sparse_trees *trees, double total,
                          double (*own)(const void *of, uint32_t rank)) {
  double n = of->all->n_ranks, most = 0, least = INFINITY;
  for (uint32_t r = 0; r < of->all->n_ranks; r++) {
    double mine = own(of, r);
    struct by_sparse_load load = trees ? trees->gather[r] : (struct by_sparse_load){(n - 1) / n, 0};
    most = larger(most, load.all * total + load.own * mine);
    if (mine < least) least = mine;
  }
  return n > 1 ? larger(most, total - least) : 0;
}

static double own_rows(const void *of, uint32_t rank) {
  return (double)by_sparse_word_of(((const struct by_sparse_case *)of)->words, rank)->count;
}

static double most_rows(const void *of, uint32_t rank) {
  (void)rank;
  return (double)((const struct by_sparse_case *)of)->all->most;
}

/* Seconds in which a rank has work in an AllGather of rows. */
static double gather_work(const struct by_sparse_case *of, double rows) {
  double n = of->all->n_ranks;
  return of->rates.byte * 2 * rows * by_sparse_case_row_bytes(of) * (n - 1) / n;
}

/* Seconds in which a rank works on the messages of rows and of values of an AllGather. */
static double gather_messages(const struct by_sparse_case *of, const struct by_sparse_trees *trees) {
  return of->rates.message * 2 * 2 * (trees ? trees->gather_messages : 1);
}

static void gather(const struct by_sparse_case *of, double rows, double (*own)(const void *of, uint32_t rank),
                   double calls, struct by_sparse_prediction *out) {
  double row = by_sparse_case_row_bytes(of), total = (double)of->all->total;
  double work = gather_work(of, rows) + gather_messages(of, of->gather) + of->rates.merge * merges(of) * total * row;
  out->fixed = calls * of->rates.call + steps(of, of->gather ? of->gather->gather_steps : 1);
  out->work = busy(of, work, work);
  out->bytes = gather_load(of, of->gather, rows, own) * row;
  out->seconds = prediction_seconds(out, of->rates.link);
  out->memory = rows * row + merges(of) * (total * PLACES + most_merged(of) * row);
}

static void dense(const struct by_sparse_case *of, struct by_sparse_prediction *out) {
  double n = of->all->n_ranks, height = (double)first_word(of)->height;
  double bytes = height * (value_bytes(of) + 0.125), load = of->dense ? of->dense->reduce : 2 * (n - 1) / n;
  double work = 4 * bytes * (n - 1) / n * of->rates.byte + of->rates.clear * bytes;
  if (!merges(of)) return;
  out->fixed = 2 * of->rates.call + steps(of, of->dense ? of->dense->reduce_steps : 2);
  out->work = busy(of, work, work);
  out->bytes = load * bytes;
  out->seconds = prediction_seconds(out, of->rates.link);
  out->memory = bytes + most_merged(of) * by_sparse_case_row_bytes(of);
}

/* ---- merging on the way */

uint32_t by_sparse_pieces(const struct by_sparse_union *all, const struct by_sparse_trees *trees, double row_bytes) {
  double share = 0;
  if (trees->height < 2) return 1;
  for (uint32_t t = 0; t < trees->n; t++) share = larger(share, trees->trees[t].share);
  double pieces = all->rows * row_bytes * share / PIECE, seen = all->sampled * share / LEAST_SAMPLE;
  if (pieces > seen) pieces = seen;
  if (pieces > MOST_PIECES) pieces = MOST_PIECES;
  if (pieces * trees->n > MOST_PARTS) pieces = (double)MOST_PARTS / trees->n;
  return pieces < 1 ? 1 : (uint32_t)pieces;
}

/* The load of all ranks while rows go up the trees, in rows; and the state of the tree that is being counted. */
struct climb {
  const struct by_sparse_case *of;
  double *sent, *taken, *merged, *messages; /* Each rank's load, summed over all trees. */
  uint32_t deepest;
  /* The state of one tree: */
  uint32_t *up, *order, *below, *depth; /* order: the ranks, each before its parent. */
  uint64_t *have; /* By rank: the rows of the range's sample that it or a rank below it has, as bits. */
  double *here;   /* By rank: its own rows and those received from below. */
  uint32_t words;
  double scale; /* Rows for which each row of the sample stands. */
};

static double rows_of(const struct climb *climb, uint32_t rank) {
  uint32_t n = 0;
  for (uint32_t w = 0; w < climb->words; w++)
    n += (uint32_t)__builtin_popcountll(climb->have[(size_t)rank * climb->words + w]);
  return n * climb->scale;
}

static void sort_up(struct climb *climb, const struct by_sparse_tree *tree) {
  uint32_t n = climb->of->all->n_ranks, done = 0;
  memset(climb->below, 0, n * sizeof *climb->below);
  memset(climb->depth, 0, n * sizeof *climb->depth);
  for (uint32_t r = 0; r < n; r++) climb->up[r] = by_sparse_tree_up(climb->of->trees, tree, r);
  for (uint32_t r = 0; r < n; r++) climb->below[climb->up[r]] += climb->up[r] != r;
  for (uint32_t r = 0; r < n; r++)
    if (!climb->below[r]) climb->order[done++] = r;
  for (uint32_t i = 0; i < done && done < n; i++) {
    uint32_t up = climb->up[climb->order[i]];
    if (up != climb->order[i] && !--climb->below[up]) climb->order[done++] = up;
  }
}

/* Counts a vertex that merges what it has received and sends the result up. */
static void step_up(struct climb *climb, uint32_t rank, double factor) {
  uint32_t up = climb->up[rank];
  double rows = rows_of(climb, rank);
  if (climb->depth[rank]) climb->merged[rank] += factor * climb->here[rank];
  if (up == rank) return;
  for (uint32_t w = 0; w < climb->words; w++)
    climb->have[(size_t)up * climb->words + w] |= climb->have[(size_t)rank * climb->words + w];
  climb->here[up] += rows;
  climb->sent[rank] += factor * rows;
  climb->taken[up] += factor * rows;
  climb->messages[rank] += factor;
  climb->messages[up] += factor;
  if (climb->depth[rank] + 1 > climb->depth[up]) climb->depth[up] = climb->depth[rank] + 1;
}

/* Counts one tree. The range's part of the sample is from `first` to `end`; all work counts `factor` times. */
static void climb_tree(struct climb *climb, const struct by_sparse_tree *tree, uint32_t first, uint32_t end,
                       double factor) {
  const struct by_sparse_union *all = climb->of->all;
  uint32_t n = all->n_ranks, looked = end - first < MOST_SAMPLE ? end - first : MOST_SAMPLE;
  climb->words = (looked + 63) / 64;
  climb->scale = looked ? all->rows / all->sampled * (end - first) / looked : 0;
  memset(climb->have, 0, (size_t)n * climb->words * sizeof *climb->have);
  for (uint32_t i = 0; i < looked; i++) {
    uint32_t at = first + (uint32_t)((uint64_t)i * (end - first) / looked);
    for (uint32_t k = all->starts[at]; k < all->starts[at + 1]; k++)
      climb->have[(size_t)all->ranks[k] * climb->words + i / 64] |= (uint64_t)1 << i % 64;
  }
  for (uint32_t r = 0; r < n; r++) climb->here[r] = rows_of(climb, r);
  sort_up(climb, tree);
  for (uint32_t i = 0; i < n; i++) step_up(climb, climb->order[i], factor);
  if (climb->depth[tree->root] > climb->deepest) climb->deepest = climb->depth[tree->root];
}

/* Counts a group whose ranks send their rows of a range to the range's root themselves. */
static void climb_directly(struct climb *climb, const struct by_sparse_group *group) {
  const struct by_sparse_case *of = climb->of;
  double share = group->group->share / group->n_trees, total = (double)of->all->total;
  uint32_t n = group->group->n;
  if (n > 1 && !climb->deepest) climb->deepest = 1;
  for (uint32_t p = 0; p < n; p++) {
    uint32_t r = group->group->order[p];
    bool root = group->n_trees > 1 || p == group->group->root;
    double own = own_rows(of, r), others = group->n_trees - root;
    climb->sent[r] += share * others * own;
    climb->messages[r] += others;
    if (!root) continue;
    climb->taken[r] += share * (total - own);
    climb->merged[r] += share * total;
    climb->messages[r] += n - 1;
  }
}

static void spread_evenly(double *of, uint32_t n) {
  double sum = 0;
  for (uint32_t r = 0; r < n; r++) sum += of[r];
  for (uint32_t r = 0; r < n; r++) of[r] = sum / n;
}

/* Counts the trees of groups. If there are many, it follows only some of them, which stand for the others: these are
 * alike, and load all ranks evenly. */
static void climb_indirectly(struct climb *climb) {
  const struct by_sparse_trees *trees = climb->of->trees;
  const struct by_sparse_union *all = climb->of->all;
  uint32_t n = 0, seen = 0, first = 0;
  double share = 0, followed = 0;
  for (uint32_t t = 0; t < trees->n; t++) n += !trees->groups[trees->trees[t].group].direct;
  uint32_t stride = n > MOST_TREES ? (n + MOST_TREES - 1) / MOST_TREES : 1;
  for (uint32_t t = 0; t < trees->n; t++) {
    if (trees->groups[trees->trees[t].group].direct) continue;
    share += trees->trees[t].share;
    if (seen++ % stride == 0) followed += trees->trees[t].share;
  }
  seen = 0;
  for (uint32_t t = 0; t < trees->n; t++) {
    uint32_t end = (uint32_t)(trees->upto[t] * all->sampled + 0.5);
    if (!trees->groups[trees->trees[t].group].direct && seen++ % stride == 0)
      climb_tree(climb, &trees->trees[t], first, end, share / followed);
    first = end;
  }
  if (stride < 2) return;
  double *const rows[] = {climb->sent, climb->taken, climb->merged, climb->messages};
  for (uint32_t i = 0; i < 4; i++) spread_evenly(rows[i], all->n_ranks);
}

static double root_rows(const void *of, uint32_t rank) {
  const struct by_sparse_case *case_ = of;
  const struct by_sparse_trees *trees = case_->trees;
  uint32_t low = 0, high = trees->n;
  while (low < high) { /* The trees are sorted by root. */
    uint32_t middle = low + (high - low) / 2;
    if (trees->trees[middle].root < rank)
      low = middle + 1;
    else
      high = middle;
  }
  double share = 0;
  for (; low < trees->n && trees->trees[low].root == rank; low++) share += trees->trees[low].share;
  return share * case_->all->rows;
}

/* Three messages go up each edge: a count, rows and values. */
static void sum_up(const struct climb *climb, struct by_sparse_prediction *out) {
  const struct by_sparse_case *of = climb->of;
  const struct by_sparse_rates *rates = &of->rates;
  double row = by_sparse_case_row_bytes(of), busiest = 0, sum = 0, most = 0, held = 0;
  uint32_t n = of->all->n_ranks, pieces = by_sparse_pieces(of->all, of->trees, row);
  for (uint32_t r = 0; r < n; r++) {
    double work = 3 * rates->message * climb->messages[r] * pieces + rates->merge * row * climb->merged[r] +
                  rates->byte * row * (climb->sent[r] + climb->taken[r]);
    busiest = larger(busiest, work);
    most = larger(most, larger(climb->sent[r], climb->taken[r]));
    held = larger(held, climb->taken[r] + own_rows(of, r));
    sum += work;
  }
  double path = climb->deepest > 1 ? 1 + (climb->deepest - 1.0) / pieces : 1, down = gather_work(of, of->all->rows);
  double united = 1.5 * of->all->rows < most_merged(of) ? 1.5 * of->all->rows : most_merged(of);
  out->fixed = 3 * rates->call + steps(of, climb->deepest + 2 * of->trees->gather_steps);
  out->work = path * busy(of, busiest, sum / n) + busy(of, down, down) + gather_messages(of, of->trees);
  out->bytes = path * most * row + gather_load(of, of->trees, of->all->rows, root_rows) * row;
  out->seconds = prediction_seconds(out, rates->link);
  out->memory = 2 * held * (2 * row + PLACES) + united * row;
}

static void merge(const struct by_sparse_case *of, struct by_sparse_prediction *out) {
  uint32_t n = of->all->n_ranks;
  struct by_arena arena;
  if (!of->trees || !merges(of)) return;
  by_arena_init(&arena);
  struct climb climb = {.of = of,
                        .sent = BY_ARENA_ARRAY(&arena, double, n),
                        .taken = BY_ARENA_ARRAY(&arena, double, n),
                        .merged = BY_ARENA_ARRAY(&arena, double, n),
                        .messages = BY_ARENA_ARRAY(&arena, double, n),
                        .up = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .order = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .below = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .depth = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .have = BY_ARENA_ARRAY(&arena, uint64_t, (size_t)n * (MOST_SAMPLE / 64)),
                        .here = BY_ARENA_ARRAY(&arena, double, n)};
  out->seconds = (double)NAN;
  if (!arena.failed) {
    climb_indirectly(&climb);
    for (uint32_t g = 0; g < of->trees->n_groups; g++)
      if (of->trees->groups[g].direct) climb_directly(&climb, &of->trees->groups[g]);
    sum_up(&climb, out);
  }
  by_arena_fini(&arena);
}

void by_sparse_predict(const struct by_sparse_case *of, enum banyan_sparse_way way, struct by_sparse_prediction *out) {
  double n = of->all->n_ranks, total = (double)of->all->total;
  *out = (struct by_sparse_prediction){.seconds = INFINITY};
  switch (way) {
  case BANYAN_SPARSE_PADDED: gather(of, (double)of->all->most * n, most_rows, 2, out); break;
  case BANYAN_SPARSE_GATHER: gather(of, total, own_rows, 2, out); break;
  case BANYAN_SPARSE_BROADCAST: gather(of, total, own_rows, 2 * n, out); break;
  case BANYAN_SPARSE_MERGE: merge(of, out); break;
  case BANYAN_SPARSE_DENSE: dense(of, out); break;
  default: break;
  }
}

/* ---- names */

static const char *const names[BANYAN_SPARSE_WAYS] = {
    [BANYAN_SPARSE_CHOSEN] = "chosen",       [BANYAN_SPARSE_PADDED] = "padded", [BANYAN_SPARSE_GATHER] = "gather",
    [BANYAN_SPARSE_BROADCAST] = "broadcast", [BANYAN_SPARSE_MERGE] = "merge",   [BANYAN_SPARSE_DENSE] = "dense",
};

const char *banyan_sparse_way_name(enum banyan_sparse_way way) {
  return (unsigned)way < BANYAN_SPARSE_WAYS ? names[way] : "?";
}

enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the method is NULL");
  for (int way = 0; text && way < BANYAN_SPARSE_WAYS; way++)
    if (!strcmp(text, names[way])) {
      *out = (enum banyan_sparse_way)way;
      return BANYAN_OK;
    }
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "no way of sparse rows is called \"%.40s\"; there are chosen, padded, gather, broadcast, merge, dense",
                 text ? text : "");
}

/* ---- records of past exchanges */

#define NEAR 1.5            /* Methods that may take this many times the best one's time are tried. */
#define STAYS 1.05          /* The last method stays while it takes at most this many times the best one's time. */
#define AGES 8              /* Exchanges over which the ratio of a known method is averaged. */
#define ODD 4               /* Maximum ratio of a time to the usual one that is recorded. */
#define LEAST_BYTES 65536.0 /* Bytes on a link from which its rate can be measured. */

void by_sparse_record_begin(struct by_sparse_record *record, uint32_t version) {
  if (record->version == version) return;
  *record = (struct by_sparse_record){.version = version, .seen = record->seen};
}

/* Returns the size class of a number of bytes; each class is four times the one before. */
static uint32_t size_of(double bytes) {
  uint64_t whole = bytes < 0x1p63 ? (uint64_t)bytes : (uint64_t)1 << 63;
  return (63 - (uint32_t)__builtin_clzll(whole | 1)) / 2;
}

void by_sparse_record_note(struct by_sparse_record *record, uint64_t number, enum banyan_sparse_way way, double bytes,
                           bool far, const struct by_sparse_prediction *prediction) {
  record->noted[number % BY_SPARSE_REMEMBERED] = (struct by_sparse_noted){
      .number = number, .way = way, .far = far, .size = size_of(bytes), .prediction = *prediction};
}

/* ---- learning */

/* Returns the median of three, the smaller of two. */
static double median(const double *times, uint32_t n) {
  double least = n > 1 && times[1] < times[0] ? times[1] : times[0];
  double most = n > 1 && times[1] > times[0] ? times[1] : times[0];
  if (n < 3) return least;
  return times[2] < least ? least : times[2] > most ? most : times[2];
}

static void add(struct by_sparse_measured *measured, double ratio) {
  if (measured->n < BY_SPARSE_TRIALS) {
    measured->times[measured->n++] = ratio;
    measured->ratio = median(measured->times, measured->n);
    return;
  }
  if (ratio > ODD * measured->ratio) ratio = ODD * measured->ratio;
  measured->ratio += (ratio - measured->ratio) / AGES;
  measured->n += measured->n < UINT32_MAX;
}

static void learn(struct by_sparse_record *record, const struct by_sparse_noted *noted, double seconds) {
  const struct by_sparse_prediction *prediction = &noted->prediction;
  double sending = seconds - prediction->fixed, predicted = prediction->seconds;
  if (!(predicted > 0) || !(predicted < INFINITY) || !(seconds > 0)) return;
  if (noted->far && prediction->bytes >= LEAST_BYTES && sending > 0) {
    double rate = prediction->bytes / sending; /* This is a lower bound: the processor may have been the limit. */
    record->link = rate > record->link ? rate : record->link + (rate - record->link) / AGES;
    predicted = prediction_seconds(prediction, record->link);
  }
  add(&record->ways[noted->size][noted->way], seconds / predicted);
}

void by_sparse_record_learn(struct by_sparse_record *record, const struct by_sparse_words *words) {
  uint64_t number = by_sparse_word_of(words, 0)->ended, lasted = 0;
  for (uint32_t r = 0; r < words->n; r++) {
    const struct by_sparse_word *word = by_sparse_word_of(words, r);
    if (word->ended != number) return;
    if (word->lasted > lasted) lasted = word->lasted;
  }
  const struct by_sparse_noted *noted = &record->noted[number % BY_SPARSE_REMEMBERED];
  if (number <= record->seen || noted->number != number) return;
  record->seen = number;
  learn(record, noted, (double)lasted * 1e-9);
}

/* ---- choosing */

/* Scales the predictions of methods without measurements by the ratio of the best measured method. */
static void adjust(const struct by_sparse_measured *measured, double *seconds) {
  double usual = INFINITY;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    if (measured[way].n && measured[way].ratio < usual) usual = measured[way].ratio;
  if (!(usual < INFINITY)) usual = 1;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    seconds[way] *= measured[way].n ? measured[way].ratio : usual;
}

static enum banyan_sparse_way best_of(const double *seconds) {
  enum banyan_sparse_way best = BANYAN_SPARSE_CHOSEN; /* Its time is infinite. */
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    if (seconds[way] < seconds[best]) best = (enum banyan_sparse_way)way;
  return best;
}

/* Returns a method that is nearly as good and has been tried too rarely. */
static enum banyan_sparse_way to_try(const struct by_sparse_measured *measured, const double *seconds, double best) {
  enum banyan_sparse_way tried = BANYAN_SPARSE_CHOSEN;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
    if (!(seconds[way] <= NEAR * best) || measured[way].n >= BY_SPARSE_TRIALS) continue;
    bool less = !tried || measured[way].n < measured[tried].n ||
                (measured[way].n == measured[tried].n && seconds[way] < seconds[tried]);
    if (less) tried = (enum banyan_sparse_way)way;
  }
  return tried;
}

enum banyan_sparse_way by_sparse_record_choose(struct by_sparse_record *record,
                                               const struct by_sparse_prediction *predictions, double bytes,
                                               double memory) {
  double seconds[BANYAN_SPARSE_WAYS] = {INFINITY};
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++)
    seconds[way] = predictions[way].memory <= memory ? predictions[way].seconds : (double)INFINITY;
  if (!record) return best_of(seconds);
  const struct by_sparse_measured *measured = record->ways[size_of(bytes)];
  enum banyan_sparse_way *last = &record->best[size_of(bytes)];
  adjust(measured, seconds);
  enum banyan_sparse_way best = best_of(seconds);
  if (!best) return best;
  if (*last && seconds[*last] <= STAYS * seconds[best]) best = *last;
  *last = best;
  enum banyan_sparse_way tried = to_try(measured, seconds, seconds[best]);
  return tried ? tried : best;
}
