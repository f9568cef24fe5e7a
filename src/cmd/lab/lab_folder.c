/* Makes the folder of a lab, and removes it even if the lab is killed. */
#include "lab_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "process.h"

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
