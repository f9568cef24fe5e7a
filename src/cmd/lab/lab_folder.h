/* The folder of a lab: files that its programs find by name, such as the topology from which ranks plan. It is removed
 * when the lab ends, in any way. */
#ifndef BY_CMD_LAB_LAB_FOLDER_H
#define BY_CMD_LAB_LAB_FOLDER_H

#include "text.h"

enum { BY_LAB_PATH = 256 };

struct by_lab_folder {
  char path[64]; /* "": there is none. */
  int keeper;    /* The folder is removed when this is closed, also by the end of the process; -1: there is none. */
};

/* All users may enter the folder, since the lab's programs may belong to another user than root. The caller calls
 * remove. */
BANYAN_CHECK enum banyan_status by_lab_folder_make(struct by_lab_folder *out);
/* Removes the folder with its contents, if there is one. */
void by_lab_folder_remove(struct by_lab_folder *folder);
/* Prints "FOLDER/NAME" for a name of at most 128 bytes; returns `out`, which has BY_LAB_PATH bytes. */
char *by_lab_folder_path(const struct by_lab_folder *folder, const char *name, char *out);
/* Writes a file that all users may read. */
BANYAN_CHECK enum banyan_status by_lab_folder_write(const struct by_lab_folder *folder, const char *name,
                                                    const struct by_text *text);

#endif
