/* Supervises the services of a lab: starts them in their spaces, forwards their output, and starts them again. */
#include "lab_services.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "fail.h"
#include "lab.h"
#include "launch_io.h"
#include "process.h"
#include "reservation.h"
#include "text.h"

/* ---- the lab's folder */

enum { FTW_DESCRIPTORS = 16 };

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *where) {
  (void)file;
  (void)kind;
  (void)where;
  remove(path);
  return 0;
}

static void remove_all(const char *path) {
  nftw(path, remove_one, FTW_DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Starts a process that removes the folder when the descriptor is closed, even if the lab is killed. It ignores the
 * terminal's signals. */
static enum banyan_status remove_at_end(const char *path, int *out) {
  int ends[2];
  char byte;
  if (pipe2(ends, O_CLOEXEC)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    setsid();
    dup2(ends[0], STDIN_FILENO);
    close_range(STDOUT_FILENO, ~0U, 0);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) continue;
    remove_all(path);
    _exit(0);
  }
  int reason = errno;
  close(ends[0]);
  *out = ends[1];
  if (pid > 0) return BANYAN_OK;
  close(ends[1]);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start the process that removes %s", path);
}

enum banyan_status by_lab_folder_make(struct by_lab_folder *out) {
  *out = (struct by_lab_folder){.path = P_tmpdir "/banyan-lab.XXXXXX", .keeper = -1};
  if (!mkdtemp(out->path)) {
    int reason = errno;
    *out = (struct by_lab_folder){.keeper = -1};
    return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot make a folder for the lab in " P_tmpdir);
  }
  if (chmod(out->path, 0755)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s to all users", out->path);
  return remove_at_end(out->path, &out->keeper);
}

void by_lab_folder_remove(struct by_lab_folder *folder) {
  if (*folder->path) remove_all(folder->path);
  by_cli_close(&folder->keeper);
  *folder->path = '\0';
}

char *by_lab_folder_path(const struct by_lab_folder *folder, const char *name, char *out) {
  snprintf(out, BY_LAB_PATH, "%s/%.128s", folder->path, name);
  return out;
}

enum banyan_status by_lab_folder_write(const struct by_lab_folder *folder, const char *name,
                                       const struct by_text *text) {
  char path[BY_LAB_PATH];
  if (text->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the text of the lab's %s", name);
  int file = open(by_lab_folder_path(folder, name, path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool written =
      file >= 0 && write(file, by_text_get(text), text->length) == (ssize_t)text->length && !fchmod(file, 0644);
  int reason = errno;
  if (file >= 0) close(file);
  return written ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot write the lab's %s to %s", name, path);
}

/* When its program ends, a supervisor reports that and stays, so that the space can be entered. SIGHUP restarts the
 * program. The supervisor ends with the process that has started it, and the program with it. */

struct supervisor {
  /* ---- The following two members are for the process that has started it. */
  pid_t pid;
  enum by_lab_role role;
  uint32_t space;
  bool awaited;
  int ready; /* Receives '+' when the program has printed that it is ready, '-' when it has ended. */
  /* ---- The members that follow are for the supervisor itself. */
  char label[BY_TOPOLOGY_MAX_NAME + 16]; /* Precedes lines of its output. */
  const char *const *command;
  int listener, signals, output, report;
  pid_t child;  /* 0: none. */
  bool restart; /* To be started when the previous one has ended. */
  struct by_pipe lines;
};

struct by_lab_services {
  const struct by_lab *lab;
  const struct by_lab_layout *layout;
  const char *folder;
  struct supervisor *supervisors;
  size_t n, capacity;
};

enum { LINE_BYTES = 1024, READY_MS = 30000, MAX_CELLS = 1 << 20, PATH_BYTES = 4096, MAX_WORDS = 24 };

const char *by_lab_role_name(enum by_lab_role role) {
  static const char *const names[] = {"switch", "agent", "manager"};
  return names[role];
}

static void report_state(const struct supervisor *k, const char *text) {
  fprintf(stderr, "[%s] %s\n", k->label, text);
}

/* Fails if the reader has gone. */
static void notify_starter(const struct supervisor *k, char what) {
  if (write(k->report, &what, 1) != 1) return;
}

/* ---- the program */

static _Noreturn void become_program(const struct supervisor *k, int output, pid_t parent) {
  by_restore_signals();
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (k->listener == BY_LAB_LISTENER) fcntl(k->listener, F_SETFD, 0);
  if (k->listener >= 0) dup2(k->listener, BY_LAB_LISTENER);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) execv("/proc/self/exe", (char *const *)k->command);
  _exit(127);
}

static void start_program(struct supervisor *k) {
  int ends[2];
  pid_t parent = getpid();
  k->restart = false;
  k->lines.start = k->lines.end;
  k->child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
  if (k->child < 0) {
    report_state(k, strerror(errno));
    return;
  }
  if (k->child == 0) become_program(k, ends[1], parent);
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
    report_state(k, bytes);
    if (strstr(bytes, ": ready")) notify_starter(k, '+');
    k->lines.start += used + (end && used == whole);
  }
}

static void report_end(struct supervisor *k) {
  int status;
  char text[96], line[160];
  if (k->child <= 0 || waitpid(k->child, &status, WNOHANG) != k->child) return;
  while (k->output >= 0) take_output(k);
  k->child = 0;
  notify_starter(k, '-');
  snprintf(line, sizeof line, "banyan %s: %s; kill -HUP %d starts it again", by_lab_role_name(k->role),
           by_print_wait_status(status, text, sizeof text), (int)getpid());
  if (k->restart)
    start_program(k);
  else
    report_state(k, line);
}

static void take_signal(struct supervisor *k) {
  struct signalfd_siginfo info;
  if (read(k->signals, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGCHLD) {
    report_end(k);
  } else if (k->child <= 0) {
    start_program(k);
  } else {
    k->restart = true;
    kill(k->child, SIGTERM);
  }
}

/* ---- the supervisor */

static uint32_t count_ports(const struct by_lab_layout *layout, uint32_t space) {
  return layout->spaces[layout->spaces[space].outside].n_wires;
}

enum banyan_status by_lab_services_enter(const struct by_lab_services *services, uint32_t space) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%u", services->folder, space);
  BY_TRY(by_lab_enter(services->lab, space));
  if ((mkdir(path, 0755) && errno != EEXIST) || mount(path, "/run", NULL, MS_BIND, NULL))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount a /run of its own");
  return BANYAN_OK;
}

/* Prepares the process: the terminal's signals are for the lab. */
static enum banyan_status prepare_process(const struct by_lab_services *services, const struct by_lab_service *service,
                                          pid_t parent) {
  setsid();
  prctl(PR_SET_NAME, "banyan-superv");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* The parent ended before prctl took effect. */
  for (const char *const *name = (const char *const[]){"AGENT", "MANAGER", "HOST", "KEYS", NULL}; *name; name++) {
    char variable[32];
    snprintf(variable, sizeof variable, "BANYAN_%s", *name);
    unsetenv(variable); /* This machine's variables do not apply to the lab. */
  }
  return by_lab_services_enter(services, service->space);
}

static _Noreturn void supervise_program(const struct by_lab_services *services, const struct by_lab_service *service,
                                        struct supervisor *k, pid_t parent) {
  if (prepare_process(services, service, parent)) {
    report_state(k, banyan_error_text());
    _exit(1);
  }
  signal(SIGHUP, SIG_DFL); /* Under nohup it is ignored, but here it is a command. */
  k->signals = by_signal_descriptor((const int[]){SIGCHLD, SIGHUP, 0});
  start_program(k);
  for (;;) {
    struct pollfd wait[] = {{.fd = k->signals, .events = POLLIN}, {.fd = k->output, .events = POLLIN}};
    if (poll(wait, 2, -1) < 0) continue;
    if (wait[1].revents) take_output(k);
    if (wait[0].revents) take_signal(k);
  }
}

/* ---- the services */

enum banyan_status by_lab_services_create(const struct by_lab *lab, const struct by_lab_layout *layout,
                                          const char *folder, struct by_lab_services **out) {
  struct by_lab_services *services = calloc(1, sizeof *services);
  if (!services) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's services");
  *services = (struct by_lab_services){.lab = lab, .layout = layout, .folder = folder};
  *out = services;
  return BANYAN_OK;
}

enum banyan_status by_lab_services_start(struct by_lab_services *services, const struct by_lab_service *service) {
  const char *name = services->layout->spaces[service->space].name, *role = by_lab_role_name(service->role);
  int ends[2];
  if (!BY_ARRAY_GROW(&services->supervisors, &services->capacity, services->n + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's services");
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  struct supervisor *k = &services->supervisors[services->n];
  *k = (struct supervisor){.role = service->role,
                           .space = service->space,
                           .ready = ends[0],
                           .command = service->command,
                           .listener = service->listener,
                           .output = -1,
                           .report = ends[1]};
  snprintf(k->label, sizeof k->label, service->role == BY_LAB_SWITCH ? "%s" : "%s/%s", name, role);
  pid_t parent = getpid();
  k->pid = fork();
  if (k->pid == 0) supervise_program(services, service, k, parent);
  int reason = errno;
  close(ends[1]);
  if (k->pid > 0) {
    services->n++;
    return BANYAN_OK;
  }
  close(ends[0]);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a process in \"%s\"", name);
}

/* Adds nothing if `value` is NULL. */
static void add_option(const char **command, int *n, const char *option, const char *value) {
  if (!value) return;
  command[(*n)++] = option;
  command[(*n)++] = value;
}

/* Adds the rates of an XDP switch's interfaces, which do not know them, since packets are queued in its front. */
static void add_rates(const struct by_lab_layout *layout, uint32_t space, struct by_text *out) {
  uint32_t outside = layout->spaces[space].outside;
  for (uint32_t i = 0; i < layout->n_wires; i++)
    for (int end = 0; end < 2; end++)
      if (layout->wires[i].space[end] == outside)
        by_text_add(out, "%seth%u=%.0f", out->length ? "," : "", layout->wires[i].port[end],
                    layout->wires[i].rate[end]);
}

static enum banyan_status start_switch(struct by_lab_services *services, uint32_t space, bool xdp, const char *manager,
                                       const char *keys) {
  const struct by_lab_layout *layout = services->layout;
  const struct by_node *node = &layout->topology->nodes[space];
  struct by_text ports = {0}, rates = {0};
  char address[BY_ADDRESS_TEXT], cells[16];
  for (uint32_t k = 0; k < count_ports(layout, space); k++) by_text_add(&ports, "%seth%u", k ? "," : "", k);
  by_lab_print_address(layout, layout->spaces[space].address, address);
  snprintf(cells, sizeof cells, "%u", (uint32_t)MIN(MAX(node->memory / BY_RESERVATION_SLOT_BYTES, 1), MAX_CELLS));
  if (xdp) add_rates(layout, space, &rates);
  const char *command[MAX_WORDS] = {"banyan", "switch", xdp ? "--xdp" : "--user", by_text_get(&ports)};
  int n = 4;
  add_option(command, &n, "--control", address);
  add_option(command, &n, "--cells", node->memory ? cells : NULL); /* Otherwise it chooses. */
  add_option(command, &n, "--manager", manager);
  add_option(command, &n, "--keys", keys);
  add_option(command, &n, "--name", manager ? node->name : NULL);
  add_option(command, &n, "--rate", manager && xdp ? by_text_get(&rates) : NULL);
  const struct by_lab_service service = {.role = BY_LAB_SWITCH, .space = space, .command = command, .listener = -1};
  enum banyan_status status = by_lab_services_start(services, &service);
  by_text_fini(&ports);
  by_text_fini(&rates);
  return status;
}

enum banyan_status by_lab_services_start_switches(struct by_lab_services *services, enum by_lab_switch_kind kind,
                                                  const char *manager, const char *keys) {
  const struct by_topology *t = services->layout->topology;
  for (uint32_t v = 0; v < t->n_nodes && kind != BY_LAB_SWITCHES_NONE; v++)
    if (t->nodes[v].kind == BY_NODE_SWITCH && t->nodes[v].aggregates)
      BY_TRY(start_switch(services, v, kind == BY_LAB_SWITCHES_XDP, manager, keys));
  return BANYAN_OK;
}

static enum banyan_status await_service(const struct by_lab_services *services, const struct supervisor *k) {
  const char *name = services->layout->spaces[k->space].name, *role = by_lab_role_name(k->role);
  struct pollfd wait = {.fd = k->ready, .events = POLLIN};
  char what = 0;
  if (poll(&wait, 1, READY_MS) != 1 || read(k->ready, &what, 1) != 1 || what != '+')
    return by_fail(BANYAN_ERR_SYSTEM, "%s \"%s\" has not started%s", role, name,
                   what ? "; see the messages above" : "");
  by_command_note("banyan lab: %s %s: kill -HUP %d restarts it, \"nsenter -m -r -n -u -t %d\" enters its namespaces",
                  role, name, (int)k->pid, (int)k->pid);
  return BANYAN_OK;
}

enum banyan_status by_lab_services_await(struct by_lab_services *services) {
  for (size_t i = 0; i < services->n; i++) {
    struct supervisor *k = &services->supervisors[i];
    if (!k->awaited) BY_TRY(await_service(services, k));
    k->awaited = true;
  }
  return BANYAN_OK;
}

pid_t by_lab_services_find(const struct by_lab_services *services, enum by_lab_role role, uint32_t space) {
  for (size_t i = 0; services && i < services->n; i++)
    if (services->supervisors[i].role == role && (space == UINT32_MAX || services->supervisors[i].space == space))
      return services->supervisors[i].pid;
  return 0;
}

void by_lab_services_destroy(struct by_lab_services *services) {
  if (!services) return;
  for (size_t i = services->n; i-- > 0;) { /* Agents before their manager, whose loss they would report. */
    kill(services->supervisors[i].pid, SIGKILL);
    waitpid(services->supervisors[i].pid, NULL, 0);
    close(services->supervisors[i].ready);
  }
  free(services->supervisors);
  free(services);
}
