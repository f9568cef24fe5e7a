#include "lab_space.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 256, MOST_HOST_NAME = 64 };

enum banyan_status by_space_here(int *out) {
  *out = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (*out >= 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open this process's network namespace");
}

enum banyan_status by_space_make(int *out) {
  if (!unshare(CLONE_NEWNET)) return by_space_here(out);
  if (errno == EPERM)
    return by_fail(BANYAN_ERR_SYSTEM, "a lab is made of network namespaces, which needs root's rights: use sudo");
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a network namespace");
}

enum banyan_status by_space_go(int space) {
  if (!setns(space, CLONE_NEWNET)) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot enter a network namespace");
}

static enum banyan_status write_file(const char *path, int flags, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s", path);
  ssize_t n = write(fd, text, strlen(text));
  int reason = errno;
  close(fd);
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot write \"%.64s\" to %s", text, path);
  return BANYAN_OK;
}

/* A sysctl's dots are the path's slashes. */
enum banyan_status by_space_set(const char *name, const char *value) {
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "/proc/sys/%s", name);
  if (length >= (int)sizeof path || strstr(name, "..") || strncmp(name, "net.", 4) != 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is no setting of a network namespace (net.*)", name);
  for (char *c = path; *c; c++)
    if (*c == '.') *c = '/';
  return write_file(path, 0, value);
}

static enum banyan_status mount_on(const char *what, const char *where, const char *kind, unsigned long flags) {
  if (!mount(what, where, kind, flags, NULL)) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount %s on %s", what, where);
}

/* The text needs a file to be seen under another name: one in memory, on a mount that is gone again at once. */
static enum banyan_status show_hosts(const char *hosts) {
  struct stat there;
  if (stat("/etc/hosts", &there)) return BANYAN_OK;
  BY_TRY(mount_on("banyan-lab", "/sys", "tmpfs", 0));
  enum banyan_status status = write_file("/sys/hosts", O_CREAT, hosts);
  if (!status) status = mount_on("/sys/hosts", "/etc/hosts", NULL, MS_BIND);
  umount2("/sys", MNT_DETACH);
  return status;
}

/* In a chroot, "/" is a directory on a mount that has no path there. Entering the mount namespace that the process is
 * in leads to the root of all its mounts, and the descriptors lead back into the chroot. */
static enum banyan_status cut_off_in_chroot(void) {
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int mounts = open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);
  bool cut = root >= 0 && here >= 0 && mounts >= 0 && !setns(mounts, CLONE_NEWNS) &&
             !mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) && !fchdir(root) && !chroot(".") && !fchdir(here);
  int reason = errno;
  close(root);
  close(here);
  close(mounts);
  if (cut) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot keep a host's mounts to itself in a chroot");
}

/* What is mounted from now on is seen by this process and its children alone. */
static enum banyan_status cut_off(void) {
  if (!mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL)) return BANYAN_OK;
  if (errno == EINVAL) return cut_off_in_chroot();
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot keep a host's mounts to itself");
}

enum banyan_status by_space_furnish(const char *host, const char *hosts) {
  if (unshare(CLONE_NEWNS | CLONE_NEWUTS))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a mount namespace");
  if (sethostname(host, MIN(strlen(host), MOST_HOST_NAME)))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot call a host \"%.64s\"", host);
  BY_TRY(cut_off());
  BY_TRY(show_hosts(hosts));
  umount2("/sys", MNT_DETACH);
  return mount_on("sysfs", "/sys", "sysfs", 0);
}
