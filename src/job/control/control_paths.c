#include "control_paths.h"

#include <math.h>
#include <sys/param.h>

#include "log.h"
#include "path_message.h"

enum { MANY = 256 /* connections: then there are fewer looks */ };

static const double whole = 1e6; /* millionths */

_Static_assert((int)BY_PATH_REPORT_MOST == (int)BY_CLUSTER_PATHS, "a report holds all paths that are watched");

/* Paths are of no use once they are late, so that none is missed where there is no room for it. */
static void send_message(const struct by_control_peer *peer, const struct by_path_message *message) {
  uint8_t bytes[BY_PATH_MESSAGE_MOST];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_path_message_write(&writer, message);
  if (by_stream_send(peer->stream, PATHS, bytes, writer.length) != BANYAN_OK)
    by_debug("control", "%s: a message about paths is not sent: %s", by_stream_get_name(peer->stream),
             banyan_error_text());
}

/* ---- reporting */

static uint64_t bits(double rate) {
  return rate > 0 ? (uint64_t)fmin(llround(rate), 1e18) : 0;
}

static void report(struct by_control_paths *paths) {
  const struct by_path_list *list = &paths->watch.list;
  struct by_path_message message = {.kind = BY_PATH_REPORT, .n = list->n};
  const struct by_control_peer *root = by_control_peers_root(paths->peers);
  for (uint32_t i = 0; i < list->n; i++)
    message.rates[i] = (struct by_path_rate){.process = list->processes[i],
                                             .sent = bits(list->paths[i].sent),
                                             .bandwidth = bits(list->paths[i].bandwidth),
                                             .busy = (uint32_t)lround(whole * fmin(list->paths[i].busy, 1))};
  if (paths->sink.report)
    paths->sink.report(paths->sink.context, paths->peers->job->rank, &message);
  else if (root)
    send_message(root, &message);
}

/* False: nothing was sent since the last report, and there is nothing to report. */
static bool report_if_due(struct by_control_paths *paths, bool news) {
  struct by_job *job = paths->peers->job;
  uint64_t now = by_loop_now(job->loop);
  if (!news && now < paths->reported_at + paths->interval) return true;
  by_job_lock(job);
  uint64_t sent = by_engine_sent(job->engine);
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
  if (job->engine) by_path_watch_glance(&paths->watch); /* else the job is still being made here */
  if (paths->watch.glances >= BY_PATH_GLANCES) busy = report_if_due(paths, by_path_watch_look(&paths->watch));
  uint64_t looks = paths->watch.last_look.n > MANY ? 1 : BY_PATH_LOOKS;
  by_loop_set_delay(job->loop, &paths->due, busy ? paths->interval / looks / BY_PATH_GLANCES : paths->interval);
}

static void begin(struct by_control_paths *paths, uint32_t interval) {
  struct by_loop *loop = paths->peers->job->loop;
  paths->interval = interval * BY_MILLISECOND;
  paths->reported_at = by_loop_now(loop);
  by_loop_cancel_timer(&paths->due);
  if (interval) by_loop_set_delay(loop, &paths->due, 0);
}

/* ---- probing */

static void send_probe(const struct by_control_paths *paths, uint32_t process, uint64_t bytes) {
  const struct by_job *job = paths->peers->job;
  if (job->engine && process != job->rank) paths->events->probe(paths->events->context, process, bytes);
}

static void end_probe(void *argument) {
  const struct by_control_paths *paths = argument;
  send_probe(paths, paths->probed, 0);
}

/* One at a time. What comes without an end only asks for the connection. */
static void probe(struct by_control_paths *paths, const struct by_path_message *message) {
  struct by_loop *loop = paths->peers->job->loop;
  if (message->lasts && by_timer_is_set(&paths->probe_end)) end_probe(paths);
  send_probe(paths, message->process, message->lasts ? message->bytes : 0);
  if (!message->lasts) return;
  paths->probed = message->process;
  by_loop_set_delay(loop, &paths->probe_end, message->lasts * BY_MILLISECOND);
}

static void ask(struct by_control_paths *paths, uint32_t process, const struct by_path_message *message) {
  const struct by_control_peer *peer = process ? paths->peers->of_process[process] : NULL;
  if (!process)
    probe(paths, message);
  else if (peer && by_control_peer_stays(peer))
    send_message(peer, message);
}

/* The other end is asked for the connection, too: of a pair the higher process makes it. */
void by_control_paths_probe(struct by_control_paths *paths, uint32_t from, const struct by_path_message *message) {
  ask(paths, message->process, &(struct by_path_message){.kind = BY_PATH_PROBE, .process = from});
  ask(paths, from, message);
}

/* ---- messages */

void by_control_paths_watch(struct by_control_paths *paths, uint32_t interval, const struct by_path_sink *sink) {
  paths->sink = *sink;
  for (const struct by_control_peer *peer = paths->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer))
      send_message(peer, &(struct by_path_message){.kind = BY_PATH_WATCH, .interval = interval});
  begin(paths, interval);
}

void by_control_paths_handle(void *argument, const struct by_received *received) {
  struct by_control_paths *paths = argument;
  const struct by_control_peers *peers = paths->peers;
  struct by_path_message message;
  bool fits = by_path_message_read(received->payload, received->length, peers->job->processes, &message) == BANYAN_OK;
  if (!fits || by_control_peers_is_root(peers) != (message.kind == BY_PATH_REPORT))
    by_warn("control", "%s: malformed message about paths; ignored", by_stream_get_name(received->peer->stream));
  else if (message.kind == BY_PATH_WATCH)
    begin(paths, message.interval);
  else if (message.kind == BY_PATH_PROBE)
    probe(paths, &message);
  else if (paths->sink.report)
    paths->sink.report(paths->sink.context, (uint32_t)received->peer->rank, &message);
}

void by_control_paths_init(struct by_control_paths *paths, struct by_control_peers *peers,
                           const struct by_control_events *events) {
  *paths = (struct by_control_paths){.peers = peers, .events = events};
  by_path_watch_init(&paths->watch, peers->job);
  by_timer_init(&paths->due, look, paths);
  by_timer_init(&paths->probe_end, end_probe, paths);
}

void by_control_paths_fini(struct by_control_paths *paths) {
  by_loop_cancel_timer(&paths->due);
  by_loop_cancel_timer(&paths->probe_end);
  by_path_watch_fini(&paths->watch);
}
