#include "server_parts.h"

#include <stdlib.h>
#include <string.h>

#include "reduce.h"

bool by_parts_init(struct by_parts *p, uint32_t count, size_t stride) {
  *p = (struct by_parts){.stride = stride, .free = BY_NO_PART};
  p->parts = malloc(count * sizeof *p->parts);
  p->payloads = malloc(count * stride);
  if (!p->parts || !p->payloads) return false;
  for (uint32_t i = count; i-- > 0; p->free = i) p->parts[i].next = p->free;
  return true;
}

void by_parts_fini(struct by_parts *p) {
  free(p->parts);
  free(p->payloads);
}

const void *by_parts_payload(const struct by_parts *p, uint32_t part) {
  return p->payloads + part * p->stride;
}

static void release(struct by_parts *p, uint32_t *link) {
  uint32_t part = *link;
  *link = p->parts[part].next;
  p->parts[part].next = p->free;
  p->free = part;
}

void by_parts_clear(struct by_parts *p, uint32_t *first) {
  while (*first != BY_NO_PART) release(p, first);
}

enum by_parts_added by_parts_add(struct by_parts *p, uint32_t *first, const struct by_fragment *packet) {
  uint64_t there = 0; /* of the packet's workers */
  bool whole = true;  /* each part is wholly in or out of them */
  for (uint32_t i = *first; i != BY_NO_PART; i = p->parts[i].next) {
    uint64_t common = p->parts[i].workers & packet->workers;
    there |= common;
    if (common && common != p->parts[i].workers) whole = false;
  }
  if (there == packet->workers) return BY_PARTS_DUPLICATE;
  if (!whole) return BY_PARTS_OVERLAPPING;
  uint32_t *link = first;
  while (*link != BY_NO_PART) {
    if (p->parts[*link].workers & packet->workers)
      release(p, link);
    else
      link = &p->parts[*link].next;
  }
  uint32_t part = p->free;
  if (part == BY_NO_PART) return BY_PARTS_FULL;
  p->free = p->parts[part].next;
  for (link = first; *link != BY_NO_PART; link = &p->parts[*link].next)
    if (__builtin_ctzll(p->parts[*link].workers) > __builtin_ctzll(packet->workers)) break;
  p->parts[part] = (struct by_part){.workers = packet->workers, .check = packet->check, .next = *link};
  *link = part;
  memcpy(p->payloads + part * p->stride, packet + 1, (size_t)packet->lines * BY_FRAGMENT_LINE);
  return BY_PARTS_NEW;
}

void by_parts_fold(struct by_parts *p, uint32_t *first, uint64_t workers, enum banyan_dtype dtype, size_t count) {
  const void *sources[BY_FRAGMENT_WORKERS];
  uint32_t sum = BY_NO_PART;
  size_t n = 0;
  for (uint32_t *link = first; *link != BY_NO_PART;) {
    struct by_part *part = &p->parts[*link];
    if (part->workers & ~workers) {
      link = &part->next;
      continue;
    }
    sources[n++] = by_parts_payload(p, *link);
    if (sum == BY_NO_PART) {
      sum = *link;
      link = &part->next;
    } else {
      p->parts[sum].workers |= part->workers;
      release(p, link); /* nothing takes its place before it is read */
    }
  }
  if (n > 1) by_kernel_reduce(dtype, BANYAN_SUM)(p->payloads + sum * p->stride, sources, n, count);
}
