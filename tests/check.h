/* The header that every cmocka program includes: cmocka with the headers it needs, and checks of statuses that show the
 * error text when they fail. */
#ifndef BY_TESTS_CHECK_H
#define BY_TESTS_CHECK_H

#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <banyan/status.h>

static inline void check_status(enum banyan_status got, enum banyan_status wanted, const char *expression,
                                const char *file, int line) {
  if (got == wanted) return;
  print_error("%s:%d: %s is \"%s\", not \"%s\"; error text: %s\n", file, line, expression, banyan_status_name(got),
              banyan_status_name(wanted), banyan_error_text());
  _fail(file, line);
}

#define assert_status(expression, wanted) check_status((expression), (wanted), #expression, __FILE__, __LINE__)
#define assert_ok(expression) assert_status(expression, BANYAN_OK)

/* Skips the test where libc does not know the name `localhost`, as in a chroot without /etc/hosts. */
static inline void check_localhost(void) {
  struct addrinfo *list;
  int error = getaddrinfo("localhost", NULL, NULL, &list);
  if (error) {
    print_message("skipped: this machine cannot look up \"localhost\" (%s): see /etc/hosts\n", gai_strerror(error));
    skip();
  }
  freeaddrinfo(list);
}

static inline uint64_t check_number(const char *variable, uint64_t usual) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : usual;
}

/* Returns the first of the seeds to try: 1, or BANYAN_TEST_SEED to repeat a failure or to try other seeds. */
static inline uint64_t check_first_seed(void) {
  return check_number("BANYAN_TEST_SEED", 1);
}

/* Under AddressSanitizer the same code runs several times as long, and so fewer times. */
#ifdef __SANITIZE_ADDRESS__
enum { CHECK_FEWER = 1 };
#else
enum { CHECK_FEWER = 0 };
#endif

/* One case of so many is tried: 1, or BANYAN_TEST_SHARE for a short run. It is the step of loops over cases that
 * differ. */
static inline unsigned check_share(void) {
  unsigned share = (unsigned)check_number("BANYAN_TEST_SHARE", 1);
  return share ? share : 1;
}

/* Returns how many random cases to try. Usually these are `usual`, under AddressSanitizer a twentieth and at least ten.
 * BANYAN_TEST_SHARE=N tries one of N, BANYAN_TEST_SEEDS sets another number, and BANYAN_TEST_LONGER=N tries N times as
 * many. */
static inline uint64_t check_seeds(uint64_t usual) {
  if (CHECK_FEWER && usual > 10) usual = usual > 200 ? usual / 20 : 10;
  usual = (usual + check_share() - 1) / check_share();
  return check_number("BANYAN_TEST_SEEDS", usual) * check_number("BANYAN_TEST_LONGER", 1);
}

#endif
