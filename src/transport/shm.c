/* Lanes over rings in shared memory. A ring holds records of 64-byte lines: a frame of 48 bytes, then its payload, in
 * the same line if it fits, so that a small frame costs one transfer, and otherwise from the next line on, since
 * copies that straddle lines are slow. The first word of a record is its payload size + 1, written last; 0 means that
 * it is not written yet. A record never wraps: WRAP sends the reader back to the start.
 *
 *    | frame 8 B | frame ............ | frame | 0 ...
 *      ^ reader                               ^ writer, next word already 0 */
#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "descriptor.h"
#include "fail.h"
#include "reduce.h"

enum {
  LINE = 64,
  AHEAD = 1 << 10,
  PAIR = 128,         /* Processors fetch the other line of a pair too. */
  RING_MAX = 2 << 20, /* Bytes. */
  RING_CROWDED = 512 << 10,
  RING_MIN = 256 << 10,
  FEW_RANKS = 4, /* The number of ranks that may have the largest rings. */
  HEADER = sizeof(struct by_frame),
  FRAME_MAX = 16 << 10,
  STREAM_FROM = 2 << 10, /* Smaller stores fit the store buffer. */
  OFFER_SHARED = 4 << 10,
  OFFER_CROWDED = 512 << 10,
  LOOK_EVERY = 4096, /* Idle checks of a ring per check of the socket. */
  PROBE_EVERY = 7,   /* Large frames per measurement of the peer's core. */
  FAR_CYCLES = 250,  /* Cycles of the time stamp counter to fetch one line: 65 between a cache's cores, 400 beyond. */
  SLOW_MAX = 8,
};
#define WRAP UINT32_MAX

struct ring {
  _Alignas(PAIR) _Atomic uint32_t asleep;  /* Set by the reader before it sleeps. */
  _Alignas(PAIR) _Atomic uint64_t freed;   /* Bytes that the reader has finished, ever growing. */
  _Alignas(PAIR) _Atomic uint32_t starved; /* Set by the writer when it found no space. */
  _Atomic uint32_t withdrawn;              /* Set by the writer: the memory that it offered may change. */
  _Alignas(PAIR) char data[];
};

struct mapping {
  LIST_ENTRY(mapping) link;
  uint32_t region;
  char *base;
  size_t bytes;
};

struct shm {
  struct by_lane lane;
  struct by_lane_ops ops; /* An own copy, since offer_from differs. */
  char *segment;          /* Two rings. */
  struct ring *tx, *rx;
  uint64_t ring;           /* Bytes of each ring's data, a power of two. */
  uint64_t written, freed; /* Sending: the position, and the last value of `freed` that was read. */
  uint64_t position;       /* Receiving: the position. */
  struct by_frame frame;
  bool in_frame, stores_well;
  char *payload;
  uint32_t idle, large, slow; /* slow: how often fetching the peer's line took long recently. */
  int socket, peer_wake;
  pid_t peer;
  LIST_HEAD(, mapping) mappings;
};

static struct shm *shm_of(const struct by_lane *lane) {
  return (struct shm *)(uintptr_t)lane;
}

static char *data_at(const struct shm *shm, struct ring *ring, uint64_t position) {
  return ring->data + (position & (shm->ring - 1));
}

static _Atomic uint32_t *word_at(const struct shm *shm, struct ring *ring, uint64_t position) {
  return (_Atomic uint32_t *)(void *)data_at(shm, ring, position);
}

/* Bytes from `position` to the ring's end. */
static uint64_t to_end(const struct shm *shm, uint64_t position) {
  return shm->ring - (position & (shm->ring - 1));
}

static size_t segment_bytes(uint64_t ring) {
  return 2 * (sizeof(struct ring) + ring);
}

/* The offset of the payload in a record. */
static uint64_t payload_at(uint32_t size) {
  return size <= LINE - HEADER ? HEADER : LINE;
}

static uint64_t record_bytes(uint32_t size) {
  return (payload_at(size) + size + LINE - 1) & ~(uint64_t)(LINE - 1);
}

static void wake_if_asleep(struct shm *shm) {
  uint64_t one = 1;
  atomic_thread_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&shm->tx->asleep, memory_order_relaxed) || !atomic_exchange(&shm->tx->asleep, 0)) return;
  shm->lane.wakes++;
  if (write(shm->peer_wake, &one, sizeof one) < 0 && errno != EAGAIN)
    by_lane_fail(&shm->lane, BANYAN_ERR_PEER_DEAD, "waking it failed: %s", strerror(errno));
}

/* ---- how far the peer is */

static uint64_t read_cycles(void) {
#if defined(__x86_64__)
  _mm_lfence();
  uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
#else
  return 0;
#endif
}

/* Measures the time of fetching a line that the peer has written. One slow line proves nothing, and a host may move
 * the cores of a virtual machine at any time, so this is repeated. */
static void measure_distance(struct shm *shm) {
  uint64_t start = read_cycles();
  uint64_t freed = atomic_load_explicit(&shm->tx->freed, memory_order_acquire);
  bool slow = read_cycles() - start > FAR_CYCLES;
  if (freed == shm->freed) return; /* The line was not written, so it was in this cache. */
  shm->freed = freed;
  if (slow && shm->slow < SLOW_MAX) shm->slow++;
  if (!slow && shm->slow) shm->slow--;
  if (shm->slow == 0) shm->lane.far = false;
  if (shm->slow == SLOW_MAX) shm->lane.far = true;
}

/* Whether ordinary stores are fast over lines that a core with another cache has read. On AMD (Zen 4) they take 70
 * cycles per line, and 5 past the cache; on Intel (Sapphire Rapids) 6 to 12, though fetching a line takes as long. */
static bool stores_well(void) {
#if defined(__x86_64__)
  return !__builtin_cpu_is("amd");
#else
  return true;
#endif
}

/* ---- sending */

static bool has_capacity(struct shm *shm, uint64_t bytes) {
  if (shm->written + bytes - shm->freed <= shm->ring) return true;
  shm->freed = atomic_load_explicit(&shm->tx->freed, memory_order_acquire);
  if (shm->written + bytes - shm->freed <= shm->ring) return true;
  atomic_store(&shm->tx->starved, 1); /* Check again, since the reader may have freed bytes just now. */
  shm->freed = atomic_load(&shm->tx->freed);
  return shm->written + bytes - shm->freed <= shm->ring;
}

static enum by_lane_sent shm_send(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  struct shm *shm = shm_of(lane);
  struct ring *ring = shm->tx;
  uint64_t bytes = record_bytes(frame->size), rest = to_end(shm, shm->written);
  uint64_t skip = rest < bytes + LINE ? rest : 0; /* A line stays free behind every record. */
  if (lane->status != BANYAN_OK || !has_capacity(shm, skip + bytes + LINE)) return BY_LANE_FULL;
  uint64_t at = shm->written + skip;
  char *record = data_at(shm, ring, at);
  /* This comes first, so that the record's own stores go out together before the reader's next check takes the line. */
  atomic_store_explicit(word_at(shm, ring, at + bytes), 0, memory_order_relaxed);
  memcpy(record + 4, (const char *)frame + 4, HEADER - 4);
  bool counts = !shm->stores_well && (frame->type == BY_FRAME_OFFER || frame->size >= STREAM_FROM);
  if (counts && ++shm->large % PROBE_EVERY == 0) measure_distance(shm);
  if (frame->size >= STREAM_FROM && lane->far)
    by_kernel_copy_streaming(record + LINE, payload, frame->size);
  else if (frame->size)
    memcpy(record + payload_at(frame->size), payload, frame->size);
  atomic_store_explicit(word_at(shm, ring, at), frame->size + 1, memory_order_release);
  if (skip) atomic_store_explicit(word_at(shm, ring, shm->written), WRAP, memory_order_release);
  shm->written = at + bytes;
  wake_if_asleep(shm);
  return BY_LANE_SENT;
}

static bool shm_flush(struct by_lane *lane) {
  (void)lane;
  return true;
}

/* ---- receiving */

static void free_up_to(struct shm *shm, uint64_t position) {
  shm->position = position;
  atomic_store_explicit(&shm->rx->freed, position, memory_order_release);
  if (!atomic_load_explicit(&shm->rx->starved, memory_order_relaxed)) return;
  atomic_store(&shm->rx->starved, 0);
  wake_if_asleep(shm);
}

static void look_at_socket(struct shm *shm) {
  char byte;
  shm->idle = 0;
  ssize_t n = recv(shm->socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(word_at(shm, shm->rx, shm->position), memory_order_acquire) == 0)
      by_lane_fail(&shm->lane, BANYAN_ERR_PEER_DEAD, "its process ended");
  }
}

static const struct by_frame *shm_peek(struct by_lane *lane) {
  struct shm *shm = shm_of(lane);
  if (shm->in_frame) return &shm->frame;
  if (lane->status != BANYAN_OK) return NULL;
  uint32_t word = atomic_load_explicit(word_at(shm, shm->rx, shm->position), memory_order_acquire);
  if (word == WRAP) {
    free_up_to(shm, shm->position + to_end(shm, shm->position));
    word = atomic_load_explicit(word_at(shm, shm->rx, shm->position), memory_order_acquire);
  }
  if (word == 0) {
    if (++shm->idle >= LOOK_EVERY) look_at_socket(shm);
    return NULL;
  }
  if (word - 1 > FRAME_MAX || record_bytes(word - 1) > to_end(shm, shm->position)) {
    by_lane_fail(lane, BANYAN_ERR_PROTOCOL, "its shared memory holds a frame of %u bytes", word - 1);
    return NULL;
  }
  char *record = data_at(shm, shm->rx, shm->position);
  /* Fetch the payload's first lines while the frame is checked. */
  for (uint64_t at = LINE; at < AHEAD && at < record_bytes(word - 1); at += LINE) __builtin_prefetch(record + at);
  memcpy(&shm->frame, record, HEADER);
  shm->frame.size = word - 1;
  shm->payload = record + payload_at(shm->frame.size);
  lane->left = shm->frame.size;
  shm->in_frame = true;
  return &shm->frame;
}

static size_t shm_view(struct by_lane *lane, const void **payload) {
  *payload = shm_of(lane)->payload;
  return lane->left;
}

static void shm_take(struct by_lane *lane, size_t bytes) {
  shm_of(lane)->payload += bytes;
  lane->left -= bytes;
}

static size_t shm_read(struct by_lane *lane, void *to, size_t max) {
  struct shm *shm = shm_of(lane);
  if (max > lane->left) max = lane->left;
  memcpy(to, shm->payload, max);
  shm_take(lane, max);
  return max;
}

static void shm_next(struct by_lane *lane) {
  struct shm *shm = shm_of(lane);
  shm->in_frame = false;
  free_up_to(shm, shm->position + record_bytes(shm->frame.size));
}

/* ---- the peer's memory */

static struct mapping *find_mapping(struct shm *shm, uint32_t region) {
  struct mapping *mapping = LIST_FIRST(&shm->mappings);
  while (mapping && mapping->region != region) mapping = LIST_NEXT(mapping, link);
  return mapping;
}

static struct mapping *map_region(struct shm *shm, const struct by_offer *offer) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%u", (int)shm->peer, offer->region_fd);
  int fd = BY_DESCRIPTOR(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return NULL;
  struct stat status; /* Reading behind the end of a file would end the process by SIGBUS. */
  bool whole = fstat(fd, &status) == 0 && (uint64_t)status.st_size >= offer->region_size;
  void *base = whole ? mmap(NULL, offer->region_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) : MAP_FAILED;
  by_close(fd);
  if (base == MAP_FAILED) return NULL;
  struct mapping *mapping = calloc(1, sizeof *mapping);
  if (!mapping) {
    munmap(base, offer->region_size);
    return NULL;
  }
  *mapping = (struct mapping){.region = offer->region, .base = base, .bytes = offer->region_size};
  LIST_INSERT_HEAD(&shm->mappings, mapping, link);
  return mapping;
}

static const char *shm_map(struct by_lane *lane, const struct by_offer *offer, uint64_t length) {
  struct shm *shm = shm_of(lane);
  if (offer->region_offset > offer->region_size || length > offer->region_size - offer->region_offset) return NULL;
  struct mapping *mapping = find_mapping(shm, offer->region);
  if (!mapping) mapping = map_region(shm, offer);
  return mapping && mapping->bytes == offer->region_size ? mapping->base + offer->region_offset : NULL;
}

static void free_mapping(struct mapping *mapping) {
  LIST_REMOVE(mapping, link);
  munmap(mapping->base, mapping->bytes);
  free(mapping);
}

static void shm_unmap(struct by_lane *lane, uint32_t region) {
  struct mapping *mapping = find_mapping(shm_of(lane), region);
  if (mapping) free_mapping(mapping);
}

/* The caller writes to what was offered next: the fence keeps those stores behind this one. */
static void shm_withdraw(struct by_lane *lane) {
  atomic_store(&shm_of(lane)->tx->withdrawn, 1);
  atomic_thread_fence(memory_order_seq_cst);
}

/* Whether the peer has withdrawn its offers. Its stores to offered memory come after its store to `withdrawn`: if
 * that is not visible yet, none of them was when the memory was read. */
static bool shm_withdrawn(const struct by_lane *lane) {
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&shm_of(lane)->rx->withdrawn, memory_order_relaxed);
}

/* ---- the rest */

/* Notes that the owner sleeps. With the fence, as in wake_if_asleep, either the owner's next check of the ring finds
 * what the peer wrote, or the peer finds that it sleeps. A peer that found no space may have set `starved` just after
 * free_up_to() checked it. */
static void shm_sleeping(struct by_lane *lane, bool asleep) {
  struct shm *shm = shm_of(lane);
  atomic_store(&shm->rx->asleep, asleep);
  if (!asleep) return;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_exchange(&shm->rx->starved, 0)) wake_if_asleep(shm);
  look_at_socket(shm);
}

static void shm_destroy(struct by_lane *lane) {
  struct shm *shm = shm_of(lane);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE, which the analyzer does not follow */
  while (!LIST_EMPTY(&shm->mappings)) free_mapping(LIST_FIRST(&shm->mappings));
  munmap(shm->segment, segment_bytes(shm->ring));
  by_close(shm->socket);
  by_close(shm->peer_wake);
  free(shm);
}

static const struct by_lane_ops shm_ops = {
    .name = "shm",
    .frame_bytes = FRAME_MAX,
    .reads_memory = true,
    .offer_from = OFFER_SHARED,
    .send = shm_send,
    .flush = shm_flush,
    .peek = shm_peek,
    .view = shm_view,
    .take = shm_take,
    .read = shm_read,
    .next = shm_next,
    .map = shm_map,
    .unmap = shm_unmap,
    .withdraw = shm_withdraw,
    .withdrawn = shm_withdrawn,
    .sleeping = shm_sleeping,
    .destroy = shm_destroy,
};

/* Creates a segment. If ranks take turns on a core, small rings stay in its cache; otherwise large ones leave the
 * peer's. */
int by_shm_segment(uint32_t ranks, uint32_t cores) {
  uint64_t ring = ranks > cores ? RING_CROWDED : RING_MAX;
  while (ring > RING_MIN && ring * ranks > (uint64_t)RING_MAX * FEW_RANKS) ring /= 2;
  int fd = BY_DESCRIPTOR(memfd_create("banyan-link", MFD_CLOEXEC));
  if (fd >= 0 && ftruncate(fd, (off_t)segment_bytes(ring)) == 0) return fd;
  (void)!by_fail_errno(BANYAN_ERR_SYSTEM, errno, "making %zu bytes of shared memory", segment_bytes(ring));
  if (fd >= 0) by_close(fd);
  return -1;
}

static enum banyan_status create_lane(const struct by_shm_ends *ends, struct by_lane **out) {
  off_t bytes = lseek(ends->segment, 0, SEEK_END); /* A shorter file would end the process by SIGBUS. */
  uint64_t ring = RING_MIN;
  while (ring <= RING_MAX && bytes != (off_t)segment_bytes(ring)) ring *= 2;
  if (ring > RING_MAX)
    return by_fail(BANYAN_ERR_PROTOCOL, "the peer's shared memory has %lld bytes, which no link has", (long long)bytes);
  char *segment = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ends->segment, 0);
  if (segment == MAP_FAILED) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "mapping shared memory");
  struct shm *shm = aligned_alloc(LINE, (sizeof *shm + LINE - 1) & ~(size_t)(LINE - 1));
  if (!shm) {
    munmap(segment, (size_t)bytes);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a link");
  }
  struct ring *rings[2] = {(void *)segment, (void *)(segment + bytes / 2)};
  *shm = (struct shm){.lane = {.poll_fd = ends->socket},
                      .ops = shm_ops,
                      .segment = segment,
                      .ring = ring,
                      .tx = rings[!ends->first],
                      .rx = rings[ends->first],
                      .socket = ends->socket,
                      .peer_wake = ends->peer_wake,
                      .peer = ends->peer,
                      .stores_well = stores_well()};
  shm->lane.ops = &shm->ops;
  if (ends->crowded) shm->ops.offer_from = OFFER_CROWDED;
  *out = &shm->lane;
  return BANYAN_OK;
}

enum banyan_status by_shm_create(const struct by_shm_ends *ends, struct by_lane **out) {
  enum banyan_status status = create_lane(ends, out);
  by_close(ends->segment);
  if (status != BANYAN_OK) {
    by_close(ends->socket);
    by_close(ends->peer_wake);
  }
  return status;
}
