/* Chooses the rank from which a receiver gets each chunk of a state. */
#include "state_sources.h"

#include <string.h>

/* Chooses holders from rank `from` on, first those on hosts of which no holder was chosen, then any. */
static void choose_holders(struct by_state_sources *s, uint32_t from, uint32_t n, const bool *holds,
                           const uint32_t *host_of, bool *taken) {
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < n && s->n_holders < BY_STATE_MOST_HOLDERS; i++) {
      uint32_t r = (from + i) % n;
      bool usable = holds[r] && (!s->local || host_of[r] == host_of[s->rank]);
      bool first = !taken[host_of[r]];
      bool known = false;
      for (uint32_t k = 0; k < s->n_holders; k++) known = known || s->holders[k] == r;
      if (!usable || known || (pass == 0 && !first)) continue;
      taken[host_of[r]] = true;
      s->holders[s->n_holders++] = r;
    }
}

/* Returns the holder from which a host begins to choose, so that hosts ask different holders if there are enough. */
static uint32_t first_holder(uint32_t host, uint32_t n, const bool *holds) {
  uint32_t count = 0, r = 0;
  for (uint32_t i = 0; i < n; i++) count += holds[i];
  uint32_t each = count > BY_STATE_MOST_HOLDERS ? BY_STATE_MOST_HOLDERS : 1;
  uint32_t left = count ? host * each % count : 0;
  while (r + 1 < n && (left || !holds[r])) left -= holds[r++];
  return r;
}

enum banyan_status by_state_sources_init(struct by_state_sources *s, struct by_arena *arena, uint32_t rank, uint32_t n,
                                         const bool *holds, const bool *receives, const uint32_t *host_of,
                                         uint32_t n_hosts) {
  *s = (struct by_state_sources){.rank = rank};
  uint32_t *number = BY_ARENA_ARRAY(arena, uint32_t, n_hosts), *count = BY_ARENA_ARRAY(arena, uint32_t, n_hosts + 1);
  bool *has_holder = BY_ARENA_ARRAY(arena, bool, n_hosts), *taken = BY_ARENA_ARRAY(arena, bool, n_hosts);
  s->receivers = BY_ARENA_ARRAY(arena, uint32_t, n);
  s->first = BY_ARENA_ARRAY(arena, uint32_t, n_hosts + 1);
  if (arena->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the sources of a state");
  for (uint32_t r = 0; r < n; r++)
    if (holds[r]) has_holder[host_of[r]] = true;
  for (uint32_t h = 0; h < n_hosts; h++) number[h] = UINT32_MAX;
  for (uint32_t r = 0; r < n; r++) {
    uint32_t h = host_of[r];
    if (!receives[r] || has_holder[h]) continue;
    if (number[h] == UINT32_MAX) number[h] = s->n_hosts++;
    count[number[h]]++;
  }
  for (uint32_t h = 0; h < s->n_hosts; h++) s->first[h + 1] = s->first[h] + count[h];
  memset(count, 0, n_hosts * sizeof *count);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t h = number[host_of[r]];
    if (receives[r] && !has_holder[host_of[r]]) s->receivers[s->first[h] + count[h]++] = r;
  }
  s->local = has_holder[host_of[rank]];
  s->host = s->local ? 0 : number[host_of[rank]];
  choose_holders(s, s->local ? rank : first_holder(s->host, n, holds), n, holds, host_of, taken);
  return BANYAN_OK;
}

/* Returns the receiver of a host that gets this chunk from another host. */
static uint32_t receiver_on(const struct by_state_sources *s, uint32_t host, uint32_t chunk) {
  uint32_t n = s->first[host + 1] - s->first[host];
  return s->receivers[s->first[host] + chunk / s->n_hosts % n];
}

uint32_t by_state_source_of(const struct by_state_sources *s, uint32_t chunk) {
  if (s->local) return BY_STATE_FROM_HOLDERS;
  uint32_t here = receiver_on(s, s->host, chunk), owner = chunk % s->n_hosts;
  if (here != s->rank) return here;
  return owner == s->host ? BY_STATE_FROM_HOLDERS : receiver_on(s, owner, chunk);
}
