/* The switch in XDP: cell.h between an Ethernet frame and an outgoing port. Included by the programs that are loaded,
 * xdp_switch.bpf.c and that of the bench; xdp_maps.h describes the contents of the maps. */
#ifndef BY_IN_NETWORK_SWITCH_XDP_SWITCH_H
#define BY_IN_NETWORK_SWITCH_XDP_SWITCH_H

/* clang-format off */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "cell.h"
#include "fragment.h"
#include "fragment_mac.h"
#include "xdp_maps.h"

/* Arrays for lookups that each packet needs, since these are no calls; a hash costs some 20 ns. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_JOBS);
  __type(key, uint32_t);
  __type(value, uint32_t); /* Index of its grant; 0: none. */
} jobs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_GRANTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_grant);
} grants SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_GROUPS);
  __type(key, uint32_t); /* The grant's group. */
  __type(value, struct by_hop_key);
} hop_keys SEC(".maps");

struct by_xdp_sum {
  uint64_t pairs[BY_CELL_PAIRS];
};

struct window_value {
  struct bpf_spin_lock lock;
  struct by_replay_window window;
};

/* Entries are created when a worker sends its first probe, since few workers do. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, BY_XDP_WINDOWS);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct by_xdp_sender);
  __type(value, struct window_value);
} windows SEC(".maps");

struct cell_value {
  uint32_t lock; /* 1: a core has locked it. */
  uint32_t reserved;
  struct by_cell cell;
  struct by_xdp_sum sum;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1); /* The loader sets the number. */
  __type(key, uint32_t);
  __type(value, struct cell_value);
} cells SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_INTERFACES);
  __type(key, uint32_t); /* Index of the interface. */
  __type(value, struct by_xdp_port);
} ports SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_hops);
} ways SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, BY_XDP_NEIGHBOURS);
  __type(key, struct by_xdp_next);
  __type(value, struct by_xdp_neighbour);
} neighbours SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct bpf_devmap_val);
} interfaces SEC(".maps");

struct xdp_group {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, BY_XDP_MEMBERS);
  __type(key, uint32_t);
  __type(value, struct bpf_devmap_val);
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, BY_XDP_GROUPS);
  __type(key, uint32_t);
  __array(values, struct xdp_group);
} groups SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, BY_XDP_GROUPS *BY_XDP_MEMBERS);
  __type(key, struct by_xdp_member);
  __type(value, struct by_xdp_address);
} members SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_copy);
} copies SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, BY_XDP_COUNTERS);
  __type(key, uint32_t);
  __type(value, uint64_t);
} counters SEC(".maps");

/* Offsets in a frame with an IP header of `ip` bytes: IP4 or IP6, without options or extensions. The functions below
 * get it as a constant, so each is compiled for both. Fragments need no alignment: XDP runs where that is free. */
enum { IP_AT = ETH_HLEN, IP4 = sizeof(struct iphdr), IP6 = sizeof(struct ipv6hdr) };
#define UDP_AT(ip) (IP_AT + (ip))
#define FRAGMENT_AT(ip) (UDP_AT(ip) + sizeof(struct udphdr))
#define PAYLOAD_AT(ip) (FRAGMENT_AT(ip) + BY_FRAGMENT_LINE)

/* The tick of the kernel's clock, and the time in ms when it began, in one word that all cores read and write. */
static volatile uint64_t tick_began;

/* Returns the approximate time in ms, which wraps. Reading the coarse clock takes 17 ns, reading the tick one load, and
 * both advance together. */
static __always_inline uint32_t milliseconds(void) {
  uint64_t tick = bpf_jiffies64(), began = tick_began;
  if ((uint32_t)(began >> 32) == (uint32_t)tick) return (uint32_t)began;
  uint32_t now = (uint32_t)(bpf_ktime_get_coarse_ns() >> 20);
  tick_began = tick << 32 | now;
  return now;
}

static inline void count_event(uint32_t event) {
  uint64_t *counter = bpf_map_lookup_elem(&counters, &event);
  if (counter) *counter += 1;
}

static inline int drop_unsent(void) {
  count_event(BY_XDP_UNSENT);
  return XDP_DROP;
}

static inline const struct by_xdp_grant *grant_of(uint32_t job) {
  const uint32_t *at = bpf_map_lookup_elem(&jobs, &job);
  return at && *at ? bpf_map_lookup_elem(&grants, at) : NULL;
}

/* Returns NULL if its fragments have no MAC, or the grant was just revoked. */
static inline const struct by_hop_key *hop_key_of(const struct by_grant *grant) {
  uint32_t group = grant->group;
  return grant->keyed ? bpf_map_lookup_elem(&hop_keys, &group) : NULL;
}

static inline void *frame_start(const struct xdp_md *ctx) {
  return (void *)(long)ctx->data;
}

static inline void *frame_end(const struct xdp_md *ctx) {
  return (void *)(long)ctx->data_end;
}

static __always_inline bool carries_udp(const void *data, uint32_t ip) {
  const struct iphdr *four = data + IP_AT;
  const struct ipv6hdr *six = data + IP_AT;
  if (ip == IP6) return six->version == 6 && six->nexthdr == IPPROTO_UDP;
  return four->protocol == IPPROTO_UDP && four->version == 4 && four->ihl == 5 && !(four->frag_off & bpf_htons(0x3fff));
}

/* Returns the fragment in a whole packet, or NULL. */
static __always_inline const struct by_fragment *find_fragment(void *data, const void *end, uint32_t ip) {
  const struct by_fragment *fragment = data + FRAGMENT_AT(ip);
  if ((const void *)(fragment + 1) > end || !carries_udp(data, ip)) return NULL;
  return fragment->magic == BY_FRAGMENT_MAGIC && fragment->version == BY_FRAGMENT_VERSION ? fragment : NULL;
}

static __always_inline bool belongs_to(const struct by_xdp_grant *granted, const void *data, uint32_t ip) {
  const struct udphdr *udp = data + UDP_AT(ip);
  return udp->dest == granted->udp_port || udp->source == granted->udp_port;
}

/* Returns the fragment's bytes by the UDP header, which the frame must have, or 0 if the frame is shorter. */
static __always_inline uint32_t fragment_bytes(void *data, const void *end, uint32_t ip) {
  const struct udphdr *udp = data + UDP_AT(ip);
  uint32_t bytes = bpf_ntohs(udp->len);
  if (bytes < sizeof *udp || bytes > (const char *)end - (const char *)udp) return 0;
  return bytes - (uint32_t)sizeof *udp;
}

/* ---- cells
 * The kernel verifies global functions once, and others with each path that calls them. */

enum { LOCK_TRIES = 1 << 12 };

/* Waits for another core to unlock the cell, which takes some 100 ns, or longer if it is interrupted. Reading the time
 * lets it work. */
__attribute__((noinline)) uint32_t by_xdp_wait(uint32_t *lock) {
  if (!lock) return 0;
  for (uint32_t i = 0; i < LOCK_TRIES; i++) {
    if (!__sync_lock_test_and_set(lock, 1)) return 1;
    (void)bpf_ktime_get_ns();
  }
  return 0;
}

/* Locks a cell. The program cannot be interrupted by itself on one core, so it needs no bpf_spin_lock, which disables
 * interrupts and takes 40 ns. Both exchanges are full barriers. Returns false if it took too long. */
static __always_inline bool lock_cell(struct cell_value *value) {
  return !__sync_lock_test_and_set(&value->lock, 1) || by_xdp_wait(&value->lock);
}

static __always_inline void unlock_cell(struct cell_value *value) {
  (void)__sync_lock_test_and_set(&value->lock, 0);
}

/* Applies an action to the payload, which begins at `at`. */
__attribute__((noinline)) int by_xdp_apply(struct xdp_md *ctx, struct by_xdp_sum *sum, uint32_t at, uint32_t lines,
                                           uint32_t action) {
  if (!sum) return 0;
  const void *end = frame_end(ctx);
  uint64_t *payload = frame_start(ctx) + (at & 127);
  if (action == BY_CELL_STORE)
    by_cell_apply(BY_CELL_STORE, sum->pairs, payload, lines, end);
  else if (action == BY_CELL_ADD)
    by_cell_apply(BY_CELL_ADD, sum->pairs, payload, lines, end);
  else if (action == BY_CELL_ADD_EMIT)
    by_cell_apply(BY_CELL_ADD_EMIT, sum->pairs, payload, lines, end);
  else if (action == BY_CELL_EMIT)
    by_cell_apply(BY_CELL_EMIT, sum->pairs, payload, lines, end);
  return 1;
}

static __always_inline void visit_cell(struct xdp_md *ctx, uint32_t ip, struct by_fragment *fragment, uint32_t place,
                                       struct cell_value *value, struct by_verdict *verdict) {
  uint32_t now = milliseconds();
  if (!lock_cell(value)) {
    *verdict = by_verdict_drop(BY_EVENT_NO_CELL);
    return;
  }
  enum by_cell_action action = by_cell_decide(&value->cell, fragment, now, verdict);
  if (action != BY_CELL_LEAVE)
    by_xdp_apply(ctx, &value->sum, PAYLOAD_AT(ip), fragment->lines, action);
  else if (fragment->type == BY_FRAGMENT_PROBE)
    by_probe_write(frame_start(ctx) + PAYLOAD_AT(ip), frame_end(ctx), fragment, place, &value->cell);
  unlock_cell(value);
}

static __always_inline struct by_verdict pass_switch(struct xdp_md *ctx, uint32_t ip, struct by_fragment *fragment,
                                                     const struct by_grant *grant, uint32_t from) {
  struct by_verdict verdict = by_switch_enter(grant, fragment, from);
  if (verdict.kind == BY_VERDICT_CELL) {
    uint32_t at = grant->base + fragment->slot;
    struct cell_value *value = bpf_map_lookup_elem(&cells, &at);
    if (!value) return by_verdict_drop(BY_EVENT_NO_CELL);
    visit_cell(ctx, ip, fragment, grant->place, value, &verdict);
  } else if (fragment->type == BY_FRAGMENT_PROBE && verdict.kind == BY_VERDICT_FORWARD) {
    by_probe_write(frame_start(ctx) + PAYLOAD_AT(ip), frame_end(ctx), fragment, grant->place, NULL);
  }
  return verdict;
}

/* Returns the MAC of a fragment whose payload begins at `at`. */
__attribute__((noinline)) uint64_t by_xdp_mac(struct xdp_md *ctx, const struct by_hop_key *key,
                                              const struct by_fragment *fragment, uint32_t at) {
  if (!key || !fragment) return 0;
  return by_fragment_mac_of(key, fragment, frame_start(ctx) + (at & 127), frame_end(ctx));
}

/* Tells whether this sequence number has come before. Without memory for a window, the ends have to detect it. */
__attribute__((noinline)) int by_xdp_is_replayed(uint32_t group, uint32_t sender, uint32_t sequence) {
  struct by_xdp_sender key = {group, sender};
  struct window_value *value = bpf_map_lookup_elem(&windows, &key);
  if (!value) {
    struct window_value nothing = {0};
    (void)bpf_map_update_elem(&windows, &key, &nothing, BPF_NOEXIST);
    value = bpf_map_lookup_elem(&windows, &key);
  }
  if (!value) return 0;
  bpf_spin_lock(&value->lock);
  bool taken = by_replay_take(&value->window, sequence);
  bpf_spin_unlock(&value->lock);
  return !taken;
}

/* Writes the header back. The UDP checksum is now wrong; none at all is valid for IPv4, and the ends of grants accept
 * that for IPv6, too (RFC 6935). */
static __always_inline bool write_header(struct xdp_md *ctx, uint32_t ip, struct by_fragment *fragment,
                                         const struct by_hop_key *key) {
  void *data = frame_start(ctx);
  struct udphdr *udp = data + UDP_AT(ip);
  if (data + PAYLOAD_AT(ip) > frame_end(ctx)) return false;
  if (key)
    fragment->mac = by_xdp_mac(ctx, key, fragment, PAYLOAD_AT(ip));
  else
    by_fragment_seal(fragment);
  *(struct by_fragment *)(data + FRAGMENT_AT(ip)) = *fragment;
  udp->check = 0;
  return true;
}

static inline void write_ethernet(struct ethhdr *eth, const struct by_xdp_neighbour *neighbour) {
  __builtin_memcpy(eth->h_dest, neighbour->to, ETH_ALEN);
  __builtin_memcpy(eth->h_source, neighbour->from, ETH_ALEN);
}

static __always_inline struct by_xdp_host receiver_of(const void *data, uint32_t ip) {
  const struct iphdr *four = data + IP_AT;
  const struct ipv6hdr *six = data + IP_AT;
  struct by_xdp_host host = {{0, 0, bpf_htonl(0xffff), four->daddr}};
  if (ip == IP6) __builtin_memcpy(&host, &six->daddr, sizeof host);
  return host;
}

/* Returns the next hop of the packet by this port; NULL: unknown. */
static __always_inline const struct by_xdp_neighbour *find_next_hop(uint32_t port, const void *data, uint32_t ip) {
  const struct by_xdp_hops *way = bpf_map_lookup_elem(&ways, &port);
  if (!way) return NULL;
  struct by_xdp_next next = {.port = port, .address = receiver_of(data, ip)};
  const struct by_xdp_neighbour *neighbour = way->has_named ? bpf_map_lookup_elem(&neighbours, &next) : NULL;
  if (neighbour) return neighbour;
  return way->has_other ? &way->other : NULL;
}

static __always_inline int forward_packet(struct xdp_md *ctx, uint32_t ip, uint32_t port) {
  void *data = frame_start(ctx);
  if (data + UDP_AT(ip) > frame_end(ctx)) return XDP_DROP;
  const struct by_xdp_neighbour *neighbour = find_next_hop(port, data, ip);
  if (!neighbour) return drop_unsent();
  write_ethernet(data, neighbour);
  return (int)bpf_redirect_map(&interfaces, port, XDP_DROP);
}

/* Checks the lowest bits of the ToS byte, which in IPv6 is spread over two halves of bytes. */
static __always_inline bool is_marked(const void *data, uint32_t ip) {
  const uint8_t *byte = data + IP_AT + 1;
  return ((ip == IP6 ? *byte >> 4 : *byte) & 3) == 3;
}

/* Decides with a copy of the header on the stack, so that its hops can be indexed. A fragment without a grant is
 * unchanged, as nobody here can verify its MAC. */
static __always_inline struct by_verdict decide_fragment(struct xdp_md *ctx, uint32_t ip, uint32_t from,
                                                         const struct by_grant *grant) {
  void *data = frame_start(ctx);
  if (data + PAYLOAD_AT(ip) > frame_end(ctx)) return by_verdict_drop(BY_EVENT_MALFORMED);
  uint32_t bytes = fragment_bytes(data, frame_end(ctx), ip);
  struct by_fragment fragment = *(struct by_fragment *)(data + FRAGMENT_AT(ip));
  if (by_fragment_check_fields(&fragment, bytes) != BY_FRAGMENT_SOUND) return by_verdict_drop(BY_EVENT_MALFORMED);
  if (!grant) return by_switch_enter(NULL, &fragment, from);
  const struct by_hop_key *key = hop_key_of(grant);
  if (key && fragment.mac != by_xdp_mac(ctx, key, &fragment, PAYLOAD_AT(ip))) return by_verdict_drop(BY_EVENT_FORGED);
  if (!key && (grant->keyed || fragment.mac != by_fragment_seal_of(&fragment)))
    return by_verdict_drop(BY_EVENT_MALFORMED);
  if (key && by_fragment_is_numbered(&fragment) &&
      by_xdp_is_replayed(grant->group, by_replay_sender(&fragment), by_fragment_sequence(&fragment)))
    return by_verdict_drop(BY_EVENT_REPLAYED);
  if (is_marked(data, ip)) fragment.flags |= BY_FRAGMENT_CE;
  struct by_verdict verdict = pass_switch(ctx, ip, &fragment, grant, from);
  if (verdict.kind != BY_VERDICT_DROP && !write_header(ctx, ip, &fragment, key)) verdict.kind = BY_VERDICT_DROP;
  return verdict;
}

static __always_inline int switch_packet(struct xdp_md *ctx, uint32_t ip) {
  uint32_t from = ctx->ingress_ifindex;
  void *data = frame_start(ctx);
  const struct by_fragment *fragment = find_fragment(data, frame_end(ctx), ip);
  if (!fragment) return XDP_PASS;
  const struct by_xdp_port *port = bpf_map_lookup_elem(&ports, &from);
  if (!port || !port->ours) return XDP_PASS;
  const struct by_xdp_grant *granted = grant_of(fragment->job);
  if (granted && !belongs_to(granted, data, ip)) return XDP_PASS;
  struct by_verdict verdict = decide_fragment(ctx, ip, port->number, granted ? &granted->grant : NULL);
  if (!granted && verdict.event == BY_EVENT_MALFORMED) return XDP_PASS; /* The packet is not a fragment. */
  count_event(verdict.event);
  if (verdict.kind == BY_VERDICT_PASS) return XDP_PASS;
  if (verdict.kind == BY_VERDICT_FORWARD) return forward_packet(ctx, ip, verdict.port);
  if (verdict.kind != BY_VERDICT_MULTICAST || !granted) return XDP_DROP;
  uint32_t group = granted->grant.group;
  void *members_of = bpf_map_lookup_elem(&groups, &group);
  return members_of ? (int)bpf_redirect_map(members_of, 0, BPF_F_BROADCAST) : drop_unsent();
}

/* Separate functions, so that each has all registers and the whole stack. */
static __attribute__((noinline)) int switch_ipv4(struct xdp_md *ctx) {
  return switch_packet(ctx, IP4);
}

static __attribute__((noinline)) int switch_ipv6(struct xdp_md *ctx) {
  return switch_packet(ctx, IP6);
}

static inline int switch_frame(struct xdp_md *ctx) {
  const struct ethhdr *eth = frame_start(ctx);
  if ((const void *)(eth + 1) > frame_end(ctx)) return XDP_PASS;
  if (eth->h_proto == bpf_htons(ETH_P_IP)) return switch_ipv4(ctx);
  return eth->h_proto == bpf_htons(ETH_P_IPV6) ? switch_ipv6(ctx) : XDP_PASS;
}

#endif
