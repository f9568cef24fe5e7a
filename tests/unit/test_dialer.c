/* Tests of dialling a process at several addresses, some of which lead nowhere, with the test's clock and resolver. */
#include "dialer.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "socket.h"

/* ---- a resolver in place of the system's; the dialer calls it in a thread ---- */

static const char *_Atomic answer; /* NULL: the resolver knows no address. */
static _Atomic uint32_t asked;

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out) {
  struct by_address *address = calloc(1, sizeof *address);
  const char *text = answer;
  (void)host;
  (void)service;
  (void)hints;
  *out = calloc(1, sizeof **out);
  if (!text || !*out || !address || by_address_parse_host(text, 0, address) != BANYAN_OK) {
    free(address);
    free(*out);
    asked++;
    return EAI_NONAME;
  }
  (*out)->ai_addr = (struct sockaddr *)&address->storage;
  (*out)->ai_addrlen = address->length;
  asked++;
  return 0;
}

void freeaddrinfo(struct addrinfo *list) {
  free(list->ai_addr);
  free(list);
}

/* ---- the clock and the dialer ---- */

static uint64_t time_now; /* The time advances a little whenever it is read. */

static uint64_t now_of(void *context) {
  (void)context;
  return time_now += 1000;
}

struct way {
  struct by_loop *loop;
  struct by_dialer *dialer;
  int fd; /* The descriptor that was handed over, or -1. */
  struct by_address to;
};

static void connected(void *context, int fd, const struct by_address *to) {
  struct way *way = context;
  assert_int_equal(way->fd, -1);
  way->fd = fd;
  way->to = *to;
}

static void begin(struct way *way, const char *targets) {
  static const struct by_clock clock = {now_of, NULL};
  *way = (struct way){.fd = -1};
  assert_ok(by_loop_create(&clock, &way->loop));
  struct by_dialer_options options = {.loop = way->loop, .targets = targets, .connected = connected, .context = way};
  assert_ok(by_dialer_create(&options, &way->dialer));
}

static void end(struct way *way) {
  if (way->fd >= 0) close(way->fd);
  by_dialer_destroy(way->dialer);
  by_loop_destroy(way->loop);
}

/* Advances the dialer's clock while the kernel and the resolver's thread get some real time. */
static void run(struct way *way, uint64_t milliseconds) {
  for (uint64_t until = time_now + milliseconds * BY_MILLISECOND; time_now < until; time_now += 10 * BY_MILLISECOND) {
    assert_ok(by_loop_run_once(way->loop, 0));
    usleep(200);
  }
}

static void wait_for_connection(struct way *way) {
  for (time_t until = time(NULL) + 60; way->fd < 0; run(way, 10))
    if (time(NULL) > until) fail_msg("no connection was handed over");
}

static void wait_until_asked(struct way *way, uint32_t n) {
  for (time_t until = time(NULL) + 60; asked < n; run(way, 10))
    if (time(NULL) > until) fail_msg("names were looked up %u times, not %u", asked, n);
}

/* Listens on a free port of the loopback. `text` gets the port's number. */
static int listen_here(char *text) {
  struct by_address at, bound;
  int listener;
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &listener, &bound));
  sprintf(text, "%d", by_address_port(&bound));
  return listener;
}

/* Asserts that the printed description contains `text`. */
static void shows(const struct way *way, const char *text) {
  struct by_text out;
  by_text_init(&out);
  by_dialer_print(way->dialer, 1000, &out);
  if (!strstr(by_text_get(&out), text)) fail_msg("\"%s\" does not hold \"%s\"", by_text_get(&out), text);
  by_text_fini(&out);
}

/* If no process listens at a name's address, the name is looked up again, since the address may have changed. */
static void test_looks_up_again(void **state) {
  struct way way;
  char port[8], target[40];
  int listener = listen_here(port);
  (void)state;
  snprintf(target, sizeof target, "root.example:%s", port);
  answer = NULL;
  asked = 0;
  begin(&way, target);
  wait_until_asked(&way, 2); /* The name has no address. */
  run(&way, 20);
  shows(&way, "root.example:");
  shows(&way, "cannot be looked up");
  assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_OK);
  answer = "255.255.255.255"; /* No process can have this address. */
  uint32_t before = asked;
  wait_until_asked(&way, before + 3);
  run(&way, 20);
  shows(&way, "means 255.255.255.255:");
  answer = NULL; /* The address that was known before is tried all the same. */
  before = asked;
  wait_until_asked(&way, before + 2);
  answer = "127.0.0.1";
  wait_for_connection(&way);
  shows(&way, "which is this machine itself");
  end(&way);
  close(listener);
}

/* The name was looked up often, but not all the time. */
static void test_asks_in_measure(void **state) {
  struct way way;
  (void)state;
  answer = NULL;
  asked = 0;
  begin(&way, "root.example:1");
  wait_until_asked(&way, 1);
  uint32_t before = asked;
  run(&way, 5000);
  assert_in_range(asked - before, 0, 11);
  end(&way);
}

/* Listens without accepting connections, and with so many already waiting that the kernel answers no more of them. */
static int listen_deaf(char *port, int *waiting, size_t n) {
  struct by_address at;
  char text[32];
  int listener = listen_here(port);
  assert_int_equal(listen(listener, 0), 0);
  snprintf(text, sizeof text, "127.0.0.1:%s", port);
  assert_ok(by_address_parse(text, &at));
  for (size_t i = 0; i < n; i++) assert_ok(by_socket_connect_start(&at, &waiting[i]));
  return listener;
}

static void test_passes_dead_ends(void **state) {
  struct way way;
  char deaf[8], refuses[8], good[8], targets[120], at[80];
  int waiting[4];
  (void)state;
  int deaf_listener = listen_deaf(deaf, waiting, 4), refusing = listen_here(refuses), listener = listen_here(good);
  close(refusing);
  snprintf(targets, sizeof targets, "127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s", deaf, refuses, good);
  begin(&way, targets);
  wait_for_connection(&way);
  assert_int_equal(by_address_port(&way.to), atoi(good));
  snprintf(at, sizeof at, "cannot connect to 127.0.0.1:%s: Connection refused", refuses);
  shows(&way, at);
  run(&way, 6000);
  snprintf(at, sizeof at, "127.0.0.1:%s: no answer within 5 s", deaf);
  shows(&way, at);
  end(&way);
  for (int i = 0; i < 4; i++) close(waiting[i]);
  close(deaf_listener);
  close(listener);
}

/* Each attempt begins a while after the one before, which has no answer yet. */
static void test_attempts_are_staggered(void **state) {
  struct way way;
  char one[8], two[8], good[8], targets[120];
  int waiting[2][4];
  (void)state;
  int first = listen_deaf(one, waiting[0], 4), second = listen_deaf(two, waiting[1], 4), listener = listen_here(good);
  snprintf(targets, sizeof targets, "127.0.0.1:%s,127.0.0.1:%s,127.0.0.1:%s", one, two, good);
  uint64_t from = time_now;
  begin(&way, targets);
  wait_for_connection(&way);
  assert_int_equal(by_address_port(&way.to), atoi(good));
  assert_in_range(time_now - from, 200 * BY_MILLISECOND, 400 * BY_MILLISECOND);
  end(&way);
  for (int i = 0; i < 8; i++) close(waiting[i / 4][i % 4]);
  close(first);
  close(second);
  close(listener);
}

/* Another process answers at one of two addresses. */
static void test_others_answer(void **state) {
  struct way way;
  char one[8], two[8], targets[80];
  int listener = listen_here(one), other = listen_here(two);
  (void)state;
  snprintf(targets, sizeof targets, "127.0.0.1:%s,127.0.0.1:%s", one, two);
  begin(&way, targets);
  wait_for_connection(&way);
  int first = by_address_port(&way.to);
  close(way.fd);
  way.fd = -1;
  by_dialer_failed(way.dialer, BANYAN_ERR_AUTH, "the peer holds another job's key", 5000 * BY_MILLISECOND);
  assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_OK);
  wait_for_connection(&way);
  assert_int_not_equal(by_address_port(&way.to), first);
  close(way.fd);
  way.fd = -1;
  by_dialer_failed(way.dialer, BANYAN_ERR_PROTOCOL, "the peer speaks version 2", 5000 * BY_MILLISECOND);
  assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_ERR_AUTH);
  shows(&way, "another job's key; 127.0.0.1:");
  end(&way);
  close(listener);
  close(other);
}

/* The other address never answers: after a while, the one that answers with a refusal decides. */
static void test_others_answer_and_one_is_silent(void **state) {
  struct way way;
  char deaf[8], other[8], targets[80];
  int waiting[4];
  (void)state;
  int deaf_listener = listen_deaf(deaf, waiting, 4), listener = listen_here(other);
  snprintf(targets, sizeof targets, "127.0.0.1:%s,127.0.0.1:%s", deaf, other);
  begin(&way, targets);
  uint64_t until = time_now + 10 * BY_SECOND;
  while (time_now < until && by_dialer_refusal(way.dialer) == BANYAN_OK) {
    run(&way, 10);
    if (way.fd < 0) continue;
    assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_OK); /* This connection may still succeed. */
    close(way.fd);
    way.fd = -1;
    by_dialer_failed(way.dialer, BANYAN_ERR_AUTH, "the peer holds another job's key", 3000 * BY_MILLISECOND);
    assert_true(until - time_now <= 5 * BY_SECOND || by_dialer_refusal(way.dialer) == BANYAN_OK);
  }
  assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_ERR_AUTH);
  shows(&way, "no answer within 5 s; 127.0.0.1:");
  shows(&way, "another job's key");
  end(&way);
  for (int i = 0; i < 4; i++) close(waiting[i]);
  close(deaf_listener);
  close(listener);
}

/* No process listens at the other address yet: rank 0 may start there. */
static void test_others_answer_and_one_may_start(void **state) {
  struct way way;
  char refuses[8], other[8], targets[80];
  (void)state;
  int refusing = listen_here(refuses), listener = listen_here(other);
  close(refusing);
  snprintf(targets, sizeof targets, "127.0.0.1:%s,127.0.0.1:%s", refuses, other);
  begin(&way, targets);
  wait_for_connection(&way);
  close(way.fd);
  way.fd = -1;
  by_dialer_failed(way.dialer, BANYAN_ERR_AUTH, "the peer holds another job's key", 60 * BY_SECOND);
  run(&way, 12000);
  assert_int_equal(by_dialer_refusal(way.dialer), BANYAN_OK);
  end(&way);
  close(listener);
}

static void test_print_is_bounded(void **state) {
  struct way way;
  struct by_text out;
  (void)state;
  begin(&way, "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
  by_text_init(&out);
  by_dialer_print(way.dialer, 1, &out);
  assert_string_equal(by_text_get(&out), "not tried yet; and 2 more");
  by_text_fini(&out);
  end(&way);
}

#define FINGERPRINT "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef"

static void test_malformed(void **state) {
  static const char *const bad[] = {"",
                                    "alpha",
                                    "alpha:1,beta",
                                    "alpha:1,,beta:2",
                                    "fd00::1:70",
                                    "alpha:70000",
                                    "#" FINGERPRINT,
                                    "alpha:1,#" FINGERPRINT "0",
                                    "alpha:1#",
                                    "alpha:1#abc",
                                    "alpha:1#" FINGERPRINT ","
                                    "beta:2"};
  struct by_fingerprint fingerprint;
  char text[BY_FINGERPRINT_TEXT];
  int port;
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_status(by_dialer_check(bad[i], &port), BANYAN_ERR_PARSE);
    assert_true(strlen(banyan_error_text()) > 10);
  }
  assert_ok(by_dialer_check("alpha:7,[fd00::1]:8", &port));
  assert_int_equal(port, 7);
  assert_false(by_dialer_fingerprint("alpha:7,[fd00::1]:8", &fingerprint));
  assert_ok(by_dialer_check("alpha:7,[fd00::1]:8#" FINGERPRINT, &port));
  assert_true(by_dialer_fingerprint("alpha:7,[fd00::1]:8#" FINGERPRINT, &fingerprint));
  by_fingerprint_print(&fingerprint, text);
  assert_string_equal(text, FINGERPRINT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_looks_up_again),
      cmocka_unit_test(test_asks_in_measure),
      cmocka_unit_test(test_passes_dead_ends),
      cmocka_unit_test(test_attempts_are_staggered),
      cmocka_unit_test(test_others_answer),
      cmocka_unit_test(test_others_answer_and_one_is_silent),
      cmocka_unit_test(test_others_answer_and_one_may_start),
      cmocka_unit_test(test_print_is_bounded),
      cmocka_unit_test(test_malformed),
  };
  return cmocka_run_group_tests_name("dialer", tests, NULL, NULL);
}
