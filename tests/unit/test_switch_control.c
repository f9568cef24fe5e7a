/* A switch's control connection over its Unix socket and TCP: every message is answered, and invalid messages do no
 * harm. The data plane does nothing. The client is tested with a switch that starts, ends and changes its key. */
#include "switch_control.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "reservation.h"
#include "socket.h"

static enum banyan_status do_range(void *self, uint32_t base, uint32_t count) {
  return BANYAN_OK;
}

static struct by_plane_ends granted_ends; /* of the last grant */

static enum banyan_status do_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  granted_ends = *ends;
  return BANYAN_OK;
}

static enum banyan_status do_revoke(void *self, uint16_t job) {
  return BANYAN_OK;
}

static enum banyan_status do_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  return BANYAN_OK;
}

static enum banyan_status do_count(const void *self, struct by_plane_counts *out) {
  out->events[BY_EVENT_ADDED] = 77;
  return BANYAN_OK;
}

static const struct by_plane_ops ops = {.name = "idle",
                                        .clear = do_range,
                                        .grant = do_grant,
                                        .revoke = do_revoke,
                                        .set_group = do_group,
                                        .count = do_count};
static const struct by_plane plane = {.ops = &ops};

static char folder[64], path[96];
static struct by_loop *loop;

static struct by_switch_control *make_control_that(bool accepts_unauthenticated, const char *secret) {
  static const char *const ports[] = {"lo"};
  struct by_key key;
  struct by_switch_control_options options = {.loop = loop,
                                              .plane = &plane,
                                              .cells = 10,
                                              .n_ports = 1,
                                              .ports = ports,
                                              .accepts_unauthenticated = accepts_unauthenticated,
                                              .key = secret ? &key : NULL};
  struct by_switch_control *control;
  if (secret) assert_ok(by_key_derive(secret, &key));
  assert_ok(by_switch_control_create(&options, &control));
  return control;
}

static struct by_switch_control *make_control(const char *secret) {
  return make_control_that(false, secret);
}

static void run(int rounds) {
  for (int i = 0; i < rounds; i++) assert_ok(by_loop_run_once(loop, BY_MILLISECOND));
}

/* Sends these bytes and returns the answer, or "" if the other end closes. */
static void exchange(int fd, const char *bytes, size_t n, char *answer, size_t room) {
  size_t have = 0;
  answer[0] = 0;
  while (n) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    if (sent > 0) bytes += sent, n -= (size_t)sent;
    run(1);
    if (sent < 0 && send(fd, "", 0, MSG_NOSIGNAL) < 0) break;
  }
  for (int i = 0; i < 5000 && have < room - 1; i++) {
    ssize_t got = recv(fd, answer + have, room - 1 - have, 0);
    if (got == 0) break;
    if (got > 0) have += (size_t)got;
    answer[have] = 0;
    if (strchr(answer, '\n')) return;
    run(1);
  }
}

static void expect(int fd, const char *line, const char *answer) {
  char got[4096], sent[400];
  snprintf(sent, sizeof sent, "%s\n", line);
  exchange(fd, sent, strlen(sent), got, sizeof got);
  if (!strstr(got, answer)) fail_msg("%s: answers %s, without %s", line, got, answer);
}

static void test_lines(void **state) {
  (void)state;
  struct by_switch_control *control = make_control(NULL);
  static char much[3 * BY_RESERVATION_LINE];
  char answer[100];
  struct stat file;
  int fd, other;
  assert_ok(by_switch_control_listen_at(control, path));
  assert_int_equal(stat(path, &file), 0);
  assert_int_equal(file.st_mode & 0777, 0600);
  assert_ok(by_path_socket_connect(path, "switch", &fd));
  assert_ok(by_path_socket_connect(path, "switch", &other));
  expect(fd, "{\"do\": \"describe\"}", "\"kind\": \"idle\"");
  expect(fd, "what?", "\"text\": \"control line");
  expect(fd, "", "\"text\"");
  expect(fd, "{\"do\": \"status\"}", "\"added\": 77");
  expect(fd, "{\"do\": \"revoke\", \"holder\": \"me\", \"job\": 1}", "job 1 has no grant here");
  memset(much, 'x', sizeof much);
  exchange(other, much, sizeof much, answer, sizeof answer);
  assert_string_equal(answer, "");
  expect(fd, "{\"do\": \"describe\"}", "\"kind\": \"idle\"");
  close(fd);
  close(other);
  run(5);
  by_switch_control_destroy(control);
  assert_int_equal(access(path, F_OK), -1);
}

/* A switch that was killed leaves its socket, which is replaced. A running one keeps it, and another kind of file
 * remains. */
static void test_places(void **state) {
  (void)state;
  struct by_switch_control *control = make_control(NULL), *second = make_control(NULL);
  const struct by_path_socket dead = {.path = path, .program = "switch", .option = "--control PATH", .mode = 0666};
  struct by_address outside;
  int left;
  assert_ok(by_path_socket_listen(&dead, &left));
  close(left);
  assert_int_equal(access(path, F_OK), 0);
  assert_ok(by_switch_control_listen_at(control, path));
  assert_status(by_switch_control_listen_at(second, path), BANYAN_ERR_ARGUMENT);
  by_switch_control_destroy(second);
  assert_int_equal(access(path, F_OK), 0);
  assert_ok(by_address_parse("0.0.0.0:0", &outside));
  assert_status(by_switch_control_listen(control, &outside), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "BANYAN_SWITCH_KEY"));
  by_switch_control_destroy(control);
  control = make_control(NULL);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fclose(file), 0);
  assert_int_not_equal(by_switch_control_listen_at(control, path), BANYAN_OK);
  assert_int_equal(unlink(path), 0);
  by_switch_control_destroy(control);
}

/* ---- the client */

struct events {
  bool has; /* A grant is in force. */
  unsigned granted, lost;
  enum by_reservation_lost why;
  struct by_granted what;
  char text[400];
  struct by_switch_client *destroy; /* This client is destroyed when a grant is lost. */
};

static void granted(void *context, uint16_t job, const struct by_granted *what) {
  struct events *events = context;
  events->granted++;
  events->has = true;
  events->what = *what;
}

static void lost(void *context, uint16_t job, enum by_reservation_lost why, const char *text) {
  struct events *events = context;
  events->lost++;
  events->has = false;
  events->why = why;
  snprintf(events->text, sizeof events->text, "%s", text);
  by_switch_client_destroy(events->destroy);
  events->destroy = NULL;
}

static void wait_for(const unsigned *counter, unsigned wanted) {
  for (int i = 0; i < 20000 && *counter < wanted; i++) run(1);
  assert_int_equal(*counter, wanted);
}

static struct by_address free_place(void) {
  struct by_address any, bound;
  int fd;
  assert_ok(by_address_parse("127.0.0.1:0", &any));
  assert_ok(by_socket_listen(&any, (struct by_port_range){0, 0}, &fd, &bound));
  close(fd);
  return bound;
}

static struct by_switch_client *make_client_that(enum by_encryption encryption, const struct by_address *at,
                                                 const char *secret, struct events *events) {
  struct by_key key;
  struct by_switch_client_options options = {.loop = loop,
                                             .name = "tor",
                                             .address = *at,
                                             .key = secret ? &key : NULL,
                                             .encryption = encryption,
                                             .granted = granted,
                                             .lost = lost,
                                             .context = events};
  struct by_switch_client *client;
  if (secret) assert_ok(by_key_derive(secret, &key));
  assert_ok(by_switch_client_create(&options, &client));
  return client;
}

static struct by_switch_client *make_client(const struct by_address *at, const char *secret, struct events *events) {
  return make_client_that(BY_ENCRYPT_BETWEEN_HOSTS, at, secret, events);
}

/* An address of IPv6, and port 1. */
#define END(last)                                                                                                      \
  { {{{0xfd, [15] = (last)}}}, 1 }

static struct by_reservation reservation_of(uint16_t job, uint32_t slots) {
  return (struct by_reservation){.job = job,
                                 .key = 1,
                                 .keyed = true,
                                 .secret = {1, 2, 3},
                                 .slots = slots,
                                 .up = "lo",
                                 .server = END(1),
                                 .n_below = 1,
                                 .n_workers = 1,
                                 .below = {{"lo", false, 0, 1}},
                                 .workers = {END(2)}};
}

/* There is no switch at first. Then one starts, it dies, and another one takes its place. */
static void test_client(void **state) {
  (void)state;
  struct events events = {0};
  struct by_address at = free_place();
  struct by_switch_client *client = make_client(&at, "secret", &events);
  struct by_reservation reservation = reservation_of(3, 7), wrong = reservation_of(4, 1);
  wrong.up[0] = 0;
  assert_status(by_switch_client_want(client, &wrong), BANYAN_ERR_ARGUMENT);
  assert_ok(by_switch_client_want(client, &reservation));
  wait_for(&events.lost, 1);
  assert_int_equal(events.why, BY_RESERVATION_SILENT);
  for (unsigned i = 1; i < 3; i++) {
    struct by_switch_control *control = make_control("secret");
    assert_ok(by_switch_control_listen(control, &at));
    wait_for(&events.granted, i);
    assert_int_equal(events.what.slots, 7);
    assert_true(events.has);
    assert_int_equal(events.lost, i);
    by_switch_control_destroy(control);
    wait_for(&events.lost, i + 1);
    assert_false(events.has);
  }
  by_switch_client_destroy(client);
}

/* As many workers as a request can name, all but one of them behind another switch. */
static void test_many_workers(void **state) {
  (void)state;
  struct events events = {0};
  struct by_address at = free_place();
  struct by_switch_control *control = make_control(NULL);
  assert_ok(by_switch_control_listen(control, &at));
  struct by_switch_client *client = make_client(&at, NULL, &events);
  struct by_reservation reservation = reservation_of(3, 7);
  reservation.n_workers = BY_RESERVATION_WORKERS;
  assert_ok(by_udp_end_parse("10.9.9.9:7612", &reservation.server));
  reservation.n_below = 2;
  reservation.below[0] = (struct by_reservation_below){"lo", true, 0, BY_RESERVATION_WORKERS - 1};
  reservation.below[1] = (struct by_reservation_below){"lo", false, BY_RESERVATION_WORKERS - 1, 1};
  for (uint32_t w = 0; w < BY_RESERVATION_WORKERS; w++)
    reservation.workers[w] =
        (struct by_udp_end){by_host_of_ipv4((struct in_addr){htonl(0x0a000000 + w)}), htons((uint16_t)(7612 + w))};
  assert_ok(by_switch_client_want(client, &reservation));
  wait_for(&events.granted, 1);
  assert_int_equal(granted_ends.n_workers, BY_RESERVATION_WORKERS);
  for (uint32_t w = 0; w < BY_RESERVATION_WORKERS; w++)
    assert_true(by_udp_end_same(&granted_ends.workers[w].end, &reservation.workers[w]));
  by_switch_client_destroy(client);
  by_switch_control_destroy(control);
}

/* Cells of another client are not requested again, and released cells are available. */
static void test_two_clients(void **state) {
  (void)state;
  struct events first = {0}, second = {0};
  struct by_address at = free_place();
  struct by_switch_control *control = make_control(NULL);
  assert_ok(by_switch_control_listen(control, &at));
  struct by_switch_client *a = make_client(&at, NULL, &first), *b = make_client(&at, NULL, &second);
  struct by_reservation reservation = reservation_of(3, 7), other = reservation_of(4, 7);
  assert_ok(by_switch_client_want(a, &reservation));
  wait_for(&first.granted, 1);
  assert_ok(by_switch_client_want(b, &reservation));
  wait_for(&second.lost, 1);
  assert_int_equal(second.why, BY_RESERVATION_TAKEN);
  assert_ok(by_switch_client_want(b, &other));
  wait_for(&second.granted, 1);
  assert_int_equal(second.what.slots, 3);
  by_switch_client_drop(a, 3);
  by_switch_client_drop(b, 4);
  run(20);
  assert_ok(by_switch_client_want(b, &reservation));
  wait_for(&second.granted, 2);
  assert_int_equal(second.what.slots, 7);
  by_switch_client_destroy(a);
  by_switch_client_destroy(b);
  by_switch_control_destroy(control);
}

/* Through TLS the proof of the secret is the same: with another one, nothing is granted. */
static void test_encrypted(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct events events = {0};
    struct by_address at = free_place();
    struct by_switch_control *control = make_control(i ? "another" : "secret");
    assert_ok(by_switch_control_listen(control, &at));
    struct by_switch_client *client = make_client_that(BY_ENCRYPT_ALWAYS, &at, "secret", &events);
    struct by_reservation reservation = reservation_of(3, 7);
    assert_ok(by_switch_client_want(client, &reservation));
    wait_for(i ? &events.lost : &events.granted, 1);
    assert_int_equal(events.has, !i);
    by_switch_client_destroy(client);
    by_switch_control_destroy(control);
  }
}

/* A grant without a secret needs the switch's consent; a secret is sent to no other host that cannot show that it is
 * the switch. */
static void test_unauthenticated(void **state) {
  (void)state;
  struct by_reservation reservation = reservation_of(3, 7), keyed = reservation;
  reservation.keyed = false;
  for (int accepts = 0; accepts < 2; accepts++) {
    struct events events = {0};
    struct by_address at = free_place();
    struct by_switch_control *control = make_control_that(accepts, "secret");
    assert_ok(by_switch_control_listen(control, &at));
    struct by_switch_client *client = make_client(&at, "secret", &events);
    assert_ok(by_switch_client_want(client, &reservation));
    wait_for(accepts ? &events.granted : &events.lost, 1);
    assert_int_equal(events.has, accepts);
    if (!accepts) {
      assert_int_equal(events.why, BY_RESERVATION_REFUSED);
      assert_non_null(strstr(events.text, "--accept-unauthenticated"));
    }
    by_switch_client_destroy(client);
    by_switch_control_destroy(control);
  }
  struct events events = {0};
  struct by_address elsewhere;
  assert_ok(by_address_parse_host("203.0.113.1", 7613, &elsewhere));
  struct by_switch_client *client = make_client(&elsewhere, NULL, &events);
  assert_status(by_switch_client_want(client, &keyed), BANYAN_ERR_ARGUMENT);
  by_switch_client_destroy(client);
}

/* The other end has another key, or one of them has none. */
static void test_keys(void **state) {
  (void)state;
  static const char *const keys[][2] = {{"a", "b"}, {"a", NULL}, {NULL, "b"}};
  for (int i = 0; i < 3; i++) {
    struct events events = {0};
    struct by_address at = free_place();
    struct by_switch_control *control = make_control(keys[i][0]);
    assert_ok(by_switch_control_listen(control, &at));
    struct by_switch_client *client = make_client(&at, keys[i][1], &events);
    struct by_reservation reservation = reservation_of(3, 7);
    assert_ok(by_switch_client_want(client, &reservation));
    events.destroy = client;
    wait_for(&events.lost, 1);
    assert_int_equal(events.why, BY_RESERVATION_SILENT);
    assert_non_null(strstr(events.text, "switch tor (127.0.0.1:"));
    assert_int_equal(events.granted, 0);
    by_switch_control_destroy(control);
  }
}

/* Far more than the allowed number of peers connect, over both kinds of socket, with a key and without. None of
 * them keeps others out. */
static void test_many_silent_peers(void **state) {
  enum { MANY = 600 };
  static const char *const secrets[] = {NULL, "secret"};
  for (int i = 0; i < 2; i++) {
    struct events events = {0};
    struct by_address at = free_place();
    struct by_switch_control *control = make_control(secrets[i]);
    int fds[MANY], fd;
    assert_ok(by_switch_control_listen(control, &at));
    assert_ok(by_switch_control_listen_at(control, path));
    for (int j = 0; j < MANY; j++) {
      if (j % 2)
        assert_ok(by_path_socket_connect(path, "switch", &fds[j]));
      else
        assert_ok(by_socket_connect_start(&at, &fds[j]));
      run(1);
    }
    assert_ok(by_path_socket_connect(path, "switch", &fd));
    expect(fd, "{\"do\": \"describe\"}", "\"kind\": \"idle\"");
    struct by_switch_client *client = make_client(&at, secrets[i], &events);
    struct by_reservation reservation = reservation_of(3, 7);
    assert_ok(by_switch_client_want(client, &reservation));
    wait_for(&events.granted, 1);
    by_switch_client_destroy(client);
    for (int j = 0; j < MANY; j++) close(fds[j]);
    close(fd);
    by_switch_control_destroy(control);
  }
}

static int set_up(void **state) {
  strcpy(folder, "/tmp/banyan-control-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/made/sock", folder);
  return by_loop_create(&by_clock_system, &loop) != BANYAN_OK;
}

static int tear_down(void **state) {
  char made[96];
  snprintf(made, sizeof made, "%s/made", folder);
  by_loop_destroy(loop);
  return rmdir(made) || rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines),
                                     cmocka_unit_test(test_places),
                                     cmocka_unit_test(test_client),
                                     cmocka_unit_test(test_two_clients),
                                     cmocka_unit_test(test_many_workers),
                                     cmocka_unit_test(test_keys),
                                     cmocka_unit_test(test_encrypted),
                                     cmocka_unit_test(test_unauthenticated),
                                     cmocka_unit_test(test_many_silent_peers)};
  return cmocka_run_group_tests_name("switch_control", tests, set_up, tear_down);
}
