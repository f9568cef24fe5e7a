/* `banyan doctor`: checks the kernel, the network, libraries, programs and variables, and prints all results. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <banyan/status.h>

#include "address.h"
#include "clock.h"
#include "commands.h"
#include "output.h"
#include "process.h"
#include "settings.h"
#include "socket.h"
#include "text.h"

/* ---- findings: each check tries the feature itself, prints at least one line, and suggests a fix for problems */

enum finding_level { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct findings {
  bool json;
  int counts[3]; /* By level. */
};

enum { FOUND_BYTES = 1024 };

static void print_json(enum finding_level level, const char *check, const char *fix, const char *found) {
  static const char *const levels[] = {"ok", "warn", "fail"};
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status", levels[level], "found", found, "fix", fix);
  if (!by_print_json(object)) puts("{\"check\":\"json\",\"status\":\"fail\",\"found\":\"not UTF-8\",\"fix\":null}");
  json_decref(object);
}

static void print_finding(struct findings *findings, enum finding_level level, const char *check, const char *fix,
                          const char *format, ...) BY_PRINTF(5, 6);

/* Prints one line: the check, and its result. `fix`: how to solve a problem, or NULL. */
static void print_finding(struct findings *findings, enum finding_level level, const char *check, const char *fix,
                          const char *format, ...) {
  static const char *const levels[] = {"ok", "warn", "FAIL"};
  char found[FOUND_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(found, sizeof found, format, args);
  va_end(args);
  findings->counts[level]++;
  if (level == FINDING_OK) fix = NULL;
  if (findings->json)
    print_json(level, check, fix, found);
  else
    printf("%-5s %-14s %s\n", levels[level], check, found);
  if (fix && !findings->json) printf("%20s -> %s\n", "", fix);
  fflush(stdout);
}

/* Reads the first line of a small file without its newline; returns false if it cannot be read. */
static bool read_line(const char *path, char *out, size_t capacity) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fgets(out, (int)capacity, file) != NULL;
  fclose(file);
  if (ok) out[strcspn(out, "\n")] = 0;
  return ok;
}

/* ---- the network */

enum { ROUND_TRIPS = 200, SLOW_ROUND_US = 500 };

/* A window fills a link up to some delay; in a building a millisecond is usual. */
static const double lan_delay = 1e-3;

struct pair {
  int listener, client, server;
};

static enum banyan_status wait_for(int fd, short events) {
  struct pollfd p = {.fd = fd, .events = events};
  return poll(&p, 1, 2000) == 1 ? BANYAN_OK : by_fail(BANYAN_ERR_TIMEOUT, "no answer on loopback in 2 s");
}

static enum banyan_status connect_pair(struct pair *pair) {
  struct by_address any, at;
  bool done = false;
  BY_TRY(by_address_parse("127.0.0.1:0", &any));
  BY_TRY(by_socket_listen(&any, (struct by_port_range){0}, &pair->listener, &at));
  BY_TRY(by_socket_connect_start(&at, &pair->client));
  BY_TRY(wait_for(pair->listener, POLLIN));
  BY_TRY(by_socket_accept(pair->listener, &pair->server, NULL));
  BY_TRY(wait_for(pair->client, POLLOUT));
  BY_TRY(by_socket_connect_finish(pair->client, &at, &done));
  BY_TRY(by_socket_set(pair->client, BY_SOCKET_NODELAY, 1));
  return by_socket_set(pair->server, BY_SOCKET_NODELAY, 1);
}

static enum banyan_status pass_byte(int from, int to) {
  char byte = 1;
  if (send(from, &byte, 1, MSG_NOSIGNAL) != 1) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "send on loopback");
  BY_TRY(wait_for(to, POLLIN));
  return recv(to, &byte, 1, 0) == 1 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "recv on loopback");
}

static enum banyan_status time_round_trips(const struct pair *pair, double *microseconds) {
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < ROUND_TRIPS; i++) {
    BY_TRY(pass_byte(pair->client, pair->server));
    BY_TRY(pass_byte(pair->server, pair->client));
  }
  *microseconds = (double)(by_clock_now(&by_clock_system) - start) / 1e3 / ROUND_TRIPS;
  return BANYAN_OK;
}

static enum banyan_status report_congestion(struct findings *findings, int fd) {
  char name[BY_CONGESTION_TEXT], available[256] = "unknown";
  BY_TRY(by_socket_get_congestion(fd, name));
  read_line("/proc/sys/net/ipv4/tcp_available_congestion_control", available, sizeof available);
  bool bbr = !strncmp(name, "bbr", 3);
  print_finding(
      findings, bbr ? FINDING_WARN : FINDING_OK, "congestion",
      "sysctl -w net.ipv4.tcp_congestion_control=cubic (keep bbr for long and lossy links)",
      "%s is in use; available: %s%s", name, available,
      bbr ? ". BBR can halve the rate of one stream on loopback and in a local network: mention it with measurements"
          : "");
  return BANYAN_OK;
}

static void check_loopback(struct findings *findings) {
  struct pair pair = {-1, -1, -1};
  double microseconds = 0;
  enum banyan_status status = connect_pair(&pair);
  if (!status) status = time_round_trips(&pair, &microseconds);
  bool slow = microseconds > SLOW_ROUND_US;
  if (!status)
    print_finding(findings, slow ? FINDING_WARN : FINDING_OK, "loopback",
                  "look for a busy machine, power saving or a slow hypervisor", "TCP connects; %.0f us a round trip",
                  microseconds);
  /* The client connects to loopback, so it does not have the system's default. */
  if (!status) status = report_congestion(findings, pair.server);
  if (status)
    print_finding(findings, FINDING_FAIL, "loopback", "ip link set lo up; allow 127.0.0.1 in the firewall", "%s",
                  banyan_error_text());
  by_cli_close(&pair.listener);
  by_cli_close(&pair.client);
  by_cli_close(&pair.server);
}

static void check_window(struct findings *findings, const char *name) {
  char path[128], line[128], have[32], rate[32], delay[32], fix[192];
  snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
  struct by_interface *all = NULL;
  size_t n = 0;
  double bytes, speed = 0; /* Speed of the fastest interface; 10 Gbit/s if the driver does not report it. */
  if (by_interface_list("", false, &all, &n) != BANYAN_OK) n = 0;
  for (size_t i = 0; i < n; i++) speed = fmax(speed, all[i].speed);
  free(all);
  if (speed <= 0) speed = 10e9;
  double need = 2 * speed * lan_delay / 8;
  /* The values are "least default greatest". */
  if (!read_line(path, line, sizeof line) || sscanf(line, "%*f %*f %lf", &bytes) != 1 || bytes <= 0) return;
  /* Half of a buffer is used for bookkeeping (tcp_adv_win_scale). */
  snprintf(fix, sizeof fix, "sysctl -w net.ipv4.%s=\"4096 131072 %.0f\"", name, need * 4);
  bool small = bytes < need;
  print_finding(findings, small ? FINDING_WARN : FINDING_OK, name, fix,
                "at most %s: one connection can fill %s up to a round-trip time of %s",
                by_print_bytes((uint64_t)bytes, have), by_print_rate(speed, rate),
                by_print_seconds(bytes / 2 * 8 / speed, delay));
}

static void check_idle(struct findings *findings) {
  char line[16];
  if (!read_line("/proc/sys/net/ipv4/tcp_slow_start_after_idle", line, sizeof line)) return;
  bool on = atoi(line) != 0;
  print_finding(findings, on ? FINDING_WARN : FINDING_OK, "idle restart",
                "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
                on ? "after an idle phase, as when ranks compute, a connection goes through slow start again"
                   : "connections keep their speed while the ranks compute");
}

/* Counts interfaces besides the first one that could be used. */
static int count_others(const struct by_interface *all, size_t n) {
  int others = 0;
  for (size_t i = 1; i < n; i++) {
    bool seen = by_address_is_link_local(&all[i].address);
    for (size_t k = 0; k < i && !seen; k++) seen = all[k].index == all[i].index;
    others += !seen;
  }
  return others;
}

static void check_interfaces(struct findings *findings) {
  struct by_interface *all = NULL;
  size_t n = 0;
  char address[BY_ADDRESS_TEXT], path[128], fix[128];
  const char *filter = getenv("BANYAN_IFACE");
  if (by_interface_list(filter ? filter : "", false, &all, &n)) {
    print_finding(findings, FINDING_FAIL, "interfaces", filter ? "correct BANYAN_IFACE" : "bring an interface up", "%s",
                  banyan_error_text());
    return;
  }
  for (size_t i = 0; i < n; i++) {
    char speed[32] = "speed unknown", mtu[32] = "0";
    if (all[i].speed > 0) by_print_rate(all[i].speed, speed);
    snprintf(path, sizeof path, "/sys/class/net/%s/mtu", all[i].name);
    read_line(path, mtu, sizeof mtu);
    bool only_loopback = by_address_is_loopback(&all[i].address);
    print_finding(findings, FINDING_OK, "interface", NULL, "%s, %s/%d, %s, MTU %s%s", all[i].name,
                  by_address_print_host(&all[i].address, address), all[i].bits, speed, mtu,
                  only_loopback ? "; this machine only"
                  : i == 0      ? "; offered to peers first"
                                : "");
  }
  int others = count_others(all, n);
  snprintf(fix, sizeof fix, "BANYAN_IFACE=%s (or a subnet) restricts Banyan to one", all[0].name);
  if (others && !filter)
    print_finding(findings, FINDING_WARN, "interfaces", fix,
                  "%d more could be used: peers must be able to reach this machine through each of them", others);
  free(all);
}

/* Launchers make ranks meet under a host's name: a name of loopback is a common cause of jobs that never start,
 * especially if several hosts have the same name. */
static void check_own_name(struct findings *findings) {
  char name[BY_HOST_TEXT] = "", text[BY_ADDRESS_TEXT];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  struct by_address address;
  gethostname(name, sizeof name - 1);
  if (getaddrinfo(name, NULL, &hints, &found)) {
    print_finding(findings, FINDING_WARN, "host name", "add the name to DNS or to /etc/hosts on all machines",
                  "%s cannot be resolved", name);
    return;
  }
  by_address_set(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  by_address_print_host(&address, text);
  if (by_address_is_loopback(&address))
    print_finding(
        findings, FINDING_WARN, "host name",
        "in /etc/hosts, map the name to the network address; or use an address as the meeting point: `banyan run` "
        "does, with other launchers set BANYAN_ROOT or MASTER_ADDR to one",
        "%s resolves to %s here: ranks on this host that look for rank 0 by this name do not find it on other hosts",
        name, text);
  else if (!by_interface_is_own(&address, true))
    print_finding(findings, FINDING_WARN, "host name", "correct DNS or /etc/hosts",
                  "%s resolves to %s, which is not an address of this machine", name, text);
  else
    print_finding(findings, FINDING_OK, "host name", NULL, "%s is %s", name, text);
}

static void check_network(struct findings *findings) {
  check_interfaces(findings);
  check_own_name(findings);
  check_loopback(findings);
  check_window(findings, "tcp_rmem");
  check_window(findings, "tcp_wmem");
  check_idle(findings);
}

/* ---- the kernel */

enum { PATH_BYTES = 1024, CLOCK_READS = 20000, SLOW_CLOCK_NS = 200 };

/* Returns the number of cores that a cgroup grants; INFINITY: no limit. */
static double read_quota(const char *folder) {
  char path[PATH_BYTES + 64], line[64];
  double quota, period;
  snprintf(path, sizeof path, "%s/cpu.max", folder); /* Version 2: "max 100000" or "50000 100000". */
  if (read_line(path, line, sizeof line))
    return sscanf(line, "%lf %lf", &quota, &period) == 2 ? quota / period : INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  if (!read_line(path, line, sizeof line) || (quota = atof(line)) <= 0) return INFINITY;
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return read_line(path, line, sizeof line) && atof(line) > 0 ? quota / atof(line) : INFINITY;
}

/* Returns the minimum quota of a group and all groups above it. */
static double min_quota(const char *mount, const char *group) {
  char folder[PATH_BYTES];
  double min = INFINITY;
  size_t root = strlen(mount);
  if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder) return min;
  for (;;) {
    min = fmin(min, read_quota(folder));
    char *slash = strrchr(folder + root, '/');
    if (!slash) return min;
    *slash = 0;
  }
}

/* Lines of /proc/self/cgroup are "4:cpu,cpuacct:/group" (version 1) and "0::/group" (version 2). */
static double own_quota(void) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  char line[PATH_BYTES];
  double min = INFINITY;
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    controllers++;
    if (!*controllers)
      min = fmin(fmin(min, min_quota("/sys/fs/cgroup", group)), min_quota("/sys/fs/cgroup/unified", group));
    else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset"))
      min = fmin(fmin(min, min_quota("/sys/fs/cgroup/cpu", group)), min_quota("/sys/fs/cgroup/cpu,cpuacct", group));
  }
  if (file) fclose(file);
  return min;
}

static void check_cores(struct findings *findings) {
  cpu_set_t allowed;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int usable = sched_getaffinity(0, sizeof allowed, &allowed) ? (int)online : CPU_COUNT(&allowed);
  print_finding(findings, FINDING_OK, "cores", NULL, "%d of %ld may be used; one for each rank is best", usable,
                online);
  double quota = own_quota();
  if (quota >= usable)
    print_finding(findings, FINDING_OK, "cpu quota", NULL, "none that limits these cores");
  else
    print_finding(findings, FINDING_WARN, "cpu quota",
                  "give the container whole cores (docker: --cpuset-cpus) rather than a quota (--cpus)",
                  "%.2f cores' worth of time on %d cores: ranks that poll are throttled", quota, usable);
}

static void check_instructions(struct findings *findings) {
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512f");
  print_finding(findings, avx2 ? FINDING_OK : FINDING_WARN, "instructions",
                "in a virtual machine: pass the host's CPU through", "%s, %s: %s", avx2 ? "AVX2" : "no AVX2",
                avx512 ? "AVX-512" : "no AVX-512", avx2 ? "sums are vectorised" : "sums are several times slower");
#else
  print_finding(findings, FINDING_OK, "instructions", NULL, "sums use this processor's basic instruction set");
#endif
}

static void check_huge_pages(struct findings *findings) {
  char line[128];
  if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) return;
  bool never = strstr(line, "[never]") != NULL;
  print_finding(findings, never ? FINDING_WARN : FINDING_OK, "huge pages",
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", "transparent huge pages: %s%s", line,
                never ? "; large buffers cost more page faults" : "");
}

static void check_clock(struct findings *findings) {
  struct timespec first, last;
  char source[64] = "unknown";
  read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
  clock_gettime(CLOCK_MONOTONIC, &first);
  for (int i = 0; i < CLOCK_READS; i++) clock_gettime(CLOCK_MONOTONIC, &last);
  double ns = ((double)(last.tv_sec - first.tv_sec) * 1e9 + (double)(last.tv_nsec - first.tv_nsec)) / CLOCK_READS;
  bool slow = ns > SLOW_CLOCK_NS;
  print_finding(findings, slow ? FINDING_WARN : FINDING_OK, "clock",
                "boot with clocksource=tsc if the machine's TSC is stable", "%s, %.0f ns a reading%s", source, ns,
                slow ? "; polling reads it often" : "");
}

enum { PROBE_BYTES = 4096, MIN_FILES = 1024, MIN_SHM = 256 << 20 };

static void check_version(struct findings *findings) {
  struct utsname name;
  if (uname(&name)) strcpy(name.release, "?");
  print_finding(findings, FINDING_OK, "kernel", NULL, "%s %s on %s", name.sysname, name.release, name.machine);
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

static void check_shared_pages(struct findings *findings) {
  if (try_shared_pages())
    print_finding(findings, FINDING_OK, "memfd", NULL, "processes can share memory");
  else
    print_finding(findings, FINDING_FAIL, "memfd",
                  "use --transport tcp, or a kernel and a sandbox that allow memfd_create",
                  "ranks of one host cannot share memory: %s", strerror(errno));
}

/* An eventfd must wake an epoll, on which all waiting depends. */
static void check_events(struct findings *findings) {
  struct epoll_event event = {.events = EPOLLIN};
  uint64_t one = 1;
  int poller = epoll_create1(EPOLL_CLOEXEC), fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  bool ok = poller >= 0 && fd >= 0 && !epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) &&
            write(fd, &one, sizeof one) == sizeof one && epoll_wait(poller, &event, 1, 1000) == 1;
  if (ok)
    print_finding(findings, FINDING_OK, "events", NULL, "epoll and eventfd work together");
  else
    print_finding(findings, FINDING_FAIL, "events", "allow epoll and eventfd in the sandbox",
                  "epoll and eventfd do not work together: %s", strerror(errno));
  close(fd);
  close(poller);
}

static void check_pidfd(struct findings *findings) {
  int fd;
  if (by_pidfd_open(getpid(), &fd) == BANYAN_OK) {
    close(fd);
    print_finding(findings, FINDING_OK, "pidfd", NULL, "a rank notices at once that another one on its host has ended");
  } else {
    print_finding(findings, FINDING_WARN, "pidfd", "use Linux 5.3 or later",
                  "%s: only from its connections is it noticed that a rank has ended", banyan_error_text());
  }
}

static void check_shm(struct findings *findings) {
  struct statvfs fs;
  char size[32], left[32];
  if (statvfs("/dev/shm", &fs)) {
    print_finding(findings, FINDING_WARN, "/dev/shm", "mount -t tmpfs tmpfs /dev/shm",
                  "%s. Banyan does not need it, but data loaders use it", strerror(errno));
    return;
  }
  uint64_t bytes = (uint64_t)fs.f_blocks * fs.f_frsize, free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
  bool small = bytes < MIN_SHM;
  print_finding(findings, small ? FINDING_WARN : FINDING_OK, "/dev/shm",
                "docker: --shm-size 1g; elsewhere: mount -o remount,size=1g /dev/shm", "%s, %s free%s",
                by_print_bytes(bytes, size), by_print_bytes(free_bytes, left),
                small ? ". Banyan does not need it, but data loaders use it" : "");
}

static const char *print_limit(rlim_t limit, bool bytes, char *out) {
  if (limit == RLIM_INFINITY) return "unlimited";
  if (bytes) return by_print_bytes(limit, out);
  snprintf(out, 32, "%llu", (unsigned long long)limit);
  return out;
}

static void check_limits(struct findings *findings) {
  struct rlimit files, locked;
  char soft[32], hard[32];
  if (getrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_MEMLOCK, &locked)) return;
  bool few = files.rlim_cur < MIN_FILES;
  print_finding(findings, few ? FINDING_WARN : FINDING_OK, "open files",
                "ulimit -n 65536, and in /etc/security/limits.conf", "%s, at most %s%s",
                print_limit(files.rlim_cur, false, soft), print_limit(files.rlim_max, false, hard),
                few ? "; a rank needs some for every peer" : "");
  print_finding(findings, FINDING_OK, "locked memory", NULL, "%s; not needed on TCP and shared memory",
                print_limit(locked.rlim_cur, true, soft));
}

static void check_kernel(struct findings *findings) {
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

/* ---- libraries and programs */

/* Ranks prove with HMAC-SHA256 that they have the job's key; some hardened configurations of OpenSSL refuse algorithms.
 * RFC 4231, test case 2. */
static void check_hmac(struct findings *findings) {
  static const unsigned char wanted[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
  static const char text[] = "what do ya want for nothing?";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (HMAC(EVP_sha256(), "Jefe", 4, (const unsigned char *)text, sizeof text - 1, digest, &length) && length == 32 &&
      !memcmp(digest, wanted, sizeof wanted))
    print_finding(findings, FINDING_OK, "hmac", NULL, "HMAC-SHA256 works");
  else
    print_finding(findings, FINDING_FAIL, "hmac", "allow SHA-256 in OpenSSL's configuration",
                  "HMAC-SHA256 does not work: ranks cannot prove that they belong to the job");
}

static void check_pmix(struct findings *findings) {
  void *library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  const char *(*version)(void) = NULL;
  if (library) *(void **)&version = dlsym(library, "PMIx_Get_version");
  if (version)
    print_finding(findings, FINDING_OK, "PMIx", NULL, "%.100s", version());
  else
    print_finding(findings, FINDING_OK, "PMIx", NULL, "not installed; optional, for jobs under srun and mpirun");
  if (library) dlclose(library);
}

static bool in_path(const char *program, char *out, size_t capacity) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t length = strcspn(path, ":");
    snprintf(out, capacity, "%.*s/%s", (int)length, path, program);
    if (!access(out, X_OK)) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

static void check_ssh(struct findings *findings) {
  char path[1024];
  if (in_path("ssh", path, sizeof path))
    print_finding(findings, FINDING_OK, "ssh", NULL, "%s; `banyan run -H` needs logins that ask for no password", path);
  else
    print_finding(findings, FINDING_WARN, "ssh", "apt-get install openssh-client",
                  "not found: `banyan run -H` cannot reach other hosts");
}

/* Prints variables that affect all programs that are started from here. The key stays secret. */
static void check_variables(struct findings *findings) {
  struct by_text text = {0};
  char fix[96];
  for (char **e = environ; *e; e++) {
    if (strncmp(*e, "BANYAN_", 7) != 0) continue;
    if (!strncmp(*e, "BANYAN_KEY=", 11))
      by_text_add(&text, " BANYAN_KEY=...");
    else
      by_text_add(&text, " %.200s", *e);
    const char *near = by_settings_suggest(*e), *instead = by_settings_removed(*e);
    if (near) snprintf(fix, sizeof fix, "did you mean %s?", near);
    if (near || instead)
      print_finding(findings, FINDING_WARN, "variables", near ? fix : instead,
                    near ? "%.*s is not a variable of Banyan and has no effect"
                         : "%.*s has been removed and has no effect",
                    (int)strcspn(*e, "="), *e);
  }
  const char *found = by_text_get(&text);
  print_finding(findings, FINDING_OK, "variables", NULL, "%s", *found ? found + 1 : "none of BANYAN_* are set");
  by_text_fini(&text);
}

struct doctor_options {
  bool json;
};

#define VALUES struct doctor_options

static const struct by_option options[] = {
    BY_FLAG("json", 0, json, "print one JSON object a line"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan doctor",
    .usage = "[--json]",
    .about = "Diagnoses this machine: checks what Banyan needs of the kernel and the network,\n"
             "and suggests fixes for what is missing or slow. It changes nothing. Returns 0\n"
             "when nothing failed; a warning is not a failure.",
    .options = options,
};

int by_cli_doctor(int argc, char **argv) {
  struct doctor_options doctor = {0};
  int exit_code = by_options_parse(&command, argc, argv, &doctor, NULL);
  if (exit_code >= 0) return exit_code;
  struct findings findings = {.json = doctor.json};
  check_kernel(&findings);
  check_network(&findings);
  print_finding(&findings, FINDING_OK, "libraries", NULL, "banyan %s, glibc %s, jansson %s, %s", banyan_version(),
                gnu_get_libc_version(), jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
  check_hmac(&findings);
  check_pmix(&findings);
  check_ssh(&findings);
  check_variables(&findings);
  const int *n = findings.counts;
  if (!doctor.json) printf("\n%d ok, %d to look at, %d failed\n", n[FINDING_OK], n[FINDING_WARN], n[FINDING_FAIL]);
  return n[FINDING_FAIL] > 0;
}
