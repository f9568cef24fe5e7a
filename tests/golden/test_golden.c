/* Runs every group of golden tests; golden.h describes them. */
#include "golden.h"

int main(void) {
  return golden_control() + golden_fragments() + golden_frames() + golden_handshake() + golden_launch() +
         golden_lines() + golden_membership() + golden_negotiation() + golden_payloads() + golden_state() +
         golden_switch();
}
