#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "control_parts.h"
#include "log.h"
#include "socket.h"

static void frame_came(void *context, uint16_t type, const void *payload, size_t length);
static void ended(void *context, enum banyan_status status, const char *reason);
static void opened(void *context, uint8_t purpose, const void *hello, size_t length);

/* ---- ends */

static void give_up(struct by_control *control, enum banyan_status status, const char *text) {
  if (control->status != BANYAN_OK || control->done) return;
  control->status = status;
  snprintf(control->text, sizeof control->text, "%s", text);
}

static struct end *new_end(struct by_control *control, int fd, const struct by_address *connecting, enum by_role role) {
  struct end *end = calloc(1, sizeof *end);
  if (!end) {
    close(fd);
    return NULL;
  }
  *end = (struct end){.next = control->ends, .control = control, .rank = role == BY_ROLE_CLIENT ? 0 : -1};
  struct by_handshake_options handshake = {.role = role,
                                           .purpose = PURPOSE_CONTROL,
                                           .key = &control->key,
                                           .hello = control->hello,
                                           .hello_length = control->hello_length};
  struct by_stream_options options = {.loop = control->context->loop,
                                      .fd = fd,
                                      .connecting = connecting,
                                      .handshake = &handshake,
                                      .most_frame = MOST_FRAME,
                                      .most_queued = MOST_QUEUED,
                                      .opened = opened,
                                      .frame = frame_came,
                                      .ended = ended,
                                      .context = end};
  (void)!by_socket_set_nodelay(fd);
  (void)!by_socket_set_keepalive(fd, 5, 2, 3);
  /* keepalive does not probe while something is on its way, and inquiries always are; here somebody always reads */
  (void)!by_socket_set_user_timeout(fd, VANISHED_MS);
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

static void drop_end(struct end *end) {
  struct end **place = &end->control->ends;
  while (*place != end) place = &(*place)->next;
  *place = end->next;
  free_end(end);
}

void by_control_send_text(struct end *end, enum message type, enum banyan_status status, uint32_t process,
                          const char *text) {
  uint8_t bytes[TEXT_MOST + 64];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_u32(&writer, (uint32_t)status);
  by_write_u32(&writer, process);
  by_write_string(&writer, text);
  if (writer.failed || end->over) return;
  if (by_stream_send(end->stream, (uint16_t)type, bytes, writer.length) != BANYAN_OK)
    by_warn("control", "telling %s failed: %s", by_stream_get_name(end->stream), banyan_error_text());
}

/* ---- the job's failure */

static void fail_here(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  struct by_context *context = control->context;
  if (atomic_load(&control->leaving)) return;
  if (!context->engine) { /* it came with the word that all have joined */
    control->status = status;
    snprintf(control->text, sizeof control->text, "%s", text);
    return;
  }
  by_context_lock(context);
  by_engine_fail(context->engine, status, process, text);
  pthread_cond_broadcast(&context->changed);
  by_context_unlock(context);
  by_context_wake(context);
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
  if (control->context->rank == 0) spread(control, status, process, text);
  control->told = true;
  fail_here(control, status, process, text);
}

void by_control_fail(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  spread(control, status, process, text);
  fail_here(control, status, process, text);
}

static void rank_died(struct by_control *control, uint32_t rank, const char *reason) {
  char text[TEXT_MOST]; /* it may come with the word that all have joined, before the context has names for them */
  snprintf(text, sizeof text, "rank %u (host %s) is gone: %s", rank, control->context->members[rank].host, reason);
  by_control_heard_failure(control, BANYAN_ERR_PEER_DEAD, rank, text);
}

/* ---- messages */

static void heard_text(struct end *end, uint16_t type, const void *payload, size_t length) {
  struct by_control *control = end->control;
  struct by_reader reader;
  char text[TEXT_MOST];
  by_reader_init(&reader, payload, length);
  enum banyan_status status = (enum banyan_status)by_read_u32(&reader);
  uint32_t process = by_read_u32(&reader);
  by_read_string(&reader, text, sizeof text);
  if (by_reader_check(&reader, "a control message") != BANYAN_OK || status == BANYAN_OK) {
    by_warn("control", "%s: malformed message; ignored", by_stream_get_name(end->stream));
    return;
  }
  if (type == REFUSED) give_up(control, status, text);
  if (type == FAILED) by_control_heard_failure(control, status, process, text);
  if (type == SUSPECT && process < control->context->size) by_control_suspect_here(control, process, text);
}

static enum banyan_status read_members(struct by_context *context, const void *payload, size_t length) {
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  uint32_t n = by_read_u32(&reader);
  if (n != context->size) return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 lists %u members, not %u", n, context->size);
  context->members = BY_ARENA_ARRAY(&context->arena, struct by_member, n);
  if (!context->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_member_read(&reader, &context->arena, &context->members[i]));
  return by_reader_check(&reader, "the list of members");
}

static void frame_came(void *context, uint16_t type, const void *payload, size_t length) {
  struct end *end = context;
  struct by_control *control = end->control;
  bool root = control->context->rank == 0;
  bool starting = type == WELCOME || type == REFUSED;
  if (root && end->rank < 0) return;                /* it was refused */
  if (!root && !control->done && !starting) return; /* it is about a job of which this rank is no part */
  if (type == LEAVING) {
    end->leaving = true;
    if (!root) atomic_store(&control->deaf, true);
    if (end->rank >= 0) by_control_heard_leaving(control, (uint32_t)end->rank);
  } else if (type == LEFT && !root) {
    by_control_heard_left(end, payload, length);
  } else if (type == WELCOME && !root && !control->done) {
    enum banyan_status status = read_members(control->context, payload, length);
    if (status != BANYAN_OK) give_up(control, status, banyan_error_text());
    control->done = status == BANYAN_OK;
  } else if (type == ASK || type == DESCRIBE || type == DESCRIPTION) {
    if (control->done) by_control_heard_inquiry(end, type, payload, length);
  } else if (type == REFUSED || type == FAILED || type == SUSPECT) {
    heard_text(end, type, payload, length);
  } else {
    by_warn("control", "%s: message of unknown type %u; ignored", by_stream_get_name(end->stream), type);
  }
}

/* ---- meeting at rank 0 */

static void refuse(struct end *end, const char *text) {
  by_warn("control", "%s: %s", by_stream_get_name(end->stream), text);
  by_control_send_text(end, REFUSED, BANYAN_ERR_ARGUMENT, 0, text);
  by_stream_finish(end->stream);
}

/* The job cannot start, because two processes claim the same place, or one is missing: everybody hears of it. */
static void refuse_all(struct by_control *control, enum banyan_status status, const char *text) {
  for (struct end *end = control->ends; end; end = end->next) by_control_send_text(end, REFUSED, status, 0, text);
  give_up(control, status, text);
}

static void welcome_all(struct by_control *control) {
  struct by_context *context = control->context;
  struct by_writer measure, writer;
  uint8_t *bytes = NULL;
  by_writer_init(&measure, NULL, 0);
  by_write_u32(&measure, context->size);
  for (uint32_t i = 0; i < context->size; i++) by_member_write(&measure, &context->members[i]);
  bytes = malloc(measure.length);
  if (!bytes) {
    give_up(control, BANYAN_ERR_NO_MEMORY, "out of memory for the list of members");
    return;
  }
  by_writer_init(&writer, bytes, measure.length);
  by_write_u32(&writer, context->size);
  for (uint32_t i = 0; i < context->size; i++) by_member_write(&writer, &context->members[i]);
  for (uint32_t r = 1; r < context->size; r++)
    if (by_stream_send(control->of_rank[r]->stream, WELCOME, bytes, writer.length) != BANYAN_OK)
      give_up(control, BANYAN_ERR_CONNECT, banyan_error_text());
  free(bytes);
  control->done = control->status == BANYAN_OK;
}

/* Who has left, or died, comes for the next job at this address: its rank 0 will listen here when this one is over. */
static bool comes_too_early(const struct by_control *control, uint32_t rank) {
  if (!control->done || rank == 0 || rank >= control->context->size) return false;
  return !control->of_rank[rank] || control->of_rank[rank]->leaving;
}

static void rank_joins(struct end *end, const void *hello, size_t length) {
  struct by_control *control = end->control;
  struct by_context *context = control->context;
  struct by_reader reader;
  char text[TEXT_MOST];
  if (control->status != BANYAN_OK) { /* the start has failed already: this one hears of it too */
    refuse(end, control->text);
    return;
  }
  by_reader_init(&reader, hello, length);
  uint32_t rank = by_read_u32(&reader), size = by_read_u32(&reader);
  struct by_member member = {0};
  if (comes_too_early(control, rank)) {
    by_stream_finish(end->stream);
    return;
  }
  if (by_member_read(&reader, &context->arena, &member) != BANYAN_OK ||
      by_reader_check(&reader, "a hello") != BANYAN_OK) {
    refuse(end, "a malformed hello");
    return;
  }
  if (size != context->size) {
    snprintf(text, sizeof text,
             "a rank on host %s was started with %u ranks, rank 0 with %u: start all with the same number", member.host,
             size, context->size);
    refuse_all(control, BANYAN_ERR_ARGUMENT, text);
    return;
  }
  if (rank == 0 || rank >= size || control->of_rank[rank]) {
    snprintf(text, sizeof text, "rank %u was started twice%s%s: give every process a rank of its own", rank,
             rank < size && rank ? ", the second time on host " : " (or out of range) on host ", member.host);
    if (control->done)
      refuse(end, text);
    else
      refuse_all(control, BANYAN_ERR_ARGUMENT, text);
    return;
  }
  end->rank = rank;
  control->of_rank[rank] = end;
  context->members[rank] = member;
  if (++control->joined == size) welcome_all(control);
}

/* It may have lost patience while this process was held up, and come again since. */
static bool has_closed(const struct end *end) {
  char byte;
  ssize_t n = recv(by_stream_get_fd(end->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct end *end = context;
  struct by_control *control = end->control;
  if (control->context->rank != 0) return;
  if (purpose != PURPOSE_CONTROL)
    refuse(end, "a connection that is not for meeting");
  else if (has_closed(end))
    by_stream_finish(end->stream);
  else
    rank_joins(end, hello, length);
}

/* Whether an address is known. A name may be one that its network does not know yet: of a container that only starts.
 * Looking it up blocks; so early, nothing else is to be done here. */
static bool find_root(struct by_control *control) {
  if (control->n_root) return true;
  if (by_address_resolve(control->context->settings.root, control->root, 8, &control->n_root) == BANYAN_OK) return true;
  control->n_root = 0;
  if (!*control->text) by_warn("control", "rank 0 is not found yet: %s", banyan_error_text());
  snprintf(control->text, sizeof control->text, "%s", banyan_error_text());
  return false;
}

static void try_root(void *context) {
  struct by_control *control = context;
  if (!find_root(control)) {
    by_loop_set_delay(control->context->loop, &control->retry, RESOLVE_MS * BY_MILLISECOND);
    return;
  }
  const struct by_address *to = &control->root[control->next_root++ % control->n_root];
  int fd = -1;
  if (by_socket_connect_start(to, NULL, &fd) != BANYAN_OK || !new_end(control, fd, to, BY_ROLE_CLIENT))
    by_loop_set_delay(control->context->loop, &control->retry, RETRY_MS * BY_MILLISECOND);
}

/* Rank 0 may listen any time now. Where it hung up it is at another job still: that may last. */
static uint64_t pause_after(struct by_control *control, enum banyan_status status) {
  uint32_t hangups = status == BANYAN_ERR_PEER_DEAD ? control->hangups + 1 : 0;
  control->hangups = hangups < MOST_HANGUPS ? hangups : MOST_HANGUPS;
  return (1 + control->hangups) * RETRY_MS * BY_MILLISECOND;
}

static void lost_while_joining(struct end *end, enum banyan_status status, const char *reason) {
  struct by_control *control = end->control;
  bool root = control->context->rank == 0;
  if (root && end->rank > 0) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "rank %lld (host %s) left while the job was starting: %s", (long long)end->rank,
             control->context->members[end->rank].host, reason);
    refuse_all(control, BANYAN_ERR_ARGUMENT, text);
    control->of_rank[end->rank] = NULL;
  }
  bool again =
      !root && (status == BANYAN_ERR_CONNECT || status == BANYAN_ERR_PEER_DEAD || status == BANYAN_ERR_TIMEOUT);
  if (!root && !again) give_up(control, status, reason);
  if (again) snprintf(control->text, sizeof control->text, "%s", reason);
  drop_end(end);
  if (again) by_loop_set_delay(control->context->loop, &control->retry, pause_after(control, status));
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct end *end = context;
  struct by_control *control = end->control;
  end->over = true;
  if (!control->done) {
    lost_while_joining(end, status, reason);
    return;
  }
  int64_t rank = end->rank;
  bool root = control->context->rank == 0; /* which can still tell the others, while it leaves itself */
  bool leaving = end->leaving || (!root && atomic_load(&control->leaving));
  if (rank > 0 && control->of_rank && control->of_rank[rank] == end) control->of_rank[rank] = NULL;
  drop_end(end);
  if (rank >= 0 && !leaving) rank_died(control, (uint32_t)rank, reason);
}

/* Connections that have not said which rank they are: ranks do so at once, strangers never. */
static void drop_oldest_stranger(struct by_control *control) {
  uint32_t n = 0;
  struct end *oldest = NULL;
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank < 0) oldest = end, n++;
  if (n <= by_acceptor_most_strangers(STRANGERS + control->context->size)) return;
  by_log(control->crowded ? BY_LOG_DEBUG : BY_LOG_WARN, "control",
         "%u connections at once are of no rank; the oldest ones are closed", n);
  control->crowded = true;
  drop_end(oldest);
}

static void accepted(void *context, int fd) {
  struct by_control *control = context;
  if (new_end(control, fd, NULL, BY_ROLE_SERVER)) drop_oldest_stranger(control);
}

static enum banyan_status open_root(struct by_control *control) {
  struct by_context *context = control->context;
  struct by_address bound;
  char host[BY_HOST_TEXT];
  int port = 0, listener;
  BY_TRY(by_address_split(context->settings.root, host, &port));
  enum banyan_status status = by_socket_listen(NULL, (struct by_port_range){port, port}, &listener, &bound);
  if (status == BANYAN_OK) status = by_acceptor_create(context->loop, listener, accepted, control, &control->acceptor);
  if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_ROOT is %s", context->settings.root);
  control->of_rank = BY_ARENA_ARRAY(&context->arena, struct end *, context->size);
  context->members = BY_ARENA_ARRAY(&context->arena, struct by_member, context->size);
  if (!control->of_rank || !context->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  control->joined = 1;
  return BANYAN_OK;
}

static enum banyan_status reach_root(struct by_control *control) {
  const char *root = control->context->settings.root;
  char host[BY_HOST_TEXT];
  int port;
  enum banyan_status status = by_address_split(root, host, &port);
  if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_ROOT is %s", root);
  try_root(control);
  return BANYAN_OK;
}

static enum banyan_status root_too_late(const struct by_control *control) {
  const struct by_context *context = control->context;
  return by_fail(
      BANYAN_ERR_TIMEOUT, "rank 0 at %s did not answer within %g s; is it running, and can this host reach it?%s%s",
      context->settings.root, context->settings.join_deadline, *control->text ? " Last: " : "", control->text);
}

static void others_too_late(struct by_control *control) {
  const struct by_context *context = control->context;
  char list[200] = "", text[TEXT_MOST];
  size_t used = 0;
  for (uint32_t r = 1; r < context->size && used < 160; r++)
    if (!control->of_rank[r]) used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", r);
  snprintf(text, sizeof text, "%u of %u ranks joined within %g s; missing: %s", control->joined, context->size,
           context->settings.join_deadline, list);
  refuse_all(control, BANYAN_ERR_TIMEOUT, text);
}

/* Rank 0 has the last word, because it knows who is missing: the others give it a moment more. */
static enum banyan_status meet(struct by_control *control) {
  struct by_context *context = control->context;
  uint64_t until = by_loop_now(context->loop) + by_clock_from_seconds(context->settings.join_deadline);
  if (context->rank != 0) until += GRACE_MS * BY_MILLISECOND;
  while (!control->done && control->status == BANYAN_OK) {
    bool late = by_loop_now(context->loop) >= until;
    if (late && context->rank != 0) return root_too_late(control);
    if (late)
      others_too_late(control);
    else
      BY_TRY(by_loop_run_once(context->loop, 100 * BY_MILLISECOND));
  }
  if (control->status != BANYAN_OK) {
    for (int i = 0; i < 20 && context->rank == 0; i++) (void)!by_loop_run_once(context->loop, BY_MILLISECOND);
    return by_fail(control->status, "%s", control->text);
  }
  return BANYAN_OK;
}

enum banyan_status by_control_join(struct by_context *context, const struct by_key *key, const struct by_member *self,
                                   struct by_control **out) {
  struct by_control *control = calloc(1, sizeof *control);
  if (!control) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for joining");
  *control = (struct by_control){.context = context, .key = *key};
  by_timer_init(&control->retry, try_root, control);
  by_timer_init(&control->grace, by_control_grace_over, control);
  by_timer_init(&control->answers, by_control_give_verdict, control);
  by_timer_init(&control->leavers.due, by_control_leavers_due, control);
  control->leavers.ranks = calloc(context->size, sizeof *control->leavers.ranks);
  if (!control->leavers.ranks) {
    by_control_destroy(control);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for joining");
  }
  struct by_writer writer;
  by_writer_init(&writer, control->hello, sizeof control->hello);
  by_write_u32(&writer, context->rank);
  by_write_u32(&writer, context->size);
  by_member_write(&writer, self);
  control->hello_length = writer.failed ? 0 : writer.length;
  enum banyan_status status = context->rank == 0 ? open_root(control) : reach_root(control);
  if (status == BANYAN_OK && context->rank == 0) context->members[0] = *self;
  if (status == BANYAN_OK) status = meet(control);
  if (status != BANYAN_OK) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "%s", banyan_error_text());
    by_control_destroy(control);
    return by_fail(status, "%s", text);
  }
  *out = control;
  return BANYAN_OK;
}

/* ---- from other threads */

struct report {
  struct by_control *control;
  enum banyan_status status;
  uint32_t process;
  enum { FAILURE, SUSPICION, QUESTION } kind;
  char text[TEXT_MOST], awaited[TEXT_MOST];
};

static void handle_report(void *context) {
  struct report *report = context;
  if (report->kind == SUSPICION)
    by_control_suspect_here(report->control, report->process, report->text);
  else if (report->kind == QUESTION)
    by_control_ask_here(report->control, report->text, report->awaited);
  else
    spread(report->control, report->status, report->process, report->text);
  free(report);
}

static bool post(struct by_control *control, const struct report *what, const char *text) {
  struct report *report = malloc(sizeof *report);
  if (report) {
    *report = *what;
    snprintf(report->text, sizeof report->text, "%s", text);
    if (by_loop_post(control->context->loop, handle_report, report) == BANYAN_OK) return true;
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

void by_control_destroy(struct by_control *control) {
  if (!control) return;
  by_control_tell_leavers(control);
  while (control->ends) {
    struct end *end = control->ends;
    control->ends = end->next;
    free_end(end);
  }
  by_acceptor_destroy(control->acceptor);
  by_loop_cancel_timer(&control->retry);
  by_loop_cancel_timer(&control->grace);
  by_loop_cancel_timer(&control->answers);
  by_loop_cancel_timer(&control->leavers.due);
  free(control->leavers.ranks);
  by_control_forget_suspects(control);
  by_inquiry_destroy(control->inquiry);
  free(control);
}
