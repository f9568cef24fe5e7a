/* Tests of sockets between processes of one host, in the abstract namespace and in the file system. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "socket.h"

static int count_fds(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

static void test_listen_connect_and_credentials(void **state) {
  (void)state;
  char name[64];
  int listener, near, far, none;
  pid_t pid;
  uid_t uid;
  snprintf(name, sizeof name, "banyan-test-%d", (int)getpid());
  assert_status(by_local_connect(name, &near), BANYAN_ERR_CONNECT);
  assert_ok(by_local_listen(name, &listener));
  assert_status(by_local_listen(name, &none), BANYAN_ERR_SYSTEM);
  assert_ok(by_socket_accept(listener, &none, NULL));
  assert_int_equal(none, -1);
  assert_ok(by_local_connect(name, &near));
  assert_ok(by_socket_accept(listener, &far, NULL));
  assert_true(far >= 0);
  assert_ok(by_local_get_peer(far, &pid, &uid));
  assert_int_equal(pid, getpid());
  assert_int_equal(uid, getuid());
  assert_true(fcntl(near, F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(far, F_GETFL) & O_NONBLOCK);
  close(near);
  close(far);
  close(listener);
  assert_status(by_local_connect(name, &near), BANYAN_ERR_CONNECT);
}

static void test_bad_names(void **state) {
  (void)state;
  char name[200];
  int fd;
  memset(name, 'x', sizeof name);
  name[101] = '\0';
  assert_status(by_local_listen(name, &fd), BANYAN_ERR_ARGUMENT);
  assert_status(by_local_connect("", &fd), BANYAN_ERR_ARGUMENT);
  name[100] = '\0';
  assert_ok(by_local_listen(name, &fd));
  close(fd);
}

static void make_pair(int fd[2]) {
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
}

static void test_messages_stay_whole(void **state) {
  (void)state;
  int pair[2], fds[1];
  char data[16];
  size_t length, n;
  bool sent;
  make_pair(pair);
  assert_ok(by_local_receive(pair[1], data, sizeof data, &length, fds, 1, &n));
  assert_int_equal(length, 0);
  assert_ok(by_local_send(pair[0], "one", 3, NULL, 0, &sent));
  assert_true(sent);
  assert_ok(by_local_send(pair[0], "second", 6, NULL, 0, &sent));
  assert_ok(by_local_receive(pair[1], data, sizeof data, &length, fds, 1, &n));
  assert_int_equal(length, 3);
  assert_memory_equal(data, "one", 3);
  assert_ok(by_local_receive(pair[1], data, sizeof data, &length, fds, 1, &n));
  assert_int_equal(length, 6);
  assert_int_equal(n, 0);
  close(pair[0]);
  assert_status(by_local_receive(pair[1], data, sizeof data, &length, fds, 1, &n), BANYAN_ERR_PEER_DEAD);
  assert_status(by_local_send(pair[1], "x", 1, NULL, 0, &sent), BANYAN_ERR_PEER_DEAD);
  close(pair[1]);
}

static void test_a_full_socket_sends_nothing(void **state) {
  (void)state;
  int pair[2], fds[1];
  static char data[4096], back[4096];
  size_t length, n, many = 0, got = 0;
  bool sent;
  make_pair(pair);
  for (;;) {
    data[0] = (char)many;
    assert_ok(by_local_send(pair[0], data, sizeof data, NULL, 0, &sent));
    if (!sent) break;
    many++;
  }
  assert_true(many > 0);
  for (;; got++) {
    assert_ok(by_local_receive(pair[1], back, sizeof back, &length, fds, 1, &n));
    if (length == 0) break;
    assert_int_equal(length, sizeof back);
    assert_int_equal(back[0], (char)got);
  }
  assert_int_equal(got, many);
  close(pair[0]);
  close(pair[1]);
}

static void test_shared_memory_travels(void **state) {
  (void)state;
  int pair[2], memory = memfd_create("banyan-test", MFD_CLOEXEC), fds[4];
  char data[8];
  size_t length, n;
  bool sent;
  struct stat a, b;
  make_pair(pair);
  assert_int_equal(write(memory, "shared", 6), 6);
  int both[2] = {memory, memory};
  assert_ok(by_local_send(pair[0], "m", 1, both, 2, &sent));
  close(memory);
  assert_ok(by_local_receive(pair[1], data, sizeof data, &length, fds, 4, &n));
  assert_int_equal(n, 2);
  assert_int_equal(fstat(fds[0], &a) + fstat(fds[1], &b), 0);
  assert_true(a.st_ino == b.st_ino);
  assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
  assert_int_equal(pread(fds[1], data, 6, 0), 6);
  assert_memory_equal(data, "shared", 6);
  for (int i = 0; i < 2; i++) {
    close(fds[i]);
    close(pair[i]);
  }
}

static void test_surplus_leaves_nothing_open(void **state) {
  (void)state;
  int pair[2], fds[2], three[3] = {0, 1, 2}, most[BY_LOCAL_FDS] = {0};
  char data[4];
  size_t length, n;
  bool sent;
  make_pair(pair);
  int open_before = count_fds();
  assert_ok(by_local_send(pair[0], "x", 1, three, 3, &sent)); /* These are too many descriptors. */
  assert_status(by_local_receive(pair[1], data, sizeof data, &length, fds, 2, &n), BANYAN_ERR_PROTOCOL);
  assert_int_equal(n, 0);
  assert_ok(by_local_send(pair[0], "toolong", 7, three, 1, &sent)); /* These are too many bytes. */
  assert_status(by_local_receive(pair[1], data, sizeof data, &length, fds, 2, &n), BANYAN_ERR_PROTOCOL);
  assert_ok(by_local_send(pair[0], "x", 1, most, BY_LOCAL_FDS, &sent));
  assert_status(by_local_receive(pair[1], data, sizeof data, &length, NULL, 0, &n), BANYAN_ERR_PROTOCOL);
  assert_int_equal(count_fds(), open_before);
  assert_ok(by_local_send(pair[0], "ok", 2, NULL, 0, &sent)); /* The connection remains usable. */
  assert_ok(by_local_receive(pair[1], data, sizeof data, &length, fds, 2, &n));
  assert_int_equal(length, 2);
  close(pair[0]);
  close(pair[1]);
}

static void test_pidfd_reports_an_end(void **state) {
  (void)state;
  int fd;
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  enum banyan_status status = by_pidfd_open(child, &fd);
  kill(child, SIGKILL);
  if (status == BANYAN_OK) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 10000), 1);
    close(fd);
  }
  waitpid(child, NULL, 0);
  if (status == BANYAN_ERR_UNSUPPORTED) skip();
  assert_ok(status);
  assert_status(by_pidfd_open(child, &fd), BANYAN_ERR_PEER_DEAD);
}

/* Tests of sockets in the file system: which users may connect, and what happens to a socket file that was left
 * behind. */

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
  return (struct by_path_socket){.path = path, .program = "server", .option = "--socket PATH", .mode = mode};
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

/* Listens at a path as another user, in a folder of that user if `own`. */
static enum banyan_status connect_to_other(const char *where, bool own) {
  char at[80], inner[64];
  int ready[2], fd = -1;
  char byte;
  snprintf(inner, sizeof inner, "%s/other", where);
  snprintf(at, sizeof at, "%s/s", own ? inner : where);
  assert_int_equal(pipe(ready), 0);
  if (own) assert_int_equal(mkdir(inner, 0755) + chown(inner, 65534, (gid_t)-1), 0);
  pid_t child = fork();
  if (child == 0) {
    struct by_path_socket there = {.path = at, .program = "server", .option = "--socket PATH", .mode = 0666};
    int listener;
    if (setuid(65534) == 0 && by_path_socket_listen(&there, &listener) == BANYAN_OK && write(ready[1], "r", 1)) pause();
    _exit(1);
  }
  close(ready[1]);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  enum banyan_status status = by_path_socket_connect(at, "server", &fd);
  if (fd >= 0) close(fd);
  close(ready[0]);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  unlink(at);
  if (own) rmdir(inner);
  return status;
}

/* A socket of another user is only used where nobody else can have made it. */
static void test_other_users(void **state) {
  char at[] = "/tmp/banyan-users-XXXXXX";
  (void)state;
  if (geteuid() != 0) skip();
  assert_non_null(mkdtemp(at));
  assert_int_equal(chmod(at, 01777), 0);
  assert_status(connect_to_other(at, false), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "user 65534 listens at"));
  assert_status(connect_to_other(at, true), BANYAN_ERR_AUTH);
  assert_int_equal(chmod(at, 0755), 0);
  assert_ok(connect_to_other(at, true));
  assert_int_equal(rmdir(at), 0);
}

static void test_taken(void **state) {
  struct by_path_socket at = place(0600);
  int fd, second;
  (void)state;
  assert_ok(by_path_socket_listen(&at, &fd));
  assert_status(by_path_socket_listen(&at, &second), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "--socket PATH"));
  close(fd);
  assert_ok(by_path_socket_listen(&at, &fd)); /* The socket file that was left behind is replaced. */
  close(fd);
  unlink(path);
  FILE *file = fopen(path, "w"); /* This file is not a socket. */
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

/* While one process checks and takes the path, another one waits. */
static void test_at_once(void **state) {
  struct by_path_socket here = place(0600);
  char locked[BY_PATH_SOCKET + 8];
  int fd, status;
  (void)state;
  snprintf(locked, sizeof locked, "%s.lock", path);
  unlink(path);
  assert_ok(by_path_socket_listen(&here, &fd)); /* This creates the folder. */
  close(fd);
  unlink(path);
  int lock = open(locked, O_RDWR | O_CREAT, 0600);
  assert_int_equal(flock(lock, LOCK_EX), 0);
  pid_t other = fork();
  if (!other) {
    close(lock); /* Close the inherited descriptor of the lock. */
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
  const struct CMUnitTest localsocket_tests[] = {
      cmocka_unit_test(test_listen_connect_and_credentials),
      cmocka_unit_test(test_bad_names),
      cmocka_unit_test(test_messages_stay_whole),
      cmocka_unit_test(test_a_full_socket_sends_nothing),
      cmocka_unit_test(test_shared_memory_travels),
      cmocka_unit_test(test_surplus_leaves_nothing_open),
      cmocka_unit_test(test_pidfd_reports_an_end),
  };
  const struct CMUnitTest path_socket_tests[] = {
      cmocka_unit_test(test_modes),      cmocka_unit_test(test_other_users), cmocka_unit_test(test_taken),
      cmocka_unit_test(test_long_names), cmocka_unit_test(test_at_once),
  };
  return cmocka_run_group_tests_name("localsocket", localsocket_tests, NULL, NULL) +
         cmocka_run_group_tests_name("path_socket", path_socket_tests, make_folder, drop_folder);
}
