#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

enum { PATH_BYTES = 1024, CLOCK_READS = 20000, SLOW_CLOCK_NS = 200 };

/* Cores' worth of time that a cgroup grants; INFINITY: no limit. */
static double read_quota(const char *folder) {
  char path[PATH_BYTES + 64], line[64];
  double quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", folder); /* version 2: "max 100000" or "50000 100000" */
  if (by_read_line(path, line, sizeof line))
    return sscanf(line, "%lf %lf", &quota, &period) == 2 ? quota / period : INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!by_read_line(path, line, sizeof line) || (quota = atof(line)) <= 0) return INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return by_read_line(path, line, sizeof line) && atof(line) > 0 ? quota / atof(line) : INFINITY;
}

/* The least quota of a group and all groups above it. */
static double least_quota(const char *mount, const char *group) {
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

/* /proc/self/cgroup has "4:cpu,cpuacct:/group" (version 1) and "0::/group" (version 2) lines. */
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
      least = fmin(fmin(least, least_quota("/sys/fs/cgroup", group)), least_quota("/sys/fs/cgroup/unified", group));
    else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset"))
      least =
          fmin(fmin(least, least_quota("/sys/fs/cgroup/cpu", group)), least_quota("/sys/fs/cgroup/cpu,cpuacct", group));
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
             avx2 ? NULL : "in a virtual machine: pass the host's CPU through", "%s, %s: %s", avx2 ? "AVX2" : "no AVX2",
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
             never ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : NULL,
             "transparent huge pages: %s%s", line, never ? "; large buffers cost more page faults" : "");
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
             slow ? "boot with clocksource=tsc if the machine's TSC is stable" : NULL, "%s, %.0f ns a reading%s",
             source, ns, slow ? "; waiting reads it often" : "");
}

void by_doctor_cores(struct by_findings *findings) {
  check_cores(findings);
  check_instructions(findings);
  check_huge_pages(findings);
  check_clock(findings);
}
