#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "localsocket.h"
#include "text.h"

enum { PROBE_BYTES = 4096, LEAST_FILES = 1024, LEAST_SHM = 256 << 20 };

static void check_version(struct by_findings *findings) {
  struct utsname name;
  if (uname(&name)) strcpy(name.release, "?");
  by_finding(findings, BY_FINDING_OK, "kernel", NULL, "%s %s on %s", name.sysname, name.release, name.machine);
}

/* Shared pages as ranks of one host use them: made by one process, seen by another. */
static bool try_shared_pages(void) {
  int fd = memfd_create("banyan-doctor", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, PROBE_BYTES)) return false;
  volatile char *page = mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return false;
  pid_t pid = fork();
  if (pid == 0) {
    page[0] = 42;
    _exit(0);
  }
  if (pid > 0) waitpid(pid, NULL, 0);
  bool seen = page[0] == 42;
  munmap((void *)page, PROBE_BYTES);
  return seen;
}

static void check_shared_pages(struct by_findings *findings) {
  if (try_shared_pages())
    by_finding(findings, BY_FINDING_OK, "memfd", NULL, "processes can share memory");
  else
    by_finding(findings, BY_FINDING_FAIL, "memfd",
               "use --transport tcp, or a kernel and a sandbox that allow memfd_create",
               "ranks of one host cannot share memory: %s", strerror(errno));
}

/* An eventfd must wake an epoll: what every wait ends in. */
static void check_events(struct by_findings *findings) {
  struct epoll_event event = {.events = EPOLLIN};
  uint64_t one = 1;
  int poller = epoll_create1(EPOLL_CLOEXEC), fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  bool ok = poller >= 0 && fd >= 0 && !epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) &&
            write(fd, &one, sizeof one) == sizeof one && epoll_wait(poller, &event, 1, 1000) == 1;
  if (ok)
    by_finding(findings, BY_FINDING_OK, "events", NULL, "epoll and eventfd work together");
  else
    by_finding(findings, BY_FINDING_FAIL, "events", "allow epoll and eventfd in the sandbox",
               "epoll and eventfd do not work together: %s", strerror(errno));
  close(fd);
  close(poller);
}

static void check_pidfd(struct by_findings *findings) {
  int fd;
  if (by_pidfd_open(getpid(), &fd) == BANYAN_OK) {
    close(fd);
    by_finding(findings, BY_FINDING_OK, "pidfd", NULL, "a rank sees at once that another one of its host has ended");
  } else {
    by_finding(findings, BY_FINDING_WARN, "pidfd", "use Linux 5.3 or later",
               "%s: that a rank has ended is seen from its connections only", banyan_error_text());
  }
}

/* In a child: reads the memory of another child, its sibling, as ranks do. */
static _Noreturn void read_sibling(pid_t sibling, void *address) {
  uint64_t value = 0;
  struct iovec here = {&value, sizeof value}, there = {address, sizeof value};
  ssize_t n = process_vm_readv(sibling, &here, 1, &there, 1, 0);
  _exit(n == sizeof value && value == 42 ? 0 : n < 0 ? errno : EIO);
}

/* In a child: writes the value, says so and lives on until it is killed. */
static _Noreturn void hold_value(volatile uint64_t *value, int told) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  *value = 42;
  if (write(told, "", 1) != 1) _exit(1);
  for (;;) pause();
}

/* 0, or the error number of one process reading another's memory. */
static int try_cross_memory(void) {
  static volatile uint64_t value; /* at the same address in every child */
  int told[2], status = 0;
  char byte;
  if (pipe2(told, O_CLOEXEC)) return errno;
  pid_t owner = fork();
  if (owner == 0) hold_value(&value, told[1]);
  close(told[1]);
  bool ready = read(told[0], &byte, 1) == 1;
  close(told[0]);
  pid_t reader = ready ? fork() : -1;
  if (reader == 0) read_sibling(owner, (void *)&value);
  if (reader > 0) waitpid(reader, &status, 0);
  if (owner > 0) kill(owner, SIGKILL);
  if (owner > 0) waitpid(owner, NULL, 0);
  return reader > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

static void check_cross_memory(struct by_findings *findings) {
  char scope[16] = "absent";
  by_read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
  int error = try_cross_memory();
  if (!error) {
    by_finding(findings, BY_FINDING_OK, "cross-memory", NULL,
               "a rank may read another one's buffers (process_vm_readv; ptrace_scope %s)", scope);
    return;
  }
  bool yama = *scope > '0' && *scope <= '9';
  by_finding(findings, BY_FINDING_WARN, "cross-memory",
             yama ? "sysctl -w kernel.yama.ptrace_scope=0; or take buffers from banyan_alloc, which need no permission"
                  : "in a container: --cap-add SYS_PTRACE or a seccomp profile with process_vm_readv; or take buffers "
                    "from banyan_alloc",
             "a rank may not read another one's buffers (%s; ptrace_scope %s): one copy more within a host",
             strerror(error), scope);
}

static void check_shm(struct by_findings *findings) {
  struct statvfs fs;
  char size[32], left[32];
  if (statvfs("/dev/shm", &fs)) {
    by_finding(findings, BY_FINDING_WARN, "/dev/shm", "mount -t tmpfs tmpfs /dev/shm",
               "%s. Banyan does without it, but data loaders use it", strerror(errno));
    return;
  }
  uint64_t bytes = (uint64_t)fs.f_blocks * fs.f_frsize, free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
  bool small = bytes < LEAST_SHM;
  by_finding(findings, small ? BY_FINDING_WARN : BY_FINDING_OK, "/dev/shm",
             small ? "docker: --shm-size 1g; elsewhere: mount -o remount,size=1g /dev/shm" : NULL, "%s, %s free%s",
             by_print_bytes(bytes, size), by_print_bytes(free_bytes, left),
             small ? ". Banyan does without it, but data loaders use it" : "");
}

static const char *print_limit(rlim_t limit, bool bytes, char *out) {
  if (limit == RLIM_INFINITY) return "unlimited";
  if (bytes) return by_print_bytes(limit, out);
  snprintf(out, 32, "%llu", (unsigned long long)limit);
  return out;
}

static void check_limits(struct by_findings *findings) {
  struct rlimit files, locked;
  char soft[32], hard[32];
  if (getrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_MEMLOCK, &locked)) return;
  bool few = files.rlim_cur < LEAST_FILES;
  by_finding(findings, few ? BY_FINDING_WARN : BY_FINDING_OK, "open files",
             few ? "ulimit -n 65536, and in /etc/security/limits.conf" : NULL, "%s, at most %s%s",
             print_limit(files.rlim_cur, false, soft), print_limit(files.rlim_max, false, hard),
             few ? "; a rank needs some for every peer" : "");
  by_finding(findings, BY_FINDING_OK, "locked memory", NULL, "%s; not needed on TCP and shared memory",
             print_limit(locked.rlim_cur, true, soft));
}

void by_doctor_kernel(struct by_findings *findings) {
  check_version(findings);
  check_shared_pages(findings);
  check_cross_memory(findings);
  check_events(findings);
  check_pidfd(findings);
  check_shm(findings);
  check_limits(findings);
}
