/* Values of settings that depend on the address of the peer. */
#include <string.h>

#include "address.h"
#include "settings.h"
#include "text.h"

/* The item at *list, which moves on to the next one or becomes NULL; bits < 0: for every peer. */
static enum banyan_status next_item(const char **list, char *value, struct by_address *subnet, int *bits) {
  char item[BY_CHOICE_TEXT + BY_ADDRESS_TEXT + 8];
  const char *comma = strchr(*list, ',');
  size_t length = comma ? (size_t)(comma - *list) : strlen(*list);
  if (length >= sizeof item) return by_fail(BANYAN_ERR_PARSE, "\"%.60s...\" is too long for one value", *list);
  memcpy(item, *list, length);
  item[length] = 0;
  *list = comma ? comma + 1 : NULL;
  char *at = strchr(item, '@');
  if (at) *at = 0;
  if (!*item || strlen(item) >= BY_CHOICE_TEXT)
    return by_fail(BANYAN_ERR_PARSE, "\"%s\" is no value; a list looks like \"a@10.0.0.0/8,b\"", item);
  strcpy(value, item);
  *bits = -1;
  return at ? by_subnet_parse(at + 1, subnet, bits) : BANYAN_OK;
}

enum banyan_status by_choose(const char *list, const struct by_address *peer, char *value) {
  *value = 0;
  while (list && *list) {
    struct by_address subnet;
    char item[BY_CHOICE_TEXT];
    int bits;
    BY_TRY(next_item(&list, item, &subnet, &bits));
    if (bits >= 0 && !by_address_same_subnet(peer, &subnet, bits)) continue;
    strcpy(value, item);
    break;
  }
  return BANYAN_OK;
}

enum banyan_status by_choose_check(const char *list, enum banyan_status (*check)(const char *value)) {
  if (!list || !*list) return BANYAN_OK;
  while (list) {
    struct by_address subnet;
    char item[BY_CHOICE_TEXT];
    int bits;
    BY_TRY(next_item(&list, item, &subnet, &bits));
    BY_TRY(check(item));
  }
  return BANYAN_OK;
}
