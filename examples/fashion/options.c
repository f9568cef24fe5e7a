#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: banyan run -n 4 -- fashion [options]\n"
    "Trains a multi-layer perceptron on Fashion-MNIST, data-parallel over all ranks.\n"
    "\n"
    "  --epochs N       times through the training images (15)\n"
    "  --batch N        samples of one step, over all ranks (256)\n"
    "  --lr X           learning rate of the first step; falls to 0 along a line (0.05)\n"
    "  --hidden N,N,..  widths of the hidden layers, at most 6 (512,256)\n"
    "  --seed N         of the first parameters and of the shuffling (1)\n"
    "  --limit N        use only the first N training images (all)\n"
    "  --data DIR       where the gzipped idx files are (/usr/share/datasets/fashion-mnist)\n"
    "  --loss-log FILE  write each step's loss: step, loss\n"
    "  --json           one JSON value for each epoch and one at the end on standard output\n"
    "  --terminal       overwrite one line of progress, also where the output is a pipe that ends in a terminal\n"
    "  --quiet          no progress\n"
    "  --help           this text\n"
    "\n"
    "All ranks must be given the same options.\n";

__attribute__((noreturn)) static void usage_error(const char *option, const char *value, const char *wanted) {
  fprintf(stderr, "fashion: --%s %s: must be %s; see --help\n", option, value, wanted);
  exit(2);
}

static int parse_int(const char *option, const char *text, int least, int most) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && value >= least && value <= most) return (int)value;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "a whole number from %d to %d", least, most);
  usage_error(option, text, wanted);
}

static double parse_rate(const char *text) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value) || value <= 0) usage_error("lr", text, "a number above 0");
  return value;
}

static void parse_hidden(const char *text, struct options *out) {
  static const char wanted[] = "1 to 6 widths from 1 to 8192, such as 512,256";
  const char *from = text;
  char *end;
  for (out->hidden_layers = 0; out->hidden_layers < OPTIONS_HIDDEN; from = end + 1) {
    long value = strtol(from, &end, 10);
    if (end == from || value < 1 || value > 8192) break;
    out->hidden[out->hidden_layers++] = (int)value;
    if (*end == '\0') return;
    if (*end != ',') break;
  }
  usage_error("hidden", text, wanted);
}

static void apply(int code, struct options *out) {
  switch (code) {
  case 'e': out->epochs = parse_int("epochs", optarg, 1, 100000); break;
  case 'b': out->batch = parse_int("batch", optarg, 1, 65536); break;
  case 'r': out->rate = parse_rate(optarg); break;
  case 'n': parse_hidden(optarg, out); break;
  case 's': out->seed = (uint64_t)parse_int("seed", optarg, 0, 2147483647); break;
  case 'm': out->limit = parse_int("limit", optarg, 1, 1000000); break;
  case 'd': out->data = optarg; break;
  case 'l': out->loss_log = optarg; break;
  case 'j': out->json = true; break;
  case 't': out->terminal = true; break;
  case 'q': out->quiet = true; break;
  case 'h': fputs(help, stdout); exit(0);
  default: fputs("fashion: see --help\n", stderr); exit(2);
  }
}

void options_parse(int argc, char **argv, struct options *out) {
  static const struct option table[] = {{"epochs", required_argument, NULL, 'e'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"lr", required_argument, NULL, 'r'},
                                        {"hidden", required_argument, NULL, 'n'},
                                        {"seed", required_argument, NULL, 's'},
                                        {"limit", required_argument, NULL, 'm'},
                                        {"data", required_argument, NULL, 'd'},
                                        {"loss-log", required_argument, NULL, 'l'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"terminal", no_argument, NULL, 't'},
                                        {"quiet", no_argument, NULL, 'q'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *out = (struct options){.epochs = 15,
                          .batch = 256,
                          .hidden = {512, 256},
                          .hidden_layers = 2,
                          .rate = 0.05,
                          .seed = 1,
                          .data = "/usr/share/datasets/fashion-mnist"};
  int code;
  while ((code = getopt_long(argc, argv, "", table, NULL)) != -1) apply(code, out);
  if (optind == argc) return;
  fprintf(stderr, "fashion: unexpected \"%s\"; see --help\n", argv[optind]);
  exit(2);
}
