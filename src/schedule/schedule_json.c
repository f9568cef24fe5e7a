/* A schedule as JSON, for programs; docs/schedule.md lists the fields. Ranks, not indices of peers. */
#include "schedule.h"

static const char *const buffer_names[BY_BUFFERS] = {"send", "recv", "tmp"};

static void add_pieces(const char *field, uint32_t first, uint32_t last, struct by_text *text) {
  by_text_add(text, ", \"%s\": [%u, %u]", field, first, last - 1);
}

/* [[rank, tag], ...] */
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
  static const char *const kinds[] = {"send", "receive", "reduce", "copy"};
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
