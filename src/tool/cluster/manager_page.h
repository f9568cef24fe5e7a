/* What `banyan manager --http` serves: the page, its state and its layout to who
 * has the token, metrics and health to everybody. On the loop's thread. */
#ifndef BY_CLI_MANAGER_PAGE_H
#define BY_CLI_MANAGER_PAGE_H

#include "loop.h"
#include "text.h"
#include "topology.h"

struct by_manager_page;

struct by_manager_page_options {
  struct by_loop *loop;
  const char *at;                /* "127.0.0.1:8420"; names are looked up */
  const char *token_file;        /* made if it is not there */
  const char *certificate, *key; /* PEM files for HTTPS, the same one if it holds both; both NULL: HTTP. Borrowed */
  const struct by_topology *topology;
  /* Adds the state as JSON (docs/cluster.md). */
  void (*state)(void *context, struct by_text *out);
  void *context;
};

/* The caller owns *out. Warns where the token would cross a network as it is. */
BANYAN_CHECK enum banyan_status by_manager_page_create(const struct by_manager_page_options *options,
                                                       struct by_manager_page **out);
/* NULL is allowed. */
void by_manager_page_destroy(struct by_manager_page *page);
/* Reads certificate and key again, if it has some; logs what is wrong with them, and keeps those before. */
void by_manager_page_renew(struct by_manager_page *page);
/* "http://127.0.0.1:8420/"; the page's. */
const char *by_manager_page_get_url(const struct by_manager_page *page);

#endif
