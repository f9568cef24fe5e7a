/* Asks a manager over HTTP for what its page shows. */
#ifndef BY_CLI_MANAGER_CLIENT_H
#define BY_CLI_MANAGER_CLIENT_H

#include <jansson.h>

#include "fail.h"

struct by_manager_client;

struct by_manager_client_options {
  const char *url;        /* "http://127.0.0.1:8420"; what comes behind the port is ignored */
  const char *token_file; /* NULL: without a token */
  const char *authority;  /* PEM file of who signed the manager's certificate; NULL: who the system trusts */
};

/* Loads libcurl. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_manager_client_create(const struct by_manager_client_options *options,
                                                         struct by_manager_client **out);
/* NULL is allowed. */
void by_manager_client_destroy(struct by_manager_client *client);
/* The state; *out is the caller's. Blocks, for 5 s at most. BANYAN_ERR_CONNECT, _TIMEOUT, _AUTH (the token),
 * _PROTOCOL (no manager). */
BANYAN_CHECK enum banyan_status by_manager_client_get(struct by_manager_client *client, json_t **out);

#endif
