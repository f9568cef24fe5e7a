/* Golden lines of the replies of a switch that no writer can make without the switch's state: describe, and status
 * with and without a grant. A real control, with a data plane that does nothing, answers over its Unix socket, by the
 * test's clock. The version of the library is left out. golden_lines.c has requests and the other replies. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "golden.h"
#include "reservation.h"
#include "socket.h"
#include "switch_control.h"

static enum banyan_status do_range(void *self, uint32_t base, uint32_t count) {
  (void)self;
  (void)base;
  (void)count;
  return BANYAN_OK;
}

static enum banyan_status do_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  (void)self;
  (void)grant;
  return BANYAN_OK;
}

static enum banyan_status do_revoke(void *self, uint16_t job) {
  (void)self;
  (void)job;
  return BANYAN_OK;
}

static enum banyan_status do_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  (void)self;
  (void)group;
  (void)targets;
  (void)n;
  return BANYAN_OK;
}

static enum banyan_status do_count(const void *self, struct by_plane_counts *out) {
  (void)self;
  for (uint64_t i = 0; i < BY_EVENTS; i++) out->events[i] = 100 + i;
  out->unsent = 5;
  out->expired = 6;
  return BANYAN_OK;
}

static uint64_t now_of(void *context) {
  return *(const uint64_t *)context;
}

/* Sends a line and adds the answer as a golden line, without the version. */
static void ask(struct by_loop *loop, int fd, const char *line, const char *name) {
  static char answer[BY_RESERVATION_REPLY];
  struct by_reservation_reply reply;
  size_t have = 0;
  assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
  for (int i = 0; i < 5000 && !memchr(answer, '\n', have); i++) {
    assert_ok(by_loop_run_once(loop, BY_MILLISECOND));
    ssize_t n = recv(fd, answer + have, sizeof answer - have - 1, MSG_DONTWAIT);
    if (n > 0) have += (size_t)n;
  }
  assert_non_null(memchr(answer, '\n', have));
  *(char *)memchr(answer, '\n', have) = 0;
  char *version = strstr(answer, BANYAN_VERSION);
  if (version) memmove(version, version + strlen(BANYAN_VERSION), strlen(version + strlen(BANYAN_VERSION)) + 1);
  golden_line(name, answer);
  assert_ok(by_reservation_read_reply(answer, strlen(answer), &reply));
  assert_true(reply.well);
}

static void test_answers(void **state) {
  static const struct by_plane_ops ops = {.name = "idle",
                                          .clear = do_range,
                                          .grant = do_grant,
                                          .revoke = do_revoke,
                                          .set_group = do_group,
                                          .count = do_count};
  static const struct by_plane plane = {.ops = &ops};
  static const char *const ports[] = {"lo"};
  static const char grant[] =
      "{\"do\": \"grant\", \"holder\": \"me\", \"job\": 7, \"key\": 1, \"place\": 0, "
      "\"secret\": \"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\", "
      "\"slots\": 4, \"up\": \"lo\", \"server\": \"127.0.0.1:7612\", \"below\": [{\"interface\": "
      "\"lo\", \"switch\": false, \"workers\": [\"127.0.0.2:7612\"]}]}\n";
  char folder[] = "/tmp/golden-switch-XXXXXX", path[64];
  uint64_t now = BY_SECOND;
  struct by_clock clock = {now_of, &now};
  struct by_loop *loop;
  struct by_switch_control *control;
  int fd;
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/socket", folder);
  assert_ok(by_loop_create(&clock, &loop));
  struct by_switch_control_options options = {.loop = loop, .plane = &plane, .cells = 10, .n_ports = 1, .ports = ports};
  assert_ok(by_switch_control_create(&options, &control));
  assert_ok(by_switch_control_listen_at(control, path));
  assert_ok(by_path_socket_connect(path, "switch", &fd));
  now += 4 * BY_SECOND;
  ask(loop, fd, "{\"do\": \"describe\"}\n", "described");
  ask(loop, fd, "{\"do\": \"status\"}\n", "status of an idle switch");
  ask(loop, fd, grant, "granted");
  ask(loop, fd, "{\"do\": \"status\"}\n", "status with a grant");
  close(fd);
  by_switch_control_destroy(control);
  by_loop_destroy(loop);
  (void)unlink(path);
  (void)rmdir(folder);
}

int golden_switch(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(golden_end)};
  golden_begin("switch", "What a switch says of itself.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
