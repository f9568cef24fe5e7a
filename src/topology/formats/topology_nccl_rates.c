#include "topology_nccl_rates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static const double GIGABYTE = 8e9, GIGABIT = 1e9;
const double by_nccl_rate_inside = 5000 * 8e9;

enum { DEFAULT_LANES = 16, MOST_LANES = 32 };

enum banyan_status by_nccl_number(const struct by_xml *xml, const xmlNode *element, const char *name, long otherwise,
                                  long *out) {
  const char *text = by_xml_attribute(element, name);
  char *end;
  *out = otherwise;
  if (!text || !*text) return BANYAN_OK;
  errno = 0;
  *out = strtol(text, &end, 0);
  if (errno == 0 && end != text && !*end) return BANYAN_OK;
  return by_xml_fail(xml, element, "%s is \"%.40s\", must be a whole number", name, text);
}

/* 8 of 10 bits up to 5 GT/s, nearly all above; a quarter goes to headers and flow control. */
static double lane_rate(const char *speed) {
  char number[16];
  double transfers = 8;
  snprintf(number, sizeof number, "%.*s", (int)strcspn(speed, " "), speed);
  if (!strstr(speed, "GT/s") || by_parse_number(number, &transfers) != BANYAN_OK || transfers < 1) transfers = 8;
  return transfers * (transfers <= 5 ? 0.6 : 0.75) * GIGABIT;
}

enum banyan_status by_nccl_pci_rate(const struct by_xml *xml, const xmlNode *pci, double *out) {
  long lanes;
  BY_TRY(by_nccl_number(xml, pci, "link_width", 0, &lanes));
  if (lanes < 0) return by_xml_fail(xml, pci, "link_width is %ld, must be 0 or more", lanes);
  if (lanes == 0 || lanes > MOST_LANES) lanes = DEFAULT_LANES; /* what virtual machines show */
  const char *speed = by_xml_attribute(pci, "link_speed");
  *out = (double)lanes * lane_rate(speed ? speed : "");
  return BANYAN_OK;
}

static long plain_number(const xmlNode *element, const char *name) {
  const char *text = by_xml_attribute(element, name);
  return text ? strtol(text, NULL, 0) : 0;
}

struct rate_from {
  long least;
  double gigabytes;
};

/* The last row whose `least` is reached. */
static double pick(const struct rate_from *rows, size_t n, long value) {
  double rate = rows[0].gigabytes;
  for (size_t i = 1; i < n; i++)
    if (value >= rows[i].least) rate = rows[i].gigabytes;
  return rate * GIGABYTE;
}

double by_nccl_nvlink_rate(const xmlNode *gpu) {
  static const struct rate_from rows[] = {{0, 20}, {60, 18}, {70, 20}, {86, 12}, {87, 20}, {90, 20.6}, {100, 40.1}};
  return pick(rows, sizeof rows / sizeof *rows, plain_number(gpu, "sm"));
}

double by_nccl_xgmi_rate(const xmlNode *gpu) {
  const char *model = by_xml_attribute(gpu, "gcn");
  if (model && (strstr(model, "94") || strstr(model, "95"))) return 48 * GIGABYTE;
  return (model && (strstr(model, "90a") || strstr(model, "910")) ? 36 : 24) * GIGABYTE;
}

static double intel_rate(long family, long model) {
  static const struct rate_from rows[] = {{0, 6}, {0x55, 10}, {0x8f, 22}, {0xad, 40}, {0xb0, 22}, {0xcf, 40}};
  return family == 6 ? pick(rows, sizeof rows / sizeof *rows, model) : 6 * GIGABYTE;
}

static double amd_rate(long family) {
  static const struct rate_from rows[] = {{0, 16}, {25, 24}, {26, 32}, {0x8f, 16}, {0xaf, 24}, {0xbf, 32}};
  return pick(rows, sizeof rows / sizeof *rows, family);
}

double by_nccl_cpu_rate(const xmlNode *cpu) {
  const char *arch = by_xml_attribute(cpu, "arch"), *vendor = by_xml_attribute(cpu, "vendor");
  long family = plain_number(cpu, "familyid"), model = plain_number(cpu, "modelid");
  if (!arch) return by_nccl_rate_inside;
  if (strcmp(arch, "ppc64") == 0) return 32 * GIGABYTE;
  if (strcmp(arch, "arm64") == 0) return 6 * GIGABYTE;
  if (!vendor || strcmp(arch, "x86_64") != 0) return by_nccl_rate_inside;
  if (strcmp(vendor, "GenuineIntel") == 0) return intel_rate(family, model);
  if (strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "AMD") == 0) return amd_rate(family);
  return (family == 7 && model == 0x5b ? 9 : 6) * GIGABYTE; /* Zhaoxin */
}
