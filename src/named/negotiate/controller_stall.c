/* Which ranks lack an operation that has waited too long: the rank that waits reports it to the root, the root asks
 * all, in the log, and answers come up the tree; each controller merges those of its children. */
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "controller_parts.h"

/* Nanoseconds that a controller waits for a child's answer. Controllers nearer to the root asked earlier, so they give
 * up earlier than those below. */
static const uint64_t answer_timeout = 1000000000;

static struct by_question **find_question(struct by_controller *c, const char *name,
                                          const struct by_operation *operation) {
  struct by_question **place = &c->questions;
  while (*place &&
         (strcmp((*place)->subject.name, name) || !by_operation_equal(&(*place)->subject.operation, operation)))
    place = &(*place)->next;
  return place;
}

/* Frees a question and returns the next one. */
static struct by_question *free_question(struct by_question *question) {
  struct by_question *next = question->next;
  free(question->left);
  free(question);
  return next;
}

void by_questions_fini(struct by_controller *c) {
  while (c->questions) c->questions = free_question(c->questions);
}

void by_controller_stalled(struct by_controller *c, const char *name, const struct by_operation *operation, bool late) {
  if (!by_is_root(c)) {
    struct by_writer *writer = by_list_entry(&c->lists[BY_LIST_STALLED]);
    by_write_u8(writer, late);
    by_write_subject(writer, name, operation);
    return;
  }
  struct by_variant *variant = by_operations_get(&c->operations, name, operation);
  struct by_question *asked = *find_question(c, name, operation);
  if (variant) variant->late |= late;
  if (asked) asked->stall.late |= late;
  if (!variant || asked || c->lists[BY_LIST_ASKED].n >= BY_QUESTIONS_MOST) return;
  if (!late && variant->asked && c->now - variant->asked < c->config.timeout) return;
  variant->asked = c->now;
  by_write_subject(by_list_entry(&c->lists[BY_LIST_ASKED]), name, operation);
}

/* ---- which ranks lack it */

static void add_range(struct by_stall *stall, struct by_rank_range range) {
  uint32_t at = 0;
  while (at < stall->n_ranges && stall->ranges[at].last < range.first) at++;
  bool follows = at > 0 && stall->ranges[at - 1].last + 1 == range.first;
  bool precedes = at < stall->n_ranges && range.last + 1 == stall->ranges[at].first;
  if (follows && precedes) {
    stall->ranges[at - 1].last = stall->ranges[at].last;
    stall->n_ranges--;
    memmove(&stall->ranges[at], &stall->ranges[at + 1], (stall->n_ranges - at) * sizeof *stall->ranges);
  } else if (follows) {
    stall->ranges[at - 1].last = range.last;
  } else if (precedes) {
    stall->ranges[at].first = range.first;
  } else if (stall->n_ranges == BY_LACK_RANGES) {
    stall->more += range.last - range.first + 1;
  } else {
    memmove(&stall->ranges[at + 1], &stall->ranges[at], (stall->n_ranges - at) * sizeof *stall->ranges);
    stall->ranges[at] = range;
    stall->n_ranges++;
  }
}

static void merge(struct by_question *question, uint32_t own, const struct by_stall *lacking) {
  struct by_stall *stall = &question->stall;
  if (!lacking->n_ranges && !lacking->more && !lacking->silent) return;
  stall->top = question->n_lacking++ ? own : lacking->top;
  stall->more += lacking->more;
  stall->silent += lacking->silent;
  for (uint32_t i = 0; i < lacking->n_ranges; i++) add_range(stall, lacking->ranges[i]);
}

/* Whether all ranks below a child have an operation, as far as is known here. */
static bool child_has(const struct by_controller *c, const struct by_variant *variant, uint32_t row) {
  if (!variant) return false;
  if (variant->submitted && by_controller_has_reported(c, variant))
    return true; /* All ranks below have it, and that has been reported upward. */
  return variant->bit == BY_NO_NUMBER ? by_bit_is_set(variant->have, row)
                                      : by_bit_is_set(by_bits_of(c, row, variant->bit / 64), variant->bit % 64);
}

/* Counts children that have not answered as lacking the operation, unless they are known to have it. */
static void count_silent(const struct by_controller *c, struct by_question *question) {
  const struct by_subject *subject = &question->subject;
  const struct by_variant *variant = by_operations_find(&c->operations, subject->name, &subject->operation);
  for (uint32_t row = 0; row < c->config.n_up_children; row++) {
    uint32_t rank = c->up_children[row];
    struct by_stall silent = {.top = rank, .n_ranges = 1, .ranges = {{rank, rank}}, .silent = 1};
    if (question->left[row] && !child_has(c, variant, row)) merge(question, c->config.rank, &silent);
  }
}

/* Ends a question: answers it, or reports the stall at the root. */
static void end_question(struct by_controller *c, struct by_question **place) {
  struct by_question *question = *place;
  if (question->n_left) count_silent(c, question);
  if (!by_is_root(c))
    by_write_stall(by_list_entry(&c->lists[BY_LIST_LACKING]), &question->stall);
  else if (c->config.stalled && (question->stall.n_ranges || question->stall.silent))
    c->config.stalled(c->config.context, &question->stall);
  *place = free_question(question);
}

static struct by_question *make_question(const struct by_controller *c, const struct by_subject *subject) {
  uint32_t n = c->config.n_up_children;
  struct by_question *question = malloc(sizeof *question);
  bool *left = malloc((n + 1) * sizeof *left);
  if (!question || !left) {
    free(question);
    free(left);
    return NULL;
  }
  memset(left, 1, (n + 1) * sizeof *left);
  *question = (struct by_question){.subject = *subject, .until = c->now + answer_timeout, .n_left = n, .left = left};
  question->stall =
      (struct by_stall){.name = question->subject.name, .operation = subject->operation, .top = c->config.rank};
  return question;
}

void by_controller_ask(struct by_controller *c, const struct by_subject *subject) {
  struct by_question **place = find_question(c, subject->name, &subject->operation);
  if (*place) return; /* The pending question will be answered. */
  uint32_t n = 0;
  for (const struct by_question *question = c->questions; question; question = question->next) n++;
  if (n == BY_QUESTIONS_MOST) return; /* The root asks at most so many questions at once. */
  struct by_question *question = make_question(c, subject);
  if (!question) {
    c->failed = true;
    return;
  }
  const struct by_variant *variant = by_operations_find(&c->operations, subject->name, &subject->operation);
  if (!variant || !variant->submitted) {
    struct by_stall own = {.top = c->config.rank, .n_ranges = 1, .ranges = {{c->config.rank, c->config.rank}}};
    merge(question, c->config.rank, &own);
  }
  question->stall.late = variant && variant->late;
  *place = question;
  c->deadline = MIN(c->deadline, question->until);
  if (!question->n_left) end_question(c, place);
}

void by_controller_answer(struct by_controller *c, uint32_t child, const struct by_stall *lacking) {
  struct by_question **place = find_question(c, lacking->name, &lacking->operation);
  if (!*place || !(*place)->left[child]) return; /* The answer is late. */
  (*place)->left[child] = false;
  (*place)->n_left--;
  merge(*place, c->config.rank, lacking);
  if (!(*place)->n_left) end_question(c, place);
}

void by_controller_late(struct by_controller *c, const char *name, const struct by_operation *operation, uint64_t now) {
  c->now = now;
  struct by_variant *variant = by_operations_find(&c->operations, name, operation);
  if (variant && variant->submitted) variant->given_up = true;
  by_controller_stalled(c, name, operation, true);
}

/* ---- time */

static void check_variant(struct by_controller *c, struct by_variant *variant) {
  uint64_t since = MAX(variant->asked, variant->since);
  if (!variant->submitted) return;
  if (c->now - since >= c->config.timeout) {
    by_controller_stalled(c, variant->named->name, &variant->operation, false);
    variant->asked = since = c->now;
  }
  c->deadline = MIN(c->deadline, since + c->config.timeout);
}

void by_controller_check(struct by_controller *c, uint64_t now) {
  c->now = now;
  c->deadline = UINT64_MAX;
  for (struct by_question **place = &c->questions; *place;) {
    if ((*place)->until <= now) {
      end_question(c, place);
      continue;
    }
    c->deadline = MIN(c->deadline, (*place)->until);
    place = &(*place)->next;
  }
  if (!c->config.timeout) return;
  for (struct by_named *named = c->operations.names; named && c->waiting; named = named->hh.next)
    for (struct by_variant *variant = named->variants; variant; variant = variant->next) check_variant(c, variant);
}

uint64_t by_controller_deadline(const struct by_controller *c) {
  return c->deadline;
}
