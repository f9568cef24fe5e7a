/* Times the user-space switch between sockets, as a part of switch_bench. */
#ifndef BY_BENCH_SWITCH_SOCKETS_H
#define BY_BENCH_SWITCH_SOCKETS_H

#include <stdint.h>

/* Prints a row for each way of using the switch. Moves the thread to a network namespace of its own. */
void by_bench_sockets(uint32_t workers);
/* The same with one queue and with two, each a thread on any core, and a tree for each. */
void by_bench_queues(uint32_t workers);

#endif
