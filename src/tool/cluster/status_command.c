/* `banyan status`: what a switch does, or a manager. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "lease_words.h"
#include "loop.h"
#include "manager_watch.h"
#include "options.h"
#include "path_socket.h"
#include "socket.h"
#include "stream.h"
#include "switch_control.h"
#include "switch_place.h"
#include "switch_status.h"

struct status_options {
  const char *secret_file, *manager, *token_file, *ca_file;
  bool json, watch;
};

#define AT(member) offsetof(struct status_options, member)

static const struct by_option options[] = {
    {"json", 0, BY_OPTION_FLAG, AT(json), NULL, "one JSON value a line", 0, 0},
    {"watch", 'w', BY_OPTION_FLAG, AT(watch), NULL, "again every second, with what came since, until it is interrupted",
     0, 0},
    {"secret-file", 0, BY_OPTION_TEXT, AT(secret_file), "FILE", "holds the switch's secret (BANYAN_SWITCH_KEY)", 0, 0},
    {"manager", 'm', BY_OPTION_TEXT, AT(manager), "URL",
     "of a manager's page: shows its jobs, plans, links and hosts instead", 0, 0},
    {"token-file", 0, BY_OPTION_TEXT, AT(token_file), "FILE", "holds the token of the manager's page", 0, 0},
    {"ca-file", 0, BY_OPTION_TEXT, AT(ca_file), "FILE", "certificates of who signed the manager's, for https", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan status",
    .usage = "[ADDRESS[:PORT] | PATH | --manager URL]",
    .about = "Shows what a switch (`banyan switch`) does: which jobs have cells there, and what\n"
             "happened to the fragments that came. Without an operand the one of this machine.\n"
             "A switch that is asked over the network wants its secret.\n"
             "\n"
             "With --manager what a manager (`banyan manager --http`) does with its cluster,\n"
             "in as many columns as the terminal has.\n"
             "\n"
             "Returns 0, or 1 if nobody answers within 5 s.",
    .options = options,
    .most_operands = 1,
};

/* One question over a connection of its own. */
struct question {
  struct by_loop *loop;
  struct by_stream *stream;
  struct by_timer deadline;
  enum banyan_status status;
  json_t *answer;
};

static void end_question(struct question *q, enum banyan_status status) {
  q->status = status;
  by_loop_stop(q->loop);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  static const char ask[] = "{\"do\": \"status\"}";
  struct question *q = context;
  enum banyan_status status = by_stream_send(q->stream, 0, ask, sizeof ask - 1);
  if (status != BANYAN_OK) end_question(q, status);
}

static void answered(void *context, uint16_t type, const void *line, size_t length) {
  struct question *q = context;
  if (!q->answer) end_question(q, by_switch_status_read(line, length, &q->answer));
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct question *q = context;
  if (!q->answer) end_question(q, by_fail(status, "%s", reason));
}

static void too_late(void *context) {
  end_question(context, by_fail(BANYAN_ERR_TIMEOUT, "the switch does not answer"));
}

static enum banyan_status connect_to(const struct by_switch_place *place, int *fd) {
  return place->path ? by_path_socket_connect(place->path, "switch", fd) : by_socket_connect_start(&place->address, fd);
}

static enum banyan_status begin(struct question *q, const struct by_switch_place *place, const struct by_key *key) {
  struct by_handshake_options handshake = {
      .role = BY_ROLE_CLIENT, .purpose = BY_LEASE_PURPOSE, .key = key, .hello = ""};
  struct by_stream_options of_stream = {.loop = q->loop,
                                        .connecting = place->path ? NULL : &place->address,
                                        .handshake = key && !place->path ? &handshake : NULL,
                                        .most_frame = BY_LEASE_LINE,
                                        .most_line = BY_LEASE_REPLY,
                                        .most_queued = 2 * BY_LEASE_LINE,
                                        .opened = opened,
                                        .frame = answered,
                                        .ended = ended,
                                        .context = q};
  by_timer_init(&q->deadline, too_late, q);
  BY_TRY(connect_to(place, &of_stream.fd));
  BY_TRY(by_stream_create(&of_stream, &q->stream));
  by_loop_set_delay(q->loop, &q->deadline, 5 * BY_SECOND);
  if (place->path) opened(q, 0, NULL, 0);
  return BANYAN_OK;
}

static enum banyan_status ask(const struct by_switch_place *place, const struct by_key *key, json_t **out) {
  struct question q = {0};
  BY_TRY(by_loop_create(&by_clock_system, &q.loop));
  enum banyan_status status = begin(&q, place, key);
  if (status == BANYAN_OK) status = by_loop_run(q.loop);
  if (status == BANYAN_OK) status = q.status;
  by_stream_destroy(q.stream);
  by_loop_cancel_timer(&q.deadline);
  by_loop_destroy(q.loop);
  *out = q.answer;
  return status;
}

/* Only a switch that is asked from its own machine may have no secret. */
static enum banyan_status check_secret(const struct by_switch_place *place, bool has_key) {
  char text[BY_ADDRESS_TEXT];
  if (place->path || has_key || by_address_is_loopback(&place->address)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the switch at %s is asked over the network, which needs its secret: give --secret-file FILE or set "
                 "BANYAN_SWITCH_KEY",
                 by_address_print(&place->address, text));
}

/* Every second, or once. */
static enum banyan_status show(const struct status_options *asked, const struct by_switch_place *place,
                               const struct by_key *key) {
  json_t *before = NULL, *now = NULL;
  enum banyan_status status = BANYAN_OK;
  do {
    if (before) sleep(1);
    status = ask(place, key, &now);
    if (status != BANYAN_OK) break;
    if (asked->json)
      by_switch_status_print_json(now);
    else
      by_switch_status_print(now, before);
    fflush(stdout);
    json_decref(before);
    before = now;
  } while (asked->watch && !ferror(stdout));
  json_decref(before);
  return status;
}

int by_cli_status(int argc, char **argv) {
  struct status_options asked = {0};
  struct by_operands operands;
  struct by_switch_place place = {.path = BY_SWITCH_SOCKET};
  struct by_key key;
  bool has_key;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  if (asked.manager) {
    struct by_manager_watch watch = {{asked.manager, asked.token_file, asked.ca_file}, asked.json, asked.watch};
    return by_manager_watch_run(&watch) ? by_options_failure(&command, banyan_error_text()) : 0;
  }
  enum banyan_status status = by_switch_secret(asked.secret_file, &key, &has_key);
  if (!status && operands.count) status = by_switch_place_parse(operands.items[0], &place);
  if (!status) status = check_secret(&place, has_key);
  if (!status) status = show(&asked, &place, has_key ? &key : NULL);
  explicit_bzero(&key, sizeof key);
  if (!status) return 0;
  exit_code = by_options_failure(&command, banyan_error_text());
  if (!operands.count)
    fprintf(stderr, "For a cluster: `banyan status --manager URL`, and `banyan agent status` for this host.\n");
  else if (!place.path && !has_key && status != BANYAN_ERR_ARGUMENT)
    fprintf(stderr, "If the switch has a secret: --secret-file FILE, or BANYAN_SWITCH_KEY.\n");
  return exit_code;
}
