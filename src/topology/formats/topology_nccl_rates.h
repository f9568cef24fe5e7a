/* How fast the parts of a GPU server are, in bit/s of payload, as NCCL itself
 * reckons: what a stream gets, which is less than the signalling rate. */
#ifndef BY_TOPOLOGY_TOPOLOGY_NCCL_RATES_H
#define BY_TOPOLOGY_TOPOLOGY_NCCL_RATES_H

#include "topology_xml.h"

/* Inside a chip: more than anything around it. */
extern const double by_nccl_rate_inside;

/* From <pci link_speed="16.0 GT/s PCIe" link_width="16">; sixteen lanes of 8 GT/s where it does not say. */
BANYAN_CHECK enum banyan_status by_nccl_pci_rate(const struct by_xml *xml, const xmlNode *pci, double *out);
/* One NVLink of this GPU, or one link between AMD's. */
double by_nccl_nvlink_rate(const xmlNode *gpu);
double by_nccl_xgmi_rate(const xmlNode *gpu);
/* Between the sockets or NUMA nodes of a server. */
double by_nccl_cpu_rate(const xmlNode *cpu);
/* A whole number in an attribute, also in hexadecimal; `otherwise` where there is none. */
BANYAN_CHECK enum banyan_status by_nccl_number(const struct by_xml *xml, const xmlNode *element, const char *name,
                                               long otherwise, long *out);

#endif
