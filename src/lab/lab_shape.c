#include <arpa/inet.h>
#include <linux/if_ether.h>

#include "lab_netlink.h"
#include "priority.h"
#include "tc.h"

/* An htb queue with a class for the link's rate. The classes below borrow what
 * they send from it; acknowledgements first, then everything else, in a bfifo
 * each:
 *
 *   1: -- 1:1, the rate -+- 1:2, acknowledgements
 *                        +- 1:3, everything that has no mark
 *                        +- 1:4, what is marked with class 0, and so on down to
 *                        +- 1:7, where links sort by ToS
 */
enum {
  ROOT_HANDLE = 0x10000, /* "1:" */
  LINK_CLASS = 0x10001,  /* "1:1" */
  ACK_CLASS = 0x10002,
  DATA_CLASS = 0x10003,
  MARKED_CLASS = 0x10004, /* of class 0 */
  QUANTUM = 60000,        /* of bytes, among classes that go equally early */
  ACKS_FIRST = 1,         /* filters, in this order */
  BY_MARK
};

static const double guarantee = 0.05; /* of the link, to each class of marks */

static enum banyan_status add_class(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t handle,
                                    uint64_t rate, uint32_t early, const struct by_netlink_shape *shape) {
  struct by_tc_class class_ = {.parent = parent,
                               .handle = handle,
                               .rate = rate,
                               .ceil = by_tc_bytes(shape->rate),
                               .burst = shape->burst,
                               .quantum = QUANTUM,
                               .early = early,
                               .there = shape->there};
  return by_netlink_told(by_tc_add_class(netlink, interface, &class_), "shape a link to its rate");
}

/* TCP packets of less than 128 bytes with no flag but ACK. What has data and is short has PSH as well, and stays
 * behind what was sent before it. */
static enum banyan_status let_overtake(struct by_netlink *netlink, unsigned interface) {
  const struct tc_u32_key keys[3] = {
      {.mask = htonl(0x0f00ff80), .val = htonl(0x05000000)},                  /* a header of 20, the length */
      {.mask = htonl(0x00ff0000), .val = htonl(IPPROTO_TCP << 16), .off = 8}, /* the protocol */
      {.mask = htonl(0x00ff0000), .val = htonl(0x00100000), .off = 32},       /* the flags */
  };
  struct by_tc_filter filter = {ROOT_HANDLE, ACK_CLASS, ACKS_FIRST, ETH_P_IP, keys, 3};
  return by_netlink_told(by_tc_add_filter(netlink, interface, &filter),
                         "let acknowledgements overtake: it has no u32 filter (CONFIG_NET_CLS_U32); use --fifo");
}

static enum banyan_status add_queue(struct by_netlink *netlink, unsigned interface, uint32_t class_,
                                    const struct by_netlink_shape *shape) {
  struct by_netlink_request request;
  struct tc_fifo_qopt limit = {.limit = (uint32_t)shape->queue};
  by_tc_begin(&request, RTM_NEWQDISC, interface, class_, 0, "bfifo");
  mnl_attr_put(request.header, TCA_OPTIONS, sizeof limit, &limit);
  return by_netlink_tell(netlink, &request, "give a link its queue (bfifo)");
}

static enum banyan_status sort_by_tos(struct by_netlink *netlink, unsigned interface,
                                      const struct by_netlink_shape *shape) {
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    uint32_t class_ = MARKED_CLASS + c;
    BY_TRY(add_queue(netlink, interface, class_, shape));
    BY_TRY(by_netlink_told(by_tc_add_mark(netlink, interface, ROOT_HANDLE, class_, BY_MARK, by_priority_tos(c)),
                           "sort by ToS: it has no u32 filter (CONFIG_NET_CLS_U32)"));
  }
  return BANYAN_OK;
}

static enum banyan_status set_rates(struct by_netlink *netlink, unsigned interface,
                                    const struct by_netlink_shape *shape) {
  uint64_t least = by_tc_bytes(guarantee * shape->rate), others = shape->by_tos ? least : 1;
  BY_TRY(add_class(netlink, interface, ROOT_HANDLE, LINK_CLASS, by_tc_bytes(shape->rate), 0, shape));
  BY_TRY(add_class(netlink, interface, LINK_CLASS, ACK_CLASS, 1, 0, shape));
  BY_TRY(add_class(netlink, interface, LINK_CLASS, DATA_CLASS, others, 1, shape));
  for (uint32_t c = 0; shape->by_tos && c < BY_PRIORITY_CLASSES; c++)
    BY_TRY(add_class(netlink, interface, LINK_CLASS, MARKED_CLASS + c, least, 1 + c, shape));
  return BANYAN_OK;
}

enum banyan_status by_netlink_shape(struct by_netlink *netlink, unsigned interface,
                                    const struct by_netlink_shape *shape) {
  if (shape->there) return set_rates(netlink, interface, shape);
  BY_TRY(by_netlink_told(by_tc_add_htb(netlink, interface, ROOT_HANDLE, DATA_CLASS & 0xffff),
                         "shape a link: it has no htb queue (CONFIG_NET_SCH_HTB)"));
  BY_TRY(set_rates(netlink, interface, shape));
  if (!shape->fifo) BY_TRY(let_overtake(netlink, interface));
  BY_TRY(add_queue(netlink, interface, DATA_CLASS, shape));
  return shape->by_tos ? sort_by_tos(netlink, interface, shape) : BANYAN_OK;
}
