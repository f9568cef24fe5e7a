/* Checks the kernel, its limits and the processors for `banyan doctor`. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "localsocket.h"
#include "text.h"

enum { PATH_BYTES = 1024, CLOCK_READS = 20000, SLOW_CLOCK_NS = 200 };

/* Returns the number of cores that a cgroup grants; INFINITY: no limit. */
static double read_quota(const char *folder) {
  char path[PATH_BYTES + 64], line[64];
  double quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", folder); /* Version 2: "max 100000" or "50000 100000". */
  if (by_read_line(path, line, sizeof line))
    return sscanf(line, "%lf %lf", &quota, &period) == 2 ? quota / period : INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!by_read_line(path, line, sizeof line) || (quota = atof(line)) <= 0) return INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return by_read_line(path, line, sizeof line) && atof(line) > 0 ? quota / atof(line) : INFINITY;
}

/* Returns the minimum quota of a group and all groups above it. */
static double min_quota(const char *mount, const char *group) {
  char folder[PATH_BYTES];
  double least = INFINITY;
  size_t root = strlen(mount);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder) return least;
  for (;;) {
    least = fmin(least, read_quota(folder));
    char *slash = strrchr(folder + root, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

/* Lines of /proc/self/cgroup are "4:cpu,cpuacct:/group" (version 1) and "0::/group" (version 2). */
static double own_quota(void) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  char line[PATH_BYTES];
  double least = INFINITY;
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    controllers++;
    if (!*controllers)
      least = fmin(fmin(least, min_quota("/sys/fs/cgroup", group)), min_quota("/sys/fs/cgroup/unified", group));
    else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset"))
      least = fmin(fmin(least, min_quota("/sys/fs/cgroup/cpu", group)), min_quota("/sys/fs/cgroup/cpu,cpuacct", group));
  }
  if (file) fclose(file);
  return least;
}

static void check_cores(struct by_findings *findings) {
  cpu_set_t allowed;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int usable = sched_getaffinity(0, sizeof allowed, &allowed) ? (int)online : CPU_COUNT(&allowed);
  by_finding(findings, BY_FINDING_OK, "cores", NULL, "%d of %ld may be used; one for each rank is best", usable,
             online);
  double quota = own_quota();
  if (quota >= usable)
    by_finding(findings, BY_FINDING_OK, "cpu quota", NULL, "none that limits these cores");
  else
    by_finding(findings, BY_FINDING_WARN, "cpu quota",
               "give the container whole cores (docker: --cpuset-cpus) rather than a quota (--cpus)",
               "%.2f cores' worth of time on %d cores: ranks that wait busily are stopped in between", quota, usable);
}

static void check_instructions(struct by_findings *findings) {
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512f");
  by_finding(findings, avx2 ? BY_FINDING_OK : BY_FINDING_WARN, "instructions",
             "in a virtual machine: pass the host's CPU through", "%s, %s: %s", avx2 ? "AVX2" : "no AVX2",
             avx512 ? "AVX-512" : "no AVX-512", avx2 ? "sums are vectorised" : "sums are several times slower");
#else
  by_finding(findings, BY_FINDING_OK, "instructions", NULL, "sums are compiled for this processor's basic set");
#endif
}

static void check_huge_pages(struct by_findings *findings) {
  char line[128];
  if (!by_read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) return;
  bool never = strstr(line, "[never]") != NULL;
  by_finding(findings, never ? BY_FINDING_WARN : BY_FINDING_OK, "huge pages",
             "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", "transparent huge pages: %s%s", line,
             never ? "; large buffers cost more page faults" : "");
}

static void check_clock(struct by_findings *findings) {
  struct timespec first, last;
  char source[64] = "unknown";
  by_read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
  clock_gettime(CLOCK_MONOTONIC, &first);
  for (int i = 0; i < CLOCK_READS; i++) clock_gettime(CLOCK_MONOTONIC, &last);
  double ns = ((double)(last.tv_sec - first.tv_sec) * 1e9 + (double)(last.tv_nsec - first.tv_nsec)) / CLOCK_READS;
  bool slow = ns > SLOW_CLOCK_NS;
  by_finding(findings, slow ? BY_FINDING_WARN : BY_FINDING_OK, "clock",
             "boot with clocksource=tsc if the machine's TSC is stable", "%s, %.0f ns a reading%s", source, ns,
             slow ? "; waiting reads it often" : "");
}

enum { PROBE_BYTES = 4096, LEAST_FILES = 1024, LEAST_SHM = 256 << 20 };

static void check_version(struct by_findings *findings) {
  struct utsname name;
  if (uname(&name)) strcpy(name.release, "?");
  by_finding(findings, BY_FINDING_OK, "kernel", NULL, "%s %s on %s", name.sysname, name.release, name.machine);
}

/* Tries shared pages as ranks of one host use them: made by one process, read by another. */
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

/* An eventfd must wake an epoll, on which all waiting depends. */
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
             "docker: --shm-size 1g; elsewhere: mount -o remount,size=1g /dev/shm", "%s, %s free%s",
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
             "ulimit -n 65536, and in /etc/security/limits.conf", "%s, at most %s%s",
             print_limit(files.rlim_cur, false, soft), print_limit(files.rlim_max, false, hard),
             few ? "; a rank needs some for every peer" : "");
  by_finding(findings, BY_FINDING_OK, "locked memory", NULL, "%s; not needed on TCP and shared memory",
             print_limit(locked.rlim_cur, true, soft));
}

void by_doctor_kernel(struct by_findings *findings) {
  check_version(findings);
  check_shared_pages(findings);
  check_events(findings);
  check_pidfd(findings);
  check_shm(findings);
  check_limits(findings);
  check_cores(findings);
  check_instructions(findings);
  check_huge_pages(findings);
  check_clock(findings);
}
