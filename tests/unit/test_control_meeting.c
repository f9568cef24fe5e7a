/* How a rank comes to rank 0, by a clock of the test's. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "control_parts.h"
#include "loop.h"
#include "socket.h"

/* ---- a resolver of the test's, in place of the system's */

static const char *answer; /* NULL: it knows none */
static uint32_t asked;

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out) {
  struct by_address *address = calloc(1, sizeof *address);
  (void)host;
  (void)service;
  (void)hints;
  asked++;
  *out = calloc(1, sizeof **out);
  if (!answer || !*out || !address || by_address_parse_host(answer, 0, address) != BANYAN_OK) {
    free(address);
    free(*out);
    return EAI_NONAME;
  }
  (*out)->ai_addr = (struct sockaddr *)&address->storage;
  (*out)->ai_addrlen = address->length;
  return 0;
}

void freeaddrinfo(struct addrinfo *list) {
  free(list->ai_addr);
  free(list);
}

/* ---- */

static uint64_t time_now;

static uint64_t now_of(void *context) {
  (void)context;
  return time_now;
}

static void run(struct by_loop *loop, uint64_t milliseconds) {
  for (uint64_t end = time_now + milliseconds * BY_MILLISECOND; time_now < end; time_now += 10 * BY_MILLISECOND)
    assert_ok(by_loop_run_once(loop, 0));
}

/* Where nothing is at the address of rank 0's name, it may have another one by now. */
static void test_looks_up_again(void **state) {
  static const struct by_clock clock = {now_of, NULL};
  struct by_context context = {.rank = 1, .size = 2};
  struct by_control control = {.context = &context};
  struct by_address at, bound;
  char root[32];
  int listener, fd = -1;
  (void)state;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &listener, &bound));
  snprintf(root, sizeof root, "root.example:%d", by_address_port(&bound));
  context.settings.root = root;
  assert_ok(by_loop_create(&clock, &context.loop));
  by_timer_init(&control.retry, by_control_try_root, &control);
  by_control_try_root(&control);
  run(context.loop, 3000);
  uint32_t before = asked;
  assert_in_range(before, 2, 10); /* nobody knows it */
  answer = "255.255.255.255";     /* nobody can be there */
  run(context.loop, 10000);
  assert_in_range(asked, before + 2, before + 6);
  answer = NULL; /* what was known is tried all the same */
  run(context.loop, 5000);
  answer = "127.0.0.1";
  for (int i = 0; i < 1000 && fd < 0; i++) {
    run(context.loop, 10);
    assert_ok(by_socket_accept(listener, &fd, NULL));
  }
  assert_true(fd >= 0);
  close(fd);
  close(listener);
  while (control.ends) by_control_drop_end(control.ends);
  by_loop_cancel_timer(&control.retry);
  by_loop_destroy(context.loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_looks_up_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
