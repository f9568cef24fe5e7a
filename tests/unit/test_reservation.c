/* Reservations, and the messages between jobs and switches: a message is parsed as it was written, and errors name
 * the mistake. */
#include <arpa/inet.h>
#include <string.h>

#include "check.h"
#include "reservation.h"

/* Each has another address and port, as long as they can be. */
static struct by_udp_end worker_end(struct by_udp_end end, unsigned i) {
  end.address.s6_addr[14] ^= (uint8_t)(i >> 8);
  end.address.s6_addr[15] ^= (uint8_t)i;
  end.port = htons((uint16_t)(61234 + i));
  return end;
}

static struct by_reservation_request full_request(void) {
  struct by_reservation_request request = {.operation = BY_RESERVATION_GRANT, .holder = "me \"and\" you"};
  struct by_reservation *reservation = &request.reservation;
  *reservation = (struct by_reservation){.job = 65535,
                                         .key = 1,
                                         .place = 7,
                                         .slots = 65536,
                                         .up = "eth\\0",
                                         .n_below = 64,
                                         .n_workers = BY_RESERVATION_WORKERS};
  assert_ok(by_udp_end_parse("[ffff:1111:2222:3333:4444:5555:6666:7777]:65535", &reservation->server));
  for (unsigned i = 0; i < 64; i++)
    reservation->below[i] = (struct by_reservation_below){.interface = "abcdefghijklmno", .first = i, .n = 1};
  reservation->below[63].is_switch = true;
  reservation->below[63].n = BY_RESERVATION_WORKERS - 63;
  for (unsigned i = 0; i < BY_RESERVATION_WORKERS; i++) reservation->workers[i] = worker_end(reservation->server, i);
  return request;
}

static enum banyan_status read_again(const struct by_reservation_request *request, struct by_reservation_request *out) {
  struct by_text text;
  by_text_init(&text);
  by_reservation_print_request(request, &text);
  assert_false(text.failed);
  assert_true(text.length < BY_RESERVATION_LINE);
  assert_null(strchr(by_text_get(&text), '\n'));
  enum banyan_status status = by_reservation_read_request(by_text_get(&text), text.length, out);
  by_text_fini(&text);
  return status;
}

static void test_requests(void **state) {
  (void)state;
  struct by_reservation_request request = full_request(), again;
  assert_ok(read_again(&request, &again));
  assert_int_equal(again.operation, BY_RESERVATION_GRANT);
  assert_string_equal(again.holder, request.holder);
  assert_true(by_reservation_same(&again.reservation, &request.reservation));
  request.reservation.float32 = true;
  assert_false(by_reservation_same(&again.reservation, &request.reservation));
  request.reservation.float32 = false;
  request.reservation.keyed = true;
  assert_false(by_reservation_same(&again.reservation, &request.reservation));
  for (unsigned i = 0; i < BY_RESERVATION_SECRET; i++) request.reservation.secret[i] = (unsigned char)(i * 37 + 9);
  assert_ok(read_again(&request, &again));
  assert_true(by_reservation_same(&again.reservation, &request.reservation));
  request.reservation.secret[31] ^= 1;
  assert_false(by_reservation_same(&again.reservation, &request.reservation));
  request.reservation.keyed = false;
  memset(request.reservation.secret, 0, BY_RESERVATION_SECRET);
  request.reservation.float32 = true;
  request.reservation.n_below = 1;
  request.reservation.below[0] =
      (struct by_reservation_below){.interface = "a", .is_switch = true, .n = BY_RESERVATION_WORKERS};
  assert_ok(read_again(&request, &again));
  assert_true(by_reservation_same(&again.reservation, &request.reservation));
  request.reservation.workers[BY_RESERVATION_WORKERS - 1].port++;
  assert_false(by_reservation_same(&again.reservation, &request.reservation));
  for (int operation = 0; operation < BY_RESERVATION_OPERATIONS; operation++) {
    request.operation = (enum by_reservation_operation)operation;
    assert_ok(read_again(&request, &again));
    assert_int_equal(again.operation, operation);
  }
}

static void test_replies(void **state) {
  (void)state;
  struct by_reservation_reply reply = {.operation = BY_RESERVATION_GRANT, .well = true, .job = 9, .key = 8}, again;
  struct by_text text;
  reply.granted = (struct by_granted){.slots = 5, .up = 63, .n_below = 3, .below = {1, 2, 62}};
  for (int i = 0; i < 4; i++) {
    if (i == 1)
      reply = (struct by_reservation_reply){
          .operation = BY_RESERVATION_GRANT, .job = 9, .key = 8, .text = "a \"b\" \\ c", .taken = true};
    if (i == 2) reply = (struct by_reservation_reply){.operation = BY_RESERVATION_REVOKE, .well = true, .job = 9};
    if (i == 3) reply = (struct by_reservation_reply){.operation = BY_RESERVATION_OPERATIONS, .text = "what?"};
    by_text_init(&text);
    by_reservation_print_reply(&reply, &text);
    assert_ok(by_reservation_read_reply(by_text_get(&text), text.length, &again));
    by_text_fini(&text);
    assert_true(again.operation == reply.operation && again.well == reply.well && again.taken == reply.taken);
    assert_true(again.job == reply.job && again.key == reply.key);
    assert_string_equal(again.text, reply.text);
    assert_int_equal(again.granted.slots, reply.granted.slots);
    assert_memory_equal(again.granted.below, reply.granted.below, sizeof reply.granted.below);
  }
}

#define RESERVATION(more)                                                                                              \
  "{\"do\": \"grant\", \"holder\": \"me\", \"job\": 1, \"key\": 2, \"place\": 0, \"slots\": 4, \"up\": \"e\", "        \
  "\"server\": \"10.0.0.1:5\", " more "}"

static void test_mistakes(void **state) {
  (void)state;
  static const struct {
    const char *line, *why;
  } cases[] = {
      {"", "expected"},
      {"7", "expected"},
      {"[]", "must be an object"},
      {"{}", "do"},
      {"{\"do\": \"dance\"}", "must be describe, status, grant or revoke"},
      {"{\"do\": \"status\", \"do\": \"status\"}", "duplicate"},
      {"{\"do\": \"status\", \"job\": 1}", "job"},
      {"{\"do\": \"revoke\", \"holder\": \"me\"}", "job"},
      {"{\"do\": \"revoke\", \"holder\": \"\", \"job\": 1}", "holder"},
      {"{\"do\": \"revoke\", \"holder\": \"0123456789012345678901234567890123\", \"job\": 1}", "32 bytes"},
      {"{\"do\": \"revoke\", \"holder\": \"me\", \"job\": 65536}", "job"},
      {"{\"do\": \"revoke\", \"holder\": \"me\", \"job\": -1}", "job"},
      {RESERVATION("\"below\": []"), "below"},
      {RESERVATION("\"below\": [], \"secret\": \"0123\""), "secret"},
      {RESERVATION("\"below\": [], \"secret\": 5"), "secret"},
      {RESERVATION("\"below\": [], \"secret\": "
                   "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg\""),
       "64 hexadecimal digits"},
      {RESERVATION("\"below\": 3"), "below"},
      {RESERVATION("\"below\": [{\"interface\": \"e\", \"switch\": false, \"workers\": []}]"), "workers"},
      {RESERVATION("\"below\": [{\"interface\": \"e\", \"switch\": 1, \"workers\": [\"1.2.3.4:5\"]}]"), "switch"},
      {RESERVATION("\"below\": [{\"interface\": \"e\", \"switch\": false, \"workers\": [\"host:5\"]}]"),
       "must be an address and a port"},
      {RESERVATION("\"below\": [{\"interface\": \"e\", \"switch\": false, \"workers\": [\"[::1]:5\"]}]"),
       "between addresses of IPv4 and of IPv6"},
      {RESERVATION("\"below\": [{\"interface\": \"e\", \"switch\": false, \"workers\": [\"1.2.3.4:0\"]}]"),
       "address of a worker"},
      {RESERVATION("\"below\": [{\"interface\": \"a/b\", \"switch\": false, \"workers\": [\"1.2.3.4:5\"]}]"),
       "interface's name"},
      {RESERVATION(
           "\"below\": [{\"interface\": \"0123456789abcdef\", \"switch\": false, \"workers\": [\"1.2.3.4:5\"]}]"),
       "15 bytes"},
      {RESERVATION(
           "\"below\": [{\"interface\": \"e\", \"switch\": false, \"workers\": [\"1.2.3.4:5\", \"1.2.3.5:5\"]}]"),
       "2 workers at one place"},
  };
  struct by_reservation_request out;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_not_equal(by_reservation_read_request(cases[i].line, strlen(cases[i].line), &out), BANYAN_OK);
    if (!strstr(banyan_error_text(), cases[i].why))
      fail_msg("\"%s\": reports \"%s\"", cases[i].line, banyan_error_text());
  }
}

static void test_bad_replies(void **state) {
  (void)state;
  static const char *const lines[] = {
      "BANYAN",
      "{\"done\": \"grant\", \"job\": 1}",
      "{\"done\": \"grant\", \"job\": 1, \"key\": 1, \"slots\": 70000, \"up\": 1, \"below\": [0]}",
      "{\"done\": \"grant\", \"job\": 1, \"key\": 1, \"slots\": 7, \"up\": 64, \"below\": [0]}",
      "{\"done\": \"grant\", \"job\": 1, \"key\": 1, \"slots\": 7, \"up\": 6, \"below\": []}",
      "{\"done\": \"grant\", \"job\": 1, \"key\": 1, \"slots\": 7, \"up\": 6, \"below\": [64]}",
      "{\"failed\": \"grant\", \"job\": 1, \"key\": 1}",
      "{\"done\": \"\"}",
  };
  struct by_reservation_reply out;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    assert_int_not_equal(by_reservation_read_reply(lines[i], strlen(lines[i]), &out), BANYAN_OK);
}

static void test_reservations(void **state) {
  (void)state;
  struct by_reservation_request request = full_request();
  struct by_reservation reservation = request.reservation;
  assert_ok(by_reservation_check(&reservation));
  reservation.place = 8;
  assert_status(by_reservation_check(&reservation), BANYAN_ERR_ARGUMENT);
  reservation = request.reservation;
  reservation.below[3].first = BY_RESERVATION_WORKERS;
  assert_status(by_reservation_check(&reservation), BANYAN_ERR_ARGUMENT);
  reservation = request.reservation;
  reservation.below[3].first = 1;
  reservation.below[3].n = UINT32_MAX;
  assert_status(by_reservation_check(&reservation), BANYAN_ERR_ARGUMENT);
  reservation = request.reservation;
  memset(reservation.up, 'x', sizeof reservation.up);
  assert_status(by_reservation_check(&reservation), BANYAN_ERR_ARGUMENT);
  reservation = request.reservation;
  reservation.n_workers = BY_RESERVATION_WORKERS + 1;
  assert_status(by_reservation_check(&reservation), BANYAN_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests), cmocka_unit_test(test_replies),
                                     cmocka_unit_test(test_mistakes), cmocka_unit_test(test_bad_replies),
                                     cmocka_unit_test(test_reservations)};
  return cmocka_run_group_tests_name("reservation", tests, NULL, NULL);
}
