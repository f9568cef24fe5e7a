/* Serves a few read-only texts and the page that shows them over HTTP, on a loop; no thread of its own. The server does
 * not know what the texts contain: a function prints each when it is requested. On the loop's thread. */
#ifndef BY_CMD_CLUSTER_WEB_SERVER_H
#define BY_CMD_CLUSTER_WEB_SERVER_H

#include <jansson.h>
#include <stdbool.h>

#include "address.h"
#include "loop.h"
#include "text.h"
#include "topology.h"

/* ---- the token: web_server.c */

/* The secret that gives access to the page: letters, digits and "_.~-", so that it can stand in an address. */
enum { BY_TOKEN_LEAST = 16, BY_TOKEN_MOST = 128 };

struct by_token {
  char text[BY_TOKEN_MOST + 1];
};

/* From the file's only line. */
BANYAN_CHECK enum banyan_status by_token_read(const char *path, struct by_token *out);
/* The same; a file that is not there is made first, with a new token, for its owner's eyes only. */
BANYAN_CHECK enum banyan_status by_token_read_or_make(const char *path, struct by_token *out);
/* Takes as long whatever is right of it. `given` may be NULL. */
bool by_token_is(const struct by_token *token, const char *given);

/* ---- the server: web_server.c */

struct by_web;

/* A text that is made when it is requested. */
struct by_web_route {
  const char *path; /* "/state" */
  const char *type; /* "application/json" */
  bool open;        /* to everybody, without the token */
  /* Fills the empty `out`; returns the HTTP status, 200 or 503. */
  unsigned (*print)(void *context, struct by_text *out);
  void *context;
};

struct by_web_options {
  struct by_loop *loop;
  struct by_address at;         /* port 0: the system's choice */
  int listener;                 /* in place of `at`, a socket that listens; 0: none. The server copies it */
  const struct by_token *token; /* for the page and all that is not open; copied */
  /* PEM, both or neither (HTTP): the caller keeps them while the server lives. */
  const char *certificate, *key;
  const struct by_web_route *routes; /* kept by the caller while the server lives */
  size_t n_routes;                   /* BY_WEB_MOST_ROUTES at most */
};

enum { BY_WEB_MOST_ROUTES = 8 };

/* A connection is asked to close with the first answer after half of this time, and closed when it is over, so that
 * slow peers do not keep others out. Where there are more than there is room for, some are
 * closed before that, see acceptor.h: a connection that has made a request counts as one that has sent its greeting. */
#define BY_WEB_MOST_AGE (60 * BY_SECOND)
/* A text is used again for so long: many readers cost no more than one. */
#define BY_WEB_FRESH (BY_SECOND / 2)

/* BANYAN_ERR_SYSTEM if it cannot listen there; BANYAN_ERR_UNSUPPORTED without libmicrohttpd. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_web_create(const struct by_web_options *options, struct by_web **out);
/* Goes on at the same place with another certificate and key, and closes all connections; with those before if that
 * fails (BANYAN_ERR_ARGUMENT: they are no pair). Only where it has some; not from a route. */
BANYAN_CHECK enum banyan_status by_web_renew(struct by_web *web, const char *certificate, const char *key);
/* Closes all connections. NULL is allowed. */
void by_web_destroy(struct by_web *web);
/* With the port that was found. */
const struct by_address *by_web_get_address(const struct by_web *web);

/* ---- texts that the manager serves beside its state: web_texts.c */

/* Where the page draws the nodes, as one JSON object: {"kind":"layers","spots":{NAME:[x,y],...}}, y downwards.
 * Cost: by_topology_layout. */
BANYAN_CHECK enum banyan_status by_web_layout_print(const struct by_topology *topology, struct by_text *out);

/* A state (docs/cluster.md) as Prometheus' text format 0.0.4. What is missing or of another type counts as nothing. */
void by_web_metrics_print(const json_t *state, struct by_text *out);

#define BY_WEB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- what `banyan manager --http` serves: web_texts.c. The page, its state and its layout to those who have the
 * token, metrics and health to everybody. */

struct by_web_page;

/* Of a manager for which no other one is named. */
#define BY_MANAGER_TOKEN_FILE "/var/lib/banyan/token"

struct by_web_page_options {
  struct by_loop *loop;
  const char *at;         /* "127.0.0.1:8420", names are looked up; or "fd:3", an inherited socket that listens */
  const char *token_file; /* made if it is not there */
  const char *certificate, *key; /* PEM files for HTTPS, the same one if it holds both; both NULL: HTTP. Borrowed */
  const struct by_topology *topology;
  /* Prints the state as JSON (docs/cluster.md), as a route does. */
  unsigned (*state)(void *context, struct by_text *out);
  void *context;
};

/* The caller owns *out. Warns where the token would cross a network as it is. */
BANYAN_CHECK enum banyan_status by_web_page_create(const struct by_web_page_options *options, struct by_web_page **out);
/* NULL is allowed. */
void by_web_page_destroy(struct by_web_page *page);
/* Reads certificate and key again, if it has some; logs what is wrong with them, and keeps those before. */
void by_web_page_renew(struct by_web_page *page);
/* Another topology is drawn from now on; logs if there is no memory for it. */
void by_web_page_draw(struct by_web_page *page, const struct by_topology *topology);
/* "http://127.0.0.1:8420/"; the page's. */
const char *by_web_page_get_url(const struct by_web_page *page);

#endif
