/* Files: reading text, trusted files and secrets, and the folder in which Banyan keeps measurements between jobs. A
 * trusted file has content that is believed or executed, so only its user or root may have written it; a secret is a
 * key of a job or switch, a ticket or a private key of a certificate, and no other user may read it. Any thread. */
#ifndef BY_BASE_FILE_H
#define BY_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "fail.h"

/* Reads a whole file of text. `what` is such as "plan", for errors. The caller frees *text, which has a NUL behind,
 * and none within, which would hide the rest from its reader, unless it begins as UTF-16. BANYAN_ERR_SYSTEM or
 * _NO_MEMORY; BANYAN_ERR_PARSE: it has more than `max` bytes, of which few are read, or a NUL, and the error tells in
 * which line. */
BANYAN_CHECK enum banyan_status by_read_file(const char *what, const char *path, size_t max, char **text,
                                             size_t *length);
/* BANYAN_ERR_AUTH: a user other than this one and root owns it, or others may write to it. `what` is such as "costs".
 */
BANYAN_CHECK enum banyan_status by_trusted_check(const char *what, const char *path, const struct stat *about);
/* Reads a trusted file, but at most `max` + 1 bytes, so that the caller notices that there are more; NUL bytes are read
 * too. It neither blocks nor follows later changes of the path. The caller frees *text. BANYAN_ERR_SYSTEM or
 * _NO_MEMORY, and errors of by_trusted_check. */
BANYAN_CHECK enum banyan_status by_trusted_read(const char *what, const char *path, size_t max, char **text,
                                                size_t *length);

/* Reads a secret of fewer than `size` bytes into `text` and appends a NUL. This user or root must own it, and no other
 * user may read or change it (BANYAN_ERR_AUTH, with its mode). The caller wipes `text`, also after an error, whose
 * text does not name the file. Does not block. */
enum banyan_status by_secret_file_read(const char *path, char *text, size_t size, size_t *length) BANYAN_CHECK;

/* Finds the folder: `given` if it is not empty (BANYAN_CACHE), else $XDG_CACHE_HOME/banyan, else ~/.cache/banyan.
 * `out` gets its path, which need not exist. Returns false if `given` is "off", there is no such folder, or its path
 * is too long. */
bool by_cache_folder(const char *given, char *out, size_t capacity);
/* The date of measurements: seconds since 1970, which the host's user may set back. */
double by_cache_date(void);
/* Replaces a file in such a folder, so that readers see all of it or nothing. Makes missing folders of its path; they
 * and the file are private to their user. */
BANYAN_CHECK enum banyan_status by_cache_write(const char *path, const char *text, size_t length);

#endif
