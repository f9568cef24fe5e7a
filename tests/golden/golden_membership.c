/* Golden bytes of what members exchange to decide the successor of their membership. */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ledger.h"
#include "member_message.h"
#include "paxos_message.h"

enum { MEMBERS = 10, EXCLUDED = 1, ROOM = 4096 };

static struct by_fingerprint fingerprint_of(uint8_t first) {
  struct by_fingerprint fingerprint;
  for (uint8_t i = 0; i < sizeof fingerprint.bytes; i++) fingerprint.bytes[i] = (uint8_t)(first + i);
  return fingerprint;
}

static struct by_membership *make_membership(void) {
  struct by_membership_member members[MEMBERS + EXCLUDED];
  struct by_membership from = {.tag = 0x0102030405060708,
                               .generation = 6,
                               .rule = BY_QUORUM_SURVIVORS,
                               .name = "auto-6-21",
                               .n = MEMBERS,
                               .n_excluded = EXCLUDED,
                               .members = members};
  struct by_membership *made;
  for (uint8_t i = 0; i < MEMBERS + EXCLUDED; i++)
    members[i] = (struct by_membership_member){fingerprint_of((uint8_t)(16 * i)), i < 4 ? BY_MEMBER_FOUNDER : 0};
  assert_ok(by_membership_create(&from, &made));
  return made;
}

static void test_membership(void **state) {
  (void)state;
  uint8_t bytes[ROOM];
  struct by_membership *membership = make_membership(), *again;
  struct by_writer writer;
  struct by_reader reader;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_membership_write(&writer, membership);
  assert_false(writer.failed);
  golden_bytes("membership", bytes, writer.length);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_membership_read(&reader, &again));
  assert_ok(by_reader_check(&reader, "membership"));
  assert_true(by_membership_equal(membership, again));
  by_put_u64(bytes, again->number);
  golden_bytes("its number", bytes, 8);
  by_membership_destroy(again);
  by_membership_destroy(membership);
}

static size_t write_successor(const struct by_membership *before, uint8_t *bytes) {
  struct by_successor successor, again;
  struct by_writer writer;
  struct by_fingerprint newcomer = fingerprint_of(0xc0);
  assert_ok(by_successor_init(&successor, before));
  strcpy(successor.name, "auto-7-34");
  memset(successor.secret, 0x5e, sizeof successor.secret);
  for (uint32_t i = 0; i < MEMBERS; i++)
    if (i != 1 && i != 8) by_rank_set_add(&successor.kept, i);
  by_rank_set_add(&successor.excluded, 8);
  by_rank_set_add(&successor.excluded, MEMBERS);
  assert_ok(by_successor_add(&successor, &newcomer));
  by_writer_init(&writer, bytes, ROOM);
  by_successor_write(&writer, &successor);
  assert_false(writer.failed);
  assert_ok(by_successor_read(bytes, writer.length, before, &again));
  assert_true(again.n_added == 1 && by_rank_set_has(&again.excluded, 8) && !by_rank_set_has(&again.kept, 1));
  by_successor_fini(&again);
  by_successor_fini(&successor);
  return writer.length;
}

static void test_messages(void **state) {
  static const char *const names[] = {
      [BY_PAXOS_REPORT] = "report",   [BY_PAXOS_PREPARE] = "prepare",   [BY_PAXOS_PROMISE] = "promise",
      [BY_PAXOS_ACCEPT] = "accept",   [BY_PAXOS_ACCEPTED] = "accepted", [BY_PAXOS_REFUSED] = "refused",
      [BY_PAXOS_DECIDED] = "decided", [BY_PAXOS_EXCLUDED] = "excluded", [BY_PAXOS_GONE] = "gone",
      [BY_PAXOS_NOTICE] = "notice"};
  (void)state;
  uint8_t value[ROOM], bytes[ROOM];
  struct by_fingerprint newcomer = fingerprint_of(0xc0);
  struct by_membership *membership = make_membership();
  size_t length = write_successor(membership, value);
  golden_bytes("successor", value, length);
  for (int kind = BY_PAXOS_REPORT; kind <= BY_PAXOS_NOTICE; kind++) {
    bool name = kind == BY_PAXOS_EXCLUDED;
    struct by_paxos_message again, message = {.kind = (enum by_paxos_kind)kind,
                                              .number = membership->number,
                                              .ballot = 34,
                                              .accepted = 21,
                                              .value = name ? (const void *)"auto-7-34" : value,
                                              .length = name ? 9 : length};
    struct by_writer writer;
    assert_ok(by_paxos_view_init(&message.view, membership));
    by_rank_set_add(&message.view.suspected, 8);
    by_rank_set_add(&message.view.dead, 1);
    by_rank_set_add(&message.view.leaving, 9);
    by_rank_set_add(&message.view.gone, 0);
    message.view.settled = true;
    assert_true(by_paxos_view_add(&message.view, &newcomer));
    by_writer_init(&writer, bytes, sizeof bytes);
    by_paxos_message_write(&writer, &message);
    assert_false(writer.failed);
    golden_bytes(names[kind], bytes, writer.length);
    assert_ok(by_paxos_message_read(bytes, writer.length, membership, &again));
    assert_int_equal(again.kind, kind);
    if (kind == BY_PAXOS_PROMISE)
      assert_true(again.accepted == 21 && by_rank_set_has(&again.view.leaving, 9) && again.view.n_newcomers == 1);
    if (kind == BY_PAXOS_ACCEPT) assert_true(again.length == length && by_rank_set_has(&again.view.dead, 1));
    by_paxos_view_fini(&again.view);
    by_paxos_view_fini(&message.view);
  }
  by_membership_destroy(membership);
}

static void test_welcome(void **state) {
  (void)state;
  uint8_t bytes[ROOM], secret[BY_SECRET_BYTES], read[BY_SECRET_BYTES];
  uint64_t number;
  struct by_membership *membership = make_membership(), *again;
  struct by_writer writer;
  memset(secret, 0x5e, sizeof secret);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_paxos_welcome_write(&writer, 0x1122334455667788, membership, secret);
  assert_false(writer.failed);
  golden_bytes("welcome", bytes, writer.length);
  assert_ok(by_paxos_welcome_read(bytes, writer.length, &number, &again, read));
  assert_true(number == 0x1122334455667788 && by_membership_equal(membership, again));
  assert_memory_equal(secret, read, sizeof secret);
  by_membership_destroy(again);
  by_membership_destroy(membership);
}

/* Frames between member services. */
static void test_frames(void **state) {
  (void)state;
  uint8_t bytes[ROOM];
  struct by_arena arena;
  struct by_writer writer;
  struct by_member_hello hello = {.to = fingerprint_of(0x20), .handle = "banyan2:AQIDBA"}, hello_again;
  struct by_member_welcome again,
      welcome = {.n = 2, .handles = {"banyan2:AQIDBA", "banyan2:BQYHCA"}, .paxos = "paxos", .length = 5};
  by_arena_init(&arena);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_hello_write(&writer, &hello);
  golden_bytes("hello of a member", bytes, writer.length);
  assert_ok(by_member_hello_read(bytes, writer.length, &arena, &hello_again));
  assert_string_equal(hello_again.handle, hello.handle);
  assert_memory_equal(&hello_again.to, &hello.to, sizeof hello.to);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_welcome_write(&writer, &welcome);
  golden_bytes("welcome with handles", bytes, writer.length);
  assert_ok(by_member_welcome_read(bytes, writer.length, &arena, &again));
  assert_true(again.n == 2 && again.length == 5);
  assert_string_equal(again.handles[1], welcome.handles[1]);
  struct by_member_suspicion suspicion = {0x1122334455667788, 7}, suspicion_again;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_suspicion_write(&writer, &suspicion);
  golden_bytes("suspicion of a member", bytes, writer.length);
  assert_ok(by_member_suspicion_read(bytes, writer.length, &suspicion_again));
  assert_true(suspicion_again.number == suspicion.number && suspicion_again.rank == suspicion.rank);
  assert_status(by_member_suspicion_read(bytes, writer.length - 1, &suspicion_again), BANYAN_ERR_PROTOCOL);
  struct by_member_list list = {0x1122334455667788, 0x99aabbccddeeff00, "process 1 on host a lists 2"}, list_again;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_list_write(&writer, &list);
  golden_bytes("list of a membership", bytes, writer.length);
  assert_ok(by_member_list_read(bytes, writer.length, &arena, &list_again));
  assert_true(list_again.name == list.name && list_again.number == list.number);
  assert_string_equal(list_again.text, list.text);
  assert_status(by_member_list_read(bytes, writer.length - 1, &arena, &list_again), BANYAN_ERR_PROTOCOL);
  by_arena_fini(&arena);
}

static void test_ledger(void **state) {
  (void)state;
  struct by_ledger ledger = {0};
  struct by_ledger_note failed = {.number = 41,
                                  .outcome = BY_HISTORY_FAILED,
                                  .collective = BANYAN_BROADCAST,
                                  .dtype = 1,
                                  .root = 2,
                                  .count = 1000,
                                  .name = ""};
  struct by_ledger_note waited = {.outcome = BY_HISTORY_WAITED, .sparse = 1, .name = "embedding"};
  by_ledger_add_series(&ledger,
                       &(struct by_ledger_series){.communicator = 0x0a0b0c0d, .size = 4, .rank = 3, .begun = 42});
  by_ledger_add_note(&ledger, &failed);
  by_ledger_add_series(&ledger,
                       &(struct by_ledger_series){.kind = BY_LEDGER_OPERATIONS, .size = 4, .rank = 3, .begun = 7});
  by_ledger_add_note(&ledger, &waited);
  assert_false(ledger.lacks);
  assert_int_equal(ledger.n_series, 2);
  golden_bytes("series of a ledger", ledger.data, ledger.length);
  by_ledger_fini(&ledger);
}

int golden_membership(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_membership), cmocka_unit_test(test_messages),
                                     cmocka_unit_test(test_welcome),    cmocka_unit_test(test_frames),
                                     cmocka_unit_test(test_ledger),     cmocka_unit_test(golden_end)};
  golden_begin("membership", "What members exchange to decide the successor of their membership.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
