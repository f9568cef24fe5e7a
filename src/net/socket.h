/* TCP sockets and their options. Every socket made here is non-blocking and
 * closed on exec; whoever receives it in *fd closes it. Options may be set on
 * live connections. Nothing here blocks; any thread. */
#ifndef BY_NET_SOCKET_H
#define BY_NET_SOCKET_H

#include "address.h"

enum { BY_SPARED_PORTS = 2 };

/* Ports that may be listened on, both ends included; 0, 0: the system's choice. */
struct by_port_range {
  int low, high;
};

/* "29500-29600", "29500", or "0" for any. */
enum banyan_status by_port_range_parse(const char *text, struct by_port_range *out) BANYAN_CHECK;

/* Listens on the first free port of the range, one that is held only where there is no other, or, if that is 0, on the
 * port of `at`. `at` NULL or :: takes IPv4 and IPv6 (only IPv4 where there is no IPv6);
 * *bound is the address with the port that was found. BANYAN_ERR_SYSTEM if no
 * port is free or the address is not this host's. */
enum banyan_status by_socket_listen(const struct by_address *at, struct by_port_range ports, int *fd,
                                    struct by_address *bound) BANYAN_CHECK;
/* The same on any address. The `spared` ports are meant for others, who may not listen there yet: they are taken only
 * where no other port of the range is free. 0: none. */
enum banyan_status by_socket_listen_sparing(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                            struct by_address *bound) BANYAN_CHECK;
/* Holds a port of the range for a process of this host that is to listen there: until *fd is closed no process gets it
 * that leaves the choice to the system, for listening or connecting, or has another choice, but only one that names it.
 * It is any of the range, and one of the `spared` ports (NULL: there are none) only where no other is free. Errors of
 * by_socket_listen. */
enum banyan_status by_socket_hold(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                  struct by_address *bound) BANYAN_CHECK;
/* The next waiting connection, or *fd = -1 if there is none. BANYAN_ERR_SYSTEM
 * when the process is out of descriptors or the like: leave the listener alone
 * for a while, it stays readable. `peer` may be NULL. */
enum banyan_status by_socket_accept(int listener, int *fd, struct by_address *peer) BANYAN_CHECK;

/* Begins to connect. The socket becomes writable when by_socket_connect_finish has
 * an answer. BANYAN_ERR_CONNECT if it is known at once to be hopeless; errno has the reason. To a loopback address it
 * connects with the congestion control for connections within a host. */
enum banyan_status by_socket_connect_start(const struct by_address *to, int *fd) BANYAN_CHECK;
/* *done false: not yet. BANYAN_ERR_CONNECT: it failed, and errno has the reason; the caller closes the socket. */
enum banyan_status by_socket_connect_finish(int fd, const struct by_address *to, bool *done) BANYAN_CHECK;
/* Of a connected TCP socket: whether the answer to its first packet was lost. The kernel then takes the second until
 * the next answer for a round trip, and each later loss costs seconds until enough others are measured: a new
 * connection is better. False if that is not known. */
bool by_socket_connected_late(int fd);

enum banyan_status by_socket_get_local(int fd, struct by_address *out) BANYAN_CHECK;
enum banyan_status by_socket_get_peer(int fd, struct by_address *out) BANYAN_CHECK;
/* Whether both ends of a connected socket are on this host: the peer has a loopback address, or the same one as this
 * end, or no address at all, as a local socket. False if that cannot be found out. */
bool by_socket_is_within_host(int fd);

enum banyan_status by_socket_set_nodelay(int fd) BANYAN_CHECK;
/* Holds a congestion control's name. */
#define BY_CONGESTION_TEXT 16
/* For connections within a host, where nothing is lost and nothing queues: every kernel has it, and it does not pace as
 * bbr does, whose timers take a third of the time there. A connection that had bbr from its beginning on stays paced.
 */
#define BY_CONGESTION_WITHIN_HOST "reno"
/* "cubic", "bbr", ... BANYAN_ERR_UNSUPPORTED if the kernel has no such or does
 * not allow it; the text lists what it has. */
enum banyan_status by_socket_set_congestion(int fd, const char *name) BANYAN_CHECK;
enum banyan_status by_socket_get_congestion(int fd, char *out) BANYAN_CHECK;
/* Bytes; 0 leaves one as it is (and to the kernel's own tuning, which setting
 * ends). Windows above 64 KiB need it before connecting or listening. The kernel
 * may grant less. */
enum banyan_status by_socket_set_buffers(int fd, int send, int receive) BANYAN_CHECK;
/* The ToS or traffic class byte of what is sent from now on. The kernel keeps
 * the two lowest bits (ECN) of TCP for itself, and sets the priority after an
 * IPv4 ToS: set the priority behind it. */
enum banyan_status by_socket_set_tos(int fd, int tos) BANYAN_CHECK;
/* At most about so many bytes wait here that were not sent yet, so that what is slow does not take more than it can
 * send soon; 0: the system's default. */
enum banyan_status by_socket_set_unsent(int fd, int bytes) BANYAN_CHECK;
/* The queueing priority inside this host, 0 to 6 without privileges. */
enum banyan_status by_socket_set_priority(int fd, int priority) BANYAN_CHECK;
/* While few packets are under way, each wait for an acknowledgement is as long as the first, not twice the last. */
enum banyan_status by_socket_set_thin(int fd) BANYAN_CHECK;
/* The connection fails when sent data stays unacknowledged this long; milliseconds, 0: the system's default. */
enum banyan_status by_socket_set_user_timeout(int fd, int milliseconds) BANYAN_CHECK;
/* What was lost is sent again after so long at most, however often it was lost: without, the wait doubles up to two
 * minutes, and a link that could carry it again stays empty meanwhile. Milliseconds, 1000 at least. The connection then
 * lasts for a day without an answer, since the system's limit counts attempts. Does nothing where the kernel cannot
 * (Linux before 6.15). */
enum banyan_status by_socket_set_max_retry(int fd, int milliseconds) BANYAN_CHECK;
enum { BY_SILENCE_MIN = 2, BY_SILENCE_MAX = 3600 }; /* seconds */
/* Hosts that vanish. A network that loses everything for less than `silence` seconds, by one interval between probes (1
 * s, or a twelfth of the silence), does no harm. A host that answers nothing for longer has vanished.
 *
 * Vigilant: for a connection that somebody always reads, and that shows whether the other host is there. It fails
 * within one more interval after the silence, idle or not. Where the first data is sent in the midst of an outage, the
 * kernel counts from then on. */
enum banyan_status by_socket_set_vigilant(int fd, double silence) BANYAN_CHECK;
/* For one that is not read while its program computes: it survives an outage as well, and fails by it late or never. */
enum banyan_status by_socket_set_patient(int fd, double silence) BANYAN_CHECK;
/* Milliseconds without a sign of life after which a vigilant connection fails: the silence, and the interval before the
 * first probe. */
uint32_t by_silence_limit(double silence);
/* How long nothing has come from the other host's kernel, and whether it left something unanswered since: what was sent
 * again, or more than one probe, as one is under way now and then. */
struct by_quiet {
  uint32_t milliseconds;
  bool unanswered;
};
/* False: not a TCP connection, or the kernel does not know. */
bool by_socket_get_quiet(int fd, struct by_quiet *out);
/* Probes a silent peer after `idle` seconds, every `interval` seconds, and fails after `count` without answer. */
enum banyan_status by_socket_set_keepalive(int fd, int idle, int interval, int count) BANYAN_CHECK;

#endif
