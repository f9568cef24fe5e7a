/* Messages of other controllers to a controller in the middle of a tree or at its root. The first byte selects the
 * position and the root's configuration. Actions follow: one byte each, and for messages two bytes of length and the
 * message. An operation that starts or is refused must have been submitted, and happens once. A root notes what it was
 * asked to note. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "controller.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 4, NAMES = 16, PARENT = 0, SELF = 1, LEFT = 2, RIGHT = 3 };
enum {
  FROM_PARENT,
  FROM_LEFT,
  FROM_RIGHT,
  FLUSH,
  CHECK,
  STEP,
  END,
  ANNOUNCE,
  SUBMIT = 16, /* a name, and one of several shapes */
  LATE = 224   /* likewise */
};
enum { AT_ROOT = 1, FUSES = 2, SMALL_ONLY = 4, HAS_WINDOW = 8, HAS_PLACES = 16 };

static void ignore_message(void *context, uint32_t to, const void *message, size_t bytes) {
  (void)context;
  assert(to < RANKS && bytes > 9 && message);
}

static void end(void *cookie) {
  bool *waits = cookie;
  assert(*waits);
  *waits = false;
}

static void started(void *context, void *const *cookies, uint32_t n) {
  (void)context;
  for (uint32_t i = 0; i < n; i++) end(cookies[i]);
}

static void refused(void *context, void *cookie, const struct by_refused_operation *refusal) {
  (void)context;
  assert(refusal->ranks[0] < RANKS && refusal->ranks[1] < RANKS);
  end(cookie);
}

static void stalled(void *context, const struct by_stall *stall) {
  (void)context;
  assert(stall->n_ranges <= BY_LACK_RANGES && stall->top < RANKS);
}

static uint32_t announced, received; /* notes */

static void noted(void *context, uint32_t note) {
  const uint8_t *where = context;
  if (*where & AT_ROOT) assert(note == ++received && note <= announced);
}

static bool comes_before(const void *a, const void *b) {
  return a < b;
}

static void be_late(struct by_controller *controller, uint8_t action, uint64_t now) {
  struct by_operation operation = {.count = 100 + action / NAMES};
  char name[16];
  snprintf(name, sizeof name, "gradient %u", action % NAMES);
  by_controller_late(controller, name, &operation, now);
}

static void submit(struct by_controller *controller, uint8_t action, uint64_t now, bool *waits) {
  struct by_operation operation = {.count = 100 + action / NAMES};
  char name[16];
  snprintf(name, sizeof name, "gradient %u", action % NAMES);
  bool *mine = &waits[action % NAMES], before = *mine;
  *mine = true;
  if (by_controller_submit(controller, name, &operation, 0, mine, now) != BANYAN_OK) *mine = before;
}

/* Performs one action. Returns how many bytes it has used. */
static size_t act_once(struct by_controller *controller, const uint8_t *data, size_t size, uint64_t *now, bool *waits) {
  static const uint32_t from[] = {PARENT, LEFT, RIGHT};
  uint8_t action = data[0];
  if (action >= LATE)
    be_late(controller, action - (LATE - SUBMIT), *now);
  else if (action >= SUBMIT)
    submit(controller, action, *now, waits);
  if (action == FLUSH) assert(by_controller_flush(controller) == BANYAN_OK);
  if (action == CHECK) by_controller_check(controller, *now += 100000000);
  if (action == STEP) by_controller_step(controller, ++*now);
  if (action == END) by_controller_ended(controller, 400);
  if (action == ANNOUNCE) by_controller_announce(controller, ++announced);
  if (action > FROM_RIGHT || size < 3) return 1;
  size_t length = data[1] | (size_t)data[2] << 8;
  if (length > size - 3) length = size - 3;
  enum banyan_status status = by_controller_take(controller, from[action], data + 3, length, *now);
  assert(status == BANYAN_OK || status == BANYAN_ERR_PROTOCOL || status == BANYAN_ERR_NO_MEMORY);
  return 3 + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint32_t below[] = {LEFT, RIGHT};
  struct by_controller_config config = {.rank = SELF,
                                        .ranks = RANKS,
                                        .n_up_children = 2,
                                        .n_down_children = 2,
                                        .up_children = below,
                                        .down_children = below,
                                        .timeout = 1000000000,
                                        .send = ignore_message,
                                        .start = started,
                                        .refused = refused,
                                        .noted = noted,
                                        .stalled = stalled,
                                        .context = (void *)(uintptr_t)data};
  struct by_controller *controller;
  bool waits[NAMES] = {false};
  uint64_t now = 1;
  if (!size) return 0;
  announced = received = 0;
  config.up_parent = config.down_parent = data[0] & AT_ROOT ? SELF : PARENT;
  if (data[0] & FUSES) config.fuse = 1000;
  if (data[0] & SMALL_ONLY) config.fuse_each = 410;
  if (data[0] & HAS_WINDOW) config.window = 1600;
  if (data[0] & HAS_PLACES) config.before = comes_before;
  assert(by_controller_create(&config, &controller) == BANYAN_OK);
  for (size_t at = 1; at < size;) at += act_once(controller, data + at, size - at, &now, waits);
  by_controller_destroy(controller);
  return 0;
}
