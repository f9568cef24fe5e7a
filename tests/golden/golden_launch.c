/* Golden bytes of what `banyan run` and its `run-host` processes send to each other through pipes: the hello, and each
 * type of frame with a payload as its sender makes it, including the description of what a host has to start. Each is
 * read from the pipe and written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "directory_message.h"
#include "golden.h"
#include "job_keys.h"
#include "launch_io.h"

enum { MOST = 4096 };

static bool types_seen[BY_LAUNCH_TYPES];

/* ---- a pipe ---- */

struct pipe {
  int ends[2];
  struct by_pipe out;
};

static void open_pipe(struct pipe *it) {
  assert_int_equal(pipe(it->ends), 0);
  by_pipe_init(&it->out, it->ends[1], SIZE_MAX);
}

static void close_pipe(struct pipe *it) {
  by_pipe_fini(&it->out);
  close(it->ends[0]);
  close(it->ends[1]);
}

/* Takes the bytes that have been written. */
static size_t take(struct pipe *it, char *bytes) {
  by_pipe_flush(&it->out);
  assert_int_equal(by_pipe_waiting(&it->out), 0);
  ssize_t n = read(it->ends[0], bytes, MOST);
  assert_true(n > 0);
  return (size_t)n;
}

/* Reads bytes as the reader of a pipe does. *in must be freed. */
static struct by_launch_frame read_back(const char *bytes, size_t n, struct by_pipe *in) {
  struct by_launch_frame frame = {0};
  struct pipe again;
  open_pipe(&again);
  assert_int_equal(write(again.ends[1], bytes, n), n);
  *in = (struct by_pipe){0};
  assert_true(by_pipe_fill(in, again.ends[0]));
  assert_int_equal(by_pipe_next(in, &frame), 1);
  close_pipe(&again);
  return frame;
}

/* ---- frames ---- */

static void frame(const char *name, enum by_launch_frame_type type, uint32_t number, const void *payload,
                  size_t length) {
  char bytes[MOST], again[MOST];
  struct by_pipe in;
  struct pipe it;
  open_pipe(&it);
  by_pipe_frame(&it.out, type, number, payload, length);
  size_t n = take(&it, bytes);
  golden_bytes(name, bytes, n);
  types_seen[type] = true;
  struct by_launch_frame read = read_back(bytes, n, &in);
  assert_int_equal(read.type, type);
  assert_int_equal(read.number, number);
  by_pipe_frame(&it.out, read.type, read.number, read.payload, read.length);
  assert_int_equal(take(&it, again), n);
  assert_memory_equal(again, bytes, n);
  by_pipe_fini(&in);
  close_pipe(&it);
}

#define FINGERPRINT "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef"

static void test_frames(void **state) {
  static const char range_and_interface[] = "7000-7099\0eth0",
                    root[] = "10.0.0.1:7001#" FINGERPRINT "\0"
                             "7002\0"
                             "7003",
                    answers[] = "alpha:7003,10.0.0.1:7003#" FINGERPRINT;
  (void)state;
  golden_bytes("hello of a host", BY_LAUNCH_HELLO, strlen(BY_LAUNCH_HELLO));
  frame("PORT", BY_LAUNCH_PORT, 3, range_and_interface, sizeof range_and_interface);
  frame("SIGNAL", BY_LAUNCH_SIGNAL, 15, NULL, 0);
  frame("PORT_IS", BY_LAUNCH_PORT_IS, 7001, root, sizeof root - 1);
  frame("STDOUT", BY_LAUNCH_STDOUT, 0x01020304, "a line\n", 7);
  frame("STDERR", BY_LAUNCH_STDERR, 3, "\0\xff", 2);
  frame("ENDED", BY_LAUNCH_ENDED, 3, "256", 3);
  frame("ENDED, had not left", BY_LAUNCH_ENDED, 3, "0" BY_HAD_JOINED, 8);
  frame("ERROR", BY_LAUNCH_ERROR, 127, "no such program", 15);
  frame("ELASTIC", BY_LAUNCH_ELASTIC, 2, "4\0test -e gone", 15);
  frame("RESTART", BY_LAUNCH_RESTART, 3, "1", 1);
  frame("MESSAGE", BY_LAUNCH_MESSAGE, 3, "\6\0", 2);
  frame("LEAVING", BY_LAUNCH_LEAVING, 0, "it got SIGUSR1", 14);
  frame("KEY", BY_LAUNCH_KEY, 0, JOB_KEY, strlen(JOB_KEY));
  frame("REACH", BY_LAUNCH_REACH, 0, answers, sizeof answers - 1);
  frame("REACH, the answer", BY_LAUNCH_REACH, 0, "10.0.0.1", 8);
}

static void test_start(void **state) {
  char command[3][8] = {"./train", "-n", "4"}, environment[2][16] = {"BANYAN_SIZE=8", "EMPTY="};
  char *argv[] = {command[0], command[1], command[2], NULL}, *envp[] = {environment[0], environment[1], NULL};
  struct by_host_job job = {
      .first = 4, .ranks = 2, .size = 8, .pin = -1, .directory = "/home/me", .command = argv, .environment = envp};
  char bytes[MOST], again[MOST], payload[MOST];
  struct by_host_job read;
  struct by_pipe in;
  struct pipe it;
  (void)state;
  open_pipe(&it);
  by_host_job_send(&it.out, &job, (const char *const *)job.command);
  size_t n = take(&it, bytes);
  golden_bytes("START", bytes, n);
  struct by_launch_frame start = read_back(bytes, n, &in);
  assert_int_equal(start.type, BY_LAUNCH_START);
  types_seen[start.type] = true;
  assert_true(start.length < sizeof payload);
  memcpy(payload, start.payload, start.length + 1);
  assert_ok(by_host_job_parse(payload, start.length, &read));
  by_host_job_send(&it.out, &read, (const char *const *)read.command);
  assert_int_equal(take(&it, again), n);
  assert_memory_equal(again, bytes, n);
  by_host_job_fini(&read);
  by_pipe_fini(&in);
  close_pipe(&it);
}

/* ---- what processes that come and go, and the launcher, send to each other */

static void test_directory(void **state) {
  static const struct by_directory_message messages[] = {{BY_DIRECTORY_REGISTER, 0x010203, 2, "banyan1:AAEC"},
                                                         {BY_DIRECTORY_MEMBER, 1, 4, "auto-2-5"},
                                                         {BY_DIRECTORY_FAILED, 1, 0, "rank 2 did not come"},
                                                         {BY_DIRECTORY_PEER, 3, 0, "banyan1:AAEC"},
                                                         {BY_DIRECTORY_FIRST, 1, 4, ""},
                                                         {BY_DIRECTORY_JOIN, 0, 3, ""},
                                                         {BY_DIRECTORY_DEAD, 0, 0, "banyan1:AAEC"},
                                                         {BY_DIRECTORY_LEAVE, 0, 0, "it got SIGUSR1"},
                                                         {BY_DIRECTORY_REFUSED, 0, 0, "of another job"}};
  static const char *const names[] = {"register", "member", "failed", "peer",    "first",
                                      "join",     "dead",   "leave",  "refused", "leaving"};
  (void)state;
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    uint8_t bytes[BY_DIRECTORY_MOST];
    char name[64];
    struct by_directory_message read;
    size_t n = by_directory_write(&messages[i], bytes);
    snprintf(name, sizeof name, "directory: %s", names[i]);
    golden_bytes(name, bytes, n);
    bool from_process = messages[i].type < BY_DIRECTORY_PEER || messages[i].type == BY_DIRECTORY_LEAVING;
    assert_ok(by_directory_read(bytes, n, from_process, &read));
    assert_true(read.type == messages[i].type && read.number == messages[i].number && read.count == messages[i].count);
    assert_string_equal(read.text, messages[i].text);
    assert_status(by_directory_read(bytes, n, !from_process, &read), BANYAN_ERR_PROTOCOL);
    assert_status(by_directory_read(bytes, n - 1, from_process, &read), BANYAN_ERR_PROTOCOL);
  }
}

static void test_all_types(void **state) {
  (void)state;
  for (int type = BY_LAUNCH_PORT; type < BY_LAUNCH_TYPES; type++)
    if (!types_seen[type]) fail_msg("there is no frame of type %d", type);
}

int golden_launch(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames), cmocka_unit_test(test_start),
                                     cmocka_unit_test(test_directory), cmocka_unit_test(test_all_types),
                                     cmocka_unit_test(golden_end)};
  golden_begin("launch", "Frames between `banyan run` and the hosts that it starts ranks on.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
