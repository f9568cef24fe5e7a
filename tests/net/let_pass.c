/* let_pass INTERFACE: attaches an XDP program that passes every packet, writes a line, and stays until it is killed. A
 * veth pair drops what XDP redirects to it unless its other end has a program. */
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
                                  {.code = BPF_JMP | BPF_EXIT}};
  union bpf_attr load = {
      .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)code, .insn_cnt = 2, .license = (uintptr_t) "Apache-2.0"};
  if (argc != 2) return 2;
  int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
  union bpf_attr attach = {.link_create = {.prog_fd = (uint32_t)program,
                                           .target_ifindex = if_nametoindex(argv[1]),
                                           .attach_type = BPF_XDP,
                                           .flags = XDP_FLAGS_DRV_MODE}};
  if (program < 0 || syscall(SYS_bpf, BPF_LINK_CREATE, &attach, sizeof attach) < 0) {
    perror(argv[1]);
    return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  puts("attached");
  fflush(stdout);
  pause();
  return 0;
}
