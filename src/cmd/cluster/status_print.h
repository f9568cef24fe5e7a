/* Prints the state of switches and of a manager, for people and for programs; parses the address of a switch, which is
 * a path, or an address with or without a port, and reads the secret that it shares with jobs. */
#ifndef BY_CMD_CLUSTER_STATUS_PRINT_H
#define BY_CMD_CLUSTER_STATUS_PRINT_H

#include <jansson.h>
#include <stddef.h>

#include "address.h"
#include "cluster_message.h"
#include "fail.h"
#include "handshake.h"
#include "text.h"

/* ---- requests to a switch or an agent: status_command.c */

struct by_status_place {
  const char *path; /* NULL: the address is used. */
  struct by_address address;
};

struct by_status_question {
  const char *name; /* "switch", for errors. */
  struct by_status_place place;
  const struct by_key *key; /* For an address; NULL: none. */
  const char *line;         /* The request. */
  size_t max;               /* Maximum bytes of the answer. */
  enum banyan_status (*read)(const char *line, size_t length, json_t **out);
};

/* Asks over a new connection; waits for the answer for 5 s. The caller releases *out. */
BANYAN_CHECK enum banyan_status by_status_ask(const struct by_status_question *question, json_t **out);
/* Returns a member that is a text; "?" if it is missing or cannot be shown. */
const char *by_status_text(const json_t *object, const char *field);

/* ---- a switch: status_command.c */

/* A text with a slash is a path. Names are resolved, which may take a while. */
BANYAN_CHECK enum banyan_status by_switch_place_parse(const char *text, struct by_status_place *out);
/* Reads the secret from the file, or else from BANYAN_SWITCH_KEY_FILE or BANYAN_SWITCH_KEY; *has false: there is none.
 * `out` has BY_JOB_KEY_MAX bytes. Returns errors of by_switch_secret_read. */
BANYAN_CHECK enum banyan_status by_switch_secret(const char *file, char *out, bool *has);
/* Returns the name of this machine in its cluster: the option's, BANYAN_HOST's, or the host name. */
BANYAN_CHECK enum banyan_status by_cluster_host_name(const char *option, char out[BY_CLUSTER_NAME + 1]);

/* ---- the state of this machine's services: status_command.c, agent_command.c */

/* `banyan switch status` and `banyan manager status`: their arguments from "status" on. They return the exit code. */
int by_switch_status(int argc, char **argv);
int by_manager_status(int argc, char **argv);
/* Asks the agent at a socket, and prints its answer. */
BANYAN_CHECK enum banyan_status by_agent_status(const char *path, bool json);
/* Returns the socket of this host's agent: BANYAN_AGENT, or the usual one. The value "off" is meant for jobs only. */
const char *by_agent_socket(void);

/* ---- a manager's state as tables, as the page shows it: manager_status.c */

/* Size of a terminal; 0: unlimited. */
struct by_screen {
  unsigned width, height;
};

/* Prints any state; members that are missing or of another type are ignored. */
void by_manager_status_print(const json_t *state, struct by_screen screen, struct by_text *out);

#endif
