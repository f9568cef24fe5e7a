/* Writes a timeline as a file in Chrome's JSON format, which is valid after each flush. */
#include "timeline_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/param.h>
#include <unistd.h>

#include <banyan/types.h>

#include "descriptor.h"
#include "json_doc.h"

enum { MOST_OPEN = 1024, FLUSH_BYTES = 1 << 20, MOST_END = 16 << 20 };

struct open_record {
  uint32_t process;
  struct by_trace_record record;
};

/* The file consists of the committed events, the records that have not ended, what is known of each process, and the
 * end of the JSON. A flush writes everything behind the committed events again. */
struct by_timeline_file {
  int fd;
  char *path;
  uint64_t most_bytes;
  uint64_t committed, size; /* Bytes of the file that the next flush keeps, and its size. */
  struct by_text names;     /* Events that name the processes; they begin each file. */
  struct by_text fresh;     /* Events that the next flush appends to the committed ones. */
  struct by_text ended;     /* What is known of each process that has ended; it follows the events. */
  struct open_record *open; /* An array of MOST_OPEN records that have not ended. */
  size_t n_open;
  bool continued;
  int error; /* The errno of the first failure; 0: there was none. */
};

static void fail_with(struct by_timeline_file *file, int error) {
  if (!file->error) file->error = error;
}

static int open_path(const char *path, int flags) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666); /* BY_DESCRIPTOR holds a lock, and this may block. */
  int error = errno;
  by_descriptors_lock();
  (void)by_descriptor_own(fd);
  by_descriptors_unlock();
  errno = error;
  return fd;
}

static void destroy(struct by_timeline_file *file) {
  if (file->fd >= 0) by_close(file->fd);
  by_text_fini(&file->names);
  by_text_fini(&file->fresh);
  by_text_fini(&file->ended);
  free(file->open);
  free(file->path);
  free(file);
}

static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
static const char other[] = "\n],\n\"otherData\": {";

static void begin_file(struct by_timeline_file *file) {
  file->committed = file->size = 0;
  by_text_add(&file->fresh, "%s", head);
  by_text_add_bytes(&file->fresh, by_text_get(&file->names), file->names.length);
}

/* ---- going on behind what is there */

static bool begins_well(int fd) {
  char bytes[sizeof head - 1];
  return pread(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes && !memcmp(bytes, head, sizeof bytes);
}

/* Where the end of the JSON begins in `bytes`, the last ones of a file; `length`: it is not there. */
static size_t find_end(const char *bytes, size_t length) {
  size_t n = sizeof other - 1;
  for (size_t at = length; at >= n; at--)
    if (!memcmp(bytes + at - n, other, n)) return at - n;
  return length;
}

/* What is known of processes stays, and what has not ended there stays without an end. */
static bool go_on(struct by_timeline_file *file, const char *bytes, size_t length, uint64_t from) {
  size_t end = find_end(bytes, length), text = end + sizeof other - 1, last = length;
  while (last > text && bytes[last - 1] != '}') last--;
  if (end == length || last < text + 2) return false;
  by_text_add_bytes(&file->ended, bytes + text, last - 2 - text);
  file->committed = from + end;
  file->size = from + length;
  return true;
}

static bool continue_file(struct by_timeline_file *file) {
  off_t size = lseek(file->fd, 0, SEEK_END);
  size_t length = size < MOST_END ? (size_t)MAX(size, 0) : MOST_END;
  char *bytes = malloc(length + 1);
  uint64_t from = (uint64_t)MAX(size, 0) - length;
  bool well = bytes && length && begins_well(file->fd) &&
              pread(file->fd, bytes, length, (off_t)from) == (ssize_t)length && go_on(file, bytes, length, from);
  free(bytes);
  return well;
}

/* Nobody else writes the file: a process of this job in a membership before, for a moment, or of another group. */
static enum banyan_status open_alone(struct by_timeline_file *file, bool continues) {
  file->fd = open_path(file->path, continues ? 0 : O_TRUNC);
  if (file->fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open the timeline %s", file->path);
  bool busy = flock(file->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (busy && continues) return by_fail(BANYAN_ERR_ARGUMENT, "another process writes the timeline %s", file->path);
  file->continued = continues && continue_file(file);
  if (file->continued) return BANYAN_OK;
  if (continues && ftruncate(file->fd, 0) != 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot empty the timeline %s", file->path);
  begin_file(file);
  return BANYAN_OK;
}

enum banyan_status by_timeline_file_open(const char *path, uint64_t most_bytes, bool continues,
                                         struct by_timeline_file **out) {
  struct by_timeline_file *file = calloc(1, sizeof *file);
  if (!file) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline");
  *file = (struct by_timeline_file){.fd = -1, .path = strdup(path), .most_bytes = most_bytes};
  by_text_init(&file->names);
  by_text_init(&file->fresh);
  by_text_init(&file->ended);
  file->open = calloc(MOST_OPEN, sizeof *file->open);
  if (!file->path || !file->open) {
    destroy(file);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline");
  }
  enum banyan_status status = open_alone(file, continues);
  if (status != BANYAN_OK) {
    destroy(file);
    return status;
  }
  by_timeline_file_flush(file);
  *out = file;
  return BANYAN_OK;
}

/* --- writing */

/* Behind what is committed. Returns how many bytes were written. */
static size_t write_text(struct by_timeline_file *file, const struct by_text *text) {
  size_t done = 0;
  while (done < text->length) {
    ssize_t n = pwrite(file->fd, text->data + done, text->length - done, (off_t)(file->committed + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail_with(file, n < 0 ? errno : EIO);
      break;
    }
    done += (size_t)n;
  }
  return done;
}

static void add_record(struct by_text *text, uint32_t process, const struct by_trace_record *record);

static void add_open_records(const struct by_timeline_file *file, struct by_text *text) {
  for (size_t i = 0; i < file->n_open; i++) add_record(text, file->open[i].process, &file->open[i].record);
}

static void add_end(struct by_text *text, const char *ended) {
  by_text_add(text, "%s%s}}\n", other, ended);
}

/* Blanks cover what was there before, until the file is cut. Returns the length without them. */
static size_t add_blanks(const struct by_timeline_file *file, struct by_text *text) {
  size_t length = text->length;
  uint64_t end = file->committed + length;
  if (end < file->size) by_text_add(text, "%*s", (int)(file->size - end), "");
  return length;
}

/* The file ends behind so many bytes after what is committed. */
static void cut_file(struct by_timeline_file *file, size_t written, size_t length) {
  file->size = file->committed + written;
  if (ftruncate(file->fd, (off_t)(file->committed + length)) == 0) file->size = file->committed + length;
}

/* The file has grown too large: it gets another name, and an empty one takes its place. */
static void rotate(struct by_timeline_file *file) {
  char previous[PATH_MAX];
  int fd = -1;
  if (snprintf(previous, sizeof previous, "%s.1", file->path) >= (int)sizeof previous)
    errno = ENAMETOOLONG;
  else if (rename(file->path, previous) == 0)
    fd = open_path(file->path, O_TRUNC);
  if (fd < 0) {
    fail_with(file, errno);
    return;
  }
  by_close(file->fd);
  file->fd = fd;
  (void)flock(fd, LOCK_EX | LOCK_NB);
  begin_file(file);
  by_timeline_file_flush(file);
}

/* How many bytes of `length` are whole events that fit into so many bytes. */
static size_t length_of_events(const struct by_timeline_file *file, const char *events, size_t length, size_t bytes) {
  size_t first = file->committed ? 0 : sizeof head - 1, at = bytes;
  if (bytes >= length) return length;
  while (at > first && memcmp(events + at, ",\n", 2) != 0) at--;
  return at;
}

/* The disk has become full, and holds so many bytes behind what is committed. As many of the new events stay as fit,
 * but none that has not ended; what is known of processes is left out if it does not fit either. */
static void keep_what_fits(struct by_timeline_file *file, size_t fresh, size_t bytes) {
  const char *const ended[] = {by_text_get(&file->ended), ""};
  const char *events = by_text_get(&file->fresh);
  for (size_t i = 0; i < sizeof ended / sizeof *ended; i++) {
    struct by_text text, end;
    by_text_init(&text);
    by_text_init(&end);
    add_end(&end, ended[i]);
    size_t kept = bytes > end.length ? length_of_events(file, events, fresh, bytes - end.length) : 0;
    by_text_add_bytes(&text, events, kept);
    by_text_add_bytes(&text, by_text_get(&end), end.length);
    size_t length = add_blanks(file, &text);
    bool fits = length <= bytes && (file->committed || kept >= sizeof head - 1) && !text.failed;
    if (fits && write_text(file, &text) == text.length) {
      cut_file(file, text.length, length);
      file->committed += kept;
    }
    by_text_fini(&text);
    by_text_fini(&end);
    if (fits) return;
  }
}

void by_timeline_file_flush(struct by_timeline_file *file) {
  struct by_text *text = &file->fresh;
  size_t fresh = text->length;
  if (file->error) return;
  add_open_records(file, text);
  add_end(text, by_text_get(&file->ended));
  size_t length = add_blanks(file, text);
  if (text->failed || file->ended.failed) {
    fail_with(file, ENOMEM);
    return;
  }
  size_t written = write_text(file, text);
  if (written == text->length) {
    cut_file(file, text->length, length);
    file->committed += fresh;
  } else {
    keep_what_fits(file, fresh, MAX(written, file->size - file->committed));
  }
  by_text_fini(text);
  by_text_init(text);
  if (!file->error && file->committed > file->most_bytes + file->names.length) rotate(file);
}

enum banyan_status by_timeline_file_close(struct by_timeline_file *file) {
  by_timeline_file_flush(file);
  enum banyan_status status = BANYAN_OK;
  if (file->error)
    status = by_fail_errno(BANYAN_ERR_SYSTEM, file->error, "the timeline %s is not all written", file->path);
  destroy(file);
  return status;
}

/* --- events */

/* The first one of this process's stands at the beginning of a file, or behind what is there. */
static void add_name(struct by_timeline_file *file, size_t from) {
  const struct by_text *text = &file->names;
  if (text->failed) {
    fail_with(file, ENOMEM);
    return;
  }
  if (!from && file->continued) by_text_add(&file->fresh, ",\n");
  by_text_add_bytes(&file->fresh, text->data + from, text->length - from);
}

void by_timeline_file_name(struct by_timeline_file *file, uint32_t process, uint32_t place, const char *name) {
  struct by_text *text = &file->names;
  size_t before = text->length;
  by_text_add(text, "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %u, \"tid\": 0, \"args\": {\"name\": ",
              before ? ",\n" : "", process);
  by_json_add_string(text, name);
  by_text_add(text,
              "}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %u, \"tid\": 0, "
              "\"args\": {\"sort_index\": %u}}",
              process, place);
  add_name(file, before);
}

/* What follows its title. */
static void begin_instant(struct by_text *text, uint32_t process, uint64_t at, const char *title) {
  by_text_add(
      text,
      ",\n{\"ph\": \"i\", \"s\": \"g\", \"cat\": \"banyan\", \"pid\": %u, \"tid\": 0, \"ts\": %llu.%03u, \"name\": ",
      process, (unsigned long long)(at / 1000), (unsigned)(at % 1000));
  by_json_add_string(text, title);
}

void by_timeline_file_event(struct by_timeline_file *file, uint32_t process, uint64_t at, const char *title) {
  begin_instant(&file->fresh, process, at, title);
  by_text_add(&file->fresh, "}");
}

void by_timeline_file_membership(struct by_timeline_file *file, const char *title, const char *name, uint64_t at,
                                 uint32_t n, const uint32_t *ranks) {
  struct by_text *text = &file->fresh;
  begin_instant(text, ranks[0], at, title);
  by_text_add(text, ", \"args\": {\"membership\": ");
  by_json_add_string(text, name);
  by_text_add(text, ", \"ranks\": [");
  for (uint32_t r = 0; r < n; r++) by_text_add(text, "%s%u", r ? ", " : "", ranks[r]);
  by_text_add(text, "]}}");
}

/* One end of a span, without its name and what follows. Names of processes stand before all. */
static void begin_event(struct by_text *text, char kind, uint32_t process, uint64_t id, uint64_t at) {
  by_text_add(text,
              ",\n{\"ph\": \"%c\", \"cat\": \"banyan\", \"pid\": %u, \"tid\": 0, \"id2\": {\"local\": \"0x%llx\"}, "
              "\"ts\": %llu.%03u, \"name\": ",
              kind, process, (unsigned long long)id, (unsigned long long)(at / 1000), (unsigned)(at % 1000));
}

static void add_event(struct by_text *text, char kind, uint32_t process, uint64_t id, uint64_t at, const char *name) {
  begin_event(text, kind, process, id, at);
  by_text_add(text, "\"%s\"}", name);
}

/* The title of a span: calls that failed are seen at a glance. */
static void add_title(struct by_text *text, const struct by_trace_record *record) {
  bool known = record->collective < BANYAN_COLLECTIVES;
  const char *name = *record->name ? record->name
                     : known       ? banyan_collective_name((enum banyan_collective)record->collective)
                                   : "call";
  char title[BY_TRACE_NAME + 64];
  snprintf(title, sizeof title, record->status ? "%s (failed: %s)" : "%s", name,
           banyan_status_name((enum banyan_status)record->status));
  by_json_add_string(text, title);
}

static void begin_whole(struct by_text *text, uint32_t process, const struct by_trace_record *record, uint64_t at) {
  begin_event(text, 'b', process, record->id, at);
  add_title(text, record);
  by_text_add(text, ", \"args\": {\"bytes\": %llu", (unsigned long long)record->bytes);
  if (record->has_call)
    by_text_add(text, ", \"call\": %u, \"communicator\": %u, \"adding_us\": %.3f", record->call, record->team,
                (double)record->adding * 1e-3);
  if (record->status) by_text_add(text, ", \"failed\": \"%s\"", banyan_status_name((enum banyan_status)record->status));
  by_text_add(text, "}}");
}

/* Adding goes on beside what is on the wire, so that it is a span within that one. */
static void add_adding(struct by_text *text, uint32_t process, const struct by_trace_record *record) {
  uint64_t from = record->at[BY_TRACE_ADDING], to = record->added;
  if (!from || to < from) return;
  add_event(text, 'b', process, record->id, from, by_trace_state_name(BY_TRACE_ADDING));
  add_event(text, 'e', process, record->id, to, by_trace_state_name(BY_TRACE_ADDING));
}

static int next_state(const struct by_trace_record *record, int state) {
  do state++;
  while (state < BY_TRACE_STATES && (state == BY_TRACE_ADDING || !record->at[state]));
  return state;
}

/* States follow each other; the last one of what has not ended is left open. */
static void add_record(struct by_text *text, uint32_t process, const struct by_trace_record *record) {
  int state = next_state(record, -1);
  if (state == BY_TRACE_STATES) return;
  begin_whole(text, process, record, record->at[state]);
  while (state < BY_TRACE_DONE) {
    int next = next_state(record, state);
    const char *name = by_trace_state_name((enum by_trace_state)state);
    add_event(text, 'b', process, record->id, record->at[state], name);
    if (state == BY_TRACE_WIRE) add_adding(text, process, record);
    if (next == BY_TRACE_STATES) return;
    add_event(text, 'e', process, record->id, record->at[next], name);
    state = next;
  }
  begin_event(text, 'e', process, record->id, record->at[state]);
  add_title(text, record);
  by_text_add(text, "}");
}

static struct open_record *find_open(struct by_timeline_file *file, uint32_t process, uint64_t id) {
  for (size_t i = 0; i < file->n_open; i++)
    if (file->open[i].process == process && file->open[i].record.id == id) return &file->open[i];
  return NULL;
}

void by_timeline_file_record(struct by_timeline_file *file, uint32_t process, const struct by_trace_record *record) {
  struct open_record *open = find_open(file, process, record->id);
  const struct open_record now = {.process = process, .record = *record};
  if (record->at[BY_TRACE_DONE]) {
    if (open) *open = file->open[--file->n_open];
    add_record(&file->fresh, process, record);
  } else if (open) {
    *open = now;
  } else if (file->n_open < MOST_OPEN) {
    file->open[file->n_open++] = now;
  }
  if (file->fresh.length > FLUSH_BYTES) by_timeline_file_flush(file);
}

void by_timeline_file_end(struct by_timeline_file *file, const char *process, uint64_t missing, uint64_t error,
                          const struct by_trace_totals totals[BY_TRACE_STATES]) {
  struct by_text *text = &file->ended;
  by_text_add(text, "%s\n", text->length ? "," : "");
  by_json_add_string(text, process);
  by_text_add(text, ": {\"missing\": %llu, \"clock_error_us\": %.3f", (unsigned long long)missing,
              (double)error * 1e-3);
  for (int s = 0; s < BY_TRACE_STATES; s++)
    if (totals[s].n)
      by_text_add(text, ", \"%s\": {\"operations\": %llu, \"bytes\": %llu, \"seconds\": %.9f}",
                  by_trace_state_name((enum by_trace_state)s), (unsigned long long)totals[s].n,
                  (unsigned long long)totals[s].bytes, (double)totals[s].ns * 1e-9);
  by_text_add(text, "}");
}
