/* Starts the manager, the agents and the switches of a lab's cluster. */
#include "lab_services.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "certificate.h"
#include "commands.h"
#include "process.h"
#include "socket.h"

enum { DAYS = 365, MANAGER_PORT = 7650, MAX_ARGUMENTS = 64, PLACE_BYTES = BY_TOPOLOGY_MAX_NAME + 16 };

/* Tells whether a node has a certificate: hosts, for their agents, and switches. */
static bool is_known(const struct by_node *node) {
  return node->kind == BY_NODE_HOST || node->aggregates;
}

/* ---- keys */

static enum banyan_status make_key(const char *keys, const struct by_key_authority *authority, enum by_tls_role role,
                                   const char *name) {
  const struct by_certificate_request request = {.role = role, .name = name, .now = time(NULL), .days = DAYS};
  char path[BY_KEY_PATH];
  struct by_text text;
  BY_TRY(by_certificate_check_name(name));
  BY_TRY(by_key_path_of(keys, role, name, path));
  enum banyan_status status = by_certificate_make(authority, &request, &text);
  if (status == BANYAN_OK) status = by_key_file_write(path, &text, 0600, false);
  by_certificate_wipe(&text);
  return status;
}

static enum banyan_status make_keys_of(const struct by_lab_cluster *cluster, const char *keys,
                                       const struct by_key_authority *authority) {
  const struct by_topology *t = cluster->topology;
  BY_TRY(by_key_folder_write(keys, authority, false));
  BY_TRY(make_key(keys, authority, BY_TLS_MANAGER, t->nodes[cluster->manager].name));
  for (uint32_t v = 0; v < t->n_nodes; v++)
    if (is_known(&t->nodes[v])) BY_TRY(make_key(keys, authority, BY_TLS_AGENT, t->nodes[v].name));
  return BANYAN_OK;
}

static enum banyan_status make_keys(const struct by_lab_cluster *cluster) {
  struct by_key_authority authority;
  char keys[BY_LAB_PATH];
  if (mkdir(by_lab_folder_path(cluster->folder, "keys", keys), 0700))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make %s", keys);
  enum banyan_status status = by_certificate_make_authority(NULL, time(NULL), DAYS, &authority);
  if (status == BANYAN_OK) status = make_keys_of(cluster, keys, &authority);
  by_key_authority_fini(&authority);
  return status;
}

/* ---- the manager's host and its page */

static enum banyan_status choose_host(struct by_lab_cluster *cluster) {
  const struct by_topology *t = cluster->topology;
  const char *name = cluster->options->manager;
  uint32_t first = UINT32_MAX, idle = UINT32_MAX;
  for (uint32_t v = t->n_nodes; v-- > 0;) {
    if (t->nodes[v].kind != BY_NODE_HOST) continue;
    first = v;
    if (!t->nodes[v].takes_part) idle = v;
  }
  cluster->manager = name ? by_topology_find(t, name) : idle != UINT32_MAX ? idle : first;
  if (cluster->manager != UINT32_MAX && t->nodes[cluster->manager].kind == BY_NODE_HOST) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "--manager: \"%.64s\" is not a host of the topology", name ? name : "");
}

/* Opens the manager's socket in the network of this process, not in that of the lab. */
static enum banyan_status listen_for_page(struct by_lab_cluster *cluster) {
  struct by_address at, bound;
  char text[BY_ADDRESS_TEXT];
  size_t n;
  enum banyan_status status = by_address_resolve(cluster->options->http, &at, 1, &n);
  if (status == BANYAN_OK) status = by_socket_listen(&at, (struct by_port_range){0}, &cluster->listener, &bound);
  if (status != BANYAN_OK) return by_fail_within(status, "--http");
  snprintf(cluster->page, sizeof cluster->page, "http://%s/", by_address_print(&bound, text));
  return BANYAN_OK;
}

enum banyan_status by_lab_cluster_make(const struct by_lab_cluster_options *options, const struct by_topology *topology,
                                       const struct by_lab_folder *folder, struct by_lab_cluster *out) {
  *out = (struct by_lab_cluster){.options = options, .topology = topology, .folder = folder, .listener = -1};
  BY_TRY(choose_host(out));
  BY_TRY(make_keys(out));
  return listen_for_page(out);
}

void by_lab_cluster_fini(struct by_lab_cluster *cluster) {
  by_cli_close(&cluster->listener);
}

/* ---- services */

static enum banyan_status start_manager(const struct by_lab_cluster *cluster, struct by_lab_services *services,
                                        const char *topology, const char *at) {
  char keys[BY_LAB_PATH], state[BY_LAB_PATH], token[BY_LAB_PATH], page[16], *save;
  const char *command[MAX_ARGUMENTS] = {"banyan",       "manager",
                                        "--keys",       by_lab_folder_path(cluster->folder, "keys", keys),
                                        "--name",       cluster->topology->nodes[cluster->manager].name,
                                        "--state",      by_lab_folder_path(cluster->folder, "manager.db", state),
                                        "--token-file", by_lab_folder_path(cluster->folder, "token", token),
                                        "--listen",     at,
                                        "--http",       page,
                                        topology};
  int n = 0;
  snprintf(page, sizeof page, "fd:%d", BY_LAB_LISTENER);
  while (command[n]) n++;
  char *more = by_cli_print("%s", cluster->options->more ? cluster->options->more : "");
  for (char *word = strtok_r(more, " \t", &save); word && n < MAX_ARGUMENTS - 1; word = strtok_r(NULL, " \t", &save))
    command[n++] = word;
  const struct by_lab_service service = {
      .role = BY_LAB_MANAGER, .space = cluster->manager, .command = command, .listener = cluster->listener};
  enum banyan_status status = by_lab_services_start(services, &service);
  free(more);
  return status;
}

static enum banyan_status start_agent(struct by_lab_services *services, uint32_t node, const char *name,
                                      const char *manager, const char *keys) {
  /* The lab's links have queues by class themselves. */
  const char *const command[] = {"banyan", "agent",        "--manager", manager,    "--keys", keys, "--name",
                                 name,     "--interfaces", "eth*",      "--queues", "none",   NULL};
  const struct by_lab_service service = {.role = BY_LAB_AGENT, .space = node, .command = command, .listener = -1};
  return by_lab_services_start(services, &service);
}

/* Tells whether all nodes between hosts report their links. */
static bool can_be_found(const struct by_lab_layout *layout, enum by_lab_switch_kind switches) {
  for (uint32_t i = 0; i < layout->n_spaces; i++) {
    const struct by_node *node = &layout->topology->nodes[layout->spaces[i].node];
    if (layout->spaces[i].gate) return false;
    if (node->kind == BY_NODE_SWITCH && (!node->aggregates || switches == BY_LAB_SWITCHES_NONE)) return false;
  }
  return true;
}

static enum banyan_status write_topology(const struct by_lab_cluster *cluster, const struct by_lab_options *built) {
  struct by_text text = {0};
  enum banyan_status status = by_lab_print_topology(cluster->topology, built, &text);
  if (status == BANYAN_OK) status = by_lab_folder_write(cluster->folder, "cluster", &text);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_lab_cluster_start(const struct by_lab_cluster *cluster, const struct by_lab_layout *layout,
                                        const struct by_lab_options *built, enum by_lab_switch_kind switches,
                                        struct by_lab_services *services) {
  const struct by_topology *t = cluster->topology;
  char topology[BY_LAB_PATH], keys[BY_LAB_PATH], manager[PLACE_BYTES];
  bool tells = cluster->options->tells || !can_be_found(layout, switches);
  by_lab_folder_path(cluster->folder, "cluster", topology);
  by_lab_folder_path(cluster->folder, "keys", keys);
  snprintf(manager, sizeof manager, "%s:%d", t->nodes[cluster->manager].name, MANAGER_PORT);
  if (tells) BY_TRY(write_topology(cluster, built));
  BY_TRY(start_manager(cluster, services, tells ? topology : NULL, manager));
  BY_TRY(by_lab_services_await(services)); /* So that agents find it at once. */
  BY_TRY(by_lab_services_start_switches(services, switches, manager, keys));
  for (uint32_t v = 0; v < t->n_nodes; v++)
    if (t->nodes[v].kind == BY_NODE_HOST) BY_TRY(start_agent(services, v, t->nodes[v].name, manager, keys));
  return BANYAN_OK;
}

enum banyan_status by_lab_cluster_print(const struct by_lab_cluster *cluster) {
  char path[BY_LAB_PATH], *token;
  size_t length;
  BY_TRY(by_read_file("token file", by_lab_folder_path(cluster->folder, "token", path), BY_LAB_PATH, &token, &length));
  token[strcspn(token, "\n")] = '\0';
  by_command_note("banyan lab: page at %s?token=%s", cluster->page, token);
  by_command_note("banyan lab: state by banyan status --manager %s --token-file %s", cluster->page, path);
  free(token);
  return BANYAN_OK;
}
