/* What all drawings share: the document's head with its colours, and text that is well-formed whatever it contains. The
 * colours are those of the manager's web page. No state. */
#ifndef BY_TOPOLOGY_DRAW_SVG_TEXT_H
#define BY_TOPOLOGY_DRAW_SVG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

enum { BY_SVG_TREE_COLOURS = 8 };

/* Begins a document of this size. It follows the reader's setting of light or dark colours, unless `dark`. Classes: bg;
 * t u k n e r for texts; h p i s a for nodes; u0 .. u9, o for strokes by use; t0 .. t7 for strokes of trees, f0 .. f7
 * for what is filled with their colours; b for boxes. */
void by_svg_begin(struct by_text *text, double width, double height, bool dark);
/* The class of a stroke for a link that is used to this part. */
const char *by_svg_use(double part);

/* Adds a string as text or as a value between quotes, cut with "…" to so many characters. */
void by_svg_add(struct by_text *text, const char *string, size_t most);
/* The same of a name: where it is too long it loses its domain, and then its middle, since names often differ at their
 * ends. */
void by_svg_add_name(struct by_text *text, const char *name, size_t most);
/* About how wide it is then, in pixels, in letters of this size. */
double by_svg_width(const char *string, size_t most, double size);

#endif
