/* LLDP frames of agents, lldpd and switches; what is known of an interface's neighbour as frames come and time
 * passes. */
#include <stdio.h>
#include <string.h>

#include "check.h"

#include "clock.h"
#include "host_links.h"

static const uint8_t hardware[6] = {2, 0, 0, 0, 0, 1};

/* A frame that is put together value by value. */
struct frame {
  uint8_t bytes[BY_LLDP_FRAME];
  size_t n;
};

static void begin(struct frame *f) {
  static const uint8_t head[14] = {0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc};
  memcpy(f->bytes, head, sizeof head);
  f->n = sizeof head;
}

static void add(struct frame *f, unsigned type, const void *value, size_t length) {
  f->bytes[f->n++] = (uint8_t)(type << 1 | length >> 8);
  f->bytes[f->n++] = (uint8_t)length;
  memcpy(f->bytes + f->n, value, length);
  f->n += length;
}

static void add_usual(struct frame *f) {
  begin(f);
  add(f, 1, "\4\0\x1c\x73\0\1\2", 7); /* a hardware address */
  add(f, 2, "\5Ethernet1/3", 12);
  add(f, 3, "\0\x78", 2);
}

static void test_agent(void **state) {
  uint8_t frame[BY_LLDP_FRAME];
  char longest[256];
  struct by_lldp said;
  (void)state;
  size_t n = by_lldp_write("h1", "eth0", hardware, 12, frame);
  assert_memory_equal(frame, by_lldp_address, 6);
  assert_memory_equal(frame + 6, hardware, 6);
  assert_ok(by_lldp_read(frame, n, &said));
  assert_string_equal(said.chassis, "h1");
  assert_string_equal(said.system, "h1");
  assert_string_equal(said.port, "eth0");
  assert_int_equal(said.ttl, 12);
  assert_true(said.agent);
  memset(longest, 'x', 255);
  longest[255] = '\0';
  n = by_lldp_write(longest, "eth0", hardware, 12, frame);
  assert_ok(by_lldp_read(frame, n, &said));
  assert_string_equal(said.system, longest);
}

static void test_switch(void **state) {
  struct frame f;
  struct by_lldp said;
  (void)state;
  add_usual(&f);
  add(&f, 127, "\0\x80\xc2\1\0\1", 6); /* a value of an organisation */
  add(&f, 5, "leaf-7", 6);
  add(&f, 6, "Linux switch", 12);
  add(&f, 0, "", 0);
  memset(f.bytes + f.n, 0, 20); /* padding */
  assert_ok(by_lldp_read(f.bytes, f.n + 20, &said));
  assert_string_equal(said.chassis, "00:1c:73:00:01:02");
  assert_string_equal(said.port, "Ethernet1/3");
  assert_string_equal(by_lldp_name(&said), "leaf-7");
  assert_int_equal(said.ttl, 120);
  assert_false(said.agent);
}

static void test_ids(void **state) {
  struct frame f;
  struct by_lldp said;
  (void)state;
  begin(&f);
  add(&f, 1, "\5\1\12\0\0\1", 6); /* 10.0.0.1 */
  add(&f, 2, "\3\2\0\0\0\0\x2a", 7);
  add(&f, 3, "\0\1", 2);
  add(&f, 0, "", 0);
  assert_ok(by_lldp_read(f.bytes, f.n, &said));
  assert_string_equal(said.chassis, "10.0.0.1");
  assert_string_equal(by_lldp_name(&said), "10.0.0.1");
  assert_string_equal(said.port, "02:00:00:00:00:2a");
  begin(&f);
  add(&f, 1, "\7a\nb\0c", 6); /* what cannot be shown is replaced, and nothing hides behind a NUL */
  add(&f, 2, "\7p", 2);
  add(&f, 3, "\0\1", 2);
  add(&f, 0, "", 0);
  assert_ok(by_lldp_read(f.bytes, f.n, &said));
  assert_string_equal(said.chassis, "a?b");
}

static void test_malformed(void **state) {
  struct frame f;
  struct by_lldp said;
  (void)state;
  add_usual(&f);
  add(&f, 5, "s", 1);
  add(&f, 0, "", 0);
  assert_ok(by_lldp_read(f.bytes, f.n, &said));
  for (size_t n = 0; n < f.n; n++) assert_int_equal(by_lldp_read(f.bytes, n, &said), BANYAN_ERR_PARSE);
  f.bytes[13] = 0xcd;
  assert_int_equal(by_lldp_read(f.bytes, f.n, &said), BANYAN_ERR_PARSE);
  begin(&f); /* no time to live */
  add(&f, 1, "\7a", 2);
  add(&f, 2, "\7p", 2);
  add(&f, 0, "", 0);
  assert_int_equal(by_lldp_read(f.bytes, f.n, &said), BANYAN_ERR_PARSE);
  add_usual(&f); /* a second port */
  add(&f, 2, "\7p", 2);
  add(&f, 0, "", 0);
  assert_int_equal(by_lldp_read(f.bytes, f.n, &said), BANYAN_ERR_PARSE);
  begin(&f); /* an ID without content */
  add(&f, 1, "\7", 1);
  add(&f, 2, "\7p", 2);
  add(&f, 3, "\0\1", 2);
  add(&f, 0, "", 0);
  assert_int_equal(by_lldp_read(f.bytes, f.n, &said), BANYAN_ERR_PARSE);
}

/* ---- what was heard */

static struct by_lldp_neighbours heard;
static uint64_t now;

static bool hear(const char *name, const char *port, bool agent, uint16_t ttl) {
  struct by_lldp said = {.agent = agent, .ttl = ttl};
  snprintf(said.chassis, sizeof said.chassis, "%s", name);
  snprintf(said.port, sizeof said.port, "%s", port);
  return by_lldp_neighbours_add(&heard, &said, now);
}

static const char *neighbour(bool *several) {
  const struct by_lldp *said = by_lldp_neighbours_get(&heard, now, several);
  return said ? by_lldp_name(said) : "";
}

static void test_heard(void **state) {
  bool several;
  (void)state;
  heard = (struct by_lldp_neighbours){0};
  now = BY_SECOND;
  assert_string_equal(neighbour(&several), "");
  assert_true(hear("leaf", "1", false, 12));
  assert_false(hear("leaf", "1", false, 12));
  assert_string_equal(neighbour(&several), "leaf");
  assert_true(hear("h1", "eth0", true, 12)); /* an agent goes before what else the same machine sends */
  assert_string_equal(neighbour(&several), "h1");
  assert_false(several);
  assert_int_equal(by_lldp_neighbours_expire(&heard, now), 13 * BY_SECOND);
  now = 13 * BY_SECOND;
  assert_int_equal(by_lldp_neighbours_expire(&heard, now), UINT64_MAX);
  assert_string_equal(neighbour(&several), "");
}

static void test_withdrawn(void **state) {
  bool several;
  (void)state;
  heard = (struct by_lldp_neighbours){0};
  now = BY_SECOND;
  assert_true(hear("leaf", "1", false, 12));
  assert_false(hear("leaf", "1", false, 0));
  assert_string_equal(neighbour(&several), "");
  assert_false(hear("leaf", "2", false, 0)); /* which was not known */
  assert_int_equal(heard.n, 0);
}

static void test_several(void **state) {
  bool several;
  (void)state;
  heard = (struct by_lldp_neighbours){0};
  now = BY_SECOND;
  (void)hear("h1", "eth0", true, 12);
  (void)hear("h2", "eth0", true, 12);
  assert_string_equal(neighbour(&several), "");
  assert_true(several);
  now += 6 * BY_SECOND; /* h1 was unplugged; only h2 goes on */
  (void)hear("h2", "eth0", true, 12);
  assert_string_equal(neighbour(&several), "h2");
  assert_false(several);
  for (int i = 0; i < 20; i++) { /* more than are remembered: the oldest go */
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    now++;
    assert_true(hear(name, "p", true, 12));
  }
  assert_int_equal(heard.n, BY_LLDP_NEIGHBOURS);
  assert_string_equal(neighbour(&several), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agent),     cmocka_unit_test(test_switch), cmocka_unit_test(test_ids),
      cmocka_unit_test(test_malformed), cmocka_unit_test(test_heard),  cmocka_unit_test(test_withdrawn),
      cmocka_unit_test(test_several),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
