/* Reads and prints the messages of the cluster by a table of their fields. */
#include "cluster_message.h"

#include <math.h>
#include <string.h>

#include "json_doc.h"
#include "priority.h"
#include "text.h"

/* ---- the table of fields: in the order in which they are printed */

enum type {
  JOB_ID,
  NAME,       /* A text of 1 to `max` bytes without control characters. */
  MAYBE_NAME, /* A text of 0 to `max` bytes without control characters. */
  REASON,     /* A text for people: unprintable characters are replaced and long texts are cut, not refused. */
  UINT32,     /* 0 to `max`. */
  UINT64,     /* 0 to INT64_MAX. */
  REAL,       /* 0 or more. */
  PART,       /* A fraction; more than 1 counts as 1. */
  TRAFFIC,    /* Measured bit/s, limited so that sums do not overflow. */
  RATE,       /* bit/s of an interface; 0: unknown. */
  BOOL,
  JSON,  /* An object, kept as text. */
  GIVEN, /* `has` and `given` of struct by_cluster_cells. */
  SIZE,  /* A struct by_cluster_size, as an array of two. */
  LIST,
  OBJECT, /* A pointer to a struct; `list` has its size and fields. */
};

enum presence {
  ALWAYS,   /* Must be present. */
  IF_SET,   /* Optional; printed unless it is 0, false, NULL or empty. */
  PRINTED,  /* Optional, always printed. */
  OF_RANK,  /* In hello: required with "job", which only ranks name. */
  OF_AGENT, /* In hello: optional, printed by agents, or if set. */
};

struct list {
  size_t n_at, size; /* Offset of the count in the enclosing struct; bytes of an element. */
  size_t max;
  const struct field *fields; /* Fields of an element; one without a name: the element is not an object. */
};

struct field {
  const char *name; /* NULL: the end of a table. */
  size_t at;        /* Offset in its struct. */
  enum type type;
  enum presence presence;
  uint64_t max; /* 0 of a NAME: BY_CLUSTER_NAME. */
  const struct list *list;
};

/* A field of struct OF, which is defined around each group of tables: its member, its type, and its other attributes.
 * NAMED is for fields that JSON names differently. */
#define NAMED(name_, member, ...)                                                                                      \
  { .name = (name_), .at = offsetof(OF, member), .type = __VA_ARGS__ }
#define FIELD(member, ...) NAMED(#member, member, __VA_ARGS__)
/* The elements of a list, which is a member of OF and has its count in n_<member>. */
#define ELEMENTS(member, most_, fields_)                                                                               \
  { offsetof(OF, n_##member), sizeof *((OF *)NULL)->member, most_, fields_ }
#define END                                                                                                            \
  { .name = NULL }

#define OF struct by_cluster_interface
#define NEIGHBOUR FIELD(neighbour, NAME, .presence = IF_SET), FIELD(neighbour_port, NAME, .presence = IF_SET)
static const struct field hello_interface[] = {FIELD(name, NAME), FIELD(address, MAYBE_NAME), FIELD(rate, RATE),
                                               NEIGHBOUR, END};
static const struct field report_interface[] = {FIELD(name, NAME),
                                                FIELD(rate, RATE),
                                                FIELD(sent, TRAFFIC),
                                                FIELD(received, TRAFFIC),
                                                FIELD(ours_sent, TRAFFIC),
                                                FIELD(ours_received, TRAFFIC),
                                                NEIGHBOUR,
                                                END};
#undef OF

#define OF struct by_cluster_path
static const struct field path[] = {FIELD(to, NAME), FIELD(sent, TRAFFIC), FIELD(busy, PART), FIELD(bandwidth, TRAFFIC),
                                    END};
#undef OF

#define OF struct by_cluster_job
static const struct field rank_element = {.type = UINT32, .max = BY_CLUSTER_RANKS - 1};
static const struct field size_element = {.type = SIZE};
static const struct list ranks = ELEMENTS(ranks, BY_CLUSTER_RANKS, &rank_element);
static const struct list sizes = ELEMENTS(sizes, BY_CLUSTER_SIZES, &size_element);
static const struct list paths = ELEMENTS(paths, BY_CLUSTER_PATHS, path);
static const struct field paths_field = FIELD(paths, LIST, .list = &paths, .presence = IF_SET);
static const struct field classes_job[] = {FIELD(job, JOB_ID),
                                           NAMED("class", class_, UINT32, .max = BY_PRIORITY_CLASSES - 1), END};
static const struct field report_job[] = {
    FIELD(job, JOB_ID),
    FIELD(ranks, LIST, .list = &ranks),
    FIELD(iterations, UINT64),
    FIELD(expected, UINT64, .presence = IF_SET),
    FIELD(ends_in, REAL, .presence = IF_SET),
    FIELD(iteration_time, REAL),
    FIELD(sent, UINT64),
    FIELD(input, UINT64),
    FIELD(calls, UINT64),
    FIELD(paths, LIST, .list = &paths, .presence = IF_SET),
    FIELD(sizes, LIST, .list = &sizes),
    END,
};
#undef OF

#define OF struct by_cluster_cells
#define SLOTS NAMED("switch", at, NAME), FIELD(slots, UINT32, .max = BY_CLUSTER_SLOTS)
static const struct field reservation_cells[] = {
    SLOTS,
    FIELD(bytes, UINT32, .max = BY_CLUSTER_SLOT_BYTES),
    FIELD(server, NAME, .presence = IF_SET),
    {.name = "given", .type = GIVEN, .presence = IF_SET, .max = BY_CLUSTER_SLOTS},
    END,
};
static const struct field answer_cells[] = {SLOTS, END};
static const struct field plan_cells[] = {SLOTS, FIELD(server, NAME), END};
#undef OF

#define SWITCH_KEY FIELD(key, NAME, .max = BY_CLUSTER_KEY, .presence = IF_SET)
#define OF struct by_cluster_switch
static const struct field plan_switch[] = {NAMED("switch", at, NAME), FIELD(address, NAME), SWITCH_KEY, END};
#undef OF

#define OF struct by_cluster_aggregates
static const struct field aggregates_fields[] = {FIELD(cells, UINT32, .max = BY_CLUSTER_MAX_CELLS),
                                                 FIELD(bytes, UINT32, .max = BY_CLUSTER_SLOT_BYTES),
                                                 FIELD(address, NAME),
                                                 SWITCH_KEY,
                                                 FIELD(float32, BOOL, .presence = IF_SET),
                                                 END};
static const struct list aggregates = {.size = sizeof(OF), .fields = aggregates_fields};
#undef OF

#define OF struct by_cluster_message
static const struct field host_element = {.type = NAME};
static const struct list hosts = ELEMENTS(hosts, BY_CLUSTER_RANKS, &host_element);
static const struct field handle_element = {.type = NAME, .max = BY_CLUSTER_HANDLE};
static const struct list handles = ELEMENTS(handles, BY_CLUSTER_FOUNDERS, &handle_element);
static const struct list offered_hosts = ELEMENTS(hosts, BY_CLUSTER_OFFER, &host_element);
static const struct list hello_interfaces = ELEMENTS(interfaces, BY_CLUSTER_INTERFACES, hello_interface);
static const struct list report_interfaces = ELEMENTS(interfaces, BY_CLUSTER_INTERFACES, report_interface);
static const struct list report_jobs = ELEMENTS(jobs, BY_CLUSTER_JOBS, report_job);
static const struct list classes_jobs = ELEMENTS(jobs, BY_CLUSTER_JOBS, classes_job);
static const struct list requested_cells = ELEMENTS(cells, BY_CLUSTER_CELLS, reservation_cells);
static const struct list answered_cells = ELEMENTS(cells, BY_CLUSTER_CELLS, answer_cells);
static const struct list planned_cells = ELEMENTS(cells, BY_CLUSTER_CELLS, plan_cells);
static const struct list planned_switches = ELEMENTS(switches, BY_CLUSTER_CELLS, plan_switch);

#define JOB FIELD(job, JOB_ID)
#define NUMBER FIELD(number, UINT64)
#define RANK(...) FIELD(rank, UINT32, .max = BY_CLUSTER_RANKS - 1, __VA_ARGS__)
#define VERSION FIELD(version, UINT32, .max = UINT32_MAX)
#define HELPER FIELD(helper, NAME)
#define SERVER FIELD(server, BOOL, .presence = IF_SET)
#define TREES FIELD(trees, UINT32, .max = BY_CLUSTER_TREES, .presence = IF_SET)
#define ROOT FIELD(root, NAME, .max = BY_CLUSTER_ROOT)
#define KEY(...) FIELD(key, NAME, .max = BY_CLUSTER_KEY, __VA_ARGS__)
static const struct {
  const char *name;
  struct field fields[16];
} kinds[BY_MESSAGE_KINDS] = {
    [BY_MESSAGE_HELLO] = {"hello",
                          {VERSION, FIELD(host, NAME), FIELD(job, JOB_ID, .presence = OF_RANK),
                           RANK(.presence = OF_RANK),
                           FIELD(interfaces, LIST, .list = &hello_interfaces, .presence = OF_AGENT),
                           FIELD(may_help, BOOL, .presence = OF_AGENT), FIELD(may_serve, BOOL, .presence = OF_AGENT),
                           FIELD(age, REAL, .presence = IF_SET),
                           FIELD(aggregates, OBJECT, .list = &aggregates, .presence = IF_SET)}},
    [BY_MESSAGE_JOB] = {"job",
                        {JOB, FIELD(name, NAME), NAMED("size", n_hosts, UINT32, .max = BY_CLUSTER_RANKS),
                         FIELD(hosts, LIST, .list = &hosts), ROOT, KEY(.presence = IF_SET),
                         FIELD(began, REAL, .presence = IF_SET), FIELD(own_plan, NAME, .presence = IF_SET),
                         FIELD(plan, JSON, .presence = IF_SET), FIELD(replace_plan, BOOL, .presence = IF_SET),
                         FIELD(ways, NAME, .presence = IF_SET), FIELD(tree_penalty, REAL, .presence = IF_SET),
                         FIELD(steps, UINT32, .max = BY_CLUSTER_STEPS, .presence = IF_SET), TREES}},
    [BY_MESSAGE_REPORT] = {"report",
                           {FIELD(interfaces, LIST, .list = &report_interfaces, .presence = PRINTED),
                            FIELD(jobs, LIST, .list = &report_jobs),
                            FIELD(used_cells, UINT32, .max = BY_CLUSTER_MAX_CELLS, .presence = IF_SET)}},
    [BY_MESSAGE_LEFT] = {"left", {JOB, RANK()}},
    [BY_MESSAGE_SWITCHED] = {"switched", {JOB, NUMBER, FIELD(at, UINT64)}},
    [BY_MESSAGE_KEPT] = {"kept", {JOB, NUMBER, FIELD(why, REASON)}},
    [BY_MESSAGE_RELEASED] = {"released", {JOB, NUMBER}},
    [BY_MESSAGE_RESERVE] = {"reserve", {JOB, FIELD(cells, LIST, .list = &requested_cells)}},
    [BY_MESSAGE_HELPING] = {"helping",
                            {JOB, HELPER, SERVER, FIELD(joined, BOOL), FIELD(why, REASON, .presence = IF_SET)}},
    [BY_MESSAGE_WANTED] = {"wanted", {NUMBER, FIELD(count, UINT32, .max = BY_CLUSTER_OFFER)}},
    [BY_MESSAGE_MEET] = {"meet",
                         {JOB, NUMBER, FIELD(count, UINT32, .max = BY_CLUSTER_FOUNDERS),
                          FIELD(handle, NAME, .max = BY_CLUSTER_HANDLE), FIELD(member, BOOL, .presence = IF_SET)}},
    [BY_MESSAGE_PARTED] = {"parted", {JOB, NUMBER}},
    [BY_MESSAGE_CERTIFY] = {"certify", {JOB, FIELD(process, NAME, .max = BY_CLUSTER_PROCESS)}},
    [BY_MESSAGE_STATUS] = {"status", {END}},
    [BY_MESSAGE_WELCOME] = {"welcome",
                            {VERSION, FIELD(host, NAME, .presence = IF_SET), FIELD(interval, REAL), FIELD(rate, RATE)}},
    [BY_MESSAGE_CLASSES] = {"classes", {FIELD(jobs, LIST, .list = &classes_jobs)}},
    [BY_MESSAGE_PLAN] = {"plan",
                         {JOB, NUMBER, FIELD(switches, LIST, .list = &planned_switches, .presence = IF_SET),
                          FIELD(cells, LIST, .list = &planned_cells, .presence = IF_SET),
                          FIELD(replace_plan, BOOL, .presence = IF_SET), FIELD(topology, JSON, .presence = IF_SET),
                          FIELD(plan, JSON)}},
    [BY_MESSAGE_CELLS] = {"cells", {JOB, FIELD(cells, LIST, .list = &answered_cells)}},
    [BY_MESSAGE_HELP] = {"help", {JOB, ROOT, KEY(), HELPER, SERVER, TREES}},
    [BY_MESSAGE_REST] = {"release", {JOB, SERVER}},
    [BY_MESSAGE_OFFERED] = {"offered", {NUMBER, FIELD(hosts, LIST, .list = &offered_hosts)}},
    [BY_MESSAGE_MEMBERS] = {"members",
                            {JOB, NUMBER, FIELD(attempt, UINT32, .max = UINT32_MAX, .presence = IF_SET),
                             FIELD(handles, LIST, .list = &handles)}},
    [BY_MESSAGE_CERTIFIED] = {"certified", {FIELD(statement, NAME, .max = BY_CLUSTER_STATEMENT)}},
    [BY_MESSAGE_AGAIN] = {"again", {END}},
    [BY_MESSAGE_REFUSED] = {"refused", {FIELD(why, REASON)}},
};
#undef OF

static const struct by_doc_path root = {.field = "cluster message"};

const char *by_cluster_type_name(enum by_cluster_type type) {
  return kinds[type].name;
}

bool by_cluster_type_is_up(enum by_cluster_type type) {
  return type <= BY_MESSAGE_STATUS;
}

/* ---- reading */

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a message of the cluster");
}

static enum banyan_status copy_text(struct by_arena *arena, const char *text, const char **out) {
  *out = by_arena_string(arena, text);
  return *out ? BANYAN_OK : no_memory();
}

static enum banyan_status read_text(const struct by_doc_path *place, const json_t *value, const struct field *field,
                                    struct by_arena *arena, const char **out) {
  char reason[BY_CLUSTER_REASON + 1];
  size_t min = field->type == NAME, max = field->max ? field->max : BY_CLUSTER_NAME;
  const char *text;
  BY_TRY(by_doc_string(place, value, &text));
  if (field->type == REASON) {
    by_keep_printable(text, reason, sizeof reason);
    return copy_text(arena, reason, out);
  }
  if (field->type == JOB_ID) {
    if (strlen(text) != BY_CLUSTER_JOB_ID || strspn(text, "0123456789abcdef") != BY_CLUSTER_JOB_ID)
      return by_doc_fail(place, "must be %d hexadecimal digits", BY_CLUSTER_JOB_ID);
    return copy_text(arena, text, out);
  }
  if (strlen(text) < min || !by_is_printable(text, max))
    return by_doc_fail(place, "must be a text of %zu to %zu bytes without control characters", min, max);
  return copy_text(arena, text, out);
}

static enum banyan_status read_uint32(const struct by_doc_path *place, const json_t *value, uint64_t max,
                                      uint32_t *out) {
  uint64_t number;
  BY_TRY(by_doc_int(place, value, 0, max, &number));
  *out = (uint32_t)number;
  return BANYAN_OK;
}

static enum banyan_status read_real(const struct by_doc_path *place, const json_t *value, enum type type, double *out) {
  BY_TRY(by_doc_real(place, value, out));
  if (type == PART && *out > 1) *out = 1;
  if (type == TRAFFIC && *out > BY_MAX_RATE) *out = BY_MAX_RATE;
  if (type != RATE || !*out || by_check_rate(*out) == BANYAN_OK) return BANYAN_OK;
  return by_doc_fail(place, "%s", banyan_error_text());
}

static enum banyan_status must_be_object(const struct by_doc_path *place, const json_t *value) {
  return json_is_object(value) ? BANYAN_OK : by_doc_fail(place, "must be an object");
}

static enum banyan_status read_json(const struct by_doc_path *place, const json_t *value, struct by_arena *arena,
                                    const char **out) {
  BY_TRY(must_be_object(place, value));
  char *text = json_dumps(value, JSON_COMPACT);
  if (!text) return no_memory();
  enum banyan_status status = copy_text(arena, text, out);
  free(text);
  return status;
}

static enum banyan_status read_size(const struct by_doc_path *place, const json_t *pair, struct by_cluster_size *out) {
  BY_TRY(by_doc_array(place, pair, 2, 2));
  BY_TRY(read_uint32(place, json_array_get(pair, 0), 63, &out->log2));
  return by_doc_int(place, json_array_get(pair, 1), 0, INT64_MAX, &out->calls);
}

static enum banyan_status read_list(const struct by_doc_path *place, const json_t *value, const struct list *list,
                                    struct by_arena *arena, void *around, void *at);
static enum banyan_status read_inner(const struct by_doc_path *place, const json_t *value, const struct list *of,
                                     struct by_arena *arena, void *at);

/* Reads a value to `at`, which is in the struct `around`. */
static enum banyan_status read_value(const struct by_doc_path *place, const json_t *value, const struct field *field,
                                     struct by_arena *arena, void *around, void *at) {
  switch (field->type) {
  case JOB_ID:
  case NAME:
  case MAYBE_NAME:
  case REASON: return read_text(place, value, field, arena, at);
  case UINT32: return read_uint32(place, value, field->max, at);
  case UINT64: return by_doc_int(place, value, 0, INT64_MAX, at);
  case REAL:
  case PART:
  case TRAFFIC:
  case RATE: return read_real(place, value, field->type, at);
  case BOOL: return by_doc_bool(place, value, at);
  case JSON: return read_json(place, value, arena, at);
  case GIVEN:
    ((struct by_cluster_cells *)around)->has = true;
    return read_uint32(place, value, field->max, &((struct by_cluster_cells *)around)->given);
  case SIZE: return read_size(place, value, at);
  case OBJECT: return read_inner(place, value, field->list, arena, at);
  case LIST: break;
  }
  return read_list(place, value, field->list, arena, around, at);
}

static enum banyan_status read_object(const struct by_doc_path *place, const json_t *object, const struct field *fields,
                                      struct by_arena *arena, char *out) {
  BY_TRY(must_be_object(place, object));
  for (const struct field *field = fields; field->name; field++) {
    struct by_doc_path here = {.above = place, .field = field->name};
    json_t *value = json_object_get(object, field->name);
    if (field->presence == OF_RANK && !json_object_get(object, "job")) continue;
    if (!value && (field->presence == ALWAYS || field->presence == OF_RANK))
      BY_TRY(by_doc_need(place, object, field->name, &value));
    if (value) BY_TRY(read_value(&here, value, field, arena, out, out + field->at));
  }
  return BANYAN_OK;
}

static enum banyan_status read_inner(const struct by_doc_path *place, const json_t *value, const struct list *of,
                                     struct by_arena *arena, void *at) {
  char *inner = by_arena_alloc(arena, 1, of->size);
  if (!inner) return no_memory();
  memcpy(at, &inner, sizeof inner);
  return read_object(place, value, of->fields, arena, inner);
}

static enum banyan_status read_list(const struct by_doc_path *place, const json_t *value, const struct list *list,
                                    struct by_arena *arena, void *around, void *at) {
  BY_TRY(by_doc_array(place, value, 0, list->max));
  uint32_t n = (uint32_t)json_array_size(value);
  char *all = by_arena_alloc(arena, n, list->size);
  if (!all) return no_memory();
  memcpy(at, &all, sizeof all);
  memcpy((char *)around + list->n_at, &n, sizeof n);
  for (uint32_t i = 0; i < n; i++) {
    struct by_doc_path here = {.above = place, .index = i};
    const json_t *element = json_array_get(value, i);
    BY_TRY(list->fields->name ? read_object(&here, element, list->fields, arena, all + i * list->size)
                              : read_value(&here, element, list->fields, arena, NULL, all + i * list->size));
  }
  return BANYAN_OK;
}

static enum banyan_status read_kind(const json_t *object, enum by_cluster_type *out) {
  struct by_doc_path place = {.above = &root, .field = "type"};
  const char *name;
  json_t *value;
  BY_TRY(must_be_object(&root, object));
  if (!json_object_get(object, "type") && json_object_get(object, "say"))
    return by_doc_fail(&root,
                       "is of version 1 of the protocol, this Banyan uses version %d; install the same Banyan on "
                       "both sides",
                       BY_CLUSTER_VERSION);
  BY_TRY(by_doc_need(&root, object, "type", &value));
  BY_TRY(by_doc_string(&place, value, &name));
  for (*out = 0; *out < BY_MESSAGE_KINDS; (*out)++)
    if (!strcmp(name, kinds[*out].name)) return BANYAN_OK;
  return by_doc_fail(&place, "\"%.64s\" is no kind of message", name);
}

/* Checks what depends on more than one field, or on the kind. */
static enum banyan_status check_message(const json_t *object, const struct by_cluster_message *message) {
  struct by_doc_path place = {.above = &root, .field = message->type == BY_MESSAGE_JOB ? "hosts" : "interval"};
  unsigned size = (unsigned)json_integer_value(json_object_get(object, "size"));
  if (message->type == BY_MESSAGE_JOB && (size == 0 || size != message->n_hosts))
    return by_doc_fail(&place, "names the hosts of %u ranks, the job has %u", message->n_hosts, size);
  if (message->type == BY_MESSAGE_WELCOME && (message->interval <= 0 || message->interval > BY_MAX_SECONDS))
    return by_doc_fail(&place, "is %g s, must be more than 0 and at most %g", message->interval, BY_MAX_SECONDS);
  return BANYAN_OK;
}

static enum banyan_status read_message(const json_t *object, size_t length, struct by_cluster_message *out) {
  BY_TRY(read_kind(object, &out->type));
  if (by_cluster_type_is_up(out->type) && length > BY_CLUSTER_LINE_UP)
    return by_doc_fail(&root, "too large: \"%s\" may have %d bytes", kinds[out->type].name, BY_CLUSTER_LINE_UP);
  BY_TRY(read_object(&root, object, kinds[out->type].fields, &out->arena, (char *)out));
  return check_message(object, out);
}

enum banyan_status by_cluster_message_read(const char *line, size_t length, struct by_cluster_message *out) {
  static const struct by_doc_limits limits = {
      .bytes = BY_CLUSTER_LINE_DOWN, .containers = 1 << 16, .elements = 1 << 18};
  json_t *object;
  *out = (struct by_cluster_message){0};
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  by_arena_init(&out->arena);
  enum banyan_status status = read_message(object, length, out);
  json_decref(object);
  if (status != BANYAN_OK) by_cluster_message_fini(out);
  return status;
}

void by_cluster_message_fini(struct by_cluster_message *message) {
  by_arena_fini(&message->arena);
  *message = (struct by_cluster_message){0};
}

/* ---- printing */

/* Replaces line breaks by blanks: they occur only between values, since strings contain none. */
static void print_json(const char *json, struct by_text *text) {
  for (const char *at = json; *at;) {
    size_t n = strcspn(at, "\r\n");
    by_text_add(text, "%.*s%s", (int)n, at, at[n] ? " " : "");
    at += n + (at[n] != 0);
  }
}

static void print_list(const struct field *field, const char *around, struct by_text *text);
static void print_object(const struct field *field, const char *around, struct by_text *text);

static void print_value(const struct field *field, const char *around, struct by_text *text) {
  const void *at = around + field->at;
  switch (field->type) {
  case JOB_ID:
  case NAME:
  case MAYBE_NAME:
  case REASON: by_json_add_string(text, *(const char *const *)at); return;
  case UINT32: by_text_add(text, "%u", *(const uint32_t *)at); return;
  case UINT64: by_text_add(text, "%llu", (unsigned long long)*(const uint64_t *)at); return;
  case REAL:
  case PART:
  case TRAFFIC:
  case RATE: by_json_add_real(text, *(const double *)at); return;
  case BOOL: by_text_add(text, "%s", *(const bool *)at ? "true" : "false"); return;
  case JSON: print_json(*(const char *const *)at, text); return;
  case GIVEN: by_text_add(text, "%u", ((const struct by_cluster_cells *)at)->given); return;
  case SIZE: {
    const struct by_cluster_size *size = at;
    by_text_add(text, "[%u,%llu]", size->log2, (unsigned long long)size->calls);
    return;
  }
  case LIST: print_list(field, around, text); return;
  case OBJECT: print_object(field, around, text); return;
  }
}

static uint32_t count_elements(const struct list *list, const char *around) {
  return *(const uint32_t *)(const void *)(around + list->n_at);
}

/* 0, false and NULL are zero bytes. */
static bool is_set(const struct field *field, const char *around) {
  static const char zeros[sizeof(uint64_t)];
  size_t size = field->type == UINT32 ? sizeof(uint32_t) : field->type == BOOL ? sizeof(bool) : sizeof zeros;
  if (field->type == GIVEN) return ((const struct by_cluster_cells *)(const void *)around)->has;
  if (field->type == LIST) return count_elements(field->list, around) > 0;
  return memcmp(around + field->at, zeros, size) != 0;
}

static bool is_printed(const struct field *field, const char *around) {
  bool of_rank = field->presence >= OF_RANK && ((const struct by_cluster_message *)(const void *)around)->job;
  switch (field->presence) {
  case IF_SET: return is_set(field, around);
  case OF_RANK: return of_rank;
  case OF_AGENT: return !of_rank || is_set(field, around);
  default: return true;
  }
}

/* Prints the fields, the first after `before` and the others after a comma. */
static void print_fields(const struct field *fields, const char *before, const char *around, struct by_text *text) {
  for (const struct field *field = fields; field->name; field++) {
    if (!is_printed(field, around)) continue;
    by_text_add(text, "%s\"%s\":", before, field->name);
    print_value(field, around, text);
    before = ",";
  }
}

static void print_object(const struct field *field, const char *around, struct by_text *text) {
  const char *inner;
  memcpy(&inner, around + field->at, sizeof inner);
  print_fields(field->list->fields, "{", inner, text);
  by_text_add(text, "}");
}

static void print_list(const struct field *field, const char *around, struct by_text *text) {
  const struct list *list = field->list;
  const char *all;
  memcpy(&all, around + field->at, sizeof all);
  by_text_add(text, "[");
  for (uint32_t i = 0; i < count_elements(list, around); i++, all += list->size) {
    if (i) by_text_add(text, ",");
    if (list->fields->name) {
      print_fields(list->fields, "{", all, text);
      by_text_add(text, "}");
    } else {
      print_value(list->fields, all, text);
    }
  }
  by_text_add(text, "]");
}

void by_cluster_message_print(const struct by_cluster_message *message, struct by_text *text) {
  by_text_add(text, "{\"type\":\"%s\"", kinds[message->type].name);
  /* In version 1 the key of the type was "say". Printing both lets such peers show why they are refused. */
  if (message->type == BY_MESSAGE_REFUSED) by_text_add(text, ",\"say\":\"refused\"");
  print_fields(kinds[message->type].fields, ",", (const char *)message, text);
  by_text_add(text, "}");
}

struct by_text by_cluster_message_line(const struct by_cluster_message *message) {
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(message, &line);
  return line;
}

void by_cluster_paths_print(const struct by_cluster_job *job, struct by_text *text) {
  by_text_add(text, ",\"paths\":");
  print_value(&paths_field, (const char *)job, text);
}

static const double differs = 1.5; /* A bandwidth that is higher or lower by this factor is reported. */

void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other) {
  to->sent += other->sent;
  if (other->busy > to->busy) to->busy = other->busy;
  if (other->bandwidth > to->bandwidth) to->bandwidth = other->bandwidth;
}

bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b) {
  double x = a->bandwidth, y = b->bandwidth;
  return x > 0 && y > 0 && (x > differs * y || y > differs * x);
}

bool by_path_recent_add(struct by_path_recent *recent, double bandwidth) {
  uint32_t kept = recent->n < BY_PATH_RECENT ? recent->n : BY_PATH_RECENT;
  double min = INFINITY, max = 0;
  for (uint32_t i = 0; i < kept; i++) {
    min = fmin(min, recent->seen[i]);
    max = fmax(max, recent->seen[i]);
  }
  recent->seen[recent->n++ % BY_PATH_RECENT] = bandwidth;
  return kept && (differs * bandwidth < min || bandwidth > differs * max);
}

/* ---- how much may be sent */

const struct by_budget_rules by_budget_of_peer = {8192, 100, 8 << 20, 1 << 20};
const struct by_budget_rules by_budget_of_agent = {4096, 50, 4 << 20, 1 << 19};

struct by_budget by_budget_full(const struct by_budget_rules *rules, double now) {
  return (struct by_budget){rules, rules->lines_at_once, rules->bytes_at_once, now};
}

static void refill_budget(struct by_budget *budget, double now) {
  const struct by_budget_rules *rules = budget->rules;
  double passed = now - budget->filled;
  budget->filled = now;
  budget->lines += passed * rules->lines_a_second;
  budget->bytes += passed * rules->bytes_a_second;
  if (budget->lines > rules->lines_at_once) budget->lines = rules->lines_at_once;
  if (budget->bytes > rules->bytes_at_once) budget->bytes = rules->bytes_at_once;
}

bool by_budget_take(struct by_budget *budget, size_t bytes, double now) {
  refill_budget(budget, now);
  if (budget->lines < 1 || budget->bytes < (double)bytes) return false;
  budget->lines -= 1;
  budget->bytes -= (double)bytes;
  return true;
}

bool by_budget_is_full(struct by_budget *budget, double now) {
  refill_budget(budget, now);
  return budget->lines >= budget->rules->lines_at_once && budget->bytes >= budget->rules->bytes_at_once;
}
