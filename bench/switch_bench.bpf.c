/* Generates the terms of workers in the kernel: each run turns the packet into the next worker's term and hands it
 * to the switch. The measured time includes this. by_bench_make only generates terms, with a counter of its own,
 * because cells reject epochs that are far from theirs. */
#include "xdp_switch.h"

enum { SLOTS = 64 };

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2);
  __type(key, uint32_t);
  __type(value, uint32_t);
} turns SEC(".maps");

/* The workers' terms of one fragment follow each other. */
static __attribute__((noinline)) bool make_term(struct xdp_md *ctx, uint32_t which) {
  void *data = frame_start(ctx);
  uint32_t *turn = bpf_map_lookup_elem(&turns, &which);
  if (!turn || data + PAYLOAD_AT(IP4) > frame_end(ctx)) return false;
  struct by_fragment fragment = *(struct by_fragment *)(data + FRAGMENT_AT(IP4));
  uint32_t workers = fragment.stack[0].workers ? fragment.stack[0].workers : 1;
  fragment.flags = 0;
  fragment.hop = 0;
  fragment.rank = (uint8_t)(*turn % workers);
  fragment.workers = 1ull << fragment.rank;
  fragment.slot = (uint16_t)(*turn / workers % SLOTS);
  fragment.epoch = *turn / workers / SLOTS;
  const struct by_xdp_grant *granted = grant_of(fragment.job);
  const struct by_hop_key *key = granted ? hop_key_of(&granted->grant) : NULL;
  fragment.mac = key ? by_xdp_mac(ctx, key, &fragment, PAYLOAD_AT(IP4)) : by_fragment_seal_of(&fragment);
  *(struct by_fragment *)(data + FRAGMENT_AT(IP4)) = fragment;
  *turn += 1;
  return true;
}

SEC("xdp") int by_bench_make(struct xdp_md *ctx) {
  return make_term(ctx, 0) ? XDP_DROP : XDP_ABORTED;
}

SEC("xdp") int by_bench_switch(struct xdp_md *ctx) {
  return make_term(ctx, 1) ? switch_frame(ctx) : XDP_ABORTED;
}

const char by_bench_license[] SEC("license") = "Apache-2.0";
