/* What the command line asks for. */
#ifndef FASHION_OPTIONS_H
#define FASHION_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { OPTIONS_HIDDEN = 6 };

struct options {
  int epochs;
  int batch; /* samples of one step, over all ranks */
  int limit; /* training images used; 0: all */
  int hidden[OPTIONS_HIDDEN], hidden_layers;
  double rate; /* learning rate of the first step; falls to 0 along a line */
  uint64_t seed;
  const char *data, *loss_log; /* the latter may be NULL */
  bool quiet, json, terminal;
};

/* Strings stay argv's. Prints help or what is wrong and ends the process
 * where the command line does not ask for a training run. */
void options_parse(int argc, char **argv, struct options *out);

#endif
