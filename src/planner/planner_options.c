/* Parses the options of the planner. */
#include "planner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static const char *const names[] = {
#define NAME(key, name, ...) name,
    BY_PLANNER_KEYS(NAME)
#undef NAME
};

enum { MAX_TREES = 1024, MAX_SEED = 1 << 30 };

/* The texts that are parsed, and the prefix of names in errors. */
struct parsing {
  const struct by_planner_texts *texts;
  const char *before;
};

static const char *get_text(const struct parsing *r, enum by_planner_key key) {
  return r->texts->of[key];
}

/* --- Kinds of values. Each function leaves *out unchanged if nothing is given. --- */

static enum banyan_status read_int(const struct parsing *r, enum by_planner_key key, long min, long max, long *out) {
  char what[64];
  if (!get_text(r, key)) return BANYAN_OK;
  snprintf(what, sizeof what, "%s%s", r->before, names[key]);
  return by_parse_int(what, get_text(r, key), min, max, out) == BANYAN_OK ? BANYAN_OK : BANYAN_ERR_ARGUMENT;
}

/* Parses one of the words of "few|exact" into its index. */
static enum banyan_status read_choice(const struct parsing *r, enum by_planner_key key, const char *words, int *out) {
  const char *text = get_text(r, key);
  int choice = text ? by_find_choice(words, text) : *out;
  if (choice >= 0) {
    *out = choice;
    return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_ARGUMENT, "%s%s: \"%.32s\" is not one of %s", r->before, names[key], text, words);
}

static enum banyan_status read_height(const struct parsing *r, struct by_planner_options *options) {
  const char *text = get_text(r, BY_PLANNER_MAX_HEIGHT), *name = names[BY_PLANNER_MAX_HEIGHT];
  long hops;
  int metric = 0;
  BY_TRY(read_choice(r, BY_PLANNER_HEIGHT_METRIC, BY_PLANNER_METRICS, &metric));
  options->by_delay = metric == 1;
  if (!text) return BANYAN_OK;
  if (options->by_delay) {
    if (by_parse_seconds(text, &options->max_height) == BANYAN_OK && options->max_height > 0) return BANYAN_OK;
    return by_fail(BANYAN_ERR_ARGUMENT, "%s%s is \"%.32s\"; by delay it is a time above 0 such as 20ms", r->before,
                   name, text);
  }
  if (by_parse_int(name, text, 1, BY_PLAN_MAX_VERTICES, &hops) != BANYAN_OK)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s%s is \"%.32s\"; it is a number of hops, 1 to %d, or a time with %s%s delay",
                   r->before, name, text, BY_PLAN_MAX_VERTICES, r->before, names[BY_PLANNER_HEIGHT_METRIC]);
  options->max_height = (double)hops;
  return BANYAN_OK;
}

static enum banyan_status read_rate(const struct parsing *r, double *out) {
  const char *text = get_text(r, BY_PLANNER_MIN_RATE);
  if (!text || by_parse_rate(text, out) == BANYAN_OK) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "%s%s: \"%.32s\" is not a rate in bit/s such as 10g, 200m or 9600", r->before,
                 names[BY_PLANNER_MIN_RATE], text);
}

static enum banyan_status read_tolerance(const struct parsing *r, double *out) {
  const char *text = get_text(r, BY_PLANNER_TOLERANCE);
  if (!text) return BANYAN_OK;
  char *end;
  double value = strtod(text, &end);
  if (end != text && *end == '%' && !end[1])
    value /= 100;
  else if (end == text || *end)
    value = NAN;
  if (!(value >= 0 && value < 1))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s%s is \"%.32s\"; it is a part of the throughput, such as 0.05 or 5%%",
                   r->before, names[BY_PLANNER_TOLERANCE], text);
  *out = value;
  return BANYAN_OK;
}

static enum banyan_status read_penalty(const struct parsing *r, double *out) {
  const char *text = get_text(r, BY_PLANNER_TREE_PENALTY);
  if (!text) return BANYAN_OK;
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0 && value <= 1))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s%s is \"%.32s\"; it is a part of the least time, from 0 to 1, such as 0.01",
                   r->before, names[BY_PLANNER_TREE_PENALTY], text);
  *out = value;
  return BANYAN_OK;
}

/* --- All options. --- */

static enum banyan_status read_cluster(const struct parsing *r, struct by_planner_options *options) {
  const char *ways = get_text(r, BY_PLANNER_WAYS);
  long steps = options->steps;
  bool given = ways || get_text(r, BY_PLANNER_TREE_PENALTY) || get_text(r, BY_PLANNER_STEPS);
  if (given && options->method != BY_PLANNER_CLUSTER)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s%s, %s%s and %s%s are for %s%s cluster", r->before, names[BY_PLANNER_WAYS],
                   r->before, names[BY_PLANNER_TREE_PENALTY], r->before, names[BY_PLANNER_STEPS], r->before,
                   names[BY_PLANNER_METHOD]);
  if (ways && by_plan_methods_parse(ways, &options->allowed) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "%s%s", r->before, names[BY_PLANNER_WAYS]);
  BY_TRY(read_penalty(r, &options->penalty));
  BY_TRY(read_int(r, BY_PLANNER_STEPS, 1, BY_EMBED_MAX_STEPS, &steps));
  options->steps = (uint32_t)steps;
  return BANYAN_OK;
}

static enum banyan_status read_control(const struct parsing *r, struct by_planner_options *options) {
  struct by_control_limits *limits = &options->control;
  const char *text = get_text(r, BY_PLANNER_CONTROL_DISTANCE);
  long fan_out = 0, height = 0, links = 0;
  BY_TRY(read_int(r, BY_PLANNER_FAN_OUT, 1, BY_PLAN_MAX_VERTICES, &fan_out));
  BY_TRY(read_int(r, BY_PLANNER_CONTROL_HEIGHT, 1, BY_PLAN_MAX_VERTICES, &height));
  *limits = (struct by_control_limits){
      .fan_out = (uint32_t)fan_out, .height = (uint32_t)height, .by_delay = options->by_delay};
  if (!text || !options->by_delay) {
    BY_TRY(read_int(r, BY_PLANNER_CONTROL_DISTANCE, 1, UINT16_MAX, &links));
    limits->distance = (double)links;
  } else if (by_parse_seconds(text, &limits->distance) != BANYAN_OK) {
    return by_fail_within(BANYAN_ERR_ARGUMENT, "%s%s", r->before, names[BY_PLANNER_CONTROL_DISTANCE]);
  }
  return BANYAN_OK;
}

static void choose_weighing(const struct parsing *r, struct by_planner_options *options) {
  bool limited = get_text(r, BY_PLANNER_MAX_HEIGHT) || get_text(r, BY_PLANNER_MIN_RATE);
  bool as_manager = get_text(r, BY_PLANNER_METHOD) && options->method == BY_PLANNER_CLUSTER;
  if (limited || (get_text(r, BY_PLANNER_METHOD) && !as_manager))
    options->weighing = BY_PLANNER_WEIGH_NONE;
  else if (as_manager || get_text(r, BY_PLANNER_TREES) || get_text(r, BY_PLANNER_TOLERANCE))
    options->weighing = BY_PLANNER_WEIGH_SMALL;
}

enum banyan_status by_planner_options_read(const struct by_planner_texts *texts, const char *before,
                                           struct by_planner_options *options) {
  const struct parsing r = {.texts = texts, .before = before};
  const char *cost = texts->of[BY_PLANNER_COST];
  long trees = options->max_trees, seed = (long)options->seed;
  int method = (int)options->method;
  BY_TRY(read_choice(&r, BY_PLANNER_METHOD, BY_PLANNER_METHODS, &method));
  options->method = (enum by_planner_method)method;
  choose_weighing(&r, options);
  BY_TRY(read_int(&r, BY_PLANNER_TREES, 1, MAX_TREES, &trees));
  options->max_trees = (uint32_t)trees;
  BY_TRY(read_int(&r, BY_PLANNER_SEED, 0, MAX_SEED, &seed));
  options->seed = (uint64_t)seed;
  if (cost && by_cost_parse(cost, &options->rates) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "%s%s", before, names[BY_PLANNER_COST]);
  BY_TRY(read_cluster(&r, options));
  BY_TRY(read_rate(&r, &options->min_rate));
  BY_TRY(read_tolerance(&r, &options->tolerance));
  BY_TRY(read_height(&r, options));
  return read_control(&r, options);
}

/* --- From one text. --- */

/* Parses the first item of the rest. The texts point into it. */
static enum banyan_status take_item(char **rest, struct by_planner_texts *texts) {
  char *value;
  size_t key;
  BY_TRY(by_take_pair(rest, names, BY_PLANNER_N_KEYS, "trees=8", &key, &value));
  if (texts->of[key]) return by_fail(BANYAN_ERR_ARGUMENT, "%s is given twice", names[key]);
  bool list = key == BY_PLANNER_WAYS || key == BY_PLANNER_COST;
  for (char *c = value; list && *c; c++)
    if (*c == '+') *c = ',';
  texts->of[key] = value;
  return BANYAN_OK;
}

/* Parses a text. `given` is set to whether each key is in the text. */
static enum banyan_status parse_text(const char *text, struct by_planner_options *options,
                                     bool given[BY_PLANNER_N_KEYS]) {
  struct by_planner_texts texts = {0};
  enum banyan_status status = BANYAN_OK;
  char *copy = strdup(text ? text : ""), *rest = text ? copy : NULL;
  if (!copy) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for settings of the planner");
  for (uint32_t number = 1; status == BANYAN_OK && rest; number++) {
    status = take_item(&rest, &texts);
    if (status != BANYAN_OK) status = by_fail_within(status, "item %u", number);
  }
  if (status == BANYAN_OK) status = by_planner_options_read(&texts, "", options);
  for (uint32_t key = 0; key < BY_PLANNER_N_KEYS; key++) given[key] = texts.of[key];
  free(copy);
  return status;
}

enum banyan_status by_planner_options_parse(const char *text, struct by_planner_options *options) {
  bool given[BY_PLANNER_N_KEYS];
  return parse_text(text, options, given);
}

enum banyan_status by_planner_managed_parse(const char *text, struct by_planner_managed *out) {
  struct by_planner_options options = by_planner_defaults();
  bool given[BY_PLANNER_N_KEYS];
  *out = (struct by_planner_managed){0};
  BY_TRY(parse_text(text, &options, given));
  if (options.method != BY_PLANNER_CLUSTER) return BANYAN_OK;
  if (given[BY_PLANNER_WAYS]) out->ways = options.allowed;
  if (given[BY_PLANNER_TREE_PENALTY]) out->tree_penalty = options.penalty;
  if (given[BY_PLANNER_STEPS]) out->steps = options.steps;
  if (given[BY_PLANNER_TREES]) out->trees = options.max_trees;
  return BANYAN_OK;
}
