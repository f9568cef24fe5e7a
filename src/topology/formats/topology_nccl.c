/* Reads NCCL's XML. Rates are bit/s of payload, as NCCL calculates them: less than the signalling rate.
 *
 * The elements are traversed four times: to count; to find the GPUs, which come first in the order of their ranks; for
 * everything to which they are attached; and for the links between GPUs, which name their ends by bus ids. The number
 * of an element's node + 1 is stored in the element. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_reader.h"

static const double GIGABYTE = 8e9, GIGABIT = 1e9;
static const double INSIDE = 5000 * 8e9; /* the rate inside a chip: more than anything around it */

enum { DEFAULT_LANES = 16, MAX_LANES = 32 };

/* Reads an integer attribute, decimal or hexadecimal; `otherwise`: the value if it is missing. */
static enum banyan_status take_number(const struct by_xml *xml, const xmlNode *element, const char *name,
                                      long otherwise, long *out) {
  const char *text = by_xml_attribute(element, name);
  char *end;
  *out = otherwise;
  if (!text || !*text) return BANYAN_OK;
  errno = 0;
  *out = strtol(text, &end, 0);
  if (errno == 0 && end != text && !*end) return BANYAN_OK;
  return by_xml_fail(xml, element, "%s is \"%.40s\", must be a whole number", name, text);
}

/* Returns the rate of a PCI lane: 8 of 10 bits are data up to 5 GT/s, nearly all above; a quarter is headers and flow
 * control. */
static double get_lane_rate(const char *speed) {
  char number[16];
  double transfers = 8;
  snprintf(number, sizeof number, "%.*s", (int)strcspn(speed, " "), speed);
  if (!strstr(speed, "GT/s") || by_parse_number(number, &transfers) != BANYAN_OK || transfers < 1) transfers = 8;
  return transfers * (transfers <= 5 ? 0.6 : 0.75) * GIGABIT;
}

/* Reads <pci link_speed="16.0 GT/s PCIe" link_width="16">; the default is sixteen lanes of 8 GT/s. */
static enum banyan_status read_pci_rate(const struct by_xml *xml, const xmlNode *pci, double *out) {
  long lanes;
  BY_TRY(take_number(xml, pci, "link_width", 0, &lanes));
  if (lanes < 0) return by_xml_fail(xml, pci, "link_width is %ld, must be 0 or more", lanes);
  if (lanes == 0 || lanes > MAX_LANES) lanes = DEFAULT_LANES; /* Virtual machines show such values. */
  const char *speed = by_xml_attribute(pci, "link_speed");
  *out = (double)lanes * get_lane_rate(speed ? speed : "");
  return BANYAN_OK;
}

static long get_number(const xmlNode *element, const char *name) {
  const char *text = by_xml_attribute(element, name);
  return text ? strtol(text, NULL, 0) : 0;
}

struct rate_from {
  long min;
  double gigabytes;
};

/* Returns the rate of the last row whose `min` the value reaches. */
static double pick_rate(const struct rate_from *rows, size_t n, long value) {
  double rate = rows[0].gigabytes;
  for (size_t i = 1; i < n; i++)
    if (value >= rows[i].min) rate = rows[i].gigabytes;
  return rate * GIGABYTE;
}

/* Returns the rate of one link between AMD's GPUs. */
static double get_xgmi_rate(const xmlNode *gpu) {
  const char *model = by_xml_attribute(gpu, "gcn");
  if (model && (strstr(model, "94") || strstr(model, "95"))) return 48 * GIGABYTE;
  return (model && (strstr(model, "90a") || strstr(model, "910")) ? 36 : 24) * GIGABYTE;
}

/* Returns the rate between the sockets or NUMA nodes of a server. */
static double get_cpu_rate(const xmlNode *cpu) {
  static const struct rate_from intel[] = {{0, 6}, {0x55, 10}, {0x8f, 22}, {0xad, 40}, {0xb0, 22}, {0xcf, 40}};
  static const struct rate_from amd[] = {{0, 16}, {25, 24}, {26, 32}, {0x8f, 16}, {0xaf, 24}, {0xbf, 32}};
  const char *arch = by_xml_attribute(cpu, "arch"), *vendor = by_xml_attribute(cpu, "vendor");
  long family = get_number(cpu, "familyid"), model = get_number(cpu, "modelid");
  if (!arch) return INSIDE;
  if (strcmp(arch, "ppc64") == 0) return 32 * GIGABYTE;
  if (strcmp(arch, "arm64") == 0) return 6 * GIGABYTE;
  if (!vendor || strcmp(arch, "x86_64") != 0) return INSIDE;
  if (strcmp(vendor, "GenuineIntel") == 0)
    return family == 6 ? pick_rate(intel, sizeof intel / sizeof *intel, model) : 6 * GIGABYTE;
  if (strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "AMD") == 0)
    return pick_rate(amd, sizeof amd / sizeof *amd, family);
  return (family == 7 && model == 0x5b ? 9 : 6) * GIGABYTE; /* This is Zhaoxin. */
}

enum { MAX_NAME = 200, MAX_HOSTS = 1024, MAX_CPUS = 8192 };

static const double DEFAULT_NET_MEGABITS = 10000;

/* A <pci> element. */
struct device {
  const xmlNode *element;
  uint32_t host;
  const char *bus;
  bool is_gpu;
};

struct gpu {
  const xmlNode *element, *pci; /* element NULL: only its class identifies it as a GPU */
  uint32_t host, cpu, at;       /* at: its index in the file */
  long rank;                    /* -1: none */
};

/* A device to which NVLinks of GPUs lead. */
struct target {
  const struct gpu *gpu; /* the first of these GPUs */
  const char *bus;
  bool shared; /* there are more of them */
};

struct lane {
  uint32_t from, to;
  double rate;
};

struct cpu {
  const xmlNode *element;
  uint32_t host, node;
};

struct nccl {
  struct by_xml xml;
  struct by_arena arena;
  struct by_topology_builder builder;
  const char *hosts[MAX_HOSTS]; /* the hash of each host */
  uint32_t n_hosts;
  struct cpu *cpus;
  struct gpu *gpus;
  struct device *devices; /* sorted by host and bus after the traversal */
  struct lane *lanes;
  struct target *targets; /* sorted by host and bus */
  uint32_t n_cpus, n_gpus, n_devices, n_lanes, n_targets, n_unknown;
  bool some_gpus, some_ranks; /* there are <gpu> elements; there are ranks */
  uint32_t nvswitch, network; /* UINT32_MAX: none */
};

/* --- Classification of elements. --- */

static bool has_class(const xmlNode *pci, const char *beginning) {
  const char *class = by_xml_attribute(pci, "class");
  return class && strncasecmp(class, beginning, strlen(beginning)) == 0;
}

/* Whether a device is a GPU by its class only, as in files written by hand. */
static bool is_bare_gpu(const struct nccl *nccl, const xmlNode *pci) {
  return !nccl->some_gpus && (has_class(pci, "0x03") || has_class(pci, "0x12")) && !by_xml_find(pci->children, "pci");
}

static void set_node(const xmlNode *element, uint32_t node) {
  ((xmlNode *)element)->_private = (void *)((uintptr_t)node + 1);
}

/* Returns the node of an element; UINT32_MAX: it has none. */
static uint32_t get_node(const xmlNode *element) {
  return (uint32_t)(uintptr_t)element->_private - 1;
}

/* --- Names. --- */

/* Adds a node named like "gpu0", or "h1/gpu0" if there are several servers. `bus` distinguishes equal names. */
static enum banyan_status add_named(struct nccl *nccl, const xmlNode *element, uint32_t host, enum by_node_kind kind,
                                    const char *name, const char *bus, uint32_t *out) {
  char full[2 * MAX_NAME + 40], shown[BY_TOPOLOGY_MAX_NAME + 1];
  int used = nccl->n_hosts > 1 ? snprintf(full, sizeof full, "h%u/", host) : 0;
  snprintf(full + used, sizeof full - (size_t)used, "%.*s", MAX_NAME, name);
  by_keep_printable(full, shown, sizeof shown);
  if (bus && by_topology_builder_find(&nccl->builder, shown) != UINT32_MAX) {
    snprintf(full + strlen(full), sizeof full - strlen(full), " (%.32s)", bus);
    by_keep_printable(full, shown, sizeof shown);
  }
  enum banyan_status status = by_topology_builder_add(&nccl->builder, kind, shown, out);
  if (status != BANYAN_OK) return by_xml_fail_within(&nccl->xml, element, status);
  set_node(element, *out);
  return BANYAN_OK;
}

static enum banyan_status add_link(struct nccl *nccl, const xmlNode *element, uint32_t a, uint32_t b, double rate,
                                   double delay) {
  enum banyan_status status = by_topology_builder_add_link(&nccl->builder, a, b, rate, delay, NULL);
  return status == BANYAN_OK ? status : by_xml_fail_within(&nccl->xml, element, status);
}

/* --- GPUs, and devices by their bus. --- */

static enum banyan_status keep_gpu(struct nccl *nccl, const xmlNode *pci, const xmlNode *element, uint32_t host,
                                   uint32_t cpu) {
  struct gpu *gpu = &nccl->gpus[nccl->n_gpus++];
  *gpu = (struct gpu){.element = element, .pci = pci, .host = host, .cpu = cpu, .at = nccl->n_gpus - 1, .rank = -1};
  if (element) BY_TRY(take_number(&nccl->xml, element, "rank", -1, &gpu->rank));
  nccl->some_ranks = nccl->some_ranks || gpu->rank >= 0;
  return BANYAN_OK;
}

static enum banyan_status find_devices(struct nccl *nccl, const xmlNode *parent, uint32_t host, uint32_t cpu) {
  for (const xmlNode *pci = by_xml_find(parent->children, "pci"); pci; pci = by_xml_find(pci->next, "pci")) {
    const xmlNode *gpu = by_xml_find(pci->children, "gpu");
    struct device *device = &nccl->devices[nccl->n_devices++];
    *device = (struct device){.element = pci, .host = host, .is_gpu = is_bare_gpu(nccl, pci) || gpu};
    BY_TRY(by_xml_need(&nccl->xml, pci, "busid", &device->bus));
    if (is_bare_gpu(nccl, pci)) BY_TRY(keep_gpu(nccl, pci, NULL, host, cpu));
    for (; gpu; gpu = by_xml_find(gpu->next, "gpu")) BY_TRY(keep_gpu(nccl, pci, gpu, host, cpu));
    BY_TRY(find_devices(nccl, pci, host, cpu));
  }
  return BANYAN_OK;
}

static enum banyan_status find_host(struct nccl *nccl, const xmlNode *cpu, uint32_t *out) {
  const char *hash = by_xml_attribute(cpu, "host_hash");
  if (!hash) hash = "";
  for (*out = 0; *out < nccl->n_hosts; ++*out)
    if (strcmp(nccl->hosts[*out], hash) == 0) return BANYAN_OK;
  if (nccl->n_hosts == MAX_HOSTS) return by_xml_fail(&nccl->xml, cpu, "more than %d hosts", MAX_HOSTS);
  nccl->hosts[nccl->n_hosts++] = hash;
  return BANYAN_OK;
}

static enum banyan_status find_all(struct nccl *nccl) {
  for (const xmlNode *cpu = by_xml_find(nccl->xml.root->children, "cpu"); cpu; cpu = by_xml_find(cpu->next, "cpu")) {
    uint32_t host;
    BY_TRY(find_host(nccl, cpu, &host));
    if (nccl->n_cpus == MAX_CPUS) return by_xml_fail(&nccl->xml, cpu, "more than %d", MAX_CPUS);
    nccl->cpus[nccl->n_cpus] = (struct cpu){.element = cpu, .host = host};
    BY_TRY(find_devices(nccl, cpu, host, nccl->n_cpus++));
  }
  return nccl->n_cpus ? BANYAN_OK : by_xml_fail(&nccl->xml, nccl->xml.root, "holds no <cpu>");
}

/* Skips leading zeros of a bus id: NVML writes its domain with eight digits, Linux with four. */
static const char *skip_zeros(const char *bus) {
  size_t zeros = strspn(bus, "0");
  return strcspn(bus, ":") > zeros ? bus + zeros : bus + zeros - (zeros > 0);
}

static int compare_devices(const void *a, const void *b) {
  const struct device *first = a, *second = b;
  if (first->host != second->host) return first->host < second->host ? -1 : 1;
  return strcasecmp(skip_zeros(first->bus), skip_zeros(second->bus));
}

static const struct device *find_device(const struct nccl *nccl, uint32_t host, const char *bus) {
  struct device wanted = {.host = host, .bus = bus};
  return bsearch(&wanted, nccl->devices, nccl->n_devices, sizeof *nccl->devices, compare_devices);
}

/* --- GPUs. --- */

/* Orders GPUs by rank, then as in the file, which is the order of the array. */
static int compare_gpus(const void *a, const void *b) {
  const struct gpu *first = a, *second = b;
  unsigned long one = (unsigned long)first->rank,
                other = (unsigned long)second->rank; /* GPUs without a rank come last. */
  if (one != other) return one < other ? -1 : 1;
  return (first->at > second->at) - (first->at < second->at);
}

static enum banyan_status add_gpu(struct nccl *nccl, const struct gpu *gpu, uint32_t i) {
  const xmlNode *element = gpu->element ? gpu->element : gpu->pci;
  const char *bus = by_xml_attribute(gpu->pci, "busid");
  char name[32];
  uint32_t node;
  long number;
  BY_TRY(take_number(&nccl->xml, element, "dev", i, &number));
  snprintf(name, sizeof name, "gpu%ld", number);
  BY_TRY(add_named(nccl, element, gpu->host, BY_NODE_HOST, name, bus, &node));
  if (!gpu->element || by_xml_count(gpu->pci, "gpu") == 1) set_node(gpu->pci, node);
  by_topology_builder_node(&nccl->builder, node)->takes_part = gpu->rank >= 0 || !nccl->some_ranks;
  return BANYAN_OK;
}

static enum banyan_status fail_without_gpus(const struct nccl *nccl) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < nccl->n_devices; i++) n += !by_xml_attribute(nccl->devices[i].element, "class");
  if (n == 0) return by_xml_fail(&nccl->xml, nccl->xml.root, "holds no GPU");
  return by_xml_fail(&nccl->xml, nccl->xml.root,
                     "holds no GPU that can be told: there is no <gpu>, and %u of %u <pci> have no class; write "
                     "class=\"0x030200\" for those that are GPUs",
                     n, nccl->n_devices);
}

static enum banyan_status add_gpus(struct nccl *nccl) {
  if (nccl->n_gpus == 0) return fail_without_gpus(nccl);
  if (nccl->some_ranks) qsort(nccl->gpus, nccl->n_gpus, sizeof *nccl->gpus, compare_gpus);
  for (uint32_t i = 0; i < nccl->n_gpus; i++) {
    const struct gpu *gpu = &nccl->gpus[i];
    if (i && gpu->rank >= 0 && gpu->rank == nccl->gpus[i - 1].rank)
      return by_xml_fail(&nccl->xml, gpu->element, "another GPU has the rank %ld", gpu->rank);
    BY_TRY(add_gpu(nccl, gpu, i));
  }
  return BANYAN_OK;
}

/* --- What GPUs are attached to. --- */

static enum banyan_status add_net(struct nccl *nccl, const xmlNode *net, uint32_t nic, uint32_t host) {
  const char *name = by_xml_attribute(net, "name"), *dev = by_xml_attribute(net, "dev"), *used;
  const char *latency = by_xml_attribute(net, "latency");
  double delay = 0;
  uint32_t node;
  long megabits;
  used = by_xml_attribute(net, "net");
  if (!dev || (used && strcmp(used, "0") == 0)) return BANYAN_OK; /* Part of a virtual port, which NCCL ignores, too. */
  BY_TRY(take_number(&nccl->xml, net, "speed", 0, &megabits));
  if (latency && (by_parse_number(latency, &delay) != BANYAN_OK || delay < 0))
    return by_xml_fail(&nccl->xml, net, "latency is \"%.40s\", must be microseconds", latency);
  double rate = (megabits > 0 ? (double)megabits : DEFAULT_NET_MEGABITS) * 1e6;
  BY_TRY(add_named(nccl, net, host, BY_NODE_SWITCH, name ? name : "net", dev, &node));
  BY_TRY(add_link(nccl, net, nic, node, rate, delay * 1e-6));
  return nccl->network == UINT32_MAX ? BANYAN_OK : add_link(nccl, net, node, nccl->network, rate, 0);
}

static enum banyan_status add_nets(struct nccl *nccl, const xmlNode *nic, uint32_t node, uint32_t host) {
  for (const xmlNode *net = by_xml_find(nic->children, "net"); net; net = by_xml_find(net->next, "net"))
    BY_TRY(add_net(nccl, net, node, host));
  return BANYAN_OK;
}

/* Whether a device is one switch with its parent: Broadcom switches appear as two levels. */
static bool is_same_switch(const xmlNode *pci, const xmlNode *parent) {
  static const char *const names[] = {"vendor", "device"};
  const char *device = by_xml_attribute(pci, "device");
  if (!device || (strcasecmp(device, "0xc010") != 0 && strcasecmp(device, "0xc030") != 0)) return false;
  for (int i = 0; i < 2; i++) {
    const char *own = by_xml_attribute(pci, names[i]), *above = by_xml_attribute(parent, names[i]);
    if (!own || !above || strcasecmp(own, above) != 0 || (i == 0 && strcasecmp(own, "0x1000") != 0)) return false;
  }
  return true;
}

static enum banyan_status add_pci(struct nccl *nccl, const xmlNode *pci, uint32_t parent, uint32_t host) {
  const char *bus = by_xml_attribute(pci, "busid");
  uint32_t node = get_node(pci); /* A GPU already has a node. */
  char name[80];
  double rate = 0;
  BY_TRY(read_pci_rate(&nccl->xml, pci, &rate));
  bool is_nic = by_xml_find(pci->children, "nic") || (has_class(pci, "0x02") && !by_xml_find(pci->children, "pci"));
  snprintf(name, sizeof name, "%s %.64s", is_nic ? "nic" : "pci", bus ? bus : "");
  if (node == UINT32_MAX) BY_TRY(add_named(nccl, pci, host, BY_NODE_SWITCH, name, NULL, &node));
  BY_TRY(add_link(nccl, pci, parent, node, is_same_switch(pci, pci->parent) ? INSIDE : rate, 0));
  for (const xmlNode *child = by_xml_find(pci->children, NULL); child; child = by_xml_find(child->next, NULL)) {
    if (by_xml_is(child, "pci")) BY_TRY(add_pci(nccl, child, node, host));
    if (by_xml_is(child, "nic")) BY_TRY(add_nets(nccl, child, node, host));
    if (by_xml_is(child, "gpu") && get_node(child) != node)
      BY_TRY(add_link(nccl, child, node, get_node(child), INSIDE, 0));
  }
  return BANYAN_OK;
}

static enum banyan_status add_cpu(struct nccl *nccl, struct cpu *cpu) {
  const char *number;
  char name[64];
  uint32_t nics = 0;
  BY_TRY(by_xml_need(&nccl->xml, cpu->element, "numaid", &number));
  snprintf(name, sizeof name, "cpu%.40s", number);
  BY_TRY(add_named(nccl, cpu->element, cpu->host, BY_NODE_SWITCH, name, NULL, &cpu->node));
  for (const xmlNode *child = by_xml_find(cpu->element->children, NULL); child;
       child = by_xml_find(child->next, NULL)) {
    if (by_xml_is(child, "pci")) BY_TRY(add_pci(nccl, child, cpu->node, cpu->host));
    if (!by_xml_is(child, "nic")) continue;
    char nic[BY_TOPOLOGY_MAX_NAME + 16];
    uint32_t node;
    snprintf(nic, sizeof nic, "nic %u of cpu%.40s", nics++, number);
    BY_TRY(add_named(nccl, child, cpu->host, BY_NODE_SWITCH, nic, NULL, &node));
    BY_TRY(add_link(nccl, child, cpu->node, node, INSIDE, 0));
    BY_TRY(add_nets(nccl, child, node, cpu->host));
  }
  return BANYAN_OK;
}

static enum banyan_status add_cpus(struct nccl *nccl) {
  if (nccl->n_hosts > 1) BY_TRY(by_topology_builder_add(&nccl->builder, BY_NODE_SWITCH, "network", &nccl->network));
  for (uint32_t i = 0; i < nccl->n_cpus; i++) {
    struct cpu *cpu = &nccl->cpus[i];
    BY_TRY(add_cpu(nccl, cpu));
    for (uint32_t j = 0; j < i; j++) {
      if (nccl->cpus[j].host != cpu->host) continue;
      double rate = fmin(get_cpu_rate(cpu->element), get_cpu_rate(nccl->cpus[j].element));
      BY_TRY(add_link(nccl, cpu->element, nccl->cpus[j].node, cpu->node, rate, 0));
    }
  }
  return BANYAN_OK;
}

/* --- Links between GPUs. --- */

static enum banyan_status keep_lane(struct nccl *nccl, const xmlNode *element, uint32_t from, uint32_t to,
                                    double rate) {
  if (from == to) return by_xml_fail(&nccl->xml, element, "leads from a device to itself");
  nccl->lanes[nccl->n_lanes++] = (struct lane){from, to, rate};
  return BANYAN_OK;
}

static int compare_targets(const void *a, const void *b) {
  const struct target *first = a, *second = b;
  if (first->gpu->host != second->gpu->host) return first->gpu->host < second->gpu->host ? -1 : 1;
  return strcasecmp(skip_zeros(first->bus), skip_zeros(second->bus));
}

/* Lists the targets of links, and whether several GPUs lead to each. */
static void list_targets(struct nccl *nccl) {
  for (uint32_t i = 0; i < nccl->n_gpus; i++) {
    const xmlNode *link = nccl->gpus[i].element ? nccl->gpus[i].element->children : NULL;
    for (link = by_xml_find(link, "nvlink"); link; link = by_xml_find(link->next, "nvlink")) {
      const char *bus = by_xml_attribute(link, "target");
      if (bus) nccl->targets[nccl->n_targets++] = (struct target){.gpu = &nccl->gpus[i], .bus = bus};
    }
  }
  qsort(nccl->targets, nccl->n_targets, sizeof *nccl->targets, compare_targets);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < nccl->n_targets; i++) {
    const struct target *target = &nccl->targets[i];
    if (kept && compare_targets(&nccl->targets[kept - 1], target) == 0)
      nccl->targets[kept - 1].shared |= nccl->targets[kept - 1].gpu != target->gpu;
    else
      nccl->targets[kept++] = *target;
  }
  nccl->n_targets = kept;
}

/* Whether a link leads to an NVSwitch. Virtual machines show it as the GPU itself; others as a device of another class,
 * or as a device that is not in the file and to which several GPUs are linked. */
static bool is_nvswitch(const struct nccl *nccl, const struct gpu *gpu, const char *bus, const char *class,
                        const struct device *device) {
  if (device) return device->element == gpu->pci || has_class(device->element, "0x0680");
  if ((class && *class) || !bus) return class && strcasecmp(class, "0x068000") == 0;
  struct target wanted = {.gpu = gpu, .bus = bus}, *found = NULL;
  if (nccl->n_targets) found = bsearch(&wanted, nccl->targets, nccl->n_targets, sizeof wanted, compare_targets);
  return found && found->shared;
}

/* Finds the end of a link. All NVSwitches of a system are one node, since each GPU is linked to all of them. *to is
 * UINT32_MAX if the target is not in the file. */
static enum banyan_status find_target(struct nccl *nccl, const xmlNode *nvlink, const struct gpu *gpu, uint32_t *to) {
  const char *target = by_xml_attribute(nvlink, "target"), *class = by_xml_attribute(nvlink, "tclass");
  const struct device *device = target ? find_device(nccl, gpu->host, target) : NULL;
  *to = UINT32_MAX;
  if (is_nvswitch(nccl, gpu, target, class, device)) {
    if (nccl->nvswitch == UINT32_MAX)
      BY_TRY(by_topology_builder_add(&nccl->builder, BY_NODE_SWITCH, "nvswitch", &nccl->nvswitch));
    *to = nccl->nvswitch;
  } else if (device && device->is_gpu) {
    *to = get_node(device->element);
  } else if (class && strcasecmp(class, "0x068001") == 0) {
    *to = nccl->cpus[gpu->cpu].node;
  }
  return BANYAN_OK;
}

static enum banyan_status add_nvlink(struct nccl *nccl, const xmlNode *nvlink, const struct gpu *gpu, double rate) {
  uint32_t to;
  long n;
  BY_TRY(take_number(&nccl->xml, nvlink, "count", 1, &n));
  if (n < 1 || n > 1024) return by_xml_fail(&nccl->xml, nvlink, "count is %ld, must be 1 to 1024", n);
  BY_TRY(find_target(nccl, nvlink, gpu, &to));
  nccl->n_unknown += to == UINT32_MAX;
  return to == UINT32_MAX ? BANYAN_OK : keep_lane(nccl, nvlink, get_node(gpu->pci), to, (double)n * rate);
}

/* Adds the NVLink from a GPU to the memory of its CPU; `bw` is in MB/s. */
static enum banyan_status add_c2c(struct nccl *nccl, const xmlNode *c2c, const struct gpu *gpu) {
  long n, megabytes;
  BY_TRY(take_number(&nccl->xml, c2c, "count", 1, &n));
  BY_TRY(take_number(&nccl->xml, c2c, "bw", 0, &megabytes));
  if (n < 1 || n > 1024 || megabytes < 1)
    return by_xml_fail(&nccl->xml, c2c, "count is %ld and bw %ld, must be 1 or more", n, megabytes);
  return keep_lane(nccl, c2c, get_node(gpu->pci), nccl->cpus[gpu->cpu].node, (double)n * (double)megabytes * 8e6);
}

/* Adds the links of a GPU. If several GPUs of one device (parts of it, or ranks that share it) list the same links,
 * only the first counts. */
static enum banyan_status add_lanes_of(struct nccl *nccl, const struct gpu *gpu) {
  static const struct rate_from rows[] = {{0, 20}, {60, 18}, {70, 20}, {86, 12}, {87, 20}, {90, 20.6}, {100, 40.1}};
  if (!gpu->element || gpu->element != by_xml_find(gpu->pci->children, "gpu")) return BANYAN_OK;
  double nvlink = pick_rate(rows, sizeof rows / sizeof *rows, get_number(gpu->element, "sm"));
  for (const xmlNode *link = by_xml_find(gpu->element->children, NULL); link; link = by_xml_find(link->next, NULL)) {
    if (by_xml_is(link, "nvlink")) BY_TRY(add_nvlink(nccl, link, gpu, nvlink));
    if (by_xml_is(link, "xgmi")) BY_TRY(add_nvlink(nccl, link, gpu, get_xgmi_rate(gpu->element)));
    if (by_xml_is(link, "c2c")) BY_TRY(add_c2c(nccl, link, gpu));
  }
  return BANYAN_OK;
}

/* Adds <pcilink target> of a PCI switch: a link to another switch outside the tree. */
static enum banyan_status add_pci_links(struct nccl *nccl, const struct device *device) {
  const xmlNode *link = by_xml_find(device->element->children, "pcilink");
  for (; link; link = by_xml_find(link->next, "pcilink")) {
    const char *target;
    BY_TRY(by_xml_need(&nccl->xml, link, "target", &target));
    const struct device *other = find_device(nccl, device->host, target);
    uint32_t to = other ? get_node(other->element) : UINT32_MAX;
    nccl->n_unknown += to == UINT32_MAX;
    if (to != UINT32_MAX) BY_TRY(keep_lane(nccl, link, get_node(device->element), to, INSIDE));
  }
  return BANYAN_OK;
}

static int compare_lanes(const void *a, const void *b) {
  const struct lane *first = a, *second = b;
  return by_order_ends(first->from, first->to, second->from, second->to);
}

/* Joins lanes to links. Both ends list a link for their outgoing direction; what only one end lists counts in both
 * directions. */
static enum banyan_status join_lanes(struct nccl *nccl) {
  qsort(nccl->lanes, nccl->n_lanes, sizeof *nccl->lanes, compare_lanes);
  for (uint32_t from = 0, to; from < nccl->n_lanes; from = to) {
    const struct lane *first = &nccl->lanes[from];
    uint32_t a = MIN(first->from, first->to), b = MAX(first->from, first->to);
    double rates[2] = {0, 0};
    struct by_link *link;
    for (to = from; to < nccl->n_lanes && compare_lanes(first, &nccl->lanes[to]) == 0; to++)
      rates[nccl->lanes[to].from == a ? BY_AB : BY_BA] += nccl->lanes[to].rate;
    double forth = rates[BY_AB] > 0 ? rates[BY_AB] : rates[BY_BA];
    BY_TRY(by_topology_builder_add_link(&nccl->builder, a, b, forth, 0, &link));
    if (rates[BY_BA] > 0) link->capacity[BY_BA].all = rates[BY_BA];
  }
  return BANYAN_OK;
}

/* --- The system. --- */

/* Counts the elements below an element, which bounds all arrays. */
static uint32_t count_below(struct nccl *nccl, const xmlNode *element) {
  uint32_t n = 1;
  nccl->some_gpus = nccl->some_gpus || by_xml_is(element, "gpu");
  for (const xmlNode *child = by_xml_find(element->children, NULL); child; child = by_xml_find(child->next, NULL))
    n += count_below(nccl, child);
  return n;
}

static enum banyan_status read_system(struct nccl *nccl) {
  uint32_t n = count_below(nccl, nccl->xml.root);
  nccl->cpus = BY_ARENA_ARRAY(&nccl->arena, struct cpu, by_xml_count(nccl->xml.root, "cpu"));
  nccl->gpus = BY_ARENA_ARRAY(&nccl->arena, struct gpu, n);
  nccl->devices = BY_ARENA_ARRAY(&nccl->arena, struct device, n);
  nccl->lanes = BY_ARENA_ARRAY(&nccl->arena, struct lane, n);
  nccl->targets = BY_ARENA_ARRAY(&nccl->arena, struct target, n);
  if (nccl->arena.failed) return by_topology_no_memory();
  BY_TRY(find_all(nccl));
  qsort(nccl->devices, nccl->n_devices, sizeof *nccl->devices, compare_devices);
  for (uint32_t i = 1; i < nccl->n_devices; i++)
    if (compare_devices(&nccl->devices[i - 1], &nccl->devices[i]) == 0)
      return by_xml_fail(&nccl->xml, nccl->devices[i].element, "two devices have that busid");
  BY_TRY(add_gpus(nccl));
  BY_TRY(add_cpus(nccl));
  list_targets(nccl);
  for (uint32_t i = 0; i < nccl->n_gpus; i++) BY_TRY(add_lanes_of(nccl, &nccl->gpus[i]));
  for (uint32_t i = 0; i < nccl->n_devices; i++) BY_TRY(add_pci_links(nccl, &nccl->devices[i]));
  if (nccl->n_unknown)
    by_info("topology", "%s: %u links lead to devices that are not in the file; left out", nccl->xml.source,
            nccl->n_unknown);
  return join_lanes(nccl);
}

enum banyan_status by_topology_parse_nccl(const char *source, const char *text, size_t length, const char *options,
                                          struct by_topology **out) {
  if (*options) return by_options_none(options);
  struct nccl *nccl = calloc(1, sizeof *nccl);
  if (!nccl) return by_topology_no_memory();
  nccl->nvswitch = nccl->network = UINT32_MAX;
  enum banyan_status status = by_xml_parse(&nccl->xml, source, text, length, "system", "NCCL topology XML");
  if (status == BANYAN_OK) {
    status = by_topology_builder_init(&nccl->builder, "");
    if (status == BANYAN_OK) status = by_topology_builder_end(&nccl->builder, read_system(nccl), source, out);
    by_xml_fini(&nccl->xml);
  }
  by_arena_fini(&nccl->arena);
  free(nccl);
  return status;
}
