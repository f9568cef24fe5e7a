/* Refines measured rates of links with the results of probes and calls, and chooses the next probe. */
#include "network_estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "thresholds.h"

enum {
  IN_A_ROW = 3, /* evaluations of calls that suffice */
  SETTLING = 2, /* probes over a link that settle it */
  INSEPARABLE =
      4, /* If after this many probes of each the links of a path cannot be told apart, all of them are lowered. */
  MAX_TRIES = 6, /* probes over a suspect link, after which more show nothing new */
  MAX_SENT = 12,
  TELLS = 3,           /* factor of the value of a probe that tells links apart */
  BLAMED = 3,          /* agreeing probes that lower a link */
  MAX_SLOW_PROBES = 64 /* how many slow probes are kept */
};

struct step {
  bool refines;
  bool suspect;      /* The link may explain a slow probe. */
  double rate;       /* the known rate, in bit/s */
  double highest[2]; /* the largest and second largest rate of all probes over it */
  uint32_t tries;    /* probes since the last change of the rate that showed something */
  uint32_t sent;     /* all probes since the last change of the rate */
  uint32_t row;      /* evaluations of calls in a row that filled it */
  double min_rate;   /* the smallest rate of these, in bit/s */
  double last_call;  /* the time of the last one, in seconds */
  uint32_t blamed;
  double min_blamed, max_blamed; /* the range of the rates of the probes that blame it */
};

/* A probe that was slower than its path should be. */
struct slow_probe {
  uint32_t n, *steps;
  double rate;
};

struct by_refinement {
  const struct by_topology *topology;
  struct by_path_cache *cache;
  double sent, probes;  /* bytes in total, and those of probes among them */
  double waiting_bytes; /* the size of the next probe in bytes, which waits until the budget permits it */
  double
      fastest; /* The largest rate of all probes, in bit/s. A path may carry less than a link that nothing else uses. */
  struct by_path_probe last_probe;
  double last_probe_at, ends; /* in seconds; ends INFINITY: no probe is under way */
  uint32_t n_probes, changes;
  struct slow_probe slow_probes[MAX_SLOW_PROBES];
  uint32_t n_slow_probes;
  uint32_t n_steps;
  struct step steps[];
};

/* ---- Known rates. */

double by_refinement_rate(const struct by_refinement *refinement, uint32_t step) {
  return refinement->steps[step].rate;
}

uint32_t by_refinement_changes(const struct by_refinement *refinement) {
  return refinement->changes;
}

static bool is_open(const struct step *of) {
  return of->refines && of->sent < MAX_SENT && of->tries < (of->suspect ? MAX_TRIES : SETTLING);
}

static bool is_settled(const struct step *of) {
  return of->refines && of->tries >= SETTLING && !is_open(of);
}

void by_refinement_write(const struct by_refinement *refinement, struct by_topology *topology) {
  for (uint32_t l = 0; l < topology->n_links; l++) {
    struct by_link *link = &topology->links[l];
    const struct step *of = &refinement->steps[(size_t)2 * l];
    for (int direction = 0; direction < 2; direction++) {
      link->capacity[direction].all = of[direction].rate;
      link->capacity[direction].used = fmin(link->capacity[direction].used, of[direction].rate);
    }
    link->rough = link->rough && !(is_settled(&of[BY_AB]) && is_settled(&of[BY_BA]));
  }
}

static void set_rate(struct by_refinement *refinement, uint32_t step, double rate) {
  struct step *of = &refinement->steps[step];
  const struct by_topology *t = refinement->topology;
  const struct by_link *link = &t->links[step / 2];
  char before[32], after[32];
  rate = fmax(fmin(rate, BY_MAX_RATE), BY_MIN_RATE);
  by_info("plan", "from \"%s\" to \"%s\" the link carries %s, and not %s as was measured",
          t->nodes[step % 2 == BY_AB ? link->a : link->b].name, t->nodes[step % 2 == BY_AB ? link->b : link->a].name,
          by_print_rate(rate, after), by_print_rate(of->rate, before));
  of->rate = rate;
  of->tries = of->sent = of->row = 0;
  refinement->changes++;
}

/* ---- Calls. */

void by_refinement_count(struct by_refinement *refinement, double bytes) {
  if (bytes > 0) refinement->sent += bytes;
}

void by_refinement_saw(struct by_refinement *refinement, uint32_t step, double rate, double now) {
  struct step *of = &refinement->steps[step];
  if (!of->refines || rate < by_limit_as_stated * of->rate) return;
  if (now - of->last_call > by_limit_refine_timeout) of->row = 0;
  of->min_rate = of->row ? fmin(of->min_rate, rate) : rate;
  of->last_call = now;
  if (++of->row < IN_A_ROW) return;
  of->row = 0;
  if (of->min_rate > by_limit_more * of->rate)
    set_rate(refinement, step, of->min_rate);
  else if (of->tries < SETTLING)
    of->tries = SETTLING;
}

void by_refinement_settle(struct by_refinement *refinement, uint32_t step, double rate) {
  set_rate(refinement, step, rate);
  refinement->steps[step].tries = SETTLING;
}

/* ---- What probes show. */

static void remove_slow_probe(struct by_refinement *refinement, uint32_t i) {
  free(refinement->slow_probes[i].steps);
  memmove(&refinement->slow_probes[i], &refinement->slow_probes[i + 1],
          (--refinement->n_slow_probes - i) * sizeof *refinement->slow_probes);
}

/* Keeps a slow probe, and takes ownership of `steps`. */
static void add_slow_probe(struct by_refinement *refinement, uint32_t n, uint32_t *steps, double rate) {
  if (refinement->n_slow_probes == MAX_SLOW_PROBES) remove_slow_probe(refinement, 0);
  refinement->slow_probes[refinement->n_slow_probes++] = (struct slow_probe){n, steps, rate};
}

/* Whether the step may explain a slow probe. */
static bool may_explain(const struct by_refinement *refinement, uint32_t step, double rate) {
  const struct step *of = &refinement->steps[step];
  return of->refines && of->highest[0] < by_limit_more * rate;
}

static void record_blame(struct step *of, double rate) {
  of->min_blamed = of->blamed ? fmin(of->min_blamed, rate) : rate;
  of->max_blamed = of->blamed ? fmax(of->max_blamed, rate) : rate;
  of->blamed++;
}

/* Blames the links that may explain a slow probe. False: the probe is as slow as expected by now, or nothing explains
 * it. If all probes are that slow, the limit is that of one path, not of the links: hosts may have several links, or a
 * connection may use a whole core. */
static bool blame_links(struct by_refinement *refinement, const struct slow_probe *slow_probe) {
  uint32_t n = 0;
  bool told_apart = false;
  for (uint32_t i = 0; i < slow_probe->n; i++)
    if (slow_probe->rate > by_limit_less * refinement->steps[slow_probe->steps[i]].rate) return false;
  if (slow_probe->rate > by_limit_as_stated * refinement->fastest) return true;
  for (uint32_t i = 0; i < slow_probe->n; i++) {
    const struct step *of = &refinement->steps[slow_probe->steps[i]];
    bool maybe = may_explain(refinement, slow_probe->steps[i], slow_probe->rate);
    told_apart |= maybe && of->tries < INSEPARABLE;
    n += maybe;
  }
  for (uint32_t i = 0; i < slow_probe->n; i++) {
    struct step *of = &refinement->steps[slow_probe->steps[i]];
    if (!may_explain(refinement, slow_probe->steps[i], slow_probe->rate)) continue;
    of->suspect = true;
    if (n == 1 || !told_apart) record_blame(of, slow_probe->rate);
  }
  return n > 0;
}

/* Lowers all links that enough probes blame. Whether a rate has changed. */
static bool lower_blamed(struct by_refinement *refinement) {
  bool lowered = false;
  for (uint32_t s = 0; s < refinement->n_steps; s++) {
    refinement->steps[s].suspect = false;
    refinement->steps[s].blamed = 0;
  }
  for (uint32_t i = refinement->n_slow_probes; i-- > 0;)
    if (!blame_links(refinement, &refinement->slow_probes[i])) remove_slow_probe(refinement, i);
  for (uint32_t s = 0; s < refinement->n_steps; s++) {
    const struct step *of = &refinement->steps[s];
    if (of->blamed < BLAMED || of->min_blamed < by_limit_slower * of->max_blamed) continue;
    set_rate(refinement, s, of->max_blamed);
    lowered = true;
  }
  return lowered;
}

static void raise_rate(struct by_refinement *refinement, uint32_t step, double rate) {
  struct step *of = &refinement->steps[step];
  of->highest[1] = fmax(of->highest[1], fmin(of->highest[0], rate));
  of->highest[0] = fmax(of->highest[0], rate);
  if (of->refines && of->highest[1] > by_limit_more * of->rate) set_rate(refinement, step, of->highest[1]);
}

/* Whether a probe over a path with this smallest rate shows something about the step. */
static bool is_shown(const struct step *of, double min_rate) {
  return of->suspect || of->rate <= by_limit_error * min_rate;
}

static double get_min_rate(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n) {
  double min_rate = INFINITY;
  for (uint32_t i = 0; i < n; i++) min_rate = fmin(min_rate, refinement->steps[steps[i]].rate);
  return min_rate;
}

/* Evaluates a probe, and takes ownership of `steps`. */
static void evaluate_probe(struct by_refinement *refinement, uint32_t *steps, uint32_t n, double rate, bool alone) {
  double min_rate = get_min_rate(refinement, steps, n);
  refinement->fastest = fmax(refinement->fastest, rate);
  bool shows = rate > 0 && (alone || rate >= by_limit_as_stated * min_rate);
  for (uint32_t i = 0; i < n; i++) {
    struct step *of = &refinement->steps[steps[i]];
    if (!is_shown(of, min_rate)) continue;
    of->sent++;
    of->tries += shows;
  }
  for (uint32_t i = 0; i < n; i++) raise_rate(refinement, steps[i], rate);
  if (alone && rate > 0 && rate < by_limit_less * min_rate)
    add_slow_probe(refinement, n, steps, rate);
  else
    free(steps);
  while (lower_blamed(refinement)) continue;
}

bool by_refinement_probed(struct by_refinement *refinement, uint32_t from, uint32_t to, double rate, bool alone) {
  uint32_t *steps, n;
  bool ours = isfinite(refinement->ends) && from == refinement->last_probe.from && to == refinement->last_probe.to;
  if (!ours) return false;
  refinement->ends = INFINITY;
  if (by_path_cache_find(refinement->cache, from, to, &steps, &n)) evaluate_probe(refinement, steps, n, rate, alone);
  return true;
}

/* ---- The next probe. */

/* Rates how much a probe over the path would show; 0: it must not be sent, or shows nothing. A path over exactly one
 * suspect link tells that link from others. */
static uint32_t get_value(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n,
                          const bool *closed) {
  double min_rate = get_min_rate(refinement, steps, n);
  uint32_t value = 0, suspects = 0;
  for (uint32_t i = 0; i < n; i++) suspects += refinement->steps[steps[i]].suspect;
  for (uint32_t i = 0; i < n; i++) {
    const struct step *of = &refinement->steps[steps[i]];
    if (closed[steps[i]]) return 0;
    if (!is_open(of) || !is_shown(of, min_rate)) continue;
    uint32_t here = MAX_TRIES - of->tries + (refinement->topology->links[steps[i] / 2].rough ? MAX_TRIES : 0);
    value += of->suspect && suspects == 1 ? TELLS * here : here;
  }
  return value;
}

static void fill_probe(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n,
                       struct by_path_probe *out) {
  double trip = 0, bytes_per_s = get_min_rate(refinement, steps, n) / 8;
  for (uint32_t i = 0; i < n; i++) trip += 2 * refinement->topology->links[steps[i] / 2].delay;
  double within = fmax(by_limit_probe_first, by_limit_trips_to_speed * trip),
         lasts = fmax(by_limit_probe_second, by_limit_trips_to_measure * trip);
  lasts = fmin(lasts, by_limit_probe_bytes / (by_limit_second_part * bytes_per_s));
  double grown = trip > 0 ? by_limit_first_window * exp2(within / trip - 1) : INFINITY;
  out->first = (uint64_t)fmin(fmin(by_limit_first_part * within * bytes_per_s, grown), by_limit_probe_bytes);
  out->within = within;
  out->bytes = lasts >= by_limit_probe_second / 10 ? (uint64_t)(by_limit_second_part * bytes_per_s * lasts) : 0;
  out->lasts = lasts;
}

/* Chooses the pair of most value. Among equals it alternates, since other paths tell links apart. */
static bool choose_pair(const struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                        struct by_path_probe *out) {
  uint32_t best = 0;
  for (uint32_t k = 0; k < n * n; k++) {
    uint32_t at = (k + refinement->n_probes * (n + 2)) % (n * n), *steps, length;
    uint32_t from = nodes[at / n], to = nodes[at % n];
    if (from == to || !by_path_cache_find(refinement->cache, from, to, &steps, &length)) continue;
    uint32_t value = get_value(refinement, steps, length, closed);
    if (value > best) {
      best = value;
      *out = (struct by_path_probe){.from = from, .to = to};
      fill_probe(refinement, steps, length, out);
    }
    free(steps);
  }
  return best > 0 && out->bytes > 0;
}

static double get_budget(const struct by_refinement *refinement) {
  return by_limit_trace / (1 + by_limit_trace) * refinement->sent - refinement->probes;
}

bool by_refinement_next(struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                        double now, struct by_path_probe *out) {
  if (now < refinement->last_probe_at + by_limit_refine_period || get_budget(refinement) <= 0 ||
      get_budget(refinement) < refinement->waiting_bytes)
    return false;
  if (isfinite(refinement->ends) && now < refinement->ends + by_limit_refine_timeout) return false;
  refinement->ends = INFINITY;
  refinement->waiting_bytes = 0;
  refinement->last_probe_at = now;
  if (!choose_pair(refinement, nodes, n, closed, out)) {
    refinement->last_probe_at -= by_limit_refine_period * 3 / 4;
    return false;
  }
  double bytes = (double)(out->first + out->bytes);
  if (get_budget(refinement) < bytes) {
    refinement->waiting_bytes = bytes;
    refinement->last_probe_at = -INFINITY;
    return false;
  }
  refinement->probes += bytes;
  refinement->last_probe = *out;
  refinement->ends = now + out->within + out->lasts;
  refinement->n_probes++;
  return true;
}

/* ---- Creation and destruction. */

enum banyan_status by_refinement_create(const struct by_topology *topology, struct by_path_cache *cache, bool measured,
                                        struct by_refinement **out) {
  uint32_t n = 2 * topology->n_links;
  struct by_refinement *refinement = calloc(1, sizeof *refinement + n * sizeof *refinement->steps);
  *out = refinement;
  if (!refinement) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u links carry", topology->n_links);
  refinement->topology = topology;
  refinement->cache = cache;
  refinement->ends = INFINITY;
  refinement->last_probe_at = -INFINITY;
  refinement->n_steps = n;
  for (uint32_t s = 0; s < n; s++) {
    const struct by_link *link = &topology->links[s / 2];
    refinement->steps[s] = (struct step){.rate = link->capacity[s % 2].all, .refines = measured || link->rough};
  }
  return BANYAN_OK;
}

void by_refinement_destroy(struct by_refinement *refinement) {
  if (!refinement) return;
  while (refinement->n_slow_probes) remove_slow_probe(refinement, refinement->n_slow_probes - 1);
  free(refinement);
}
