/* Encodes and decodes the messages by which members decide the successor of a membership. */
#include "paxos_message.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum { BALLOT = 1, ACCEPTED = 2, VALUE = 4, DEAD = 8, VIEW = 16 };

/* The parts that follow the kind and the number of a message, in this order. */
static const uint8_t parts_of[] = {
    [BY_PAXOS_REPORT] = VIEW,
    [BY_PAXOS_PREPARE] = BALLOT | DEAD,
    [BY_PAXOS_PROMISE] = BALLOT | ACCEPTED | VALUE | VIEW,
    [BY_PAXOS_ACCEPT] = BALLOT | VALUE | DEAD,
    [BY_PAXOS_ACCEPTED] = BALLOT,
    [BY_PAXOS_REFUSED] = BALLOT | ACCEPTED,
    [BY_PAXOS_DECIDED] = VALUE,
    [BY_PAXOS_EXCLUDED] = VALUE,
    [BY_PAXOS_GONE] = 0,
    [BY_PAXOS_NOTICE] = VIEW,
};

static const struct by_field head_fields[] = {
    BY_FIELD(by_paxos_message, kind, BY_FIELD_U8, .min = BY_PAXOS_REPORT, .max = BY_PAXOS_NOTICE),
    BY_FIELD(by_paxos_message, number, BY_FIELD_U64),
};
static const struct by_field ballot_field[] = {
    BY_FIELD(by_paxos_message, ballot, BY_FIELD_U64, .min = 1, .max = BY_BALLOT_MOST - 1),
};
static const struct by_field accepted_field[] = {
    BY_FIELD(by_paxos_message, accepted, BY_FIELD_U64, .max = BY_BALLOT_MOST - 1),
};

/* ---- views */

enum banyan_status by_paxos_view_init(struct by_paxos_view *view, const struct by_membership *membership) {
  *view = (struct by_paxos_view){0};
  enum banyan_status status = by_rank_set_init(&view->suspected, membership->n);
  if (status == BANYAN_OK) status = by_rank_set_init(&view->dead, membership->n);
  if (status == BANYAN_OK) status = by_rank_set_init(&view->leaving, membership->n);
  if (status == BANYAN_OK) status = by_rank_set_init(&view->gone, membership->n_excluded);
  if (status != BANYAN_OK) by_paxos_view_fini(view);
  return status;
}

void by_paxos_view_fini(struct by_paxos_view *view) {
  by_rank_set_fini(&view->suspected);
  by_rank_set_fini(&view->dead);
  by_rank_set_fini(&view->leaving);
  by_rank_set_fini(&view->gone);
  free(view->newcomers);
  *view = (struct by_paxos_view){0};
}

bool by_paxos_view_add(struct by_paxos_view *view, const struct by_fingerprint *newcomer) {
  uint32_t n = view->n_newcomers;
  for (uint32_t i = 0; i < n; i++)
    if (by_fingerprint_equal(&view->newcomers[i], newcomer)) return false;
  if (n == BY_NEWCOMERS_MOST) return false;
  if ((n & (n - 1)) == 0) {
    struct by_fingerprint *room = realloc(view->newcomers, (n ? 2 * (size_t)n : 1) * sizeof *room);
    if (!room) return false;
    view->newcomers = room;
  }
  view->newcomers[view->n_newcomers++] = *newcomer;
  return true;
}

static void write_view(struct by_writer *writer, const struct by_paxos_view *view) {
  by_rank_set_write(writer, &view->suspected);
  by_rank_set_write(writer, &view->dead);
  by_rank_set_write(writer, &view->leaving);
  by_rank_set_write(writer, &view->gone);
  by_write_u8(writer, view->settled);
  by_write_u32(writer, view->n_newcomers);
  by_write_bytes(writer, view->newcomers, view->n_newcomers * sizeof *view->newcomers);
}

static enum banyan_status read_view(struct by_reader *reader, struct by_paxos_view *view) {
  by_rank_set_read(reader, &view->suspected);
  by_rank_set_read(reader, &view->dead);
  by_rank_set_read(reader, &view->leaving);
  by_rank_set_read(reader, &view->gone);
  uint8_t settled = by_read_u8(reader);
  reader->failed |= settled > 1;
  view->settled = settled;
  uint32_t n = by_read_count(reader, BY_FINGERPRINT_BYTES);
  if (n > BY_NEWCOMERS_MOST)
    return by_fail(BANYAN_ERR_PROTOCOL, "a message about a change of members names %u newcomers, at most %d may be", n,
                   BY_NEWCOMERS_MOST);
  const uint8_t *bytes = by_read_bytes(reader, n * sizeof *view->newcomers);
  if (!bytes || !n) return BANYAN_OK;
  view->newcomers = malloc(n * sizeof *view->newcomers);
  if (!view->newcomers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u newcomers", n);
  memcpy(view->newcomers, bytes, n * sizeof *view->newcomers);
  view->n_newcomers = n;
  return BANYAN_OK;
}

/* ---- messages */

void by_paxos_message_write(struct by_writer *writer, const struct by_paxos_message *message) {
  uint8_t parts = parts_of[message->kind];
  by_fields_write(writer, BY_FIELDS(head_fields), message);
  if (parts & BALLOT) by_fields_write(writer, BY_FIELDS(ballot_field), message);
  if (parts & ACCEPTED) by_fields_write(writer, BY_FIELDS(accepted_field), message);
  if (parts & VALUE) by_write_blob(writer, message->value, message->length);
  if (parts & DEAD) by_rank_set_write(writer, &message->view.dead);
  if (parts & VIEW) write_view(writer, &message->view);
}

static enum banyan_status read_parts(struct by_reader *reader, struct by_paxos_message *out) {
  static const char what[] = "a message about a change of members";
  uint8_t parts = parts_of[out->kind];
  if (parts & BALLOT) BY_TRY(by_fields_read(reader, NULL, BY_FIELDS(ballot_field), what, out));
  if (parts & ACCEPTED) BY_TRY(by_fields_read(reader, NULL, BY_FIELDS(accepted_field), what, out));
  if (parts & VALUE) out->value = by_read_blob(reader, &out->length);
  if (parts & DEAD) by_rank_set_read(reader, &out->view.dead);
  if (parts & VIEW) BY_TRY(read_view(reader, &out->view));
  return by_reader_check(reader, what);
}

enum banyan_status by_paxos_message_read(const void *bytes, size_t length, const struct by_membership *membership,
                                         struct by_paxos_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_paxos_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(head_fields), "a message about a change of members", out));
  if (out->number != membership->number)
    return by_fail(BANYAN_ERR_PROTOCOL, "a message is about membership %016llx, this is %016llx \"%s\"",
                   (unsigned long long)out->number, (unsigned long long)membership->number, membership->name);
  BY_TRY(by_paxos_view_init(&out->view, membership));
  enum banyan_status status = read_parts(&reader, out);
  if (status != BANYAN_OK) by_paxos_view_fini(&out->view);
  return status;
}

void by_paxos_welcome_write(struct by_writer *writer, uint64_t number, const struct by_membership *membership,
                            const uint8_t secret[BY_SECRET_BYTES]) {
  by_write_u8(writer, BY_PAXOS_WELCOME);
  by_write_u64(writer, number);
  by_write_bytes(writer, secret, BY_SECRET_BYTES);
  by_membership_write(writer, membership);
}

enum banyan_status by_paxos_welcome_read(const void *bytes, size_t length, uint64_t *number, struct by_membership **out,
                                         uint8_t secret[BY_SECRET_BYTES]) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  uint8_t kind = by_read_u8(&reader);
  *number = by_read_u64(&reader);
  const uint8_t *given = by_read_bytes(&reader, BY_SECRET_BYTES);
  if (!given || kind != BY_PAXOS_WELCOME) return by_fail(BANYAN_ERR_PROTOCOL, "a welcome to a membership is malformed");
  memcpy(secret, given, BY_SECRET_BYTES);
  BY_TRY(by_membership_read(&reader, out));
  enum banyan_status status = by_reader_check(&reader, "a welcome to a membership");
  if (status != BANYAN_OK) by_membership_destroy(*out);
  return status;
}
