#include "reservation.h"

#include <string.h>

#include "text.h"

/* As the kernel has it. */
static bool is_interface(const char *name) {
  return *name && memchr(name, 0, IF_NAMESIZE) && by_is_printable(name, IF_NAMESIZE) && !strpbrk(name, "/: ") &&
         strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum banyan_status check_end(const struct by_reservation *reservation, const struct by_udp_end *end,
                                    const char *what) {
  if (end->address && end->port) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "job %u wishes for a grant without the address of %s", reservation->job, what);
}

static enum banyan_status check_below(const struct by_reservation *reservation,
                                      const struct by_reservation_below *below) {
  if (!is_interface(below->interface))
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u names a port that cannot be an interface's name", reservation->job);
  if (below->first > reservation->n_workers || below->n > reservation->n_workers - below->first || below->n == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants nobody behind %s", reservation->job, below->interface);
  if (!below->is_switch && below->n > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u workers at one place behind %s", reservation->job, below->n,
                   below->interface);
  return BANYAN_OK;
}

enum banyan_status by_reservation_check(const struct by_reservation *reservation) {
  if (reservation->place >= BY_RESERVATION_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants place %u; there are %d", reservation->job, reservation->place,
                   BY_RESERVATION_HOPS);
  if (reservation->slots > BY_RESERVATION_SLOTS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u cells, more than the %d that it can name", reservation->job,
                   reservation->slots, BY_RESERVATION_SLOTS);
  if (!is_interface(reservation->up))
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u names no interface towards its server", reservation->job);
  if (reservation->n_below < 1 || reservation->n_below > BY_RESERVATION_WORKERS ||
      reservation->n_workers > BY_RESERVATION_WORKERS)
    return by_fail(BANYAN_ERR_ARGUMENT, "job %u wants %u workers in %u places below; it can have 1 to %d",
                   reservation->job, reservation->n_workers, reservation->n_below, BY_RESERVATION_WORKERS);
  BY_TRY(check_end(reservation, &reservation->server, "its server"));
  for (unsigned i = 0; i < reservation->n_workers; i++)
    BY_TRY(check_end(reservation, &reservation->workers[i], "a worker"));
  for (unsigned i = 0; i < reservation->n_below; i++) BY_TRY(check_below(reservation, &reservation->below[i]));
  return BANYAN_OK;
}

static bool same_end(const struct by_udp_end *a, const struct by_udp_end *b) {
  return a->address == b->address && a->port == b->port;
}

static bool same_below(const struct by_reservation_below *a, const struct by_reservation_below *b) {
  return !strcmp(a->interface, b->interface) && a->is_switch == b->is_switch && a->first == b->first && a->n == b->n;
}

bool by_reservation_same(const struct by_reservation *a, const struct by_reservation *b) {
  if (a->job != b->job || a->key != b->key || a->place != b->place || a->slots != b->slots ||
      a->float32 != b->float32 || strcmp(a->up, b->up) || a->n_below != b->n_below || a->n_workers != b->n_workers ||
      !same_end(&a->server, &b->server))
    return false;
  for (unsigned i = 0; i < a->n_below; i++)
    if (!same_below(&a->below[i], &b->below[i])) return false;
  for (unsigned i = 0; i < a->n_workers; i++)
    if (!same_end(&a->workers[i], &b->workers[i])) return false;
  return true;
}
