/* Checks, reads and prints reservations, requests and replies. */
#include "reservation.h"

#include <stdio.h>
#include <string.h>

#include "json_doc.h"

static const char *const operations[] = {"describe", "status", "grant", "revoke", ""};
static const char *const fields[] = {
    "do", "do", "do, holder, job, key, place, slots, float32, secret, up, server, below", "do, holder, job"};

static const struct by_doc_path root = {.field = "control line"};

const char *by_reservation_operation_name(enum by_reservation_operation operation) {
  return operations[operation];
}

const char *by_udp_end_print(const struct by_udp_end *end, char *out) {
  struct by_address address;
  by_address_set_host(&address, &end->address, end->port);
  return by_address_print(&address, out);
}

struct by_udp_end by_udp_end_of(const struct by_address *address) {
  return (struct by_udp_end){by_address_host(address), htons((uint16_t)by_address_port(address))};
}

enum banyan_status by_udp_end_parse(const char *text, struct by_udp_end *out) {
  struct by_address address;
  BY_TRY(by_address_parse(text, &address));
  *out = by_udp_end_of(&address);
  return BANYAN_OK;
}

bool by_udp_end_same(const struct by_udp_end *a, const struct by_udp_end *b) {
  return IN6_ARE_ADDR_EQUAL(&a->address, &b->address) && a->port == b->port;
}

/* ---- reservations */

/* Accepts the names that the kernel does. */
static bool is_interface(const char *name) {
  return *name && memchr(name, 0, IF_NAMESIZE) && by_is_printable(name, IF_NAMESIZE) && !strpbrk(name, "/: ") &&
         strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum banyan_status check_end(const struct by_reservation *r, const struct by_udp_end *end, const char *what) {
  if (IN6_IS_ADDR_UNSPECIFIED(&end->address) || !end->port)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u requests a grant without the address of %s", r->job, what);
  if (by_host_is_ipv4(&end->address) == by_host_is_ipv4(&r->server.address)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "job %u requests a grant between addresses of IPv4 and of IPv6", r->job);
}

static enum banyan_status check_below(const struct by_reservation *r, const struct by_reservation_below *below) {
  if (!is_interface(below->interface))
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u names a port that cannot be an interface's name", r->job);
  if (below->first > r->n_workers || below->n > r->n_workers - below->first || below->n == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants nobody behind %s", r->job, below->interface);
  if (!below->is_switch && below->n > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u workers at one place behind %s", r->job, below->n,
                   below->interface);
  return BANYAN_OK;
}

enum banyan_status by_reservation_check(const struct by_reservation *r) {
  if (r->place >= BY_RESERVATION_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants place %u; there are %d", r->job, r->place, BY_RESERVATION_HOPS);
  if (r->slots > BY_RESERVATION_SLOTS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u cells, more than the %d that it can name", r->job, r->slots,
                   BY_RESERVATION_SLOTS);
  if (!is_interface(r->up)) return by_fail(BANYAN_ERR_ARGUMENT, "job %u names no interface towards its server", r->job);
  if (r->n_below < 1 || r->n_below > BY_RESERVATION_BELOW || r->n_workers > BY_RESERVATION_WORKERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u workers in %u places below; it can have 1 to %d in %d", r->job,
                   r->n_workers, r->n_below, BY_RESERVATION_WORKERS, BY_RESERVATION_BELOW);
  BY_TRY(check_end(r, &r->server, "its server"));
  for (unsigned i = 0; i < r->n_workers; i++) BY_TRY(check_end(r, &r->workers[i], "a worker"));
  for (unsigned i = 0; i < r->n_below; i++) BY_TRY(check_below(r, &r->below[i]));
  return BANYAN_OK;
}

bool by_reservation_is_successor(const char *a, const char *b) {
  const char *end = strchr(a, '/');
  return end && !strncmp(a, b, (size_t)(end + 1 - a)) && strcmp(a, b) != 0;
}

bool by_reservation_same(const struct by_reservation *a, const struct by_reservation *b) {
  if (a->job != b->job || a->key != b->key || a->place != b->place || a->slots != b->slots ||
      a->float32 != b->float32 || a->keyed != b->keyed || memcmp(a->secret, b->secret, sizeof a->secret) != 0 ||
      strcmp(a->up, b->up) || a->n_below != b->n_below || a->n_workers != b->n_workers ||
      !by_udp_end_same(&a->server, &b->server))
    return false;
  for (unsigned i = 0; i < a->n_below; i++) {
    const struct by_reservation_below *x = &a->below[i], *y = &b->below[i];
    if (strcmp(x->interface, y->interface) || x->is_switch != y->is_switch || x->first != y->first || x->n != y->n)
      return false;
  }
  for (unsigned i = 0; i < a->n_workers; i++)
    if (!by_udp_end_same(&a->workers[i], &b->workers[i])) return false;
  return true;
}

/* ---- reading requests */

static enum banyan_status read_string(const struct by_doc_path *above, const json_t *object, const char *field,
                                      const char **out) {
  json_t *value;
  BY_TRY(by_doc_need(above, object, field, &value));
  return by_doc_string(&(struct by_doc_path){.above = above, .field = field}, value, out);
}

static enum banyan_status read_name(const struct by_doc_path *above, const json_t *object, const char *field,
                                    size_t most, char *out) {
  const char *text;
  BY_TRY(read_string(above, object, field, &text));
  if (!*text || !by_is_printable(text, most))
    return by_doc_fail(&(struct by_doc_path){.above = above, .field = field}, "must be a name of 1 to %zu bytes", most);
  strcpy(out, text);
  return BANYAN_OK;
}

/* Reads an optional member; without it *out is unchanged. */
static enum banyan_status read_bool(const struct by_doc_path *above, const json_t *object, const char *field,
                                    bool *out) {
  const json_t *value = json_object_get(object, field);
  return value ? by_doc_bool(&(struct by_doc_path){.above = above, .field = field}, value, out) : BANYAN_OK;
}

static enum banyan_status read_end(const struct by_doc_path *place, const json_t *value, struct by_udp_end *out) {
  const char *text;
  BY_TRY(by_doc_string(place, value, &text));
  if (by_udp_end_parse(text, out) == BANYAN_OK) return BANYAN_OK;
  return by_doc_fail(place, "must be an address and a port, \"10.0.0.9:7612\" or \"[fd00::9]:7612\"");
}

static enum banyan_status read_below(const struct by_doc_path *place, const json_t *object,
                                     struct by_reservation *reservation) {
  struct by_reservation_below *below = &reservation->below[reservation->n_below++];
  struct by_doc_path of_workers = {.above = place, .field = "workers"};
  json_t *value;
  BY_TRY(by_doc_fields(place, object, "interface, switch, workers"));
  BY_TRY(read_name(place, object, "interface", IF_NAMESIZE - 1, below->interface));
  BY_TRY(by_doc_need(place, object, "switch", &value));
  BY_TRY(read_bool(place, object, "switch", &below->is_switch));
  BY_TRY(by_doc_need(place, object, "workers", &value));
  BY_TRY(by_doc_array(&of_workers, value, 1, BY_RESERVATION_WORKERS - reservation->n_workers));
  below->first = reservation->n_workers;
  below->n = (unsigned)json_array_size(value);
  for (unsigned i = 0; i < below->n; i++) {
    struct by_doc_path here = {.above = &of_workers, .index = i};
    BY_TRY(read_end(&here, json_array_get(value, i), &reservation->workers[reservation->n_workers++]));
  }
  return BANYAN_OK;
}

static int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the optional secret; without it *reservation is unchanged. */
static enum banyan_status read_secret(const json_t *object, struct by_reservation *reservation) {
  struct by_doc_path place = {.above = &root, .field = "secret"};
  const json_t *value = json_object_get(object, "secret");
  const char *text;
  if (!value) return BANYAN_OK;
  BY_TRY(by_doc_string(&place, value, &text));
  bool well = strlen(text) == 2 * sizeof reservation->secret;
  for (size_t i = 0; well && i < sizeof reservation->secret; i++) {
    int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    well = high >= 0 && low >= 0;
    reservation->secret[i] = (unsigned char)((high & 15) << 4 | (low & 15));
  }
  reservation->keyed = true;
  if (well) return BANYAN_OK;
  return by_doc_fail(&place, "must be %zu hexadecimal digits", 2 * sizeof reservation->secret);
}

static enum banyan_status read_reservation(const json_t *object, struct by_reservation *reservation) {
  struct by_doc_path of_server = {.above = &root, .field = "server"}, of_below = {.above = &root, .field = "below"};
  uint64_t key, place, slots;
  json_t *value;
  BY_TRY(by_doc_need_int(&root, object, "key", UINT16_MAX, &key));
  BY_TRY(by_doc_need_int(&root, object, "place", BY_RESERVATION_HOPS - 1, &place));
  BY_TRY(by_doc_need_int(&root, object, "slots", BY_RESERVATION_SLOTS, &slots));
  reservation->key = (uint16_t)key;
  reservation->place = (uint8_t)place;
  reservation->slots = (uint32_t)slots;
  BY_TRY(read_bool(&root, object, "float32", &reservation->float32));
  BY_TRY(read_secret(object, reservation));
  BY_TRY(read_name(&root, object, "up", IF_NAMESIZE - 1, reservation->up));
  BY_TRY(by_doc_need(&root, object, "server", &value));
  BY_TRY(read_end(&of_server, value, &reservation->server));
  BY_TRY(by_doc_need(&root, object, "below", &value));
  BY_TRY(by_doc_array(&of_below, value, 1, BY_RESERVATION_BELOW));
  for (size_t i = 0; i < json_array_size(value); i++) {
    struct by_doc_path here = {.above = &of_below, .index = i};
    BY_TRY(read_below(&here, json_array_get(value, i), reservation));
  }
  return by_reservation_check(reservation);
}

static enum banyan_status read_operation(const char *field, const json_t *object, enum by_reservation_operation *out) {
  const char *name;
  BY_TRY(read_string(&root, object, field, &name));
  for (*out = 0; *out < BY_RESERVATION_OPERATIONS; (*out)++)
    if (!strcmp(name, operations[*out])) return BANYAN_OK;
  return by_doc_fail(&(struct by_doc_path){.above = &root, .field = field},
                     "must be describe, status, grant or revoke");
}

static bool has_job(enum by_reservation_operation operation) {
  return operation == BY_RESERVATION_GRANT || operation == BY_RESERVATION_REVOKE;
}

static enum banyan_status take_request(const json_t *object, struct by_reservation_request *out) {
  uint64_t job;
  if (!json_is_object(object)) return by_doc_fail(&root, "must be an object");
  BY_TRY(read_operation("do", object, &out->operation));
  BY_TRY(by_doc_fields(&root, object, fields[out->operation]));
  if (!has_job(out->operation)) return BANYAN_OK;
  BY_TRY(read_name(&root, object, "holder", BY_RESERVATION_HOLDER, out->holder));
  BY_TRY(by_doc_need_int(&root, object, "job", UINT16_MAX, &job));
  out->reservation.job = (uint16_t)job;
  return out->operation == BY_RESERVATION_GRANT ? read_reservation(object, &out->reservation) : BANYAN_OK;
}

enum banyan_status by_reservation_read_request(const char *line, size_t length, struct by_reservation_request *out) {
  /* The brackets of IPv6 addresses count as arrays. */
  static const struct by_doc_limits limits = {.bytes = BY_RESERVATION_LINE, .containers = 2048, .elements = 4096};
  json_t *object;
  memset(out, 0, sizeof *out);
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  enum banyan_status status = take_request(object, out);
  json_decref(object);
  return status;
}

/* ---- printing requests */

static void print_reservation(const struct by_reservation *reservation, struct by_text *text) {
  char end[BY_ADDRESS_TEXT];
  by_text_add(text, ", \"key\": %u, \"place\": %u, \"slots\": %u, ", reservation->key, reservation->place,
              reservation->slots);
  by_text_add(text, "%s", reservation->float32 ? "\"float32\": true, " : "");
  if (reservation->keyed) {
    by_text_add(text, "\"secret\": \"");
    for (size_t i = 0; i < sizeof reservation->secret; i++) by_text_add(text, "%02x", reservation->secret[i]);
    by_text_add(text, "\", ");
  }
  by_text_add(text, "\"up\": ");
  by_json_add_string(text, reservation->up);
  by_text_add(text, ", \"server\": \"%s\", \"below\": [", by_udp_end_print(&reservation->server, end));
  for (unsigned i = 0; i < reservation->n_below; i++) {
    const struct by_reservation_below *below = &reservation->below[i];
    by_text_add(text, "%s{\"interface\": ", i ? ", " : "");
    by_json_add_string(text, below->interface);
    by_text_add(text, ", \"switch\": %s, \"workers\": [", below->is_switch ? "true" : "false");
    for (unsigned w = 0; w < below->n; w++)
      by_text_add(text, "%s\"%s\"", w ? ", " : "", by_udp_end_print(&reservation->workers[below->first + w], end));
    by_text_add(text, "]}");
  }
  by_text_add(text, "]");
}

void by_reservation_print_request(const struct by_reservation_request *request, struct by_text *text) {
  by_text_add(text, "{\"do\": \"%s\"", operations[request->operation]);
  if (has_job(request->operation)) {
    by_text_add(text, ", \"holder\": ");
    by_json_add_string(text, request->holder);
    by_text_add(text, ", \"job\": %u", request->reservation.job);
  }
  if (request->operation == BY_RESERVATION_GRANT) print_reservation(&request->reservation, text);
  by_text_add(text, "}");
}

/* ---- replies */

static enum banyan_status read_granted(const json_t *object, struct by_granted *granted) {
  struct by_doc_path place = {.above = &root, .field = "below"};
  uint64_t slots, up, port;
  json_t *below;
  BY_TRY(by_doc_need_int(&root, object, "slots", BY_RESERVATION_SLOTS, &slots));
  BY_TRY(by_doc_need_int(&root, object, "up", BY_RESERVATION_PORTS - 1, &up));
  BY_TRY(by_doc_need(&root, object, "below", &below));
  BY_TRY(by_doc_array(&place, below, 1, BY_RESERVATION_BELOW));
  granted->slots = (uint32_t)slots;
  granted->up = (uint8_t)up;
  granted->n_below = (unsigned)json_array_size(below);
  for (unsigned i = 0; i < granted->n_below; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    BY_TRY(by_doc_int(&here, json_array_get(below, i), 0, BY_RESERVATION_PORTS - 1, &port));
    granted->below[i] = (uint8_t)port;
  }
  return BANYAN_OK;
}

/* Reads a reply. One to a request that could not be read names no operation. */
static enum banyan_status read_reply(const json_t *object, struct by_reservation_reply *out) {
  uint64_t job = 0, key = 0;
  if (!json_is_object(object)) return by_doc_fail(&root, "must be an object");
  out->well = json_object_get(object, "done");
  out->operation = BY_RESERVATION_OPERATIONS;
  if (!out->well) {
    const char *reason;
    BY_TRY(read_string(&root, object, "text", &reason));
    by_keep_printable(reason, out->text, sizeof out->text);
    BY_TRY(read_bool(&root, object, "taken", &out->taken));
  }
  if (out->well || json_object_get(object, "failed"))
    BY_TRY(read_operation(out->well ? "done" : "failed", object, &out->operation));
  if (has_job(out->operation)) BY_TRY(by_doc_need_int(&root, object, "job", UINT16_MAX, &job));
  if (out->operation == BY_RESERVATION_GRANT) BY_TRY(by_doc_need_int(&root, object, "key", UINT16_MAX, &key));
  out->job = (uint16_t)job;
  out->key = (uint16_t)key;
  return out->well && out->operation == BY_RESERVATION_GRANT ? read_granted(object, &out->granted) : BANYAN_OK;
}

enum banyan_status by_reservation_read_reply(const char *line, size_t length, struct by_reservation_reply *out) {
  static const struct by_doc_limits limits = {.bytes = BY_RESERVATION_REPLY, .containers = 65536, .elements = 262144};
  json_t *object;
  memset(out, 0, sizeof *out);
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  enum banyan_status status = read_reply(object, out);
  json_decref(object);
  return status;
}

void by_reservation_print_reply(const struct by_reservation_reply *reply, struct by_text *text) {
  const char *between = "";
  by_text_add(text, "{");
  if (reply->operation != BY_RESERVATION_OPERATIONS) {
    by_text_add(text, "\"%s\": \"%s\"", reply->well ? "done" : "failed", operations[reply->operation]);
    between = ", ";
  }
  if (has_job(reply->operation)) by_text_add(text, ", \"job\": %u", reply->job);
  if (reply->operation == BY_RESERVATION_GRANT) by_text_add(text, ", \"key\": %u", reply->key);
  if (reply->well && reply->operation == BY_RESERVATION_GRANT) {
    by_text_add(text, ", \"slots\": %u, \"up\": %u, \"below\": [", reply->granted.slots, reply->granted.up);
    for (unsigned i = 0; i < reply->granted.n_below; i++)
      by_text_add(text, "%s%u", i ? ", " : "", reply->granted.below[i]);
    by_text_add(text, "]");
  }
  if (!reply->well) {
    by_text_add(text, "%s\"text\": ", between);
    by_json_add_string(text, reply->text);
    if (reply->taken) by_text_add(text, ", \"taken\": true");
  }
  by_text_add(text, "}");
}
