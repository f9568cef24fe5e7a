/* How the ranks meet: rank 0 collects the members and tells everybody, or tells why there will be no job. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "acceptor.h"
#include "connector.h"
#include "control_parts.h"
#include "log.h"
#include "socket.h"

/* ---- rank 0 */

static void refuse(struct end *end, enum banyan_status status, const char *text) {
  by_warn("control", "%s: %s", by_stream_get_name(end->stream), text);
  by_control_send_text(end, REFUSED, status, 0, text);
  by_stream_refuse(end->stream);
}

void by_control_refuse(struct end *end, const char *text) {
  refuse(end, BANYAN_ERR_ARGUMENT, text);
}

/* The job cannot start, because two processes claim the same place, or one is missing: everybody hears of it. */
static void refuse_all(struct by_control *control, enum banyan_status status, const char *text) {
  for (struct end *end = control->ends; end; end = end->next) by_control_send_text(end, REFUSED, status, 0, text);
  by_control_give_up(control, status, text);
}

/* For all but one number the same for each process, which it begins with: of many, the list takes a while to write. */
static void write_members(const struct by_job *job, struct by_writer *writer) {
  by_write_u32(writer, job->size);
  by_write_u32(writer, 0); /* the receiver's number: set_receiver */
  by_write_u32(writer, job->processes);
  for (uint32_t i = 0; i < job->processes; i++) by_member_write(writer, &job->members[i]);
}

static void set_receiver(uint8_t *bytes, uint32_t process) {
  by_put_u32(bytes + 4, process);
}

/* Receiver 0 in the list, which is set for each. The caller frees *out. */
static enum banyan_status list_members(const struct by_job *job, uint8_t **out, size_t *length) {
  struct by_writer measure, writer;
  by_writer_init(&measure, NULL, 0);
  write_members(job, &measure);
  *out = malloc(measure.length);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the list of members");
  by_writer_init(&writer, *out, measure.length);
  write_members(job, &writer);
  *length = writer.length;
  return BANYAN_OK;
}

static enum banyan_status send_members(const struct by_control *control, uint32_t process, uint8_t *bytes,
                                       size_t length) {
  const struct end *end = control->of_rank[process];
  if (!end) return by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone before all have met", process);
  set_receiver(bytes, process);
  return by_stream_send(end->stream, WELCOME, bytes, length);
}

enum banyan_status by_control_send_welcome(struct by_control *control, uint32_t process) {
  uint8_t *bytes = NULL;
  size_t length = 0;
  enum banyan_status status = list_members(control->job, &bytes, &length);
  if (status == BANYAN_OK) status = send_members(control, process, bytes, length);
  free(bytes);
  return status;
}

void by_control_welcome(struct by_control *control) {
  struct by_job *job = control->job;
  uint8_t *bytes = NULL;
  size_t length = 0;
  job->processes = job->size + control->helpers;
  enum banyan_status status = list_members(job, &bytes, &length);
  for (uint32_t p = 1; p < job->processes && status == BANYAN_OK; p++) status = send_members(control, p, bytes, length);
  free(bytes);
  if (status != BANYAN_OK) by_control_give_up(control, status, banyan_error_text());
  control->done = control->status == BANYAN_OK;
}

/* It may have lost patience while this process was held up, and come again since. */
static bool has_closed(const struct end *end) {
  char byte;
  ssize_t n = recv(by_stream_get_fd(end->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Its word that it leaves, or the end of its connection, may come later than another connection that was made since:
 * packets get lost. */
static bool may_have_left(struct end *before) {
  uint64_t now = by_loop_now(before->control->job->loop);
  if (!before->doubted_at) before->doubted_at = now;
  return before->leaving || has_closed(before) || now - before->doubted_at < ABSENCE_MS * BY_MILLISECOND;
}

/* Who has left, or died, comes for the next job at this address: its rank 0 will listen here when this one is over. One
 * that has lost patience may be back before its end is noticed. */
static bool comes_too_early(const struct by_control *control, uint32_t rank) {
  if (rank == 0 || rank >= control->job->size) return false;
  struct end *before = control->of_rank[rank];
  return before ? may_have_left(before) : control->done;
}

/* Rank 0 knows another number of ranks, or has a process of this rank already. `text` holds TEXT_MOST bytes. */
static bool is_out_of_place(const struct by_control *control, uint32_t rank, uint32_t size, const char *host,
                            char *text) {
  uint32_t own = control->job->size;
  if (size != own) {
    snprintf(text, TEXT_MOST,
             "a rank on host %s was started with %u ranks, rank 0 with %u: start all with the same number", host, size,
             own);
    return true;
  }
  if (rank > 0 && rank < size && !control->of_rank[rank]) return false;
  snprintf(text, TEXT_MOST, "rank %u was started twice%s%s: give every process a rank of its own", rank,
           rank < size && rank ? ", the second time on host " : " (or out of range) on host ", host);
  return true;
}

static void print_plan(const char *name, uint32_t version, char *text, size_t room) {
  if (version)
    snprintf(text, room, "plan '%.64s' (version %08x)", name, version);
  else
    snprintf(text, room, "no plan");
}

/* It was given another plan than rank 0. */
static bool has_another_plan(const struct by_control *control, const struct by_join *hello, char *text) {
  char theirs[128], ours[128];
  uint32_t version = control->given_version;
  bool read = hello->plan_version != BY_PLAN_UNREADABLE && version != BY_PLAN_UNREADABLE;
  if (!read || hello->plan_version == version) return false;
  print_plan(hello->plan, hello->plan_version, theirs, sizeof theirs);
  print_plan(control->given_plan, version, ours, sizeof ours);
  snprintf(text, TEXT_MOST,
           "plans differ between ranks: rank %u (host %.64s) was given %s, rank 0 (host %.64s) %s; give all ranks the "
           "same plan (--plan, BANYAN_PLAN)",
           hello->rank, hello->member.host, theirs, control->job->members[0].host, ours);
  return true;
}

static void rank_joins(struct end *end, const struct by_join *hello) {
  struct by_control *control = end->control;
  struct by_job *job = control->job;
  uint32_t rank = hello->rank;
  char text[TEXT_MOST];
  if (is_out_of_place(control, rank, hello->size, hello->member.host, text)) {
    if (control->done)
      by_control_refuse(end, text);
    else
      refuse_all(control, BANYAN_ERR_ARGUMENT, text);
    return;
  }
  if (!control->done && has_another_plan(control, hello, text)) {
    refuse_all(control, BANYAN_ERR_MISMATCH, text);
    return;
  }
  end->rank = rank;
  control->of_rank[rank] = end;
  job->members[rank] = hello->member;
  control->waits_for_helpers = ++control->joined == job->size;
}

static void joins(struct end *end, const struct by_join *hello) {
  struct by_control *control = end->control;
  if (hello->member.kind != BY_MEMBER_RANK)
    by_control_helper_joins(end, &hello->member);
  else if (comes_too_early(control, hello->rank))
    by_stream_refuse(end->stream);
  else
    rank_joins(end, hello);
}

/* Once the job has begun, the job's arena is for others, too, and nothing of who comes is kept. */
static void heard_hello(struct end *end, const void *bytes, size_t length) {
  struct by_control *control = end->control;
  struct by_arena scratch;
  struct by_join hello;
  by_arena_init(&scratch);
  if (control->status != BANYAN_OK) /* the start has failed already: this one hears of it too */
    refuse(end, control->status, control->text);
  else if (by_join_read(bytes, length, control->done ? &scratch : &control->job->arena, &hello) != BANYAN_OK)
    by_control_refuse(end, "a malformed hello");
  else
    joins(end, &hello);
  by_arena_fini(&scratch);
}

void by_control_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct end *end = context;
  struct by_control *control = end->control;
  end->authenticated = true;
  if (control->job->rank != 0) {
    by_dialer_keep(control->dialer);
    return;
  }
  if (purpose != PURPOSE_CONTROL)
    by_control_refuse(end, "a connection that is not for meeting");
  else if (has_closed(end))
    by_stream_refuse(end->stream);
  else
    heard_hello(end, hello, length);
}

static void accepted(void *context, int fd) {
  (void)by_control_new_end(context, fd, NULL, BY_ROLE_SERVER);
}

/* Whoever has joined is told, and whoever comes yet, one after the other, with what was to listen for links. */
static void exhausted(void *argument) {
  struct by_control *control = argument;
  char text[TEXT_MOST];
  if (control->done) return; /* only helpers come */
  snprintf(text, sizeof text, "rank 0 (host %s) takes no connections: %s", control->job->members[0].host,
           banyan_error_text());
  by_connector_stop_listening(control->connector);
  refuse_all(control, BANYAN_ERR_SYSTEM, text);
}

static enum banyan_status open_root(struct by_control *control, const struct by_member *self) {
  struct by_job *job = control->job;
  struct by_address bound;
  int port = 0, listener;
  BY_TRY(by_dialer_check(job->settings.root, &port));
  enum banyan_status status = by_socket_listen(NULL, (struct by_port_range){port, port}, &listener, &bound);
  if (status == BANYAN_OK) status = by_acceptor_create(job->loop, listener, accepted, control, &control->acceptor);
  if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_ROOT is %s", job->settings.root);
  by_acceptor_on_exhaustion(control->acceptor, exhausted);
  control->of_rank = calloc(job->places, sizeof(struct end *));
  job->members = BY_ARENA_ARRAY(&job->arena, struct by_member, job->places);
  if (!control->of_rank || !job->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  job->members[0] = *self;
  control->joined = 1;
  return BANYAN_OK;
}

/* "2 of 4 ranks joined within 120 s; missing: 1, 3; they must reach ...": `when` is "within 120 s" or the like. */
static void describe_missing(const struct by_control *control, const char *when, struct by_text *out) {
  const struct by_job *job = control->job;
  uint32_t shown = 0, missing = job->size - control->joined;
  by_text_add(out, "%u of %u ranks joined %s; missing: ", control->joined, job->size, when);
  for (uint32_t r = 1; r < job->size && shown < MOST_NAMED; r++)
    if (!control->of_rank[r]) by_text_add(out, "%s%u", shown++ ? ", " : "", r);
  if (missing > shown) by_text_add(out, " and %u more", missing - shown);
  by_text_add(out, "; they must reach %s", job->settings.root);
  if (control->failed[0]) by_text_add(out, "; the last connection that failed: %s", control->failed);
}

static void others_too_late(struct by_control *control) {
  struct by_text all;
  char when[32], text[TEXT_MOST];
  by_text_init(&all);
  snprintf(when, sizeof when, "within %g s", control->job->settings.join_deadline);
  describe_missing(control, when, &all);
  (void)by_fail(BANYAN_ERR_TIMEOUT, "%s", by_text_get(&all)); /* which shortens it to what a message holds */
  snprintf(text, sizeof text, "%s", banyan_error_text());
  refuse_all(control, BANYAN_ERR_TIMEOUT, text);
  by_text_fini(&all);
}

/* ---- the others */

static enum banyan_status read_members(struct by_job *job, const void *payload, size_t length) {
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  uint32_t size = by_read_u32(&reader), self = by_read_u32(&reader), n = by_read_count(&reader, 4);
  bool fits = size <= n &&
              (job->role.kind != BY_MEMBER_RANK ? self >= size && self < n : size == job->size && self == job->rank);
  if (!fits) return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 lists %u ranks and %u members in all", size, n);
  job->size = size;
  job->rank = self;
  job->processes = n;
  job->members = BY_ARENA_ARRAY(&job->arena, struct by_member, n);
  if (!job->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_member_read(&reader, &job->arena, &job->members[i]));
  return by_reader_check(&reader, "the list of members");
}

/* How many processes there are is known only now. */
static bool make_room(struct by_control *control) {
  uint32_t n = control->job->processes;
  free(control->leavers.ranks);
  free(control->lost);
  control->leavers.ranks = calloc(n, sizeof *control->leavers.ranks);
  control->lost = calloc(n, sizeof *control->lost);
  return control->leavers.ranks && control->lost;
}

void by_control_heard_welcome(struct by_control *control, const void *payload, size_t length) {
  enum banyan_status status = read_members(control->job, payload, length);
  if (status == BANYAN_OK && !make_room(control)) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  if (status != BANYAN_OK) by_control_give_up(control, status, banyan_error_text());
  control->done = status == BANYAN_OK;
}

static void reached_root(void *context, int fd, const struct by_address *to) {
  struct by_control *control = context;
  if (!by_control_new_end(control, fd, to, BY_ROLE_CLIENT))
    by_dialer_failed(control->dialer, BANYAN_ERR_CONNECT, banyan_error_text(), RETRY_MS * BY_MILLISECOND);
}

/* Rank 0 may listen any time now. Where it hung up it is at another job still: that may last. */
static uint64_t pause_after(struct by_control *control, enum banyan_status status) {
  uint32_t hangups = status == BANYAN_ERR_PEER_DEAD ? control->hangups + 1 : 0;
  control->hangups = hangups < MOST_HANGUPS ? hangups : MOST_HANGUPS;
  return (1 + control->hangups) * RETRY_MS * BY_MILLISECOND;
}

static enum banyan_status reach_root(struct by_control *control) {
  const char *root = control->job->settings.root;
  struct by_dialer_options options = {
      .loop = control->job->loop, .targets = root, .connected = reached_root, .context = control};
  enum banyan_status status = by_dialer_create(&options, &control->dialer);
  return status == BANYAN_OK ? status : by_fail_within(status, "BANYAN_ROOT is %s", root);
}

static enum banyan_status root_too_late(const struct by_control *control) {
  const struct by_job *job = control->job;
  struct by_text tried;
  by_text_init(&tried);
  by_dialer_print(control->dialer, TRIED_MOST, &tried);
  enum banyan_status status =
      by_fail(BANYAN_ERR_TIMEOUT, "rank 0 did not answer within %g s; is it running, and can this host reach it? %s",
              job->settings.join_deadline, by_text_get(&tried));
  by_text_fini(&tried);
  return status;
}

/* ---- both */

/* Who waits wants to know what for. A rank that rank 0 knows says nothing: rank 0 does. */
static void report_waiting(const struct by_control *control, uint64_t left) {
  const struct by_job *job = control->job;
  struct by_text text;
  by_text_init(&text);
  if (job->rank == 0 && !control->waits_for_helpers)
    describe_missing(control, "so far", &text);
  else if (job->rank != 0 && !control->ends)
    by_dialer_print(control->dialer, TRIED_MOST, &text);
  if (text.length)
    by_warn("control", "%s%s; still trying for %.0f s (BANYAN_JOIN_DEADLINE)",
            job->rank ? "rank 0 is not reached yet: " : "", by_text_get(&text), by_clock_to_seconds(left));
  by_text_fini(&text);
}

/* Rank 0: who lost patience just before hearing that it is in comes again at once, the dead never. */
static void rank_left(struct by_control *control, uint32_t rank, const char *reason) {
  bool one_more = by_timer_is_set(&control->absence) && !control->of_rank[control->absent];
  control->of_rank[rank] = NULL;
  control->joined--;
  control->waits_for_helpers = false;
  if (one_more || control->status != BANYAN_OK) return;
  control->absent = rank;
  snprintf(control->text, sizeof control->text, "rank %u (host %s) left while the job was starting: %s", rank,
           control->job->members[rank].host, reason);
  by_loop_set_delay(control->job->loop, &control->absence, ABSENCE_MS * BY_MILLISECOND);
}

void by_control_absence_over(void *argument) {
  struct by_control *control = argument;
  char text[TEXT_MOST];
  if (control->done || control->of_rank[control->absent]) return;
  snprintf(text, sizeof text, "%s", control->text);
  refuse_all(control, BANYAN_ERR_ARGUMENT, text);
}

/* Somebody who is not this job's rank 0 answers, and nobody else will. */
static void give_up_if_refused(struct by_control *control) {
  enum banyan_status status = by_dialer_refusal(control->dialer);
  if (status == BANYAN_OK) return;
  struct by_text tried;
  by_text_init(&tried);
  by_dialer_print(control->dialer, TRIED_MOST, &tried);
  by_control_give_up(control, status, by_text_get(&tried));
  by_text_fini(&tried);
}

void by_control_lost_while_joining(struct end *end, enum banyan_status status, const char *reason) {
  struct by_control *control = end->control;
  bool root = control->job->rank == 0;
  if (root && by_control_is_helper(control, end->rank)) /* another one may come */
    by_control_helper_left(control, (uint32_t)end->rank);
  else if (root && end->rank > 0)
    rank_left(control, (uint32_t)end->rank, reason);
  else if (root)
    snprintf(control->failed, sizeof control->failed, "%s", reason);
  by_control_drop_end(end);
  if (root || control->status != BANYAN_OK) return;
  bool others = status != BANYAN_ERR_CONNECT && status != BANYAN_ERR_PEER_DEAD && status != BANYAN_ERR_TIMEOUT;
  by_dialer_failed(control->dialer, status, reason,
                   others ? REFUSED_MS * BY_MILLISECOND : pause_after(control, status));
  give_up_if_refused(control);
}

static bool has_all(const struct by_control *control) {
  return control->waits_for_helpers && control->job->size + control->helpers == control->job->places;
}

/* Rank 0 has the last word, because it knows who is missing: the others give it a moment more. The last one that joined
 * is greeted before all are told, which can take longer than its patience where they are many. */
enum banyan_status by_control_meet(struct by_control *control, const struct by_member *self) {
  struct by_job *job = control->job;
  BY_TRY(job->rank == 0 ? open_root(control, self) : reach_root(control));
  uint64_t until = by_loop_now(job->loop) + by_clock_from_seconds(job->settings.join_deadline);
  uint64_t report_at = by_loop_now(job->loop) + REPORT_MS * BY_MILLISECOND;
  if (job->rank != 0) until += GRACE_MS * BY_MILLISECOND;
  uint64_t helpers_until = 0;
  while (!control->done && control->status == BANYAN_OK) {
    uint64_t now = by_loop_now(job->loop);
    bool late = now >= until && !control->waits_for_helpers;
    if (!control->waits_for_helpers)
      helpers_until = 0;
    else if (!helpers_until)
      helpers_until = now + by_clock_from_seconds(job->settings.helper_deadline);
    if (has_all(control) || (helpers_until && now >= helpers_until)) {
      by_control_welcome(control);
      continue;
    }
    if (late && job->rank != 0) return root_too_late(control);
    if (late) {
      others_too_late(control);
      continue;
    }
    if (now >= report_at) {
      report_waiting(control, until - now);
      report_at = now + REPORT_EVERY_MS * BY_MILLISECOND;
    }
    BY_TRY(by_loop_run_once(job->loop, 100 * BY_MILLISECOND));
    if (job->rank != 0 && !control->done && control->status == BANYAN_OK) give_up_if_refused(control);
  }
  by_dialer_destroy(control->dialer);
  control->dialer = NULL;
  if (!control->done) {
    bool lacks = control->status == BANYAN_ERR_SYSTEM;
    uint64_t end = by_loop_now(job->loop) + (lacks ? TELLING_MS : 20) * BY_MILLISECOND;
    while (job->rank == 0 && by_loop_now(job->loop) < end) (void)!by_loop_run_once(job->loop, BY_MILLISECOND);
    return by_fail(control->status, "%s", control->text);
  }
  return BANYAN_OK;
}
