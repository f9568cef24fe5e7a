/* What messages cost on this machine, so that rank 0 plans with its own costs and not with usual ones: measured once
 * over TCP from this process to itself, before a job's first call, and kept in the machine's file (cost.h). */
#ifndef BY_ADAPTATION_MACHINE_FIT_H
#define BY_ADAPTATION_MACHINE_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "cost.h"

enum { BY_FIT_BLOCKS = 8 /* It is even. */ };

/* Seconds; each is the least of many in a block, since whatever disturbs makes them more. */
struct by_fit_samples {
  double message[BY_FIT_BLOCKS]; /* Processor seconds for sending or receiving a small message. */
  double trip[BY_FIT_BLOCKS]; /* Seconds from one thread that sleeps until messages arrive to another one and back. */
  double byte[BY_FIT_BLOCKS]; /* Processor seconds for sending or receiving a byte of a long message. */
  double bare[BY_FIT_BLOCKS]; /* As `message`, but in plain text, as trips always are. */
  bool encrypted;             /* Messages and bytes are encrypted by TLS. */
};

/* Takes the blocks by turns. Makes a thread, which is gone afterwards. BANYAN_ERR_TIMEOUT: it would take longer than
 * `most` nanoseconds; BANYAN_ERR_SYSTEM: no TCP on this machine. */
BANYAN_CHECK enum banyan_status by_fit_measure(uint64_t max, bool encrypted, struct by_fit_samples *out);
/* Changes hop, message and byte to the medians of the blocks, as far as to a quarter and to four times what they are;
 * bytes that are encrypted to 16 times.
 * BANYAN_ERR_UNSUPPORTED: load disturbs; the medians of the earlier and the later half differ by more than a fifth. */
BANYAN_CHECK enum banyan_status by_fit_costs(const struct by_fit_samples *samples, struct by_cost_rates *rates);

/* Measures and keeps the costs of this machine, of encrypted connections where jobs encrypt (by_machine_get), if none
 * are kept or what is kept cannot be used, which is logged. Nothing is done without a folder for them, see
 * by_cache_folder. Takes `most` nanoseconds at most; 10 ms where nothing disturbs. */
void by_machine_fit(uint64_t max);

#endif
