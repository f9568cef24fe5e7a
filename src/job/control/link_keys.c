/* Makes, masks and sends the keys of links of helpers and servers. */
#include "link_keys.h"
#include "job_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Masks or unmasks a key. Each key of a connection has its own number. */
static enum banyan_status mask_key(const struct by_control_peer *peer, uint32_t number, struct by_key *key) {
  struct by_key mask;
  char text[32];
  snprintf(text, sizeof text, "banyan key %u", number);
  BY_TRY(by_key_hash(&peer->secret, text, &mask));
  for (size_t i = 0; i < sizeof mask.bytes; i++) key->bytes[i] ^= mask.bytes[i];
  explicit_bzero(&mask, sizeof mask);
  return BANYAN_OK;
}

enum banyan_status by_link_keys_make(struct by_connector *connector, struct by_key *links) {
  char random[BY_KEY_TEXT];
  BY_TRY(by_key_random(random));
  enum banyan_status status = by_key_derive(random, links);
  explicit_bzero(random, sizeof random);
  BY_TRY(status);
  return by_connector_take_keys(connector, links, NULL, 0);
}

/* Derives the key with which this process proves itself to one that has `parent`. */
static enum banyan_status derive_key(const struct by_job *job, const struct by_key *parent, uint32_t process,
                                     struct by_key *out) {
  uint8_t head[BY_TICKET_HEAD];
  BY_TRY(by_links_ticket(job, process, head));
  return by_ticket_prove(parent, head, out);
}

static enum banyan_status write_key(const struct by_control_peer *to, uint32_t number, struct by_key *key,
                                    struct by_writer *writer) {
  enum banyan_status status = mask_key(to, number, key);
  if (status == BANYAN_OK) by_write_bytes(writer, key->bytes, sizeof key->bytes);
  explicit_bzero(key, sizeof *key);
  return status;
}

enum banyan_status by_link_keys_write(const struct by_control_peers *peers, const struct by_key *links,
                                      uint32_t process, struct by_writer *writer) {
  const struct by_control_peer *to = peers->of_process[process];
  const struct by_job *job = peers->job;
  uint32_t n = process > job->size ? process - job->size : 0;
  struct by_key key = *links, own;
  enum banyan_status first = process >= job->size ? derive_key(job, links, process, &key) : BANYAN_OK;
  if (first == BANYAN_OK) first = write_key(to, 0, &key, writer);
  explicit_bzero(&key, sizeof key);
  BY_TRY(first);
  by_write_u32(writer, n);
  for (uint32_t i = 0; i < n; i++) {
    BY_TRY(derive_key(job, links, job->size + i, &own));
    enum banyan_status status = derive_key(job, &own, process, &key);
    explicit_bzero(&own, sizeof own);
    BY_TRY(status);
    BY_TRY(write_key(to, i + 1, &key, writer));
  }
  return BANYAN_OK;
}

static enum banyan_status read_key(const struct by_control_peer *root, uint32_t number, struct by_reader *reader,
                                   struct by_key *out) {
  const uint8_t *bytes = by_read_bytes(reader, sizeof *out);
  if (!bytes) return by_reader_check(reader, "the list of members");
  memcpy(out, bytes, sizeof *out);
  return mask_key(root, number, out);
}

static enum banyan_status read_keys(const struct by_control_peer *root, uint32_t n, struct by_reader *reader,
                                    struct by_key **out) {
  struct by_key *keys = *out = calloc(n + 1, sizeof *keys);
  enum banyan_status status = keys ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for keys");
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) status = read_key(root, i + 1, reader, &keys[i]);
  if (status == BANYAN_OK) return BANYAN_OK;
  if (keys) explicit_bzero(keys, n * sizeof *keys);
  free(keys);
  return status;
}

enum banyan_status by_link_keys_read(const struct by_control_peers *peers, struct by_connector *connector,
                                     uint32_t before, struct by_reader *reader) {
  const struct by_control_peer *root = by_control_peers_root(peers);
  struct by_key own, *keys;
  BY_TRY(read_key(root, 0, reader, &own));
  uint32_t n = by_read_count(reader, sizeof(struct by_key));
  enum banyan_status status = BANYAN_OK;
  if (n != before) status = by_fail(BANYAN_ERR_PROTOCOL, "rank 0 sends %u keys for links to %u helpers", n, before);
  if (status == BANYAN_OK) status = read_keys(root, n, reader, &keys);
  if (status == BANYAN_OK) status = by_connector_take_keys(connector, &own, keys, n);
  explicit_bzero(&own, sizeof own);
  return status;
}
