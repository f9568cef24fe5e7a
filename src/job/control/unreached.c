/* Finds unreachable processes by the kernel's state of their connections, and by attempts to connect. */
#include "unreached.h"

#include <stdio.h>
#include <string.h>

#include "job_state.h"
#include "socket.h"

struct finding {
  const struct by_job *job;
  struct by_large_loss_finder *finder;
  struct by_unreached_list *list;
};

static void add(struct by_unreached_list *list, const struct by_unreached *unreached) {
  if (unreached->milliseconds && list->n < BY_UNREACHED_MOST) list->all[list->n++] = *unreached;
}

static void add_tried(void *context, uint32_t process, uint32_t milliseconds, const char *way) {
  struct finding *finding = context;
  struct by_unreached unreached = {.to = process, .milliseconds = milliseconds};
  snprintf(unreached.way, sizeof unreached.way, "%s", way);
  add(finding->list, &unreached);
}

/* Adds a connection that was silent for `silent` milliseconds, or whose large packets are lost. */
static void add_connection(const struct finding *finding, uint32_t process, int fd, uint32_t silent) {
  const struct by_member *member = &finding->job->members[process];
  char from[BY_ADDRESS_TEXT] = "?", to[BY_ADDRESS_TEXT] = "?", mtu[24] = "";
  struct by_unreached unreached = {.to = process, .milliseconds = silent};
  struct by_large_loss loss;
  struct by_address local, peer = {.length = 0};
  int port = member->n_addresses ? by_address_port(&member->addresses[0]) : 0;
  (void)!by_socket_get_peer(fd, &peer);
  if (by_large_loss_look(finding->finder, fd, port, &loss)) {
    peer = loss.peer;
    unreached.milliseconds = loss.milliseconds;
    unreached.packet = loss.packet;
    snprintf(mtu, sizeof mtu, " (MTU %u)", loss.mtu);
  }
  if (!unreached.milliseconds) return;
  if (by_socket_get_local(fd, &local) == BANYAN_OK) by_address_print(&local, from);
  if (peer.length) by_address_print(&peer, to);
  snprintf(unreached.way, sizeof unreached.way, "on the connection from %.70s to %.70s%s", from, to, mtu);
  add(finding->list, &unreached);
}

static void add_lane(void *context, uint32_t process, struct by_lane *lane) {
  struct by_meter meter;
  if (by_lane_meter(lane, &meter)) add_connection(context, process, meter.fd, meter.silent);
}

void by_unreached_find(const struct by_control_peers *peers, const struct by_connector *connector,
                       struct by_large_loss_finder *finder, struct by_unreached_list *out) {
  struct by_job *job = peers->job;
  struct finding finding = {.job = job, .finder = finder, .list = out};
  out->n = 0;
  if (connector) by_connector_visit_tried(connector, add_tried, &finding);
  for (const struct by_control_peer *peer = peers->all; peer; peer = peer->next)
    if (peer->rank >= 0 && by_control_peer_stays(peer))
      add_connection(&finding, (uint32_t)peer->rank, by_stream_get_fd(peer->stream), 0);
  by_job_lock(job);
  by_engine_visit_lanes(job->engine, add_lane, &finding);
  by_job_unlock(job);
}

void by_unreached_write(struct by_writer *writer, const struct by_unreached_list *list) {
  if (!list->n) return;
  by_write_u32(writer, list->n);
  for (uint32_t i = 0; i < list->n; i++) {
    by_write_u32(writer, list->all[i].to);
    by_write_u32(writer, list->all[i].milliseconds);
    by_write_u32(writer, list->all[i].packet);
    by_write_string(writer, list->all[i].way);
  }
}

/* Returns whether one is worse: lost packets are worse than silence, and a longer silence is worse than a shorter
 * one. */
static bool is_worse(const struct by_unreached *one, const struct by_unreached *than) {
  if (!one->packet != !than->packet) return one->packet != 0;
  return one->milliseconds > than->milliseconds;
}

bool by_unreached_read(struct by_reader *reader, uint32_t from, uint32_t processes, struct by_unreached *worst) {
  uint32_t n = by_reader_left(reader) ? by_read_count(reader, 4 * sizeof(uint32_t)) : 0;
  for (uint32_t i = 0; i < n; i++) {
    struct by_unreached one = {.from = from, .to = by_read_u32(reader)};
    one.milliseconds = by_read_u32(reader);
    one.packet = by_read_u32(reader);
    by_read_string(reader, one.way, sizeof one.way);
    if (reader->failed) return false;
    if (one.to < processes && is_worse(&one, worst)) *worst = one;
  }
  return true;
}

void by_unreached_print(const struct by_unreached *unreached, struct by_job *job, char *text, size_t room) {
  const char *from = by_job_name(job, unreached->from), *to = by_job_name(job, unreached->to);
  uint32_t seconds = unreached->milliseconds / 1000;
  if (unreached->packet)
    snprintf(text, room,
             "%s and %s lose large packets, though small ones pass: %s, packets with %u bytes of data for %u "
             "s; " BY_LARGE_LOSS_ADVICE,
             from, to, unreached->way, unreached->packet, seconds);
  else
    snprintf(text, room,
             "%s and %s cannot reach each other%s: %s, nothing for %u s; check the network and the firewalls between "
             "the two",
             from, to, unreached->from && unreached->to ? ", though both reach rank 0" : "", unreached->way, seconds);
}
