/* The hello of a link's connections, and how these become the link's lanes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "connection.h"
#include "descriptor.h"
#include "job_state.h"
#include "lane.h"
#include "log.h"
#include "refusal.h"
#include "settings.h"
#include "socket.h"

enum { UNSENT = 128 << 10 };

static const struct by_field fields[] = {
    BY_FIELD(by_link_hello, from, BY_FIELD_U32), BY_FIELD(by_link_hello, to, BY_FIELD_U32),
    BY_FIELD(by_link_hello, lane, BY_FIELD_U8), BY_FIELD(by_link_hello, lanes, BY_FIELD_U8),
    BY_FIELD(by_link_hello, membership, BY_FIELD_U64)};

void by_hello_write(const struct by_link_hello *hello, uint8_t *out) {
  struct by_writer writer;
  by_writer_init(&writer, out, HELLO);
  by_fields_write(&writer, BY_FIELDS(fields), hello);
}

enum banyan_status by_hello_read(const struct by_job *job, const uint8_t *bytes, size_t length,
                                 struct by_link_hello *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  enum banyan_status status = by_fields_read(&reader, NULL, BY_FIELDS(fields), "a link's hello", out);
  if (status == BANYAN_OK) status = by_reader_check(&reader, "a link's hello");
  if (status != BANYAN_OK) {
    by_refusal_count(BY_REFUSED_PROTOCOL);
    return status;
  }
  if (out->membership != job->membership)
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL, "a link's hello is of another membership");
  if (out->from >= job->processes || out->from == job->rank)
    return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "a link's hello comes from rank %u", out->from);
  if (out->to != job->rank && out->to != UINT32_MAX)
    return by_refuse(BY_REFUSED_PURPOSE, BANYAN_ERR_PROTOCOL, "a link's hello is for rank %u, this is rank %u", out->to,
                     job->rank);
  if (out->lanes < 1 || out->lanes > BY_LANES || out->lane >= out->lanes)
    return by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL, "a link's hello is for connection %u of %u", out->lane,
                     out->lanes);
  return BANYAN_OK;
}

/* ---- lanes */

/* Logs a socket option that cannot be set. Only speed suffers, so the next option is tried. */
static void tried(const char *option, enum banyan_status status) {
  if (status != BANYAN_OK) by_warn("net", "a link's socket keeps its default for %s: %s", option, banyan_error_text());
}

static enum banyan_status tune_congestion(const struct by_settings *s, int fd, const struct by_address *peer) {
  char name[BY_CHOICE_TEXT];
  BY_TRY(by_choose(s->congestion, peer, name));
  if (!*name && by_socket_is_within_host(fd)) strcpy(name, BY_CONGESTION_WITHIN_HOST);
  return *name ? by_socket_set_congestion(fd, name) : BANYAN_OK;
}

static enum banyan_status tune_buffers(const struct by_settings *s, int fd, const struct by_address *peer) {
  char text[BY_CHOICE_TEXT];
  uint64_t bytes = 0;
  BY_TRY(by_choose(s->socket_buffer, peer, text));
  if (*text) BY_TRY(by_parse_bytes(text, &bytes));
  return bytes ? by_socket_set_buffers(fd, (int)bytes, (int)bytes) : BANYAN_OK;
}

/* Sets a lane's socket options. Vanished hosts are detected on the control connections, which are always read: a peer
 * that computes reads no lanes. */
static void tune(const struct by_settings *s, int fd, const struct by_address *peer, bool one_of_many) {
  tried("TCP_NODELAY", by_socket_set(fd, BY_SOCKET_NODELAY, 1));
  tried("BANYAN_CONGESTION", tune_congestion(s, fd, peer));
  tried("BANYAN_SOCKET_BUFFER", tune_buffers(s, fd, peer));
  tried("TCP_THIN_LINEAR_TIMEOUTS", by_socket_set(fd, BY_SOCKET_THIN, 1));
  tried("TCP_RTO_MAX_MS and keepalive", by_socket_set_patient(fd, s->silence));
  if (one_of_many) tried("TCP_NOTSENT_LOWAT", by_socket_set(fd, BY_SOCKET_UNSENT, UNSENT));
}

uint8_t by_connector_lanes_to(const struct by_job *job, const struct by_address *peer) {
  char text[BY_CHOICE_TEXT];
  long n = 1;
  if (by_choose(job->settings.connections, peer, text) != BANYAN_OK || !*text) return 1;
  if (by_parse_int("number of connections", text, 1, BY_LANES, &n) != BANYAN_OK) return 1;
  return (uint8_t)n;
}

/* Makes a lane of a TCP connection. Takes the socket and its TLS over, also on failure. */
static enum banyan_status make_tcp_lane(struct by_connect_target *target, int fd, struct by_tls *tls,
                                        struct by_lane **out) {
  struct by_job *job = target->connector->job;
  char congestion[BY_CONGESTION_TEXT] = "?", text[BY_ADDRESS_TEXT];
  struct by_address peer = {0};
  (void)!by_socket_get_peer(fd, &peer);
  tune(&job->settings, fd, &peer, target->lanes > 1);
  enum banyan_status status = by_tcp_create(fd, tls, job->settings.chunk, out);
  if (status != BANYAN_OK) {
    by_close(fd);
    return status;
  }
  (void)!by_socket_get_congestion(fd, congestion);
  by_info("net", "link to %s over TCP, %s, %s%s", by_job_name(job, target->process), by_address_print(&peer, text),
          congestion, tls ? ", encrypted" : "");
  return BANYAN_OK;
}

void by_target_forget_connections(struct by_connect_target *target) {
  for (uint32_t i = 0; i < BY_LANES; i++) {
    if (target->fds[i] >= 0) by_close(target->fds[i]);
    target->fds[i] = -1;
    by_tls_destroy(target->tls[i]);
    target->tls[i] = NULL;
  }
  target->have = 0;
}

static void attach(const struct by_connect_target *target, struct by_lane *const *lanes, uint32_t n) {
  const struct by_connector_events *events = &target->connector->events;
  events->attach(events->context, target->process, lanes, n);
}

static void make_tcp_link(struct by_connect_target *target) {
  struct by_lane *lanes[BY_LANES];
  enum banyan_status status = BANYAN_OK;
  uint32_t n = 0;
  for (uint32_t i = 0; i < target->lanes && status == BANYAN_OK; i++) {
    int fd = target->fds[i];
    struct by_tls *tls = target->tls[i];
    target->fds[i] = -1;
    target->tls[i] = NULL;
    status = make_tcp_lane(target, fd, tls, &lanes[n]);
    if (status == BANYAN_OK) n++;
  }
  by_target_forget_connections(target);
  if (status == BANYAN_OK) {
    attach(target, lanes, n);
    return;
  }
  by_target_broken(target, status, "its connection cannot be used");
  for (uint32_t i = 0; i < n; i++) lanes[i]->ops->destroy(lanes[i]);
}

bool by_target_add_connection(struct by_connect_target *target, const struct by_link_hello *hello,
                              const struct by_greeted *greeted) {
  by_target_forget_kept(target);
  if (hello->lanes != target->lanes) by_target_forget_connections(target); /* The peer starts again. */
  target->lanes = hello->lanes;
  if (target->fds[hello->lane] >= 0)
    by_close(target->fds[hello->lane]);
  else
    target->have++;
  by_tls_destroy(target->tls[hello->lane]);
  target->fds[hello->lane] = greeted->fd;
  target->tls[hello->lane] = greeted->tls;
  if (target->have < target->lanes) return false;
  make_tcp_link(target);
  return true;
}

void by_target_make_shm_link(struct by_connect_target *target, struct by_shm_ends *ends) {
  struct by_job *job = target->connector->job;
  struct by_lane *lane = NULL;
  uid_t uid;
  by_target_forget_kept(target);
  ends->crowded = job->hosts.yields;
  if (by_local_get_peer(ends->socket, &ends->peer, &uid) != BANYAN_OK)
    ends->peer = (pid_t)job->members[target->process].pid;
  enum banyan_status status = by_shm_create(ends, &lane);
  if (status != BANYAN_OK) {
    by_target_broken(target, status, "shared memory cannot be used");
    return;
  }
  by_info("net", "link to %s over shared memory", by_job_name(job, target->process));
  attach(target, &lane, 1);
}
