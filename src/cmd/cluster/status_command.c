/* `banyan status`: prints the state of a switch or of a manager. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define CURL_DISABLE_TYPECHECK /* It would make macros of the functions. */
#include <curl/curl.h>

#include "clock.h"
#include "commands.h"
#include "fail.h"
#include "job_key.h"
#include "json_doc.h"
#include "library.h"
#include "loop.h"
#include "output.h"
#include "process_identity.h"
#include "reservation.h"
#include "socket.h"
#include "status_print.h"
#include "stream.h"
#include "switch_control.h"
#include "text.h"
#include "web_server.h"

#define LOCAL_MANAGER "http://127.0.0.1:8420" /* The address that the documents name for a manager's page. */

struct status_options {
  const char *secret_file, *manager, *token_file, *ca_file;
  bool json, watch;
};

/* ---- asking a manager over HTTP for the state that its page shows */

enum { MAX_STATE = 64 << 20 };

#define FUNCTIONS(each)                                                                                                \
  each(curl_easy_cleanup) each(curl_easy_getinfo) each(curl_easy_init) each(curl_easy_perform) each(curl_easy_setopt)  \
      each(curl_easy_strerror) each(curl_slist_append) each(curl_slist_free_all) each(curl_url) each(curl_url_cleanup) \
          each(curl_url_set)

struct curl_functions {
  FUNCTIONS(BY_LIBRARY_MEMBER)
};

struct client {
  struct curl_functions curl;
  CURL *handle;
  CURLU *place;
  struct curl_slist *headers;
  const char *url; /* "http://127.0.0.1:8420"; a path behind the port is ignored. */
  struct by_text answer;
  char error[CURL_ERROR_SIZE];
};

static size_t receive_bytes(const char *data, size_t size, size_t n, void *context) {
  struct client *client = context;
  if (client->answer.length + n > MAX_STATE) return 0;
  by_text_add(&client->answer, "%.*s", (int)n, data);
  return client->answer.failed ? 0 : n;
}

static enum banyan_status set_token(struct client *client, const char *file) {
  struct by_token token;
  char header[sizeof token.text + 32];
  if (!file) return BANYAN_OK;
  BY_TRY(by_token_read(file, &token));
  snprintf(header, sizeof header, "Authorization: Bearer %s", token.text);
  client->headers = client->curl.curl_slist_append(NULL, header);
  explicit_bzero(header, sizeof header);
  explicit_bzero(&token, sizeof token);
  return client->headers ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
}

/* Loads libcurl. The client must be finished, also after a failure. */
static enum banyan_status client_init(struct client *client, const struct status_options *asked) {
  static const char *const names[] = {FUNCTIONS(BY_LIBRARY_NAME)};
  const struct curl_functions *curl = &client->curl;
  *client = (struct client){.url = asked->manager};
  BY_TRY(by_library_load("asking a manager", "libcurl.so.4", "libcurl4", names, sizeof names / sizeof *names,
                         &client->curl));
  BY_TRY(set_token(client, asked->token_file));
  client->place = curl->curl_url();
  if (!client->place) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  /* Users may copy the page's address with or without a path behind the port. */
  if (curl->curl_url_set(client->place, CURLUPART_URL, client->url, CURLU_DEFAULT_SCHEME | CURLU_GUESS_SCHEME) ||
      curl->curl_url_set(client->place, CURLUPART_PATH, "/state", 0) ||
      curl->curl_url_set(client->place, CURLUPART_QUERY, NULL, 0) ||
      curl->curl_url_set(client->place, CURLUPART_FRAGMENT, NULL, 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is not a manager's address, such as http://127.0.0.1:8420",
                   client->url);
  client->handle = curl->curl_easy_init();
  if (!client->handle) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  CURLcode code = curl->curl_easy_setopt(client->handle, CURLOPT_CURLU, client->place);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_HTTPHEADER, client->headers);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_TIMEOUT, 5L);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_NOSIGNAL, 1L);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_WRITEFUNCTION, receive_bytes);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_WRITEDATA, client);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_ERRORBUFFER, client->error);
  if (!code && asked->ca_file) code = curl->curl_easy_setopt(client->handle, CURLOPT_CAINFO, asked->ca_file);
  return code ? by_fail(BANYAN_ERR_UNSUPPORTED, "libcurl: %s", curl->curl_easy_strerror(code)) : BANYAN_OK;
}

static void client_fini(struct client *client) {
  if (client->handle) client->curl.curl_easy_cleanup(client->handle);
  if (client->place) client->curl.curl_url_cleanup(client->place);
  if (client->headers) client->curl.curl_slist_free_all(client->headers);
  by_text_fini(&client->answer);
}

static enum banyan_status judge_answer(struct client *client, CURLcode code) {
  const char *why = *client->error ? client->error : client->curl.curl_easy_strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT)
    return by_fail(BANYAN_ERR_TIMEOUT, "the manager at %s does not answer: %s", client->url, why);
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return by_fail(BANYAN_ERR_AUTH,
                   "the manager at %s is not trusted: %s; is it the page's address, as the manager's --http has it? "
                   "--ca-file names the "
                   "authority that signed its certificate, and the address must be one of those it was made for",
                   client->url, why);
  if (code == CURLE_SSL_CONNECT_ERROR)
    return by_fail(
        BANYAN_ERR_CONNECT,
        "cannot ask the manager at %s over https: %s; where the manager has no --http-certificate, write http://",
        client->url, why);
  if (code == CURLE_GOT_NOTHING || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_RECV_ERROR ||
      code == CURLE_SEND_ERROR)
    return by_fail(BANYAN_ERR_CONNECT,
                   "cannot ask the manager at %s: %s; is it the page's address, as the manager's --http has it, and "
                   "https:// if it has a certificate?",
                   client->url, why);
  return by_fail(BANYAN_ERR_CONNECT, "cannot ask the manager at %s: %s", client->url, why);
}

/* Returns the state; *out is the caller's. Blocks for at most 5 s. BANYAN_ERR_CONNECT, _TIMEOUT, _AUTH (the token),
 * _PROTOCOL (no manager). */
static enum banyan_status ask_manager(struct client *client, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = MAX_STATE, .containers = 2 << 20, .elements = 16 << 20};
  long status = 0;
  by_text_fini(&client->answer);
  *client->error = '\0';
  CURLcode code = client->curl.curl_easy_perform(client->handle);
  if (code) return judge_answer(client, code);
  client->curl.curl_easy_getinfo(client->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status == 401)
    return by_fail(BANYAN_ERR_AUTH,
                   "the manager at %s requires %s token: give --token-file with the file that the manager's "
                   "--token-file names, which is " BY_MANAGER_TOKEN_FILE " if none is named",
                   client->url, client->headers ? "another" : "its");
  if (status != 200)
    return by_fail(BANYAN_ERR_PROTOCOL, "the server at %s is not a manager (HTTP status %ld)", client->url, status);
  return by_doc_load("the manager's state", by_text_get(&client->answer), client->answer.length, &limits, out);
}

/* ---- `banyan status --manager`: asks a manager once, or each second until it is interrupted, even while it is away */

/* Terminal codes: move to the upper left corner; wipe the rest of the line, and of the screen. */
#define HOME "\033[H"
#define WIPE_LINE "\033[K"
#define WIPE_REST "\033[J"

static struct by_screen find_screen(bool again) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return (struct by_screen){0};
  return (struct by_screen){.width = size.ws_col, .height = again ? size.ws_row : 0};
}

/* Prints line by line, which avoids flicker, and cuts text that does not fit: a wrapped line, or too many lines, would
 * scroll the screen. */
static void print_in_place(const char *text, struct by_screen screen) {
  unsigned column = 0, line = 1;
  fputs(HOME, stdout);
  for (; *text && line < screen.height; text++) {
    bool starts = ((unsigned char)*text & 0xc0) != 0x80; /* First byte of a character of UTF-8. */
    if (*text == '\n') {
      fputs(WIPE_LINE "\n", stdout);
      column = 0;
      line++;
    } else if ((column += starts) <= screen.width)
      putchar(*text);
  }
  fputs(WIPE_REST, stdout);
}

static enum banyan_status show_state(struct client *client, const struct status_options *asked) {
  json_t *state = NULL;
  struct by_text text = {0};
  struct by_screen screen = find_screen(asked->watch);
  BY_TRY(ask_manager(client, &state));
  if (!asked->json) by_manager_status_print(state, screen, &text);
  if (asked->json)
    by_print_json(state);
  else if (screen.height)
    print_in_place(by_text_get(&text), screen);
  else
    printf("%s%s", by_text_get(&text), asked->watch ? "\n" : "");
  by_text_fini(&text);
  json_decref(state);
  fflush(stdout);
  return BANYAN_OK;
}

static void print_away(void) {
  char clock[16] = "";
  time_t now = time(NULL);
  struct tm at;
  if (localtime_r(&now, &at)) strftime(clock, sizeof clock, "%T", &at);
  struct by_text line = {0};
  by_text_add(&line, "%s: %s; trying again", clock, banyan_error_text());
  if (isatty(STDERR_FILENO)) /* Overwrites itself, below the previous tables. */
    fprintf(stderr, "\r%.*s" WIPE_LINE, (int)find_screen(true).width - 1, by_text_get(&line));
  else
    fprintf(stderr, "%s\n", by_text_get(&line));
  by_text_fini(&line);
}

/* Prints on standard output; in place on a terminal. Fails if the manager cannot be asked; with --watch only if the
 * first answer does not come. */
static enum banyan_status watch_manager(const struct status_options *asked) {
  struct client client;
  enum banyan_status status = client_init(&client, asked);
  if (asked->watch && status == BANYAN_OK && find_screen(true).height && !asked->json) fputs(HOME WIPE_REST, stdout);
  if (status == BANYAN_OK) status = show_state(&client, asked);
  while (asked->watch && status == BANYAN_OK && !ferror(stdout)) {
    sleep(1);
    if (show_state(&client, asked) != BANYAN_OK) print_away();
  }
  client_fini(&client);
  return status;
}

/* Shows this machine's manager, whose token root can read. */
static enum banyan_status ask_local_manager(const struct status_options *asked) {
  struct status_options local = *asked;
  local.manager = LOCAL_MANAGER;
  if (!local.token_file && !access(BY_MANAGER_TOKEN_FILE, R_OK)) local.token_file = BY_MANAGER_TOKEN_FILE;
  return watch_manager(&local);
}

/* ---- addresses of switches, and their secrets */

enum { MAX_TEXT = 2000, ANSWER_SECONDS = 5 };

const char *by_status_text(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && by_is_printable(text, MAX_TEXT) ? text : "?";
}

enum banyan_status by_switch_place_parse(const char *text, struct by_status_place *out) {
  char with_port[BY_HOST_TEXT + 8], host[BY_HOST_TEXT];
  int port;
  size_t n;
  *out = (struct by_status_place){.path = strchr(text, '/') ? text : NULL};
  if (out->path || by_address_parse_host(text, BY_SWITCH_CONTROL_PORT, &out->address) == BANYAN_OK) return BANYAN_OK;
  if (by_address_split(text, host, &port) == BANYAN_OK) return by_address_resolve(text, &out->address, 1, &n);
  snprintf(with_port, sizeof with_port, "%.*s:%d", BY_HOST_TEXT - 1, text, BY_SWITCH_CONTROL_PORT);
  return by_address_resolve(with_port, &out->address, 1, &n);
}

enum banyan_status by_switch_secret(const char *file, char *out, bool *has) {
  const char *text = getenv("BANYAN_SWITCH_KEY"), *other = getenv("BANYAN_SWITCH_KEY_FILE");
  *out = '\0';
  if (!file && other && *other) file = other;
  *has = file || (text && *text);
  if (file) return by_switch_secret_read(file, out);
  if (!*has) return BANYAN_OK;
  BY_TRY(by_switch_secret_check("BANYAN_SWITCH_KEY", text));
  strcpy(out, text);
  return BANYAN_OK;
}

/* ---- requests */

struct asking {
  const struct by_status_question *question;
  struct by_loop *loop;
  struct by_stream *stream;
  struct by_process_identity *identity; /* NULL: the request has no key. */
  struct by_timer deadline;
  enum banyan_status status;
  json_t *answer;
};

static void end_asking(struct asking *a, enum banyan_status status) {
  a->status = status;
  by_loop_stop(a->loop);
}

static void handle_opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct asking *a = context;
  enum banyan_status status = by_stream_send(a->stream, 0, a->question->line, strlen(a->question->line));
  if (status != BANYAN_OK) end_asking(a, status);
}

static void handle_answer(void *context, uint16_t type, const void *line, size_t length) {
  struct asking *a = context;
  if (!a->answer) end_asking(a, a->question->read(line, length, &a->answer));
}

static void handle_ended(void *context, enum banyan_status status, const char *reason) {
  struct asking *a = context;
  if (!a->answer) end_asking(a, by_fail(status, "%s", reason));
}

static void too_late(void *context) {
  struct asking *a = context;
  end_asking(a, by_fail(BANYAN_ERR_TIMEOUT, "the %s does not answer within %d s", a->question->name, ANSWER_SECONDS));
}

static enum banyan_status begin_request(struct asking *a) {
  const struct by_status_place *place = &a->question->place;
  struct by_handshake_options handshake = {.role = BY_ROLE_CLIENT,
                                           .purpose = BY_RESERVATION_PURPOSE,
                                           .key = a->question->key,
                                           .hello = "",
                                           .encryption = BY_ENCRYPT_BETWEEN_HOSTS};
  struct by_stream_options of_stream = {.loop = a->loop,
                                        .connecting = place->path ? NULL : &place->address,
                                        .handshake = a->question->key && !place->path ? &handshake : NULL,
                                        .max_frame = BY_RESERVATION_LINE,
                                        .max_line = a->question->max,
                                        .max_queued = 2 * BY_RESERVATION_LINE,
                                        .opened = handle_opened,
                                        .frame = handle_answer,
                                        .ended = handle_ended,
                                        .context = a};
  by_timer_init(&a->deadline, too_late, a);
  if (of_stream.handshake) BY_TRY(by_process_identity_create(&a->identity));
  handshake.identity = a->identity;
  BY_TRY(place->path ? by_path_socket_connect(place->path, a->question->name, &of_stream.fd)
                     : by_socket_connect_start(&place->address, &of_stream.fd));
  BY_TRY(by_stream_create(&of_stream, &a->stream));
  by_loop_set_delay(a->loop, &a->deadline, ANSWER_SECONDS * BY_SECOND);
  if (place->path) handle_opened(a, 0, NULL, 0);
  return BANYAN_OK;
}

enum banyan_status by_status_ask(const struct by_status_question *question, json_t **out) {
  struct asking a = {.question = question};
  BY_TRY(by_loop_create(&by_clock_system, &a.loop));
  enum banyan_status status = begin_request(&a);
  if (status == BANYAN_OK) status = by_loop_run(a.loop);
  if (status == BANYAN_OK) status = a.status;
  by_stream_destroy(a.stream);
  by_loop_cancel_timer(&a.deadline);
  by_loop_destroy(a.loop);
  by_process_identity_destroy(a.identity);
  *out = a.answer;
  return status;
}

/* ---- the state of a switch */

static enum banyan_status read_switch(const char *line, size_t length, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = BY_RESERVATION_REPLY, .containers = 65536, .elements = 262144};
  struct by_reservation_reply reply;
  BY_TRY(by_reservation_read_reply(line, length, &reply));
  if (!reply.well || reply.operation != BY_RESERVATION_STATUS)
    return by_fail(BANYAN_ERR_PROTOCOL, "the switch answers: %s", reply.well ? "something else" : reply.text);
  return by_doc_load("the switch's answer", line, length, &limits, out);
}

static void print_head(const json_t *status) {
  const json_t *cells = json_object_get(status, "cells"), *ports = json_object_get(status, "ports");
  char time[32];
  printf("%s switch, version %s, up %s; %.0f of %.0f cells in use\nports:", by_status_text(status, "kind"),
         by_status_text(status, "version"), by_print_seconds(by_json_number(status, "seconds"), time),
         by_json_number(cells, "used"), by_json_number(cells, "all"));
  for (size_t i = 0; i < json_array_size(ports); i++) {
    const char *name = json_string_value(json_array_get(ports, i));
    printf("%s %zu %s", i ? "," : "", i, name && by_is_printable(name, MAX_TEXT) ? name : "?");
  }
  printf("\n");
}

static void print_job(const json_t *job) {
  const json_t *below = json_object_get(job, "below");
  printf("%5.0f %5.0f %5.0f %6.0f of %-6.0f %-8s %-21s ", by_json_number(job, "job"), by_json_number(job, "key"),
         by_json_number(job, "place"), by_json_number(job, "cells"), by_json_number(job, "wanted"),
         by_status_text(job, "up"), by_status_text(job, "server"));
  for (size_t i = 0; i < json_array_size(below); i++) {
    const json_t *one = json_array_get(below, i);
    printf("%s%s", i ? ", " : "", by_status_text(one, "interface"));
    if (json_is_true(json_object_get(one, "switch"))) printf(" (switch, %.0f workers)", by_json_number(one, "workers"));
  }
  if (json_object_get(job, "lapses_in"))
    printf("; not held by a job, expires in %.0f s", by_json_number(job, "lapses_in"));
  if (!json_is_true(json_object_get(job, "granted"))) printf("; resolving next hops");
  printf("\n");
}

static void print_count(const char *name, const json_t *now, const json_t *before) {
  double count = by_json_number(now, name);
  if (count == 0 || !by_is_printable(name, MAX_TEXT)) return;
  printf("  %-10s %14.0f", name, count);
  if (before) printf("  +%.0f", count - by_json_number(before, name));
  printf("\n");
}

/* Prints for people. `before` (or NULL) is an earlier state: events are shown with their increase since then. */
static void print_switch(const json_t *status, const json_t *before) {
  json_t *events = json_object_get(status, "events"), *jobs = json_object_get(status, "jobs");
  print_head(status);
  if (json_array_size(jobs) == 0)
    printf("no jobs\n");
  else
    printf("  job   key place  cells of wanted up       server                below\n");
  for (size_t i = 0; i < json_array_size(jobs); i++) print_job(json_array_get(jobs, i));
  printf("fragments:\n");
  for (void *i = json_object_iter(events); i; i = json_object_iter_next(events, i))
    print_count(json_object_iter_key(i), events, json_object_get(before, "events"));
  print_count("unsent", status, before);
  print_count("expired", status, before);
}

/* ---- the command */

#define VALUES struct status_options

static const struct by_option options[] = {
    BY_FLAG("json", 0, json, "print one JSON value on each line"),
    BY_FLAG("watch", 'w', watch, "repeat every second, with the differences, until interrupted"),
    BY_TEXT("secret-file", 0, secret_file, "FILE", "file with the switch's secret (BANYAN_SWITCH_KEY_FILE)"),
    BY_TEXT("manager", 'm', manager, "URL",
            "address of a manager's page: show its jobs, plans, links and\nhosts instead"),
    BY_TEXT("token-file", 0, token_file, "FILE", "file with the token of the manager's page"),
    BY_TEXT("ca-file", 0, ca_file, "FILE", "certificates of the authority that signed the manager's, for\nhttps"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan status",
    .usage = "[ADDRESS[:PORT] | PATH | --manager URL]",
    .about = "Shows the state of what runs on this machine: its agent (`banyan agent`), switch\n"
             "(`banyan switch`) and manager (`banyan manager --http`). `banyan agent status`,\n"
             "`banyan switch status` and `banyan manager status` ask only one of them.\n"
             "\n"
             "With an operand it asks that switch: which jobs have cells there, and what\n"
             "happened to fragments. Over the network, a switch requires its secret. With\n"
             "--manager it shows the state of that manager and its cluster, in as many columns\n"
             "as the terminal has. This machine's manager is asked at " LOCAL_MANAGER "\n"
             "if its token can be read.\n"
             "\n"
             "With --json, there is one line for each, in the order agent, switch, manager.\n"
             "\n"
             "Returns 0, or 1 if there is no answer within 5 s.",
    .options = options,
    .max_operands = 1,
};

/* Shows the state every second, or once. */
static enum banyan_status show_switch(const struct status_options *asked, const struct by_status_place *place,
                                      const struct by_key *key) {
  const struct by_status_question question = {.name = "switch",
                                              .place = *place,
                                              .key = key,
                                              .line = "{\"do\": \"status\"}",
                                              .max = BY_RESERVATION_REPLY,
                                              .read = read_switch};
  json_t *before = NULL, *now = NULL;
  enum banyan_status status = BANYAN_OK;
  do {
    if (before) sleep(1);
    status = by_status_ask(&question, &now);
    if (status != BANYAN_OK) break;
    (void)json_object_del(now, "done");
    if (asked->json)
      by_print_json(now);
    else
      print_switch(now, before);
    fflush(stdout);
    json_decref(before);
    before = now;
  } while (asked->watch && !ferror(stdout));
  json_decref(before);
  return status;
}

/* Shows the switch at this place, or on this machine. */
static enum banyan_status ask_switch(const struct status_options *asked, const char *operand) {
  struct by_status_place place = {.path = BY_SWITCH_SOCKET};
  char text[BY_ADDRESS_TEXT];
  char secret[BY_JOB_KEY_MAX];
  struct by_key key;
  bool has_key;
  enum banyan_status status = by_switch_secret(asked->secret_file, secret, &has_key);
  if (!status && has_key) status = by_key_derive(secret, &key);
  explicit_bzero(secret, sizeof secret);
  if (!status && operand) status = by_switch_place_parse(operand, &place);
  if (!status && !place.path && !has_key && !by_address_is_loopback(&place.address))
    status = by_fail(BANYAN_ERR_ARGUMENT,
                     "the switch at %s is asked over the network, which needs its secret: give --secret-file FILE or "
                     "set BANYAN_SWITCH_KEY_FILE. One under a manager has a secret that nobody else knows: run `banyan "
                     "status` on its machine",
                     by_address_print(&place.address, text));
  if (!status) status = show_switch(asked, &place, has_key ? &key : NULL);
  explicit_bzero(&key, sizeof key);
  if (status && operand && !place.path && !has_key && status != BANYAN_ERR_ARGUMENT)
    return by_fail(status, "%s; if the switch has a secret, give --secret-file FILE, or set BANYAN_SWITCH_KEY_FILE",
                   banyan_error_text());
  return status;
}

/* Shows what runs here, each with a title if there are several. */
static enum banyan_status ask_all(struct status_options *asked) {
  bool here[] = {!access(by_agent_socket(), F_OK), !access(BY_SWITCH_SOCKET, F_OK),
                 !access(BY_MANAGER_TOKEN_FILE, R_OK)};
  static const char *const names[] = {"agent", "switch", "manager"};
  int n = here[0] + here[1] + here[2];
  enum banyan_status status = BANYAN_OK;
  if (!n)
    return by_fail(BANYAN_ERR_CONNECT,
                   "no agent, switch or manager runs on this machine (there is no %s, %s or readable %s): give the "
                   "address of a switch, or --manager URL",
                   by_agent_socket(), BY_SWITCH_SOCKET, BY_MANAGER_TOKEN_FILE);
  if (asked->watch && (n > 1 || here[0]))
    return by_fail(BANYAN_ERR_ARGUMENT, "--watch is for one switch or manager: give `banyan switch status --watch` or "
                                        "`banyan manager status --watch`");
  for (int i = 0; i < 3; i++) {
    if (!here[i]) continue;
    if (n > 1 && !asked->json) printf("%s%s:\n", i ? "\n" : "", names[i]);
    fflush(stdout);
    enum banyan_status one = i == 0   ? by_agent_status(by_agent_socket(), asked->json)
                             : i == 1 ? ask_switch(asked, NULL)
                                      : ask_local_manager(asked);
    if (one && n > 1) by_command_note("%s: %s", command.name, banyan_error_text());
    if (!status) status = one;
  }
  return status;
}

static int end_status(enum banyan_status status) {
  return by_command_end(&command, status);
}

int by_cli_status(int argc, char **argv) {
  struct status_options asked = {0};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (asked.manager) return end_status(watch_manager(&asked));
  if (operands.count || asked.secret_file)
    return end_status(ask_switch(&asked, operands.count ? operands.items[0] : NULL));
  return end_status(ask_all(&asked));
}

int by_switch_status(int argc, char **argv) {
  struct status_options asked = {0};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  return exit_code >= 0 ? exit_code : end_status(ask_switch(&asked, operands.count ? operands.items[0] : NULL));
}

int by_manager_status(int argc, char **argv) {
  struct status_options asked = {0};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (operands.count) asked.manager = operands.items[0];
  return end_status(asked.manager ? watch_manager(&asked) : ask_local_manager(&asked));
}
