/* Golden bytes of handshakes: everything that both ends send for each purpose, with fixed nonces, and the hellos in
 * it: a process that joins (C), a connection of a link (D and L), and a job at a switch (S). Failing handshakes are
 * included: with another version, and of a client that detects a wrong key. And the handle of a process. */
#include <string.h>

#include "connection.h"
#include "control_messages.h"
#include "control_peers.h"
#include "golden.h"
#include "handle.h"
#include "handshake.h"
#include "job_state.h"
#include "reservation.h"

enum { MOST = 1024 };

static struct by_address address_of(const char *text) {
  struct by_address address;
  assert_ok(by_address_parse(text, &address));
  return address;
}

/* ---- two ends that exchange messages ---- */

struct talker {
  struct by_handshake handshake;
  enum banyan_status status;
  uint8_t sent[MOST];
  size_t length;
};

static void begin(struct talker *end, enum by_role role, const char *secret, uint8_t purpose, const void *hello,
                  size_t length) {
  struct by_key key;
  uint8_t nonce[BY_NONCE_BYTES];
  for (size_t i = 0; i < sizeof nonce; i++) nonce[i] = (uint8_t)((role == BY_ROLE_CLIENT ? 0x10 : 0x80) + i);
  assert_ok(by_key_derive(secret, &key));
  *end = (struct talker){.status = BANYAN_OK};
  assert_ok(by_handshake_init(
      &end->handshake,
      &(struct by_handshake_options){
          .role = role, .purpose = purpose, .key = &key, .hello = hello, .hello_length = length, .nonce = nonce}));
}

/* Passes what one end has to send to the other. Returns false if there is nothing. */
static bool carry(struct talker *from, struct talker *to) {
  size_t n, used;
  const uint8_t *bytes = by_handshake_output(&from->handshake, &n);
  if (!n) return false;
  assert_true(from->length + n <= MOST);
  memcpy(from->sent + from->length, bytes, n);
  if (to->status == BANYAN_OK) to->status = by_handshake_feed(&to->handshake, from->sent + from->length, n, &used);
  from->length += n;
  by_handshake_sent(&from->handshake, n);
  return true;
}

static void talk(const char *name, struct talker *client, struct talker *server) {
  char title[128];
  while (carry(client, server) || carry(server, client)) continue;
  snprintf(title, sizeof title, "%s, from the client", name);
  golden_bytes(title, client->sent, client->length);
  snprintf(title, sizeof title, "%s, from the server", name);
  golden_bytes(title, server->sent, server->length);
}

static void finish(struct talker *client, struct talker *server) {
  by_handshake_fini(&client->handshake);
  by_handshake_fini(&server->handshake);
}

static void check_hello(const struct talker *end, const void *hello, size_t length) {
  size_t n;
  const uint8_t *got = by_handshake_hello(&end->handshake, &n);
  assert_ok(end->status);
  assert_int_equal(n, length);
  if (n) assert_memory_equal(got, hello, n);
}

/* Adds a golden message of each end, and checks the hellos that both ends receive. */
static void shake(const char *name, uint8_t purpose, const void *of_client, size_t client_length, const void *of_server,
                  size_t server_length) {
  struct talker client, server;
  begin(&client, BY_ROLE_CLIENT, "the job's secret", purpose, of_client, client_length);
  begin(&server, BY_ROLE_SERVER, "the job's secret", 0, of_server, server_length);
  talk(name, &client, &server);
  check_hello(&client, of_server, server_length);
  check_hello(&server, of_client, client_length);
  assert_int_equal(server.handshake.purpose, purpose);
  finish(&client, &server);
}

/* ---- purposes ---- */

static size_t write_join(const struct by_join *hello, uint8_t *out) {
  struct by_writer writer, again;
  struct by_arena arena;
  struct by_join read;
  uint8_t copy[MOST];
  by_writer_init(&writer, out, MOST);
  by_join_write(&writer, hello);
  assert_false(writer.failed);
  by_arena_init(&arena);
  assert_ok(by_join_read(out, writer.length, &arena, &read));
  by_writer_init(&again, copy, sizeof copy);
  by_join_write(&again, &read);
  assert_int_equal(again.length, writer.length);
  assert_memory_equal(copy, out, writer.length);
  by_arena_fini(&arena);
  return writer.length;
}

static void test_join(void **state) {
  struct by_address addresses[3] = {address_of("10.0.0.1:5000"), address_of("[fd00::1]:5001"),
                                    address_of("127.0.0.1:5002")};
  struct by_join rank = {.rank = 3,
                         .size = 4,
                         .membership = 0x0123456789abcdef,
                         .name = 0xfedcba9876543210,
                         .member = {.kind = BY_MEMBER_RANK,
                                    .host = "node-b",
                                    .machine = "boot net:1 pid:2",
                                    .local = "banyan-77-0123456789abcdef",
                                    .pid = 77,
                                    .cores = 64,
                                    .eager_limit = 1 << 20,
                                    .credit = 4 << 20,
                                    .udp_port = 7613,
                                    .mtu = 3506,
                                    .n_addresses = 3,
                                    .addresses = addresses}};
  struct by_join helper = {.rank = UINT32_MAX,
                           .size = 0,
                           .member = {.kind = BY_MEMBER_HELPER,
                                      .host = "spare",
                                      .machine = "m",
                                      .local = "",
                                      .pid = 1,
                                      .cores = 2,
                                      .eager_limit = 65536,
                                      .credit = 131072,
                                      .mtu = 1500}};
  uint8_t of_rank[MOST], of_helper[MOST];
  (void)state;
  size_t rank_length = write_join(&rank, of_rank), helper_length = write_join(&helper, of_helper);
  golden_bytes("hello of a rank", of_rank, rank_length);
  golden_bytes("hello of a helper", of_helper, helper_length);
  shake("handshake for control", PURPOSE_CONTROL, of_helper, helper_length, of_rank, rank_length);
}

static void test_handle(void **state) {
  struct by_address addresses[2] = {address_of("127.0.0.1:5000"), address_of("10.0.0.1:5000")};
  struct by_handle handle = {.service_port = 7614,
                             .member = {.kind = BY_MEMBER_RANK,
                                        .host = "node-b",
                                        .machine = "boot net:1 pid:2",
                                        .local = "",
                                        .pid = 77,
                                        .cores = 64,
                                        .eager_limit = 1 << 20,
                                        .credit = 4 << 20,
                                        .n_addresses = 2,
                                        .addresses = addresses}},
                   read;
  struct by_key key, other;
  struct by_arena arena;
  char text[BY_HANDLE_MOST], again[BY_HANDLE_MOST];
  (void)state;
  by_arena_init(&arena);
  for (int i = 0; i < BY_FINGERPRINT_BYTES; i++) handle.fingerprint.bytes[i] = (uint8_t)(8 * i + 3);
  assert_ok(by_key_derive("the job's secret", &key));
  assert_ok(by_key_derive("another secret", &other));
  assert_ok(by_handle_print(&key, &handle, text));
  golden_bytes("handle", (const uint8_t *)text, strlen(text));
  assert_ok(by_handle_parse(&key, text, &arena, &read));
  assert_ok(by_handle_print(&key, &read, again));
  assert_string_equal(again, text);
  assert_int_equal(by_handle_parse(&other, text, &arena, &read), BANYAN_ERR_ARGUMENT);
  by_arena_fini(&arena);
}

static void test_link(void **state) {
  struct by_job job = {.rank = 1, .processes = 6, .membership = 0x0123456789abcdef};
  struct by_link_hello hello = {.from = 5, .to = 1, .lane = 2, .lanes = 4, .membership = job.membership}, read;
  uint8_t of_client[HELLO], of_server[HELLO];
  (void)state;
  by_hello_write(&hello, of_client);
  golden_bytes("hello of a link", of_client, sizeof of_client);
  assert_ok(by_hello_read(&job, of_client, sizeof of_client, &read));
  assert_true(read.from == 5 && read.to == 1 && read.lane == 2 && read.lanes == 4);
  job.membership++;
  assert_int_equal(by_hello_read(&job, of_client, sizeof of_client, &read), BANYAN_ERR_PROTOCOL);
  by_hello_write(&(struct by_link_hello){.from = 1, .to = UINT32_MAX, .lanes = 1, .membership = hello.membership},
                 of_server);
  shake("handshake over TCP", PURPOSE_TCP, of_client, sizeof of_client, of_server, sizeof of_server);
  shake("handshake over a local socket", PURPOSE_LOCAL, of_client, sizeof of_client, of_server, sizeof of_server);
}

/* A helper or server comes with the head of its ticket. */
static void test_helper(void **state) {
  (void)state;
  struct talker client, server;
  struct by_key tickets, secret;
  uint8_t nonce[BY_NONCE_BYTES], head[BY_TICKET_HEAD];
  for (size_t i = 0; i < sizeof nonce; i++) nonce[i] = (uint8_t)(0x10 + i);
  for (size_t i = 0; i < sizeof head; i++) head[i] = (uint8_t)(0xc0 + i);
  assert_ok(by_key_derive("tickets:of a job", &tickets));
  assert_ok(by_ticket_prove(&tickets, head, &secret));
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = PURPOSE_TCP | BY_PURPOSE_HELPER,
                                         .key = &secret,
                                         .ticket = head,
                                         .nonce = nonce};
  client = server = (struct talker){.status = BANYAN_OK};
  assert_ok(by_handshake_init(&client.handshake, &options));
  for (size_t i = 0; i < sizeof nonce; i++) nonce[i] += 0x70;
  options = (struct by_handshake_options){.role = BY_ROLE_SERVER, .key = &secret, .tickets = &tickets, .nonce = nonce};
  assert_ok(by_handshake_init(&server.handshake, &options));
  talk("handshake of a helper", &client, &server);
  assert_true(by_handshake_done(&client.handshake) && by_handshake_done(&server.handshake));
  by_handshake_fini(&client.handshake);
  by_handshake_fini(&server.handshake);
}

static void test_switch(void **state) {
  (void)state;
  shake("handshake at a switch", BY_RESERVATION_PURPOSE, NULL, 0, NULL, 0);
}

/* ---- failures ---- */

static void test_wrong_key(void **state) {
  struct talker client, server;
  (void)state;
  begin(&client, BY_ROLE_CLIENT, "the job's secret", 'D', "c", 1);
  begin(&server, BY_ROLE_SERVER, "another secret", 0, "s", 1);
  talk("wrong key", &client, &server);
  assert_int_equal(client.status, BANYAN_ERR_AUTH);
  assert_int_equal(server.status, BANYAN_ERR_AUTH);
  finish(&client, &server);
}

/* A server answers the head of another version's greeting with its own. */
static void test_other_version(void **state) {
  struct talker client, server;
  size_t n, used;
  (void)state;
  begin(&client, BY_ROLE_CLIENT, "the job's secret", 'D', "c", 1);
  begin(&server, BY_ROLE_SERVER, "the job's secret", 0, "s", 1);
  const uint8_t *bytes = by_handshake_output(&client.handshake, &n);
  assert_true(n <= sizeof client.sent);
  memcpy(client.sent, bytes, n);
  client.sent[6]++;
  assert_int_equal(by_handshake_feed(&server.handshake, client.sent, n, &used), BANYAN_ERR_PROTOCOL);
  bytes = by_handshake_output(&server.handshake, &n);
  golden_bytes("answer to another version", bytes, n);
  finish(&client, &server);
}

int golden_handshake(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_join),          cmocka_unit_test(test_handle), cmocka_unit_test(test_link),
      cmocka_unit_test(test_helper),        cmocka_unit_test(test_switch), cmocka_unit_test(test_wrong_key),
      cmocka_unit_test(test_other_version), cmocka_unit_test(golden_end),
  };
  golden_begin("handshake", "What both ends of a connection send before anything else.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
