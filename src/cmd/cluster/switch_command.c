/* `banyan switch`: adds what jobs send through this machine. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent_daemon.h"
#include "commands.h"
#include "data_plane.h"
#include "job_key.h"
#include "process.h"
#include "reservation.h"
#include "status_print.h"
#include "switch_control.h"
#include "text.h"
#include "tls_identity.h"

enum { CELLS = 4096, MAX_CELLS = 1 << 20, PATH_BYTES = 4096 };

struct switch_options {
  const char *xdp, *user, *secret_file, *manager, *keys, *name, *rate;
  struct by_words controls;
  long cells, queues;
  bool accept_unauthenticated;
};

#define VALUES struct switch_options

static const struct by_option options[] = {
    BY_TEXT("xdp", 0, xdp, "IF,IF,...",
            "aggregate in the kernel, on these interfaces: port 0, 1, ...;\nneeds drivers with native XDP"),
    BY_TEXT("user", 0, user, "IF,IF,...", "aggregate in this process, on these interfaces; works with\nany driver"),
    BY_INT("queues", 0, queues, "N", 1, BY_PLANE_QUEUES,
           "with --user, threads that share the work, a tree each;\ndefault: as many as cores"),
    BY_INT("cells", 0, cells, "N", 1, MAX_CELLS, "number of cells, 3.4 KiB each; default 4096"),
    BY_WORDS("control", 0, controls, "WHERE",
             "where it accepts requests: ADDRESS[:PORT] for jobs, beside the socket\nfor this machine; PORT is 7613 "
             "unless given. Or PATH: the\nsocket, in place of " BY_SWITCH_SOCKET "; may be\ngiven several times"),
    BY_TEXT("secret-file", 0, secret_file, "FILE", "file with the secret that jobs need (BANYAN_SWITCH_KEY_FILE)"),
    BY_FLAG("accept-unauthenticated", 0, accept_unauthenticated,
            "also grant cells to jobs with BANYAN_ENCRYPT=off, whose\nfragments anybody can forge"),
    BY_TEXT("manager", 'm', manager, "HOST:PORT",
            "the cluster's manager, which plans trees over this switch;\ndefault: none"),
    BY_TEXT("keys", 0, keys, "FOLDER",
            "with --manager: an agent's certificate for this machine, and\nthe authority's (BANYAN_KEYS), "
            "default\n" BY_TLS_FOLDER),
    BY_TEXT("name", 0, name, "NAME", "with --manager: this machine's name; default: the host name\n(BANYAN_HOST)"),
    BY_TEXT("rate", 0, rate, "RATE",
            "with --manager: rate of all links, 10g, or of each, IF=RATE,...;\ndefault: as the kernel reports it"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan switch",
    .usage = "--xdp IF,IF,... | --user IF,IF,... [--control ADDRESS] [--manager HOST:PORT] | status",
    .about = "Turns this machine into an aggregation switch: jobs whose plans use it request\n"
             "cells, and it aggregates what their workers send to their servers. The machine\n"
             "forwards everything else as before, including jobs without cells.\n"
             "\n"
             "With --user, the machine must forward (net.ipv4.ip_forward=1); the command adds\n"
             "and removes the routing rules that it needs. With --xdp, the other end of a\n"
             "veth pair needs an XDP program of its own.\n"
             "\n"
             "With --manager, it reports its cells, its ports and their neighbours (LLDP) to\n"
             "the manager of the cluster, which then plans trees over it. It needs a\n"
             "certificate of `banyan keys make agent`. Jobs get its address and secret from\n"
             "the manager; unless these are given, the secret is made from its private key,\n"
             "and the address is that by which the manager is reached.\n"
             "\n"
             "It reports on standard error when it is ready, and runs until SIGTERM or\n"
             "SIGINT. It leaves no configuration behind. If it is killed, with --user,\n"
             "routing rules remain that have no effect and that the next one removes. Jobs\n"
             "continue without it: their servers aggregate. When a switch is restarted, jobs\n"
             "request their cells again.\n"
             "\n"
             "Needs root (CAP_NET_ADMIN, with --xdp CAP_BPF). `banyan status` shows its\n"
             "state.",
    .first = "status",
    .options = options,
};

struct session {
  struct switch_options asked;
  const char *interfaces[BY_FRAGMENT_PORTS];
  char names[BY_FRAGMENT_PORTS * IF_NAMESIZE];
  uint32_t n;
  char secret[BY_JOB_KEY_MAX];
  struct by_key key;
  bool has_key;
  struct by_plane plane;
  struct by_switch_control *control;
  struct by_address address; /* Address for jobs; of length 0: unknown. */
  char address_text[BY_ADDRESS_TEXT], host[BY_CLUSTER_NAME + 1];
  struct by_cluster_aggregates aggregates;
  struct by_agent_daemon_options of_agent;
  struct by_agent_daemon *agent; /* NULL: there is no manager. */
  struct by_text places;         /* Where it listens, for people. */
};

/* ---- options */

static enum banyan_status split_interfaces(struct session *s) {
  const char *list = s->asked.xdp ? s->asked.xdp : s->asked.user;
  char *rest = s->names, *name;
  if (!list || (s->asked.xdp && s->asked.user))
    return by_fail(BANYAN_ERR_ARGUMENT, "name the interfaces that are ports, either with --xdp or with --user");
  if (strlen(list) >= sizeof s->names) return by_fail(BANYAN_ERR_ARGUMENT, "the list of interfaces is too long");
  strcpy(s->names, list);
  while ((name = strsep(&rest, ","))) {
    for (uint32_t i = 0; i < s->n; i++)
      if (!strcmp(s->interfaces[i], name))
        return by_fail(BANYAN_ERR_ARGUMENT, "%s is named twice; each interface is one port", name);
    if (s->n == BY_FRAGMENT_PORTS)
      return by_fail(BANYAN_ERR_ARGUMENT, "more than %d interfaces; a switch has no more ports", BY_FRAGMENT_PORTS);
    if (!if_nametoindex(name)) return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "interface \"%s\"", name);
    s->interfaces[s->n++] = name;
  }
  return BANYAN_OK;
}

static enum banyan_status choose_secret(struct session *s) {
  BY_TRY(by_switch_secret(s->asked.secret_file, s->secret, &s->has_key));
  return s->has_key ? by_key_derive(s->secret, &s->key) : BANYAN_OK;
}

/* Makes a secret from the private key, so that it is the same after a restart and jobs that hold cells can request them
 * again. */
static enum banyan_status make_secret(struct session *s) {
  struct by_text text = {0};
  char path[PATH_BYTES], *pem;
  const char *folder = s->asked.keys ? s->asked.keys : by_tls_folder();
  snprintf(path, sizeof path, "%s/%s-%s.pem", folder, by_tls_role_name(BY_TLS_AGENT), s->host);
  BY_TRY(by_tls_file_read(path, true, &pem));
  by_text_add(&text, "banyan switch\n%s", pem);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the switch's secret")
                                          : by_key_derive(by_text_get(&text), &s->key);
  for (size_t i = 0; i < sizeof s->key.bytes; i++) snprintf(s->secret + 2 * i, 3, "%02x", s->key.bytes[i]);
  if (status == BANYAN_OK) status = by_key_derive(s->secret, &s->key);
  explicit_bzero(pem, strlen(pem));
  free(pem);
  if (text.data) explicit_bzero(text.data, text.length);
  by_text_fini(&text);
  return status;
}

/* Checks the options of its agent, which only reports. */
static enum banyan_status check_manager(struct session *s) {
  struct by_agent_daemon_options *o = &s->of_agent;
  char host[BY_HOST_TEXT];
  int port;
  if (!s->asked.manager && (s->asked.keys || s->asked.name || s->asked.rate))
    return by_fail(BANYAN_ERR_ARGUMENT, "--keys, --name and --rate are for a switch with --manager");
  if (!s->asked.manager) return BANYAN_OK;
  if (by_address_split(s->asked.manager, host, &port) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--manager");
  BY_TRY(by_cluster_host_name(s->asked.name, s->host));
  if (by_host_links_parse_rates(s->asked.rate, &o->links) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--rate");
  o->group = -1;
  o->keys = s->asked.keys;
  o->links.filter = s->asked.xdp ? s->asked.xdp : s->asked.user;
  o->links.queues = "none";
  o->agent.host = s->host;
  o->agent.manager = s->asked.manager;
  o->agent.interval =
      1; /* Seconds until the manager sets another interval; the manager is looked for twice as often. */
  o->agent.rules = by_priority_defaults();
  return BANYAN_OK;
}

/* ---- with a manager */

/* Finds the address of this machine from which packets to the manager are sent, so that the manager's network can reach
 * it. */
static enum banyan_status find_address(struct session *s) {
  struct by_address manager;
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  size_t n;
  BY_TRY(by_address_resolve(s->asked.manager, &manager, 1, &n));
  int fd = socket(manager.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && connect(fd, (const struct sockaddr *)&manager.storage, manager.length) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &length) == 0;
  int reason = errno;
  if (fd >= 0) close(fd);
  if (!found)
    return by_fail_errno(BANYAN_ERR_CONNECT, reason,
                         "no address of this machine leads to the manager; name where jobs reach it, with --control");
  by_address_set(&s->address, (const struct sockaddr *)&own, length);
  by_address_set_port(&s->address, BY_SWITCH_CONTROL_PORT);
  return BANYAN_OK;
}

static uint32_t count_used(void *context) {
  return by_switch_control_used(((const struct session *)context)->control);
}

/* Begins reporting, the last step: what it reports can be used. */
static enum banyan_status report_to_manager(struct session *s, struct by_loop *loop) {
  if (!s->asked.manager) return BANYAN_OK;
  s->aggregates = (struct by_cluster_aggregates){.cells = (uint32_t)s->asked.cells,
                                                 .bytes = BY_RESERVATION_SLOT_BYTES,
                                                 .address = by_address_print(&s->address, s->address_text),
                                                 .key = s->secret,
                                                 .float32 = s->asked.user};
  s->of_agent.loop = loop;
  s->of_agent.agent.aggregates = &s->aggregates;
  s->of_agent.used_cells = count_used;
  s->of_agent.context = s;
  return by_agent_daemon_create(&s->of_agent, &s->agent);
}

/* ---- running */

static enum banyan_status listen_at(struct session *s, const struct by_status_place *place) {
  char text[BY_ADDRESS_TEXT];
  by_text_add(&s->places, "%s%s", s->places.length ? ", " : "",
              place->path ? place->path : by_address_print(&place->address, text));
  return place->path ? by_switch_control_listen_at(s->control, place->path)
                     : by_switch_control_listen(s->control, &place->address);
}

static enum banyan_status listen_everywhere(struct session *s) {
  struct by_status_place usual = {.path = BY_SWITCH_SOCKET};
  struct by_status_place any = {.path = NULL};
  bool has_path = false;
  for (int i = 0; i < s->asked.controls.count; i++) {
    struct by_status_place place;
    BY_TRY(by_switch_place_parse(s->asked.controls.items[i], &place));
    BY_TRY(listen_at(s, &place));
    has_path |= place.path != NULL;
    if (!place.path && !s->address.length) s->address = place.address;
    if (s->asked.manager && by_address_is_any(&s->address)) {
      BY_TRY(find_address(s));
      by_address_set_port(&s->address, by_address_port(&place.address));
    }
  }
  if (s->asked.manager && !s->address.length) {
    BY_TRY(find_address(s));
    any.address = s->address;
    BY_TRY(listen_at(s, &any));
  }
  return has_path ? BANYAN_OK : listen_at(s, &usual);
}

static void note_ready(const struct session *s) {
  struct by_text text = {0};
  by_text_add(&text, "%s: ready: %s, %ld cells, ports ", command.name, s->plane.ops->name, s->asked.cells);
  for (uint32_t i = 0; i < s->n; i++) by_text_add(&text, "%s%u %s", i ? ", " : "", i, s->interfaces[i]);
  by_text_add(&text, "; requests at %s", by_text_get(&s->places));
  if (s->agent) by_text_add(&text, "; \"%s\" for the manager at %s", s->host, s->asked.manager);
  by_command_note("%s", by_text_get(&text));
  by_text_fini(&text);
}

/* Takes packets last: a switch that cannot be asked would be in the way. */
static enum banyan_status start_switch(void *context, struct by_loop *loop) {
  struct session *s = context;
  struct by_plane_options of_plane = {.kind = s->asked.xdp ? BY_PLANE_XDP : BY_PLANE_USER,
                                      .cells = (uint32_t)s->asked.cells,
                                      .queues = (uint32_t)s->asked.queues};
  struct by_switch_control_options of_control = {.loop = loop,
                                                 .plane = &s->plane,
                                                 .cells = (uint32_t)s->asked.cells,
                                                 .n_ports = s->n,
                                                 .ports = s->interfaces,
                                                 .accepts_unauthenticated = s->asked.accept_unauthenticated,
                                                 .key = s->has_key || s->asked.manager ? &s->key : NULL};
  if (s->asked.manager && !s->has_key) BY_TRY(make_secret(s));
  BY_TRY(by_plane_open(loop, &of_plane, &s->plane));
  BY_TRY(by_switch_control_create(&of_control, &s->control));
  BY_TRY(listen_everywhere(s));
  for (uint32_t i = 0; i < s->n; i++) BY_TRY(s->plane.ops->add_port(s->plane.self, i, s->interfaces[i]));
  BY_TRY(s->plane.ops->start(s->plane.self, s->n));
  BY_TRY(report_to_manager(s, loop));
  note_ready(s);
  return BANYAN_OK;
}

static void stop_switch(void *context) {
  struct session *s = context;
  by_agent_daemon_destroy(s->agent);
  by_switch_control_destroy(s->control);
  by_plane_close(&s->plane);
  by_text_fini(&s->places);
}

static void read_again(void *context) {
  const struct session *s = context;
  if (s->agent) by_agent_daemon_renew(s->agent);
}

int by_cli_switch(int argc, char **argv) {
  static const struct by_service service = {.start = start_switch, .again = read_again, .stop = stop_switch};
  if (argc > 1 && !strcmp(argv[1], "status")) return by_switch_status(argc - 1, argv + 1);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  struct session s = {.asked = {.cells = CELLS, .queues = MIN(MAX(cores, 1), BY_PLANE_QUEUES)}};
  int exit_code = by_options_parse(&command, argc, argv, &s.asked, NULL);
  if (exit_code >= 0) return exit_code;
  enum banyan_status status = split_interfaces(&s);
  if (status == BANYAN_OK) status = choose_secret(&s);
  if (status == BANYAN_OK) status = check_manager(&s);
  exit_code =
      status != BANYAN_OK ? by_command_misused(&command) : by_command_end(&command, by_service_run(&service, &s));
  explicit_bzero(&s.key, sizeof s.key);
  explicit_bzero(s.secret, sizeof s.secret);
  return exit_code;
}
