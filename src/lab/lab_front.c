#include "lab_front.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two instructions need no library to load them. */
enum banyan_status by_front_load(int *out) {
  static const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
                                         {.code = BPF_JMP | BPF_EXIT}};
  union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP,
                         .insn_cnt = sizeof code / sizeof *code,
                         .insns = (uintptr_t)code,
                         .license = (uintptr_t) "Apache-2.0",
                         .prog_name = "banyan_lab_pass"};
  *out = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
  if (*out >= 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                       "the kernel takes no XDP programs; the lab can do with --switches user");
}

enum banyan_status by_front_carry(struct by_netlink *netlink, int pass, unsigned in, unsigned out) {
  BY_TRY(by_netlink_attach(netlink, in, pass));
  BY_TRY(by_netlink_redirect(netlink, in, out));
  return by_netlink_redirect(netlink, out, in);
}
