#include "cluster_message.h"

#include <string.h>

#include "json_doc.h"
#include "priority.h"
#include "text.h"

static const char *const names[BY_SAY_KINDS] = {"hello", "job",     "report", "left",    "moved",   "kept",
                                                "wish",  "helping", "status", "welcome", "classes", "plan",
                                                "cells", "help",    "rest",   "refused"};

static const struct by_place root = {.field = "cluster message"};

const char *by_cluster_say_name(enum by_cluster_say say) {
  return names[say];
}

bool by_cluster_say_is_up(enum by_cluster_say say) {
  return say <= BY_SAY_STATUS;
}

/* ---- members */

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a message of the cluster");
}

static enum banyan_status take_small(const struct by_place *above, const json_t *object, const char *field,
                                     uint32_t most, uint32_t *out) {
  uint64_t value;
  BY_TRY(by_doc_need_int(above, object, field, most, &value));
  *out = (uint32_t)value;
  return BANYAN_OK;
}

static enum banyan_status take_real(const struct by_place *above, const json_t *object, const char *field,
                                    double *out) {
  struct by_place place = {.above = above, .field = field};
  json_t *value;
  BY_TRY(by_doc_need(above, object, field, &value));
  return by_doc_real(&place, value, out);
}

/* What was counted, in bit/s: sums of it must not overflow. */
static enum banyan_status take_traffic(const struct by_place *above, const json_t *object, const char *field,
                                       double *out) {
  BY_TRY(take_real(above, object, field, out));
  if (*out > BY_MOST_RATE) *out = BY_MOST_RATE;
  return BANYAN_OK;
}

/* Of an interface; 0: not known. */
static enum banyan_status take_rate(const struct by_place *above, const json_t *object, double *out) {
  struct by_place place = {.above = above, .field = "rate"};
  BY_TRY(take_real(above, object, "rate", out));
  return !*out || by_check_rate(*out) == BANYAN_OK ? BANYAN_OK : by_doc_fail(&place, "%s", banyan_error_text());
}

static enum banyan_status take_bool(const struct by_place *above, const json_t *object, const char *field, bool *out) {
  struct by_place place = {.above = above, .field = field};
  json_t *value;
  BY_TRY(by_doc_need(above, object, field, &value));
  return by_doc_bool(&place, value, out);
}

static enum banyan_status keep(struct by_arena *arena, const char *text, const char **out) {
  *out = by_arena_string(arena, text);
  return *out ? BANYAN_OK : no_memory();
}

static enum banyan_status keep_name(const struct by_place *place, struct by_arena *arena, const json_t *value,
                                    size_t least, size_t most, const char **out) {
  const char *text;
  BY_TRY(by_doc_string(place, value, &text));
  if (strlen(text) < least || !by_is_printable(text, most))
    return by_doc_fail(place, "must be a text of %zu to %zu bytes without control characters", least, most);
  return keep(arena, text, out);
}

static enum banyan_status take_name(const struct by_place *above, struct by_arena *arena, const json_t *object,
                                    const char *field, size_t most, const char **out) {
  struct by_place place = {.above = above, .field = field};
  json_t *value;
  BY_TRY(by_doc_need(above, object, field, &value));
  return keep_name(&place, arena, value, 1, most, out);
}

static enum banyan_status take_job_id(const struct by_place *above, struct by_arena *arena, const json_t *object,
                                      const char **out) {
  struct by_place place = {.above = above, .field = "job"};
  const char *text;
  json_t *value;
  BY_TRY(by_doc_need(above, object, "job", &value));
  BY_TRY(by_doc_string(&place, value, &text));
  if (strlen(text) != BY_CLUSTER_JOB_ID || strspn(text, "0123456789abcdef") != BY_CLUSTER_JOB_ID)
    return by_doc_fail(&place, "must be %d hexadecimal digits", BY_CLUSTER_JOB_ID);
  return keep(arena, text, out);
}

/* Reasons are for people: what cannot be shown or is too long is no reason to refuse them. */
static enum banyan_status take_why(struct by_arena *arena, const json_t *object, const char **out) {
  static const struct by_place place = {.above = &root, .field = "why"};
  char kept[BY_CLUSTER_REASON + 1];
  const char *text;
  json_t *value;
  BY_TRY(by_doc_need(&root, object, "why", &value));
  BY_TRY(by_doc_string(&place, value, &text));
  by_keep_printable(text, kept, sizeof kept);
  return keep(arena, kept, out);
}

/* ---- lists */

static enum banyan_status take_list(const struct by_place *place, const json_t *object, size_t most, json_t **out,
                                    uint32_t *n) {
  BY_TRY(by_doc_need(place->above, object, place->field, out));
  BY_TRY(by_doc_array(place, *out, 0, most));
  *n = (uint32_t)json_array_size(*out);
  return BANYAN_OK;
}

static enum banyan_status must_be_object(const struct by_place *place, const json_t *value) {
  return json_is_object(value) ? BANYAN_OK : by_doc_fail(place, "must be an object");
}

static enum banyan_status take_hosts(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "hosts"};
  json_t *list;
  BY_TRY(take_list(&place, object, BY_CLUSTER_RANKS, &list, &out->n_hosts));
  const char **hosts = BY_ARENA_ARRAY(&out->arena, const char *, out->n_hosts);
  if (!hosts) return no_memory();
  out->hosts = hosts;
  for (uint32_t i = 0; i < out->n_hosts; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(keep_name(&here, &out->arena, json_array_get(list, i), 1, BY_CLUSTER_NAME, &hosts[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_use(const struct by_place *place, const json_t *object,
                                   struct by_cluster_interface *out) {
  BY_TRY(take_traffic(place, object, "sent", &out->sent));
  BY_TRY(take_traffic(place, object, "received", &out->received));
  BY_TRY(take_traffic(place, object, "ours_sent", &out->ours_sent));
  return take_traffic(place, object, "ours_received", &out->ours_received);
}

static enum banyan_status take_interface(const struct by_place *place, const json_t *object,
                                         struct by_cluster_message *message, struct by_cluster_interface *out) {
  struct by_place at = {.above = place, .field = "address"};
  json_t *address;
  BY_TRY(must_be_object(place, object));
  BY_TRY(take_name(place, &message->arena, object, "name", BY_CLUSTER_NAME, &out->name));
  BY_TRY(take_rate(place, object, &out->rate));
  if (message->say == BY_SAY_REPORT) return take_use(place, object, out);
  BY_TRY(by_doc_need(place, object, "address", &address));
  return keep_name(&at, &message->arena, address, 0, BY_CLUSTER_NAME, &out->address);
}

static enum banyan_status take_interfaces(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "interfaces"};
  json_t *list;
  BY_TRY(take_list(&place, object, BY_CLUSTER_INTERFACES, &list, &out->n_interfaces));
  struct by_cluster_interface *all = BY_ARENA_ARRAY(&out->arena, struct by_cluster_interface, out->n_interfaces);
  if (!all) return no_memory();
  out->interfaces = all;
  for (uint32_t i = 0; i < out->n_interfaces; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_interface(&here, json_array_get(list, i), out, &all[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_ranks(const struct by_place *above, const json_t *object, struct by_arena *arena,
                                     struct by_cluster_job *out) {
  struct by_place place = {.above = above, .field = "ranks"};
  uint64_t rank;
  json_t *list;
  BY_TRY(take_list(&place, object, BY_CLUSTER_RANKS, &list, &out->n_ranks));
  uint32_t *ranks = BY_ARENA_ARRAY(arena, uint32_t, out->n_ranks);
  if (!ranks) return no_memory();
  out->ranks = ranks;
  for (uint32_t i = 0; i < out->n_ranks; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(by_doc_int(&here, json_array_get(list, i), 0, BY_CLUSTER_RANKS - 1, &rank));
    ranks[i] = (uint32_t)rank;
  }
  return BANYAN_OK;
}

static enum banyan_status take_size(const struct by_place *place, const json_t *pair, struct by_cluster_size *out) {
  uint64_t log2;
  BY_TRY(by_doc_array(place, pair, 2, 2));
  BY_TRY(by_doc_int(place, json_array_get(pair, 0), 0, 63, &log2));
  out->log2 = (uint32_t)log2;
  return by_doc_int(place, json_array_get(pair, 1), 0, INT64_MAX, &out->calls);
}

static enum banyan_status take_sizes(const struct by_place *above, const json_t *object, struct by_arena *arena,
                                     struct by_cluster_job *out) {
  struct by_place place = {.above = above, .field = "sizes"};
  json_t *list;
  BY_TRY(take_list(&place, object, BY_CLUSTER_SIZES, &list, &out->n_sizes));
  struct by_cluster_size *sizes = BY_ARENA_ARRAY(arena, struct by_cluster_size, out->n_sizes);
  if (!sizes) return no_memory();
  out->sizes = sizes;
  for (uint32_t i = 0; i < out->n_sizes; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_size(&here, json_array_get(list, i), &sizes[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_path(const struct by_place *place, const json_t *path, struct by_arena *arena,
                                    struct by_cluster_path *out) {
  BY_TRY(must_be_object(place, path));
  BY_TRY(take_name(place, arena, path, "to", BY_CLUSTER_NAME, &out->to));
  BY_TRY(take_traffic(place, path, "sent", &out->sent));
  BY_TRY(take_real(place, path, "busy", &out->busy));
  if (out->busy > 1) out->busy = 1;
  BY_TRY(take_traffic(place, path, "bandwidth", &out->bandwidth));
  return take_real(place, path, "delay", &out->delay);
}

/* Who says none knows none. */
static enum banyan_status take_paths(const struct by_place *above, const json_t *object, struct by_arena *arena,
                                     struct by_cluster_job *out) {
  struct by_place place = {.above = above, .field = "paths"};
  json_t *list;
  if (!json_object_get(object, "paths")) return BANYAN_OK;
  BY_TRY(take_list(&place, object, BY_CLUSTER_PATHS, &list, &out->n_paths));
  struct by_cluster_path *paths = BY_ARENA_ARRAY(arena, struct by_cluster_path, out->n_paths);
  if (!paths) return no_memory();
  out->paths = paths;
  for (uint32_t i = 0; i < out->n_paths; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_path(&here, json_array_get(list, i), arena, &paths[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_deeds(const struct by_place *place, const json_t *object, struct by_arena *arena,
                                     struct by_cluster_job *out) {
  BY_TRY(take_ranks(place, object, arena, out));
  BY_TRY(by_doc_need_int(place, object, "iterations", INT64_MAX, &out->iterations));
  if (json_object_get(object, "expected"))
    BY_TRY(by_doc_need_int(place, object, "expected", INT64_MAX, &out->expected));
  BY_TRY(take_real(place, object, "iteration_time", &out->iteration_time));
  BY_TRY(by_doc_need_int(place, object, "sent", INT64_MAX, &out->sent));
  BY_TRY(by_doc_need_int(place, object, "input", INT64_MAX, &out->input));
  BY_TRY(by_doc_need_int(place, object, "calls", INT64_MAX, &out->calls));
  BY_TRY(take_paths(place, object, arena, out));
  return take_sizes(place, object, arena, out);
}

static enum banyan_status take_jobs(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "jobs"};
  json_t *list, *one;
  BY_TRY(take_list(&place, object, BY_CLUSTER_JOBS, &list, &out->n_jobs));
  struct by_cluster_job *all = BY_ARENA_ARRAY(&out->arena, struct by_cluster_job, out->n_jobs);
  if (!all) return no_memory();
  out->jobs = all;
  for (uint32_t i = 0; i < out->n_jobs; i++) {
    struct by_place here = {.above = &place, .index = i};
    one = json_array_get(list, i);
    BY_TRY(must_be_object(&here, one));
    BY_TRY(take_job_id(&here, &out->arena, one, &all[i].job));
    if (out->say == BY_SAY_CLASSES)
      BY_TRY(take_small(&here, one, "class", BY_PRIORITY_CLASSES - 1, &all[i].class_));
    else
      BY_TRY(take_deeds(&here, one, &out->arena, &all[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_wished(const struct by_place *place, const json_t *object, struct by_arena *arena,
                                      struct by_cluster_cells *out) {
  BY_TRY(take_small(place, object, "bytes", BY_CLUSTER_SLOT_BYTES, &out->bytes));
  if (json_object_get(object, "server"))
    BY_TRY(take_name(place, arena, object, "server", BY_CLUSTER_NAME, &out->server));
  out->has = json_object_get(object, "given") != NULL;
  return out->has ? take_small(place, object, "given", BY_CLUSTER_SLOTS, &out->given) : BANYAN_OK;
}

static enum banyan_status take_cells(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "cells"};
  json_t *list, *one;
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  BY_TRY(take_list(&place, object, BY_CLUSTER_CELLS, &list, &out->n_cells));
  struct by_cluster_cells *all = BY_ARENA_ARRAY(&out->arena, struct by_cluster_cells, out->n_cells);
  if (!all) return no_memory();
  out->cells = all;
  for (uint32_t i = 0; i < out->n_cells; i++) {
    struct by_place here = {.above = &place, .index = i};
    one = json_array_get(list, i);
    BY_TRY(must_be_object(&here, one));
    BY_TRY(take_name(&here, &out->arena, one, "switch", BY_CLUSTER_NAME, &all[i].at));
    BY_TRY(take_small(&here, one, "slots", BY_CLUSTER_SLOTS, &all[i].slots));
    if (out->say == BY_SAY_WISH) BY_TRY(take_wished(&here, one, &out->arena, &all[i]));
  }
  return BANYAN_OK;
}

/* ---- kinds */

static enum banyan_status take_hello(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_small(&root, object, "version", UINT32_MAX, &out->version));
  BY_TRY(take_name(&root, &out->arena, object, "host", BY_CLUSTER_NAME, &out->host));
  if (json_object_get(object, "interfaces")) BY_TRY(take_interfaces(object, out));
  if (json_object_get(object, "may_help")) BY_TRY(take_bool(&root, object, "may_help", &out->may_help));
  if (json_object_get(object, "age")) BY_TRY(take_real(&root, object, "age", &out->age));
  if (!json_object_get(object, "job")) return BANYAN_OK;
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  return take_small(&root, object, "rank", BY_CLUSTER_RANKS - 1, &out->rank);
}

static enum banyan_status take_job(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "hosts"};
  uint32_t size;
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  BY_TRY(take_name(&root, &out->arena, object, "name", BY_CLUSTER_NAME, &out->name));
  BY_TRY(take_small(&root, object, "size", BY_CLUSTER_RANKS, &size));
  BY_TRY(take_hosts(object, out));
  if (size == 0 || size != out->n_hosts)
    return by_doc_fail(&place, "names the hosts of %u ranks, the job has %u", out->n_hosts, size);
  BY_TRY(take_name(&root, &out->arena, object, "root", BY_CLUSTER_ROOT, &out->root));
  if (json_object_get(object, "began")) BY_TRY(take_real(&root, object, "began", &out->began));
  if (json_object_get(object, "own_plan"))
    BY_TRY(take_name(&root, &out->arena, object, "own_plan", BY_CLUSTER_NAME, &out->own_plan));
  if (!json_object_get(object, "key")) return BANYAN_OK;
  return take_name(&root, &out->arena, object, "key", BY_CLUSTER_KEY, &out->key);
}

static enum banyan_status take_report(const json_t *object, struct by_cluster_message *out) {
  if (json_object_get(object, "interfaces")) BY_TRY(take_interfaces(object, out));
  return take_jobs(object, out);
}

static enum banyan_status take_left(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  return take_small(&root, object, "rank", BY_CLUSTER_RANKS - 1, &out->rank);
}

static enum banyan_status take_number(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  return by_doc_need_int(&root, object, "number", INT64_MAX, &out->number);
}

static enum banyan_status take_moved(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_number(object, out));
  return by_doc_need_int(&root, object, "at", INT64_MAX, &out->at);
}

static enum banyan_status take_refused(const json_t *object, struct by_cluster_message *out) {
  return take_why(&out->arena, object, &out->why);
}

static enum banyan_status take_kept(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_number(object, out));
  return take_refused(object, out);
}

static enum banyan_status take_helping(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  BY_TRY(take_name(&root, &out->arena, object, "helper", BY_CLUSTER_NAME, &out->helper));
  BY_TRY(take_bool(&root, object, "joined", &out->joined));
  return json_object_get(object, "why") ? take_refused(object, out) : BANYAN_OK;
}

static enum banyan_status take_welcome(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "interval"};
  BY_TRY(take_small(&root, object, "version", UINT32_MAX, &out->version));
  BY_TRY(take_real(&root, object, "interval", &out->interval));
  if (out->interval <= 0 || out->interval > BY_MOST_SECONDS)
    return by_doc_fail(&place, "is %g s, must be more than 0 and at most %g", out->interval, BY_MOST_SECONDS);
  if (json_object_get(object, "host"))
    BY_TRY(take_name(&root, &out->arena, object, "host", BY_CLUSTER_NAME, &out->host));
  return take_rate(&root, object, &out->rate);
}

static enum banyan_status take_plan(const json_t *object, struct by_cluster_message *out) {
  struct by_place place = {.above = &root, .field = "plan"};
  json_t *plan;
  BY_TRY(take_number(object, out));
  BY_TRY(by_doc_need(&root, object, "plan", &plan));
  BY_TRY(must_be_object(&place, plan));
  char *text = json_dumps(plan, JSON_COMPACT);
  if (!text) return no_memory();
  enum banyan_status status = keep(&out->arena, text, &out->plan);
  free(text);
  return status;
}

static enum banyan_status take_help(const json_t *object, struct by_cluster_message *out) {
  BY_TRY(take_job_id(&root, &out->arena, object, &out->job));
  BY_TRY(take_name(&root, &out->arena, object, "root", BY_CLUSTER_ROOT, &out->root));
  BY_TRY(take_name(&root, &out->arena, object, "key", BY_CLUSTER_KEY, &out->key));
  return take_name(&root, &out->arena, object, "helper", BY_CLUSTER_NAME, &out->helper);
}

static enum banyan_status take_rest(const json_t *object, struct by_cluster_message *out) {
  return take_job_id(&root, &out->arena, object, &out->job);
}

static enum banyan_status take_status(const json_t *object, struct by_cluster_message *out) {
  (void)object;
  (void)out;
  return BANYAN_OK;
}

static enum banyan_status take_say(const json_t *object, enum by_cluster_say *out) {
  struct by_place place = {.above = &root, .field = "say"};
  const char *name;
  json_t *value;
  BY_TRY(must_be_object(&root, object));
  BY_TRY(by_doc_need(&root, object, "say", &value));
  BY_TRY(by_doc_string(&place, value, &name));
  for (*out = 0; *out < BY_SAY_KINDS; (*out)++)
    if (!strcmp(name, names[*out])) return BANYAN_OK;
  return by_doc_fail(&place, "\"%.64s\" is no kind of message", name);
}

static enum banyan_status take(const json_t *object, size_t length, struct by_cluster_message *out) {
  static enum banyan_status (*const kinds[BY_SAY_KINDS])(const json_t *, struct by_cluster_message *) = {
      take_hello,  take_job,     take_report, take_left, take_moved, take_kept, take_cells, take_helping,
      take_status, take_welcome, take_jobs,   take_plan, take_cells, take_help, take_rest,  take_refused};
  BY_TRY(take_say(object, &out->say));
  if (by_cluster_say_is_up(out->say) && length > BY_CLUSTER_LINE_UP)
    return by_doc_fail(&root, "too large: \"%s\" may have %d bytes", names[out->say], BY_CLUSTER_LINE_UP);
  return kinds[out->say](object, out);
}

enum banyan_status by_cluster_message_read(const char *line, size_t length, struct by_cluster_message *out) {
  static const struct by_doc_limits limits = {
      .bytes = BY_CLUSTER_LINE_DOWN, .containers = 1 << 16, .elements = 1 << 18};
  json_t *object;
  *out = (struct by_cluster_message){0};
  BY_TRY(by_doc_load(root.field, line, length, &limits, &object));
  by_arena_init(&out->arena);
  enum banyan_status status = take(object, length, out);
  json_decref(object);
  if (status != BANYAN_OK) by_cluster_message_fini(out);
  return status;
}

void by_cluster_message_fini(struct by_cluster_message *message) {
  by_arena_fini(&message->arena);
  *message = (struct by_cluster_message){0};
}
