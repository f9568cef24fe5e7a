#include "lab_programs.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RETURN(value)                                                                                                  \
  {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = (value)}, {                                       \
    .code = BPF_JMP | BPF_EXIT                                                                                         \
  }

static enum banyan_status load(enum bpf_prog_type type, const char *name, const struct bpf_insn *code, size_t n,
                               int *out) {
  union bpf_attr attributes = {
      .prog_type = type, .insn_cnt = (uint32_t)n, .insns = (uintptr_t)code, .license = (uintptr_t) "Apache-2.0"};
  snprintf(attributes.prog_name, sizeof attributes.prog_name, "%s", name);
  *out = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
  if (*out >= 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the kernel does not take the program \"%s\" (bpf)", name);
}

enum banyan_status by_program_pass(int *out) {
  static const struct bpf_insn code[] = {RETURN(XDP_PASS)};
  return load(BPF_PROG_TYPE_XDP, "banyan_pass", code, sizeof code / sizeof *code, out);
}

enum banyan_status by_program_lose(double share, int *out) {
  uint32_t limit = (uint32_t)fmin(share * 4294967296., 4294967295.);
  const struct bpf_insn code[] = {
      {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_prandom_u32},
      {.code = BPF_JMP32 | BPF_JLT | BPF_K, .dst_reg = BPF_REG_0, .imm = (int32_t)limit, .off = 2}, /* to SHOT */
      RETURN(TC_ACT_UNSPEC),
      RETURN(TC_ACT_SHOT)};
  return load(BPF_PROG_TYPE_SCHED_CLS, "banyan_lose", code, sizeof code / sizeof *code, out);
}
