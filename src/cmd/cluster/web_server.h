/* Serves a few read-only texts and the page that shows them over HTTP, on a loop, without a thread. The server does not
 * know the contents: a function prints each text when it is requested. On the loop's thread. */
#ifndef BY_CMD_CLUSTER_WEB_SERVER_H
#define BY_CMD_CLUSTER_WEB_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "address.h"
#include "loop.h"
#include "text.h"
#include "topology.h"

/* ---- the token: web_server.c */

/* The secret that gives access to the page: letters, digits and "_.~-", which are valid in an address. */
enum { BY_TOKEN_MIN = 16, BY_TOKEN_MAX = 128 };

struct by_token {
  char text[BY_TOKEN_MAX + 1];
};

/* Reads it from the file's only line. */
BANYAN_CHECK enum banyan_status by_token_read(const char *path, struct by_token *out);
/* Reads it; a missing file is created first, with a new token, readable by its owner only. */
BANYAN_CHECK enum banyan_status by_token_read_or_make(const char *path, struct by_token *out);

/* ---- the server: web_server.c */

struct by_web;

/* A text that is made when it is requested. */
struct by_web_route {
  const char *path; /* "/state" */
  const char *type; /* "application/json" */
  bool open;        /* For everybody, without the token. */
  /* Fills the empty `out`; returns the HTTP status, 200 or 503. */
  unsigned (*print)(void *context, struct by_text *out);
  void *context;
};

struct by_web_options {
  struct by_loop *loop;
  struct by_address at;         /* Port 0: the system chooses. */
  int listener;                 /* A listening socket, instead of `at`; 0: none. The server copies it. */
  const struct by_token *token; /* For the page and all routes that are not open; copied. */
  /* PEM, both or neither (HTTP). The caller keeps them while the server lives. */
  const char *certificate, *key;
  const struct by_web_route *routes; /* The caller keeps them while the server lives. */
  size_t n_routes;                   /* At most BY_WEB_MAX_ROUTES. */
};

enum { BY_WEB_MAX_ROUTES = 8 };

/* A connection is asked to close with the first answer after half of this time, and closed after it, so that slow peers
 * do not keep others out. If there are too many, some are closed earlier, see acceptor.h: a connection that has made a
 * request counts as one that has sent its greeting. */
#define BY_WEB_MAX_AGE (60 * BY_SECOND)
/* A text is reused for this time: many readers cost no more than one. */
#define BY_WEB_FRESH (BY_SECOND / 2)

/* BANYAN_ERR_SYSTEM: it cannot listen there; BANYAN_ERR_UNSUPPORTED: libmicrohttpd is missing. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_web_create(const struct by_web_options *options, struct by_web **out);
/* Closes all connections and continues at the same address with another certificate and key, or with the previous ones
 * if that fails (BANYAN_ERR_ARGUMENT: they are no pair). Only for HTTPS; not from a route. */
BANYAN_CHECK enum banyan_status by_web_renew(struct by_web *web, const char *certificate, const char *key);
/* Closes all connections. NULL is allowed. */
void by_web_destroy(struct by_web *web);
/* Returns the address, with the port that was chosen. */
const struct by_address *by_web_get_address(const struct by_web *web);

/* ---- texts that the manager serves besides its state: web_texts.c */

/* Prints the positions of nodes on the page, as one JSON object: {"kind":"layers","spots":{NAME:[x,y],...}}, y
 * downwards. Cost: by_topology_layout. */
BANYAN_CHECK enum banyan_status by_web_layout_print(const struct by_topology *topology, struct by_text *out);

/* Prints a state (docs/cluster.md) in Prometheus' text format 0.0.4. Members that are missing or of another type are
 * ignored. */
void by_web_metrics_print(const json_t *state, struct by_text *out);

#define BY_WEB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- the page of `banyan manager --http`: web_texts.c. The page, its state and its layout require the token; metrics
 * and health are open. */

struct by_web_page;

/* Default file of a manager. */
#define BY_MANAGER_TOKEN_FILE "/var/lib/banyan/token"

struct by_web_page_options {
  struct by_loop *loop;
  const char *at;                /* "127.0.0.1:8420", names are resolved; or "fd:3", an inherited listening socket. */
  const char *token_file;        /* Created if it is missing. */
  const char *certificate, *key; /* PEM files for HTTPS, which may be the same file; both NULL: HTTP. Borrowed. */
  const struct by_topology *topology;
  /* Prints the state as JSON (docs/cluster.md), as a route does. */
  unsigned (*state)(void *context, struct by_text *out);
  void *context;
};

/* The caller owns *out. Warns if the token would be sent over a network unencrypted. */
BANYAN_CHECK enum banyan_status by_web_page_create(const struct by_web_page_options *options, struct by_web_page **out);
/* NULL is allowed. */
void by_web_page_destroy(struct by_web_page *page);
/* Reads certificate and key again, if any; logs problems, and keeps the previous ones. */
void by_web_page_renew(struct by_web_page *page);
/* Draws another topology from now on; logs if memory is exhausted. */
void by_web_page_draw(struct by_web_page *page, const struct by_topology *topology);
/* Returns "http://127.0.0.1:8420/", owned by the page. */
const char *by_web_page_get_url(const struct by_web_page *page);

/* ---- the files of the folder page, embedded in the program */

#define BY_PAGE_FILES(each)                                                                                            \
  each(page_index) each(page_denied) each(page_style) each(page_icon) each(page_main) each(page_topology)              \
      each(page_tables) each(page_units)

#define BY_PAGE_DECLARE(name)                                                                                          \
  extern const unsigned char by_##name[];                                                                              \
  extern const size_t by_##name##_bytes;

BY_PAGE_FILES(BY_PAGE_DECLARE)

#endif
