/* Starts helpers and servers as child processes, reads their output and measures their traffic. */
#include "agent_daemon.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptor.h"
#include "job_key.h"
#include "log.h"
#include "socket.h"

enum { LINE = 512 };

static const uint64_t timeout = 2 * BY_SECOND;

/* Output of a process; only the first and the last whole line matter. */
struct output {
  struct by_helper_process *process;
  int fd;
  struct by_watch *watch;
  char line[LINE]; /* The incomplete line. */
  size_t length;
  char last[LINE];
};

/* State of a process.
 *
 *   state     next states
 *   STARTED   JOINED, LEAVING
 *   JOINED    LEAVING
 *   LEAVING   -                  it was asked to leave, and is killed if it does not
 *
 * In each state it may end, and is then removed. */
enum state { STARTED, JOINED, LEAVING };

struct by_helper_process {
  LIST_ENTRY(by_helper_process) entry;
  struct by_helper_processes *among;
  char job[BY_CLUSTER_JOB_ID + 1];
  bool server;
  pid_t pid;
  int pidfd;
  struct by_watch *end;
  struct output out, err;
  enum state state;
  struct by_timer deadline;
};

static const char *kind_of(const struct by_helper_process *process) {
  return process->server ? "server" : "helper";
}

static void set_state(struct by_helper_process *process, enum state state) {
  static const char *const names[] = {"started", "joined", "leaving"};
  by_debug("agent", "process of the %s of job %s: %s -> %s", kind_of(process), process->job, names[process->state],
           names[state]);
  assert(state > process->state);
  process->state = state;
}

/* ---- output */

/* Handles a line. Standard output has "NAME helps N ranks" or "NAME serves N trees". */
static void handle_line(struct output *output) {
  struct by_helper_process *process = output->process;
  output->line[output->length] = '\0';
  by_keep_printable(output->line, output->last, sizeof output->last);
  output->length = 0;
  if (output != &process->out || process->state != STARTED) return;
  if (!strstr(output->last, process->server ? " serves " : " helps ")) return;
  set_state(process, JOINED);
  process->among->joined(process->among->context, process->job, process->server);
}

static void handle_bytes(struct output *output, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] == '\n')
      handle_line(output);
    else if (output->length < LINE - 1)
      output->line[output->length++] = bytes[i];
  }
}

static void close_output(struct output *output) {
  by_loop_unwatch(output->watch);
  output->watch = NULL;
  if (output->fd >= 0) close(output->fd);
  output->fd = -1;
}

/* Reads without waiting, including what a dead process has written. */
static void read_output(void *context, uint32_t events) {
  struct output *output = context;
  char bytes[4096];
  (void)events;
  while (output->fd >= 0) {
    ssize_t n = read(output->fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close_output(output);
      return;
    }
    handle_bytes(output, bytes, (size_t)n);
  }
}

/* ---- end */

static void destroy_process(struct by_helper_process *process) {
  LIST_REMOVE(process, entry);
  if (process->pid > 0 && !kill(process->pid, SIGKILL)) waitpid(process->pid, NULL, 0);
  by_loop_cancel_timer(&process->deadline);
  by_loop_unwatch(process->end);
  if (process->pidfd >= 0) close(process->pidfd);
  close_output(&process->out);
  close_output(&process->err);
  free(process);
}

static void describe_end(const struct by_helper_process *process, int status, char why[LINE]) {
  const char *last = process->err.last;
  if (WIFSIGNALED(status))
    snprintf(why, LINE, "the %s was killed by signal %d", kind_of(process), WTERMSIG(status));
  else if (WEXITSTATUS(status) == 0)
    snprintf(why, LINE, "%s", process->state == LEAVING ? "it was released" : "the job is over");
  else
    snprintf(why, LINE, "the %s ended with %d: %.400s", kind_of(process), WEXITSTATUS(status),
             *last ? last : "without a message");
}

static void has_ended(void *context, uint32_t events) {
  struct by_helper_process *process = context;
  struct by_helper_processes *among = process->among;
  char job[BY_CLUSTER_JOB_ID + 1], why[LINE];
  bool server = process->server;
  int status = 0;
  (void)events;
  if (waitpid(process->pid, &status, WNOHANG) == 0) return;
  process->pid = 0;
  read_output(&process->out, EPOLLIN);
  read_output(&process->err, EPOLLIN);
  describe_end(process, status, why);
  memcpy(job, process->job, sizeof job);
  destroy_process(process);
  among->ended(among->context, job, server, why);
}

static void kill_late(void *context) {
  const struct by_helper_process *process = context;
  by_warn("agent", "the %s of job %s does not leave; it is killed", kind_of(process), process->job);
  if (process->pid > 0) kill(process->pid, SIGKILL);
}

void by_helper_processes_rest(struct by_helper_processes *processes, const char *job, bool server) {
  struct by_helper_process *process = LIST_FIRST(&processes->all);
  while (process && (process->server != server || strcmp(process->job, job) != 0)) process = LIST_NEXT(process, entry);
  if (!process || process->state == LEAVING) return;
  set_state(process, LEAVING);
  kill(process->pid, SIGTERM);
  by_loop_set_delay(processes->loop, &process->deadline, timeout);
}

/* ---- start */

/* Runs in the child. The environment names a descriptor with the key, and this agent. */
static _Noreturn void become_helper(const struct by_helper_processes *processes, const struct by_cluster_message *help,
                                    int key, pid_t parent, const int ends[2]) {
  const char *program = processes->program;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  dup2(ends[0], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  char trees[16], key_path[32];
  snprintf(key_path, sizeof key_path, "/proc/self/fd/%d", key);
  unsetenv("BANYAN_KEY");
  if (fcntl(key, F_SETFD, 0) || setenv("BANYAN_KEY_FILE", key_path, 1) || setenv("BANYAN_AGENT", processes->agent, 1))
    _exit(127);
  snprintf(trees, sizeof trees, "%u", help->trees ? help->trees : 1);
  const char *arguments[] = {"banyan",     help->server ? "server" : "helper", "--root", help->root, "--name",
                             help->helper, help->server ? "--trees" : NULL,    trees,    NULL};
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) execv(program, (char *const *)arguments);
  dprintf(STDERR_FILENO, "cannot run %s: %s\n", program, strerror(errno));
  _exit(127);
}

static enum banyan_status spawn_process(struct by_helper_process *process, const struct by_cluster_message *help) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  int key = -1;
  pid_t parent = getpid();
  BY_TRY(by_job_key_share(help->key, &key));
  process->pid = pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) ? -1 : fork();
  if (process->pid == 0) become_helper(process->among, help, key, parent, (int[]){out[1], err[1]});
  int reason = errno;
  by_close(key);
  if (out[1] >= 0) close(out[1]);
  if (err[1] >= 0) close(err[1]);
  process->out.fd = out[0];
  process->err.fd = err[0];
  return process->pid > 0
             ? BANYAN_OK
             : by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a %s for job %s", kind_of(process), help->job);
}

static enum banyan_status watch_output(struct by_helper_process *process, struct output *output) {
  output->process = process;
  if (fcntl(output->fd, F_SETFL, O_NONBLOCK))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read what a helper prints");
  return by_loop_watch(process->among->loop, output->fd, EPOLLIN, read_output, output, &output->watch);
}

static enum banyan_status start_process(struct by_helper_process *process, const struct by_cluster_message *help) {
  BY_TRY(spawn_process(process, help));
  BY_TRY(watch_output(process, &process->out));
  BY_TRY(watch_output(process, &process->err));
  BY_TRY(by_pidfd_open(process->pid, &process->pidfd));
  return by_loop_watch(process->among->loop, process->pidfd, EPOLLIN, has_ended, process, &process->end);
}

enum banyan_status by_helper_processes_start(struct by_helper_processes *processes,
                                             const struct by_cluster_message *help) {
  struct by_helper_process *process = calloc(1, sizeof *process);
  if (!process) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a helper");
  process->among = processes;
  process->out.fd = process->err.fd = process->pidfd = -1;
  snprintf(process->job, sizeof process->job, "%s", help->job);
  process->server = help->server;
  by_timer_init(&process->deadline, kill_late, process);
  LIST_INSERT_HEAD(&processes->all, process, entry);
  enum banyan_status status = start_process(process, help);
  if (status != BANYAN_OK) destroy_process(process);
  return status;
}

void by_helper_processes_fini(struct by_helper_processes *processes) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&processes->all)) destroy_process(LIST_FIRST(&processes->all));
}

/* ---- traffic, by the kernel's counts of open connections (sock_diag) */

enum { MAX_SOCKETS = 4096, ESTABLISHED = 1 << 1 /* The bit of TCP_ESTABLISHED. */ };

struct traffic_query {
  unsigned long inodes[MAX_SOCKETS]; /* Inodes of the process's sockets. */
  size_t n_inodes;
  struct by_agent_counter *counters;
  size_t n;
};

static void list_sockets(pid_t pid, struct traffic_query *traffic_query) {
  char path[300], target[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder)) && traffic_query->n_inodes < MAX_SOCKETS;) {
    ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    if (sscanf(target, "socket:[%lu]", &traffic_query->inodes[traffic_query->n_inodes]) == 1) traffic_query->n_inodes++;
  }
  closedir(folder);
}

static struct by_agent_counter *find_interface(const struct traffic_query *traffic_query,
                                               const struct inet_diag_msg *socket) {
  char text[INET6_ADDRSTRLEN] = "";
  struct in6_addr six;
  memcpy(&six, socket->id.idiag_src, sizeof six);
  if (socket->idiag_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six))
    inet_ntop(AF_INET, &socket->id.idiag_src[3], text, sizeof text);
  else
    inet_ntop(socket->idiag_family, socket->id.idiag_src, text, sizeof text);
  for (size_t i = 0; i < traffic_query->n; i++)
    if (!strcmp(traffic_query->counters[i].address, text)) return &traffic_query->counters[i];
  return NULL;
}

static int add_socket(const struct nlmsghdr *header, void *context) {
  const struct traffic_query *traffic_query = context;
  const struct inet_diag_msg *socket = mnl_nlmsg_get_payload(header);
  struct tcp_info info;
  size_t i = 0;
  while (i < traffic_query->n_inodes && traffic_query->inodes[i] != socket->idiag_inode) i++;
  if (i == traffic_query->n_inodes) return MNL_CB_OK;
  struct by_agent_counter *counter = find_interface(traffic_query, socket);
  if (!counter) return MNL_CB_OK;
  by_netlink_copy(by_netlink_find(header, sizeof *socket, INET_DIAG_INFO), &info, sizeof info);
  counter->helped_sent += info.tcpi_bytes_acked;
  counter->helped_received += info.tcpi_bytes_received;
  return MNL_CB_OK;
}

void by_helper_process_add_traffic(struct by_netlink *sockets, pid_t pid, struct by_agent_counter *counters, size_t n) {
  static const uint8_t families[] = {AF_INET, AF_INET6};
  struct traffic_query *traffic_query = pid > 0 ? calloc(1, sizeof *traffic_query) : NULL;
  struct by_netlink_request request;
  if (!traffic_query) return;
  *traffic_query = (struct traffic_query){.counters = counters, .n = n};
  list_sockets(pid, traffic_query);
  for (size_t i = 0; i < sizeof families && traffic_query->n_inodes > 0; i++) {
    struct inet_diag_req_v2 *body = by_netlink_begin(&request, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sizeof *body);
    body->sdiag_family = families[i];
    body->sdiag_protocol = IPPROTO_TCP;
    body->idiag_ext = 1 << (INET_DIAG_INFO - 1);
    body->idiag_states = ESTABLISHED;
    (void)by_netlink_receive(sockets, &request, add_socket, traffic_query);
  }
  free(traffic_query);
}

void by_helper_processes_add_traffic(const struct by_helper_processes *processes, struct by_netlink *sockets,
                                     struct by_agent_counter *counters, size_t n) {
  for (const struct by_helper_process *one = LIST_FIRST(&processes->all); one; one = LIST_NEXT(one, entry))
    by_helper_process_add_traffic(sockets, one->pid, counters, n);
}
