/* Where rank 0 of a new job listens, where no launcher says it. */
#include <pthread.h>
#include <stdio.h>

#include <banyan/comm.h>

#include "address.h"
#include "descriptor.h"
#include "process_identity.h"
#include "settings.h"
#include "socket.h"

/* Of the place chosen last: so that nobody else gets the port until rank 0 listens there, by its number. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int held = -1;

static enum banyan_status hold_port(const struct by_settings *s, int *port) {
  struct by_port_range ports = {0, 0};
  struct by_address bound = {0};
  int fd = -1;
  if (s->ports && by_port_range_parse(s->ports, &ports) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_PARSE, "BANYAN_PORTS");
  BY_TRY(by_socket_hold(ports, NULL, &fd, &bound));
  *port = by_address_port(&bound);
  pthread_mutex_lock(&lock);
  int former = held;
  held = fd;
  pthread_mutex_unlock(&lock);
  if (former >= 0) by_close(former);
  return BANYAN_OK;
}

enum banyan_status by_root_choose(const struct by_settings *s, bool one_host, char *out) {
  struct by_process_identity *identity;
  char places[BANYAN_ROOT_TEXT - BY_FINGERPRINT_TEXT], fingerprint[BY_FINGERPRINT_TEXT];
  int port = 0;
  BY_TRY(hold_port(s, &port));
  if (one_host)
    snprintf(places, sizeof places, "127.0.0.1:%d", port);
  else
    BY_TRY(by_interface_offer(s->iface, port, places, sizeof places));
  BY_TRY(by_process_identity_of_root(&identity));
  by_fingerprint_print(by_process_identity_fingerprint(identity), fingerprint);
  snprintf(out, BANYAN_ROOT_TEXT, "%s#%s", places, fingerprint);
  return BANYAN_OK;
}
