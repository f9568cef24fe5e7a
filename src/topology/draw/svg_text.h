/* What all SVG drawings share: the document's head with its colours, and text that is well-formed whatever it contains.
 * The colours are those of the manager's web page. No state. */
#ifndef BY_TOPOLOGY_DRAW_SVG_TEXT_H
#define BY_TOPOLOGY_DRAW_SVG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

enum { BY_SVG_TREE_COLOURS = 8 };

/* Begins a document of this size in pixels. It follows the reader's setting of light or dark colours, unless `dark`.
 * Classes: bg for the background; t u k n e r for texts; h p i s a for nodes; u0 .. u9, o for strokes by use; t0 .. t7
 * for strokes of trees, f0 .. f7 for areas in their colours; b for boxes. */
void by_svg_begin(struct by_text *text, double width, double height, bool dark);
/* Returns the class of the stroke of a link of which this part is used. */
const char *by_svg_use(double part);

/* Adds a string as text or as a quoted value, cut with "…" to `max` characters. */
void by_svg_add(struct by_text *text, const char *string, size_t max);
/* Adds a name like by_svg_add. A name that is too long loses its domain, and then its middle, since names often differ
 * at their ends. */
void by_svg_add_name(struct by_text *text, const char *name, size_t max);
/* Returns the approximate width in pixels of a string, cut to `max` characters, in letters of this size. */
double by_svg_width(const char *string, size_t max, double size);

#endif
