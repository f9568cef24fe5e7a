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
#include "launch.h"
#include "process.h"
#include "reservation.h"
#include "text.h"

/* A supervisor is a process that runs a command in a space of a lab, and prefixes the command's output with the
 * space's name. When the command ends, the supervisor reports that and stays, so that the space can be entered. SIGHUP
 * restarts the command. The supervisor ends with the process that has started it, and the command with it. */

struct by_supervisor_task {
  const struct by_lab *lab;
  uint32_t space;
  const char *name;           /* in front of lines */
  const char *const *command; /* of this program: "banyan", "switch", ...; ends with NULL */
  /* In the space, before the command; NULL: nothing. */
  enum banyan_status (*prepare)(const struct by_supervisor_task *task);
  uint32_t n_ports; /* for `prepare` */
};

struct by_supervisor {
  pid_t pid; /* 0: none */
  int ready; /* '+' when the command has printed that it is ready, '-' when it has ended */
};

enum { LINE_BYTES = 1024, READY_MS = 30000 };

struct supervisor {
  const struct by_supervisor_task *task;
  int signals, output, ready;
  pid_t child; /* 0: none */
  bool again;  /* to be started when the one before has ended */
  char line[LINE_BYTES];
  size_t length;
};

static void report(const struct supervisor *k, const char *text) {
  fprintf(stderr, "[%s] %s\n", k->task->name, text);
}

/* The reader may have gone. */
static void notify(const struct supervisor *k, char what) {
  if (write(k->ready, &what, 1) != 1) return;
}

/* ---- the command */

static _Noreturn void become(const struct supervisor *k, int output, pid_t parent) {
  by_restore_signals();
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
    execv("/proc/self/exe", (char *const *)k->task->command);
  _exit(127);
}

static void start_command(struct supervisor *k) {
  int ends[2];
  pid_t parent = getpid();
  k->again = false;
  k->length = 0;
  k->child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
  if (k->child < 0) {
    report(k, strerror(errno));
    return;
  }
  if (k->child == 0) become(k, ends[1], parent);
  close(ends[1]);
  if (k->output >= 0) close(k->output);
  k->output = ends[0];
}

static void take_output(struct supervisor *k) {
  ssize_t n = read(k->output, k->line + k->length, sizeof k->line - 1 - k->length);
  if (n <= 0) {
    close(k->output);
    k->output = -1;
    return;
  }
  k->length += (size_t)n;
  for (char *end; (end = memchr(k->line, '\n', k->length)) || k->length == sizeof k->line - 1;) {
    size_t used = end ? (size_t)(end - k->line) + 1 : k->length;
    k->line[used - (end ? 1 : 0)] = 0;
    report(k, k->line);
    if (strstr(k->line, ": ready")) notify(k, '+');
    k->length -= used;
    memmove(k->line, k->line + used, k->length);
  }
}

static void report_end(struct supervisor *k) {
  int status;
  char text[96], line[160];
  if (k->child <= 0 || waitpid(k->child, &status, WNOHANG) != k->child) return;
  while (k->output >= 0) take_output(k);
  k->child = 0;
  notify(k, '-');
  snprintf(line, sizeof line, "%s %s: %s; kill -HUP %d starts it again", "banyan", k->task->command[1],
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

/* The terminal's signals are for the lab. Sockets for people have one name each on a machine of their own. */
static enum banyan_status settle(const struct by_supervisor_task *task, pid_t parent) {
  setsid();
  prctl(PR_SET_NAME, "banyan-superv");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it ended before prctl took effect */
  BY_TRY(by_lab_enter(task->lab, task->space));
  if (mount("banyan-lab", "/run", "tmpfs", 0, NULL))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount a /run of its own");
  return task->prepare ? task->prepare(task) : BANYAN_OK;
}

static _Noreturn void keep(const struct by_supervisor_task *task, int ready, pid_t parent) {
  struct supervisor k = {.task = task, .output = -1, .ready = ready};
  if (settle(task, parent)) {
    report(&k, banyan_error_text());
    _exit(1);
  }
  k.signals = by_signal_descriptor((const int[]){SIGCHLD, SIGHUP, 0});
  start_command(&k);
  for (;;) {
    struct pollfd wait[] = {{.fd = k.signals, .events = POLLIN}, {.fd = k.output, .events = POLLIN}};
    if (poll(wait, 2, -1) < 0) continue;
    if (wait[1].revents) take_output(&k);
    if (wait[0].revents) take_signal(&k);
  }
}

/* Returns at once; the task is no longer needed then. */
static enum banyan_status supervisor_start(const struct by_supervisor_task *task, struct by_supervisor *out) {
  int ends[2];
  *out = (struct by_supervisor){.ready = -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) keep(task, ends[1], parent);
  int reason = errno;
  close(ends[1]);
  *out = (struct by_supervisor){.pid = pid > 0 ? pid : 0, .ready = ends[0]};
  return pid > 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a process in \"%s\"", task->name);
}

/* Waits until the command has printed that it is ready. BANYAN_ERR_SYSTEM: it has ended, or is not ready after 30 s. */
static enum banyan_status supervisor_await(struct by_supervisor *supervisor, const char *name) {
  struct pollfd wait = {.fd = supervisor->ready, .events = POLLIN};
  char what = 0;
  if (poll(&wait, 1, READY_MS) == 1 && read(supervisor->ready, &what, 1) == 1 && what == '+') return BANYAN_OK;
  return by_fail(BANYAN_ERR_SYSTEM, "\"%s\" has not started%s", name, what ? "; above is why" : "");
}

static void supervisor_stop(struct by_supervisor *supervisor) {
  if (supervisor->pid) {
    kill(supervisor->pid, SIGKILL);
    waitpid(supervisor->pid, NULL, 0);
  }
  if (supervisor->ready >= 0) close(supervisor->ready);
  *supervisor = (struct by_supervisor){.ready = -1};
}

enum { MOST_CELLS = 1 << 20 };

struct by_lab_switches {
  uint32_t n;
  struct by_supervisor supervisors[];
};

/* The fragments that come in by any port go to the switch, as docs/in-network.md asks of its host. */
static enum banyan_status add_rules(const struct by_supervisor_task *task) {
  struct by_netlink netlink;
  char interface[24];
  BY_TRY(by_netlink_open(&netlink));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t k = 0; k < task->n_ports && status == BANYAN_OK; k++) {
    snprintf(interface, sizeof interface, "eth%u", k);
    status = by_netlink_add_rule(&netlink, interface, IPPROTO_UDP, BY_FRAGMENT_PORT, BY_USER_TABLE);
  }
  by_netlink_close(&netlink);
  return status;
}

static enum banyan_status start(struct by_lab_switches *switches, const struct by_lab *lab,
                                const struct by_lab_layout *layout, uint32_t space, enum by_lab_switch_kind kind) {
  struct by_text ports = {0};
  char address[16], cells[16];
  bool xdp = kind == BY_LAB_SWITCHES_XDP;
  uint32_t n_ports = layout->spaces[layout->spaces[space].outside].n_wires;
  for (uint32_t k = 0; k < n_ports; k++) by_text_add(&ports, "%seth%u", k ? "," : "", k);
  by_lab_print_address(layout->spaces[space].address, address);
  const struct by_node *node = &layout->topology->nodes[space];
  snprintf(cells, sizeof cells, "%u", (uint32_t)MIN(MAX(node->memory / BY_RESERVATION_SLOT_BYTES, 1), MOST_CELLS));
  const char *command[] = {
      "banyan",    "switch", xdp ? "--xdp" : "--user",        by_text_get(&ports),
      "--control", address,  node->memory ? "--cells" : NULL, /* else as many as `banyan switch` takes by itself */
      cells,       NULL};
  struct by_supervisor_task task = {.lab = lab,
                                    .space = space,
                                    .name = layout->spaces[space].name,
                                    .command = command,
                                    .prepare = xdp ? NULL : add_rules,
                                    .n_ports = n_ports};
  enum banyan_status status =
      ports.failed ? BANYAN_ERR_NO_MEMORY : supervisor_start(&task, &switches->supervisors[switches->n]);
  switches->n += status == BANYAN_OK;
  by_text_fini(&ports);
  return status;
}

static bool adds(const struct by_lab_layout *layout, uint32_t node) {
  return layout->topology->nodes[node].kind == BY_NODE_SWITCH && layout->topology->nodes[node].aggregates;
}

static enum banyan_status await(struct by_lab_switches *switches, const struct by_lab_layout *layout) {
  for (uint32_t v = 0, i = 0; i < switches->n; v++) {
    if (!adds(layout, v)) continue;
    struct by_supervisor *supervisor = &switches->supervisors[i++];
    BY_TRY(supervisor_await(supervisor, layout->spaces[v].name));
    fprintf(stderr,
            "banyan lab: switch %s: kill -HUP %d restarts it, \"nsenter -m -r -n -u -t %d\" enters its namespaces\n",
            layout->spaces[v].name, (int)supervisor->pid, (int)supervisor->pid);
  }
  return BANYAN_OK;
}

enum banyan_status by_lab_switches_start(const struct by_lab *lab, const struct by_lab_layout *layout,
                                         enum by_lab_switch_kind kind, struct by_lab_switches **out) {
  uint32_t n = layout->topology->n_nodes;
  struct by_lab_switches *switches = calloc(1, sizeof *switches + n * sizeof *switches->supervisors);
  *out = NULL;
  if (!switches) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's switches");
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = 0; v < n && status == BANYAN_OK && kind != BY_LAB_SWITCHES_NONE; v++)
    if (adds(layout, v)) status = start(switches, lab, layout, v, kind);
  if (status == BANYAN_OK) status = await(switches, layout);
  if (status == BANYAN_OK)
    *out = switches;
  else
    by_lab_switches_stop(switches);
  return status;
}

void by_lab_switches_stop(struct by_lab_switches *switches) {
  for (uint32_t i = 0; switches && i < switches->n; i++) supervisor_stop(&switches->supervisors[i]);
  free(switches);
}
