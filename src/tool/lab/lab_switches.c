#include "lab_switches.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data_plane.h"
#include "fragment.h"
#include "lab.h"
#include "lab_netlink.h"
#include "launch_io.h"
#include "process.h"
#include "reservation.h"
#include "text.h"

/* A supervisor is a process that runs `banyan switch` in the space of a switch, and prefixes the command's output with
 * the space's name. When the command ends, the supervisor reports that and stays, so that the space can be entered.
 * SIGHUP restarts the command. The supervisor ends with the process that has started it, and the command with it. */

struct supervisor {
  /* For the process that has started it: */
  pid_t pid;
  int ready; /* '+' when the command has printed that it is ready, '-' when it has ended */
  /* In the supervisor itself: */
  const char *name;           /* in front of lines */
  const char *const *command; /* of this program: "banyan", "switch", ...; ends with NULL */
  int signals, output, report;
  pid_t child; /* 0: none */
  bool again;  /* to be started when the one before has ended */
  struct by_pipe lines;
};

struct by_lab_switches {
  const struct by_lab *lab;
  const struct by_lab_layout *layout;
  bool xdp;
  uint32_t n;
  struct supervisor supervisors[];
};

enum { LINE_BYTES = 1024, READY_MS = 30000, MOST_CELLS = 1 << 20 };

static void report(const struct supervisor *k, const char *text) {
  fprintf(stderr, "[%s] %s\n", k->name, text);
}

/* The reader may have gone. */
static void notify(const struct supervisor *k, char what) {
  if (write(k->report, &what, 1) != 1) return;
}

/* ---- the command */

static _Noreturn void become(const struct supervisor *k, int output, pid_t parent) {
  by_restore_signals();
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) execv("/proc/self/exe", (char *const *)k->command);
  _exit(127);
}

static void start_command(struct supervisor *k) {
  int ends[2];
  pid_t parent = getpid();
  k->again = false;
  k->lines.start = k->lines.end;
  k->child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
  if (k->child < 0) {
    report(k, strerror(errno));
    return;
  }
  if (k->child == 0) become(k, ends[1], parent);
  close(ends[1]);
  by_cli_close(&k->output);
  k->output = ends[0];
}

static void take_output(struct supervisor *k) {
  char bytes[LINE_BYTES];
  ssize_t n = read(k->output, bytes, sizeof bytes);
  if (n <= 0) {
    by_cli_close(&k->output);
    return;
  }
  by_pipe_add(&k->lines, bytes, (size_t)n);
  for (size_t length; (length = by_pipe_waiting(&k->lines)) > 0;) {
    char *line = k->lines.data + k->lines.start, *end = memchr(line, '\n', length);
    size_t whole = end ? (size_t)(end - line) : length, used = MIN(whole, LINE_BYTES - 1);
    if (!end && whole < LINE_BYTES - 1) return;
    snprintf(bytes, sizeof bytes, "%.*s", (int)used, line);
    report(k, bytes);
    if (strstr(bytes, ": ready")) notify(k, '+');
    k->lines.start += used + (end && used == whole);
  }
}

static void report_end(struct supervisor *k) {
  int status;
  char text[96], line[160];
  if (k->child <= 0 || waitpid(k->child, &status, WNOHANG) != k->child) return;
  while (k->output >= 0) take_output(k);
  k->child = 0;
  notify(k, '-');
  snprintf(line, sizeof line, "banyan switch: %s; kill -HUP %d starts it again",
           by_print_wait_status(status, text, sizeof text), (int)getpid());
  if (k->again)
    start_command(k);
  else
    report(k, line);
}

static void take_signal(struct supervisor *k) {
  struct signalfd_siginfo info;
  if (read(k->signals, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGCHLD) {
    report_end(k);
  } else if (k->child <= 0) {
    start_command(k);
  } else {
    k->again = true;
    kill(k->child, SIGTERM);
  }
}

/* ---- the supervisor */

/* The fragments that come in by any port go to the switch, as docs/in-network.md asks of its host. */
static enum banyan_status add_rules(uint32_t n_ports) {
  struct by_netlink netlink;
  char interface[24];
  BY_TRY(by_netlink_open(&netlink));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t k = 0; k < n_ports && status == BANYAN_OK; k++) {
    snprintf(interface, sizeof interface, "eth%u", k);
    status = by_netlink_add_rule(&netlink, interface, IPPROTO_UDP, BY_FRAGMENT_PORT, BY_USER_TABLE);
  }
  by_netlink_close(&netlink);
  return status;
}

static uint32_t count_ports(const struct by_lab_layout *layout, uint32_t space) {
  return layout->spaces[layout->spaces[space].outside].n_wires;
}

/* The terminal's signals are for the lab. Sockets for people have one name each on a machine of their own. */
static enum banyan_status settle(const struct by_lab_switches *switches, uint32_t space, pid_t parent) {
  setsid();
  prctl(PR_SET_NAME, "banyan-superv");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it ended before prctl took effect */
  BY_TRY(by_lab_enter(switches->lab, space));
  if (mount("banyan-lab", "/run", "tmpfs", 0, NULL))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount a /run of its own");
  return switches->xdp ? BANYAN_OK : add_rules(count_ports(switches->layout, space));
}

static _Noreturn void supervise(const struct by_lab_switches *switches, uint32_t space, struct supervisor *k,
                                pid_t parent) {
  if (settle(switches, space, parent)) {
    report(k, banyan_error_text());
    _exit(1);
  }
  k->signals = by_signal_descriptor((const int[]){SIGCHLD, SIGHUP, 0});
  start_command(k);
  for (;;) {
    struct pollfd wait[] = {{.fd = k->signals, .events = POLLIN}, {.fd = k->output, .events = POLLIN}};
    if (poll(wait, 2, -1) < 0) continue;
    if (wait[1].revents) take_output(k);
    if (wait[0].revents) take_signal(k);
  }
}

/* ---- the switches */

static enum banyan_status start(struct by_lab_switches *switches, uint32_t space) {
  const struct by_lab_layout *layout = switches->layout;
  const struct by_node *node = &layout->topology->nodes[space];
  struct by_text ports = {0};
  char address[16], cells[16];
  int ends[2];
  for (uint32_t k = 0; k < count_ports(layout, space); k++) by_text_add(&ports, "%seth%u", k ? "," : "", k);
  by_lab_print_address(layout->spaces[space].address, address);
  snprintf(cells, sizeof cells, "%u", (uint32_t)MIN(MAX(node->memory / BY_RESERVATION_SLOT_BYTES, 1), MOST_CELLS));
  const char *command[] = {
      "banyan",    "switch", switches->xdp ? "--xdp" : "--user", by_text_get(&ports),
      "--control", address,  node->memory ? "--cells" : NULL, /* else as many as `banyan switch` takes by itself */
      cells,       NULL};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
    by_text_fini(&ports);
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  }
  struct supervisor *k = &switches->supervisors[switches->n];
  *k = (struct supervisor){
      .ready = ends[0], .name = layout->spaces[space].name, .command = command, .output = -1, .report = ends[1]};
  pid_t parent = getpid();
  k->pid = fork();
  if (k->pid == 0) supervise(switches, space, k, parent);
  int reason = errno;
  close(ends[1]);
  by_text_fini(&ports);
  if (k->pid > 0) {
    switches->n++;
    return BANYAN_OK;
  }
  close(ends[0]);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a process in \"%s\"", k->name);
}

/* Waits until the command has printed that it is ready. BANYAN_ERR_SYSTEM: it has ended, or is not ready after 30 s. */
static enum banyan_status await(const struct supervisor *k) {
  struct pollfd wait = {.fd = k->ready, .events = POLLIN};
  char what = 0;
  if (poll(&wait, 1, READY_MS) != 1 || read(k->ready, &what, 1) != 1 || what != '+')
    return by_fail(BANYAN_ERR_SYSTEM, "\"%s\" has not started%s", k->name, what ? "; above is why" : "");
  fprintf(stderr,
          "banyan lab: switch %s: kill -HUP %d restarts it, \"nsenter -m -r -n -u -t %d\" enters its namespaces\n",
          k->name, (int)k->pid, (int)k->pid);
  return BANYAN_OK;
}

enum banyan_status by_lab_switches_start(const struct by_lab *lab, const struct by_lab_layout *layout,
                                         enum by_lab_switch_kind kind, struct by_lab_switches **out) {
  const struct by_topology *t = layout->topology;
  struct by_lab_switches *switches = calloc(1, sizeof *switches + t->n_nodes * sizeof *switches->supervisors);
  *out = NULL;
  if (!switches) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's switches");
  switches->lab = lab;
  switches->layout = layout;
  switches->xdp = kind == BY_LAB_SWITCHES_XDP;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = 0; v < t->n_nodes && status == BANYAN_OK && kind != BY_LAB_SWITCHES_NONE; v++)
    if (t->nodes[v].kind == BY_NODE_SWITCH && t->nodes[v].aggregates) status = start(switches, v);
  for (uint32_t i = 0; i < switches->n && status == BANYAN_OK; i++) status = await(&switches->supervisors[i]);
  if (status == BANYAN_OK)
    *out = switches;
  else
    by_lab_switches_stop(switches);
  return status;
}

void by_lab_switches_stop(struct by_lab_switches *switches) {
  for (uint32_t i = 0; switches && i < switches->n; i++) {
    kill(switches->supervisors[i].pid, SIGKILL);
    waitpid(switches->supervisors[i].pid, NULL, 0);
    close(switches->supervisors[i].ready);
  }
  free(switches);
}
