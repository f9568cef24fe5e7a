/* A switch of ordinary sockets: takes fragments that are addressed to others,
 * passes each through by_switch_step and sends on what comes out, many in one
 * system call. Where XDP is not to be had, or for comparison.
 *
 * A port is an interface; the next hop is what the host's routes say for the
 * packet's address by that interface. Where they say otherwise for other
 * traffic: ip rule add oif IF lookup T. Servers and workers all use one UDP
 * port. The host's rules say what is taken, for each port IF
 *
 *   ip rule add iif IF ipproto udp dport 7612 lookup 7612
 *
 * and by_user_take fills that table as long as the process lives; without it the
 * kernel forwards as before (net.ipv4.ip_forward=1). Needs root (CAP_NET_ADMIN)
 * and /dev/net/tun. All memory is there from the start; what a grant needs, when
 * it is given. One thread at a time: the loop's. */
#ifndef BY_SWITCH_USER_H
#define BY_SWITCH_USER_H

#include <stdint.h>

#include "cell.h"
#include "fail.h"
#include "grant.h"
#include "loop.h"

enum { BY_USER_TABLE = 7612, BY_USER_GROUPS = 256, BY_USER_MEMBERS = 64 };

struct by_user;

struct by_user_options {
  uint32_t cells;    /* 3.4 KiB each */
  uint16_t udp_port; /* of all ends; 0: BY_FRAGMENT_PORT */
};

/* What passed, beside what happened to each fragment. */
struct by_user_traffic {
  uint64_t datagrams; /* received; some held many fragments */
  uint64_t sent;      /* fragments; each copy counts */
  uint64_t unsent;    /* no such port, no route, or no room on the way out */
  uint64_t expired;   /* fragments that have gone round in circles */
};

/* The loop must outlive it. */
enum banyan_status by_user_create(struct by_loop *loop, const struct by_user_options *options,
                                  struct by_user **out) BANYAN_CHECK;
/* The kernel forwards again. NULL is allowed. */
void by_user_destroy(struct by_user *user);

/* This interface is port `number`. */
enum banyan_status by_user_add_port(struct by_user *user, uint32_t number, const char *interface) BANYAN_CHECK;
/* From now on gets what the host's rules send to this routing table (0: BY_USER_TABLE). After the ports were added:
 * what is taken from an interface that is no port gets lost. */
enum banyan_status by_user_take(struct by_user *user, uint32_t table) BANYAN_CHECK;
/* These cells are free, whatever was in them. */
enum banyan_status by_user_clear(struct by_user *user, uint32_t base, uint32_t count) BANYAN_CHECK;
/* Takes the place of what its job had. Its key must be another one if its cells or its group change. */
enum banyan_status by_user_grant(struct by_user *user, const struct by_grant *grant) BANYAN_CHECK;
enum banyan_status by_user_revoke(struct by_user *user, uint16_t job) BANYAN_CHECK;
/* Takes the place of the group's members. */
enum banyan_status by_user_set_group(struct by_user *user, uint16_t group, const struct by_switch_target *targets,
                                     uint32_t n) BANYAN_CHECK;
/* Fragments since the start, by what happened to them. */
void by_user_count(const struct by_user *user, uint64_t events[BY_EVENTS]);
void by_user_get_traffic(const struct by_user *user, struct by_user_traffic *traffic);

#endif
