/* Certificates for tests of TLS, made when they are needed. All functions are static; include this file once in a
 * program. */
#ifndef BY_TESTS_TLS_KEYS_H
#define BY_TESTS_TLS_KEYS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "certificate.h"
#include "tls.h"

enum { TEST_DAYS = 10, TEST_DAY = 24 * 60 * 60 };

static struct by_key_authority authorities[2]; /* two clusters */
static int64_t keys_made;                      /* when all certificates were made */

/* Ends the program if a call fails. Programs without cmocka can use it, too. */
static inline void must(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "%s\n", banyan_error_text());
  abort();
}

static inline void make_authorities(void) {
  keys_made = time(NULL);
  for (int i = 0; i < 2; i++) must(by_certificate_make_authority(NULL, keys_made, 2L * TEST_DAYS, &authorities[i]));
}

static inline void drop_authorities(void) {
  for (int i = 0; i < 2; i++) by_key_authority_fini(&authorities[i]);
}

/* Returns an identity in cluster 0 or 1. */
static inline struct by_tls_identity *identity_of(int cluster, enum by_tls_role role, const char *name) {
  static const char *const addresses[] = {"10.0.0.7", "manager.example"};
  struct by_certificate_request request = {.role = role,
                                           .name = name,
                                           .addresses = addresses,
                                           .address_count = role == BY_TLS_MANAGER ? 2 : 0,
                                           .now = keys_made,
                                           .days = TEST_DAYS};
  struct by_text own;
  struct by_tls_identity *identity;
  must(by_certificate_make(&authorities[cluster], &request, &own));
  must(by_tls_identity_make(by_text_get(&authorities[cluster].certificate), NULL, by_text_get(&own), &identity));
  by_certificate_wipe(&own);
  return identity;
}

#endif
