/* Keeps ports on rank 0's host, and finds an address by which other hosts reach it. */
#include "run_host.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor.h"
#include "dialer.h"
#include "loop.h"
#include "process.h"
#include "socket.h"
#include "text.h"

static const uint64_t search_limit = 3 * BY_SECOND, answer_limit = BY_SECOND;

/* ---- on rank 0's host */

void by_root_ports_init(struct by_root_ports *ports) {
  *ports = (struct by_root_ports){.fds = {-1, -1, -1}};
}

void by_root_ports_close(struct by_root_ports *ports) {
  for (int i = 0; i < BY_ROOT_PORTS; i++) by_cli_close(&ports->fds[i]);
}

enum banyan_status by_root_ports_open(struct by_root_ports *ports, const char *range_text, int n) {
  struct by_port_range range = {0};
  struct by_address bound;
  if (*range_text) BY_TRY(by_port_range_parse(range_text, &range));
  BY_TRY(by_socket_hold(range, NULL, &ports->fds[0], &bound));
  ports->root = ports->store = by_address_port(&bound);
  if (n > 1) {
    BY_TRY(by_socket_hold(range, (int[BY_SPARED_PORTS]){ports->root}, &ports->fds[1], &bound));
    ports->store = by_address_port(&bound);
  }
  if (n > 2) {
    BY_TRY(by_socket_listen_sparing(range, (int[BY_SPARED_PORTS]){ports->root, ports->store}, &ports->fds[2], &bound));
    ports->answers = by_address_port(&bound);
  }
  /* A socket may share the port of one that does not listen if the range has no other. */
  if ((n > 1 && ports->store == ports->root) ||
      (n > 2 && (ports->answers == ports->root || ports->answers == ports->store)))
    return by_fail(BANYAN_ERR_SYSTEM, "--port-range %s has fewer than %d free ports: choose a larger range", range_text,
                   n);
  return BANYAN_OK;
}

void by_root_ports_answer(const struct by_root_ports *ports) {
  int fd = -1;
  if (by_socket_accept(ports->fds[2], &fd, NULL) != BANYAN_OK || fd < 0) return;
  (void)!send(fd, ports->fingerprint, strlen(ports->fingerprint), MSG_NOSIGNAL | MSG_DONTWAIT);
  by_close(fd);
}

/* ---- on other hosts */

struct search {
  struct by_loop *loop;
  struct by_dialer *dialer;
  struct by_timer late;    /* Deadline of the connection's answer. */
  struct by_watch *watch;  /* Of the connection; NULL: none. */
  struct by_address to;    /* Address of the peer. */
  const char *fingerprint; /* Expected answer of rank 0's host. */
  char received[BY_FINGERPRINT_TEXT];
  size_t length;
  int fd;
  bool found;
};

static void hang_up(struct search *search) {
  by_loop_cancel_timer(&search->late);
  by_loop_unwatch(search->watch);
  by_close(search->fd);
  search->watch = NULL;
}

static void reject_address(struct search *search, const char *reason) {
  hang_up(search);
  by_dialer_failed(search->dialer, BANYAN_ERR_PROTOCOL, reason, answer_limit);
}

static void receive_fingerprint(void *context, uint32_t events) {
  struct search *search = context;
  size_t left = strlen(search->fingerprint) - search->length;
  (void)events;
  ssize_t n = read(search->fd, search->received + search->length, left);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) search->length += (size_t)n;
  if (n > 0 && (size_t)n < left) return;
  search->found = !strcmp(search->received, search->fingerprint);
  if (search->found)
    hang_up(search);
  else
    reject_address(search, "another process answers there");
}

static void give_up(void *context) {
  reject_address(context, "there is no answer");
}

static void handle_connected(void *context, int fd, const struct by_address *to) {
  struct search *search = context;
  search->fd = fd;
  search->to = *to;
  search->length = 0;
  memset(search->received, 0, sizeof search->received);
  by_loop_set_delay(search->loop, &search->late, answer_limit);
  if (by_loop_watch(search->loop, fd, EPOLLIN, receive_fingerprint, search, &search->watch))
    reject_address(search, banyan_error_text());
}

static enum banyan_status run_search(struct search *search) {
  uint64_t until = by_loop_now(search->loop) + search_limit;
  while (!search->found) {
    uint64_t now = by_loop_now(search->loop);
    if (now >= until) break;
    BY_TRY(by_loop_run_once(search->loop, until - now));
  }
  if (search->found) return BANYAN_OK;
  struct by_text failures = {0};
  by_dialer_print(search->dialer, 800, &failures);
  enum banyan_status status =
      by_fail(BANYAN_ERR_CONNECT, "rank 0's host was not reached within 3 s: %s", by_text_get(&failures));
  by_text_fini(&failures);
  return status;
}

enum banyan_status by_root_reach(const char *answers, char out[BY_ADDRESS_TEXT]) {
  struct search search = {.fingerprint = strchr(answers, '#')};
  if (!search.fingerprint)
    return by_fail(BANYAN_ERR_PROTOCOL, "the places where rank 0's host answers lack a fingerprint");
  search.fingerprint++;
  by_timer_init(&search.late, give_up, &search);
  BY_TRY(by_loop_create(&by_clock_system, &search.loop));
  const struct by_dialer_options options = {
      .loop = search.loop, .targets = answers, .connected = handle_connected, .context = &search};
  enum banyan_status status = by_dialer_create(&options, &search.dialer);
  if (status == BANYAN_OK) status = run_search(&search);
  if (status == BANYAN_OK) by_address_print_host(&search.to, out);
  if (search.watch) hang_up(&search);
  by_dialer_destroy(search.dialer);
  by_loop_destroy(search.loop);
  return status;
}
