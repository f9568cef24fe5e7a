#include "simulate_trace.h"

#include <errno.h>
#include <stdlib.h>

#include "json_print.h"
#include "log.h"
#include "text.h"

enum { MOST_EVENTS = 1 << 20 };

enum banyan_status by_trace_open(struct by_trace *trace, const char *path, const struct by_plan *plan,
                                 const struct by_topology *topology, const struct by_ways *ways) {
  *trace = (struct by_trace){.path = path, .plan = plan, .topology = topology, .ways = ways};
  trace->named = calloc((size_t)ways->n_resources + ways->first[ways->n_streams] + 1, sizeof *trace->named);
  if (!trace->named) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the trace");
  trace->file = fopen(path, "we");
  if (!trace->file) {
    free(trace->named);
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s for writing", path);
  }
  fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", trace->file);
  return BANYAN_OK;
}

static void write_name(struct by_trace *trace, const char *what, uint32_t process, uint32_t thread, const char *name) {
  struct by_text text;
  by_text_init(&text);
  by_json_add_string(&text, name);
  fprintf(trace->file, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"args\": {\"name\": %s}},\n", what,
          process, thread, by_text_get(&text));
  trace->failed |= text.failed;
  by_text_fini(&text);
}

static void name_process(struct by_trace *trace, uint32_t resource) {
  const struct by_topology *t = trace->topology;
  char name[2 * BY_TOPOLOGY_MOST_NAME + 32];
  if (trace->named[resource]) return;
  trace->named[resource] = true;
  if (resource < 2 * t->n_links) {
    const struct by_link *link = &t->links[resource / 2];
    bool back = resource % 2 == BY_BA;
    snprintf(name, sizeof name, "%s -> %s", t->nodes[back ? link->b : link->a].name,
             t->nodes[back ? link->a : link->b].name);
  } else {
    snprintf(name, sizeof name, "%s %s", t->nodes[(resource - 2 * t->n_links) / 2].name,
             resource % 2 ? "receives" : "sends");
  }
  write_name(trace, "process_name", resource + 1, 0, name);
}

/* `out` has 32 bytes. */
static const char *name_end(const struct by_trace *trace, uint32_t vertex, char *out) {
  uint32_t ranks = trace->plan->n_ranks;
  if (vertex < ranks)
    snprintf(out, 32, "rank %u", vertex);
  else
    snprintf(out, 32, "%s %u", by_vertex_kind_name(trace->plan->vertices[vertex].kind), vertex - ranks);
  return out;
}

void by_trace_transfer(void *context, const struct by_transfer *transfer) {
  struct by_trace *trace = context;
  char pair[80], from[32], to[32];
  if (trace->events >= MOST_EVENTS) {
    trace->left_out++;
    return;
  }
  snprintf(pair, sizeof pair, "%s -> %s", name_end(trace, transfer->from, from), name_end(trace, transfer->to, to));
  for (uint32_t i = 0; i < transfer->n_resources; i++) {
    uint32_t resource = transfer->resources[i], place = (uint32_t)(&transfer->resources[i] - trace->ways->resources);
    name_process(trace, resource);
    if (!trace->named[trace->ways->n_resources + place])
      write_name(trace, "thread_name", resource + 1, transfer->stream + 1, pair);
    trace->named[trace->ways->n_resources + place] = true;
    fprintf(trace->file,
            "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, \"args\": "
            "{\"bytes\": %llu}},\n",
            pair, resource + 1, transfer->stream + 1, transfer->begin * 1e6, (transfer->end - transfer->begin) * 1e6,
            (unsigned long long)transfer->bytes);
    trace->events++;
  }
}

enum banyan_status by_trace_close(struct by_trace *trace) {
  if (!trace->file) return BANYAN_OK;
  /* what ends the list, so that no comma is left over */
  fputs("{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"tid\": 0, \"args\": {\"name\": \"banyan "
        "simulate\"}}\n]}\n",
        trace->file);
  bool failed = ferror(trace->file) != 0;
  int why = errno;
  if (fclose(trace->file) != 0) {
    failed = true;
    why = errno;
  }
  free(trace->named);
  trace->file = NULL;
  if (failed) return by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write %s", trace->path);
  if (trace->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the trace");
  if (trace->left_out)
    by_warn("simulate", "%s holds the first %llu events; %llu chunks that came later are not in it", trace->path,
            (unsigned long long)trace->events, (unsigned long long)trace->left_out);
  return BANYAN_OK;
}
