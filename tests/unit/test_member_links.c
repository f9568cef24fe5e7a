/* What connections between members keep of a process that has the job's key, and claims to be another one. */
#include "job_keys.h"
#include "key_ring.h"
#include "member_links.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "socket.h"

enum { VICTIM, ASKED, IDENTITIES };

struct side {
  struct by_member_links *links;
  struct by_handle self;
  struct by_address at;
  char handle[BY_HANDLE_MOST];
  bool reached, unreachable;
};

static void on_frame(void *context, const struct by_fingerprint *from, uint16_t type, const void *payload,
                     size_t length) {
  (void)context, (void)from, (void)type, (void)payload, (void)length;
}

static void on_reached(void *context, const struct by_fingerprint *to, bool silent) {
  (void)to, (void)silent;
  ((struct side *)context)->reached = true;
}

static void on_lost(void *context, const struct by_fingerprint *to) {
  (void)context, (void)to;
}

static void on_unreachable(void *context, const struct by_fingerprint *to, const char *text) {
  (void)to, (void)text;
  ((struct side *)context)->unreachable = true;
}

static bool keeps(void *context, const struct by_fingerprint *process) {
  (void)context, (void)process;
  return true;
}

/* A process with the handle of the first identity, which proves the second one. */
static void begin(struct side *side, struct by_loop *loop, struct by_key_ring *keys,
                  const struct by_process_identity *claimed, struct by_process_identity *proved) {
  struct by_address any;
  int listener;
  *side = (struct side){.self = {.fingerprint = *by_process_identity_fingerprint(claimed)}};
  assert_ok(by_address_parse("127.0.0.1:0", &any));
  assert_ok(by_socket_listen(&any, (struct by_port_range){0, 0}, &listener, &side->at));
  side->self.service_port = (uint32_t)by_address_port(&side->at);
  side->self.member = (struct by_member){.kind = BY_MEMBER_RANK,
                                         .host = "here",
                                         .machine = "this machine",
                                         .local = "",
                                         .handle = "",
                                         .n_addresses = 1,
                                         .addresses = &side->at};
  assert_ok(by_handle_print(by_key_ring_job(keys), &side->self, side->handle));
  struct by_member_links_options options = {.loop = loop,
                                            .keys = keys,
                                            .self = &side->self,
                                            .handle = side->handle,
                                            .encryption = BY_ENCRYPT_ALWAYS,
                                            .identity = proved,
                                            .listener = listener,
                                            .silence = 10,
                                            .events = {on_frame, on_reached, on_lost, on_unreachable, keeps, side}};
  assert_ok(by_member_links_create(&options, &side->links));
}

/* `asker` connects to `asked`. */
static void probe(struct by_loop *loop, struct side *asker, struct side *asked) {
  struct by_fingerprint to;
  uint64_t until = by_clock_now(&by_clock_system) + 20 * BY_SECOND;
  assert_ok(by_member_links_learn(asker->links, asked->handle, &to));
  by_member_links_probe(asker->links, &to);
  while (by_clock_now(&by_clock_system) < until && !asker->unreachable && !asked->reached)
    assert_ok(by_loop_run_once(loop, 100));
}

static void check(struct by_process_identity *const *identities, const struct by_process_identity *claimed,
                  struct by_process_identity *proved, bool right) {
  struct by_loop *loop;
  struct by_key_ring *keys;
  struct side asker, asked;
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &keys));
  assert_ok(by_loop_create(&by_clock_system, &loop));
  begin(&asker, loop, keys, claimed, proved);
  begin(&asked, loop, keys, identities[ASKED], identities[ASKED]);
  probe(loop, &asker, &asked);
  for (int i = 0; i < 20; i++) assert_ok(by_loop_run_once(loop, 1));
  assert_int_equal(asked.reached, right);
  const struct by_handle *kept = by_member_links_find(asked.links, by_process_identity_fingerprint(claimed));
  assert_int_equal(kept != NULL, right);
  by_member_links_destroy(asker.links);
  by_member_links_destroy(asked.links);
  by_loop_destroy(loop);
  by_key_ring_destroy(keys);
}

/* Else others would look for the process at addresses that another one has made up. */
static void test_claims(void **state) {
  (void)state;
  struct by_process_identity *identities[IDENTITIES], *other;
  for (int i = 0; i < IDENTITIES; i++) assert_ok(by_process_identity_create(&identities[i]));
  assert_ok(by_process_identity_create(&other));
  check(identities, identities[VICTIM], identities[VICTIM], true);
  check(identities, identities[VICTIM], other, false);
  for (int i = 0; i < IDENTITIES; i++) by_process_identity_destroy(identities[i]);
  by_process_identity_destroy(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_claims)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
