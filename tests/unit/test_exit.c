/* A program may exit without destroying what it has made: threads of a job still use OpenSSL then, which must not free
 * what it has. No cmocka: what counts happens when main has returned. */
#include <openssl/rand.h>
#include <stdio.h>
#include <unistd.h>

#include <banyan/comm.h>

/* Registered before OpenSSL could register its own, so called after that. */
static void check(void) {
  unsigned char byte;
  if (RAND_bytes(&byte, 1) == 1) return;
  fprintf(stderr, "OpenSSL has freed what threads may still use\n");
  _exit(1);
}

static struct banyan_comm *comm; /* found here by those that look for leaks */

int main(void) {
  if (atexit(check)) return 2;
  if (banyan_comm_create(NULL, &comm) == BANYAN_OK) return 0;
  fprintf(stderr, "%s\n", banyan_error_text());
  return 2;
}
