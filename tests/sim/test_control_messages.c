/* Control messages sent beside calls, over links of any kind. Each message arrives once, complete, and in the order in
 * which its sender wrote. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "world.h"

enum { MESSAGES = 12, MOST_BYTES = 3000 };

struct post {
  struct world world;
  uint32_t to_write[WORLD_MOST];              /* number of messages */
  uint32_t written[WORLD_MOST][WORLD_MOST];   /* by sender and receiver */
  uint32_t delivered[WORLD_MOST][WORLD_MOST]; /* by sender and receiver */
  uint32_t left;                              /* messages that have not been delivered */
};

static unsigned char byte_of(uint32_t from, uint32_t to, uint32_t number, size_t at) {
  return (unsigned char)(from * 31 + to * 17 + number * 7 + at + (at >> 8) * 3);
}

static size_t length_of(uint32_t from, uint32_t to, uint32_t number) {
  size_t hash = from * 7919u + to * 104729u + number * 1299709u;
  return hash % 5 ? 1 + hash % 100 : 1 + hash % MOST_BYTES;
}

static void write_one(struct post *post, const struct node *node) {
  uint32_t from = node->rank, to = (uint32_t)by_rng_below(&post->world.rng, post->world.n);
  unsigned char bytes[MOST_BYTES];
  if (to == from) return;
  uint32_t number = post->written[from][to]++;
  size_t n = length_of(from, to, number);
  for (size_t i = 0; i < n; i++) bytes[i] = byte_of(from, to, number, i);
  assert_ok(by_engine_write(node->engine, to, from + 100, bytes, n));
  post->to_write[from]--;
}

static void check_message(struct post *post, uint32_t to, const struct by_control_message *message) {
  uint32_t from = message->process, number = post->delivered[from][to]++;
  assert_int_equal(message->team, from + 100);
  assert_int_equal(message->bytes, length_of(from, to, number));
  for (size_t i = 0; i < message->bytes; i++) assert_int_equal(message->data[i], byte_of(from, to, number, i));
  post->left--;
}

static bool take_turn(void *context, struct node *node) {
  struct post *post = context;
  struct by_control_message *message;
  bool progressed = false;
  if (post->to_write[node->rank] && by_rng_below(&post->world.rng, 3) == 0) {
    write_one(post, node);
    progressed = true;
  }
  while ((message = by_engine_read(node->engine))) {
    check_message(post, node->rank, message);
    by_control_message_free(node->engine, message);
    progressed = true;
  }
  return progressed;
}

/* Runs until all control messages have arrived and all calls have ended. */
static void run(struct post *post, uint64_t seed) {
  struct world *world = &post->world;
  if (!world_run(world)) fail_msg("seed %llu: deadlock", (unsigned long long)seed);
  for (int still = 0; post->left; still++) {
    for (uint32_t i = 0; i < world->n; i++) {
      bool progressed = by_engine_progress(world->nodes[i].engine);
      if (take_turn(post, &world->nodes[i]) || progressed) still = 0;
    }
    if (still > 20 && !by_sim_step(world->sim) && still > 1000)
      fail_msg("seed %llu: %u messages did not arrive", (unsigned long long)seed, post->left);
  }
  for (uint32_t i = 0; i < world->n; i++) assert_ok(by_engine_status(world->nodes[i].engine));
  world_check(world);
}

static struct post *make_post(uint32_t n, uint64_t seed, const struct by_sim_options *net,
                              const struct by_engine_options *engine) {
  struct post *post = calloc(1, sizeof *post);
  assert_non_null(post);
  world_init(&post->world, n, seed % 2 ? "ring" : "double-tree", net, engine, seed);
  post->world.take_turn = take_turn;
  post->world.turn_context = post;
  post->left = n * MESSAGES;
  for (uint32_t i = 0; i < n; i++) post->to_write[i] = MESSAGES;
  return post;
}

static void free_post(struct post *post) {
  world_fini(&post->world);
  free(post);
}

static void test_control_messages(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(300); seed++) {
    struct by_sim_options net;
    struct by_engine_options engine;
    world_options(seed, &net, &engine);
    struct post *post = make_post(2 + (uint32_t)seed % 8, seed, &net, &engine);
    post->world.most_lanes = seed % 3 ? 1 : 4;
    post->world.n_operations = 4;
    for (uint32_t d = 0; d < 4; d++)
      post->world.operations[d] = (struct operation){
          .call = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_INT32, .op = BANYAN_SUM, .count = 5000 * d + 7}};
    run(post, seed);
    free_post(post);
  }
}

/* Data for a call that the other rank has not made does not delay the control messages after it. */
static void test_control_messages_overtake(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  struct post *post = make_post(2, 1, &net, &engine);
  struct node *first = &post->world.nodes[0], *second = &post->world.nodes[1];
  int32_t values[64] = {0};
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_INT32, .send = values, .recv = values, .count = 64};
  struct by_call *started;
  struct by_control_message *message = NULL;
  by_engine_expect_control_messages(second->engine, 0);
  assert_ok(by_engine_start(first->team, &call, 0, &started));
  by_engine_progress(first->engine); /* sends everything that can be sent */
  assert_ok(by_engine_write(first->engine, 1, 5, "after", 6));
  for (int turn = 0; turn < 1000 && !message; turn++) {
    by_engine_progress(first->engine);
    by_engine_progress(second->engine);
    by_sim_step(post->world.sim);
    message = by_engine_read(second->engine);
  }
  assert_non_null(message);
  assert_string_equal(message->data, "after");
  by_control_message_free(second->engine, message);
  by_call_release(started);
  free_post(post);
}

static void test_misuse(void **state) {
  (void)state;
  struct by_sim_options net = {0};
  struct by_engine_options engine = {0};
  struct post *post = make_post(2, 2, &net, &engine);
  assert_status(by_engine_write(post->world.nodes[0].engine, 1, 0, "x", 0), BANYAN_ERR_ARGUMENT);
  assert_status(by_engine_write(post->world.nodes[0].engine, 1, 0, "x", BY_CONTROL_MESSAGE_BYTES + (size_t)1),
                BANYAN_ERR_ARGUMENT);
  assert_null(by_engine_read(post->world.nodes[0].engine));
  assert_ok(by_engine_write(post->world.nodes[0].engine, 1, 0, "never sent", 11)); /* freed with its engine */
  free_post(post);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_control_messages),
      cmocka_unit_test(test_control_messages_overtake),
      cmocka_unit_test(test_misuse),
  };
  return cmocka_run_group_tests_name("control messages", tests, NULL, NULL);
}
