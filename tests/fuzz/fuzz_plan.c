/* Arbitrary bytes as a plan file. A plan that can be read is valid, is the same when it is printed and read again, can
 * be drawn, and can be compiled if it is small. */
#include <stdint.h>
#include <stdlib.h>

#include "plan.h"
#include "plan_topology.h"
#include "schedule.h"
#include "switched_tree.h"
#include "text.h"

enum { MOST_COMPILED = 16, MOST_DRAWN = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
  if (!condition) abort();
}

static void print_and_parse(const struct by_plan *plan) {
  struct by_plan *again;
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan, &text);
  require(!text.failed);
  require(by_plan_parse("again", by_text_get(&text), text.length, &again) == BANYAN_OK);
  require(again->version == plan->version);
  by_plan_destroy(again);
  by_text_fini(&text);
}

static void draw(const struct by_plan *plan) {
  struct by_text text;
  by_text_init(&text);
  require(by_plan_draw(plan, &text) == BANYAN_OK && !text.failed);
  by_text_fini(&text);
  for (uint32_t i = 0; i < plan->n_classes && plan->n_vertices <= MOST_DRAWN; i++) {
    const struct by_svg_request request = {.path = "/dev/null", .bytes = plan->classes[i].up_to, .tree = -1};
    require(by_plan_write_svg(&request, plan, NULL) == BANYAN_OK);
  }
}

static void compile(const struct by_plan *plan) {
  struct by_schedule *schedule;
  for (uint32_t i = 0; i < plan->n_classes && plan->n_ranks <= MOST_COMPILED; i++) {
    if (by_schedule_compile(plan, &plan->classes[i], BANYAN_ALLREDUCE, 0, plan->n_ranks - 1, &schedule) == BANYAN_OK)
      by_schedule_destroy(schedule);
  }
  for (enum banyan_collective c = 0; c < BANYAN_COLLECTIVES && plan->n_own && plan->n_ranks <= MOST_COMPILED; c++) {
    const struct by_class *class_ = by_plan_class_of(plan, c, UINT64_MAX);
    if (!class_->collectives) continue;
    require(by_schedule_compile(plan, class_, c, 0, plan->n_ranks - 1, &schedule) == BANYAN_OK);
    by_schedule_destroy(schedule);
  }
}

/* Sets up the plan's trees through switches, most of which are refused. */
static void set_up(const struct by_plan *plan) {
  struct by_switched_tree *tree;
  for (uint32_t c = 0; c < plan->n_classes && plan->n_ranks <= MOST_COMPILED; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups && g < MOST_COMPILED; g++)
      if (by_switched_tree_make(plan, c, g, &tree) == BANYAN_OK) by_switched_tree_destroy(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_plan *plan;
  if (by_plan_parse("fuzz", (const char *)data, size, &plan) != BANYAN_OK) return 0;
  require(by_plan_validate(plan) == BANYAN_OK);
  require(by_plan_hash(plan) == plan->version);
  print_and_parse(plan);
  draw(plan);
  compile(plan);
  set_up(plan);
  by_plan_destroy(plan);
  return 0;
}
