#include "manager_core.h"

#include "manager_peers.h"

static const double least_timeout = 30; /* s */
enum { TIMEOUT = 10 };                  /* intervals */

void by_manager_send(const struct by_manager *m, const struct by_manager_peer *peer,
                     const struct by_cluster_message *message) {
  if (peer) m->options.send(m->options.context, peer->connection, message);
}

void by_manager_keep_row(const struct by_manager *m, const struct by_manager_row *row) {
  if (m->options.keep && !m->restoring) m->options.keep(m->options.context, row);
}

double by_manager_timeout(const struct by_manager *m) {
  double timeout = TIMEOUT * m->options.interval;
  return timeout > least_timeout ? timeout : least_timeout;
}
