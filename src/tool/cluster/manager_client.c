#include "manager_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURL_DISABLE_TYPECHECK /* which would make macros of the functions */
#include <curl/curl.h>

#include "json_doc.h"
#include "library.h"
#include "text.h"
#include "web_token.h"

enum { MOST_STATE = 64 << 20 };

#define FUNCTIONS(each)                                                                                                \
  each(curl_easy_cleanup) each(curl_easy_getinfo) each(curl_easy_init) each(curl_easy_perform) each(curl_easy_setopt)  \
      each(curl_easy_strerror) each(curl_slist_append) each(curl_slist_free_all) each(curl_url) each(curl_url_cleanup) \
          each(curl_url_set)

struct curl_functions {
  FUNCTIONS(BY_LIBRARY_MEMBER)
};

struct by_manager_client {
  struct curl_functions curl;
  CURL *handle;
  CURLU *place;
  struct curl_slist *headers;
  const char *url;
  struct by_text answer;
  char error[CURL_ERROR_SIZE];
};

static enum banyan_status load(struct by_manager_client *client) {
  static const char *const names[] = {FUNCTIONS(BY_LIBRARY_NAME)};
  return by_library_load("asking a manager", "libcurl.so.4", "libcurl4", names, sizeof names / sizeof *names,
                         &client->curl);
}

static size_t take(const char *data, size_t size, size_t n, void *context) {
  struct by_manager_client *client = context;
  if (client->answer.length + n > MOST_STATE) return 0;
  by_text_add(&client->answer, "%.*s", (int)n, data);
  return client->answer.failed ? 0 : n;
}

static enum banyan_status set_token(struct by_manager_client *client, const char *file) {
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
static enum banyan_status set_place(struct by_manager_client *client) {
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

static enum banyan_status set_options(struct by_manager_client *client, const struct by_manager_client_options *o) {
  const struct curl_functions *curl = &client->curl;
  BY_TRY(set_token(client, o->token_file));
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
  if (!code && o->authority) code = curl->curl_easy_setopt(client->handle, CURLOPT_CAINFO, o->authority);
  return code ? by_fail(BANYAN_ERR_UNSUPPORTED, "libcurl: %s", curl->curl_easy_strerror(code)) : BANYAN_OK;
}

enum banyan_status by_manager_client_create(const struct by_manager_client_options *options,
                                            struct by_manager_client **out) {
  struct by_manager_client *client = calloc(1, sizeof *client);
  if (!client) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  client->url = options->url;
  by_text_init(&client->answer);
  enum banyan_status status = load(client);
  if (status == BANYAN_OK) status = set_options(client, options);
  if (status == BANYAN_OK)
    *out = client;
  else
    by_manager_client_destroy(client);
  return status;
}

void by_manager_client_destroy(struct by_manager_client *client) {
  if (!client) return;
  if (client->handle) client->curl.curl_easy_cleanup(client->handle);
  if (client->place) client->curl.curl_url_cleanup(client->place);
  if (client->headers) client->curl.curl_slist_free_all(client->headers);
  by_text_fini(&client->answer);
  free(client);
}

static enum banyan_status judge(struct by_manager_client *client, CURLcode code) {
  const char *why = *client->error ? client->error : client->curl.curl_easy_strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT)
    return by_fail(BANYAN_ERR_TIMEOUT, "the manager at %s does not answer: %s", client->url, why);
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return by_fail(BANYAN_ERR_AUTH,
                   "the manager at %s is not trusted: %s; --ca-file names who signed its certificate, and the "
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

static enum banyan_status judge_status(struct by_manager_client *client) {
  long status = 0;
  client->curl.curl_easy_getinfo(client->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return BANYAN_OK;
  if (status == 401)
    return by_fail(BANYAN_ERR_AUTH, "the manager at %s wants %s token: name the file that its --token-file names",
                   client->url, client->headers ? "another" : "its");
  return by_fail(BANYAN_ERR_PROTOCOL, "the server at %s is not a manager (HTTP status %ld)", client->url, status);
}

enum banyan_status by_manager_client_get(struct by_manager_client *client, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = MOST_STATE, .containers = 2 << 20, .elements = 16 << 20};
  by_text_fini(&client->answer);
  by_text_init(&client->answer);
  *client->error = '\0';
  CURLcode code = client->curl.curl_easy_perform(client->handle);
  if (code) return judge(client, code);
  BY_TRY(judge_status(client));
  return by_doc_load("the manager's state", by_text_get(&client->answer), client->answer.length, &limits, out);
}
