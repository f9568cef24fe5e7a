/* Sockets in the file system: who may connect, and what is done about one that was left behind. */
#include "localsocket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char folder[64], path[BY_PATH_SOCKET];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/banyan-path-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/in/here.sock", folder);
  return 0;
}

static int drop_folder(void **state) {
  char inner[80];
  (void)state;
  unlink(path);
  snprintf(inner, sizeof inner, "%s/in", folder);
  rmdir(inner);
  return rmdir(folder);
}

static struct by_path_socket place(mode_t mode) {
  return (struct by_path_socket){.path = path, .who = "server", .option = "--socket PATH", .mode = mode};
}

static void must_have_mode(mode_t mode) {
  struct stat file;
  assert_int_equal(stat(path, &file), 0);
  assert_int_equal(file.st_mode & 0777, mode);
}

static void test_modes(void **state) {
  static const mode_t modes[] = {0600, 0660, 0666};
  struct by_path_socket at;
  mode_t mask = umask(077);
  int fd, caller;
  (void)state;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    at = place(modes[i]);
    assert_ok(by_path_socket_listen(&at, &fd));
    must_have_mode(modes[i]);
    assert_ok(by_path_socket_connect(path, "server", &caller));
    close(caller);
    close(fd);
    assert_status(by_path_socket_connect(path, "server", &caller), BANYAN_ERR_CONNECT);
    assert_non_null(strstr(banyan_error_text(), "no server at"));
  }
  umask(mask);
}

static void test_taken(void **state) {
  struct by_path_socket at = place(0600);
  int fd, second;
  (void)state;
  assert_ok(by_path_socket_listen(&at, &fd));
  assert_status(by_path_socket_listen(&at, &second), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "--socket PATH"));
  close(fd);
  assert_ok(by_path_socket_listen(&at, &fd)); /* what it left */
  close(fd);
  unlink(path);
  FILE *file = fopen(path, "w"); /* none of ours */
  assert_non_null(file);
  fclose(file);
  assert_status(by_path_socket_listen(&at, &fd), BANYAN_ERR_SYSTEM);
  assert_int_equal(access(path, F_OK), 0);
}

static void test_long_names(void **state) {
  char name[BY_PATH_SOCKET + 1];
  struct by_path_socket at = place(0600);
  int fd;
  (void)state;
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  at.path = name;
  assert_status(by_path_socket_listen(&at, &fd), BANYAN_ERR_ARGUMENT);
  assert_status(by_path_socket_connect(name, "server", &fd), BANYAN_ERR_ARGUMENT);
}

/* While one looks whether the place is taken and takes it, another one waits. */
static void test_at_once(void **state) {
  struct by_path_socket here = place(0600);
  char locked[BY_PATH_SOCKET + 8];
  int fd, status;
  (void)state;
  snprintf(locked, sizeof locked, "%s.lock", path);
  unlink(path);
  assert_ok(by_path_socket_listen(&here, &fd)); /* makes the folder */
  close(fd);
  unlink(path);
  int lock = open(locked, O_RDWR | O_CREAT, 0600);
  assert_int_equal(flock(lock, LOCK_EX), 0);
  pid_t other = fork();
  if (!other) {
    close(lock); /* its share of it */
    _exit(by_path_socket_listen(&here, &fd) == BANYAN_OK ? 0 : 1);
  }
  usleep(50000);
  assert_int_equal(access(path, F_OK), -1);
  close(lock);
  assert_int_equal(waitpid(other, &status, 0), other);
  assert_int_equal(status, 0);
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(access(locked, F_OK), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes), cmocka_unit_test(test_taken),
                                     cmocka_unit_test(test_long_names), cmocka_unit_test(test_at_once)};
  return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
