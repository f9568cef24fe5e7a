/* What ranks report about themselves: members (in hellos and in the welcome), and the answers to a deadlock check. The
 * first bytes of the input divide it into the answers of three ranks. Each part is also read as a member. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control_deadlock.h"
#include "job_state.h"
#include "member.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3 };

/* A member that was read has the same content after it is written and read again. */
static void read_member(const uint8_t *data, size_t size) {
  struct by_arena arena;
  struct by_member member = {0}, again = {0};
  struct by_reader reader;
  struct by_writer writer;
  uint8_t bytes[4096];
  by_arena_init(&arena);
  by_reader_init(&reader, data, size);
  if (by_member_read(&reader, &arena, &member) == BANYAN_OK) {
    assert(member.host && member.machine && member.local && member.n_addresses <= BY_MEMBER_ADDRESSES);
    by_writer_init(&writer, bytes, sizeof bytes);
    by_member_write(&writer, &member);
    assert(!writer.failed);
    by_reader_init(&reader, bytes, writer.length);
    assert(by_member_read(&reader, &arena, &again) == BANYAN_OK && by_reader_check(&reader, "it") == BANYAN_OK);
    assert(!strcmp(member.host, again.host) && member.pid == again.pid && by_member_same_host(&member, &again));
    for (uint32_t i = 0; i < member.n_addresses; i++)
      assert(!by_address_compare(&member.addresses[i], &again.addresses[i]));
  }
  by_arena_fini(&arena);
}

static void judge(const struct by_deadlock_round *round, enum banyan_status expected) {
  char text[512] = "";
  uint32_t culprit = UINT32_MAX;
  enum banyan_status status = by_deadlock_round_judge(round, &culprit, text, sizeof text);
  bool apart = expected == BANYAN_ERR_TIMEOUT && status == BANYAN_ERR_CONNECT;
  assert(status == BANYAN_ERR_MISMATCH || status == expected || apart);
  assert(status == BANYAN_OK || (*text && memchr(text, 0, sizeof text)));
  assert(culprit < RANKS || culprit == UINT32_MAX);
}

static void inquire(struct by_job *job, const uint8_t *data, size_t size, const uint8_t *cuts) {
  struct by_deadlock_round *round;
  assert(by_deadlock_round_create(job, &round) == BANYAN_OK);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    size_t n = rank + 1 < RANKS ? cuts[rank] : size;
    if (n > size) n = size;
    uint8_t *exact = malloc(n ? n : 1); /* a sanitizer detects reads past this block and after its release */
    assert(exact);
    if (n) memcpy(exact, data, n);
    read_member(exact, n);
    if (cuts[2] & 1u << rank)
      (void)by_deadlock_round_left(round, rank);
    else
      (void)by_deadlock_round_answer(round, rank, exact, n);
    free(exact);
    data += n;
    size -= n;
  }
  char report[512] = "";
  by_deadlock_round_stalled(round, "a call has waited");
  judge(round, BANYAN_OK);
  assert(!by_deadlock_round_report(round, report, sizeof report) || memchr(report, 0, sizeof report));
  by_deadlock_round_late(round, "the deadline passed", "rank 1");
  judge(round, BANYAN_ERR_TIMEOUT);
  by_deadlock_round_destroy(round);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *names[RANKS] = {"rank 0 (host a)", "rank 1 (host a)", "rank 2 (host b)"};
  struct by_job job = {.size = RANKS, .processes = RANKS, .names = names};
  if (size < 3) return 0;
  inquire(&job, data + 3, size - 3, data);
  return 0;
}
