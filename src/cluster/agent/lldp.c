/* Reads and writes LLDP frames, and keeps the neighbours of an interface. */
#include "lldp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "text.h"

/* Types of TLVs, which have 7 bits of type and 9 bits of length before their value. */
enum type { END, CHASSIS, PORT, TTL, PORT_DESCRIPTION, SYSTEM_NAME, SYSTEM_DESCRIPTION };

/* Subtypes of IDs. Of ports: 1 alias, 2 component, 3 hardware address, 4 network address, 5 interface name, 6 circuit,
 * 7 local. Of chassis: 4 hardware address, 5 network address, 6 interface name. */
enum {
  HEADER = 14,
  PORT_HARDWARE = 3,
  PORT_NETWORK = 4,
  CHASSIS_HARDWARE = 4,
  CHASSIS_NETWORK = 5,
  NAME = 5,
  LOCAL = 7
};
enum { FAMILY_IPV4 = 1, FAMILY_IPV6 = 2 }; /* IANA's numbers, which precede a network address. */

const uint8_t by_lldp_address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};
static const char agent_mark[] = "Banyan agent";

#define malformed(...) by_fail(BANYAN_ERR_PARSE, "LLDP frame: " __VA_ARGS__)

/* ---- reading */

struct value {
  const uint8_t *bytes;
  size_t length;
};

static void keep_text(struct value value, char out[BY_LLDP_TEXT]) {
  char text[BY_LLDP_TEXT];
  size_t n = value.length < BY_LLDP_TEXT - 1 ? value.length : BY_LLDP_TEXT - 1;
  memcpy(text, value.bytes, n);
  text[n] = '\0';
  by_keep_printable(text, out, BY_LLDP_TEXT);
}

static void keep_hardware(struct value value, char out[BY_LLDP_TEXT]) {
  size_t at = 0;
  for (size_t i = 0; i < value.length && at + 3 < BY_LLDP_TEXT; i++)
    at += (size_t)snprintf(out + at, BY_LLDP_TEXT - at, "%s%02x", i ? ":" : "", value.bytes[i]);
}

static void keep_network(struct value value, char out[BY_LLDP_TEXT]) {
  int family = value.length == 5 && value.bytes[0] == FAMILY_IPV4    ? AF_INET
               : value.length == 17 && value.bytes[0] == FAMILY_IPV6 ? AF_INET6
                                                                     : AF_UNSPEC;
  if (family == AF_UNSPEC || !inet_ntop(family, value.bytes + 1, out, BY_LLDP_TEXT)) keep_hardware(value, out);
}

static enum banyan_status keep_id(struct value value, uint8_t hardware, uint8_t network, const char *what,
                                  char out[BY_LLDP_TEXT]) {
  if (value.length < 2 || value.length > 256) return malformed("the ID of the %s has %zu bytes", what, value.length);
  struct value id = {value.bytes + 1, value.length - 1};
  if (value.bytes[0] == hardware)
    keep_hardware(id, out);
  else if (value.bytes[0] == network)
    keep_network(id, out);
  else
    keep_text(id, out);
  return *out ? BANYAN_OK : malformed("the ID of the %s is empty", what);
}

static enum banyan_status read_value(enum type type, struct value value, struct by_lldp *out) {
  switch (type) {
  case CHASSIS: return keep_id(value, CHASSIS_HARDWARE, CHASSIS_NETWORK, "chassis", out->chassis);
  case PORT: return keep_id(value, PORT_HARDWARE, PORT_NETWORK, "port", out->port);
  case TTL:
    if (value.length < 2) return malformed("its time to live has %zu bytes", value.length);
    out->ttl = (uint16_t)(value.bytes[0] << 8 | value.bytes[1]);
    return BANYAN_OK;
  case SYSTEM_NAME: keep_text(value, out->system); return BANYAN_OK;
  case SYSTEM_DESCRIPTION:
    out->agent = value.length >= strlen(agent_mark) && !memcmp(value.bytes, agent_mark, strlen(agent_mark));
    return BANYAN_OK;
  default: return BANYAN_OK;
  }
}

enum banyan_status by_lldp_read(const void *frame, size_t length, struct by_lldp *out) {
  const uint8_t *at = frame, *end = at + length;
  *out = (struct by_lldp){.ttl = 0};
  if (length < HEADER || (at[12] << 8 | at[13]) != BY_LLDP_TYPE) return malformed("it is of another type");
  at += HEADER;
  for (unsigned n = 0;; n++) {
    if (end - at < 2) return malformed("it has no end");
    unsigned type = at[0] >> 1;
    struct value value = {at + 2, (size_t)((at[0] & 1) << 8 | at[1])};
    if ((size_t)(end - value.bytes) < value.length) return malformed("a value of type %u is cut off", type);
    /* Chassis, port and time come first, in this order, and once. */
    if (n < TTL ? type != n + 1 : type >= CHASSIS && type <= TTL) return malformed("value %u is of type %u", n, type);
    if (type == END) return BANYAN_OK;
    BY_TRY(read_value((enum type)type, value, out));
    at = value.bytes + value.length;
  }
}

/* ---- writing */

static uint8_t *put_value(uint8_t *at, enum type type, const void *value, size_t length) {
  *at++ = (uint8_t)(type << 1 | length >> 8);
  *at++ = (uint8_t)length;
  if (length) memcpy(at, value, length);
  return at + length;
}

static uint8_t *put_id(uint8_t *at, enum type type, uint8_t subtype, const char *text) {
  uint8_t id[BY_LLDP_TEXT];
  size_t n = strlen(text);
  if (n > BY_LLDP_TEXT - 1) n = BY_LLDP_TEXT - 1;
  id[0] = subtype;
  memcpy(id + 1, text, n);
  return put_value(at, type, id, n + 1);
}

size_t by_lldp_write(const char *host, const char *interface, const uint8_t hardware[6], uint16_t ttl,
                     uint8_t out[BY_LLDP_FRAME]) {
  static const uint8_t ether_type[2] = {BY_LLDP_TYPE >> 8, BY_LLDP_TYPE & 0xff};
  const uint8_t time[2] = {(uint8_t)(ttl >> 8), (uint8_t)ttl};
  char description[64];
  snprintf(description, sizeof description, "%s %s", agent_mark, BANYAN_VERSION);
  memcpy(out, by_lldp_address, 6);
  memcpy(out + 6, hardware, 6);
  memcpy(out + 12, ether_type, 2);
  uint8_t *at = put_id(out + HEADER, CHASSIS, LOCAL, host);
  at = put_id(at, PORT, NAME, interface);
  at = put_value(at, TTL, time, sizeof time);
  at = put_value(at, SYSTEM_NAME, host, strnlen(host, BY_LLDP_TEXT - 1));
  at = put_value(at, SYSTEM_DESCRIPTION, description, strlen(description));
  return (size_t)(put_value(at, END, NULL, 0) - out);
}

/* ---- the neighbours of an interface */

const char *by_lldp_name(const struct by_lldp *info) {
  return *info->system ? info->system : info->chassis;
}

static void remove_neighbour(struct by_lldp_neighbours *neighbours, uint32_t i) {
  neighbours->all[i] = neighbours->all[--neighbours->n];
}

bool by_lldp_neighbours_add(struct by_lldp_neighbours *neighbours, const struct by_lldp *info, uint64_t now) {
  uint32_t i = 0, oldest = 0;
  for (; i < neighbours->n; i++) {
    if (!strcmp(neighbours->all[i].info.chassis, info->chassis) && !strcmp(neighbours->all[i].info.port, info->port))
      break;
    if (neighbours->all[i].received < neighbours->all[oldest].received) oldest = i;
  }
  bool known = i < neighbours->n;
  if (!info->ttl) {
    if (known) remove_neighbour(neighbours, i);
    return false;
  }
  if (!known) i = neighbours->n < BY_LLDP_NEIGHBOURS ? neighbours->n++ : oldest;
  neighbours->all[i] =
      (struct by_lldp_neighbour){.info = *info, .received = now, .expires = now + info->ttl * BY_SECOND};
  return !known;
}

uint64_t by_lldp_neighbours_expire(struct by_lldp_neighbours *neighbours, uint64_t now) {
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < neighbours->n;) {
    if (neighbours->all[i].expires <= now)
      remove_neighbour(neighbours, i);
    else if (neighbours->all[i++].expires < next)
      next = neighbours->all[i - 1].expires;
  }
  return next;
}

static bool is_fresh(const struct by_lldp_neighbour *neighbour, uint64_t now) {
  return now < neighbour->received + (neighbour->expires - neighbour->received) / 2;
}

/* Tells whether a is the better neighbour: agents before others, recent before possibly gone, the last one first. */
static bool goes_before(const struct by_lldp_neighbour *a, const struct by_lldp_neighbour *b, uint64_t now) {
  if (a->info.agent != b->info.agent) return a->info.agent;
  if (is_fresh(a, now) != is_fresh(b, now)) return is_fresh(a, now);
  return a->received > b->received;
}

const struct by_lldp *by_lldp_neighbours_get(const struct by_lldp_neighbours *neighbours, uint64_t now, bool *several) {
  const struct by_lldp_neighbour *best = NULL;
  uint32_t fresh = 0;
  for (uint32_t i = 0; i < neighbours->n; i++)
    if (!best || goes_before(&neighbours->all[i], best, now)) best = &neighbours->all[i];
  for (uint32_t i = 0; i < neighbours->n; i++)
    fresh += neighbours->all[i].info.agent == best->info.agent && is_fresh(&neighbours->all[i], now);
  *several = fresh > 1;
  return best && !*several ? &best->info : NULL;
}
