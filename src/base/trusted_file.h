/* Files whose content is trusted, or executed: only their user or root may have written them. Files with secrets are
 * read with secret_file.h. */
#ifndef BY_BASE_TRUSTED_FILE_H
#define BY_BASE_TRUSTED_FILE_H

#include <stddef.h>
#include <sys/stat.h>

#include "fail.h"

/* BANYAN_ERR_AUTH: a user other than this one and root owns it, or others may write to it. `what` is such as "costs".
 */
BANYAN_CHECK enum banyan_status by_trusted_check(const char *what, const char *path, const struct stat *about);
/* As by_read_stream (text.h) for such a file, by the path. It neither blocks nor follows later changes of the path. */
BANYAN_CHECK enum banyan_status by_trusted_read(const char *what, const char *path, size_t max, char **text,
                                                size_t *length);

#endif
