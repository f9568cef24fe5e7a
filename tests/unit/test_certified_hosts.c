/* A process's own statement, from an agent that is a thread here, and what is believed of others. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "cluster_message.h"
#include "host_trust.h"
#include "refusal.h"
#include "socket.h"
#include "tls_keys.h"

#define NAMED_JOB "0123456789abcdef0123456789abcdef"

static struct by_tls_identity *agent;
static char folder[64], path[96];
static const struct by_fingerprint process = {{7}}, other = {{8}};
static const struct by_key key = {{1}};
static char job[BY_STATEMENT_JOB + 1];

static void write_file(const char *name, const char *text) {
  char file[160];
  snprintf(file, sizeof file, "%s/%s", folder, name);
  FILE *out = fopen(file, "we");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
}

static int set_up(void **state) {
  (void)state;
  make_authorities();
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  snprintf(folder, sizeof folder, "/tmp/banyan-certified-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/agent.sock", folder);
  write_file("ca.crt", by_text_get(&authorities[0].certificate));
  return by_statement_name_job(&key, job) != BANYAN_OK;
}

static int tear_down(void **state) {
  char command[100];
  (void)state;
  by_tls_identity_destroy(agent);
  drop_authorities();
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

/* ---- an agent */

struct answer {
  const struct by_tls_identity *signer; /* NULL: `line` is the answer */
  const char *host, *line;
  struct by_fingerprint process;
  int listener;
};

static struct by_text make_answer(const struct answer *answer, const struct by_cluster_message *asked) {
  struct by_statement statement = {.process = answer->process, .user = 1000};
  uint8_t bytes[BY_STATEMENT_MAX];
  char text[BY_STATEMENT_TEXT];
  size_t length;
  strcpy(statement.job, asked->job);
  strcpy(statement.host, answer->host);
  must(by_statement_sign(answer->signer, &statement, (uint64_t)keys_made, bytes, &length));
  by_print_hex(bytes, length, text);
  return by_cluster_message_line(&(struct by_cluster_message){.type = BY_MESSAGE_CERTIFIED, .statement = text});
}

static void *serve(void *argument) {
  const struct answer *answer = argument;
  struct by_cluster_message asked;
  struct by_text text;
  char line[512];
  int fd;
  while ((fd = accept(answer->listener, NULL, NULL)) < 0) usleep(1000);
  ssize_t n;
  while ((n = recv(fd, line, sizeof line, 0)) < 0) usleep(1000);
  must(by_cluster_message_read(line, (size_t)n - 1, &asked));
  by_text_init(&text);
  if (answer->signer)
    text = make_answer(answer, &asked);
  else
    by_text_add(&text, "%s", answer->line);
  by_text_add(&text, "\n");
  (void)!send(fd, by_text_get(&text), text.length, MSG_NOSIGNAL);
  by_text_fini(&text);
  by_cluster_message_fini(&asked);
  close(fd);
  return NULL;
}

static void listen_as(struct answer *answer) {
  assert_ok(by_path_socket_listen(&(struct by_path_socket){.path = path, .program = "agent", .option = "PATH"},
                                  &answer->listener));
}

static void leave(const struct answer *answer) {
  close(answer->listener);
  unlink(path);
}

static enum banyan_status create(struct answer *answer, bool required, struct by_own_statement **out) {
  struct by_own_statement_options options = {.agent = answer ? path : NULL,
                                             .keys = folder,
                                             .host = "h1",
                                             .process = &process,
                                             .job = &key,
                                             .required = required};
  pthread_t thread;
  if (answer) {
    listen_as(answer);
    assert_int_equal(pthread_create(&thread, NULL, serve, answer), 0);
  }
  enum banyan_status status = by_own_statement_create(&options, out);
  if (answer) {
    char text[1024];
    snprintf(text, sizeof text, "%s", banyan_error_text());
    pthread_join(thread, NULL);
    leave(answer);
    if (status != BANYAN_OK) (void)by_fail(status, "%s", text);
  }
  return status;
}

static size_t length_of(struct by_own_statement *own) {
  uint8_t bytes[BY_STATEMENT_MAX];
  return by_own_statement_get(own, bytes, NULL);
}

static void none_from(struct answer answer, const char *text) {
  struct by_own_statement *own;
  assert_ok(create(&answer, false, &own));
  assert_int_equal(length_of(own), 0);
  by_own_statement_release(own);
  assert_status(create(&answer, true, &own), BANYAN_ERR_AUTH);
  if (!strstr(banyan_error_text(), text)) print_error("%s\n", banyan_error_text());
  assert_non_null(strstr(banyan_error_text(), text));
}

static void test_own(void **state) {
  (void)state;
  struct answer answer = {.signer = agent, .host = "h1", .process = process};
  struct by_own_statement *own;
  struct by_statement statement;
  uint8_t bytes[BY_STATEMENT_MAX];
  uint32_t user, version;
  assert_ok(create(&answer, true, &own));
  size_t length = by_own_statement_get(own, bytes, &version);
  assert_ok(by_statement_read(bytes, length, &statement));
  assert_string_equal(statement.job, job);
  assert_true(by_own_statement_get_user(own, &user) && user == 1000 && version == 1);
  by_own_statement_release(own);
  assert_int_equal(length_of(NULL), 0);
}

/* One call of those that come every few seconds asks, and a later one takes the answer. */
static uint32_t renewed(struct by_own_statement *own, struct answer *answer, uint64_t now) {
  uint8_t bytes[BY_STATEMENT_MAX];
  uint32_t version = 0;
  pthread_t thread;
  listen_as(answer);
  assert_int_equal(pthread_create(&thread, NULL, serve, answer), 0);
  by_own_statement_renew(own, now);
  pthread_join(thread, NULL);
  by_own_statement_renew(own, now + 5 * BY_SECOND);
  (void)by_own_statement_get(own, bytes, &version);
  leave(answer);
  return version;
}

static void test_renewal(void **state) {
  (void)state;
  struct by_tls_identity *next = identity_of(0, BY_TLS_AGENT, "h1"); /* with another certificate */
  struct answer answer = {.signer = agent, .host = "h1", .process = process},
                none = {.line = "{\"type\":\"refused\",\"why\":\"no\"}"};
  struct by_own_statement *own;
  assert_ok(create(&answer, true, &own));
  size_t length = length_of(own);
  uint64_t now = by_clock_now(&by_clock_system);
  by_own_statement_renew(own, now); /* It is not time yet: nobody is there to be asked. */
  assert_int_equal(renewed(own, &answer, now += 70 * BY_SECOND), 1); /* Nobody has to be shown it again. */
  answer.signer = next;
  assert_int_equal(renewed(own, &answer, now += 70 * BY_SECOND), 2);
  assert_int_equal(renewed(own, &none, now += 70 * BY_SECOND), 2); /* The one before goes on, */
  by_own_statement_renew(own, now += 70 * BY_SECOND);              /* also while the agent is away. */
  assert_true(length_of(own) > length / 2);
  answer.signer = agent;
  assert_int_equal(renewed(own, &answer, now += 70 * BY_SECOND), 3);
  by_own_statement_release(own);
  by_tls_identity_destroy(next);
}

static void test_none(void **state) {
  (void)state;
  struct by_own_statement *own;
  none_from((struct answer){.signer = agent, .host = "h2", .process = process}, "set BANYAN_HOST");
  none_from((struct answer){.signer = agent, .host = "h1", .process = other}, "about another process");
  none_from((struct answer){.line = "{\"type\":\"refused\",\"why\":\"no certificate\"}"}, "answers: no certificate");
  none_from((struct answer){.line = "{\"type\":\"certified\",\"statement\":\"12g\"}"}, "something else");
  none_from((struct answer){.line = "{\"type\":\"certified\",\"statement\":\"12\"}"}, "a statement is cut short");
  none_from((struct answer){.line = "garbage"}, "cluster message");
  assert_ok(create(NULL, false, &own));
  by_own_statement_release(own);
  assert_status(create(NULL, true, &own), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "there is no agent on this host"));
}

/* ---- others */

static struct by_host_trust *watcher;
static struct by_stated *watched; /* NULL: nothing is */
static enum banyan_status judged;

static void looked(void *context) {
  (void)context;
  if (watched) judged = by_host_trust_judge(watcher, watched);
}

struct shown {
  uint8_t bytes[BY_STATEMENT_MAX];
  size_t length;
};

static struct shown of_user(const struct by_tls_identity *signer, const char *named, uint32_t user) {
  struct by_statement statement = {.process = other, .user = user};
  struct shown shown;
  strcpy(statement.job, named);
  strcpy(statement.host, "h1");
  assert_ok(by_statement_sign(signer, &statement, (uint64_t)keys_made, shown.bytes, &shown.length));
  return shown;
}

static enum banyan_status judge(struct by_host_trust *trust, const struct shown *shown, bool is_helper,
                                const struct by_fingerprint *proved) {
  struct by_stated stated;
  struct by_trust_peer peer = {.process = proved,
                               .host = "h1",
                               .is_helper = is_helper,
                               .statement = shown ? shown->bytes : NULL,
                               .length = shown ? shown->length : 0};
  enum banyan_status status = by_host_trust_check(trust, &peer, &stated);
  if (status == BANYAN_OK) by_stated_fini(&stated);
  return status;
}

static struct by_host_trust *trust_of(struct by_loop *loop, bool required) {
  struct answer answer = {.signer = agent, .host = "h1", .process = process};
  struct by_own_statement *own;
  struct by_host_trust *trust;
  assert_ok(create(&answer, required, &own));
  assert_ok(by_host_trust_create(loop, own, looked, NULL, &trust));
  by_own_statement_release(own);
  return trust;
}

static void test_others(void **state) {
  (void)state;
  struct by_tls_identity *foreign = identity_of(1, BY_TLS_AGENT, "h1");
  struct shown right = of_user(agent, job, 1000), user = of_user(agent, job, 1001), helper, wrong, strange;
  helper = of_user(agent, BY_STATEMENT_NO_JOB, 0);
  wrong = of_user(agent, NAMED_JOB, 1000);
  strange = of_user(foreign, job, 1000);
  struct by_loop *loop;
  assert_ok(by_loop_create(&by_clock_system, &loop));
  for (int required = 0; required < 2; required++) {
    struct by_host_trust *trust = trust_of(loop, required);
    uint64_t certificates = by_refusals(BY_REFUSED_CERTIFICATE), identities = by_refusals(BY_REFUSED_IDENTITY);
    assert_ok(judge(trust, &right, false, &other));
    assert_ok(judge(trust, &helper, true, &other));
    assert_ok(judge(trust, NULL, false, NULL)); /* inside a host */
    assert_status(judge(trust, &right, false, &process), BANYAN_ERR_AUTH);
    assert_status(judge(trust, &wrong, false, &other), BANYAN_ERR_AUTH);
    assert_status(judge(trust, &helper, false, &other), BANYAN_ERR_AUTH); /* it has come without a ticket */
    assert_int_equal(by_refusals(BY_REFUSED_IDENTITY), identities + 3);
    assert_status(judge(trust, &strange, false, &other), BANYAN_ERR_AUTH);
    assert_int_equal(by_refusals(BY_REFUSED_CERTIFICATE), certificates + 1);
    assert_status(judge(trust, NULL, false, &other), required ? BANYAN_ERR_AUTH : BANYAN_OK);
    assert_status(judge(trust, &user, false, &other), required ? BANYAN_ERR_AUTH : BANYAN_OK);
    by_host_trust_destroy(trust);
  }
  assert_ok(judge(NULL, &strange, false, &other)); /* a process that does not encrypt */
  by_loop_destroy(loop);
  by_tls_identity_destroy(foreign);
}

/* Where nothing is known of an authority, nobody is judged, unless that is required. */
static void test_without_authority(void **state) {
  (void)state;
  struct answer answer = {.signer = agent, .host = "h1", .process = process};
  char here[160], away[170];
  struct by_loop *loop;
  struct by_own_statement *own;
  struct by_host_trust *trust;
  struct shown wrong = of_user(agent, NAMED_JOB, 1000);
  snprintf(here, sizeof here, "%s/ca.crt", folder);
  snprintf(away, sizeof away, "%s.away", here);
  assert_ok(by_loop_create(&by_clock_system, &loop));
  assert_int_equal(rename(here, away), 0);
  trust = trust_of(loop, false);
  assert_ok(judge(trust, &wrong, false, &other));
  by_host_trust_destroy(trust);
  assert_ok(create(&answer, true, &own));
  assert_status(by_host_trust_create(loop, own, looked, NULL, &trust), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "cannot be checked: there is no "));
  by_own_statement_release(own);
  assert_int_equal(rename(away, here), 0);
  by_loop_destroy(loop);
}

static void test_revoked(void **state) {
  (void)state;
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = TEST_DAYS};
  struct by_text text, list;
  struct by_tls_identity *signer;
  struct by_stated stated;
  struct by_loop *loop;
  assert_ok(by_certificate_make(&authorities[0], &request, &text));
  const char *revoked = by_text_get(&text);
  assert_ok(by_tls_identity_make(by_text_get(&authorities[0].certificate), NULL, revoked, &signer));
  assert_ok(by_revocation_list_make(&authorities[0], NULL, &revoked, 1, keys_made, &list));
  struct shown shown = of_user(signer, job, 1000);
  assert_ok(by_loop_create(&by_clock_system, &loop));
  struct by_host_trust *trust = trust_of(loop, false);
  struct by_trust_peer peer = {.process = &other, .host = "h1", .statement = shown.bytes, .length = shown.length};
  assert_ok(by_host_trust_check(trust, &peer, &stated));
  assert_ok(by_host_trust_judge(trust, &stated));
  write_file("ca.crl", by_text_get(&list));
  assert_ok(by_host_trust_judge(trust, &stated)); /* The list has not been read yet. */
  watcher = trust;
  watched = &stated;
  uint64_t before = by_refusals(BY_REFUSED_CERTIFICATE);
  by_host_trust_look(trust);
  watched = NULL;
  assert_int_equal(judged, BANYAN_ERR_AUTH);
  assert_int_equal(by_refusals(BY_REFUSED_CERTIFICATE), before + 1);
  assert_status(judge(trust, &shown, false, &other), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "was revoked"));
  by_stated_fini(&stated);
  by_host_trust_destroy(trust);
  by_loop_destroy(loop);
  by_tls_identity_destroy(signer);
  by_certificate_wipe(&text);
  by_text_fini(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own),    cmocka_unit_test(test_renewal),           cmocka_unit_test(test_none),
      cmocka_unit_test(test_others), cmocka_unit_test(test_without_authority), cmocka_unit_test(test_revoked),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
