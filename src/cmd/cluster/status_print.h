/* Prints the state of switches and of a manager, for people and for programs; and where a switch is asked, as people
 * write it: a path, or an address with or without a port, and the secret that it shares with jobs. */
#ifndef BY_CMD_CLUSTER_STATUS_PRINT_H
#define BY_CMD_CLUSTER_STATUS_PRINT_H

#include <jansson.h>
#include <stddef.h>

#include "address.h"
#include "cluster_message.h"
#include "fail.h"
#include "handshake.h"
#include "text.h"

/* ---- asking a switch or an agent, and reading its answer: status_command.c */

struct by_status_place {
  const char *path; /* NULL: the address */
  struct by_address address;
};

struct by_status_question {
  const char *name; /* "switch", for errors */
  struct by_status_place place;
  const struct by_key *key; /* for an address; NULL: none */
  const char *line;         /* what is sent */
  size_t most;              /* bytes of the answer */
  enum banyan_status (*read)(const char *line, size_t length, json_t **out);
};

/* Over a connection of its own; waits for the answer for 5 s. The caller drops *out. */
BANYAN_CHECK enum banyan_status by_status_ask(const struct by_status_question *question, json_t **out);
/* A member that is a text to be shown; "?" if it is missing or cannot be shown. */
const char *by_status_text(const json_t *object, const char *field);

/* ---- a switch: status_command.c */

/* What holds a slash is a path. Names are looked up, which may take a while. */
BANYAN_CHECK enum banyan_status by_switch_place_parse(const char *text, struct by_status_place *out);
/* From the file, or else from BANYAN_SWITCH_KEY_FILE or BANYAN_SWITCH_KEY; *has false: there is none. `out` holds
 * BY_JOB_KEY_MAX. Errors of by_switch_secret_read. */
BANYAN_CHECK enum banyan_status by_switch_secret(const char *file, char *out, bool *has);
/* The name of this machine in its cluster: the option's, BANYAN_HOST's, or the host name. */
BANYAN_CHECK enum banyan_status by_cluster_host_name(const char *option, char out[BY_CLUSTER_NAME + 1]);

/* ---- a manager's state as tables, as the page shows it: manager_status.c */

/* Of a terminal; 0: as much as there is. */
struct by_screen {
  unsigned width, height;
};

/* Whatever the state holds; what is missing or of another type counts as nothing. */
void by_manager_status_print(const json_t *state, struct by_screen screen, struct by_text *out);

#endif
