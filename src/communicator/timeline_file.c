#include "timeline_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <banyan/types.h>

#include "descriptor.h"
#include "json_print.h"

enum { MOST_KEPT = 64 << 10 }; /* bytes of events */

struct by_timeline_file {
  int fd;
  char *path;
  struct by_text events; /* those not yet written; not in a FILE, which a child made by fork() would write as well */
  off_t end;             /* where they go: what stands there only ends the JSON */
  struct by_text ended;  /* what is to be said of each process, behind the events */
  bool any;
  int why; /* errno of what could not be written; 0: nothing */
};

enum banyan_status by_timeline_file_open(const char *path, struct by_timeline_file **out) {
  struct by_timeline_file *file = calloc(1, sizeof *file);
  if (file) file->path = strdup(path);
  if (!file || !file->path) {
    free(file);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline");
  }
  by_text_init(&file->events);
  by_text_init(&file->ended);
  file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); /* may block: not BY_DESCRIPTOR */
  if (file->fd < 0) {
    enum banyan_status status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open the timeline %s", path);
    free(file->path);
    free(file);
    return status;
  }
  by_descriptors_lock();
  (void)by_descriptor_own(file->fd);
  by_descriptors_unlock();
  by_text_add(&file->events, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  by_timeline_file_flush(file);
  *out = file;
  return BANYAN_OK;
}

static void fail(struct by_timeline_file *file, int why) {
  if (!file->why) file->why = why;
}

static void write_at(struct by_timeline_file *file, const struct by_text *text, off_t at) {
  const char *bytes = by_text_get(text);
  size_t left = text->failed ? 0 : text->length;
  if (text->failed) fail(file, ENOMEM);
  while (left) {
    ssize_t n = pwrite(file->fd, bytes, left, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail(file, n ? errno : EIO);
      return;
    }
    bytes += n;
    at += n;
    left -= (size_t)n;
  }
}

static void write_events(struct by_timeline_file *file) {
  write_at(file, &file->events, file->end);
  file->end += (off_t)file->events.length;
  by_text_fini(&file->events);
  by_text_init(&file->events);
}

void by_timeline_file_flush(struct by_timeline_file *file) {
  struct by_text tail;
  write_events(file);
  by_text_init(&tail);
  by_text_add(&tail, "\n],\n\"otherData\": {%s}}\n", by_text_get(&file->ended));
  tail.failed |= file->ended.failed;
  write_at(file, &tail, file->end);
  by_text_fini(&tail);
}

enum banyan_status by_timeline_file_close(struct by_timeline_file *file) {
  by_timeline_file_flush(file);
  enum banyan_status status = BANYAN_OK;
  if (file->why) status = by_fail_errno(BANYAN_ERR_SYSTEM, file->why, "the timeline %s is not all written", file->path);
  by_close(file->fd);
  by_text_fini(&file->events);
  by_text_fini(&file->ended);
  free(file->path);
  free(file);
  return status;
}

/* --- events --- */

static void separate(struct by_timeline_file *file) {
  if (file->events.length > MOST_KEPT) write_events(file);
  if (file->any) by_text_add(&file->events, ",\n");
  file->any = true;
}

static void add_string(struct by_timeline_file *file, const char *string) {
  by_json_add_string(&file->events, string);
}

void by_timeline_file_name(struct by_timeline_file *file, uint32_t process, const char *name) {
  separate(file);
  by_text_add(&file->events,
              "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %u, \"tid\": 0, \"args\": {\"name\": ", process);
  add_string(file, name);
  by_text_add(&file->events, "}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %u, \"tid\": 0, ",
              process);
  by_text_add(&file->events, "\"args\": {\"sort_index\": %u}}", process);
}

/* One end of a span, without its name and what follows. */
static void begin_event(struct by_timeline_file *file, char kind, uint32_t process, uint64_t id, uint64_t at) {
  separate(file);
  by_text_add(&file->events, "{\"ph\": \"%c\", \"cat\": \"banyan\", \"pid\": %u, \"tid\": 0, ", kind, process);
  by_text_add(&file->events, "\"id2\": {\"local\": \"0x%llx\"}, \"ts\": %llu.%03u, \"name\": ", (unsigned long long)id,
              (unsigned long long)(at / 1000), (unsigned)(at % 1000));
}

static void add_event(struct by_timeline_file *file, char kind, uint32_t process, uint64_t id, uint64_t at,
                      const char *name) {
  begin_event(file, kind, process, id, at);
  by_text_add(&file->events, "\"%s\"}", name);
}

static const char *name_of(const struct by_trace_record *record) {
  if (*record->name) return record->name;
  return record->collective < BANYAN_COLLECTIVES ? banyan_collective_name((enum banyan_collective)record->collective)
                                                 : "call";
}

static void begin_whole(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record,
                        uint64_t at) {
  begin_event(file, 'b', process, record->id, at);
  add_string(file, name_of(record));
  by_text_add(&file->events, ", \"args\": {\"bytes\": %llu", (unsigned long long)record->bytes);
  if (record->has_call)
    by_text_add(&file->events, ", \"call\": %u, \"communicator\": %u, \"adding_us\": %.3f", record->call,
                record->domain, (double)record->adding * 1e-3);
  if (record->status)
    by_text_add(&file->events, ", \"failed\": \"%s\"", banyan_status_name((enum banyan_status)record->status));
  by_text_add(&file->events, "}}");
}

/* Adding goes on beside what is on the wire, so that it is a span within that one. */
static void add_adding(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record) {
  uint64_t from = record->at[BY_TRACE_ADDING], to = record->added;
  if (!from || to < from) return;
  add_event(file, 'b', process, record->id, from, by_trace_state_name(BY_TRACE_ADDING));
  add_event(file, 'e', process, record->id, to, by_trace_state_name(BY_TRACE_ADDING));
}

static int next_state(const struct by_trace_record *record, int state) {
  do state++;
  while (state < BY_TRACE_STATES && (state == BY_TRACE_ADDING || !record->at[state]));
  return state;
}

/* States follow each other; the last one of what has not ended is left open. */
void by_timeline_file_record(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record) {
  int state = next_state(record, -1);
  if (state == BY_TRACE_STATES) return;
  begin_whole(file, process, record, record->at[state]);
  while (state < BY_TRACE_DONE) {
    int next = next_state(record, state);
    const char *name = by_trace_state_name((enum by_trace_state)state);
    add_event(file, 'b', process, record->id, record->at[state], name);
    if (state == BY_TRACE_WIRE) add_adding(file, process, record);
    if (next == BY_TRACE_STATES) return;
    add_event(file, 'e', process, record->id, record->at[next], name);
    state = next;
  }
  begin_event(file, 'e', process, record->id, record->at[state]);
  add_string(file, name_of(record));
  by_text_add(&file->events, "}");
}

void by_timeline_file_end(struct by_timeline_file *file, uint32_t process, uint64_t missing, uint64_t error,
                          const struct by_trace_totals totals[BY_TRACE_STATES]) {
  struct by_text *text = &file->ended;
  by_text_add(text, "%s\n\"%u\": {\"missing\": %llu, \"clock_error_us\": %.3f", text->length ? "," : "", process,
              (unsigned long long)missing, (double)error * 1e-3);
  for (int s = 0; s < BY_TRACE_STATES; s++)
    if (totals[s].n)
      by_text_add(text, ", \"%s\": {\"operations\": %llu, \"bytes\": %llu, \"seconds\": %.9f}",
                  by_trace_state_name((enum by_trace_state)s), (unsigned long long)totals[s].n,
                  (unsigned long long)totals[s].bytes, (double)totals[s].ns * 1e-9);
  by_text_add(text, "}");
}
