#include "cluster_message.h"

#include <math.h>
#include <string.h>

#include "json_doc.h"
#include "priority.h"
#include "text.h"

/* ---- the table of fields: in the order in which they are printed */

enum type {
  JOB_ID,
  NAME,       /* a text of 1 to `most` bytes without control characters */
  MAYBE_NAME, /* the same of 0 bytes, too */
  REASON,     /* for people: what cannot be shown or is too long is cut, and no reason to refuse them */
  UINT32,     /* 0 to `most` */
  UINT64,     /* 0 to INT64_MAX */
  REAL,       /* >= 0 */
  PART,       /* of a whole: more than 1 counts as 1 */
  TRAFFIC,    /* bit/s that were counted: sums of it must not overflow */
  RATE,       /* bit/s of an interface; 0: not known */
  BOOL,
  PLAN,  /* JSON */
  GIVEN, /* of struct by_cluster_cells: `has` and `given` */
  SIZE,  /* struct by_cluster_size, as an array of two */
  LIST
};

enum presence {
  ALWAYS,   /* must be there */
  IF_SET,   /* may be there, and is printed if it is not 0, false, NULL or empty */
  PRINTED,  /* may be there, and is always printed */
  OF_RANK,  /* of hello: there with "job", which only ranks name */
  OF_AGENT, /* of hello: may be there, and is printed by agents, or if set */
};

struct list {
  size_t n_at, size; /* where the count lies in the struct around it; bytes of an element */
  size_t most;
  const struct field *fields; /* of an element; one without a name: the element is no object */
};

struct field {
  const char *name; /* NULL: the end of a table */
  enum type type;
  enum presence presence;
  size_t at; /* where it lies in its struct */
  uint64_t most;
  const struct list *list;
};

#define END                                                                                                            \
  { .name = NULL }

#define AT(member) offsetof(struct by_cluster_interface, member)
static const struct field hello_interface[] = {
    {"name", NAME, ALWAYS, AT(name), BY_CLUSTER_NAME, NULL},
    {"address", MAYBE_NAME, ALWAYS, AT(address), BY_CLUSTER_NAME, NULL},
    {"rate", RATE, ALWAYS, AT(rate), 0, NULL},
    END,
};
static const struct field report_interface[] = {
    {"name", NAME, ALWAYS, AT(name), BY_CLUSTER_NAME, NULL},
    {"rate", RATE, ALWAYS, AT(rate), 0, NULL},
    {"sent", TRAFFIC, ALWAYS, AT(sent), 0, NULL},
    {"received", TRAFFIC, ALWAYS, AT(received), 0, NULL},
    {"ours_sent", TRAFFIC, ALWAYS, AT(ours_sent), 0, NULL},
    {"ours_received", TRAFFIC, ALWAYS, AT(ours_received), 0, NULL},
    END,
};
#undef AT

#define AT(member) offsetof(struct by_cluster_path, member)
static const struct field path[] = {
    {"to", NAME, ALWAYS, AT(to), BY_CLUSTER_NAME, NULL},
    {"sent", TRAFFIC, ALWAYS, AT(sent), 0, NULL},
    {"busy", PART, ALWAYS, AT(busy), 0, NULL},
    {"bandwidth", TRAFFIC, ALWAYS, AT(bandwidth), 0, NULL}, /* while it was busy */
    {"delay", REAL, ALWAYS, AT(delay), 0, NULL},
    END,
};
#undef AT

#define AT(member) offsetof(struct by_cluster_job, member)
static const struct field rank_element = {NULL, UINT32, ALWAYS, 0, BY_CLUSTER_RANKS - 1, NULL};
static const struct field size_element = {NULL, SIZE, ALWAYS, 0, 0, NULL};
static const struct list ranks = {AT(n_ranks), sizeof(uint32_t), BY_CLUSTER_RANKS, &rank_element};
static const struct list sizes = {AT(n_sizes), sizeof(struct by_cluster_size), BY_CLUSTER_SIZES, &size_element};
static const struct list paths = {AT(n_paths), sizeof(struct by_cluster_path), BY_CLUSTER_PATHS, path};
static const struct field paths_field = {"paths", LIST, IF_SET, AT(paths), 0, &paths};
static const struct field classes_job[] = {
    {"job", JOB_ID, ALWAYS, AT(job), 0, NULL},
    {"class", UINT32, ALWAYS, AT(class_), BY_PRIORITY_CLASSES - 1, NULL},
    END,
};
static const struct field report_job[] = {
    {"job", JOB_ID, ALWAYS, AT(job), 0, NULL},
    {"ranks", LIST, ALWAYS, AT(ranks), 0, &ranks},
    {"iterations", UINT64, ALWAYS, AT(iterations), 0, NULL},
    {"expected", UINT64, IF_SET, AT(expected), 0, NULL},
    {"iteration_time", REAL, ALWAYS, AT(iteration_time), 0, NULL},
    {"sent", UINT64, ALWAYS, AT(sent), 0, NULL},
    {"input", UINT64, ALWAYS, AT(input), 0, NULL},
    {"calls", UINT64, ALWAYS, AT(calls), 0, NULL},
    {"paths", LIST, IF_SET, AT(paths), 0, &paths},
    {"sizes", LIST, ALWAYS, AT(sizes), 0, &sizes},
    END,
};
#undef AT

#define AT(member) offsetof(struct by_cluster_cells, member)
static const struct field reservation_cells[] = {
    {"switch", NAME, ALWAYS, AT(at), BY_CLUSTER_NAME, NULL},
    {"slots", UINT32, ALWAYS, AT(slots), BY_CLUSTER_SLOTS, NULL},
    {"bytes", UINT32, ALWAYS, AT(bytes), BY_CLUSTER_SLOT_BYTES, NULL},
    {"server", NAME, IF_SET, AT(server), BY_CLUSTER_NAME, NULL},
    {"given", GIVEN, IF_SET, 0, BY_CLUSTER_SLOTS, NULL},
    END,
};
static const struct field answer_cells[] = {
    {"switch", NAME, ALWAYS, AT(at), BY_CLUSTER_NAME, NULL},
    {"slots", UINT32, ALWAYS, AT(slots), BY_CLUSTER_SLOTS, NULL},
    END,
};
#undef AT

#define AT(member) offsetof(struct by_cluster_message, member)
#define LIST_OF(member, type, most_, fields_)                                                                          \
  { AT(n_##member), sizeof(type), most_, fields_ }
static const struct field host_element = {NULL, NAME, ALWAYS, 0, BY_CLUSTER_NAME, NULL};
static const struct list hosts = LIST_OF(hosts, const char *, BY_CLUSTER_RANKS, &host_element);
static const struct list hello_interfaces =
    LIST_OF(interfaces, struct by_cluster_interface, BY_CLUSTER_INTERFACES, hello_interface);
static const struct list report_interfaces =
    LIST_OF(interfaces, struct by_cluster_interface, BY_CLUSTER_INTERFACES, report_interface);
static const struct list report_jobs = LIST_OF(jobs, struct by_cluster_job, BY_CLUSTER_JOBS, report_job);
static const struct list classes_jobs = LIST_OF(jobs, struct by_cluster_job, BY_CLUSTER_JOBS, classes_job);
static const struct list requested_cells = LIST_OF(cells, struct by_cluster_cells, BY_CLUSTER_CELLS, reservation_cells);
static const struct list answered_cells = LIST_OF(cells, struct by_cluster_cells, BY_CLUSTER_CELLS, answer_cells);

#define JOB                                                                                                            \
  { "job", JOB_ID, ALWAYS, AT(job), 0, NULL }
#define NUMBER                                                                                                         \
  { "number", UINT64, ALWAYS, AT(number), 0, NULL }
#define RANK(presence)                                                                                                 \
  { "rank", UINT32, presence, AT(rank), BY_CLUSTER_RANKS - 1, NULL }
#define VERSION                                                                                                        \
  { "version", UINT32, ALWAYS, AT(version), UINT32_MAX, NULL }
#define HELPER                                                                                                         \
  { "helper", NAME, ALWAYS, AT(helper), BY_CLUSTER_NAME, NULL }
#define ROOT                                                                                                           \
  { "root", NAME, ALWAYS, AT(root), BY_CLUSTER_ROOT, NULL }
#define KEY(presence)                                                                                                  \
  { "key", NAME, presence, AT(key), BY_CLUSTER_KEY, NULL }
#define WHY(presence)                                                                                                  \
  { "why", REASON, presence, AT(why), 0, NULL }
static const struct {
  const char *name;
  struct field fields[9];
} kinds[BY_MESSAGE_KINDS] = {
    [BY_MESSAGE_HELLO] = {"hello",
                          {VERSION,
                           {"host", NAME, ALWAYS, AT(host), BY_CLUSTER_NAME, NULL},
                           {"job", JOB_ID, OF_RANK, AT(job), 0, NULL},
                           RANK(OF_RANK),
                           {"interfaces", LIST, OF_AGENT, AT(interfaces), 0, &hello_interfaces},
                           {"may_help", BOOL, OF_AGENT, AT(may_help), 0, NULL},
                           {"age", REAL, IF_SET, AT(age), 0, NULL}}},
    [BY_MESSAGE_JOB] = {"job",
                        {JOB,
                         {"name", NAME, ALWAYS, AT(name), BY_CLUSTER_NAME, NULL},
                         {"size", UINT32, ALWAYS, AT(n_hosts), BY_CLUSTER_RANKS, NULL},
                         {"hosts", LIST, ALWAYS, AT(hosts), 0, &hosts},
                         ROOT,
                         KEY(IF_SET),
                         {"began", REAL, IF_SET, AT(began), 0, NULL},
                         {"own_plan", NAME, IF_SET, AT(own_plan), BY_CLUSTER_NAME, NULL}}},
    [BY_MESSAGE_REPORT] = {"report",
                           {{"interfaces", LIST, PRINTED, AT(interfaces), 0, &report_interfaces},
                            {"jobs", LIST, ALWAYS, AT(jobs), 0, &report_jobs}}},
    [BY_MESSAGE_LEFT] = {"left", {JOB, RANK(ALWAYS)}},
    [BY_MESSAGE_SWITCHED] = {"switched", {JOB, NUMBER, {"at", UINT64, ALWAYS, AT(at), 0, NULL}}},
    [BY_MESSAGE_KEPT] = {"kept", {JOB, NUMBER, WHY(ALWAYS)}},
    [BY_MESSAGE_RESERVE] = {"reserve", {JOB, {"cells", LIST, ALWAYS, AT(cells), 0, &requested_cells}}},
    [BY_MESSAGE_HELPING] = {"helping", {JOB, HELPER, {"joined", BOOL, ALWAYS, AT(joined), 0, NULL}, WHY(IF_SET)}},
    [BY_MESSAGE_STATUS] = {"status", {END}},
    [BY_MESSAGE_WELCOME] = {"welcome",
                            {VERSION,
                             {"host", NAME, IF_SET, AT(host), BY_CLUSTER_NAME, NULL},
                             {"interval", REAL, ALWAYS, AT(interval), 0, NULL},
                             {"rate", RATE, ALWAYS, AT(rate), 0, NULL}}},
    [BY_MESSAGE_CLASSES] = {"classes", {{"jobs", LIST, ALWAYS, AT(jobs), 0, &classes_jobs}}},
    [BY_MESSAGE_PLAN] = {"plan", {JOB, NUMBER, {"plan", PLAN, ALWAYS, AT(plan), 0, NULL}}},
    [BY_MESSAGE_CELLS] = {"cells", {JOB, {"cells", LIST, ALWAYS, AT(cells), 0, &answered_cells}}},
    [BY_MESSAGE_HELP] = {"help", {JOB, ROOT, KEY(ALWAYS), HELPER}},
    [BY_MESSAGE_REST] = {"release", {JOB}},
    [BY_MESSAGE_REFUSED] = {"refused", {WHY(ALWAYS)}},
};
#undef AT

static const struct by_place root = {.field = "cluster message"};

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

static enum banyan_status keep(struct by_arena *arena, const char *text, const char **out) {
  *out = by_arena_string(arena, text);
  return *out ? BANYAN_OK : no_memory();
}

static enum banyan_status read_text(const struct by_place *place, const json_t *value, const struct field *field,
                                    struct by_arena *arena, const char **out) {
  char reason[BY_CLUSTER_REASON + 1];
  size_t least = field->type == NAME;
  const char *text;
  BY_TRY(by_doc_string(place, value, &text));
  if (field->type == REASON) {
    by_keep_printable(text, reason, sizeof reason);
    return keep(arena, reason, out);
  }
  if (field->type == JOB_ID) {
    if (strlen(text) != BY_CLUSTER_JOB_ID || strspn(text, "0123456789abcdef") != BY_CLUSTER_JOB_ID)
      return by_doc_fail(place, "must be %d hexadecimal digits", BY_CLUSTER_JOB_ID);
    return keep(arena, text, out);
  }
  if (strlen(text) < least || !by_is_printable(text, field->most))
    return by_doc_fail(place, "must be a text of %zu to %zu bytes without control characters", least,
                       (size_t)field->most);
  return keep(arena, text, out);
}

static enum banyan_status read_uint32(const struct by_place *place, const json_t *value, uint64_t most, uint32_t *out) {
  uint64_t number;
  BY_TRY(by_doc_int(place, value, 0, most, &number));
  *out = (uint32_t)number;
  return BANYAN_OK;
}

static enum banyan_status read_real(const struct by_place *place, const json_t *value, enum type type, double *out) {
  BY_TRY(by_doc_real(place, value, out));
  if (type == PART && *out > 1) *out = 1;
  if (type == TRAFFIC && *out > BY_MOST_RATE) *out = BY_MOST_RATE;
  if (type != RATE || !*out || by_check_rate(*out) == BANYAN_OK) return BANYAN_OK;
  return by_doc_fail(place, "%s", banyan_error_text());
}

static enum banyan_status must_be_object(const struct by_place *place, const json_t *value) {
  return json_is_object(value) ? BANYAN_OK : by_doc_fail(place, "must be an object");
}

static enum banyan_status read_plan(const struct by_place *place, const json_t *value, struct by_arena *arena,
                                    const char **out) {
  BY_TRY(must_be_object(place, value));
  char *text = json_dumps(value, JSON_COMPACT);
  if (!text) return no_memory();
  enum banyan_status status = keep(arena, text, out);
  free(text);
  return status;
}

static enum banyan_status read_given(const struct by_place *place, const json_t *value, uint64_t most,
                                     struct by_cluster_cells *out) {
  out->has = true;
  return read_uint32(place, value, most, &out->given);
}

static enum banyan_status read_size(const struct by_place *place, const json_t *pair, struct by_cluster_size *out) {
  BY_TRY(by_doc_array(place, pair, 2, 2));
  BY_TRY(read_uint32(place, json_array_get(pair, 0), 63, &out->log2));
  return by_doc_int(place, json_array_get(pair, 1), 0, INT64_MAX, &out->calls);
}

static enum banyan_status read_list(const struct by_place *place, const json_t *value, const struct list *list,
                                    struct by_arena *arena, void *around, void *at);

/* `at`: where it goes, in the struct `around`. */
static enum banyan_status read_value(const struct by_place *place, const json_t *value, const struct field *field,
                                     struct by_arena *arena, void *around, void *at) {
  switch (field->type) {
  case JOB_ID:
  case NAME:
  case MAYBE_NAME:
  case REASON: return read_text(place, value, field, arena, at);
  case UINT32: return read_uint32(place, value, field->most, at);
  case UINT64: return by_doc_int(place, value, 0, INT64_MAX, at);
  case REAL:
  case PART:
  case TRAFFIC:
  case RATE: return read_real(place, value, field->type, at);
  case BOOL: return by_doc_bool(place, value, at);
  case PLAN: return read_plan(place, value, arena, at);
  case GIVEN: return read_given(place, value, field->most, at);
  case SIZE: return read_size(place, value, at);
  case LIST: break;
  }
  return read_list(place, value, field->list, arena, around, at);
}

static enum banyan_status read_object(const struct by_place *place, const json_t *object, const struct field *fields,
                                      struct by_arena *arena, char *out) {
  for (const struct field *field = fields; field->name; field++) {
    struct by_place here = {.above = place, .field = field->name};
    json_t *value = json_object_get(object, field->name);
    if (field->presence == OF_RANK && !json_object_get(object, "job")) continue;
    if (!value && (field->presence == ALWAYS || field->presence == OF_RANK))
      BY_TRY(by_doc_need(place, object, field->name, &value));
    if (value) BY_TRY(read_value(&here, value, field, arena, out, out + field->at));
  }
  return BANYAN_OK;
}

static enum banyan_status read_element(const struct by_place *place, const json_t *value, const struct field *fields,
                                       struct by_arena *arena, char *out) {
  if (!fields->name) return read_value(place, value, fields, arena, NULL, out);
  BY_TRY(must_be_object(place, value));
  return read_object(place, value, fields, arena, out);
}

static enum banyan_status read_list(const struct by_place *place, const json_t *value, const struct list *list,
                                    struct by_arena *arena, void *around, void *at) {
  BY_TRY(by_doc_array(place, value, 0, list->most));
  uint32_t n = (uint32_t)json_array_size(value);
  char *all = by_arena_alloc(arena, n, list->size);
  if (!all) return no_memory();
  memcpy(at, &all, sizeof all);
  memcpy((char *)around + list->n_at, &n, sizeof n);
  for (uint32_t i = 0; i < n; i++) {
    struct by_place here = {.above = place, .index = i};
    BY_TRY(read_element(&here, json_array_get(value, i), list->fields, arena, all + i * list->size));
  }
  return BANYAN_OK;
}

static enum banyan_status read_kind(const json_t *object, enum by_cluster_type *out) {
  struct by_place place = {.above = &root, .field = "type"};
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

/* What depends on more than one field, or on the kind. */
static enum banyan_status check(const json_t *object, const struct by_cluster_message *message) {
  struct by_place place = {.above = &root, .field = message->type == BY_MESSAGE_JOB ? "hosts" : "interval"};
  unsigned size = (unsigned)json_integer_value(json_object_get(object, "size"));
  if (message->type == BY_MESSAGE_JOB && (size == 0 || size != message->n_hosts))
    return by_doc_fail(&place, "names the hosts of %u ranks, the job has %u", message->n_hosts, size);
  if (message->type == BY_MESSAGE_WELCOME && (message->interval <= 0 || message->interval > BY_MOST_SECONDS))
    return by_doc_fail(&place, "is %g s, must be more than 0 and at most %g", message->interval, BY_MOST_SECONDS);
  return BANYAN_OK;
}

static enum banyan_status read_message(const json_t *object, size_t length, struct by_cluster_message *out) {
  BY_TRY(read_kind(object, &out->type));
  if (by_cluster_type_is_up(out->type) && length > BY_CLUSTER_LINE_UP)
    return by_doc_fail(&root, "too large: \"%s\" may have %d bytes", kinds[out->type].name, BY_CLUSTER_LINE_UP);
  BY_TRY(read_object(&root, object, kinds[out->type].fields, &out->arena, (char *)out));
  return check(object, out);
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

/* A line break stands between values, where a blank is as good: strings hold none. */
static void print_plan(const char *plan, struct by_text *text) {
  for (const char *at = plan; *at;) {
    size_t n = strcspn(at, "\r\n");
    by_text_add(text, "%.*s%s", (int)n, at, at[n] ? " " : "");
    at += n + (at[n] != 0);
  }
}

static void print_list(const struct field *field, const char *around, struct by_text *text);

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
  case PLAN: print_plan(*(const char *const *)at, text); return;
  case GIVEN: by_text_add(text, "%u", ((const struct by_cluster_cells *)at)->given); return;
  case SIZE: {
    const struct by_cluster_size *size = at;
    by_text_add(text, "[%u,%llu]", size->log2, (unsigned long long)size->calls);
    return;
  }
  case LIST: print_list(field, around, text); return;
  }
}

static uint32_t count(const struct list *list, const char *around) {
  return *(const uint32_t *)(const void *)(around + list->n_at);
}

static bool is_set(const struct field *field, const char *around) {
  const void *at = around + field->at;
  switch (field->type) {
  case UINT32: return *(const uint32_t *)at != 0;
  case UINT64: return *(const uint64_t *)at != 0;
  case REAL:
  case PART:
  case TRAFFIC:
  case RATE: return *(const double *)at > 0;
  case BOOL: return *(const bool *)at;
  case GIVEN: return ((const struct by_cluster_cells *)at)->has;
  case LIST: return count(field->list, around) > 0;
  default: return *(const char *const *)at;
  }
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

/* Each with `before` or a comma before it. */
static void print_fields(const struct field *fields, const char *before, const char *around, struct by_text *text) {
  for (const struct field *field = fields; field->name; field++) {
    if (!is_printed(field, around)) continue;
    by_text_add(text, "%s\"%s\":", before, field->name);
    print_value(field, around, text);
    before = ",";
  }
}

static void print_list(const struct field *field, const char *around, struct by_text *text) {
  const struct list *list = field->list;
  const char *all;
  memcpy(&all, around + field->at, sizeof all);
  by_text_add(text, "[");
  for (uint32_t i = 0; i < count(list, around); i++, all += list->size) {
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
  /* In version 1 the key of the type was "say": its peers, too, understand why they are refused. */
  if (message->type == BY_MESSAGE_REFUSED) by_text_add(text, ",\"say\":\"refused\"");
  print_fields(kinds[message->type].fields, ",", (const char *)message, text);
  by_text_add(text, "}");
}

void by_cluster_paths_print(const struct by_cluster_job *job, struct by_text *text) {
  by_text_add(text, ",\"paths\":");
  print_value(&paths_field, (const char *)job, text);
}

static const double differs = 1.5; /* times as fast, or as slow, is news */

void by_cluster_path_join(struct by_cluster_path *to, const struct by_cluster_path *other) {
  to->sent += other->sent;
  if (other->busy > to->busy) to->busy = other->busy;
  if (other->bandwidth > to->bandwidth) to->bandwidth = other->bandwidth;
  if (other->delay > 0 && (to->delay <= 0 || other->delay < to->delay)) to->delay = other->delay;
}

bool by_cluster_path_differs(const struct by_cluster_path *a, const struct by_cluster_path *b) {
  double x = a->bandwidth, y = b->bandwidth;
  return x > 0 && y > 0 && (x > differs * y || y > differs * x);
}

bool by_path_late_add(struct by_path_late *late, double bandwidth) {
  uint32_t kept = late->n < BY_PATH_LATE ? late->n : BY_PATH_LATE;
  double least = INFINITY, most = 0;
  for (uint32_t i = 0; i < kept; i++) {
    least = fmin(least, late->seen[i]);
    most = fmax(most, late->seen[i]);
  }
  late->seen[late->n++ % BY_PATH_LATE] = bandwidth;
  return kept && (differs * bandwidth < least || bandwidth > differs * most);
}
