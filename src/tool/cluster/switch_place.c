#include "switch_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "switch_client.h"

enum { MOST_SECRET = 4096 };

enum banyan_status by_switch_place_parse(const char *text, struct by_switch_place *out) {
  char with_port[BY_HOST_TEXT + 8], host[BY_HOST_TEXT];
  int port;
  size_t n;
  *out = (struct by_switch_place){.path = strchr(text, '/') ? text : NULL};
  if (out->path || by_address_parse_host(text, BY_SWITCH_CONTROL_PORT, &out->address) == BANYAN_OK) return BANYAN_OK;
  if (by_address_split(text, host, &port) == BANYAN_OK) return by_address_resolve(text, &out->address, 1, &n);
  snprintf(with_port, sizeof with_port, "%.*s:%d", BY_HOST_TEXT - 1, text, BY_SWITCH_CONTROL_PORT);
  return by_address_resolve(with_port, &out->address, 1, &n);
}

static enum banyan_status read_secret(const char *file, struct by_key *out) {
  char *text, secret[MOST_SECRET + 1];
  size_t length;
  BY_TRY(by_read_file("secret", file, MOST_SECRET, &text, &length));
  while (length && strchr(" \r\n", text[length - 1])) length--;
  snprintf(secret, sizeof secret, "%.*s", (int)length, text);
  explicit_bzero(text, length);
  free(text);
  enum banyan_status status =
      length == 0 || length > MOST_SECRET || strlen(secret) != length
          ? by_fail(BANYAN_ERR_ARGUMENT, "%s: must hold a secret, a text of 1 to %d bytes", file, MOST_SECRET)
          : by_key_derive(secret, out);
  explicit_bzero(secret, sizeof secret);
  return status;
}

enum banyan_status by_switch_secret(const char *file, struct by_key *out, bool *has) {
  const char *text = getenv("BANYAN_SWITCH_KEY");
  *has = file || (text && *text);
  if (file) return read_secret(file, out);
  return *has ? by_key_derive(text, out) : BANYAN_OK;
}
