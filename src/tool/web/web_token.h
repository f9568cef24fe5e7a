/* The secret that lets somebody see the page: letters, digits and "_.~-", so
 * that it can stand in an address as it is. */
#ifndef BY_WEB_WEB_TOKEN_H
#define BY_WEB_WEB_TOKEN_H

#include <stdbool.h>

#include "fail.h"

enum { BY_TOKEN_LEAST = 16, BY_TOKEN_MOST = 128 };

struct by_token {
  char text[BY_TOKEN_MOST + 1];
};

/* From the file's only line. */
BANYAN_CHECK enum banyan_status by_token_read(const char *path, struct by_token *out);
/* The same; a file that is not there is made first, with a new token, for its owner's eyes only. */
BANYAN_CHECK enum banyan_status by_token_read_or_make(const char *path, struct by_token *out);
/* Takes as long whatever is right of it. `given` may be NULL. */
bool by_token_is(const struct by_token *token, const char *given);

#endif
