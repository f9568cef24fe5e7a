/* A manager's rows in a SQLite file, so that it goes on where it was, also when
 * it was killed in the middle. Rows that are kept between two commits become
 * lasting together. A disk that is full, or a file that cannot be written, is
 * logged and stops nobody: by_manager_store_lost says that what the file has is
 * old. Reads and writes a file; one thread. */
#ifndef BY_MANAGER_MANAGER_STORE_H
#define BY_MANAGER_MANAGER_STORE_H

#include "fail.h"
#include "manager_rows.h"

struct by_manager_store;

/* Makes the file if it is not there. BANYAN_ERR_SYSTEM: it cannot be opened, another manager has it. BANYAN_ERR_PARSE:
 * it is something else, or of a later Banyan. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_manager_store_open(const char *path, struct by_manager_store **out);
/* Commits. NULL is allowed. */
void by_manager_store_close(struct by_manager_store *store);
/* All rows, each behind those that it is about. `row` is borrowed during the call. */
BANYAN_CHECK enum banyan_status by_manager_store_load(struct by_manager_store *store,
                                                      void (*row)(void *context, const struct by_manager_row *row),
                                                      void *context);
void by_manager_store_keep(struct by_manager_store *store, const struct by_manager_row *row);
void by_manager_store_commit(struct by_manager_store *store);
/* The number of the newest list of revoked certificates that was kept of an authority; -1: none. */
BANYAN_CHECK enum banyan_status by_manager_store_get_list(struct by_manager_store *store, const char *authority,
                                                          int64_t *number);
void by_manager_store_keep_list(struct by_manager_store *store, const char *authority, int64_t number);
/* Something could not be written. */
bool by_manager_store_lost(const struct by_manager_store *store);
/* Forgets all rows but history and lists, so that all can be kept anew; ends being lost if it succeeds. */
void by_manager_store_renew(struct by_manager_store *store);

#endif
