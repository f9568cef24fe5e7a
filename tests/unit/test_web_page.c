/* The HTTP service of `banyan manager --http`, with a state from a string, queried by a plain socket over loopback. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "socket.h"
#include "web_server.h"

static const char topology_text[] =
    "{\"format\":\"banyan-topology 1\",\"nodes\":[\"a\",\"b\",{\"name\":\"s\",\"kind\":\"switch\"}],"
    "\"links\":[{\"a\":\"a\",\"b\":\"s\",\"capacity\":1e9},{\"a\":\"b\",\"b\":\"s\",\"capacity\":1e9}]}";

/* Names contain what JSON and the metrics' format must escape. */
static const char state_text[] =
    "{\"time\":1,\"version\":\"0.1.0\",\"hosts\":[{\"name\":\"a\\\"\\\\\\n\",\"connected\":true,\"helping\":[\"x\"],"
    "\"interfaces\":[{\"name\":\"eth0\",\"rate\":1e9,\"sent\":5e8,\"received\":1,\"ours_sent\":4e8,\"ours_received\":0}"
    "]},"
    "{\"name\":\"b\",\"connected\":false,\"helping\":[],\"interfaces\":[]}],"
    "\"links\":[{\"from\":\"a\",\"to\":\"s\",\"capacity\":1e9,\"ours\":4e8,\"others\":1e8}],"
    "\"jobs\":[{\"id\":\"j1\",\"name\":\"train\",\"size\":4,\"hosts\":[\"a\",\"b\"],\"state\":\"running\",\"class\":2,"
    "\"iterations\":12345678901,\"expected\":20000000000,\"seconds_left\":90,\"ends_in\":600,\"iteration_time\":0.25,"
    "\"sent\":1e12,"
    "\"input_rate\":3e8,\"since\":0,"
    "\"plan\":{\"number\":3,\"throughput\":9e8,\"made\":0,\"plan\":{}},\"history\":[]},"
    "{\"id\":\"j2\",\"name\":\"gone\",\"state\":\"left\",\"plan\":null},"
    "{\"id\":\"j3\",\"name\":\"new\",\"state\":\"waiting\",\"expected\":null,\"seconds_left\":null,\"ends_in\":null,"
    "\"plan\":null}],"
    "\"certificates\":[{\"role\":\"manager\",\"name\":\"m0\",\"expires\":950401}],\"revoked\":2,"
    "\"counters\":{\"reports\":10,\"refused\":1,\"planned\":7,\"plans\":3,\"plan_switches\":2,\"kept\":1}}";

struct world {
  char folder[64], token_file[80];
  struct by_topology *topology;
  struct by_loop *loop;
  struct by_web_page *page;
  char answer[65536];
};

static unsigned print_state(void *context, struct by_text *out) {
  by_text_add(out, "%s", state_text);
  return 200;
}

static enum banyan_status create(struct world *w, const char *at, const char *certificate) {
  return by_web_page_create(&(struct by_web_page_options){.loop = w->loop,
                                                          .at = at,
                                                          .token_file = w->token_file,
                                                          .certificate = certificate,
                                                          .topology = w->topology,
                                                          .state = print_state},
                            &w->page);
}

static int set_up(void **state) {
  struct world *w = calloc(1, sizeof *w);
  strcpy(w->folder, "/tmp/banyan-page-XXXXXX");
  assert_non_null(mkdtemp(w->folder));
  snprintf(w->token_file, sizeof w->token_file, "%s/token", w->folder);
  assert_ok(by_topology_parse("t", topology_text, sizeof topology_text - 1, &w->topology));
  assert_ok(by_loop_create(&by_clock_system, &w->loop));
  *state = w;
  return 0;
}

static int tear_down(void **state) {
  struct world *w = *state;
  by_web_page_destroy(w->page);
  by_loop_destroy(w->loop);
  by_topology_destroy(w->topology);
  unlink(w->token_file);
  rmdir(w->folder);
  free(w);
  return 0;
}

static void send_request(int fd, const char *path, const char *token) {
  char request[512];
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s%s\r\n\r\n", path,
                   *token ? "Authorization: Bearer " : "A: b", token);
  assert_int_equal(write(fd, request, (size_t)n), n);
}

/* Returns the body, or NULL for any status but 200. */
static const char *ask(struct world *w, const char *path, const char *token) {
  struct by_address at;
  char text[BY_ADDRESS_TEXT];
  size_t length = 0;
  bool sent = false;
  int fd;
  snprintf(text, sizeof text, "%.*s", (int)(strlen(by_web_page_get_url(w->page)) - 8),
           by_web_page_get_url(w->page) + 7);
  assert_ok(by_address_parse(text, &at));
  assert_ok(by_socket_connect_start(&at, &fd));
  for (int i = 0; i < 5000; i++) {
    assert_ok(by_loop_run_once(w->loop, BY_MILLISECOND));
    if (!sent) {
      assert_ok(by_socket_connect_finish(fd, &at, &sent));
      if (sent) send_request(fd, path, token);
      continue;
    }
    ssize_t got = read(fd, w->answer + length, sizeof w->answer - 1 - length);
    if (got == 0) break;
    if (got > 0) length += (size_t)got;
  }
  close(fd);
  w->answer[length] = '\0';
  const char *body = strstr(w->answer, "\r\n\r\n");
  return body && strstr(w->answer, "HTTP/1.1 200 ") == w->answer ? body + 4 : NULL;
}

static void serves_the_state_with_the_token(void **state) {
  struct world *w = *state;
  struct by_token token;
  check_localhost();
  assert_ok(create(w, "localhost:0", NULL));
  assert_ok(by_token_read(w->token_file, &token)); /* The page creates this file. */
  assert_null(ask(w, "/state", ""));
  assert_null(ask(w, "/layout", ""));
  assert_string_equal(ask(w, "/state", token.text), state_text);
  const char *layout = ask(w, "/layout", token.text);
  assert_non_null(layout);
  assert_true(strstr(layout, "{\"kind\":\"layers\",\"spots\":{\"a\":[") == layout);
  assert_non_null(strstr(layout, "\"s\":["));
}

static void reports_its_health_without_a_token(void **state) {
  struct world *w = *state;
  assert_ok(create(w, "127.0.0.1:0", NULL));
  assert_string_equal(ask(w, "/healthz", ""), "ok\n");
}

/* --- metrics, parsed as Prometheus does --- */

static bool is_name(const char *text, size_t length) {
  return length > 7 && !strncmp(text, "banyan_", 7) && strspn(text, "abcdefghijklmnopqrstuvwxyz_") >= length;
}

/* Returns the text after the labels, or NULL if they are malformed. */
static const char *skip_labels(const char *at) {
  if (*at != '{') return at;
  do {
    at++;
    at += strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (strncmp(at, "=\"", 2) != 0) return NULL;
    for (at += 2; *at != '"'; at++) {
      if (*at == '\0' || *at == '\n') return NULL;
      if (*at == '\\' && !strchr("\"\\n", *++at)) return NULL;
    }
    at++;
  } while (*at == ',');
  return *at == '}' ? at + 1 : NULL;
}

/* Counts samples and checks that each family has HELP, TYPE, then its own samples and no others. */
static unsigned count_samples(char *text) {
  char family[64] = "", *rest, *line = strtok_r(text, "\n", &rest);
  unsigned samples = 0;
  for (; line; line = strtok_r(NULL, "\n", &rest)) {
    char *end;
    size_t name = strcspn(line, "{ ");
    if (!strncmp(line, "# HELP ", 7)) {
      snprintf(family, sizeof family, "%.*s", (int)strcspn(line + 7, " "), line + 7);
      assert_true(is_name(family, strlen(family)));
      continue;
    }
    if (!strncmp(line, "# TYPE ", 7)) {
      assert_true(!strncmp(line + 7, family, strlen(family)));
      const char *type = line + 8 + strlen(family);
      assert_true(!strcmp(type, "gauge") || !strcmp(type, "counter"));
      assert_int_equal(!strcmp(type, "counter"), strlen(family) > 6 && !strcmp(family + strlen(family) - 6, "_total"));
      continue;
    }
    assert_true(strlen(family) == name && !strncmp(line, family, name));
    const char *value = skip_labels(line + name);
    if (!value || *value != ' ') fail_msg("no sample: %s", line);
    strtod(value + 1, &end);
    assert_true(end > value + 1 && *end == '\0');
    samples++;
  }
  return samples;
}

static void prints_metrics_that_can_be_read(void **state) {
  static const char *const lines[] = {
      "\nbanyan_manager_info{version=\"0.1.0\"} 1",
      "\nbanyan_reports_total 10\n",
      "\nbanyan_planned_total 7\n",
      "\nbanyan_host_connected{host=\"a\\\"\\\\\\n\"} 1",
      "\nbanyan_host_connected{host=\"b\"} 0",
      "\nbanyan_interface_ours_sent_bits_per_second{host=\"a\\\"\\\\\\n\",interface=\"eth0\"} 400000000",
      "\nbanyan_link_others_bits_per_second{from=\"a\",to=\"s\"} 100000000",
      "\nbanyan_certificate_days_left{role=\"manager\",name=\"m0\"} 11",
      "\nbanyan_certificates_revoked 2",
      "\nbanyan_jobs{state=\"left\"} 1",
      "\nbanyan_job_iterations_total{job=\"j1\",name=\"train\"} 12345678901",
      "\nbanyan_job_iterations_expected{job=\"j1\",name=\"train\"} 20000000000",
      "\nbanyan_job_left_seconds{job=\"j1\",name=\"train\"} 90",
      "\nbanyan_job_limit_seconds{job=\"j1\",name=\"train\"} 600",
      "\nbanyan_job_iteration_seconds{job=\"j1\",name=\"train\"} 0.25",
      "\nbanyan_job_plan_number{job=\"j1\",name=\"train\"} 3",
  };
  struct world *w = *state;
  assert_ok(create(w, "127.0.0.1:0", NULL));
  const char *metrics = ask(w, "/metrics", "");
  assert_non_null(metrics);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strstr(metrics, lines[i])) fail_msg("no %s in:\n%s", lines[i] + 1, metrics);
  assert_null(strstr(metrics, "j2"));                     /* This job has left. */
  assert_null(strstr(metrics, "plan_number{job=\"j3\"")); /* This job has no plan. */
  assert_null(strstr(metrics, "left_seconds{job=\"j3\""));
  char copy[65536];
  strcpy(copy, metrics);
  /* There are 1 version, 6 counters, 3 of each host, 5 of the interface, 3 of the link, 4 states, 6 of two jobs, 3
   * of a job with an announced length and end, 2 of a plan, and 2 of certificates. */
  assert_int_equal(count_samples(copy), 1 + 6 + 6 + 5 + 3 + 4 + 12 + 3 + 2 + 2);
}

static void refuses_half_a_certificate(void **state) {
  struct world *w = *state;
  assert_status(create(w, "127.0.0.1:0", "/nowhere.pem"), BANYAN_ERR_ARGUMENT);
  assert_status(create(w, "127.0.0.1", NULL), BANYAN_ERR_PARSE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(serves_the_state_with_the_token, set_up, tear_down),
      cmocka_unit_test_setup_teardown(reports_its_health_without_a_token, set_up, tear_down),
      cmocka_unit_test_setup_teardown(prints_metrics_that_can_be_read, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refuses_half_a_certificate, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
