#include "manager_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "tls_identity.h"
#include "web_server.h"

enum { N_ROUTES = 4 };

struct pair {
  char *certificate, *key;
};

struct by_manager_page {
  void (*state)(void *context, struct by_text *out);
  void *context;
  struct by_text layout;
  const char *certificate_file, *key_file;
  struct pair pair;
  struct by_web_route routes[N_ROUTES];
  struct by_web *web;
  char url[BY_ADDRESS_TEXT + 16];
};

static unsigned print_state(void *context, struct by_text *out) {
  const struct by_manager_page *page = context;
  page->state(page->context, out);
  return 200;
}

static unsigned print_layout(void *context, struct by_text *out) {
  const struct by_manager_page *page = context;
  by_text_add(out, "%s", by_text_get(&page->layout));
  return 200;
}

/* It is derived from the state, so that both always agree. */
static unsigned print_metrics(void *context, struct by_text *out) {
  const struct by_manager_page *page = context;
  struct by_text text = {0};
  page->state(page->context, &text);
  json_t *state = json_loadb(by_text_get(&text), text.length, 0, NULL);
  by_text_fini(&text);
  if (state) by_web_metrics_print(state, out);
  json_decref(state);
  return state ? 200 : 503;
}

/* A loop that answers is well. */
static unsigned print_health(void *context, struct by_text *out) {
  by_text_add(out, "ok\n");
  return 200;
}

static enum banyan_status read_pair(const struct by_manager_page *page, struct pair *out) {
  BY_TRY(by_tls_file_read(page->certificate_file, false, &out->certificate));
  return by_tls_file_read(page->key_file, true, &out->key);
}

static enum banyan_status find_pair(struct by_manager_page *page) {
  if (!page->certificate_file && !page->key_file) return BANYAN_OK;
  if (!page->certificate_file || !page->key_file)
    return by_fail(BANYAN_ERR_ARGUMENT, "the page over HTTPS needs a certificate and its key, not one of them");
  return read_pair(page, &page->pair);
}

static void drop_pair(struct pair *pair) {
  free(pair->certificate);
  if (pair->key) explicit_bzero(pair->key, strlen(pair->key));
  free(pair->key);
}

static void warn_of_listeners(const struct by_address *at, const struct by_manager_page *page) {
  if (by_address_is_loopback(at) || page->pair.key) return;
  by_warn("web",
          "%s: the token and all that the page shows cross the network as they are; give it a certificate and "
          "a key, or listen on 127.0.0.1 and reach it through ssh -L",
          page->url);
}

static enum banyan_status serve(struct by_manager_page *page, const struct by_manager_page_options *o) {
  const struct by_web_route routes[N_ROUTES] = {
      {"/state", "application/json", false, print_state, page},
      {"/layout", "application/json", false, print_layout, page},
      {"/metrics", BY_WEB_METRICS_TYPE, true, print_metrics, page},
      {"/healthz", "text/plain; charset=utf-8", true, print_health, page},
  };
  struct by_token token;
  struct by_web_options of_web = {.loop = o->loop, .token = &token, .routes = page->routes, .n_routes = N_ROUTES};
  char address[BY_ADDRESS_TEXT];
  size_t n;
  memcpy(page->routes, routes, sizeof routes);
  enum banyan_status status = by_address_resolve(o->at, &of_web.at, 1, &n);
  if (status != BANYAN_OK) return by_fail_within(status, "--http");
  BY_TRY(by_web_layout_print(o->topology, &page->layout));
  page->certificate_file = o->certificate;
  page->key_file = o->key;
  BY_TRY(find_pair(page));
  BY_TRY(by_token_read_or_make(o->token_file, &token));
  of_web.certificate = page->pair.certificate;
  of_web.key = page->pair.key;
  status = by_web_create(&of_web, &page->web);
  explicit_bzero(&token, sizeof token);
  BY_TRY(status);
  snprintf(page->url, sizeof page->url, "http%s://%s/", page->pair.key ? "s" : "",
           by_address_print(by_web_get_address(page->web), address));
  warn_of_listeners(&of_web.at, page);
  return BANYAN_OK;
}

enum banyan_status by_manager_page_create(const struct by_manager_page_options *options, struct by_manager_page **out) {
  struct by_manager_page *page = calloc(1, sizeof *page);
  if (!page) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the page");
  page->state = options->state;
  page->context = options->context;
  enum banyan_status status = serve(page, options);
  if (status == BANYAN_OK)
    *out = page;
  else
    by_manager_page_destroy(page);
  return status;
}

void by_manager_page_destroy(struct by_manager_page *page) {
  if (!page) return;
  by_web_destroy(page->web);
  by_text_fini(&page->layout);
  drop_pair(&page->pair);
  free(page);
}

void by_manager_page_renew(struct by_manager_page *page) {
  struct pair next = {0};
  if (!page->pair.key) return;
  enum banyan_status status = read_pair(page, &next);
  bool changed = status == BANYAN_OK &&
                 (strcmp(next.certificate, page->pair.certificate) != 0 || strcmp(next.key, page->pair.key) != 0);
  if (changed) status = by_web_renew(page->web, next.certificate, next.key);
  if (status != BANYAN_OK)
    by_warn("web", "a new certificate is not used, and the one before stays: %s", banyan_error_text());
  if (changed && status == BANYAN_OK) {
    struct pair before = page->pair;
    page->pair = next;
    next = before;
  }
  drop_pair(&next);
}

const char *by_manager_page_get_url(const struct by_manager_page *page) {
  return page->url;
}
