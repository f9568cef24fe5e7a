#include "control.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "control_trees.h"
#include "descriptor.h"
#include "log.h"
#include "socket.h"
#include "timeline.h"
#include "words.h"

enum { UNAUTHENTICATED = 96 }; /* connections beyond the number of ranks */

static void frame_came(void *context, uint16_t type, const void *payload, size_t length);
static void ended(void *context, enum banyan_status status, const char *reason);

/* ---- ends */

void by_control_give_up(struct by_control *control, enum banyan_status status, const char *text) {
  if (control->status != BANYAN_OK || control->done) return;
  control->status = status;
  snprintf(control->text, sizeof control->text, "%s", text);
}

struct end *by_control_new_end(struct by_control *control, int fd, const struct by_address *connecting,
                               enum by_role role) {
  struct end *end = calloc(1, sizeof *end);
  if (!end) {
    by_close(fd);
    return NULL;
  }
  *end = (struct end){.next = control->ends, .control = control, .rank = role == BY_ROLE_CLIENT ? 0 : -1};
  struct by_handshake_options handshake = {.role = role,
                                           .purpose = PURPOSE_CONTROL,
                                           .key = &control->key,
                                           .hello = control->hello,
                                           .hello_length = control->hello_length};
  struct by_stream_options options = {.loop = control->job->loop,
                                      .fd = fd,
                                      .connecting = connecting,
                                      .handshake = &handshake,
                                      .most_frame = MOST_FRAME,
                                      .most_queued = MOST_QUEUED,
                                      .admission = role == BY_ROLE_SERVER ? &control->admission : NULL,
                                      .quiet = role == BY_ROLE_SERVER,
                                      .opened = by_control_opened,
                                      .frame = frame_came,
                                      .ended = ended,
                                      .context = end};
  (void)!by_socket_set_nodelay(fd);
  (void)!by_socket_set_vigilant(fd);
  if (by_stream_create(&options, &end->stream) != BANYAN_OK) {
    by_warn("control", "a connection was dropped: %s", banyan_error_text());
    free(end);
    return NULL;
  }
  control->ends = end;
  return end;
}

static void free_end(struct end *end) {
  by_stream_destroy(end->stream);
  free(end);
}

void by_control_drop_end(struct end *end) {
  struct end **place = &end->control->ends;
  while (*place != end) place = &(*place)->next;
  *place = end->next;
  by_control_newcomer_lost(end);
  free_end(end);
}

/* The loop hears of the end. */
void by_control_cut(const struct end *end, const char *why) {
  by_error("control", "%s cannot be told what it must know, and is given up: %s", by_stream_get_name(end->stream), why);
  (void)shutdown(by_stream_get_fd(end->stream), SHUT_RDWR);
}

bool by_control_say(const struct end *end, enum message type, const void *bytes, size_t length) {
  if (end->over) return false;
  enum banyan_status status = by_stream_send(end->stream, (uint16_t)type, bytes, length);
  if (status == BANYAN_ERR_NO_MEMORY)
    by_control_cut(end, banyan_error_text());
  else if (status != BANYAN_OK) /* it is closed already */
    by_warn("control", "telling %s failed: %s", by_stream_get_name(end->stream), banyan_error_text());
  return status == BANYAN_OK;
}

void by_control_send_text(struct end *end, enum message type, enum banyan_status status, uint32_t process,
                          const char *text) {
  uint8_t bytes[TEXT_MOST + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_word_write(&writer, status, process, text);
  if (!writer.failed) (void)by_control_say(end, type, bytes, writer.length);
}

/* ---- the job's failure */

static void fail_here(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  struct by_job *job = control->job;
  if (atomic_load(&control->leaving)) return;
  if (!job->engine) { /* it came with the word that all have joined */
    control->status = status;
    snprintf(control->text, sizeof control->text, "%s", text);
    return;
  }
  by_job_lock(job);
  by_engine_fail(job->engine, status, process, text);
  pthread_cond_broadcast(&job->changed);
  by_job_unlock(job);
  by_job_wake(job);
  if (control->timeline) by_timeline_hurry(control->timeline);
}

/* Rank 0 tells everybody, others tell rank 0; once. */
static void spread(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  if (control->told) return;
  control->told = true;
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank >= 0 && !end->leaving) by_control_send_text(end, FAILED, status, process, text);
}

void by_control_heard_failure(struct by_control *control, enum banyan_status status, uint32_t process,
                              const char *text) {
  if (control->job->rank == 0) spread(control, status, process, text);
  control->told = true;
  fail_here(control, status, process, text);
}

void by_control_fail(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  spread(control, status, process, text);
  fail_here(control, status, process, text);
}

static void rank_died(struct by_control *control, uint32_t rank, const char *reason) {
  if (by_control_is_helper(control, rank)) {
    by_control_lose(control, rank, reason);
    return;
  }
  char text[TEXT_MOST]; /* it may come with the word that all have joined, before the job has names for them */
  snprintf(text, sizeof text, "rank %u (host %s) is gone: %s", rank, control->job->members[rank].host, reason);
  by_control_heard_failure(control, BANYAN_ERR_PEER_DEAD, rank, text);
}

/* ---- messages */

static void heard_text(struct end *end, uint16_t type, const void *payload, size_t length) {
  struct by_control *control = end->control;
  struct by_text_word word;
  if (by_text_word_read(payload, length, &word) != BANYAN_OK) {
    by_warn("control", "%s: malformed message; ignored", by_stream_get_name(end->stream));
    return;
  }
  if (type == REFUSED) by_control_give_up(control, word.status, word.text);
  bool helper = by_control_is_helper(control, end->rank) && control->job->rank == 0;
  if (type == FAILED && helper && word.status != BANYAN_ERR_MISMATCH)
    by_control_lose(control, (uint32_t)end->rank, word.text);
  else if (type == FAILED)
    by_control_heard_failure(control, word.status, word.process, word.text);
  if (type == SUSPECT && helper && !by_control_is_helper(control, word.process))
    by_control_lose(control, (uint32_t)end->rank, word.text); /* a link of its own may have broken */
  else if (type == SUSPECT && word.process < control->job->processes)
    by_control_suspect_here(control, word.process, word.text);
}

static void frame_came(void *context, uint16_t type, const void *payload, size_t length) {
  struct end *end = context;
  struct by_control *control = end->control;
  bool root = control->job->rank == 0;
  bool starting = type == WELCOME || type == REFUSED;
  if (root && end->rank < 0) return;                /* it was refused */
  if (!root && !control->done && !starting) return; /* it is about a job of which this rank is no part */
  if (type == LEAVING) {
    end->leaving = true;
    by_control_newcomer_lost(end);
    if (!root) atomic_store(&control->deaf, true);
    if (root && by_control_is_helper(control, end->rank))
      by_control_lose(control, (uint32_t)end->rank, "it left");
    else if (end->rank >= 0)
      by_control_heard_leaving(control, (uint32_t)end->rank);
    by_timeline_lost(control->timeline);
  } else if (type == LEFT && !root) {
    by_control_heard_left(end, payload, length);
  } else if ((type == PLAN || type == LOST || type == TREE || type == JOINED) && !root) {
    by_control_heard_word(control, type, payload, length);
  } else if (type == KNOWN && root) {
    by_control_heard_known(end);
  } else if (type == LISTEN) {
    if (control->done) by_control_heard_listen(control);
  } else if (type == CLASS && !root) {
    by_control_heard_class(control, payload, length);
  } else if (type == MOVE) {
    by_control_heard_move(end, payload, length);
  } else if (type == WELCOME && !root && !control->done) {
    by_control_heard_welcome(control, payload, length);
  } else if (type == ASK || type == DESCRIBE || type == DESCRIPTION) {
    if (control->done) by_control_heard_inquiry(end, type, payload, length);
  } else if (type == TIMELINE) {
    if (control->done) by_timeline_handle(control->timeline, (uint32_t)end->rank, payload, length);
  } else if (type == REFUSED || type == FAILED || type == SUSPECT) {
    heard_text(end, type, payload, length);
  } else {
    by_warn("control", "%s: message of unknown type %u; ignored", by_stream_get_name(end->stream), type);
  }
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct end *end = context;
  struct by_control *control = end->control;
  end->over = true;
  if (control->job->rank == 0 && !end->authenticated)
    by_repeats_warn(&control->rejected, "control", by_stream_get_name(end->stream), reason,
                    by_clock_to_seconds(by_loop_now(control->job->loop)));
  if (!control->done) {
    by_control_lost_while_joining(end, status, reason);
    return;
  }
  int64_t rank = end->rank;
  bool root = control->job->rank == 0; /* which can still tell the others, while it leaves itself */
  bool leaving = end->leaving || (!root && atomic_load(&control->leaving));
  if (rank > 0 && control->of_rank && control->of_rank[rank] == end) control->of_rank[rank] = NULL;
  by_control_drop_end(end);
  if (rank > 0 && root && !by_control_is_helper(control, rank))
    by_control_drop_moves_with(control, (uint32_t)rank, "a rank has left");
  by_timeline_lost(control->timeline);
  if (rank >= 0 && !leaving) rank_died(control, (uint32_t)rank, reason);
}

/* ---- the timeline's messages */

/* Of others, the only one there is: to rank 0. */
static struct end *find_end(const struct by_control *control, uint32_t process) {
  if (control->job->rank == 0) return control->of_rank[process];
  struct end *end = control->ends;
  while (end && (end->rank != (int64_t)process || end->over)) end = end->next;
  return end;
}

static enum banyan_status send_timeline(void *context, uint32_t process, const void *bytes, size_t length) {
  const struct end *end = find_end(context, process);
  if (!end || end->over) return by_fail(BANYAN_ERR_PEER_DEAD, "the connection has ended");
  return by_stream_send(end->stream, TIMELINE, bytes, length);
}

static bool takes_timeline(void *context, uint32_t process) {
  const struct by_control *control = context;
  const struct end *end = find_end(control, process);
  return end && !end->over && (control->job->rank != 0 || !end->leaving);
}

/* ---- joining */

enum banyan_status by_control_join(const struct by_control_options *options, struct by_control **out) {
  struct by_control *control = calloc(1, sizeof *control);
  const struct by_job *job = options->job;
  if (!control) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for joining");
  *control = (struct by_control){.job = options->job,
                                 .connector = options->connector,
                                 .timeline = options->timeline,
                                 .events = options->events,
                                 .key = *options->key,
                                 .given_version = options->plan_version};
  by_admission_init(&control->admission, UNAUTHENTICATED + job->size);
  by_timer_init(&control->absence, by_control_absence_over, control);
  by_timer_init(&control->grace, by_control_grace_over, control);
  by_timer_init(&control->answers, by_control_give_verdict, control);
  by_timer_init(&control->words_due, by_control_words_due, control);
  by_timer_init(&control->silence, by_control_silence_over, control);
  by_timer_init(&control->known_late, by_control_known_late, control);
  by_timer_init(&control->switches_due, by_control_switches_due, control);
  by_timer_init(&control->release, by_control_release_due, control);
  by_timer_init(&control->moves_due, by_control_moves_due, control);
  by_timer_init(&control->links_due, by_control_links_due, control);
  by_timer_init(&control->leavers.due, by_control_leavers_due, control);
  uint32_t places = job->role.kind == BY_MEMBER_RANK ? job->places : 1;
  control->leavers.ranks = calloc(places, sizeof *control->leavers.ranks);
  control->lost = calloc(places, sizeof *control->lost);
  if (!control->leavers.ranks || !control->lost) {
    by_control_destroy(control);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for joining");
  }
  struct by_writer writer;
  by_writer_init(&writer, control->hello, sizeof control->hello);
  struct by_join hello = {.rank = job->rank,
                          .size = job->size,
                          .plan = options->plan,
                          .plan_version = options->plan_version,
                          .member = *options->self};
  if (options->plan) snprintf(control->given_plan, sizeof control->given_plan, "%s", options->plan);
  by_join_write(&writer, &hello);
  control->hello_length = writer.failed ? 0 : writer.length;
  by_timeline_connect(control->timeline, &(struct by_timeline_peers){send_timeline, takes_timeline, control});
  enum banyan_status status = by_control_meet(control, options->self);
  if (status != BANYAN_OK) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "%s", banyan_error_text());
    by_control_destroy(control);
    return by_fail(status, "%s", text);
  }
  *out = control;
  return BANYAN_OK;
}

enum banyan_status by_control_check(const struct by_control *control) {
  return control->status == BANYAN_OK ? BANYAN_OK : by_fail(control->status, "%s", control->text);
}

/* ---- from other threads */

struct report {
  struct by_control *control;
  enum banyan_status status;
  uint32_t process;
  enum { FAILURE, SUSPICION, QUESTION, TELL_PLAN } kind;
  uint8_t *bytes;
  size_t length;
  char text[TEXT_MOST], awaited[TEXT_MOST];
};

static void tell_helpers(struct by_control *control, const void *bytes, size_t length) {
  for (struct end *end = control->ends; end; end = end->next)
    if (by_control_is_helper(control, end->rank) && !end->over &&
        control->job->members[end->rank].kind == BY_MEMBER_HELPER &&
        by_stream_send(end->stream, PLAN, bytes, length) != BANYAN_OK)
      by_control_lose(control, (uint32_t)end->rank, banyan_error_text());
}

static void handle_report(void *context) {
  struct report *report = context;
  if (report->kind == SUSPICION)
    by_control_suspect_here(report->control, report->process, report->text);
  else if (report->kind == QUESTION)
    by_control_ask_here(report->control, report->text, report->awaited);
  else if (report->kind == TELL_PLAN)
    tell_helpers(report->control, report->bytes, report->length);
  else
    spread(report->control, report->status, report->process, report->text);
  free(report->bytes);
  free(report);
}

static bool post(struct by_control *control, const struct report *what, const char *text) {
  struct report *report = malloc(sizeof *report);
  if (report) {
    *report = *what;
    snprintf(report->text, sizeof report->text, "%s", text);
    if (by_loop_post(control->job->loop, handle_report, report) == BANYAN_OK) return true;
  }
  free(report);
  by_error("control", "this could not be told to the others: %s", text);
  return false;
}

void by_control_failed(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  struct report report = {.control = control, .status = status, .process = process};
  post(control, &report, text);
}

bool by_control_suspect(struct by_control *control, uint32_t process, const char *text) {
  struct report report = {.control = control, .process = process, .kind = SUSPICION};
  return post(control, &report, text);
}

bool by_control_ask(struct by_control *control, const char *late, const char *awaited) {
  struct report report = {.control = control, .kind = QUESTION};
  if (atomic_load(&control->deaf) || atomic_load(&control->leaving)) return false;
  snprintf(report.awaited, sizeof report.awaited, "%s", awaited ? awaited : "");
  return post(control, &report, late ? late : "");
}

void by_control_tell_plan(struct by_control *control, const void *bytes, size_t length) {
  struct report report = {.control = control, .kind = TELL_PLAN, .bytes = malloc(length), .length = length};
  if (report.bytes) memcpy(report.bytes, bytes, length);
  if (!report.bytes || !post(control, &report, "the plan of a communicator")) free(report.bytes);
}

bool by_control_is_over(const struct by_control *control) {
  return atomic_load(&control->deaf);
}

void by_control_destroy(struct by_control *control) {
  if (!control) return;
  by_control_tell_leavers(control);
  while (control->ends) {
    struct end *end = control->ends;
    control->ends = end->next;
    free_end(end);
  }
  by_acceptor_destroy(control->acceptor);
  by_repeats_flush(&control->rejected, "control", INFINITY);
  by_dialer_destroy(control->dialer);
  by_loop_cancel_timer(&control->absence);
  by_loop_cancel_timer(&control->grace);
  by_loop_cancel_timer(&control->answers);
  by_loop_cancel_timer(&control->leavers.due);
  by_loop_cancel_timer(&control->words_due);
  by_loop_cancel_timer(&control->silence);
  by_loop_cancel_timer(&control->known_late);
  by_loop_cancel_timer(&control->release);
  by_loop_cancel_timer(&control->moves_due);
  by_loop_cancel_timer(&control->links_due);
  by_control_forget_links(control);
  by_control_forget_moves(control);
  by_control_forget_newcomers(control);
  by_control_forget_words(control);
  by_control_forget_trees(control);
  free(control->of_rank);
  free(control->lost);
  free(control->leavers.ranks);
  by_control_forget_suspects(control);
  by_inquiry_destroy(control->inquiry);
  free(control);
}
