#include "plan.h"

#include <stdlib.h>
#include <string.h>

void by_plan_destroy(struct by_plan *plan) {
  if (!plan) return;
  by_arena_fini(&plan->arena);
  free(plan);
}

const char *by_vertex_kind_name(enum by_vertex_kind kind) {
  static const char *const names[] = {"rank", "helper", "switch", "server"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *by_group_kind_name(enum by_group_kind kind) {
  static const char *const names[] = {"tree", "rotated", "exchange"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* FNV-1a over 64-bit words with the high bits folded back, so that every bit of a word matters. Words are values, not
 * bytes in memory: the same on every machine. */
static void mix(uint64_t *hash, uint64_t word) {
  *hash = (*hash ^ word) * 0x100000001b3ull;
  *hash ^= *hash >> 29;
}

static void mix_string(uint64_t *hash, const char *text) {
  size_t length = strlen(text);
  mix(hash, length);
  for (size_t i = 0; i < length; i++) mix(hash, (unsigned char)text[i]);
}

static void mix_array(uint64_t *hash, const uint32_t *items, uint32_t n) {
  mix(hash, items ? n : UINT32_MAX);
  for (uint32_t i = 0; items && i < n; i++) mix(hash, items[i]);
}

/* Most trees have none. */
static void mix_ports(uint64_t *hash, const struct by_group *group) {
  if (group->n_forwards) mix_array(hash, group->forwards, group->n_forwards);
  if (group->n_ports) mix(hash, group->n_ports);
  for (uint32_t i = 0; i < group->n_ports; i++) {
    mix(hash, (uint64_t)group->ports[i].at << 32 | group->ports[i].towards);
    mix_string(hash, group->ports[i].interface);
  }
}

static void mix_group(uint64_t *hash, const struct by_group *group) {
  mix(hash, group->kind);
  uint64_t bits;
  memcpy(&bits, &group->share, sizeof bits);
  mix(hash, bits);
  mix_array(hash, group->order, group->n);
  mix(hash, group->root);
  mix_array(hash, group->up, group->n);
  mix_array(hash, group->down, group->n);
  mix(hash, group->n_radix);
  for (uint32_t i = 0; i < group->n_radix; i++) mix(hash, group->radix[i]);
  mix(hash, group->n_twigs);
  for (uint32_t i = 0; i < group->n_twigs; i++)
    mix(hash, (uint64_t)group->twigs[i].child << 32 | group->twigs[i].parent);
  mix_ports(hash, group);
}

static void mix_class(uint64_t *hash, const struct by_class *class_) {
  mix(hash, class_->up_to);
  mix(hash, class_->n_groups);
  for (uint32_t i = 0; i < class_->n_groups; i++) mix_group(hash, &class_->groups[i]);
}

uint32_t by_plan_hash(const struct by_plan *plan) {
  uint64_t hash = 0xcbf29ce484222325ull;
  mix(&hash, plan->n_ranks);
  mix(&hash, plan->chunk);
  mix(&hash, plan->n_vertices);
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    mix_string(&hash, plan->vertices[i].name);
    mix(&hash, plan->vertices[i].kind);
    mix(&hash, plan->vertices[i].rank);
  }
  mix(&hash, plan->n_classes);
  for (uint32_t i = 0; i < plan->n_classes; i++) mix_class(&hash, &plan->classes[i]);
  uint32_t folded = (uint32_t)(hash ^ hash >> 32);
  return folded ? folded : 1;
}

const struct by_class *by_plan_class(const struct by_plan *plan, uint64_t bytes) {
  uint32_t i = 0;
  while (i + 1 < plan->n_classes && bytes > plan->classes[i].up_to) i++;
  return &plan->classes[i];
}

/* All digits are 2, as none is smaller. */
static bool is_binary(const struct by_group *group) {
  return group->n == (uint32_t)1 << group->n_radix;
}

uint32_t by_group_translate(const struct by_group *group, uint32_t u, uint32_t t) {
  if (is_binary(group)) return u ^ t;
  if (group->n_radix == 1) return u < group->n - t ? u + t : u - (group->n - t);
  uint32_t position = 0, weight = 1;
  for (uint32_t i = 0; i < group->n_radix; i++) {
    uint32_t radix = group->radix[i], digit = u % radix + t % radix;
    position += (digit < radix ? digit : digit - radix) * weight;
    weight *= radix;
    u /= radix;
    t /= radix;
  }
  return position;
}

uint32_t by_group_untranslate(const struct by_group *group, uint32_t position, uint32_t t) {
  if (is_binary(group)) return position ^ t;
  if (group->n_radix == 1) return position >= t ? position - t : position + (group->n - t);
  uint32_t u = 0, weight = 1;
  for (uint32_t i = 0; i < group->n_radix; i++) {
    uint32_t radix = group->radix[i], digit = position % radix + radix - t % radix;
    u += (digit < radix ? digit : digit - radix) * weight;
    weight *= radix;
    position /= radix;
    t /= radix;
  }
  return u;
}
