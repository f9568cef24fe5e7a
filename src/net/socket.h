/* TCP sockets and their options. Every socket made here is non-blocking and
 * closed on exec; whoever receives it in *fd closes it. Options may be set on
 * live connections. Nothing here blocks; any thread. */
#ifndef BY_NET_SOCKET_H
#define BY_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "address.h"
#include "fail.h"

enum { BY_SPARED_PORTS = 2 };

/* A range of ports, both ends included; 0, 0: the system's choice. */
struct by_port_range {
  int low, high;
};

/* Parses "29500-29600", "29500", or "0" for any. */
enum banyan_status by_port_range_parse(const char *text, struct by_port_range *out) BANYAN_CHECK;

/* Listens on the first free port of the range, on one that is held only if there is no other, or, if the range is 0,
 * on the port of `at`. `at` NULL or :: takes IPv4 and IPv6 (only IPv4 on hosts without IPv6); *bound is the address
 * with the port that was found. BANYAN_ERR_SYSTEM if no port is free or the address is not this host's. */
enum banyan_status by_socket_listen(const struct by_address *at, struct by_port_range ports, int *fd,
                                    struct by_address *bound) BANYAN_CHECK;
/* Listens on any address. The `spared` ports are meant for other processes, which may not listen there yet: they are
 * taken only if no other port of the range is free. 0: none. */
enum banyan_status by_socket_listen_sparing(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                            struct by_address *bound) BANYAN_CHECK;
/* Holds a port of the range for a process of this host that will listen there: until *fd is closed, only processes
 * that name this port get it, and none for which the system chooses or that have another choice. Any port of the
 * range may be held, and one of the `spared` ports (NULL: none) only if no other is free. Errors of by_socket_listen.
 */
enum banyan_status by_socket_hold(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                  struct by_address *bound) BANYAN_CHECK;
/* Accepts the next waiting connection; *fd is -1 if there is none. BANYAN_ERR_SYSTEM if the process lacks descriptors
 * or other resources: ignore the listener, which stays readable, for a while. `peer` may be NULL. */
enum banyan_status by_socket_accept(int listener, int *fd, struct by_address *peer) BANYAN_CHECK;

/* Begins to connect. The socket becomes writable when by_socket_connect_finish has an answer. BANYAN_ERR_CONNECT,
 * with the reason in errno, if that fails at once. Connections to loopback addresses get the congestion control for
 * connections within a host. */
enum banyan_status by_socket_connect_start(const struct by_address *to, int *fd) BANYAN_CHECK;
/* Returns *done false while the connection is not established. BANYAN_ERR_CONNECT: it failed, with the reason in
 * errno; the caller closes the socket. */
enum banyan_status by_socket_connect_finish(int fd, const struct by_address *to, bool *done) BANYAN_CHECK;
/* Whether the answer to the first packet of a connected TCP socket was lost. The kernel then takes the time from the
 * second packet to the next answer for a round trip, and each later loss costs seconds until enough others are
 * measured, so a new connection is better. False if that is not known. */
bool by_socket_connected_late(int fd);

enum banyan_status by_socket_get_local(int fd, struct by_address *out) BANYAN_CHECK;
enum banyan_status by_socket_get_peer(int fd, struct by_address *out) BANYAN_CHECK;
/* Whether both ends of a connected socket are on this host: the peer has a loopback address, the same address as this
 * end, or, being a local socket, none. False if that cannot be determined. */
bool by_socket_is_within_host(int fd);

enum by_socket_option {
  BY_SOCKET_NODELAY,
  BY_SOCKET_THIN,     /* Keeps the retransmission timeout constant while few packets are in flight, not doubling. */
  BY_SOCKET_UNSENT,   /* The maximum of unsent bytes that wait in the socket, so that a slow connection does not take
                         more than it can send soon; 0: the system's default. */
  BY_SOCKET_PRIORITY, /* The queueing priority inside this host, 0 to 6 without privileges. */
  BY_SOCKET_USER_TIMEOUT, /* The connection fails when sent data stays unacknowledged for so many milliseconds; 0: the
                             system's default. */
};
enum banyan_status by_socket_set(int fd, enum by_socket_option option, int value) BANYAN_CHECK;
/* The size that holds a congestion control's name. */
#define BY_CONGESTION_TEXT 16
/* The congestion control for connections within a host, where nothing is lost or queued: every kernel has it, and it
 * does not pace as bbr does, whose timers take a third of the time there. A connection that began with bbr stays
 * paced. */
#define BY_CONGESTION_WITHIN_HOST "reno"
/* Sets "cubic", "bbr", ... BANYAN_ERR_UNSUPPORTED if the kernel does not have or allow it; the text lists those that
 * it has. */
enum banyan_status by_socket_set_congestion(int fd, const char *name) BANYAN_CHECK;
enum banyan_status by_socket_get_congestion(int fd, char *out) BANYAN_CHECK;
/* Sets the sizes in bytes; 0 keeps one unchanged (and tuned by the kernel, which setting ends). Windows above 64 KiB
 * need this before connecting or listening. The kernel may grant less. */
enum banyan_status by_socket_set_buffers(int fd, int send, int receive) BANYAN_CHECK;
/* Sets the ToS or traffic class byte of what is sent from now on. For TCP the kernel keeps the two lowest bits (ECN).
 * It derives the priority from an IPv4 ToS, so set the priority afterwards. */
enum banyan_status by_socket_set_tos(int fd, int tos) BANYAN_CHECK;
/* Limits the time between retransmissions, in milliseconds, at least 1000. Without this the time doubles up to two
 * minutes, and a link that works again stays unused meanwhile. The connection then lasts for a day without an answer,
 * since the system's limit counts attempts. Does nothing if the kernel cannot do it (Linux before 6.15). */
enum banyan_status by_socket_set_max_retry(int fd, int milliseconds) BANYAN_CHECK;
enum { BY_SILENCE_MIN = 2, BY_SILENCE_MAX = 3600 }; /* Seconds. */
/* Detecting hosts that vanish. A network that loses everything for less than `silence` seconds, by one interval
 * between probes (1 s, or a twelfth of the silence), does no harm. A host that answers nothing for longer has
 * vanished.
 *
 * Vigilant is for a connection that is always read, and that shows whether the other host is there. It fails within
 * one more interval after the silence, idle or not. If the first data is sent during an outage, the kernel counts
 * from then on. */
enum banyan_status by_socket_set_vigilant(int fd, double silence) BANYAN_CHECK;
/* Patient is for a connection that is not read while its program computes: it survives an outage as well, and fails
 * late or never because of it. */
enum banyan_status by_socket_set_patient(int fd, double silence) BANYAN_CHECK;
/* Milliseconds without a sign of life after which a vigilant connection fails: the silence, and the interval before
 * the first probe. */
uint32_t by_silence_limit(double silence);
/* The time since which nothing has arrived from the other host's kernel, and whether it left something unanswered
 * since: retransmitted data, or more than one probe, as one is under way now and then. */
struct by_quiet {
  uint32_t milliseconds;
  bool unanswered;
};
/* Returns false if this is not a TCP connection, or the kernel does not know. */
bool by_socket_get_quiet(int fd, struct by_quiet *out);
/* Probes a silent peer after `idle` seconds, every `interval` seconds, and fails after `count` probes without answer.
 */
enum banyan_status by_socket_set_keepalive(int fd, int idle, int interval, int count) BANYAN_CHECK;

/* Sockets between processes of one host, in the abstract AF_UNIX namespace, which carry whole messages
 * (SOCK_SEQPACKET) and file descriptors; and descriptors that become readable when a process ends. Every process in
 * the network namespace can connect, so check the peer. Non-blocking and closed on exec; the receiver of a descriptor
 * closes it. Any thread. */

/* The maximum of descriptors in one message. */
#define BY_LOCAL_FDS 64

/* Listens at `name` of up to 100 bytes, without the leading NUL. The name is free again when the last copy of the
 * descriptor is closed; nothing stays in the file system. by_socket_accept takes connections. */
enum banyan_status by_local_listen(const char *name, int *fd) BANYAN_CHECK;
enum banyan_status by_local_connect(const char *name, int *fd) BANYAN_CHECK;
/* The process and user at the other end when it connected. */
enum banyan_status by_local_get_peer(int fd, pid_t *pid, uid_t *uid) BANYAN_CHECK;

/* Sends one message of `length` > 0 bytes with copies of n <= BY_LOCAL_FDS descriptors, completely or not at all:
 * *sent is false if there is no space now. */
enum banyan_status by_local_send(int fd, const void *data, size_t length, const int *fds, size_t n,
                                 bool *sent) BANYAN_CHECK;
/* Receives one message; *length is 0 if there is none. The caller owns the *n descriptors in `fds`. A message with
 * more than `capacity` bytes or `max` descriptors is BANYAN_ERR_PROTOCOL, and none of its descriptors stays open. A
 * closed peer is BANYAN_ERR_PEER_DEAD. */
enum banyan_status by_local_receive(int fd, void *data, size_t capacity, size_t *length, int *fds, size_t max,
                                    size_t *n) BANYAN_CHECK;

/* Opens a descriptor that becomes readable when the process at the other end of a connection ends: the one that
 * listened, if this end connected. Before Linux 6.5 the process is opened by its number; had that been reused, the
 * process would have ended before. BANYAN_ERR_PEER_DEAD: it has ended; _UNSUPPORTED: the kernel cannot do it;
 * _SYSTEM. */
enum banyan_status by_local_open_peer(int fd, int *process) BANYAN_CHECK;
/* Opens a descriptor that becomes readable when the process ends. BANYAN_ERR_PEER_DEAD if it has ended already,
 * BANYAN_ERR_UNSUPPORTED before Linux 5.3. */
enum banyan_status by_pidfd_open(pid_t pid, int *fd) BANYAN_CHECK;
/* Whether all threads of a process have ended, even if its parent has not been notified. False also if that cannot be
 * determined. */
bool by_process_has_ended(pid_t pid);

/* Unix sockets in the file system, at which daemons listen for their own host. Non-blocking and closed on exec. Any
 * thread. */

enum { BY_PATH_SOCKET = 108 }; /* Bytes of a path, with its NUL. */

struct by_path_socket {
  const char *path;
  const char *program; /* The program that listens, for errors: "switch". */
  const char *option;  /* The option that sets another path: "--control PATH". */
  mode_t mode;         /* The mode of the file: users that may write to it may connect. */
};

/* Listens at a path. Makes the folder and, for a moment, PATH.lock; may wait 5 s for a process that starts at the
 * same time. Replaces a socket at which no process listens; BANYAN_ERR_ARGUMENT if one does. The caller owns *fd and
 * removes the file. */
BANYAN_CHECK enum banyan_status by_path_socket_listen(const struct by_path_socket *listener, int *fd);
/* Connects to a path. BANYAN_ERR_CONNECT: no `program` listens there, or the user may not connect. BANYAN_ERR_AUTH:
 * another user listens, who is not root and does not own the folder alone, in a folder of root. */
BANYAN_CHECK enum banyan_status by_path_socket_connect(const char *path, const char *program, int *fd);

#endif
