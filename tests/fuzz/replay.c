/* Runs the fuzz target that it is linked with on the empty input and then on every file of the corpus folder named on
 * the command line. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *read_all(FILE *file, size_t *size) {
  uint8_t *data = NULL;
  size_t room = 0;
  *size = 0;
  for (;;) {
    if (*size == room) {
      uint8_t *more = realloc(data, room = room ? 2 * room : 4096);
      if (!more) break;
      data = more;
    }
    size_t n = fread(data + *size, 1, room - *size, file);
    if (n == 0) return data;
    *size += n;
  }
  free(data);
  return NULL;
}

/* Copies the input to a block of exactly its size, so that a sanitizer detects reads past its end. */
static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  size_t size;
  uint8_t *data = file ? read_all(file, &size) : NULL;
  if (file) fclose(file);
  uint8_t *exact = data ? malloc(size ? size : 1) : NULL;
  if (exact) {
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
  } else {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
  }
  free(exact);
  free(data);
  return exact ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  DIR *folder = opendir(argv[1]);
  if (!folder) {
    fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  int files = 0, failed = 0;
  LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    failed += replay(path);
    files++;
  }
  closedir(folder);
  printf("%d inputs replayed\n", files);
  if (files == 0) fprintf(stderr, "%s: the corpus is empty\n", argv[1]);
  return failed || files == 0;
}
