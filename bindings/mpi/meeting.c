#include "meeting.h"

#include <arpa/inet.h>
#include <banyan/banyan.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Appends hexadecimal digits. */
static void add_hex(char *text, const unsigned char *bytes, size_t n) {
  text += strlen(text);
  for (size_t i = 0; i < n; i++) sprintf(text + 2 * i, "%02x", bytes[i]);
}

/* In the form of `banyan keys job`: 256 random bits, and four bytes of a hash that reveals damage. */
static bool choose_key(char *out) {
  unsigned char bits[32], hash[EVP_MAX_MD_SIZE];
  if (getrandom(bits, sizeof bits, 0) != sizeof bits) return false;
  strcpy(out, "banyan_key_");
  add_hex(out, bits, sizeof bits);
  if (EVP_Digest(out, strlen(out), hash, NULL, EVP_sha256(), NULL) != 1) return false;
  strcat(out, "_");
  add_hex(out, hash, 4);
  return true;
}

/* A port that is free now on all addresses; 0: none was found. */
static int free_port(void) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6};
  struct sockaddr_in four = {.sin_family = AF_INET};
  socklen_t length = sizeof six;
  int port = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && !bind(fd, (struct sockaddr *)&six, sizeof six) && !getsockname(fd, (struct sockaddr *)&six, &length))
    port = ntohs(six.sin6_port);
  if (fd >= 0) close(fd);
  if (port) return port;
  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  length = sizeof four;
  if (fd >= 0 && !bind(fd, (struct sockaddr *)&four, sizeof four) &&
      !getsockname(fd, (struct sockaddr *)&four, &length))
    port = ntohs(four.sin_port);
  if (fd >= 0) close(fd);
  return port;
}

/* Whether others may reach an interface's address: not that of loopback, nor one that is only valid on a link. */
static bool is_offered(const struct ifaddrs *interface) {
  const struct sockaddr *address = interface->ifa_addr;
  if (!address || !(interface->ifa_flags & IFF_UP) || interface->ifa_flags & IFF_LOOPBACK) return false;
  if (address->sa_family == AF_INET) return true;
  return address->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Appends ",ADDRESS:PORT" if it fits in. */
static void add_place(const struct sockaddr *address, int port, char *out, size_t room) {
  char text[INET6_ADDRSTRLEN];
  bool six = address->sa_family == AF_INET6;
  const void *bytes = six ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                          : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
  size_t length = strlen(out);
  if (!inet_ntop(address->sa_family, bytes, text, sizeof text)) return;
  int n = snprintf(out + length, room - length, six ? "%s[%s]:%d" : "%s%s:%d", length ? "," : "", text, port);
  if (n < 0 || (size_t)n >= room - length) out[length] = 0;
}

static void choose_places(bool one_host, char *out, size_t room) {
  struct ifaddrs *all = NULL;
  int port = free_port();
  out[0] = 0;
  if (!port) return;
  if (!one_host && !getifaddrs(&all)) {
    for (int family = AF_INET; family; family = family == AF_INET ? AF_INET6 : 0)
      for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (is_offered(i) && i->ifa_addr->sa_family == family) add_place(i->ifa_addr, port, out, room);
    freeifaddrs(all);
  }
  if (!out[0]) snprintf(out, room, "127.0.0.1:%d", port);
}

bool meeting_choose(bool one_host, struct meeting *out) {
  enum { FINGERPRINT = 65 /* with the NUL, of which "#" takes the place */ };
  const char *given = getenv("BANYAN_ROOT");
  *out = (struct meeting){.root = ""};
  if (!getenv("BANYAN_KEY") && !getenv("BANYAN_KEY_FILE") && !choose_key(out->key)) return false;
  if (given && *given) {
    snprintf(out->root, sizeof out->root, "%s", given);
    return true;
  }
  char fingerprint[FINGERPRINT];
  choose_places(one_host, out->root, sizeof out->root - FINGERPRINT);
  if (!out->root[0] || banyan_root_fingerprint(fingerprint) != BANYAN_OK) {
    out->root[0] = 0;
    return false;
  }
  strcat(strcat(out->root, "#"), fingerprint);
  return true;
}
