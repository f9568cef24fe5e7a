/* Times the user-space switch between sockets, as a part of switch_bench. */
#ifndef BY_BENCH_SWITCH_SOCKETS_H
#define BY_BENCH_SWITCH_SOCKETS_H

#include <stdint.h>

/* Prints a row for each way of using the switch. Moves the thread to a network namespace of its own. */
void by_bench_sockets(uint32_t workers);

#endif
