#include "reservation_messages.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "json_doc.h"

static const char *const operations[] = {"describe", "status", "grant", "revoke", ""};
static const char *const fields[] = {"do", "do", "do, holder, job, key, place, slots, float32, up, server, below",
                                     "do, holder, job"};

static const struct by_place root = {.field = "control line"};

const char *by_lease_operation_name(enum by_lease_operation operation) {
  return operations[operation];
}

const char *by_udp_end_print(const struct by_udp_end *end, char *out) {
  const uint8_t *byte = (const uint8_t *)&end->address;
  snprintf(out, BY_UDP_END_TEXT, "%u.%u.%u.%u:%u", byte[0], byte[1], byte[2], byte[3], ntohs(end->port));
  return out;
}

/* ---- requests, read */

static enum banyan_status take_text(const struct by_place *above, const json_t *object, const char *field, size_t most,
                                    char *out) {
  struct by_place place = {.above = above, .field = field};
  const char *text;
  json_t *value;
  BY_TRY(by_doc_need(above, object, field, &value));
  BY_TRY(by_doc_string(&place, value, &text));
  if (!*text || !by_is_printable(text, most)) return by_doc_fail(&place, "must be a name of 1 to %zu bytes", most);
  strcpy(out, text);
  return BANYAN_OK;
}

static enum banyan_status take_end(const struct by_place *place, const json_t *value, struct by_udp_end *out) {
  const char *text;
  struct by_address address;
  BY_TRY(by_doc_string(place, value, &text));
  if (by_address_parse(text, &address) != BANYAN_OK || by_address_family(&address) != AF_INET)
    return by_doc_fail(place, "must be an IPv4 address and a port, \"10.0.0.9:7612\"");
  const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&address.storage;
  *out = (struct by_udp_end){in->sin_addr.s_addr, in->sin_port};
  return BANYAN_OK;
}

static enum banyan_status take_workers(const struct by_place *above, const json_t *object,
                                       struct by_reservation *reservation, struct by_reservation_below *below) {
  struct by_place place = {.above = above, .field = "workers"};
  json_t *workers;
  BY_TRY(by_doc_need(above, object, "workers", &workers));
  BY_TRY(by_doc_array(&place, workers, 1, BY_RESERVATION_WORKERS - reservation->n_workers));
  below->first = reservation->n_workers;
  below->n = (unsigned)json_array_size(workers);
  for (unsigned i = 0; i < below->n; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_end(&here, json_array_get(workers, i), &reservation->workers[reservation->n_workers++]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_one_below(const struct by_place *place, const json_t *object,
                                         struct by_reservation *reservation) {
  struct by_reservation_below *below = &reservation->below[reservation->n_below++];
  struct by_place of_switch = {.above = place, .field = "switch"};
  json_t *is_switch;
  BY_TRY(by_doc_fields(place, object, "interface, switch, workers"));
  BY_TRY(take_text(place, object, "interface", IF_NAMESIZE - 1, below->interface));
  BY_TRY(by_doc_need(place, object, "switch", &is_switch));
  BY_TRY(by_doc_bool(&of_switch, is_switch, &below->is_switch));
  return take_workers(place, object, reservation, below);
}

static enum banyan_status take_below(const json_t *object, struct by_reservation *reservation) {
  struct by_place place = {.above = &root, .field = "below"};
  json_t *below;
  BY_TRY(by_doc_need(&root, object, "below", &below));
  BY_TRY(by_doc_array(&place, below, 1, BY_RESERVATION_WORKERS));
  for (size_t i = 0; i < json_array_size(below); i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_one_below(&here, json_array_get(below, i), reservation));
  }
  return BANYAN_OK;
}

static enum banyan_status take_reservation(const json_t *object, struct by_reservation *reservation) {
  struct by_place server = {.above = &root, .field = "server"}, float32 = {.above = &root, .field = "float32"};
  uint64_t key, place, slots;
  json_t *value;
  BY_TRY(by_doc_need_int(&root, object, "key", UINT16_MAX, &key));
  BY_TRY(by_doc_need_int(&root, object, "place", BY_RESERVATION_HOPS - 1, &place));
  BY_TRY(by_doc_need_int(&root, object, "slots", BY_RESERVATION_SLOTS, &slots));
  reservation->key = (uint16_t)key;
  reservation->place = (uint8_t)place;
  reservation->slots = (uint32_t)slots;
  value = json_object_get(object, "float32");
  if (value) BY_TRY(by_doc_bool(&float32, value, &reservation->float32));
  BY_TRY(take_text(&root, object, "up", IF_NAMESIZE - 1, reservation->up));
  BY_TRY(by_doc_need(&root, object, "server", &value));
  BY_TRY(take_end(&server, value, &reservation->server));
  BY_TRY(take_below(object, reservation));
  return by_reservation_check(reservation);
}

static enum banyan_status take_operation(const char *field, const json_t *object, enum by_lease_operation *out) {
  struct by_place place = {.above = &root, .field = field};
  const char *name;
  json_t *value;
  BY_TRY(by_doc_need(&root, object, field, &value));
  BY_TRY(by_doc_string(&place, value, &name));
  for (*out = 0; *out < BY_LEASE_OPERATIONS; (*out)++)
    if (!strcmp(name, operations[*out])) return BANYAN_OK;
  return by_doc_fail(&place, "must be describe, status, grant or revoke");
}

static enum banyan_status take_request(const json_t *object, struct by_lease_request *out) {
  uint64_t job;
  if (!json_is_object(object)) return by_doc_fail(&root, "must be an object");
  BY_TRY(take_operation("do", object, &out->operation));
  BY_TRY(by_doc_fields(&root, object, fields[out->operation]));
  if (out->operation == BY_LEASE_DESCRIBE || out->operation == BY_LEASE_STATUS) return BANYAN_OK;
  BY_TRY(take_text(&root, object, "holder", BY_LEASE_HOLDER, out->holder));
  BY_TRY(by_doc_need_int(&root, object, "job", UINT16_MAX, &job));
  out->reservation.job = (uint16_t)job;
  return out->operation == BY_LEASE_GRANT ? take_reservation(object, &out->reservation) : BANYAN_OK;
}

enum banyan_status by_lease_read_request(const char *line, size_t length, struct by_lease_request *out) {
  static const struct by_doc_limits limits = {.bytes = BY_LEASE_LINE, .containers = 256, .elements = 1024};
  json_t *object;
  memset(out, 0, sizeof *out);
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  enum banyan_status status = take_request(object, out);
  json_decref(object);
  return status;
}

/* ---- requests, printed */

static void print_below(const struct by_reservation *reservation, const struct by_reservation_below *below,
                        struct by_text *text) {
  char end[BY_UDP_END_TEXT];
  by_text_add(text, "{\"interface\": ");
  by_json_add_string(text, below->interface);
  by_text_add(text, ", \"switch\": %s, \"workers\": [", below->is_switch ? "true" : "false");
  for (unsigned i = 0; i < below->n; i++)
    by_text_add(text, "%s\"%s\"", i ? ", " : "", by_udp_end_print(&reservation->workers[below->first + i], end));
  by_text_add(text, "]}");
}

static void print_reservation(const struct by_reservation *reservation, struct by_text *text) {
  char end[BY_UDP_END_TEXT];
  by_text_add(text, ", \"key\": %u, \"place\": %u, \"slots\": %u, ", reservation->key, reservation->place,
              reservation->slots);
  by_text_add(text, "%s\"up\": ", reservation->float32 ? "\"float32\": true, " : "");
  by_json_add_string(text, reservation->up);
  by_text_add(text, ", \"server\": \"%s\", \"below\": [", by_udp_end_print(&reservation->server, end));
  for (unsigned i = 0; i < reservation->n_below; i++) {
    if (i) by_text_add(text, ", ");
    print_below(reservation, &reservation->below[i], text);
  }
  by_text_add(text, "]");
}

void by_lease_print_request(const struct by_lease_request *request, struct by_text *text) {
  by_text_add(text, "{\"do\": \"%s\"", operations[request->operation]);
  if (request->operation == BY_LEASE_GRANT || request->operation == BY_LEASE_REVOKE) {
    by_text_add(text, ", \"holder\": ");
    by_json_add_string(text, request->holder);
    by_text_add(text, ", \"job\": %u", request->reservation.job);
  }
  if (request->operation == BY_LEASE_GRANT) print_reservation(&request->reservation, text);
  by_text_add(text, "}");
}

/* ---- replies */

static enum banyan_status take_granted(const json_t *object, struct by_granted *granted) {
  struct by_place place = {.above = &root, .field = "below"};
  uint64_t slots, up, port;
  json_t *below;
  BY_TRY(by_doc_need_int(&root, object, "slots", BY_RESERVATION_SLOTS, &slots));
  BY_TRY(by_doc_need_int(&root, object, "up", BY_RESERVATION_PORTS - 1, &up));
  BY_TRY(by_doc_need(&root, object, "below", &below));
  BY_TRY(by_doc_array(&place, below, 1, BY_RESERVATION_WORKERS));
  granted->slots = (uint32_t)slots;
  granted->up = (uint8_t)up;
  granted->n_below = (unsigned)json_array_size(below);
  for (unsigned i = 0; i < granted->n_below; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(by_doc_int(&here, json_array_get(below, i), 0, BY_RESERVATION_PORTS - 1, &port));
    granted->below[i] = (uint8_t)port;
  }
  return BANYAN_OK;
}

static enum banyan_status take_job(const json_t *object, struct by_lease_reply *out) {
  uint64_t job, key = 0;
  if (out->operation != BY_LEASE_GRANT && out->operation != BY_LEASE_REVOKE) return BANYAN_OK;
  BY_TRY(by_doc_need_int(&root, object, "job", UINT16_MAX, &job));
  if (out->operation == BY_LEASE_GRANT) BY_TRY(by_doc_need_int(&root, object, "key", UINT16_MAX, &key));
  out->job = (uint16_t)job;
  out->key = (uint16_t)key;
  return BANYAN_OK;
}

/* Why not; what could not even be read says no deed. */
static enum banyan_status take_reason(const json_t *object, struct by_lease_reply *out) {
  struct by_place of_text = {.above = &root, .field = "text"}, of_taken = {.above = &root, .field = "taken"};
  const json_t *taken = json_object_get(object, "taken");
  const char *reason;
  json_t *value;
  BY_TRY(by_doc_need(&root, object, "text", &value));
  BY_TRY(by_doc_string(&of_text, value, &reason));
  by_keep_printable(reason, out->text, sizeof out->text);
  return taken ? by_doc_bool(&of_taken, taken, &out->taken) : BANYAN_OK;
}

static enum banyan_status take_reply(const json_t *object, struct by_lease_reply *out) {
  if (!json_is_object(object)) return by_doc_fail(&root, "must be an object");
  out->well = json_object_get(object, "done");
  out->operation = BY_LEASE_OPERATIONS;
  if (!out->well) BY_TRY(take_reason(object, out));
  if (out->well || json_object_get(object, "failed"))
    BY_TRY(take_operation(out->well ? "done" : "failed", object, &out->operation));
  BY_TRY(take_job(object, out));
  return out->well && out->operation == BY_LEASE_GRANT ? take_granted(object, &out->granted) : BANYAN_OK;
}

enum banyan_status by_lease_read_reply(const char *line, size_t length, struct by_lease_reply *out) {
  static const struct by_doc_limits limits = {.bytes = BY_LEASE_REPLY, .containers = 65536, .elements = 262144};
  json_t *object;
  memset(out, 0, sizeof *out);
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  enum banyan_status status = take_reply(object, out);
  json_decref(object);
  return status;
}

void by_lease_print_reply(const struct by_lease_reply *reply, struct by_text *text) {
  by_text_add(text, "{");
  if (reply->operation != BY_LEASE_OPERATIONS)
    by_text_add(text, "\"%s\": \"%s\"", reply->well ? "done" : "failed", operations[reply->operation]);
  if (reply->operation == BY_LEASE_GRANT || reply->operation == BY_LEASE_REVOKE)
    by_text_add(text, ", \"job\": %u", reply->job);
  if (reply->operation == BY_LEASE_GRANT) by_text_add(text, ", \"key\": %u", reply->key);
  if (reply->well && reply->operation == BY_LEASE_GRANT) {
    by_text_add(text, ", \"slots\": %u, \"up\": %u, \"below\": [", reply->granted.slots, reply->granted.up);
    for (unsigned i = 0; i < reply->granted.n_below; i++)
      by_text_add(text, "%s%u", i ? ", " : "", reply->granted.below[i]);
    by_text_add(text, "]");
  }
  if (!reply->well) {
    by_text_add(text, "%s\"text\": ", reply->operation == BY_LEASE_OPERATIONS ? "" : ", ");
    by_json_add_string(text, reply->text);
    if (reply->taken) by_text_add(text, ", \"taken\": true");
  }
  by_text_add(text, "}");
}
