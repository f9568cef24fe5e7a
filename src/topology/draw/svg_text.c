/* Writes the head of SVG documents, and text that is well-formed XML. */
#include "svg_trees.h"

#include <string.h>

/* ---- Colours. */

static const char fixed[] =
    "text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif}.t{font-size:18px;font-weight:600}"
    ".u{font-size:12px}.k{font-size:11px}.n{font-size:11px;text-anchor:middle}"
    ".e{text-anchor:end}.r{font-size:9.5px;text-anchor:middle}"
    ".n,.r{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}.p{stroke-width:2;stroke-dasharray:3 2}"
    ".b .n{stroke:none}.b .p{stroke-dasharray:3 2}.b .s{stroke-width:1.5}.b .v{stroke-width:3}"
    ".c,.b{fill:none}.x .c{stroke-width:.6}.c{stroke-width:1.8;stroke-opacity:.85}.t1{stroke-dasharray:7 "
    "3}.t2{stroke-dasharray:2 3}"
    ".t3{stroke-dasharray:9 3 2 3}.l{stroke-dasharray:none}";

/* A CSS rule without its value, and its values for light and dark colours. */
static const struct {
  const char *rule, *light, *dark;
} colours[] = {
    {".bg,.b rect,.w{fill", "#fff", "#1b2220"},
    {"text{fill", "#1d2721", "#e4eae6"},
    {".u,.k,.r{fill", "#55625a", "#9caaa2"},
    {".n,.r{stroke", "#fff", "#1b2220"},
    {".h{fill", "#2c6e9e", "#63a8d8"},
    {".p{stroke", "#2c6e9e", "#63a8d8"},
    {".p{fill", "#fff", "#1b2220"},
    {".i{fill", "#c9d1cc", "#44504a"},
    {".s{fill", "#4b5a52", "#93a39a"},
    {".a{fill", "#1f7a4d", "#5fc48d"},
    {".b .s{fill", "#dfe4e0", "#303a35"},
    {".u0{stroke", "#c9d1cc", "#44504a"},
    {".u1{stroke", "#9cc7b4", "#3d7560"},
    {".u2{stroke", "#7dbb9f", "#3f8a6a"},
    {".u3{stroke", "#69b187", "#4ba273"},
    {".u4{stroke", "#93b35c", "#7fa54a"},
    {".u5{stroke", "#c4b33f", "#b3a339"},
    {".u6{stroke", "#dfa331", "#d39a35"},
    {".u7{stroke", "#e08427", "#e08a3a"},
    {".u8{stroke", "#d65a2a", "#ec6a3c"},
    {".u9{stroke", "#c2272d", "#ff5252"},
    {".o{stroke", "#6a0f1a", "#ff9bd2"},
    {".t0{stroke", "#1f5fbf", "#74a9ff"},
    {".t1{stroke", "#c2410c", "#ff9a5c"},
    {".t2{stroke", "#7e22ce", "#c79bff"},
    {".t3{stroke", "#0f766e", "#4fd1c5"},
    {".t4{stroke", "#be185d", "#ff8ac0"},
    {".t5{stroke", "#4d7c0f", "#a6d65c"},
    {".t6{stroke", "#92400e", "#e0b07a"},
    {".t7{stroke", "#334155", "#b6c2cf"},
    {".f0{fill", "#1f5fbf", "#74a9ff"},
    {".f1{fill", "#c2410c", "#ff9a5c"},
    {".f2{fill", "#7e22ce", "#c79bff"},
    {".f3{fill", "#0f766e", "#4fd1c5"},
    {".f4{fill", "#be185d", "#ff8ac0"},
    {".f5{fill", "#4d7c0f", "#a6d65c"},
    {".f6{fill", "#92400e", "#e0b07a"},
    {".f7{fill", "#334155", "#b6c2cf"},
};

static void add_colours(struct by_text *text, bool dark) {
  for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
    by_text_add(text, "%s:%s}", colours[i].rule, dark ? colours[i].dark : colours[i].light);
}

void by_svg_begin(struct by_text *text, double width, double height, bool dark) {
  by_text_add(text,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
              "<style>%s\n",
              width, height, width, height, fixed);
  add_colours(text, dark);
  if (!dark) {
    by_text_add(text, "\n@media (prefers-color-scheme:dark){");
    add_colours(text, true);
    by_text_add(text, "}");
  }
  by_text_add(text, "</style>\n<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n");
}

const char *by_svg_use(double part) {
  static const char *const names[] = {"u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"};
  if (!(part > 0.005)) return names[0];
  if (part > 1.000001) return "o";
  int step = 1 + (int)(part * 9);
  return names[step < 9 ? step : 9];
}

/* ---- Text. */

/* Returns the length in bytes of the first character; 0: XML 1.0 does not permit it (control characters, invalid UTF-8,
 * U+FFFE and U+FFFF). */
static size_t get_character_length(const char *at) {
  static const size_t longest = 4;
  char one[5] = "";
  strncpy(one, at, longest);
  size_t length = 1;
  while (length < longest && ((unsigned char)at[length] & 0xc0) == 0x80) length++;
  one[length] = '\0';
  if (by_printable_length(one) != length) return 0;
  return length == 3 && (!memcmp(at, "\xef\xbf\xbe", 3) || !memcmp(at, "\xef\xbf\xbf", 3)) ? 0 : length;
}

/* Adds at most n characters. Returns the rest of the string. */
static const char *add_characters(struct by_text *text, const char *string, size_t n) {
  for (; *string && n; n--) {
    size_t length = get_character_length(string);
    if (!length)
      by_text_add(text, "?");
    else if (strchr("&<>\"'", *string))
      by_text_add(text, "&#%d;", *string);
    else
      by_text_add_bytes(text, string, length);
    string += length ? length : 1;
  }
  return string;
}

static const char *skip_characters(const char *string, size_t n) {
  for (; *string && n; n--) {
    size_t length = get_character_length(string);
    string += length ? length : 1;
  }
  return string;
}

static size_t count_characters(const char *string) {
  size_t n = 0;
  for (; *string; string = skip_characters(string, 1)) n++;
  return n;
}

void by_svg_add(struct by_text *text, const char *string, size_t max) {
  bool cut = count_characters(string) > max;
  add_characters(text, string, cut ? max - 1 : max);
  if (cut) by_text_add(text, "…");
}

void by_svg_add_name(struct by_text *text, const char *name, size_t max) {
  size_t n = count_characters(name), host = strcspn(name, ".");
  if (n > max && host && host < n && !(*name >= '0' && *name <= '9'))
    n = host; /* This is a number of bytes; host names have single-byte characters only. */
  if (n <= max) {
    add_characters(text, name, n);
    return;
  }
  size_t end = max / 2, begin = max - 1 - end;
  const char *rest = skip_characters(add_characters(text, name, begin), n - begin - end);
  by_text_add(text, "…");
  add_characters(text, rest, end);
}

double by_svg_width(const char *string, size_t max, double size) {
  size_t n = count_characters(string);
  return 0.6 * size * (double)(n > max ? max : n);
}
