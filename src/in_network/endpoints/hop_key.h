/* Keys of fragments' MACs. The ends of a tree derive its hop secret from the tree's secret; switches get it with their
 * grants. It reveals nothing about the tree's secret, with which the ends verify each other. All derivations are
 * HKDF-Expand with SHA-256, with the labels of decision 166. */
#ifndef BY_IN_NETWORK_ENDPOINTS_HOP_KEY_H
#define BY_IN_NETWORK_ENDPOINTS_HOP_KEY_H

#include <stddef.h>

#include <banyan/status.h>

#include "fragment_mac.h"

/* Derives the hop secret for the grant with this job number and key epoch. BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_hop_secret_derive(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                                     unsigned char out[BY_HOP_SECRET]);
/* Derives the key from a hop secret. */
BANYAN_CHECK enum banyan_status by_hop_key_derive(const unsigned char secret[BY_HOP_SECRET], struct by_hop_key *out);
/* Derives the key from the tree's secret, at an end. */
BANYAN_CHECK enum banyan_status by_hop_key_of_tree(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                                   struct by_hop_key *out);

#endif
