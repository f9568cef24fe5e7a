/* Encodes and decodes the messages about watched and probed paths. */
#include "control_paths.h"

#include <math.h>
#include <sys/param.h>

#include "adaptation.h"
#include "bytes.h"
#include "control.h"
#include "log.h"

/* ---- the messages */

enum { RATE_BYTES = 4 + 8 + 8 + 4, WHOLE = 1000000, LONGEST_MS = 600000 };

static const struct by_field kind_field[] = {
    BY_FIELD(by_path_message, kind, BY_FIELD_U8, .min = BY_PATH_WATCH, .max = BY_PATH_PROBED)};
static const struct by_field watch_fields[] = {BY_FIELD(by_path_message, interval, BY_FIELD_U32, .max = LONGEST_MS)};
static const struct by_field probe_fields[] = {
    BY_FIELD(by_path_message, process, BY_FIELD_U32),
    BY_FIELD(by_path_message, test.first, BY_FIELD_U64),
    BY_FIELD(by_path_message, test.within, BY_FIELD_U32, .max = LONGEST_MS),
    BY_FIELD(by_path_message, test.bytes, BY_FIELD_U64),
    BY_FIELD(by_path_message, test.lasts, BY_FIELD_U32, .max = LONGEST_MS),
};
static const struct by_field probed_fields[] = {
    BY_FIELD(by_path_message, process, BY_FIELD_U32),
    BY_FIELD(by_path_message, bandwidth, BY_FIELD_U64),
};
static const struct by_field rate_fields[] = {
    BY_FIELD(by_path_rate, process, BY_FIELD_U32),
    BY_FIELD(by_path_rate, sent, BY_FIELD_U64),
    BY_FIELD(by_path_rate, bandwidth, BY_FIELD_U64),
    BY_FIELD(by_path_rate, busy, BY_FIELD_U32, .max = WHOLE),
};

void by_path_message_write(struct by_writer *writer, const struct by_path_message *message) {
  by_fields_write(writer, BY_FIELDS(kind_field), message);
  if (message->kind == BY_PATH_WATCH) by_fields_write(writer, BY_FIELDS(watch_fields), message);
  if (message->kind == BY_PATH_PROBE) by_fields_write(writer, BY_FIELDS(probe_fields), message);
  if (message->kind == BY_PATH_PROBED) by_fields_write(writer, BY_FIELDS(probed_fields), message);
  if (message->kind != BY_PATH_REPORT) return;
  by_write_u32(writer, message->n);
  for (uint32_t i = 0; i < message->n; i++) by_fields_write(writer, BY_FIELDS(rate_fields), &message->rates[i]);
}

static enum banyan_status read_rates(struct by_reader *reader, uint32_t processes, struct by_path_message *out) {
  out->n = by_read_count(reader, RATE_BYTES);
  if (out->n > BY_PATH_REPORT_MAX)
    return by_fail(BANYAN_ERR_PROTOCOL, "a report of paths names %u of them, at most %d are allowed", out->n,
                   BY_PATH_REPORT_MAX);
  for (uint32_t i = 0; i < out->n; i++) {
    BY_TRY(by_fields_read(reader, NULL, BY_FIELDS(rate_fields), "a report of paths", &out->rates[i]));
    if (out->rates[i].process >= processes)
      return by_fail(BANYAN_ERR_PROTOCOL, "a report of paths names process %u of %u", out->rates[i].process, processes);
  }
  return BANYAN_OK;
}

enum banyan_status by_path_message_read(const void *bytes, size_t length, uint32_t processes,
                                        struct by_path_message *out) {
  static const char what[] = "a message about paths";
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_path_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(kind_field), what, out));
  if (out->kind == BY_PATH_WATCH) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(watch_fields), what, out));
  if (out->kind == BY_PATH_PROBE) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(probe_fields), what, out));
  if (out->kind == BY_PATH_PROBED) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(probed_fields), what, out));
  if (out->process >= processes)
    return by_fail(BANYAN_ERR_PROTOCOL, "a probe goes to process %u of %u", out->process, processes);
  if (out->kind == BY_PATH_REPORT) BY_TRY(read_rates(&reader, processes, out));
  return by_reader_check(&reader, what);
}

const struct by_feature_key by_adaptation_key = {.bytes = sizeof(struct by_adaptation)};

enum {
  MANY = 256,              /* Connections above which looks are rarer. */
  MAX_RECEIVED_MS = 60000, /* Maximum milliseconds of receiving without a call. */
  LATE_MS = 100            /* Maximum delay between messages to the two ends of a probe. */
};

static const double whole = 1e6; /* Millionths of a whole. */

_Static_assert((int)BY_PATH_REPORT_MAX == (int)BY_CLUSTER_PATHS, "a report holds all paths that are watched");

/* Sends a message, or drops it if the queue is full: late paths are of no use. */
static void send_message(const struct by_control_peer *peer, const struct by_path_message *message) {
  uint8_t bytes[BY_PATH_MESSAGE_MAX];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_path_message_write(&writer, message);
  if (by_control_peer_try_send(peer, PATHS, bytes, writer.length) != BANYAN_OK)
    by_debug("control", "%s: a message about paths is not sent: %s", by_stream_get_name(peer->stream),
             banyan_error_text());
}

/* ---- reporting */

static uint64_t bits(double rate) {
  return rate > 0 ? (uint64_t)fmin(llround(rate), 1e18) : 0;
}

static void send_to_root(const struct by_control_paths *paths, const struct by_path_message *message) {
  const struct by_control_peer *root = by_control_peers_root(paths->peers);
  if (paths->sink.report)
    paths->sink.report(paths->sink.context, by_job_rank(paths->peers->job), message);
  else if (root)
    send_message(root, message);
}

static void report(const struct by_control_paths *paths) {
  const struct by_path_list *list = &paths->watch.list;
  struct by_path_message message = {.kind = BY_PATH_REPORT, .n = list->n};
  for (uint32_t i = 0; i < list->n; i++)
    message.rates[i] = (struct by_path_rate){.process = list->processes[i],
                                             .sent = bits(list->paths[i].sent),
                                             .bandwidth = bits(list->paths[i].bandwidth),
                                             .busy = (uint32_t)lround(whole * fmin(list->paths[i].busy, 1))};
  send_to_root(paths, &message);
}

/* Reports paths. False: nothing was sent since the last report, so there is nothing to report. */
static bool report_if_due(struct by_control_paths *paths, bool news) {
  struct by_job *job = paths->peers->job;
  uint64_t now = by_loop_now(by_job_loop(job));
  if (!news && now < paths->reported_at + paths->interval) return true;
  by_job_lock(job);
  uint64_t sent = by_engine_sent(by_job_engine(job));
  by_job_unlock(job);
  bool idle = !news && sent == paths->sent;
  paths->sent = sent;
  paths->reported_at = now;
  if (!news) by_path_watch_take(&paths->watch);
  if (!idle && paths->watch.list.n) report(paths);
  return !idle;
}

static void look(void *argument) {
  struct by_control_paths *paths = argument;
  const struct by_job *job = paths->peers->job;
  bool busy = true;
  if (by_job_engine(job)) by_path_watch_glance(&paths->watch); /* Otherwise the job is still being made here. */
  if (paths->watch.glances >= BY_PATH_GLANCES) busy = report_if_due(paths, by_path_watch_look(&paths->watch));
  uint64_t looks = paths->watch.last_look.n > MANY ? 1 : BY_PATH_LOOKS;
  by_loop_set_delay(by_job_loop(job), &paths->due, busy ? paths->interval / looks / BY_PATH_GLANCES : paths->interval);
}

static void begin(struct by_control_paths *paths, uint32_t interval) {
  struct by_loop *loop = by_job_loop(paths->peers->job);
  paths->interval = interval * BY_MILLISECOND;
  paths->reported_at = by_loop_now(loop);
  by_loop_cancel_timer(&paths->due);
  if (interval) by_loop_set_delay(loop, &paths->due, 0);
}

/* ---- probing */

/* Sends padding bytes; 0: ends them. */
static void send_probe(const struct by_control_paths *paths, uint32_t process, uint64_t bytes) {
  struct by_job *job = paths->job;
  if (!by_job_engine(job) || process == by_job_rank(job)) return;
  by_job_lock(job);
  by_engine_probe(by_job_engine(job), process, bytes);
  by_progress_kick(job);
  by_job_unlock(job);
}

/* Receives arriving data for `milliseconds`, though no call is in progress. */
static void receive_for(struct by_job *job, uint64_t milliseconds) {
  by_job_lock(job);
  by_progress_receive(job, MIN(milliseconds, MAX_RECEIVED_MS) * BY_MILLISECOND);
  by_job_unlock(job);
}

struct taken {
  uint32_t process;
  uint64_t bytes;
};

static void add_taken(void *context, uint32_t process, struct by_lane *lane) {
  struct taken *taken = context;
  struct by_meter meter;
  if (!by_lane_meter(lane, &meter)) return;
  if (process == taken->process) taken->bytes += meter.bytes;
}

/* Returns the bytes that the other end has received so far, of all that was sent to it. */
static uint64_t count_taken(const struct by_control_paths *paths, uint32_t process) {
  struct by_job *job = paths->peers->job;
  struct taken taken = {.process = process};
  by_job_lock(job);
  by_engine_visit_lanes(by_job_engine(job), add_taken, &taken);
  by_job_unlock(job);
  return taken.bytes;
}

static void end_probe(const struct by_control_paths *paths, uint64_t taken) {
  const struct by_loop *loop = by_job_loop(paths->peers->job);
  double seconds = by_clock_to_seconds(by_loop_now(loop) - paths->second_at);
  struct by_path_message message = {.kind = BY_PATH_PROBED, .process = paths->probe.process};
  if (paths->second_at && seconds > 0) message.bandwidth = bits(8 * (double)taken / seconds);
  send_probe(paths, paths->probe.process, 0);
  send_to_root(paths, &message);
}

/* Continues a probe when its first or second part is over. */
static void continue_probe(void *argument) {
  struct by_control_paths *paths = argument;
  struct by_loop *loop = by_job_loop(paths->peers->job);
  const struct by_path_test *test = &paths->probe.test;
  uint64_t all = count_taken(paths, paths->probe.process), taken = all - paths->taken;
  if (paths->second_at || taken < test->first) {
    end_probe(paths, taken);
    return;
  }
  paths->taken = all;
  paths->second_at = by_loop_now(loop);
  send_probe(paths, paths->probe.process, test->bytes);
  by_loop_set_delay(loop, &paths->probe_due, test->lasts * BY_MILLISECOND);
}

/* Begins a probe; only one runs at a time. */
static void begin_probe(struct by_control_paths *paths, const struct by_path_message *message) {
  const struct by_job *job = paths->peers->job;
  if (!by_job_engine(job)) return;
  if (!message->test.first && !message->test.bytes) {
    send_probe(paths, message->process, 0);
    receive_for(paths->job, (uint64_t)message->test.within + message->test.lasts);
    return;
  }
  if (by_timer_is_set(&paths->probe_due)) send_probe(paths, paths->probe.process, 0);
  paths->probe = *message;
  paths->second_at = 0;
  paths->taken = count_taken(paths, message->process);
  send_probe(paths, message->process, message->test.first);
  by_loop_set_delay(by_job_loop(job), &paths->probe_due, message->test.within * BY_MILLISECOND);
}

static void ask(struct by_control_paths *paths, uint32_t process, const struct by_path_message *message) {
  const struct by_control_peer *peer = process ? paths->peers->of_process[process] : NULL;
  if (!process)
    begin_probe(paths, message);
  else if (peer && by_control_peer_stays(peer))
    send_message(peer, message);
}

/* Returns the state, made at the first message. */
static struct by_control_paths *need_paths(struct by_job *job, struct by_control_peers *peers) {
  struct by_control_paths *paths = &by_adaptation_of(job)->paths;
  if (paths->peers) return paths;
  *paths = (struct by_control_paths){.peers = peers, .job = job};
  by_path_watch_init(&paths->watch, job);
  by_timer_init(&paths->due, look, paths);
  by_timer_init(&paths->probe_due, continue_probe, paths);
  return paths;
}

/* Starts a probe between two processes. The other end is asked too: to connect, if it is the higher process of the
 * pair, and to receive. */
void by_control_paths_probe(struct by_job *job, uint32_t from, const struct by_path_message *message) {
  struct by_control_paths *paths = need_paths(job, by_control_get_peers(by_job_control(job)));
  struct by_path_message receives = {.kind = BY_PATH_PROBE, .process = from};
  receives.test.within = message->test.within;
  receives.test.lasts = message->test.lasts + LATE_MS;
  ask(paths, message->process, &receives);
  ask(paths, from, message);
}

/* ---- messages */

void by_control_paths_watch(struct by_job *job, uint32_t interval, const struct by_path_sink *sink) {
  struct by_control_paths *paths = need_paths(job, by_control_get_peers(by_job_control(job)));
  paths->sink = *sink;
  for (const struct by_control_peer *peer = paths->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer))
      send_message(peer, &(struct by_path_message){.kind = BY_PATH_WATCH, .interval = interval});
  begin(paths, interval);
}

void by_control_paths_handle(void *context, const struct by_received *received) {
  struct by_control_paths *paths = need_paths(context, received->peer->peers);
  const struct by_control_peers *peers = paths->peers;
  struct by_path_message message;
  bool fits =
      by_path_message_read(received->payload, received->length, by_job_processes(peers->job), &message) == BANYAN_OK;
  if (!fits || by_control_peers_is_root(peers) != (message.kind >= BY_PATH_REPORT))
    by_warn("control", "%s: malformed message about paths; ignored", by_stream_get_name(received->peer->stream));
  else if (message.kind == BY_PATH_WATCH)
    begin(paths, message.interval);
  else if (message.kind == BY_PATH_PROBE)
    begin_probe(paths, &message);
  else if (paths->sink.report)
    paths->sink.report(paths->sink.context, (uint32_t)received->peer->rank, &message);
}

void by_control_paths_fini(struct by_control_paths *paths) {
  if (!paths->peers) return;
  by_loop_cancel_timer(&paths->due);
  by_loop_cancel_timer(&paths->probe_due);
  by_path_watch_fini(&paths->watch);
}
