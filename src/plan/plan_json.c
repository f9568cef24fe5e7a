/* Reads plans from JSON; docs/plan-format.md describes the format. What is wrong with the text is found here and told
 * with its place in the document; what is wrong with the plan is left to by_plan_validate. */
#include "plan_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "plan_make.h"

/* Less than 1 GiB, and of a real plan far less. */
static const struct by_doc_limits limits = {.bytes = 16 << 20, .containers = 200000, .elements = 4 << 20};

static const char document_fields[] =
    "format, name, ranks, vertices, chunk, trees, classes, throughput, bound, ratio, seconds";

/* --- vertices --- */

static enum banyan_status take_kind(const struct by_place *place, const json_t *value, enum by_vertex_kind *out) {
  const char *name;
  BY_TRY(by_doc_string(place, value, &name));
  for (enum by_vertex_kind kind = BY_VERTEX_RANK; by_vertex_kind_name(kind); kind++) {
    if (strcmp(name, by_vertex_kind_name(kind)) != 0) continue;
    *out = kind;
    return BANYAN_OK;
  }
  return by_doc_fail(place, "is \"%.64s\", must be rank, helper, switch or server", name);
}

/* One member of "vertices": its kind and rank. */
static enum banyan_status take_member(const struct by_place *place, const json_t *value, struct by_vertex *out) {
  struct by_place here = {.above = place, .field = "kind"};
  json_t *field;
  uint64_t rank = UINT32_MAX;
  BY_TRY(by_doc_fields(place, value, "kind, rank"));
  BY_TRY(by_doc_need(place, value, "kind", &field));
  BY_TRY(take_kind(&here, field, &out->kind));
  here.field = "rank";
  if (out->kind == BY_VERTEX_RANK) {
    BY_TRY(by_doc_need(place, value, "rank", &field));
    BY_TRY(by_doc_int(&here, field, 0, BY_PLAN_MOST_VERTICES - 1, &rank));
  } else if (json_object_get(value, "rank")) {
    return by_doc_fail(&here, "only a vertex of kind rank has one");
  }
  out->rank = (uint32_t)rank;
  return BANYAN_OK;
}

static enum banyan_status count_members(const struct by_place *place, json_t *members, uint32_t *ranks,
                                        uint32_t *others) {
  const char *key;
  json_t *value;
  json_object_foreach(members, key, value) {
    struct by_vertex vertex;
    BY_TRY(take_member(&(struct by_place){.above = place, .key = key}, value, &vertex));
    ++*(vertex.kind == BY_VERTEX_RANK ? ranks : others);
  }
  return BANYAN_OK;
}

/* Gives the ranks in "vertices" their names, and puts the others behind the ranks. */
static enum banyan_status name_members(struct by_plan *plan, const struct by_place *place, json_t *members,
                                       bool *named) {
  uint32_t next = plan->n_ranks;
  const char *key;
  json_t *value;
  json_object_foreach(members, key, value) {
    struct by_place here = {.above = place, .key = key};
    struct by_vertex vertex = {.name = by_arena_string(&plan->arena, key)};
    if (!vertex.name) return by_plan_no_memory();
    BY_TRY(take_member(&here, value, &vertex));
    uint32_t at = vertex.kind == BY_VERTEX_RANK ? vertex.rank : next++;
    if (vertex.kind == BY_VERTEX_RANK && at >= plan->n_ranks)
      return by_doc_fail(&here, "is rank %u, but there are %u ranks", at, plan->n_ranks);
    if (vertex.kind == BY_VERTEX_RANK && named[at])
      return by_doc_fail(&here, "is rank %u, and so is \"%.64s\"", at, plan->vertices[at].name);
    if (vertex.kind == BY_VERTEX_RANK) named[at] = true;
    plan->vertices[at] = vertex;
  }
  return BANYAN_OK;
}

static int compare_vertices(const void *a, const void *b) {
  return strcmp(((const struct by_vertex *)a)->name, ((const struct by_vertex *)b)->name);
}

static enum banyan_status index_vertices(struct by_plan_reader *reader, const struct by_place *place) {
  const struct by_plan *plan = reader->plan;
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    const char *name = plan->vertices[i].name;
    if (json_object_get(reader->vertex_of, name))
      return by_doc_fail(place, "\"%.64s\" is also the name of the rank of this number, which has no other", name);
    if (json_object_set_new(reader->vertex_of, name, json_integer(i)) != 0) return by_plan_no_memory();
    reader->position[i] = UINT32_MAX;
  }
  return BANYAN_OK;
}

static enum banyan_status fill_vertices(struct by_plan_reader *reader, const struct by_place *place, json_t *members) {
  struct by_plan *plan = reader->plan;
  bool *named = calloc(plan->n_ranks, sizeof *named);
  if (!named) return by_plan_no_memory();
  enum banyan_status status = name_members(plan, place, members, named);
  free(named);
  BY_TRY(status);
  qsort(plan->vertices + plan->n_ranks, plan->n_vertices - plan->n_ranks, sizeof *plan->vertices, compare_vertices);
  reader->position = malloc(plan->n_vertices * sizeof *reader->position);
  return reader->position ? index_vertices(reader, place) : by_plan_no_memory();
}

/* "ranks" says how many there are, else "vertices" does; a rank that "vertices" does not name is named by its number.
 */
static enum banyan_status take_vertices(struct by_plan_reader *reader, const struct by_place *document, json_t *root) {
  struct by_place place = {.above = document, .field = "vertices"};
  json_t *members = json_object_get(root, "vertices"), *ranks = json_object_get(root, "ranks");
  uint32_t named = 0, others = 0;
  if (members && !json_is_object(members)) return by_doc_fields(&place, members, "");
  BY_TRY(count_members(&place, members, &named, &others));
  uint64_t n = named;
  if (ranks)
    BY_TRY(by_doc_int(&(struct by_place){.above = document, .field = "ranks"}, ranks, 1, BY_PLAN_MOST_VERTICES, &n));
  if (n < 1) return by_doc_fail(document, "the field \"ranks\" is missing");
  if (n + others > BY_PLAN_MOST_VERTICES) return by_doc_fail(&place, "more than %d in all", BY_PLAN_MOST_VERTICES);
  BY_TRY(by_plan_add_vertices(reader->plan, (uint32_t)n, others));
  return fill_vertices(reader, &place, members);
}

/* --- classes and the rest --- */

static enum banyan_status take_trees(struct by_plan_reader *reader, const struct by_place *around, const json_t *object,
                                     struct by_class *class_) {
  struct by_place place = {.above = around, .field = "trees"};
  json_t *trees;
  BY_TRY(by_doc_need(around, object, "trees", &trees));
  BY_TRY(by_doc_array(&place, trees, 1, BY_PLAN_MOST_GROUPS));
  BY_TRY(by_plan_add_groups(reader->plan, class_, (uint32_t)json_array_size(trees)));
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(by_plan_read_group(reader, &here, json_array_get(trees, i), &class_->groups[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_class(struct by_plan_reader *reader, const struct by_place *place, const json_t *value,
                                     bool last, struct by_class *class_) {
  struct by_place here = {.above = place, .field = "up_to"};
  BY_TRY(by_doc_fields(place, value, "up_to, trees"));
  json_t *up_to = json_object_get(value, "up_to");
  if (last && up_to) return by_doc_fail(&here, "the last class takes all larger buffers and has no limit");
  if (!last) {
    BY_TRY(by_doc_need(place, value, "up_to", &up_to));
    BY_TRY(by_doc_bytes(&here, up_to, INT64_MAX, &class_->up_to));
  }
  return take_trees(reader, place, value, class_);
}

/* Size classes, and "trees": those of the last class, or of the only one. */
static enum banyan_status take_classes(struct by_plan_reader *reader, const struct by_place *document,
                                       const json_t *root) {
  struct by_place place = {.above = document, .field = "classes"};
  const json_t *classes = json_object_get(root, "classes");
  bool trees = !classes || json_object_get(root, "trees");
  if (classes) BY_TRY(by_doc_array(&place, classes, 1, BY_PLAN_MOST_CLASSES - trees));
  size_t listed = json_array_size(classes), n = listed + trees;
  BY_TRY(by_plan_add_classes(reader->plan, (uint32_t)n));
  for (size_t i = 0; i < listed; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_class(reader, &here, json_array_get(classes, i), i + 1 == n, &reader->plan->classes[i]));
  }
  return trees ? take_trees(reader, document, root, &reader->plan->classes[listed]) : BANYAN_OK;
}

static enum banyan_status take_facts(struct by_plan *plan, const struct by_place *document, const json_t *root) {
  struct {
    const char *field;
    double *out;
    enum banyan_status (*take)(const struct by_place *place, const json_t *value, double *out);
  } facts[] = {{"throughput", &plan->facts.throughput, by_doc_rate},
               {"bound", &plan->facts.bound, by_doc_rate},
               {"ratio", &plan->facts.ratio, by_doc_real},
               {"seconds", &plan->facts.seconds, by_doc_real}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    struct by_place here = {.above = document, .field = facts[i].field};
    const json_t *value = json_object_get(root, facts[i].field);
    if (value) BY_TRY(facts[i].take(&here, value, facts[i].out));
  }
  return BANYAN_OK;
}

static enum banyan_status take_head(struct by_plan *plan, const struct by_place *document, const json_t *root) {
  struct by_place place = {.above = document, .field = "format"};
  json_t *format, *name = json_object_get(root, "name"), *chunk = json_object_get(root, "chunk");
  const char *text;
  uint64_t bytes = 0;
  BY_TRY(by_doc_need(document, root, "format", &format));
  BY_TRY(by_doc_string(&place, format, &text));
  if (strcmp(text, "banyan-plan 1") != 0)
    return by_doc_fail(&place, "is \"%.64s\", this version reads \"banyan-plan 1\"", text);
  place.field = "name";
  if (name) {
    BY_TRY(by_doc_string(&place, name, &text));
    plan->name = by_arena_string(&plan->arena, text);
    if (!plan->name) return by_plan_no_memory();
  }
  place.field = "chunk";
  if (chunk) BY_TRY(by_doc_bytes(&place, chunk, BY_PLAN_MOST_CHUNK, &bytes));
  plan->chunk = (size_t)bytes;
  return take_facts(plan, document, root);
}

static enum banyan_status take_plan(struct by_plan *plan, const struct by_place *document, json_t *root) {
  uint64_t places = 0;
  struct by_plan_reader reader = {.plan = plan, .vertex_of = json_object(), .places = &places};
  enum banyan_status status = reader.vertex_of ? by_doc_fields(document, root, document_fields) : by_plan_no_memory();
  if (status == BANYAN_OK) status = take_head(plan, document, root);
  if (status == BANYAN_OK) status = take_vertices(&reader, document, root);
  if (status == BANYAN_OK) status = take_classes(&reader, document, root);
  free(reader.position);
  json_decref(reader.vertex_of);
  return status;
}

/* --- the text --- */

static enum banyan_status make_plan(const char *source, json_t *root, struct by_plan **out) {
  struct by_place document = {.field = source};
  struct by_plan *plan;
  BY_TRY(by_plan_create("plan", &plan));
  enum banyan_status status = take_plan(plan, &document, root);
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status;
  }
  status = by_plan_finish(plan, out);
  return status == BANYAN_OK ? BANYAN_OK : by_fail_within(status, "%s", source);
}

enum banyan_status by_plan_parse(const char *source, const char *text, size_t length, struct by_plan **out) {
  json_t *root;
  BY_TRY(by_doc_load(source, text, length, &limits, &root));
  enum banyan_status status = make_plan(source, root, out);
  json_decref(root);
  return status;
}

enum banyan_status by_plan_read(const char *path, struct by_plan **out) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("plan", path, limits.bytes, &text, &length));
  enum banyan_status status = by_plan_parse(path, text, length, out);
  free(text);
  return status;
}
