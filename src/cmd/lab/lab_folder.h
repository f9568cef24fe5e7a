/* The folder of a lab: files that its programs find by name, such as the topology that ranks plan from. It is removed
 * when the lab ends, however it ends. */
#ifndef BY_CMD_LAB_LAB_FOLDER_H
#define BY_CMD_LAB_LAB_FOLDER_H

#include "text.h"

enum { BY_LAB_PATH = 256 };

struct by_lab_folder {
  char path[64]; /* "": there is none */
  int keeper;    /* the folder is removed when this is closed, also by the end of the process; -1: there is none */
};

/* All users may enter the folder: the lab's programs may be another user's than root. The caller calls remove. */
BANYAN_CHECK enum banyan_status by_lab_folder_make(struct by_lab_folder *out);
/* With all that is in it. Does nothing if there is none. */
void by_lab_folder_remove(struct by_lab_folder *folder);
/* "FOLDER/NAME" for a name of at most 128 bytes; returns `out`, which holds BY_LAB_PATH. */
char *by_lab_folder_path(const struct by_lab_folder *folder, const char *name, char *out);
/* Writes a file that all users may read. */
BANYAN_CHECK enum banyan_status by_lab_folder_write(const struct by_lab_folder *folder, const char *name,
                                                    const struct by_text *text);

#endif
