/* Tests of members as bytes, and of which members share a host or a machine. */
#include "member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "job_state.h"
#include "rng.h"

static void write_member(struct by_writer *writer, uint32_t n, const char *const *addresses) {
  by_write_u32(writer, BY_MEMBER_HELPER);
  by_write_string(writer, "a");
  by_write_string(writer, "machine of a");
  by_write_string(writer, "");
  by_write_u32(writer, 7);
  by_write_u32(writer, 2);
  by_write_u64(writer, 256 << 10);
  by_write_u64(writer, 1 << 20);
  by_write_u32(writer, 7612);
  by_write_u32(writer, 1500);
  by_write_string(writer, "");
  by_write_u32(writer, n);
  for (uint32_t i = 0; i < n; i++) by_write_string(writer, addresses[i]);
  by_write_bytes(writer, (const uint8_t[BY_FINGERPRINT_BYTES]){0}, BY_FINGERPRINT_BYTES);
}

static enum banyan_status read_member(uint32_t n, const char *const *addresses, size_t cut, struct by_arena *arena,
                                      struct by_member *out) {
  uint8_t bytes[2000];
  struct by_writer writer;
  struct by_reader reader;
  by_writer_init(&writer, bytes, sizeof bytes);
  write_member(&writer, n, addresses);
  assert_false(writer.failed);
  by_reader_init(&reader, bytes, writer.length - cut);
  BY_TRY(by_member_read(&reader, arena, out));
  return by_reader_check(&reader, "a member");
}

static void check_address(const struct by_member *member, uint32_t i, const char *wanted) {
  char text[BY_ADDRESS_TEXT];
  assert_true(i < member->n_addresses);
  assert_string_equal(by_address_print(&member->addresses[i], text), wanted);
}

/* Two hosts need not name their interfaces alike, and do not number them alike. */
static void test_addresses_of_another_host(void **state) {
  (void)state;
  static const char *const addresses[] = {"10.0.0.1:5000", "[fe80::1%nosuchif]:5000", "[fd00::1]:5000",
                                          "[fe80::1%1]:5000", "[fe80::1%lo]:5000"};
  struct by_arena arena;
  struct by_member member = {0};
  by_arena_init(&arena);
  assert_ok(read_member(5, addresses, 0, &arena, &member));
  assert_int_equal(member.n_addresses, 3);
  check_address(&member, 0, "10.0.0.1:5000");
  check_address(&member, 1, "[fd00::1]:5000");
  check_address(&member, 2, "[fe80::1%lo]:5000");
  assert_string_equal(member.host, "a");
  assert_int_equal(member.cores, 2);
  assert_int_equal(member.eager_limit, 256 << 10);
  assert_int_equal(member.credit, 1 << 20);
  assert_int_equal(member.kind, BY_MEMBER_HELPER);
  assert_int_equal(member.udp_port, 7612);
  assert_int_equal(member.mtu, 1500);
  assert_ok(read_member(1, addresses + 1, 0, &arena, &member));
  assert_int_equal(member.n_addresses, 0);
  by_arena_fini(&arena);
}

static void test_malformed(void **state) {
  (void)state;
  const char *addresses[BY_MEMBER_ADDRESSES + 1];
  struct by_arena arena;
  struct by_member member = {0};
  by_arena_init(&arena);
  for (int i = 0; i < BY_MEMBER_ADDRESSES + 1; i++) addresses[i] = "10.0.0.1:5000";
  assert_ok(read_member(BY_MEMBER_ADDRESSES, addresses, 0, &arena, &member));
  assert_status(read_member(BY_MEMBER_ADDRESSES + 1, addresses, 0, &arena, &member), BANYAN_ERR_PROTOCOL);
  for (size_t cut = 1; cut < 40; cut++)
    assert_status(read_member(1, addresses, cut, &arena, &member), BANYAN_ERR_PROTOCOL);
  by_arena_fini(&arena);
}

static void test_there_and_back(void **state) {
  (void)state;
  struct by_address address;
  struct by_member member = {.host = "b", .machine = "m", .local = "l", .pid = 1, .cores = 3, .n_addresses = 1}, back;
  uint8_t bytes[200];
  struct by_writer writer;
  struct by_reader reader;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_ok(by_address_parse("[::1]:9", &address));
  member.addresses = &address;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_member_write(&writer, &member);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_member_read(&reader, &arena, &back));
  assert_ok(by_reader_check(&reader, "a member"));
  assert_true(by_member_same_host(&member, &back));
  assert_string_equal(back.local, "l");
  assert_int_equal(back.pid, 1);
  check_address(&back, 0, "[::1]:9");
  by_arena_fini(&arena);
}

/* ---- hosts and machines ---- */

enum { MOST = 60 };
static char machines[MOST][16], hosts[MOST][16];

static void fill(struct by_job *job, struct by_member *members, struct by_rng *rng) {
  uint32_t kinds = 1 + (uint32_t)by_rng_below(rng, job->size);
  for (uint32_t r = 0; r < job->size; r++) {
    uint64_t machine = by_rng_below(rng, kinds);
    snprintf(machines[r], sizeof machines[r], "m%u", (unsigned)machine);
    snprintf(hosts[r], sizeof hosts[r], "h%u", (unsigned)by_rng_below(rng, 3));
    members[r] = (struct by_member){.host = hosts[r], .machine = machines[r], .cores = 1 + (uint32_t)(machine % 5)};
  }
  job->members = members;
}

/* Computes the same in another way, by comparing each member with each other member. */
static void compare(const struct by_job *job) {
  uint32_t hosts_seen = 0;
  bool crowded = false;
  for (uint32_t r = 0; r < job->size; r++) {
    uint32_t first = 0, beside = 0;
    while (!by_member_same_host(&job->members[first], &job->members[r])) first++;
    for (uint32_t s = 0; s < job->size; s++) beside += !strcmp(job->members[s].machine, job->members[r].machine);
    crowded |= beside > job->members[r].cores;
    assert_int_equal(job->hosts.first_here[r], first);
    bool opens = !strcmp(job->settings.transport, "tcp") || first == r;
    assert_int_equal(job->hosts.of[r], opens ? hosts_seen : job->hosts.of[first]);
    hosts_seen += opens;
    if (r != job->rank) continue;
    assert_int_equal(job->hosts.neighbours, beside);
    assert_int_equal(job->hosts.yields, beside > job->members[r].cores);
  }
  assert_int_equal(job->hosts.n, hosts_seen);
  assert_int_equal(job->hosts.crowded, crowded);
}

static void test_random_places(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(300); seed++) {
    struct by_rng rng;
    struct by_member members[MOST];
    struct by_job job = {0};
    by_rng_init(&rng, seed);
    by_arena_init(&job.arena);
    job.size = 1 + (uint32_t)by_rng_below(&rng, MOST);
    job.processes = job.size;
    job.rank = (uint32_t)by_rng_below(&rng, job.size);
    job.settings.transport = by_rng_below(&rng, 2) ? "auto" : "tcp";
    fill(&job, members, &rng);
    assert_int_equal(by_hosts_index(&job), BANYAN_OK);
    compare(&job);
    by_arena_fini(&job.arena);
  }
}

static void test_shm_needs_one_host(void **state) {
  (void)state;
  struct by_member members[2] = {{.host = "a", .machine = "m", .cores = 2}, {.host = "b", .machine = "m", .cores = 2}};
  struct by_job job = {.size = 2, .processes = 2, .members = members, .settings = {.transport = "shm"}};
  by_arena_init(&job.arena);
  assert_int_equal(by_hosts_index(&job), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "on 2 hosts"));
  by_arena_fini(&job.arena);
}

static void check_differ(struct by_member other) {
  struct by_member members[3] = {{.host = "a", .machine = "m", .eager_limit = 65536, .credit = 1 << 20}, {0}, other};
  struct by_job job = {.size = 3, .processes = 3, .members = members, .settings = {.transport = "auto"}};
  members[1] = members[0];
  by_arena_init(&job.arena);
  assert_int_equal(by_hosts_index(&job), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "rank 2 (host b)"));
  assert_non_null(strstr(banyan_error_text(), "rank 0 (host a)"));
  members[2] = members[0];
  job.hosts.n = 0;
  assert_int_equal(by_hosts_index(&job), BANYAN_OK);
  by_arena_fini(&job.arena);
}

/* A host sends from where switches are told that it is, of the family that it sends by. */
static void test_sources(void **state) {
  (void)state;
  static const char *const addresses[] = {"[fe80::3%lo]:5", "127.0.0.1:5", "[fd00::3]:5", "[fd00::2]:5", "10.0.0.3:5"};
  static const struct {
    const char *to, *from;
  } cases[] = {{"[fd00::9]:1", "[fd00::3]:5"}, {"10.0.0.9:1", "10.0.0.3:5"}, {"127.0.0.1:1", "none"}};
  struct by_address list[5], to, from;
  const struct by_member member = {.n_addresses = 5, .addresses = list};
  char text[BY_ADDRESS_TEXT];
  for (uint32_t i = 0; i < 5; i++) assert_ok(by_address_parse(addresses[i], &list[i]));
  for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_ok(by_address_parse(cases[i].to, &to));
    from = by_member_source(&member, &to);
    assert_string_equal(by_address_print(&from, text), cases[i].from);
  }
}

static void test_settings_must_be_alike(void **state) {
  (void)state;
  check_differ((struct by_member){.host = "b", .machine = "m", .eager_limit = 32768, .credit = 1 << 20});
  check_differ((struct by_member){.host = "b", .machine = "m", .eager_limit = 65536, .credit = 2 << 20});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_addresses_of_another_host),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_random_places),
      cmocka_unit_test(test_shm_needs_one_host),
      cmocka_unit_test(test_sources),
      cmocka_unit_test(test_settings_must_be_alike),
  };
  return cmocka_run_group_tests_name("member", tests, NULL, NULL);
}
