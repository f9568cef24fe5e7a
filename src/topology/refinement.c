#include "refinement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const double part_of_bytes = 0.02; /* that probes may have */
static const double more = 1.15;          /* times what is known: the link carries more */
static const double less = 0.8;           /* of it: some link of the way carries less */
static const double agrees = 0.9;         /* of it: the link carries that */
static const double alike = 0.85;         /* of the most of several rates: they agree */
static const double narrow = 1.1;         /* times the least of a way: the link may be the narrowest */
static const double apart = 1;            /* s from one probe to the next, */
static const double looks_again = 0.2;   /* and until it is looked again if there is none now: soon after calls pause */
static const double row_within = 5;      /* s from one look at calls to the next of a row */
static const double answers_in = 5;      /* s after its end, or a probe is lost */
static const double first_part = 0.25;   /* of what the way carries, in the time of the first part: */
static const double first_lasts = 0.05;  /* s */
static const double first_trips = 8;     /* and so many round trips at least, in which TCP's window grows, */
static const double first_window = 10e3; /* bytes, to twice as much in each; half of the last one is taken */
static const double lasts_trips = 4;     /* the second part: round trips */
static const double probe_lasts = 0.1;   /* and s at least, */
static const double probe_rate = 1.5;    /* times what the way carries, so that more can be seen, */
static const double most_bytes = 256e6;  /* but at most so many bytes; then it is shorter, */
static const double least_lasts = 0.01;  /* s: shorter ones show nothing */

enum {
  IN_A_ROW = 3, /* looks at calls */
  LEAST = 2,    /* probes over a link, until it is settled */
  MANY = 4,     /* if no probe could tell links of a way apart, all of them carry less */
  MOST = 6,     /* more show nothing new */
  MOST_SENT = 12,
  TELLS = 3,     /* times the value of a probe that does not tell links apart */
  BLAMED = 3,    /* probes that agree on less */
  MOST_LOWS = 64 /* probes that took less than their ways should, kept */
};

struct step {
  bool refines;
  bool suspect;   /* it may be why a probe was slow */
  double rate;    /* bit/s */
  double most[2]; /* of all probes over it, the most first */
  uint32_t tries; /* that showed something, since the rate last changed; */
  uint32_t sent;  /* and all of them */
  uint32_t row;   /* looks at calls that filled it, */
  double least;   /* bit/s: the least of them, */
  double looked;  /* s: and when that was */
  uint32_t blamed;
  double low, high; /* of the probes that blame it */
};

/* A probe that took less than its way should. */
struct low {
  uint32_t n, *steps;
  double rate;
};

struct by_refinement {
  const struct by_topology *topology;
  struct by_link_ways *ways;
  double sent, probes; /* bytes; probes are part of what was sent */
  double wanted;       /* bytes, of the next probe */
  double fastest;      /* bit/s, of all probes: a path may carry less than a link on which it is alone */
  struct by_path_probe asked;
  double asked_at, ends; /* s; ends INFINITY: none is under way */
  uint32_t n_asked, changes;
  struct low lows[MOST_LOWS];
  uint32_t n_lows;
  uint32_t n_steps;
  struct step steps[];
};

/* ---- what is known */

double by_refinement_rate(const struct by_refinement *refinement, uint32_t step) {
  return refinement->steps[step].rate;
}

uint32_t by_refinement_changes(const struct by_refinement *refinement) {
  return refinement->changes;
}

static bool is_open(const struct step *of) {
  return of->refines && of->sent < MOST_SENT && of->tries < (of->suspect ? MOST : LEAST);
}

static bool is_settled(const struct step *of) {
  return of->refines && of->tries >= LEAST && !is_open(of);
}

void by_refinement_write(const struct by_refinement *refinement, struct by_topology *topology) {
  for (uint32_t l = 0; l < topology->n_links; l++) {
    struct by_link *link = &topology->links[l];
    const struct step *of = &refinement->steps[(size_t)2 * l];
    for (int way = 0; way < 2; way++) {
      link->capacity[way].all = of[way].rate;
      link->capacity[way].used = fmin(link->capacity[way].used, of[way].rate);
    }
    link->rough = link->rough && !(is_settled(&of[BY_AB]) && is_settled(&of[BY_BA]));
  }
}

static void set_rate(struct by_refinement *refinement, uint32_t step, double rate) {
  struct step *of = &refinement->steps[step];
  const struct by_topology *t = refinement->topology;
  const struct by_link *link = &t->links[step / 2];
  char before[32], after[32];
  rate = fmax(fmin(rate, BY_MOST_RATE), BY_LEAST_RATE);
  by_info("plan", "from \"%s\" to \"%s\" the link carries %s, and not %s as was measured",
          t->nodes[step % 2 == BY_AB ? link->a : link->b].name, t->nodes[step % 2 == BY_AB ? link->b : link->a].name,
          by_print_rate(rate, after), by_print_rate(of->rate, before));
  of->rate = rate;
  of->tries = of->sent = of->row = 0;
  refinement->changes++;
}

/* ---- calls */

void by_refinement_count(struct by_refinement *refinement, double bytes) {
  if (bytes > 0) refinement->sent += bytes;
}

void by_refinement_saw(struct by_refinement *refinement, uint32_t step, double rate, double now) {
  struct step *of = &refinement->steps[step];
  if (!of->refines || rate < agrees * of->rate) return;
  if (now - of->looked > row_within) of->row = 0;
  of->least = of->row ? fmin(of->least, rate) : rate;
  of->looked = now;
  if (++of->row < IN_A_ROW) return;
  of->row = 0;
  if (of->least > more * of->rate)
    set_rate(refinement, step, of->least);
  else if (of->tries < LEAST)
    of->tries = LEAST;
}

void by_refinement_settle(struct by_refinement *refinement, uint32_t step, double rate) {
  set_rate(refinement, step, rate);
  refinement->steps[step].tries = LEAST;
}

/* ---- what probes show */

static void drop_low(struct by_refinement *refinement, uint32_t i) {
  free(refinement->lows[i].steps);
  memmove(&refinement->lows[i], &refinement->lows[i + 1], (--refinement->n_lows - i) * sizeof *refinement->lows);
}

/* Takes over the steps. */
static void add_low(struct by_refinement *refinement, uint32_t n, uint32_t *steps, double rate) {
  if (refinement->n_lows == MOST_LOWS) drop_low(refinement, 0);
  refinement->lows[refinement->n_lows++] = (struct low){n, steps, rate};
}

/* It may be why the probe was slow. */
static bool may_be_it(const struct by_refinement *refinement, uint32_t step, double rate) {
  const struct step *of = &refinement->steps[step];
  return of->refines && of->most[0] < more * rate;
}

static void blame(struct step *of, double rate) {
  of->low = of->blamed ? fmin(of->low, rate) : rate;
  of->high = of->blamed ? fmax(of->high, rate) : rate;
  of->blamed++;
}

/* False: it is as slow as it should be by now, or nothing can be why. Where all probes are as slow, it is not the
 * links, but what one path can carry, as where hosts have several links, or a connection takes a whole core. */
static bool look_into(struct by_refinement *refinement, const struct low *low) {
  uint32_t n = 0;
  bool told_apart = false;
  for (uint32_t i = 0; i < low->n; i++)
    if (low->rate > less * refinement->steps[low->steps[i]].rate) return false;
  if (low->rate > agrees * refinement->fastest) return true;
  for (uint32_t i = 0; i < low->n; i++) {
    const struct step *of = &refinement->steps[low->steps[i]];
    bool maybe = may_be_it(refinement, low->steps[i], low->rate);
    told_apart |= maybe && of->tries < MANY;
    n += maybe;
  }
  for (uint32_t i = 0; i < low->n; i++) {
    struct step *of = &refinement->steps[low->steps[i]];
    if (!may_be_it(refinement, low->steps[i], low->rate)) continue;
    of->suspect = true;
    if (n == 1 || !told_apart) blame(of, low->rate);
  }
  return n > 0;
}

/* Whether a rate has changed. */
static bool lower(struct by_refinement *refinement) {
  bool lowered = false;
  for (uint32_t s = 0; s < refinement->n_steps; s++) {
    refinement->steps[s].suspect = false;
    refinement->steps[s].blamed = 0;
  }
  for (uint32_t i = refinement->n_lows; i-- > 0;)
    if (!look_into(refinement, &refinement->lows[i])) drop_low(refinement, i);
  for (uint32_t s = 0; s < refinement->n_steps; s++) {
    const struct step *of = &refinement->steps[s];
    if (of->blamed < BLAMED || of->low < alike * of->high) continue;
    set_rate(refinement, s, of->high);
    lowered = true;
  }
  return lowered;
}

static void raise(struct by_refinement *refinement, uint32_t step, double rate) {
  struct step *of = &refinement->steps[step];
  of->most[1] = fmax(of->most[1], fmin(of->most[0], rate));
  of->most[0] = fmax(of->most[0], rate);
  if (of->refines && of->most[1] > more * of->rate) set_rate(refinement, step, of->most[1]);
}

/* Whether a probe over a way that carries `least` shows something of it. */
static bool is_shown(const struct step *of, double least) {
  return of->suspect || of->rate <= narrow * least;
}

static double least_of(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n) {
  double least = INFINITY;
  for (uint32_t i = 0; i < n; i++) least = fmin(least, refinement->steps[steps[i]].rate);
  return least;
}

/* Takes over the steps. */
static void take(struct by_refinement *refinement, uint32_t *steps, uint32_t n, double rate, bool alone) {
  double least = least_of(refinement, steps, n);
  refinement->fastest = fmax(refinement->fastest, rate);
  bool shows = rate > 0 && (alone || rate >= agrees * least);
  for (uint32_t i = 0; i < n; i++) {
    struct step *of = &refinement->steps[steps[i]];
    if (!is_shown(of, least)) continue;
    of->sent++;
    of->tries += shows;
  }
  for (uint32_t i = 0; i < n; i++) raise(refinement, steps[i], rate);
  if (alone && rate > 0 && rate < less * least)
    add_low(refinement, n, steps, rate);
  else
    free(steps);
  while (lower(refinement)) continue;
}

bool by_refinement_probed(struct by_refinement *refinement, uint32_t from, uint32_t to, double rate, bool alone) {
  uint32_t *steps, n;
  bool ours = isfinite(refinement->ends) && from == refinement->asked.from && to == refinement->asked.to;
  if (!ours) return false;
  refinement->ends = INFINITY;
  if (by_link_ways_find(refinement->ways, from, to, &steps, &n)) take(refinement, steps, n, rate, alone);
  return true;
}

/* ---- the next one */

/* How much a probe over the way would show; 0: it must not be sent, or shows nothing. One that is over one link that
 * may be slow, and not over several, tells it from others. */
static uint32_t value_of(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n,
                         const bool *closed) {
  double least = least_of(refinement, steps, n);
  uint32_t value = 0, suspects = 0;
  for (uint32_t i = 0; i < n; i++) suspects += refinement->steps[steps[i]].suspect;
  for (uint32_t i = 0; i < n; i++) {
    const struct step *of = &refinement->steps[steps[i]];
    if (closed[steps[i]]) return 0;
    if (!is_open(of) || !is_shown(of, least)) continue;
    uint32_t here = MOST - of->tries + (refinement->topology->links[steps[i] / 2].rough ? MOST : 0);
    value += of->suspect && suspects == 1 ? TELLS * here : here;
  }
  return value;
}

static void describe(const struct by_refinement *refinement, const uint32_t *steps, uint32_t n,
                     struct by_path_probe *out) {
  double trip = 0, bytes_per_s = least_of(refinement, steps, n) / 8;
  for (uint32_t i = 0; i < n; i++) trip += 2 * refinement->topology->links[steps[i] / 2].delay;
  double within = fmax(first_lasts, first_trips * trip), lasts = fmax(probe_lasts, lasts_trips * trip);
  lasts = fmin(lasts, most_bytes / (probe_rate * bytes_per_s));
  double grown = trip > 0 ? first_window * exp2(within / trip - 1) : INFINITY;
  out->first = (uint64_t)fmin(fmin(first_part * within * bytes_per_s, grown), most_bytes);
  out->within = within;
  out->bytes = lasts >= least_lasts ? (uint64_t)(probe_rate * bytes_per_s * lasts) : 0;
  out->lasts = lasts;
}

/* Of pairs that show as much, another one each time: links of a way are told apart by other ways. */
static bool choose(const struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                   struct by_path_probe *out) {
  uint32_t best = 0;
  for (uint32_t k = 0; k < n * n; k++) {
    uint32_t at = (k + refinement->n_asked * (n + 2)) % (n * n), *steps, length;
    uint32_t from = nodes[at / n], to = nodes[at % n];
    if (from == to || !by_link_ways_find(refinement->ways, from, to, &steps, &length)) continue;
    uint32_t value = value_of(refinement, steps, length, closed);
    if (value > best) {
      best = value;
      *out = (struct by_path_probe){.from = from, .to = to};
      describe(refinement, steps, length, out);
    }
    free(steps);
  }
  return best > 0 && out->bytes > 0;
}

static double left(const struct by_refinement *refinement) {
  return part_of_bytes / (1 + part_of_bytes) * refinement->sent - refinement->probes;
}

bool by_refinement_next(struct by_refinement *refinement, const uint32_t *nodes, uint32_t n, const bool *closed,
                        double now, struct by_path_probe *out) {
  if (now < refinement->asked_at + apart || left(refinement) <= 0 || left(refinement) < refinement->wanted)
    return false;
  if (isfinite(refinement->ends) && now < refinement->ends + answers_in) return false;
  refinement->ends = INFINITY;
  refinement->wanted = 0;
  refinement->asked_at = now;
  if (!choose(refinement, nodes, n, closed, out)) {
    refinement->asked_at -= apart - looks_again;
    return false;
  }
  double bytes = (double)(out->first + out->bytes);
  if (left(refinement) < bytes) {
    refinement->wanted = bytes;
    refinement->asked_at = -INFINITY;
    return false;
  }
  refinement->probes += bytes;
  refinement->asked = *out;
  refinement->ends = now + out->within + out->lasts;
  refinement->n_asked++;
  return true;
}

/* ---- beginning and end */

enum banyan_status by_refinement_create(const struct by_topology *topology, struct by_link_ways *ways, bool measured,
                                        struct by_refinement **out) {
  uint32_t n = 2 * topology->n_links;
  struct by_refinement *refinement = calloc(1, sizeof *refinement + n * sizeof *refinement->steps);
  *out = refinement;
  if (!refinement) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what %u links carry", topology->n_links);
  refinement->topology = topology;
  refinement->ways = ways;
  refinement->ends = INFINITY;
  refinement->asked_at = -INFINITY;
  refinement->n_steps = n;
  for (uint32_t s = 0; s < n; s++) {
    const struct by_link *link = &topology->links[s / 2];
    refinement->steps[s] = (struct step){.rate = link->capacity[s % 2].all, .refines = measured || link->rough};
  }
  return BANYAN_OK;
}

void by_refinement_destroy(struct by_refinement *refinement) {
  if (!refinement) return;
  while (refinement->n_lows) drop_low(refinement, refinement->n_lows - 1);
  free(refinement);
}
