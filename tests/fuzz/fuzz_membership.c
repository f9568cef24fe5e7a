/* Messages that members exchange to decide the successor of their membership. The first byte selects what is read: a
 * membership, a successor, a welcome, the hello of a member, a welcome with handles, or messages to a machine; these
 * follow each other, with a byte for the sender and two for the length before each, and a sender beyond the members
 * stands for the timer.
 *
 * What can be read has the same bytes after it is written again. A machine never takes a successor that it is not in.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "member_message.h"
#include "paxos.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERSHIP, SUCCESSOR, WELCOME, MACHINE, HELLO, HANDLES, SUSPICION, LIST, KINDS };
enum { MEMBERS = 5, EXCLUDED = 1, SELF = 1, ROOM = 1 << 16, MESSAGES = 64 };

static struct by_membership *make_membership(void) {
  struct by_membership_member members[MEMBERS + EXCLUDED] = {{.flags = 0}};
  struct by_membership from = {
      .tag = 1, .rule = BY_QUORUM_SURVIVORS, .name = "first", .n = MEMBERS, .n_excluded = EXCLUDED, .members = members};
  struct by_membership *made;
  for (uint8_t i = 0; i < MEMBERS + EXCLUDED; i++) {
    members[i].fingerprint.bytes[0] = (uint8_t)('a' + i);
    members[i].flags = i < 3 ? BY_MEMBER_FOUNDER : 0;
  }
  assert(by_membership_create(&from, &made) == BANYAN_OK);
  return made;
}

static void read_membership(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_membership *membership;
  struct by_reader reader;
  struct by_writer writer;
  by_reader_init(&reader, data, size);
  if (size > ROOM || by_membership_read(&reader, &membership) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_membership_write(&writer, membership);
  assert(!writer.failed && writer.length == size - by_reader_left(&reader) && !memcmp(bytes, data, writer.length));
  for (uint32_t i = 0; i < membership->n + membership->n_excluded; i++)
    assert(by_membership_find(membership, &membership->members[i].fingerprint) == i);
  by_membership_destroy(membership);
}

static void read_successor(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_membership *before = make_membership(), *next;
  struct by_successor successor;
  struct by_writer writer;
  if (size <= ROOM && by_successor_read(data, size, before, &successor) == BANYAN_OK) {
    by_writer_init(&writer, bytes, sizeof bytes);
    by_successor_write(&writer, &successor);
    assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
    assert(by_successor_apply(&successor, before, &next) == BANYAN_OK);
    bool founder = false;
    for (uint32_t i = 0; i < next->n; i++) founder |= next->members[i].flags & BY_MEMBER_FOUNDER;
    assert(founder && next->n == by_rank_set_count(&successor.kept) + successor.n_added);
    by_membership_destroy(next);
    by_successor_fini(&successor);
  }
  by_membership_destroy(before);
}

static void read_welcome(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_membership *membership;
  struct by_writer writer;
  uint8_t secret[BY_SECRET_BYTES];
  uint64_t number;
  if (size > ROOM || by_paxos_welcome_read(data, size, &number, &membership, secret) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_paxos_welcome_write(&writer, number, membership, secret);
  assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
  by_membership_destroy(membership);
}

static void read_hello(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_arena arena;
  struct by_member_hello hello;
  struct by_writer writer;
  by_arena_init(&arena);
  if (size <= ROOM && by_member_hello_read(data, size, &arena, &hello) == BANYAN_OK) {
    by_writer_init(&writer, bytes, sizeof bytes);
    by_member_hello_write(&writer, &hello);
    assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
  }
  by_arena_fini(&arena);
}

static void read_suspicion(const uint8_t *data, size_t size) {
  struct by_member_suspicion suspicion;
  uint8_t bytes[BY_SUSPICION_BYTES];
  struct by_writer writer;
  if (by_member_suspicion_read(data, size, &suspicion) != BANYAN_OK) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_suspicion_write(&writer, &suspicion);
  assert(writer.length == size && !memcmp(bytes, data, size));
}

static void read_list(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_arena arena;
  struct by_member_list list;
  struct by_writer writer;
  by_arena_init(&arena);
  if (by_member_list_read(data, size, &arena, &list) == BANYAN_OK) {
    by_writer_init(&writer, bytes, sizeof bytes);
    by_member_list_write(&writer, &list);
    assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
  }
  by_arena_fini(&arena);
}

static void read_handles(const uint8_t *data, size_t size) {
  static uint8_t bytes[ROOM];
  struct by_arena arena;
  struct by_member_welcome welcome;
  struct by_writer writer;
  by_arena_init(&arena);
  if (size <= ROOM && by_member_welcome_read(data, size, &arena, &welcome) == BANYAN_OK) {
    by_writer_init(&writer, bytes, sizeof bytes);
    by_member_welcome_write(&writer, &welcome);
    assert(!writer.failed && writer.length == size && !memcmp(bytes, data, size));
  }
  by_arena_fini(&arena);
}

/* ---- a machine */

static struct {
  struct by_membership *membership;
  uint32_t decisions, ends;
} job;

/* Whatever the machine sends can be read. */
static void on_send(void *context, uint32_t to, const void *message, size_t length) {
  struct by_paxos_message read;
  (void)context;
  assert(to < MEMBERS && to != SELF);
  assert(by_paxos_message_read(message, length, job.membership, &read) == BANYAN_OK);
  by_paxos_view_fini(&read.view);
}

static void on_welcome(void *context, const struct by_fingerprint *to, const void *message, size_t length) {
  struct by_membership *membership;
  uint8_t secret[BY_SECRET_BYTES];
  uint64_t number;
  (void)context;
  assert(by_paxos_welcome_read(message, length, &number, &membership, secret) == BANYAN_OK);
  assert(by_membership_find(membership, to) < membership->n);
  by_membership_destroy(membership);
}

static void on_set_timer(void *context, uint64_t delay) {
  (void)context;
  assert(delay >= 1000);
}

static void on_decided(void *context, const struct by_successor *successor) {
  (void)context;
  assert(by_successor_has(successor, job.membership, SELF));
  job.decisions++;
}

static void on_ended(void *context, const char *text) {
  (void)context;
  assert(*text);
  job.ends++;
}

static void on_gone(void *context, const struct by_fingerprint *fingerprint) {
  (void)context;
  assert(by_membership_find(job.membership, fingerprint) < MEMBERS);
}

static void run_machine(const uint8_t *data, size_t size) {
  struct by_paxos *paxos;
  job.membership = make_membership();
  job.decisions = job.ends = 0;
  const struct by_paxos_config config = {.membership = job.membership,
                                         .self = SELF,
                                         .seed = 1,
                                         .delay = 1000,
                                         .send = on_send,
                                         .welcome = on_welcome,
                                         .set_timer = on_set_timer,
                                         .decided = on_decided,
                                         .ended = on_ended,
                                         .gone = on_gone};
  assert(by_paxos_create(&config, &paxos) == BANYAN_OK);
  for (int i = 0; i < MESSAGES && size >= 3; i++) {
    uint8_t from = data[0];
    size_t length = by_get_u16(data + 1);
    if (length > size - 3) length = size - 3;
    uint8_t *copy = malloc(length + 1); /* so that a sanitizer sees reads beyond the message */
    assert(copy);
    memcpy(copy, data + 3, length);
    if (length >= 9 && copy[1] == 'n') by_put_u64(copy + 1, job.membership->number);
    if (from == SELF) from = 0;
    enum banyan_status status = from < MEMBERS ? by_paxos_receive(paxos, from, copy, length) : by_paxos_timer(paxos);
    assert(status == BANYAN_OK || status == BANYAN_ERR_PROTOCOL);
    free(copy);
    data += 3 + length;
    size -= 3 + length;
  }
  assert(job.decisions + job.ends <= 1);
  by_paxos_destroy(paxos);
  by_membership_destroy(job.membership);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  switch (data[0] % KINDS) {
  case MEMBERSHIP: read_membership(data + 1, size - 1); break;
  case SUCCESSOR: read_successor(data + 1, size - 1); break;
  case WELCOME: read_welcome(data + 1, size - 1); break;
  case HELLO: read_hello(data + 1, size - 1); break;
  case HANDLES: read_handles(data + 1, size - 1); break;
  case SUSPICION: read_suspicion(data + 1, size - 1); break;
  case LIST: read_list(data + 1, size - 1); break;
  default: run_machine(data + 1, size - 1); break;
  }
  return 0;
}
