#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "launch.h"
#include "launch_io.h"
#include "launch_link.h"
#include "rank_output.h"
#include "rng.h"
#include "run_host.h"
#include "socket.h"

/* ---- hosts ---- */

static void test_fills_in_order(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:2,user@b:1,c,a:1,d:5"));
  assert_int_equal(hosts.count, 4);
  assert_int_equal(by_hosts_slots(&hosts), 10);
  assert_ok(by_hosts_place(&hosts, 5));
  assert_int_equal(hosts.count, 3); /* Host d stays empty. */
  static const struct {
    const char *name, *destination;
    int first, ranks;
  } wanted[] = {{"a", "a", 0, 3}, {"b", "user@b", 3, 1}, {"c", "c", 4, 1}};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(hosts.items[i].name, wanted[i].name);
    assert_string_equal(hosts.items[i].destination, wanted[i].destination);
    assert_int_equal(hosts.items[i].first, wanted[i].first);
    assert_int_equal(hosts.items[i].ranks, wanted[i].ranks);
    assert_false(hosts.items[i].local);
  }
  by_hosts_fini(&hosts);
}

static void test_too_few_slots(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:2,b:1"));
  assert_status(by_hosts_place(&hosts, 4), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "have 3 slots for 4 ranks"));
  by_hosts_fini(&hosts);
}

static void test_what_is_local(void **state) {
  (void)state;
  char own[256] = "";
  struct by_launch_hosts hosts;
  gethostname(own, sizeof own - 1);
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "localhost,127.0.0.1:2,127.3.2.1,[::1]:3"));
  assert_ok(by_hosts_parse(&hosts, own));
  assert_true(by_hosts_all_local(&hosts));
  assert_string_equal(hosts.items[3].name, "::1");
  assert_int_equal(hosts.items[3].slots, 3);
  assert_ok(by_hosts_parse(&hosts, "me@[2001:db8::77]:3"));
  assert_false(by_hosts_all_local(&hosts));
  assert_string_equal(hosts.items[5].destination, "me@2001:db8::77");
  by_hosts_fini(&hosts);
}

static void test_what_is_no_host(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",       ":2",  "a:",    "a:0",  "a:-1",          "a:b", "a,,b", "-oProxyCommand=x", "a b", "a;b",
      "u@-v:1", "::1", "a:1:2", "$(x)", "a:99999999999", "a'b", "@",    "a:2,b\n:1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct by_launch_hosts hosts;
    by_hosts_init(&hosts);
    if (by_hosts_parse(&hosts, bad[i]) == BANYAN_OK) fail_msg("\"%s\" is accepted", bad[i]);
    by_hosts_fini(&hosts);
  }
}

static void test_too_many(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:65536"));
  assert_status(by_hosts_parse(&hosts, "a:1"), BANYAN_ERR_ARGUMENT);
  by_hosts_fini(&hosts);
  by_hosts_init(&hosts);
  enum banyan_status status = BANYAN_OK;
  char name[16];
  int n = 0;
  for (; status == BANYAN_OK && n < 100000; n++) {
    snprintf(name, sizeof name, "h%d", n);
    status = by_hosts_parse(&hosts, name);
  }
  assert_int_equal(hosts.count, BY_MAX_HOSTS);
  by_hosts_fini(&hosts);
}

static enum banyan_status enter_nowhere(void *context, const struct by_launch_host *host) {
  (void)context;
  (void)host;
  return BANYAN_OK;
}

/* Helpers are numbered after the ranks, host by host, and remain when the list they came from has been freed. */
static void test_helpers(void **state) {
  (void)state;
  int place = 0;
  struct by_launch_hosts hosts, helpers;
  by_hosts_init(&hosts);
  by_hosts_init(&helpers);
  assert_ok(by_hosts_parse(&hosts, "a:2,b:4,c:4"));
  assert_ok(by_hosts_place(&hosts, 5)); /* Host c stays empty. */
  assert_ok(by_hosts_parse(&helpers, "me@x:2,a"));
  assert_ok(by_hosts_add_place(&helpers, "y", 1, enter_nowhere, &place));
  assert_ok(by_hosts_add_beside(&hosts, &helpers, BY_HELPERS, 5));
  by_hosts_fini(&helpers);
  static const struct by_launch_host expected[] = {
      {.name = "a", .destination = "a", .first = 0, .ranks = 2},
      {.name = "b", .destination = "b", .first = 2, .ranks = 3},
      {.name = "x", .destination = "me@x", .first = 5, .ranks = 2, .beside = BY_HELPERS},
      {.name = "a", .destination = "a", .first = 7, .ranks = 1, .beside = BY_HELPERS},
      {.name = "y", .destination = "y", .first = 8, .ranks = 1, .beside = BY_HELPERS}};
  assert_int_equal(hosts.count, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(hosts.items[i].name, expected[i].name);
    assert_string_equal(hosts.items[i].destination, expected[i].destination);
    assert_int_equal(hosts.items[i].first, expected[i].first);
    assert_int_equal(hosts.items[i].ranks, expected[i].ranks);
    assert_int_equal(hosts.items[i].beside, expected[i].beside);
  }
  assert_ptr_equal(hosts.items[4].enter, enter_nowhere);
  assert_ptr_equal(hosts.items[4].context, &place);
  assert_true(hosts.items[4].local);
  by_hosts_fini(&hosts);
}

/* ---- host files ---- */

static void test_host_files(void **state) {
  static const struct {
    const char *text, *hosts; /* "destination:slots ..." */
    const char *error;        /* behind the name of the file */
  } cases[] = {
      /* Open MPI */
      {"# from mpirun\nnode1 slots=2 max_slots=4\nnode2 slots=2 max-slots=4 # two\n", "node1:2 node2:2 ", NULL},
      {"node1 slots = 2  max_slots =4\r\n\tme@node2\tslots= 3\n", "node1:2 me@node2:3 ", NULL},
      {"node1 username=me slots=2\nnode2 cpu=3\nnode3 count=4\n", "me@node1:2 node2:3 node3:4 ", NULL},
      {"\xef\xbb\xbfnode1 slots=2\r\nnode2\r\n", "node1:2 node2:1 ", NULL},
      {"node1 slots=4 max_slots=2\n", NULL, ":1: slots=4 are more than max_slots=2"},
      /* MPICH */
      {"node1:4\nnode2:2 binding=rr ifname=eth1 user=me\nnode3 map=hwthread", "node1:4 me@node2:2 node3:1 ", NULL},
      /* Slurm */
      {"node[1-3,07]\n", "node1:1 node2:1 node3:1 node07:1 ", NULL},
      {"node[1-2,7]:2,gpu[0-1] slots=3\n", NULL, ":1: the slots of node1 are given twice"},
      {"me@r[1-2]n[0-1]-ib:2\n", "me@r1n0-ib:2 me@r1n1-ib:2 me@r2n0-ib:2 me@r2n1-ib:2 ", NULL},
      {"n[1-2],gpu3 slots=2 user=me", "me@n1:2 me@n2:2 me@gpu3:2 ", NULL},
      {"node1\nnode1\nnode2\nnode1\n", "node1:3 node2:1 ", NULL},
      /* addresses */
      {"[2001:db8::1]:2\nme@[2001:db8::2] slots=3\n10.0.0.1\n", "2001:db8::1:2 me@2001:db8::2:3 10.0.0.1:1 ", NULL},
      {"2001:db8::1\n", NULL, ":1: write the address 2001:db8::1 in brackets"},
      /* mistakes */
      {"a\nb slot=2\n", NULL, ":2: \"slot=2\" after the host is unknown: there are slots=N, max_slots=N, user=NAME"},
      {"a slots\n", NULL, ":1: \"slots\" after the host is unknown"},
      {"a slots=\n", NULL, ":1: \"slots=\" after the host is unknown"},
      {"a s=2\n", NULL, ":1: \"s=2\" after the host is unknown"},
      {"a slots=x\n", NULL, ":1: slots"},
      {"a slots=0\n", NULL, ":1: slots"},
      {"a b\n", NULL, ":1: \"b\" after the host is unknown"},
      {"x@a user=me\n", NULL, ":1: the user of x@a is given twice"},
      {"a user=-oProxyCommand\n", NULL, ":1: \"-oProxyCommand@a\" is not a host"},
      {"node[1-\n", NULL, ":1: \"node[1-\" is no list of hosts such as node[1-3,7],gpu2"},
      {"node[0-4096]\n", NULL, ":1: [0-4096] stands for more than 4096 hosts, the largest number"},
      {"a,\n", NULL, ":1: \"\" is no list"},
      {"\n# nothing\n", NULL, " names no host"},
      {"", NULL, " names no host"},
  };
  char path[] = "/tmp/banyan-hosts-XXXXXX";
  struct by_launch_hosts hosts;
  (void)state;
  close(mkstemp(path));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char found[256] = "";
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
    close(fd);
    by_hosts_init(&hosts);
    enum banyan_status status = by_hosts_read(&hosts, path);
    for (size_t k = 0; k < hosts.count && cases[i].hosts; k++) {
      size_t used = strlen(found);
      snprintf(found + used, sizeof found - used, "%s:%d ", hosts.items[k].destination, hosts.items[k].slots);
    }
    if (cases[i].hosts) {
      assert_ok(status);
      assert_string_equal(found, cases[i].hosts);
    } else {
      if (!status) fail_msg("accepted: %s", cases[i].text);
      assert_memory_equal(banyan_error_text(), path, strlen(path));
      assert_memory_equal(banyan_error_text() + strlen(path), cases[i].error, strlen(cases[i].error));
    }
    by_hosts_fini(&hosts);
  }
  unlink(path);
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "node[1-2]:2,me@gpu[07-08]"));
  assert_int_equal(by_hosts_slots(&hosts), 6);
  assert_string_equal(hosts.items[3].destination, "me@gpu08");
  by_hosts_fini(&hosts);
  by_hosts_init(&hosts); /* A short text that means many hosts is not read to its end. */
  enum banyan_status status = BANYAN_OK;
  for (int i = 0; i < 100 && status == BANYAN_OK; i++) status = by_hosts_parse(&hosts, "n[1-1000],n[1-1000]");
  assert_status(status, BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "one host too many: at most 65536 are possible"));
  by_hosts_fini(&hosts);
}

/* ---- a Slurm allocation ---- */

static void test_slurm(void **state) {
  static const struct {
    const char *nodes, *tasks, *hosts; /* hosts: "name:slots ..." */
  } cases[] = {
      {"n1", "4", "n1:4 "},
      {"n[1-2,07-10],gpu3", "2(x3),1(x3),8", "n1:2 n2:2 n07:2 n08:1 n09:1 n10:1 gpu3:8 "},
      {"r[1-2]n[0-1]-ib", "1(x4)", "r1n0-ib:1 r1n1-ib:1 r2n0-ib:1 r2n1-ib:1 "},
      {"a,b", NULL, "a:1 b:1 "},
      {"n[1-", "1", NULL},
      {"n[]", "1", NULL},
      {"n[x]", "1", NULL},
      {"n[2-1]", "1", NULL},
      {"n[0-9999999999]", "1", NULL},
      {"n[0-99999]", "1(x100000)", NULL},
      {"a,,b", "1(x3)", NULL},
      {"a,b", "1", NULL},
      {"a,b", "1(x2", NULL},
      {"a,b", "0(x2)", NULL},
      {"a,b", "many", NULL},
      {"", "1", NULL},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char found[256] = "";
    struct by_launch_hosts hosts;
    setenv("SLURM_JOB_NODELIST", cases[i].nodes, 1);
    unsetenv("SLURM_TASKS_PER_NODE");
    if (cases[i].tasks) setenv("SLURM_TASKS_PER_NODE", cases[i].tasks, 1);
    by_hosts_init(&hosts);
    enum banyan_status status = by_hosts_add_slurm(&hosts);
    if (!cases[i].hosts && !status) fail_msg("accepted: %s, %s", cases[i].nodes, cases[i].tasks);
    for (size_t k = 0; k < hosts.count && cases[i].hosts; k++) {
      size_t used = strlen(found);
      assert_true(hosts.items[k].node && !hosts.items[k].local);
      snprintf(found + used, sizeof found - used, "%s:%d ", hosts.items[k].name, hosts.items[k].slots);
    }
    if (cases[i].hosts) assert_ok(status);
    if (cases[i].hosts) assert_string_equal(found, cases[i].hosts);
    by_hosts_fini(&hosts);
  }
  unsetenv("SLURM_JOB_NODELIST");
  unsetenv("SLURM_TASKS_PER_NODE");
}

/* ---- what the launcher and its hosts exchange, and the output of ranks ---- */

/* Frames of all sizes pass a pipe, in whatever pieces it takes them. */
static void test_frames_come_through(void **state) {
  (void)state;
  enum { FRAMES = 400, MOST = 300000 };
  int ends[2];
  char *bytes = malloc(MOST);
  struct by_rng rng, again;
  struct by_pipe out;
  struct by_pipe in = {0};
  struct by_launch_frame frame;
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  by_rng_init(&rng, 5);
  by_rng_init(&again, 5);
  by_pipe_init(&out, ends[1], SIZE_MAX);
  int sent = 0, got = 0;
  while (got < FRAMES) {
    if (sent < FRAMES) {
      size_t length = (size_t)by_rng_below(&rng, by_rng_below(&rng, 4) ? 100 : MOST);
      memset(bytes, 'a' + sent % 26, length);
      by_pipe_frame(&out, BY_LAUNCH_STDOUT, (uint32_t)sent++, bytes, length);
    }
    by_pipe_flush(&out);
    assert_true(by_pipe_fill(&in, ends[0]));
    int found;
    while ((found = by_pipe_next(&in, &frame)) > 0) {
      size_t length = (size_t)by_rng_below(&again, by_rng_below(&again, 4) ? 100 : MOST);
      assert_int_equal(frame.type, BY_LAUNCH_STDOUT);
      assert_int_equal(frame.number, got);
      assert_int_equal(frame.length, length);
      assert_int_equal(strlen(frame.payload), length); /* A NUL follows the payload. */
      for (size_t i = 0; i < length; i++) assert_int_equal(frame.payload[i], 'a' + got % 26);
      got++;
    }
    assert_int_equal(found, 0);
  }
  assert_int_equal(by_pipe_waiting(&out), 0);
  close(ends[1]);
  assert_false(by_pipe_fill(&in, ends[0]));
  close(ends[0]);
  by_pipe_fini(&out);
  by_pipe_fini(&in);
  free(bytes);
}

static int next_of(const char *bytes, size_t length) {
  int ends[2];
  struct by_pipe in = {0};
  struct by_launch_frame frame;
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], bytes, length), length);
  assert_true(by_pipe_fill(&in, ends[0]));
  int found = by_pipe_next(&in, &frame);
  by_pipe_fini(&in);
  close(ends[0]);
  close(ends[1]);
  return found;
}

static void test_what_is_no_frame(void **state) {
  (void)state;
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0", 11), 0);   /* This is half a header. */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0\0", 12), 0); /* The payload is missing so far. */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0\0x", 13), 1);
  assert_int_equal(next_of("\0\0\0\0\0\0\0\0\0\0\0\0", 12), -1);         /* There is no such type. */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\377\377\377\177", 12), -1); /* The payload is too long. */
  assert_int_equal(next_of("Permission denied, please try again", 35), -1);
}

static void test_reader_gone(void **state) {
  (void)state;
  int ends[2];
  struct by_pipe out;
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  by_pipe_init(&out, ends[1], SIZE_MAX);
  close(ends[0]);
  by_pipe_add(&out, "x", 1);
  by_pipe_flush(&out);
  assert_true(out.closed);
  by_pipe_add(&out, "y", 1); /* The bytes are dropped. */
  assert_int_equal(by_pipe_waiting(&out), 0);
  close(ends[1]);
  by_pipe_fini(&out);
}

/* Returns what waits for stdout (0) or stderr (1), as a string. */
static const char *waiting(struct by_output *output, int stream) {
  struct by_pipe *box = &output->to[stream];
  by_pipe_add(box, "", 1);
  box->end--;
  return box->data + box->start;
}

static void take(struct by_output *output, int rank, int stream, const char *text) {
  by_output_take(output, rank, stream, text, strlen(text));
}

static void test_whole_lines(void **state) {
  (void)state;
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_PREFIX, 12, NULL);
  take(&output, 0, 0, "on");
  take(&output, 11, 0, "two\nthree");
  take(&output, 0, 0, "e\n");
  take(&output, 0, 1, "error\n\n");
  assert_string_equal(waiting(&output, 0), "[11] two\n[0] one\n");
  assert_string_equal(waiting(&output, 1), "[0] error\n[0] \n");
  by_output_end(&output, 11);
  by_output_end(&output, 0);
  assert_string_equal(waiting(&output, 0), "[11] two\n[0] one\n[11] three\n");
  by_output_fini(&output);
}

/* On a terminal, a line whose end does not come is begun, and goes on where nothing else came in between. */
static void test_beginnings_of_lines(void **state) {
  (void)state;
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_PREFIX, 3, NULL);
  output.is_terminal[0] = true;
  take(&output, 0, 0, "a.");
  take(&output, 1, 1, "not to a terminal");
  assert_true(by_output_show(&output));
  take(&output, 0, 0, ".");
  assert_string_equal(waiting(&output, 0), "");
  assert_false(by_output_show(&output));
  assert_string_equal(waiting(&output, 0), "[0] a..");
  take(&output, 2, 0, "of another");
  assert_true(by_output_show(&output));
  assert_true(by_output_show(&output));
  by_output_end(&output, 2);
  assert_string_equal(waiting(&output, 0), "[0] a..\n[2] of another\n");
  take(&output, 0, 0, ".");
  (void)by_output_show(&output);
  assert_false(by_output_show(&output));
  take(&output, 0, 0, " done\nb");
  assert_true(by_output_show(&output));
  assert_false(by_output_show(&output));
  assert_string_equal(waiting(&output, 0), "[0] a..\n[2] of another\n[0] . done\n[0] b");
  take(&output, 2, 0, "c\n");
  take(&output, 0, 0, "d\ne");
  (void)by_output_show(&output);
  (void)by_output_show(&output);
  by_output_print(&output, "ours");
  assert_string_equal(waiting(&output, 0), "[0] a..\n[2] of another\n[0] . done\n[0] b\n[2] c\n[0] d\n[0] e\n");
  take(&output, 2, 0, "f");
  (void)by_output_show(&output);
  (void)by_output_show(&output);
  by_output_end(&output, 2);
  by_output_end(&output, 1);
  by_output_end(&output, 0);
  assert_string_equal(waiting(&output, 0), "[0] a..\n[2] of another\n[0] . done\n[0] b\n[2] c\n[0] d\n[0] e\n[2] f\n");
  assert_string_equal(waiting(&output, 1), "ours\n[1] not to a terminal\n");
  by_output_fini(&output);
}

static void test_rank0(void **state) {
  (void)state;
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_RANK0, 2, NULL);
  take(&output, 0, 0, "{\"a\"");
  take(&output, 1, 0, "other\n");
  take(&output, 0, 0, ": 1}\nno end");
  take(&output, 0, 1, "error\n");
  by_output_end(&output, 0);
  assert_string_equal(waiting(&output, 0), "{\"a\": 1}\nno end");
  assert_string_equal(waiting(&output, 1), "[1] other\n[0] error\n");
  by_output_fini(&output);
}

static void test_labels_on_standard_error(void **state) {
  (void)state;
  static const char *const labels[] = {"oslo", "bergen"};
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_ERROR, 2, labels);
  take(&output, 1, 0, "one\n");
  take(&output, 0, 0, "two\n");
  take(&output, 0, 1, "three\n");
  assert_int_equal(by_pipe_waiting(&output.to[0]), 0);
  assert_string_equal(waiting(&output, 1), "[bergen] one\n[oslo] two\n[oslo] three\n");
  by_output_fini(&output);
}

static void test_raw_adds_nothing(void **state) {
  (void)state;
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_RAW, 2, NULL);
  take(&output, 0, 0, "half");
  take(&output, 1, 0, "line\n");
  by_output_end(&output, 0);
  assert_string_equal(waiting(&output, 0), "line\nhalf");
  by_output_fini(&output);
}

static void test_carriage_returns(void **state) {
  (void)state;
  struct by_output output;
  by_output_init(&output, BY_OUTPUT_PREFIX, 1, NULL);
  take(&output, 0, 1, "10%\r");
  assert_string_equal(waiting(&output, 1), ""); /* The line end may become \r\n. */
  take(&output, 0, 1, "20%\r");
  assert_string_equal(waiting(&output, 1), "[0] 10%\r");
  take(&output, 0, 1, "\nnext\r\nlast\r");
  by_output_end(&output, 0);
  assert_string_equal(waiting(&output, 1), "[0] 10%\r[0] 20%\r\n[0] next\r\n[0] last\r\n");
  by_output_fini(&output);
}

static void test_long_lines_are_cut(void **state) {
  (void)state;
  enum { LENGTH = 3 << 20 };
  char *text = malloc(LENGTH);
  struct by_output output;
  memset(text, 'x', LENGTH);
  by_output_init(&output, BY_OUTPUT_PREFIX, 1, NULL);
  for (int at = 0; at < LENGTH; at += 1 << 16) by_output_take(&output, 0, 0, text + at, 1 << 16);
  assert_true(by_output_full(&output));
  by_output_end(&output, 0);
  size_t lines = 0, characters = 0;
  for (const char *c = waiting(&output, 0); *c; c++) lines += *c == '\n', characters += *c == 'x';
  assert_int_equal(characters, LENGTH);
  assert_int_equal(lines, 3);
  by_output_fini(&output);
  free(text);
}

/* In whatever pieces the bytes arrive, the output is the same. */
static void test_pieces(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (int round = 0; round < (int)check_seeds(300); round++) {
    static const char characters[] = "ab\n\r\n";
    char text[200];
    struct by_output whole, pieces;
    for (size_t i = 0; i < sizeof text; i++) text[i] = characters[by_rng_below(&rng, sizeof characters - 1)];
    by_output_init(&whole, BY_OUTPUT_PREFIX, 1, NULL);
    by_output_init(&pieces, BY_OUTPUT_PREFIX, 1, NULL);
    by_output_take(&whole, 0, 0, text, sizeof text);
    for (size_t at = 0, n; at < sizeof text; at += n) {
      n = 1 + by_rng_below(&rng, sizeof text - at);
      by_output_take(&pieces, 0, 0, text + at, n);
    }
    by_output_end(&whole, 0);
    by_output_end(&pieces, 0);
    assert_string_equal(waiting(&whole, 0), waiting(&pieces, 0));
    by_output_fini(&whole);
    by_output_fini(&pieces);
  }
}

/* ---- the job of one host, in a frame ---- */

static char sh[] = "sh", c[] = "-c", empty[] = "", spaces[] = "a  b\n", a[] = "A=1", b[] = "B=";
static char *command[] = {sh, c, empty, spaces, NULL};
static char *environment[] = {a, b, NULL};
static const struct by_host_job sample = {
    .first = 3, .ranks = 2, .size = 9, .pin = -1, .directory = "/a b", .command = command, .environment = environment};

/* Returns the payload of the frame, followed by a NUL. The caller frees it. */
static char *send_sample(size_t *length) {
  struct by_pipe box;
  by_pipe_init(&box, -1, 0);
  by_host_job_send(&box, &sample, (const char *const *)sample.command);
  *length = box.end - 12;
  char *payload = calloc(1, *length + 1);
  memcpy(payload, box.data + 12, *length);
  by_pipe_fini(&box);
  return payload;
}

static void test_job_round_trip(void **state) {
  (void)state;
  size_t length;
  char *payload = send_sample(&length);
  struct by_host_job job;
  assert_ok(by_host_job_parse(payload, length, &job));
  assert_int_equal(job.first, 3);
  assert_int_equal(job.ranks, 2);
  assert_int_equal(job.size, 9);
  assert_int_equal(job.pin, -1);
  assert_string_equal(job.directory, "/a b");
  for (int i = 0; i < 4; i++) assert_string_equal(job.command[i], command[i]);
  assert_null(job.command[4]);
  for (int i = 0; i < 2; i++) assert_string_equal(job.environment[i], environment[i]);
  assert_null(job.environment[2]);
  by_host_job_fini(&job);
  free(payload);
}

/* No proper prefix of a job is valid. */
static void test_job_cut_short(void **state) {
  (void)state;
  size_t length;
  char *payload = send_sample(&length);
  for (size_t n = 0; n < length; n++) {
    char *part = calloc(1, n + 1);
    struct by_host_job job;
    memcpy(part, payload, n);
    assert_int_not_equal(by_host_job_parse(part, n, &job), BANYAN_OK);
    free(part);
  }
  free(payload);
}

static void test_malformed_jobs(void **state) {
  (void)state;
  static const char no_command[] = "0\0001\0001\0-1\0/\0000\0000";
  static const char no_ranks[] = "0\0000\0001\0-1\0/\0001\0x\0000";
  static const char endless[] = "0\0001\0001\0-1\0/\000999999999999";
  static const struct {
    const char *bytes;
    size_t length;
  } bad[] = {{no_command, sizeof no_command}, {no_ranks, sizeof no_ranks}, {endless, sizeof endless}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *payload = calloc(1, bad[i].length + 1);
    struct by_host_job job;
    memcpy(payload, bad[i].bytes, bad[i].length);
    assert_int_not_equal(by_host_job_parse(payload, bad[i].length, &job), BANYAN_OK);
    free(payload);
  }
}

/* ---- where rank 0 is ---- */

/* Ports that others hold or listen on are not taken; what is kept may be listened on by its number. */
static void test_root_ports(void **state) {
  struct by_root_ports ports;
  struct by_address bound;
  char range[32];
  int held, listens;
  (void)state;
  by_root_ports_init(&ports);
  assert_ok(by_root_ports_open(&ports, "", 3));
  assert_true(ports.root != ports.store && ports.root != ports.answers && ports.store != ports.answers);
  assert_ok(by_socket_listen(NULL, (struct by_port_range){ports.store, ports.store}, &listens, &bound));
  close(listens);
  by_root_ports_close(&ports);
  assert_ok(by_socket_hold((struct by_port_range){0, 0}, NULL, &held, &bound));
  snprintf(range, sizeof range, "%d", by_address_port(&bound));
  assert_ok(by_root_ports_open(&ports, range, 1)); /* There is no other. */
  assert_int_equal(ports.root, by_address_port(&bound));
  assert_int_equal(ports.store, ports.root);
  by_root_ports_close(&ports);
  assert_status(by_root_ports_open(&ports, range, 2), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "fewer than 2 free ports: choose a larger range"));
  by_root_ports_close(&ports);
  assert_ok(by_socket_listen(NULL, (struct by_port_range){ports.root, ports.root}, &listens, &bound));
  assert_status(by_root_ports_open(&ports, range, 1), BANYAN_ERR_SYSTEM);
  by_root_ports_close(&ports);
  close(listens);
  close(held);
}

/* In a process of its own, so that the one that looks for an address may block. */
static pid_t answer(struct by_root_ports *ports) {
  pid_t pid = fork();
  if (pid) return pid;
  alarm(60);
  for (struct pollfd readable = {.fd = ports->fds[2], .events = POLLIN}; poll(&readable, 1, -1) > 0;)
    by_root_ports_answer(ports);
  _exit(0);
}

/* One address is unknown, at one nobody listens, one is silent, and at one somebody else answers. */
static void test_reach(void **state) {
  static const char own[] = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef",
                    other[] = "ff112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef";
  struct by_root_ports ports, others;
  char places[512], address[BY_ADDRESS_TEXT] = "";
  struct by_address silent;
  int fd;
  (void)state;
  by_root_ports_init(&ports);
  by_root_ports_init(&others);
  assert_ok(by_root_ports_open(&ports, "", 3));
  assert_ok(by_root_ports_open(&others, "", 3));
  assert_ok(by_socket_listen(NULL, (struct by_port_range){0, 0}, &fd, &silent));
  strcpy(ports.fingerprint, own);
  strcpy(others.fingerprint, other);
  pid_t right = answer(&ports), wrong = answer(&others);
  snprintf(places, sizeof places, "no-such-alias.invalid:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.2:%d,127.0.0.3:%d#%s",
           ports.answers, ports.root, others.answers, by_address_port(&silent), ports.answers, own);
  assert_ok(by_root_reach(places, address));
  assert_string_equal(address, "127.0.0.3");
  snprintf(places, sizeof places, "127.0.0.1:%d,127.0.0.1:%d#%s", ports.root, others.answers, own);
  assert_status(by_root_reach(places, address), BANYAN_ERR_CONNECT);
  assert_non_null(strstr(banyan_error_text(), "another process answers there"));
  assert_status(by_root_reach("127.0.0.1:1", address), BANYAN_ERR_PROTOCOL);
  kill(right, SIGKILL);
  kill(wrong, SIGKILL);
  waitpid(right, NULL, 0);
  waitpid(wrong, NULL, 0);
  close(fd);
  by_root_ports_close(&ports);
  by_root_ports_close(&others);
}

/* ---- the processes behind links ---- */

/* Starts a process that ends as run-host or ssh may end. */
static struct by_launch_link start_process(int exit_code) {
  pid_t pid = fork();
  if (pid == 0) {
    if (exit_code >= 0) _exit(exit_code);
    for (;;) pause();
  }
  assert_true(pid > 0);
  return (struct by_launch_link){.pid = pid};
}

static void test_what_ends_is_waited_for(void **state) {
  (void)state;
  struct by_launch_link link = start_process(7);
  int status = by_launch_link_wait(&link, by_clock_now(&by_clock_system) + 60 * BY_SECOND);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 7);
  assert_int_equal(link.pid, 0);
  assert_int_equal(by_launch_link_wait(&link, UINT64_MAX), 0); /* The process is waited for once. */
}

/* All hosts share one deadline: those that end after it are not waited for. */
static void test_what_stays_is_killed_in_time(void **state) {
  (void)state;
  struct by_launch_link links[3];
  for (int i = 0; i < 3; i++) links[i] = start_process(-1);
  uint64_t until = by_clock_now(&by_clock_system) + 50 * BY_MILLISECOND;
  for (int i = 0; i < 3; i++) {
    int status = by_launch_link_wait(&links[i], until);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_true(by_clock_now(&by_clock_system) >= until);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slurm),
      cmocka_unit_test(test_host_files),
      cmocka_unit_test(test_fills_in_order),
      cmocka_unit_test(test_too_few_slots),
      cmocka_unit_test(test_what_is_local),
      cmocka_unit_test(test_what_is_no_host),
      cmocka_unit_test(test_too_many),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_frames_come_through),
      cmocka_unit_test(test_what_is_no_frame),
      cmocka_unit_test(test_reader_gone),
      cmocka_unit_test(test_whole_lines),
      cmocka_unit_test(test_beginnings_of_lines),
      cmocka_unit_test(test_rank0),
      cmocka_unit_test(test_labels_on_standard_error),
      cmocka_unit_test(test_raw_adds_nothing),
      cmocka_unit_test(test_carriage_returns),
      cmocka_unit_test(test_long_lines_are_cut),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_job_round_trip),
      cmocka_unit_test(test_job_cut_short),
      cmocka_unit_test(test_malformed_jobs),
      cmocka_unit_test(test_root_ports),
      cmocka_unit_test(test_reach),
      cmocka_unit_test(test_what_ends_is_waited_for),
      cmocka_unit_test(test_what_stays_is_killed_in_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
