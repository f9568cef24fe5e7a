/* A web server and its clients in one thread, on a loop with the test's clock. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "web_server.h"

static const struct by_token token = {"0123456789abcdef-TEST"};

static uint64_t now;

static uint64_t print_now(void *context) {
  return now;
}

static const struct by_clock test_clock = {.now = print_now};

struct world {
  struct by_loop *loop;
  struct by_web *web;
  unsigned printed;
  char answer[1 << 20];
  size_t length;
};

static unsigned print_state(void *context, struct by_text *out) {
  struct world *w = context;
  by_text_add(out, "{\"printed\":%u}", ++w->printed);
  return 200;
}

static unsigned print_health(void *context, struct by_text *out) {
  by_text_add(out, "the store is full\n");
  return 503;
}

static int set_up(void **state) {
  static struct world world;
  static struct by_web_route routes[] = {
      {"/state", "application/json", false, print_state, &world},
      {"/healthz", "text/plain", true, print_health, &world},
  };
  struct by_web_options options = {.token = &token, .routes = routes, .n_routes = 2};
  now = 1000 * BY_SECOND;
  world = (struct world){0};
  assert_ok(by_address_parse("127.0.0.1:0", &options.at));
  assert_ok(by_loop_create(&test_clock, &world.loop));
  options.loop = world.loop;
  assert_ok(by_web_create(&options, &world.web));
  *state = &world;
  return 0;
}

static int tear_down(void **state) {
  struct world *w = *state;
  by_web_destroy(w->web);
  by_loop_destroy(w->loop);
  return 0;
}

static int join(struct world *w) {
  const struct by_address *at = by_web_get_address(w->web);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&at->storage, at->length), 0);
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  return fd;
}

static void run_loop(struct world *w) {
  assert_ok(by_loop_run_once(w->loop, BY_MILLISECOND));
}

static void send_text(struct world *w, int fd, const char *text, size_t length) {
  while (length) {
    ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
    if (sent < 0) return; /* The server has closed the connection. */
    text += sent;
    length -= (size_t)sent;
    run_loop(w);
  }
}

/* Receives until the server closes, or with `whole`, until the announced body is complete. */
static void receive_answer(struct world *w, int fd, bool whole) {
  w->length = 0;
  for (int rounds = 0; rounds < 5000; rounds++) {
    run_loop(w);
    ssize_t got = recv(fd, w->answer + w->length, sizeof w->answer - 1 - w->length, 0);
    if (got == 0) return;
    if (got < 0) continue;
    w->answer[w->length += (size_t)got] = '\0';
    const char *body = strstr(w->answer, "\r\n\r\n"), *announced = strstr(w->answer, "Content-Length: ");
    if (whole && body && announced && w->length >= (size_t)(body + 4 - w->answer) + strtoul(announced + 16, NULL, 10))
      return;
  }
  fail_msg("the server neither answers nor closes; it sent: %s", w->answer);
}

static void check_answer(struct world *w, int status, const char *part) {
  char line[32];
  snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
  if (strncmp(w->answer, line, strlen(line)) != 0) fail_msg("not %d: %s", status, w->answer);
  if (part && !strstr(w->answer, part)) fail_msg("no \"%s\" in: %s", part, w->answer);
}

/* Sends one request on a connection of its own. */
static void ask(struct world *w, const char *request) {
  int fd = join(w);
  send_text(w, fd, request, strlen(request));
  receive_answer(w, fd, false);
  close(fd);
}

#define REST "\r\nHost: localhost\r\nConnection: close\r\n"
#define GOOD "0123456789abcdef-TEST"

static void serves_with_the_token(void **state) {
  struct world *w = *state;
  ask(w, "GET /state HTTP/1.1" REST "Authorization: Bearer " GOOD "\r\n\r\n");
  check_answer(w, 200, "\r\n\r\n{\"printed\":1}");
  ask(w, "GET /state HTTP/1.1" REST "authorization: bearer " GOOD "\r\n\r\n");
  check_answer(w, 200, "{\"printed\":1}");
  ask(w, "GET /state HTTP/1.1" REST "Cookie: a=b; banyan_token=" GOOD "\r\n\r\n");
  check_answer(w, 200, "Content-Type: application/json");
  ask(w, "GET / HTTP/1.1" REST "Cookie: banyan_token=" GOOD "\r\n\r\n");
  check_answer(w, 200, "Content-Security-Policy: default-src 'none'; script-src 'self'");
  assert_non_null(strstr(w->answer, "<!doctype html>"));
  ask(w, "GET /main.js HTTP/1.1" REST "Cookie: banyan_token=" GOOD "\r\n\r\n");
  check_answer(w, 200, "Content-Type: text/javascript");
}

static void refuses_without_the_token(void **state) {
  static const char *const requests[] = {
      "GET /state HTTP/1.1" REST "\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Bearer 0123456789abcdef-TESX\r\n\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Bearer 0123456789abcdef-TES\r\n\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Bearer " GOOD "1\r\n\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Bearer \r\n\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Basic " GOOD "\r\n\r\n",
      "GET /state HTTP/1.1" REST "Authorization: Bearer x\r\nCookie: banyan_token=" GOOD "\r\n\r\n",
      "GET /state?token=" GOOD " HTTP/1.1" REST "\r\n",
      "GET /main.js HTTP/1.1" REST "\r\n",
      "GET / HTTP/1.1" REST "Cookie: banyan_token=\r\n\r\n",
      "GET /?token=0123456789abcdef HTTP/1.1" REST "\r\n",
      "GET /?token HTTP/1.1" REST "\r\n",
  };
  struct world *w = *state;
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
    ask(w, requests[i]);
    check_answer(w, 401, "WWW-Authenticate: Bearer");
    assert_null(strstr(w->answer, GOOD));
  }
  assert_int_equal(w->printed, 0);
}

static void takes_the_token_out_of_the_address(void **state) {
  struct world *w = *state;
  ask(w, "GET /?token=" GOOD " HTTP/1.1" REST "\r\n");
  check_answer(w, 303, "\r\nLocation: /\r\n");
  assert_non_null(strstr(w->answer, "Set-Cookie: banyan_token=" GOOD "; Path=/; HttpOnly; SameSite=Lax"));
}

static void shows_open_routes_without_a_token(void **state) {
  struct world *w = *state;
  ask(w, "GET /healthz HTTP/1.1" REST "\r\n");
  check_answer(w, 503, "the store is full");
}

static void refuses_malformed_requests(void **state) {
  struct world *w = *state;
  ask(w, "GET /nowhere HTTP/1.1" REST "\r\n");
  check_answer(w, 404, NULL);
  ask(w, "GET /../state HTTP/1.1" REST "\r\n");
  check_answer(w, 404, NULL);
  ask(w, "GET /state/ HTTP/1.1" REST "\r\n");
  check_answer(w, 404, NULL);
  ask(w, "POST /state HTTP/1.1" REST "Content-Length: 5\r\n\r\nhello");
  check_answer(w, 405, "Allow: GET, HEAD");
  ask(w, "DELETE / HTTP/1.1" REST "\r\n");
  check_answer(w, 405, "Allow: GET, HEAD");
  ask(w, "GET /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhello");
  check_answer(w, 404, "Connection: close");
  ask(w, "nonsense\r\n\r\n");
  assert_null(strstr(w->answer, " 200 "));
  ask(w, "GET /state HTTP/1.1\r\nContent-Length: -1\r\nHost: a\r\n\r\n");
  assert_null(strstr(w->answer, " 200 "));
  assert_int_equal(w->printed, 0);
}

static void answers_heads_without_a_body(void **state) {
  struct world *w = *state;
  ask(w, "HEAD /state HTTP/1.1" REST "Authorization: Bearer " GOOD "\r\n\r\n");
  check_answer(w, 200, "Content-Length: 13");
  assert_string_equal(w->answer + w->length - 4, "\r\n\r\n");
}

static void refuses_long_heads(void **state) {
  enum { LONG = 100000 };
  struct world *w = *state;
  static char request[LONG + 256];
  const char *starts[] = {"GET /%s HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: %s\r\n\r\n"};
  for (size_t i = 0; i < 2; i++) {
    static char filler[LONG + 1];
    memset(filler, 'a', LONG);
    snprintf(request, sizeof request, i ? starts[1] : starts[0], filler);
    int fd = join(w);
    send_text(w, fd, request, strlen(request));
    for (int rounds = 0; rounds < 5000 && recv(fd, w->answer, 64, MSG_PEEK) < 0; rounds++) run_loop(w);
    ssize_t got = recv(fd, w->answer, sizeof w->answer - 1, 0);
    w->answer[got > 0 ? got : 0] = '\0';
    if (got > 0) assert_true(strstr(w->answer, " 414 ") || strstr(w->answer, " 431 ") || strstr(w->answer, " 413 "));
    close(fd);
  }
}

static void keeps_a_connection_for_several_requests(void **state) {
  static const char request[] = "GET /state HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " GOOD "\r\n\r\n";
  struct world *w = *state;
  int fd = join(w);
  for (int i = 0; i < 3; i++) {
    send_text(w, fd, request, sizeof request - 1);
    receive_answer(w, fd, true);
    check_answer(w, 200, NULL);
    assert_null(strstr(w->answer, "Connection: close"));
  }
  now += BY_WEB_MAX_AGE / 2 + 1; /* A browser opens another connection after this one. */
  send_text(w, fd, request, sizeof request - 1);
  receive_answer(w, fd, false);
  check_answer(w, 200, "Connection: close");
  close(fd);
}

static void closes_slow_clients(void **state) {
  struct world *w = *state;
  int fd = join(w);
  for (unsigned i = 0; i < 60; i++) {
    assert_int_equal(send(fd, &"GET /state HTTP/1.1\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[i], 1, 0), 1);
    run_loop(w);
    now += BY_SECOND - 1;
  }
  char byte;
  assert_int_equal(recv(fd, &byte, 1, 0), -1); /* The connection is still open. */
  now += BY_SECOND;
  receive_answer(w, fd, false);
  assert_int_equal(w->length, 0);
  close(fd);
}

static void prints_once_for_many_readers(void **state) {
  struct world *w = *state;
  for (int i = 0; i < 10; i++) ask(w, "GET /state HTTP/1.1" REST "Authorization: Bearer " GOOD "\r\n\r\n");
  assert_int_equal(w->printed, 1);
  now += BY_WEB_FRESH;
  ask(w, "GET /state HTTP/1.1" REST "Authorization: Bearer " GOOD "\r\n\r\n");
  check_answer(w, 200, "{\"printed\":2}");
}

static void survives_many_silent_peers(void **state) {
  enum { MANY = 300 };
  struct world *w = *state;
  int fds[MANY];
  for (int i = 0; i < MANY; i++) {
    fds[i] = join(w);
    run_loop(w);
  }
  now += BY_WEB_MAX_AGE; /* The connections have timed out. */
  for (int i = 0; i < 100; i++) run_loop(w);
  now += BY_WEB_MAX_AGE; /* Connections that waited in the kernel meanwhile have timed out, too. */
  for (int i = 0; i < 100; i++) run_loop(w);
  now += BY_WEB_MAX_AGE;
  ask(w, "GET /healthz HTTP/1.1" REST "\r\n");
  check_answer(w, 503, NULL);
  for (int i = 0; i < MANY; i++) close(fds[i]);
}

/* While the clock stands still, a client with a request gets a connection even beside many silent peers. */
static void answers_among_many_silent_peers(void **state) {
  enum { MANY = 300 };
  struct world *w = *state;
  int fds[MANY];
  for (int i = 0; i < MANY; i++) {
    fds[i] = join(w);
    run_loop(w);
  }
  for (int i = 0; i < 3; i++) {
    ask(w, "GET /healthz HTTP/1.1" REST "\r\n");
    check_answer(w, 503, NULL);
  }
  for (int i = 0; i < MANY; i++) close(fds[i]);
}

/* A connection that has made requests is not closed in favour of silent ones. */
static void keeps_a_browser_among_many_silent_peers(void **state) {
  enum { MANY = 300 };
  static const char request[] = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
  struct world *w = *state;
  int browser = join(w), fds[MANY];
  send_text(w, browser, request, sizeof request - 1);
  receive_answer(w, browser, true);
  for (int i = 0; i < MANY; i++) {
    fds[i] = join(w);
    run_loop(w);
  }
  send_text(w, browser, request, sizeof request - 1);
  receive_answer(w, browser, true);
  check_answer(w, 503, NULL);
  close(browser);
  for (int i = 0; i < MANY; i++) close(fds[i]);
}

static void reports_a_failed_listener(void **state) {
  struct world *w = *state;
  struct by_web_options options = {.loop = w->loop, .at = *by_web_get_address(w->web), .token = &token};
  struct by_web *second;
  assert_status(by_web_create(&options, &second), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "127.0.0.1"));
}

static void reads_and_makes_tokens(void **state) {
  char folder[] = "/tmp/banyan-token-XXXXXX", path[64];
  struct by_token made, read;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/token", folder);
  assert_status(by_token_read(path, &read), BANYAN_ERR_SYSTEM);
  assert_ok(by_token_read_or_make(path, &made));
  assert_int_equal(strlen(made.text), 64);
  assert_ok(by_token_read_or_make(path, &read));
  assert_string_equal(made.text, read.text);
  static const char *const bad[] = {"", "short\n", "0123456789abcdef 0123\n", "0123456789abcdef\n0123456789abcdef\n",
                                    "0123456789abcdef;0123"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(bad[i], file);
    fclose(file);
    assert_status(by_token_read(path, &read), BANYAN_ERR_ARGUMENT);
  }
  unlink(path);
  assert_ok(by_token_read_or_make(path, &made));
  chmod(path, 0644); /* The page believes no token that others know or may set. */
  assert_status(by_token_read_or_make(path, &read), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), path));
  unlink(path);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(serves_with_the_token, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_without_the_token, set_up, tear_down),
      cmocka_unit_test_setup_teardown(takes_the_token_out_of_the_address, set_up, tear_down),
      cmocka_unit_test_setup_teardown(shows_open_routes_without_a_token, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_malformed_requests, set_up, tear_down),
      cmocka_unit_test_setup_teardown(answers_heads_without_a_body, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_long_heads, set_up, tear_down),
      cmocka_unit_test_setup_teardown(keeps_a_connection_for_several_requests, set_up, tear_down),
      cmocka_unit_test_setup_teardown(closes_slow_clients, set_up, tear_down),
      cmocka_unit_test_setup_teardown(prints_once_for_many_readers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(survives_many_silent_peers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(answers_among_many_silent_peers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(keeps_a_browser_among_many_silent_peers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(reports_a_failed_listener, set_up, tear_down),
      cmocka_unit_test(reads_and_makes_tokens),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
