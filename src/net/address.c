/* IP addresses: parses, prints, compares and looks them up. */
#include "address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"
#include "text.h"

static const struct sockaddr_in *as_v4(const struct by_address *address) {
  return (const struct sockaddr_in *)&address->storage;
}

static const struct sockaddr_in6 *as_v6(const struct by_address *address) {
  return (const struct sockaddr_in6 *)&address->storage;
}

static void set_v4(struct by_address *out, const void *host, in_port_t port) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
  memcpy(&in.sin_addr, host, sizeof in.sin_addr);
  memset(out, 0, sizeof *out);
  memcpy(&out->storage, &in, sizeof in);
  out->length = sizeof in;
}

static void set_v6(struct by_address *out, const struct sockaddr_in6 *from) {
  if (IN6_IS_ADDR_V4MAPPED(&from->sin6_addr)) {
    set_v4(out, &from->sin6_addr.s6_addr[12], from->sin6_port);
    return;
  }
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                             .sin6_port = from->sin6_port,
                             .sin6_addr = from->sin6_addr,
                             .sin6_scope_id = from->sin6_scope_id};
  memset(out, 0, sizeof *out);
  memcpy(&out->storage, &in6, sizeof in6);
  out->length = sizeof in6;
}

void by_address_set(struct by_address *out, const struct sockaddr *from, socklen_t length) {
  struct by_address copy = {.length = length};
  memset(out, 0, sizeof *out);
  if (!from || length > sizeof copy.storage) return;
  memcpy(&copy.storage, from, length);
  if (length >= sizeof(struct sockaddr_in) && copy.storage.ss_family == AF_INET)
    set_v4(out, &as_v4(&copy)->sin_addr, as_v4(&copy)->sin_port);
  else if (length >= sizeof(struct sockaddr_in6) && copy.storage.ss_family == AF_INET6)
    set_v6(out, as_v6(&copy));
}

void by_address_any(struct by_address *out, int family, int port) {
  struct in_addr v4 = {INADDR_ANY};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  if (family == AF_INET6)
    set_v6(out, &v6);
  else
    set_v4(out, &v4, htons((uint16_t)port));
}

struct in6_addr by_host_of_ipv4(struct in_addr address) {
  struct in6_addr host = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
  memcpy(&host.s6_addr[12], &address, sizeof address);
  return host;
}

struct in_addr by_host_to_ipv4(const struct in6_addr *host) {
  struct in_addr address = {INADDR_ANY};
  if (by_host_is_ipv4(host)) memcpy(&address, &host->s6_addr[12], sizeof address);
  return address;
}

struct in6_addr by_address_host(const struct by_address *address) {
  if (by_address_family(address) == AF_INET) return by_host_of_ipv4(as_v4(address)->sin_addr);
  return by_address_family(address) == AF_INET6 ? as_v6(address)->sin6_addr : in6addr_any;
}

void by_address_set_host(struct by_address *out, const struct in6_addr *host, in_port_t port) {
  set_v6(out, &(struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = *host, .sin6_port = port});
}

static enum banyan_status bad_text(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "\"%.128s\" is not an address: write host:port, 10.0.0.1:5000 or [fd00::1]:5000",
                 text);
}

enum banyan_status by_address_split(const char *text, char *host, int *port) {
  const char *start = text, *end, *colon = strrchr(text, ':');
  if (!colon) return bad_text(text);
  end = colon;
  if (*text == '[') {
    start = text + 1;
    end = colon - 1;
    if (*end != ']') return bad_text(text);
  }
  size_t length = end > start ? (size_t)(end - start) : 0;
  bool bare_v6 = start == text && memchr(start, ':', length);
  if (length == 0 || length >= BY_HOST_TEXT || bare_v6 || memchr(start, ']', length)) return bad_text(text);
  long value;
  BY_TRY(by_parse_int("port", colon + 1, 0, 65535, &value));
  memcpy(host, start, length);
  host[length] = '\0';
  *port = (int)value;
  return BANYAN_OK;
}

static bool parse_v6(const char *host, int port, struct by_address *out) {
  char copy[BY_ADDRESS_TEXT];
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  if (strlen(host) >= sizeof copy) return false;
  strcpy(copy, host);
  char *scope = strchr(copy, '%');
  if (scope) {
    long number = 0;
    *scope++ = '\0';
    in6.sin6_scope_id = if_nametoindex(scope);
    if (!in6.sin6_scope_id && by_parse_int("scope", scope, 1, INT32_MAX, &number) != BANYAN_OK) return false;
    if (number) in6.sin6_scope_id = (uint32_t)number;
  }
  if (inet_pton(AF_INET6, copy, &in6.sin6_addr) != 1) return false;
  set_v6(out, &in6);
  return true;
}

enum banyan_status by_address_parse_host(const char *host, int port, struct by_address *out) {
  struct in_addr v4;
  if (inet_pton(AF_INET, host, &v4) == 1)
    set_v4(out, &v4, htons((uint16_t)port));
  else if (!parse_v6(host, port, out))
    return by_fail(BANYAN_ERR_PARSE, "\"%.128s\" is not a numeric IP address", host);
  return BANYAN_OK;
}

enum banyan_status by_address_parse(const char *text, struct by_address *out) {
  char host[BY_HOST_TEXT];
  int port = 0;
  BY_TRY(by_address_split(text, host, &port));
  return by_address_parse_host(host, port, out);
}

enum banyan_status by_address_resolve(const char *text, struct by_address *out, size_t max, size_t *n) {
  char host[BY_HOST_TEXT];
  int port = 0;
  BY_TRY(by_address_split(text, host, &port));
  *n = 1;
  if (by_address_parse_host(host, port, out) == BANYAN_OK) return BANYAN_OK;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  int error = getaddrinfo(host, NULL, &hints, &list);
  if (error)
    return by_fail(BANYAN_ERR_CONNECT, "host \"%.128s\" cannot be looked up: %s", host,
                   error == EAI_SYSTEM ? "system error" : gai_strerror(error));
  *n = 0;
  for (struct addrinfo *one = list; one && *n < max; one = one->ai_next) {
    by_address_set(&out[*n], one->ai_addr, one->ai_addrlen);
    by_address_set_port(&out[*n], port);
    if (out[*n].length) ++*n;
  }
  freeaddrinfo(list);
  return *n ? BANYAN_OK : by_fail(BANYAN_ERR_CONNECT, "host \"%.128s\" has no IP address", host);
}

const char *by_address_print_host(const struct by_address *address, char *out) {
  char host[INET6_ADDRSTRLEN] = "", name[IF_NAMESIZE];
  strcpy(out, "none");
  if (by_address_family(address) == AF_INET) {
    inet_ntop(AF_INET, &as_v4(address)->sin_addr, out, BY_ADDRESS_TEXT);
  } else if (by_address_family(address) == AF_INET6) {
    uint32_t scope = as_v6(address)->sin6_scope_id;
    inet_ntop(AF_INET6, &as_v6(address)->sin6_addr, host, sizeof host);
    if (!scope)
      strcpy(out, host);
    else if (if_indextoname(scope, name))
      snprintf(out, BY_ADDRESS_TEXT, "%s%%%s", host, name);
    else
      snprintf(out, BY_ADDRESS_TEXT, "%s%%%u", host, scope);
  }
  return out;
}

const char *by_address_print(const struct by_address *address, char *out) {
  char host[BY_ADDRESS_TEXT];
  by_address_print_host(address, host);
  if (!address->length)
    strcpy(out, host);
  else
    snprintf(out, BY_ADDRESS_TEXT, by_address_family(address) == AF_INET6 ? "[%.70s]:%d" : "%.70s:%d", host,
             by_address_port(address));
  return out;
}

int by_address_port(const struct by_address *address) {
  switch (by_address_family(address)) {
  case AF_INET: return ntohs(as_v4(address)->sin_port);
  case AF_INET6: return ntohs(as_v6(address)->sin6_port);
  default: return 0;
  }
}

void by_address_set_port(struct by_address *address, int port) {
  switch (by_address_family(address)) {
  case AF_INET: ((struct sockaddr_in *)&address->storage)->sin_port = htons((uint16_t)port); break;
  case AF_INET6: ((struct sockaddr_in6 *)&address->storage)->sin6_port = htons((uint16_t)port); break;
  default: break;
  }
}

/* The host's bytes in network order. Returns their number; 0 for no address. */
static size_t host_bytes(const struct by_address *address, const uint8_t **out) {
  switch (by_address_family(address)) {
  case AF_INET: *out = (const uint8_t *)&as_v4(address)->sin_addr; return 4;
  case AF_INET6: *out = as_v6(address)->sin6_addr.s6_addr; return 16;
  default: *out = NULL; return 0;
  }
}

bool by_address_is_loopback(const struct by_address *address) {
  const uint8_t *host;
  size_t n = host_bytes(address, &host);
  return n == 4 ? host[0] == 127 : n == 16 && IN6_IS_ADDR_LOOPBACK(&as_v6(address)->sin6_addr);
}

bool by_address_is_link_local(const struct by_address *address) {
  const uint8_t *host;
  size_t n = host_bytes(address, &host);
  return n == 4 ? host[0] == 169 && host[1] == 254 : n == 16 && host[0] == 0xfe && (host[1] & 0xc0) == 0x80;
}

bool by_address_is_any(const struct by_address *address) {
  static const uint8_t zeros[16];
  const uint8_t *host;
  size_t n = host_bytes(address, &host);
  return n && memcmp(host, zeros, n) == 0;
}

static int compare_families(long a, long b) {
  return (a > b) - (a < b);
}

int by_address_compare_host(const struct by_address *a, const struct by_address *b) {
  const uint8_t *x, *y;
  size_t n = host_bytes(a, &x), m = host_bytes(b, &y);
  if (n != m) return compare_families((long)n, (long)m);
  int difference = n ? memcmp(x, y, n) : 0;
  if (difference || n != 16) return difference;
  return compare_families(as_v6(a)->sin6_scope_id, as_v6(b)->sin6_scope_id);
}

int by_address_compare(const struct by_address *a, const struct by_address *b) {
  int difference = by_address_compare_host(a, b);
  return difference ? difference : compare_families(by_address_port(a), by_address_port(b));
}

bool by_address_same_subnet(const struct by_address *a, const struct by_address *b, int bits) {
  const uint8_t *x, *y;
  size_t n = host_bytes(a, &x), m = host_bytes(b, &y), whole = (size_t)bits / 8;
  if (n == 0 || n != m || bits < 0 || (size_t)bits > 8 * n) return false;
  if (memcmp(x, y, whole) != 0) return false;
  return bits % 8 == 0 || (x[whole] ^ y[whole]) >> (8 - bits % 8) == 0;
}

enum banyan_status by_subnet_parse(const char *text, struct by_address *out, int *bits) {
  char host[BY_ADDRESS_TEXT];
  const char *slash = strchr(text, '/');
  size_t length = slash ? (size_t)(slash - text) : strlen(text);
  if (length >= sizeof host) return by_fail(BANYAN_ERR_PARSE, "\"%.128s\" is not a subnet such as 10.0.0.0/8", text);
  memcpy(host, text, length);
  host[length] = '\0';
  BY_TRY(by_address_parse_host(host, 0, out));
  long max = by_address_family(out) == AF_INET ? 32 : 128, value = max;
  if (slash) BY_TRY(by_parse_int("subnet's prefix length", slash + 1, 0, max, &value));
  *bits = (int)value;
  return BANYAN_OK;
}

/* ---- resolving */

#define MAX_ADDRESSES 16

struct by_resolving {
  _Atomic int holders; /* The thread and its starter. */
  _Atomic bool done;
  unsigned turn;
  struct by_address found[MAX_ADDRESSES]; /* Valid once it is done. */
  size_t n;
  enum banyan_status status;
  char error[256];
  char text[];
};

void by_resolving_destroy(struct by_resolving *resolving) {
  if (resolving && atomic_fetch_sub(&resolving->holders, 1) == 1) free(resolving);
}

static void *resolve_name(void *argument) {
  struct by_resolving *resolving = argument;
  resolving->status = by_address_resolve(resolving->text, resolving->found, MAX_ADDRESSES, &resolving->n);
  if (resolving->status != BANYAN_OK) snprintf(resolving->error, sizeof resolving->error, "%s", banyan_error_text());
  atomic_store(&resolving->done, true);
  by_resolving_destroy(resolving);
  return NULL;
}

enum banyan_status by_resolving_start(const char *text, unsigned turn, struct by_resolving **out) {
  struct by_resolving *resolving = calloc(1, sizeof *resolving + strlen(text) + 1);
  if (!resolving) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for looking up %s", text);
  strcpy(resolving->text, text);
  resolving->turn = turn;
  atomic_store(&resolving->holders, 2);
  pthread_t thread;
  int error = by_thread_start(&thread, resolve_name, resolving);
  if (error) {
    free(resolving);
    return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread to look up %s", text);
  }
  pthread_detach(thread);
  *out = resolving;
  return BANYAN_OK;
}

enum banyan_status by_resolving_look(struct by_resolving *resolving, struct by_address *out, size_t max, size_t *n,
                                     bool *done) {
  *n = 0;
  *done = atomic_load(&resolving->done);
  if (*done && resolving->status != BANYAN_OK) return by_fail(resolving->status, "%s", resolving->error);
  for (; *done && *n < max && *n < resolving->n; ++*n)
    out[*n] = resolving->found[(resolving->turn + *n) % resolving->n];
  return BANYAN_OK;
}
