/* Prints schedules as text and as JSON. */
#include "schedule.h"

static const char *const buffer_names[BY_BUFFERS] = {"send", "recv", "tmp"};
static const char *const kinds[] = {"send", "receive", "reduce", "copy"};

static void print_pieces(const char *name, uint32_t first, uint32_t last, struct by_text *text) {
  if (last == first + 1)
    by_text_add(text, "%s[%u]", name, first);
  else
    by_text_add(text, "%s[%u..%u]", name, first, last - 1);
}

static const char *get_kind(const struct by_schedule *schedule, uint32_t rank) {
  return rank < schedule->n_ranks ? "rank" : "vertex";
}

static void print_in(const struct by_schedule *schedule, uint32_t in, struct by_text *text) {
  const struct by_incoming *incoming = &schedule->incoming[in];
  uint32_t rank = schedule->peers[incoming->peer].rank;
  by_text_add(text, "%s %u #%u", get_kind(schedule, rank), rank, incoming->tag);
}

static void print_reduce(const struct by_schedule *schedule, const struct by_step *step, struct by_text *text) {
  print_pieces(buffer_names[step->to], step->first, step->last, text);
  for (uint32_t i = 0; i < step->n_in + (step->own != BY_NO_OWN); i++) {
    by_text_add(text, i ? " + " : " = ");
    if (i == step->own)
      print_pieces(buffer_names[step->from], step->first, step->last, text);
    else
      print_in(schedule, step->in + i - (i > step->own), text);
  }
}

static void print_step(const struct by_schedule *schedule, const struct by_step *step, struct by_text *text) {
  by_text_add(text, "%4u  %-8s", step->level, kinds[step->kind]);
  switch (step->kind) {
  case BY_STEP_SEND:
    print_pieces(buffer_names[step->from], step->from_first, step->from_first + step->last - step->first, text);
    by_text_add(text, " to %s %u #%u", get_kind(schedule, schedule->peers[step->peer].rank),
                schedule->peers[step->peer].rank, step->tag);
    if (step->copied) by_text_add(text, ", copied");
    break;
  case BY_STEP_RECEIVE:
    print_pieces(buffer_names[step->to], step->first, step->last, text);
    by_text_add(text, " = ");
    print_in(schedule, step->in, text);
    break;
  case BY_STEP_REDUCE: print_reduce(schedule, step, text); break;
  case BY_STEP_COPY:
    if (step->from == step->to && !step->divide) {
      print_pieces("join ", step->first, step->last, text);
      break;
    }
    print_pieces(buffer_names[step->to], step->first, step->last, text);
    by_text_add(text, " = ");
    print_pieces(buffer_names[step->from], step->from_first, step->from_first + step->last - step->first, text);
    break;
  }
  if (step->divide) by_text_add(text, ", divide");
  for (uint32_t i = 0; i < step->n_dep; i++)
    by_text_add(text, "%s %u", i ? "," : ", after", schedule->deps[step->dep + i]);
  by_text_add(text, "\n");
}

void by_schedule_print(const struct by_schedule *schedule, struct by_text *text) {
  by_text_add(text, "%s, %s %u of %u: %u pieces, %u peers, %u messages in, %u steps%s\n",
              banyan_collective_name(schedule->collective), get_kind(schedule, schedule->rank), schedule->rank,
              schedule->n_ranks, schedule->n_pieces, schedule->n_peers, schedule->n_incoming, schedule->n_steps,
              schedule->needs_tmp ? ", scratch" : "");
  by_text_add(text, "step level\n");
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    by_text_add(text, "%4u  ", i);
    print_step(schedule, &schedule->steps[i], text);
  }
}

/* --- JSON for programs; docs/schedule.md lists the fields. It has ranks, not indices of peers. --- */

static void add_pieces(const char *field, uint32_t first, uint32_t last, struct by_text *text) {
  by_text_add(text, ", \"%s\": [%u, %u]", field, first, last - 1);
}

/* Adds [[rank, tag], ...]. */
static void add_incoming(const struct by_schedule *schedule, const struct by_step *step, struct by_text *text) {
  if (!step->n_in) return;
  by_text_add(text, ", \"takes\": [");
  for (uint32_t i = step->in; i < step->in + step->n_in; i++) {
    const struct by_incoming *in = &schedule->incoming[i];
    by_text_add(text, "%s[%u, %u]", i > step->in ? ", " : "", schedule->peers[in->peer].rank, in->tag);
  }
  by_text_add(text, "]");
}

static void add_deps(const struct by_schedule *schedule, const struct by_step *step, struct by_text *text) {
  if (!step->n_dep) return;
  by_text_add(text, ", \"after\": [");
  for (uint32_t i = 0; i < step->n_dep; i++) by_text_add(text, "%s%u", i ? ", " : "", schedule->deps[step->dep + i]);
  by_text_add(text, "]");
}

static void add_step(const struct by_schedule *schedule, const struct by_step *step, struct by_text *text) {
  by_text_add(text, "{\"kind\": \"%s\", \"level\": %u", kinds[step->kind], step->level);
  if (step->kind != BY_STEP_RECEIVE && (step->kind != BY_STEP_REDUCE || step->own != BY_NO_OWN))
    by_text_add(text, ", \"from\": \"%s\"", buffer_names[step->from]);
  if (step->kind != BY_STEP_SEND) by_text_add(text, ", \"to\": \"%s\"", buffer_names[step->to]);
  add_pieces("pieces", step->first, step->last, text);
  if (step->kind == BY_STEP_SEND)
    by_text_add(text, ", \"rank\": %u, \"tag\": %u", schedule->peers[step->peer].rank, step->tag);
  if (step->copied) by_text_add(text, ", \"copied\": true");
  add_incoming(schedule, step, text);
  if (step->kind == BY_STEP_REDUCE && step->own != BY_NO_OWN) by_text_add(text, ", \"own\": %u", step->own);
  if (step->divide) by_text_add(text, ", \"divide\": true");
  add_deps(schedule, step, text);
  by_text_add(text, "}");
}

void by_schedule_print_json(const struct by_schedule *schedule, struct by_text *text) {
  by_text_add(text,
              "{\"collective\": \"%s\", \"rank\": %u, \"ranks\": %u, \"root\": %u, \"plan\": \"%08x\", "
              "\"pieces\": %u, \"scratch\": %s, \"steps\": [",
              banyan_collective_name(schedule->collective), schedule->rank, schedule->n_ranks, schedule->root,
              schedule->plan_version, schedule->n_pieces, schedule->needs_tmp ? "true" : "false");
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    if (i) by_text_add(text, ", ");
    add_step(schedule, &schedule->steps[i], text);
  }
  by_text_add(text, "]}");
}
