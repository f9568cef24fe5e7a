/* `banyan switch`: adds what jobs send through this machine. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "data_plane.h"
#include "process.h"
#include "status_print.h"
#include "switch_control.h"
#include "text.h"

enum { CELLS = 4096, MOST_CELLS = 1 << 20 };

struct switch_options {
  const char *xdp, *user, *secret_file;
  struct by_words controls;
  long cells, udp_port;
};

#define VALUES struct switch_options

static const struct by_option options[] = {
    BY_TEXT("xdp", 0, xdp, "IF,IF,...",
            "aggregate in the kernel, on these interfaces: port 0, 1, ...;\nneeds drivers with native XDP"),
    BY_TEXT("user", 0, user, "IF,IF,...", "aggregate in this process, on these interfaces; works with\nany driver"),
    BY_INT("cells", 0, cells, "N", 1, MOST_CELLS, "number of cells, 3.4 KiB each; default 4096"),
    BY_INT("udp-port", 0, udp_port, "PORT", 1, 65535, "port of servers, and with --user of workers; default 7612"),
    BY_WORDS("control", 0, controls, "WHERE",
             "where it is asked: ADDRESS[:PORT] for jobs, beside the socket\nfor this machine; PORT is 7613 unless "
             "given. Or PATH: the\nsocket, in place of " BY_SWITCH_SOCKET "; may be\ngiven several times"),
    BY_TEXT("secret-file", 0, secret_file, "FILE", "file with the secret that jobs need (BANYAN_SWITCH_KEY)"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan switch",
    .usage = "--xdp IF,IF,... | --user IF,IF,... [--control ADDRESS]",
    .about = "Turns this machine into an aggregation switch: jobs whose plans use it request\n"
             "cells, and it aggregates what their workers send to their servers. The machine\n"
             "forwards everything else as before, including jobs without cells.\n"
             "\n"
             "With --user, routing rules select the packets, for each interface IF:\n"
             "  ip rule add iif IF ipproto udp dport 7612 lookup 7612\n"
             "With --xdp, the other end of a veth pair needs an XDP program of its own.\n"
             "\n"
             "It reports on standard error when it is ready, and stays until SIGTERM or\n"
             "SIGINT. It leaves no configuration behind, also when it is killed. Jobs continue\n"
             "without it: their servers aggregate. When a switch is restarted, jobs request\n"
             "their cells again.\n"
             "\n"
             "Needs root (CAP_NET_ADMIN, with --xdp CAP_BPF). `banyan status` shows its state.",
    .options = options,
};

struct session {
  struct switch_options asked;
  const char *interfaces[BY_FRAGMENT_PORTS];
  char names[BY_FRAGMENT_PORTS * IF_NAMESIZE];
  uint32_t n;
  struct by_key key;
  bool has_key;
  struct by_plane plane;
  struct by_switch_control *control;
  struct by_text places; /* where it listens, for people */
};

/* ---- what was asked */

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

/* ---- doing it */

static enum banyan_status listen_at(struct session *s, const struct by_status_place *place) {
  char text[BY_ADDRESS_TEXT];
  by_text_add(&s->places, "%s%s", s->places.length ? ", " : "",
              place->path ? place->path : by_address_print(&place->address, text));
  return place->path ? by_switch_control_listen_at(s->control, place->path)
                     : by_switch_control_listen(s->control, &place->address);
}

static enum banyan_status listen_everywhere(struct session *s) {
  struct by_status_place usual = {.path = BY_SWITCH_SOCKET};
  bool has_path = false;
  for (int i = 0; i < s->asked.controls.count; i++) {
    struct by_status_place place;
    BY_TRY(by_switch_place_parse(s->asked.controls.items[i], &place));
    BY_TRY(listen_at(s, &place));
    has_path |= place.path != NULL;
  }
  return has_path ? BANYAN_OK : listen_at(s, &usual);
}

/* Takes packets last: one that cannot be asked would be in the way. */
static enum banyan_status start(void *context, struct by_loop *loop) {
  struct session *s = context;
  struct by_plane_options of_plane = {.kind = s->asked.xdp ? BY_PLANE_XDP : BY_PLANE_USER,
                                      .cells = (uint32_t)s->asked.cells,
                                      .udp_port = (uint16_t)s->asked.udp_port};
  struct by_switch_control_options of_control = {.loop = loop,
                                                 .plane = &s->plane,
                                                 .cells = (uint32_t)s->asked.cells,
                                                 .n_ports = s->n,
                                                 .ports = s->interfaces,
                                                 .key = s->has_key ? &s->key : NULL};
  BY_TRY(by_plane_open(loop, &of_plane, &s->plane));
  BY_TRY(by_switch_control_create(&of_control, &s->control));
  BY_TRY(listen_everywhere(s));
  for (uint32_t i = 0; i < s->n; i++) BY_TRY(s->plane.ops->add_port(s->plane.self, i, s->interfaces[i]));
  BY_TRY(s->plane.ops->start(s->plane.self, s->n));
  fprintf(stderr, "%s: ready: %s, %ld cells, ports ", command.name, s->plane.ops->name, s->asked.cells);
  for (uint32_t i = 0; i < s->n; i++) fprintf(stderr, "%s%u %s", i ? ", " : "", i, s->interfaces[i]);
  fprintf(stderr, "; asked at %s\n", by_text_get(&s->places));
  return BANYAN_OK;
}

static void stop(void *context) {
  struct session *s = context;
  by_switch_control_destroy(s->control);
  by_plane_close(&s->plane);
  by_text_fini(&s->places);
}

int by_cli_switch(int argc, char **argv) {
  static const struct by_service service = {.start = start, .stop = stop};
  struct session s = {.asked = {.cells = CELLS}};
  int exit_code = by_options_parse(&command, argc, argv, &s.asked, NULL);
  if (exit_code >= 0) return exit_code;
  enum banyan_status status = split_interfaces(&s);
  if (status == BANYAN_OK) status = by_switch_secret(s.asked.secret_file, &s.key, &s.has_key);
  exit_code =
      status != BANYAN_OK ? by_command_misused(&command) : by_command_end(&command, by_service_run(&service, &s));
  explicit_bzero(&s.key, sizeof s.key);
  return exit_code;
}
