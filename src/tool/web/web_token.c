#include "web_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "text.h"

static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-";

static enum banyan_status parse(const char *path, const char *text, size_t length, struct by_token *out) {
  while (length && strchr(" \r\n", text[length - 1])) length--;
  *out = (struct by_token){0};
  if (length >= BY_TOKEN_LEAST && length <= BY_TOKEN_MOST) {
    memcpy(out->text, text, length);
    if (strspn(out->text, allowed) == length) return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "%s: must hold a token of %d to %d letters, digits and \"_.~-\"; `openssl rand -hex 32` makes one",
                 path, BY_TOKEN_LEAST, BY_TOKEN_MOST);
}

enum banyan_status by_token_read(const char *path, struct by_token *out) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("token file", path, BY_TOKEN_MOST + 2, &text, &length));
  enum banyan_status status = parse(path, text, length, out);
  explicit_bzero(text, length);
  free(text);
  return status;
}

static enum banyan_status write_new(const char *path, int fd) {
  unsigned char random[32];
  char line[2 * sizeof random + 2];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no random numbers for a token");
  for (size_t i = 0; i < sizeof random; i++) snprintf(line + 2 * i, 3, "%02x", random[i]);
  line[sizeof line - 2] = '\n';
  ssize_t written = write(fd, line, sizeof line - 1);
  int why = errno;
  explicit_bzero(line, sizeof line);
  if (written == sizeof line - 1) return BANYAN_OK;
  unlink(path);
  return by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write token file %s", path);
}

enum banyan_status by_token_read_or_make(const char *path, struct by_token *out) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    enum banyan_status status = write_new(path, fd);
    close(fd);
    BY_TRY(status);
  } else if (errno != EEXIST) {
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make token file %s (--token-file)", path);
  }
  return by_token_read(path, out);
}

bool by_token_is(const struct by_token *token, const char *given) {
  char padded[sizeof token->text] = {0};
  size_t length = given ? strnlen(given, sizeof padded) : 0;
  if (length < BY_TOKEN_LEAST || length >= sizeof padded) return false;
  memcpy(padded, given, length);
  return CRYPTO_memcmp(padded, token->text, sizeof padded) == 0;
}
