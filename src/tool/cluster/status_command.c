/* `banyan status`: what a switch does, or a manager. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define CURL_DISABLE_TYPECHECK /* which would make macros of the functions */
#include <curl/curl.h>

#include "commands.h"
#include "fail.h"
#include "json_doc.h"
#include "library.h"
#include "output.h"
#include "reservation.h"
#include "status_print.h"
#include "switch_control.h"
#include "text.h"
#include "web_server.h"

struct status_options {
  const char *secret_file, *manager, *token_file, *ca_file;
  bool json, watch;
};

/* ---- asking a manager over HTTP for what its page shows */

enum { MOST_STATE = 64 << 20 };

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
  const char *url; /* "http://127.0.0.1:8420"; what comes behind the port is ignored */
  struct by_text answer;
  char error[CURL_ERROR_SIZE];
};

static size_t take(const char *data, size_t size, size_t n, void *context) {
  struct client *client = context;
  if (client->answer.length + n > MOST_STATE) return 0;
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

/* Whatever people copied: the page's address, with or without what is behind the port. */
static enum banyan_status set_place(struct client *client) {
  const struct curl_functions *curl = &client->curl;
  client->place = curl->curl_url();
  if (!client->place) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  if (curl->curl_url_set(client->place, CURLUPART_URL, client->url, CURLU_DEFAULT_SCHEME | CURLU_GUESS_SCHEME) ||
      curl->curl_url_set(client->place, CURLUPART_PATH, "/state", 0) ||
      curl->curl_url_set(client->place, CURLUPART_QUERY, NULL, 0) ||
      curl->curl_url_set(client->place, CURLUPART_FRAGMENT, NULL, 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%s\" is not a manager's address, such as http://127.0.0.1:8420",
                   client->url);
  return BANYAN_OK;
}

/* Loads libcurl. The client is to be finished, also after a failure. */
static enum banyan_status client_init(struct client *client, const struct status_options *asked) {
  static const char *const names[] = {FUNCTIONS(BY_LIBRARY_NAME)};
  const struct curl_functions *curl = &client->curl;
  *client = (struct client){.url = asked->manager};
  BY_TRY(by_library_load("asking a manager", "libcurl.so.4", "libcurl4", names, sizeof names / sizeof *names,
                         &client->curl));
  BY_TRY(set_token(client, asked->token_file));
  BY_TRY(set_place(client));
  client->handle = curl->curl_easy_init();
  if (!client->handle) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  CURLcode code = curl->curl_easy_setopt(client->handle, CURLOPT_CURLU, client->place);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_HTTPHEADER, client->headers);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_TIMEOUT, 5L);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_NOSIGNAL, 1L);
  if (!code) code = curl->curl_easy_setopt(client->handle, CURLOPT_WRITEFUNCTION, take);
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

static enum banyan_status judge(struct client *client, CURLcode code) {
  const char *why = *client->error ? client->error : client->curl.curl_easy_strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT)
    return by_fail(BANYAN_ERR_TIMEOUT, "the manager at %s does not answer: %s", client->url, why);
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return by_fail(
        BANYAN_ERR_AUTH,
        "the manager at %s is not trusted: %s; --ca-file names the authority that signed its certificate, and the "
        "address must be one of those it was made for",
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

/* The state; *out is the caller's. Blocks, for 5 s at most. BANYAN_ERR_CONNECT, _TIMEOUT, _AUTH (the token),
 * _PROTOCOL (no manager). */
static enum banyan_status ask_manager(struct client *client, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = MOST_STATE, .containers = 2 << 20, .elements = 16 << 20};
  long status = 0;
  by_text_fini(&client->answer);
  *client->error = '\0';
  CURLcode code = client->curl.curl_easy_perform(client->handle);
  if (code) return judge(client, code);
  client->curl.curl_easy_getinfo(client->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status == 401)
    return by_fail(BANYAN_ERR_AUTH, "the manager at %s wants %s token: name the file that its --token-file names",
                   client->url, client->headers ? "another" : "its");
  if (status != 200)
    return by_fail(BANYAN_ERR_PROTOCOL, "the server at %s is not a manager (HTTP status %ld)", client->url, status);
  return by_doc_load("the manager's state", by_text_get(&client->answer), client->answer.length, &limits, out);
}

/* ---- `banyan status --manager`: asks a manager once, or each second until it is
 * interrupted, also while it is away. */

/* To the left upper corner; what is left of the line, and of the screen, is wiped as it is written over. */
#define HOME "\033[H"
#define WIPE_LINE "\033[K"
#define WIPE_REST "\033[J"

static struct by_screen find_screen(bool again) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return (struct by_screen){0};
  return (struct by_screen){.width = size.ws_col, .height = again ? size.ws_row : 0};
}

/* Line by line, so that nothing flickers. What does not fit is cut: a line that goes on in the next, or one too many,
 * would move the screen. */
static void print_in_place(const char *text, struct by_screen screen) {
  unsigned column = 0, line = 1;
  fputs(HOME, stdout);
  for (; *text && line < screen.height; text++) {
    bool starts = ((unsigned char)*text & 0xc0) != 0x80; /* a character of UTF-8 */
    if (*text == '\n') {
      fputs(WIPE_LINE "\n", stdout);
      column = 0;
      line++;
    } else if ((column += starts) <= screen.width)
      putchar(*text);
  }
  fputs(WIPE_REST, stdout);
}

static void print_tables(const json_t *state, bool again) {
  struct by_text text = {0};
  struct by_screen screen = find_screen(again);
  by_manager_status_print(state, screen, &text);
  if (screen.height)
    print_in_place(by_text_get(&text), screen);
  else
    printf("%s%s", by_text_get(&text), again ? "\n" : "");
  by_text_fini(&text);
}

static enum banyan_status show_state(struct client *client, const struct status_options *asked) {
  json_t *state;
  BY_TRY(ask_manager(client, &state));
  if (asked->json)
    by_print_json(state);
  else
    print_tables(state, asked->watch);
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
  if (isatty(STDERR_FILENO)) /* over itself, below the tables that were */
    fprintf(stderr, "\r%.*s" WIPE_LINE, (int)find_screen(true).width - 1, by_text_get(&line));
  else
    fprintf(stderr, "%s\n", by_text_get(&line));
  by_text_fini(&line);
}

/* Prints on standard output; in place where that is a terminal. Fails if the manager cannot be asked, and while
 * watching, if the first answer does not come. */
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

#define VALUES struct status_options

static const struct by_option options[] = {
    BY_FLAG("json", 0, json, "print one JSON value on each line"),
    BY_FLAG("watch", 'w', watch, "repeat every second, with the differences, until interrupted"),
    BY_TEXT("secret-file", 0, secret_file, "FILE", "file with the switch's secret (BANYAN_SWITCH_KEY)"),
    BY_TEXT("manager", 'm', manager, "URL",
            "address of a manager's page: show its jobs, plans, links and\nhosts instead"),
    BY_TEXT("token-file", 0, token_file, "FILE", "file with the token of the manager's page"),
    BY_TEXT("ca-file", 0, ca_file, "FILE", "certificates of the authority that signed the manager's, for\nhttps"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan status",
    .usage = "[ADDRESS[:PORT] | PATH | --manager URL]",
    .about = "Shows the state of a switch (`banyan switch`): which jobs have cells there, and\n"
             "what happened to fragments. Without an operand it asks the switch of this\n"
             "machine. Over the network, a switch requires its secret.\n"
             "\n"
             "With --manager it shows the state of a manager (`banyan manager --http`) and its\n"
             "cluster, in as many columns as the terminal has.\n"
             "\n"
             "Returns 0, or 1 if there is no answer within 5 s.",
    .options = options,
    .most_operands = 1,
};

/* Only a switch that is asked from its own machine may have no secret. */
static enum banyan_status check_secret(const struct by_status_place *place, bool has_key) {
  char text[BY_ADDRESS_TEXT];
  if (place->path || has_key || by_address_is_loopback(&place->address)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the switch at %s is asked over the network, which needs its secret: give --secret-file FILE or set "
                 "BANYAN_SWITCH_KEY",
                 by_address_print(&place->address, text));
}

/* Every second, or once. */
static enum banyan_status show(const struct status_options *asked, const struct by_status_place *place,
                               const struct by_key *key) {
  const struct by_status_question question = {.whom = "switch",
                                              .place = *place,
                                              .key = key,
                                              .line = "{\"do\": \"status\"}",
                                              .most = BY_RESERVATION_REPLY,
                                              .read = by_switch_status_read};
  json_t *before = NULL, *now = NULL;
  enum banyan_status status = BANYAN_OK;
  do {
    if (before) sleep(1);
    status = by_status_ask(&question, &now);
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
  struct by_status_place place = {.path = BY_SWITCH_SOCKET};
  struct by_key key;
  bool has_key;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (asked.manager) return by_command_end(&command, watch_manager(&asked));
  enum banyan_status status = by_switch_secret(asked.secret_file, &key, &has_key);
  if (!status && operands.count) status = by_switch_place_parse(operands.items[0], &place);
  if (!status) status = check_secret(&place, has_key);
  if (!status) status = show(&asked, &place, has_key ? &key : NULL);
  explicit_bzero(&key, sizeof key);
  exit_code = by_command_end(&command, status);
  if (!status) return exit_code;
  if (!operands.count)
    fprintf(stderr, "For a cluster: `banyan status --manager URL`, and `banyan agent status` for this host.\n");
  else if (!place.path && !has_key && status != BANYAN_ERR_ARGUMENT)
    fprintf(stderr, "If the switch has a secret: --secret-file FILE, or BANYAN_SWITCH_KEY.\n");
  return exit_code;
}
