/* Files that hold a secret: keys of jobs and switches, tickets, private keys of certificates. */
#ifndef BY_SECURITY_SECRET_FILE_H
#define BY_SECURITY_SECRET_FILE_H

#include <stddef.h>

#include "fail.h"

/* Reads a file of fewer than `size` bytes into `text` and appends a NUL. This user or root must own it, and no other
 * user may read or change it (BANYAN_ERR_AUTH, with its mode). The caller wipes `text`, also after an error, whose
 * text does not name the file. Does not block. */
enum banyan_status by_secret_file_read(const char *path, char *text, size_t size, size_t *length) BANYAN_CHECK;

#endif
