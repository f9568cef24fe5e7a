/* `banyan run-host`: starts the ranks of one host for `banyan run`. It receives frames on standard input and sends
 * frames on standard output. When standard input ends, all processes of this host end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "commands.h"
#include "descriptor.h"
#include "job_key.h"
#include "launch.h"
#include "launch_io.h"
#include "log.h"
#include "process.h"
#include "process_identity.h"
#include "run_host.h"
#include "settings.h"
#include "socket.h"
#include "text.h"

/* ---- Processes of the ranks of one host. Each leads a process group and ends with this process; their descendants
 * become children of this process when their parents end, and are killed by kill_descendants. One thread. */

struct rank_process {
  pid_t pid;    /* 0: ended, or never started. */
  int pipes[2]; /* Its stdout and stderr to read; -1: closed. */
  int starts;   /* Number of earlier starts. */
};

/* For elastic jobs: where processes register, and how many of this machine precede its own. */
struct elastic_place {
  const char *directory; /* NULL: not an elastic job. */
  int local, local_size; /* `local_size` 0: not an elastic job. */
};

static const char key_name[] = "BANYAN_KEY", switch_key_name[] = "BANYAN_SWITCH_KEY";
static int switch_key = -1;    /* Descriptor with the switches' secret, if there is one. */
static int root_identity = -1; /* Descriptor with the secret of rank 0's identity, if rank 0 is on this host. */
static int *key_fds, n_keys;   /* Descriptors with keys: the job's for all ranks, or one for each helper. */
static int presence = -1;      /* Descriptor with a byte for each rank, see presence.h. */
static struct rlimit files;    /* The initial limit, which ranks get back. */

/* Runs in the child. Its environment, which it cannot hide later, only names this process's descriptors of keys:
 * programs that start the rank may close inherited ones. */
static void set_environment(const struct by_host_job *job, int index, const struct elastic_place *elastic, int starts) {
  const struct by_rank_place place = {.rank = job->first + index,
                                      .size = job->size,
                                      .local_rank = elastic->local + index,
                                      .local_size = elastic->local_size ? elastic->local_size : job->ranks,
                                      .sharing = job->ranks,
                                      .directory = elastic->directory,
                                      .starts = starts};
  struct by_job_environment own = {0};
  unsetenv("BANYAN_KEY");
  unsetenv("BANYAN_KEY_FILE");
  unsetenv("BANYAN_SWITCH_KEY");
  unsetenv("BANYAN_SWITCH_KEY_FILE");
  for (char **e = job->environment; *e; e++)
    if (!by_variable_value(*e, key_name) && !by_variable_value(*e, switch_key_name)) putenv(*e);
  if (switch_key >= 0) putenv(by_cli_print("BANYAN_SWITCH_KEY_FILE=/proc/%d/fd/%d", (int)getppid(), switch_key));
  if (n_keys) putenv(by_cli_print("BANYAN_KEY_FILE=/proc/%d/fd/%d", (int)getppid(), key_fds[MIN(index, n_keys - 1)]));
  unsetenv("BANYAN_IDENTITY_FILE");
  if (root_identity >= 0 && job->first + index == 0)
    putenv(by_cli_print("BANYAN_IDENTITY_FILE=/proc/%d/fd/%d", (int)getppid(), root_identity));
  unsetenv("BANYAN_LAUNCHER"); /* Of an outer job. */
  unsetenv(BY_PRESENCE_VARIABLE);
  if (presence >= 0) putenv(by_cli_print(BY_PRESENCE_VARIABLE "=/proc/%d/fd/%d", (int)getppid(), presence));
  bool has_threads = getenv("OMP_NUM_THREADS");
  by_rank_environment_add(&place, job->environment, has_threads, &own);
  for (size_t i = 0; i < own.count; i++) putenv(own.items[i]);
  by_line_output_set();
  if (index == 0 && by_rank_environment_limits(&place, has_threads))
    by_info("launch", "OMP_NUM_THREADS=1, because %d ranks share this host; set it to use more threads", job->ranks);
}

/* Returns a hint about a command that cannot be run. */
static const char *hint_for(const char *command, int reason) {
  struct stat about;
  bool is_there = reason == EACCES && stat(command, &about) == 0;
  if (is_there && S_ISDIR(about.st_mode)) return ": it is a folder; give a program";
  if (is_there && S_ISREG(about.st_mode) && access(command, X_OK))
    return ": it is not executable; chmod +x it, or give its interpreter, as in: python3 FILE";
  if (reason != ENOENT || strchr(command, '/')) return "";
  return access(command, F_OK) ? ": it is not in PATH"
                               : ": it is not in PATH; write ./ in front of it for the one in this folder";
}

static int exit_code_of(int reason) {
  return reason == ENOENT ? 127 : 126;
}

/* Runs in the child: becomes the rank, or reports why it cannot. */
static _Noreturn void become_rank(const struct by_host_job *job, int index, const struct elastic_place *elastic,
                                  int starts, pid_t parent, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* The parent ended before prctl took effect. */
  by_restore_signals();
  if (elastic->directory)
    signal(SIGUSR1, SIG_IGN); /* Slurm sends it to all processes of a step; ranks are asked to leave by a message. */
  if (files.rlim_max) setrlimit(RLIMIT_NOFILE, &files);
  if (job->pin >= 0 && !by_pin_process(job->pin + index)) fprintf(stderr, "banyan run: cannot bind to a core\n");
  set_environment(job, index, elastic, starts);
  execvp(job->command[0], job->command);
  int reason = errno;
  /* If Banyan is not installed, this program is meant. */
  if (reason == ENOENT && !strcmp(job->command[0], "banyan")) execv("/proc/self/exe", job->command);
  if (failed < 0 || write(failed, &reason, sizeof reason) != sizeof reason)
    fprintf(stderr, "banyan run: cannot run %s: %s%s\n", job->command[0], strerror(reason),
            hint_for(job->command[0], reason));
  _exit(exit_code_of(reason));
}

/* Waits until the child has become the rank, which closes its end, or has reported why it cannot. Closes this end. */
static enum banyan_status handle_failure(const struct by_host_job *job, int failed, int *exit_code) {
  int reason = 0;
  ssize_t n;
  do n = read(failed, &reason, sizeof reason);
  while (n < 0 && errno == EINTR);
  close(failed);
  if (n != sizeof reason) return BANYAN_OK;
  *exit_code = exit_code_of(reason);
  return by_fail(BANYAN_ERR_ARGUMENT, "cannot run %s: %s%s", job->command[0], strerror(reason),
                 hint_for(job->command[0], reason));
}

/* Starts rank job->first + index. For the first one it returns after the command was started: BANYAN_ERR_ARGUMENT and a
 * shell's exit code, 127 or 126, if that failed. The others report it on their stderr. */
static enum banyan_status start_rank(const struct by_host_job *job, int index, const struct elastic_place *elastic,
                                     struct rank_process *out, int *exit_code) {
  int pipes[3][2] = {[2] = {-1, -1}}, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool ready = by_cli_pipes(pipes, index == 0 ? 3 : 2) && nothing >= 0;
  pid_t parent = getpid(), pid = ready ? fork() : -1;
  if (pid == 0) {
    dup2(nothing, STDIN_FILENO);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[1][1], STDERR_FILENO);
    become_rank(job, index, elastic, out->starts, parent, pipes[2][1]);
  }
  int reason = errno;
  by_cli_close(&nothing);
  for (int i = 0; i < 3; i++) {
    by_cli_close(&pipes[i][1]);
    if (pid < 0) by_cli_close(&pipes[i][0]);
  }
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start rank %d", job->first + index);
  setpgid(pid, pid); /* Here as well: a signal to the group may come before the child runs. */
  for (int i = 0; i < 2; i++) by_cli_nonblock(pipes[i][0]);
  *out = (struct rank_process){.pid = pid, .pipes = {pipes[0][0], pipes[1][0]}, .starts = out->starts};
  return index == 0 ? handle_failure(job, pipes[2][0], exit_code) : BANYAN_OK;
}

/* Returns the next child that has ended: its pid and wait status; 0: none. Kills the rest of its group. */
static pid_t reap_next(int *status) {
  siginfo_t info = {0};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid) return 0;
  kill(-info.si_pid, SIGKILL); /* It is not yet reaped, so no other process can have this number. */
  waitpid(info.si_pid, status, 0);
  return info.si_pid;
}

/* Kills the children of this process; false if there are none. */
static bool kill_children(void) {
  FILE *file = fopen("/proc/thread-self/children", "re");
  int pid;
  bool any = false;
  if (!file) return false;
  while (fscanf(file, "%d", &pid) == 1) {
    any = true;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
  }
  fclose(file);
  return any;
}

/* Kills every child and descendant of this process, in any group, and waits for their end. */
static void kill_descendants(void) {
  while (kill_children() && waitpid(-1, NULL, 0) > 0) continue;
}

enum { MAX_PLACES = 160, MAX_PORT = 8, OWN_FDS = 4, MAX_WAITING = 1 << 20, PIPE_READ = 64 << 10, DRAIN_READS = 32 };

struct host {
  struct by_pipe in;
  struct by_pipe out;
  int signals;
  struct by_root_ports root; /* Ports of rank 0, if that is on this host. */
  char *payload;             /* Memory of the job's strings. */
  struct by_host_job job;
  struct rank_process *ranks;
  struct pollfd *polled; /* OWN_FDS of our own, two for each rank, then those of the directory. */
  int live;
  bool started, ending;
  bool is_elastic;                     /* The job is elastic. */
  struct by_host_directory *directory; /* Of an elastic job that has started; else NULL. */
  struct elastic_place elastic;
  struct by_preemption preemption;
  int exit_code; /* The job's exit code if a command cannot be run here. */
};

/* Forwards the contents of a pipe; returns false at its end. */
static bool forward_output(struct host *host, int index, int stream) {
  static char bytes[PIPE_READ];
  int *fd = &host->ranks[index].pipes[stream];
  ssize_t n = read(*fd, bytes, sizeof bytes);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n > 0)
    by_pipe_frame(&host->out, stream ? BY_LAUNCH_STDERR : BY_LAUNCH_STDOUT, (uint32_t)(host->job.first + index), bytes,
                  (size_t)n);
  return n > 0;
}

/* Forwards what a rank wrote before its end. Limited: a process that left the rank's group may hold the pipe and write
 * on. */
static void forward_rest(struct host *host, int index, int stream) {
  int *fd = &host->ranks[index].pipes[stream];
  for (int i = 0; i < DRAIN_READS && *fd >= 0; i++) {
    size_t before = by_pipe_waiting(&host->out);
    if (!forward_output(host, index, stream) || by_pipe_waiting(&host->out) == before) break;
  }
  by_cli_close(fd);
}

/* Tells whether a rank that has ended was still a member of the job. */
static bool had_joined(const struct host *host, int index) {
  char byte = 0;
  return presence >= 0 && pread(presence, &byte, 1, host->job.first + index) == 1 && byte;
}

static void end_rank(struct host *host, int index, int status) {
  char text[48];
  forward_rest(host, index, 0);
  forward_rest(host, index, 1);
  host->ranks[index].pid = 0;
  host->live--;
  if (host->directory) by_host_directory_forget(host->directory, (uint32_t)(host->job.first + index));
  by_pipe_frame(&host->out, BY_LAUNCH_ENDED, (uint32_t)(host->job.first + index), text,
                (size_t)snprintf(text, sizeof text, "%d%s", status, had_joined(host, index) ? BY_HAD_JOINED : ""));
}

/* Makes rank 0's identity here, so that all ranks know its fingerprint from the start. */
static enum banyan_status make_identity(struct by_fingerprint *out) {
  struct by_process_identity *identity;
  char secret[BY_JOB_KEY_TEXT];
  BY_TRY(by_job_key_create(secret));
  enum banyan_status status = by_process_identity_derive(secret, &identity);
  if (status == BANYAN_OK) {
    *out = *by_process_identity_fingerprint(identity);
    by_process_identity_destroy(identity);
    status = by_job_key_share(secret, &root_identity);
  }
  explicit_bzero(secret, sizeof secret);
  return status;
}

static enum banyan_status answer_port(struct host *host, const struct by_launch_frame *frame) {
  struct by_root_ports *ports = &host->root;
  if (ports->root) return by_fail(BANYAN_ERR_PROTOCOL, "the port was requested twice");
  const char *range = frame->payload, *interface = range + strlen(range) + 1;
  char places[MAX_PLACES] = "", answer[MAX_PLACES + BY_FINGERPRINT_TEXT + 2 * MAX_PORT];
  struct by_fingerprint fingerprint;
  if (interface >= frame->payload + frame->length) interface = "";
  BY_TRY(by_root_ports_open(ports, range, (int)MIN(frame->number, (uint32_t)BY_ROOT_PORTS)));
  enum banyan_status status = by_interface_offer(interface, ports->root, places, sizeof places);
  if (status != BANYAN_OK && *interface) return status; /* Otherwise the host's name remains. */
  BY_TRY(make_identity(&fingerprint));
  by_fingerprint_print(&fingerprint, ports->fingerprint);
  int length =
      snprintf(answer, sizeof answer, "%s#%s%c%d%c%d", places, ports->fingerprint, 0, ports->store, 0, ports->answers);
  by_pipe_frame(&host->out, BY_LAUNCH_PORT_IS, (uint32_t)ports->root, answer, (size_t)length);
  return BANYAN_OK;
}

static void reach_root(struct host *host, const struct by_launch_frame *frame) {
  char address[BY_ADDRESS_TEXT] = "";
  if (by_root_reach(frame->payload, address))
    fprintf(stderr, "%s; MASTER_ADDR may not work here\n", banyan_error_text());
  by_pipe_frame(&host->out, BY_LAUNCH_REACH, 0, address, strlen(address));
}

/* ---- elastic jobs */

static int starts_of(void *context, uint32_t process) {
  const struct host *host = context;
  uint32_t index = process - (uint32_t)host->job.first;
  return host->started && index < (uint32_t)host->job.ranks && host->ranks[index].pid ? host->ranks[index].starts : -1;
}

static void pass_on(void *context, uint32_t process, const void *message, size_t length) {
  struct host *host = context;
  by_pipe_frame(&host->out, BY_LAUNCH_MESSAGE, process, message, length);
}

static void announce_leaving(struct host *host, const char *why) {
  by_pipe_frame(&host->out, BY_LAUNCH_LEAVING, 0, why, strlen(why));
}

static enum banyan_status open_directory(struct host *host) {
  const struct by_host_directory_events events = {.context = host, .starts = starts_of, .received = pass_on};
  BY_TRY(by_host_directory_create(host->job.ranks, &events, &host->directory));
  host->elastic.directory = by_host_directory_name(host->directory);
  return BANYAN_OK;
}

static enum banyan_status become_elastic(struct host *host, const struct by_launch_frame *frame) {
  if (host->is_elastic || host->started || frame->number > BY_MAX_RANKS)
    return by_fail(BANYAN_ERR_PROTOCOL, "the job cannot be made elastic");
  size_t text = strlen(frame->payload) + 1;
  long size = 0;
  BY_TRY(by_parse_int("local size", frame->payload, 1, 2 * BY_MAX_RANKS, &size));
  host->is_elastic = true;
  host->elastic.local = (int)frame->number;
  host->elastic.local_size = (int)size;
  by_preemption_init(&host->preemption, text < frame->length ? frame->payload + text : "",
                     by_clock_now(&by_clock_system));
  close(host->signals);
  host->signals = by_signal_descriptor((const int[]){SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, 0});
  return BANYAN_OK;
}

/* Starts a rank again. One that cannot be started ends as if a shell could not start it. */
static enum banyan_status restart_rank(struct host *host, const struct by_launch_frame *frame) {
  uint32_t index = frame->number - (uint32_t)host->job.first;
  long starts = 0;
  if (!host->directory || !host->started || index >= (uint32_t)host->job.ranks || host->ranks[index].pid)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank %u cannot be started again", frame->number);
  BY_TRY(by_parse_int("starts", frame->payload, 1, BY_DIRECTORY_PROCESSES - 1, &starts));
  struct rank_process *rank = &host->ranks[index];
  int exit_code = 1;
  rank->starts = (int)starts;
  host->live++;
  if (start_rank(&host->job, (int)index, &host->elastic, rank, &exit_code) == BANYAN_OK) return BANYAN_OK;
  const char *text = banyan_error_text();
  by_pipe_frame(&host->out, BY_LAUNCH_STDERR, frame->number, text, strlen(text));
  if (!rank->pid) end_rank(host, (int)index, W_EXITCODE(exit_code, 0));
  return BANYAN_OK;
}

/* Removes the keys from the ranks' environment. */
static enum banyan_status keep_keys(const struct by_host_job *job) {
  enum banyan_status status = BANYAN_OK;
  for (char **e = job->environment; *e; e++) {
    bool of_switches = by_variable_value(*e, switch_key_name);
    if (!of_switches && !by_variable_value(*e, key_name)) continue;
    char *key = strchr(*e, '=') + 1;
    int fd = -1;
    if (status == BANYAN_OK && *key) status = by_job_key_share(key, &fd);
    explicit_bzero(key, strlen(key));
    if (fd < 0) continue;
    if (of_switches) {
      if (switch_key >= 0) by_close(switch_key);
      switch_key = fd;
      continue;
    }
    key_fds = by_cli_alloc(key_fds, (size_t)(n_keys + 1) * sizeof *key_fds);
    key_fds[n_keys++] = fd;
  }
  return status;
}

/* Replaces the key; ranks find it with the same descriptor. */
static enum banyan_status replace_key(const struct by_launch_frame *frame) {
  int fd = -1;
  if (frame->number >= (uint32_t)n_keys) return by_fail(BANYAN_ERR_PROTOCOL, "received a key before the ranks");
  enum banyan_status status = by_job_key_share(frame->payload, &fd);
  explicit_bzero(frame->payload, frame->length);
  BY_TRY(status);
  if (dup3(fd, key_fds[frame->number], O_CLOEXEC) < 0)
    status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot pass on the new key");
  by_close(fd);
  return status;
}

static enum banyan_status handle_start(struct host *host, const struct by_launch_frame *frame) {
  if (host->started) return by_fail(BANYAN_ERR_PROTOCOL, "received the request to start twice");
  host->payload = host->in.payload;
  host->in.payload = NULL;
  host->in.payload_capacity = 0;
  BY_TRY(by_host_job_parse(host->payload, frame->length, &host->job));
  BY_TRY(keep_keys(&host->job));
  size_t n = (size_t)host->job.ranks;
  host->ranks = by_cli_alloc(NULL, n * sizeof *host->ranks);
  if (host->is_elastic) BY_TRY(open_directory(host));
  size_t more = host->directory ? by_host_directory_max(host->directory) : 0;
  host->polled = by_cli_alloc(host->polled, (OWN_FDS + 2 * n + more) * sizeof *host->polled);
  for (size_t i = 0; i < n; i++) host->ranks[i] = (struct rank_process){.pipes = {-1, -1}};
  if (!host->is_elastic) presence = memfd_create(BY_PRESENCE_NAME, MFD_CLOEXEC);
  host->started = true;
  const char *directory = host->job.directory;
  if (*directory && chdir(directory))
    fprintf(stderr, "banyan run: cannot enter %s (%s); the ranks start elsewhere\n", directory, strerror(errno));
  for (int i = 0; i < host->job.ranks; i++, host->live++)
    BY_TRY(start_rank(&host->job, i, &host->elastic, &host->ranks[i], &host->exit_code));
  return BANYAN_OK;
}

static enum banyan_status handle_frame(struct host *host, const struct by_launch_frame *frame) {
  switch (frame->type) {
  case BY_LAUNCH_PORT: return answer_port(host, frame);
  case BY_LAUNCH_REACH: reach_root(host, frame); return BANYAN_OK;
  case BY_LAUNCH_START: return handle_start(host, frame);
  case BY_LAUNCH_SIGNAL:
    for (int i = 0; i < host->job.ranks && host->started; i++)
      if (host->ranks[i].pid) kill(-host->ranks[i].pid, (int)frame->number);
    return BANYAN_OK;
  case BY_LAUNCH_ELASTIC: return become_elastic(host, frame);
  case BY_LAUNCH_RESTART: return restart_rank(host, frame);
  case BY_LAUNCH_KEY: return replace_key(frame);
  case BY_LAUNCH_MESSAGE:
    if (host->directory && frame->number == UINT32_MAX)
      by_host_directory_send_all(host->directory, frame->payload, frame->length);
    else if (host->directory)
      by_host_directory_send(host->directory, frame->number, frame->payload, frame->length);
    return BANYAN_OK;
  default: return by_fail(BANYAN_ERR_PROTOCOL, "frame of type %d", (int)frame->type);
  }
}

static void receive_frames(struct host *host) {
  struct by_launch_frame frame;
  int found;
  if (!by_pipe_fill(&host->in, STDIN_FILENO)) host->ending = true;
  while (!host->ending && (found = by_pipe_next(&host->in, &frame))) {
    if (found > 0 && handle_frame(host, &frame) == BANYAN_OK) continue;
    if (found < 0)
      (void)by_fail(BANYAN_ERR_PROTOCOL, "no connection to banyan run, which starts this internal command");
    const char *text = banyan_error_text();
    by_pipe_frame(&host->out, BY_LAUNCH_ERROR, (uint32_t)host->exit_code, text, strlen(text));
    host->ending = true;
  }
}

static void take_signals(struct host *host) {
  struct signalfd_siginfo info;
  int status;
  while (read(host->signals, &info, sizeof info) == sizeof info)
    if (info.ssi_signo == SIGUSR1)
      announce_leaving(host, "it got SIGUSR1");
    else if (info.ssi_signo != SIGCHLD)
      host->ending = true;
  for (pid_t pid; (pid = reap_next(&status));) {
    char why[BY_DIRECTORY_TEXT];
    if (host->is_elastic &&
        by_preemption_ended(&host->preemption, pid, status, by_clock_now(&by_clock_system), why, sizeof why))
      announce_leaving(host, why);
    for (int i = 0; i < host->job.ranks; i++)
      if (host->ranks[i].pid == pid) end_rank(host, i, status);
  }
}

static size_t fill_polled(struct host *host) {
  struct pollfd *p = host->polled;
  *p++ = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
  *p++ = (struct pollfd){.fd = host->signals, .events = POLLIN};
  *p++ = (struct pollfd){.fd = by_pipe_waiting(&host->out) ? STDOUT_FILENO : -1, .events = POLLOUT};
  *p++ = (struct pollfd){.fd = host->root.fds[2], .events = POLLIN};
  bool full = by_pipe_waiting(&host->out) > MAX_WAITING;
  for (int i = 0; i < host->job.ranks && host->started; i++)
    for (int stream = 0; stream < 2; stream++)
      *p++ = (struct pollfd){.fd = full ? -1 : host->ranks[i].pipes[stream], .events = POLLIN};
  return (size_t)(p - host->polled);
}

/* Returns the milliseconds until something is due; -1: nothing is. */
static int wait_time(struct host *host) {
  uint64_t now = by_clock_now(&by_clock_system);
  if (!host->is_elastic || host->preemption.due == UINT64_MAX) return -1;
  by_preemption_tick(&host->preemption, now);
  return host->preemption.due <= now ? 0 : (int)MIN((host->preemption.due - now) / BY_MILLISECOND + 1, 60000);
}

/* Tells whether there is more to do than to send the rest. A host of an elastic job stays until banyan run ends it. */
static bool is_needed(const struct host *host) {
  return !host->started || host->live || host->is_elastic || by_pipe_waiting(&host->out);
}

/* Runs until the last rank has ended and all frames are sent. */
static void run_loop(struct host *host) {
  while (!host->ending && is_needed(host)) {
    size_t n = fill_polled(host), of_directory = 0;
    bool served = host->directory && host->started;
    if (served) of_directory = by_host_directory_fill(host->directory, host->polled + n);
    if (poll(host->polled, n + of_directory, wait_time(host)) < 0) continue;
    if (served) by_host_directory_handle(host->directory, host->polled + n);
    if (host->polled[2].revents) by_pipe_flush(&host->out);
    if (host->out.closed) host->ending = true;
    if (host->polled[3].revents) by_root_ports_answer(&host->root);
    for (size_t k = OWN_FDS; k < n; k++) {
      int index = (int)(k - OWN_FDS) / 2, stream = (int)(k - OWN_FDS) % 2, *fd = &host->ranks[index].pipes[stream];
      if (host->polled[k].revents && *fd >= 0 && !forward_output(host, index, stream)) by_cli_close(fd);
    }
    if (host->polled[1].revents) take_signals(host);
    if (host->polled[0].revents) receive_frames(host);
  }
}

static void open_host(struct host *host) {
  static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, 0};
  host->signals = by_signal_descriptor(signals);
  host->polled = by_cli_alloc(NULL, OWN_FDS * sizeof *host->polled);
  by_cli_nonblock(STDIN_FILENO);
  by_cli_nonblock(STDOUT_FILENO);
  by_pipe_init(&host->out, STDOUT_FILENO, SIZE_MAX);
  by_pipe_add(&host->out, BY_LAUNCH_HELLO, strlen(BY_LAUNCH_HELLO));
}

/* ---- The first process, which outlives the one that does the work. What that has left when it is killed becomes a
 * child of the first. */

/* Signals that it passes on. SIGCONT also continues the other, which may be stopped. */
static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGCONT};

/* Returns the exit code, or ends by the signal that has ended the other. */
static int watch_over(pid_t worker, const sigset_t *signals) {
  int status = 0, nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO); /* The launcher sees the end of the other by its pipes. */
  dup2(nothing, STDOUT_FILENO);
  by_cli_close(&nothing);
  while (waitpid(worker, &status, WNOHANG) == 0) {
    int caught = sigwaitinfo(signals, NULL);
    if (caught > 0 && caught != SIGCHLD) kill(worker, caught);
  }
  kill_descendants();
  if (WIFSIGNALED(status)) {
    by_restore_signals();
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}

/* In the first process: true, and its exit code, at the end. Where there can be no second process, it does the work. */
static bool stay_behind(int *exit_code) {
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) sigaddset(&signals, passed[i]);
  sigprocmask(SIG_BLOCK, &signals, &before);
  pid_t first = getpid(), worker = fork();
  if (worker > 0) {
    *exit_code = watch_over(worker, &signals);
    return true;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (worker == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* A child does not inherit this. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != first) raise(SIGTERM);
  }
  return false;
}

int by_cli_run_host(int argc, char **argv) {
  if (argc > 1 || isatty(STDIN_FILENO)) {
    fprintf(stderr, "banyan run-host: started by `banyan run` on every host, not by hand\n");
    return 2;
  }
  struct host host = {.preemption = {.output = -1}};
  struct pollfd writable = {.fd = STDOUT_FILENO, .events = POLLOUT};
  by_root_ports_init(&host.root);
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* This process adopts orphaned descendants. */
  if (stay_behind(&host.exit_code)) return host.exit_code;
  by_allow_files(&files);
  open_host(&host);
  run_loop(&host);
  kill_descendants();
  /* Sends the remaining frames, for at most a second. */
  while (by_pipe_waiting(&host.out) && poll(&writable, 1, 1000) > 0) by_pipe_flush(&host.out);
  close(host.signals);
  by_host_directory_destroy(host.directory);
  by_preemption_fini(&host.preemption);
  by_root_ports_close(&host.root);
  by_cli_close(&presence);
  while (n_keys) by_close(key_fds[--n_keys]);
  free(key_fds);
  by_pipe_fini(&host.in);
  by_pipe_fini(&host.out);
  by_host_job_fini(&host.job);
  free(host.payload);
  free(host.ranks);
  free(host.polled);
  return 0;
}
