/* `banyan mpirun`: starts a program with mpirun, and with the library that makes its collective calls with Banyan. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "launch.h"
#include "process.h"

struct mpirun_options {
  int abi; /* Index of the choice; -1: determined by the program. */
  const char *mpirun;
};

#define VALUES struct mpirun_options

static const struct by_option mpirun_options[] = {
    BY_CHOICE("abi", 0, abi, "openmpi|mpich",
              "the MPI library of the program; default: the one that it\nis linked with, or mpirun's"),
    BY_TEXT("mpirun", 0, mpirun, "PROGRAM", "the mpirun to start; default: that of the MPI library"),
    {.name = NULL},
};

static const struct by_command mpirun_command = {
    .name = "banyan mpirun",
    .usage = "[--abi openmpi|mpich] [--mpirun PROGRAM] ARGUMENTS OF MPIRUN...",
    .about = "Starts an MPI program as mpirun does, and makes its collective calls with Banyan:\n"
             "`banyan mpirun -n 4 ./program`. What follows Banyan's own options is given to mpirun\n"
             "as it is. The program need not be compiled again: the ranks, and only they, load a\n"
             "library (LD_PRELOAD) that takes the place of MPI's functions. There is one for\n"
             "programs of Open MPI and one for those of MPICH, on all hosts at the same place.\n"
             "\n"
             "Which one is needed is read from the program. If that is a script or an\n"
             "interpreter, as with mpi4py, it is the one of `mpirun`, or that of --abi.\n"
             "\n"
             "Variables of Banyan are set as others are: `-x BANYAN_PLAN=ring` with Open MPI,\n"
             "`-genv BANYAN_PLAN ring` with MPICH.\n"
             "\n"
             "Returns what mpirun returns; 1 if it could not be started.",
    .options = mpirun_options,
};

static const struct {
  const char *name;
  const char *launchers[3]; /* The first available one is started. */
} abis[] = {
    [BY_MPI_OPENMPI] = {"Open MPI", {"mpirun.openmpi", "mpirun"}},
    [BY_MPI_MPICH] = {"MPICH", {"mpirun.mpich", "mpirun"}},
};

/* Finds the program: mpirun has many options with values, so any word may be the program's; the first MPI program
 * counts. */
static enum by_mpi_abi abi_of_program(char *const *words) {
  char path[BY_PROGRAM_PATH];
  enum by_mpi_abi abi = BY_MPI_NONE;
  for (; *words && abi == BY_MPI_NONE; words++)
    if (**words != '-' && by_program_find(*words, path, sizeof path)) abi = by_program_abi(path);
  return abi;
}

static enum by_mpi_abi abi_of_launcher(const char *launcher) {
  char line[256];
  enum by_mpi_abi abi = BY_MPI_NONE;
  char *command = by_cli_print("'%s' --version 2>/dev/null", launcher);
  FILE *printed = strchr(launcher, '\'') ? NULL : popen(command, "re");
  free(command);
  while (printed && abi == BY_MPI_NONE && fgets(line, sizeof line, printed))
    abi = strstr(line, "Open MPI") || strstr(line, "OpenRTE") ? BY_MPI_OPENMPI
          : strstr(line, "HYDRA") || strstr(line, "MPICH")    ? BY_MPI_MPICH
                                                              : BY_MPI_NONE;
  if (printed) pclose(printed);
  return abi;
}

/* Finds the library in the folder of the build, or where it is installed. */
static bool find_library(enum by_mpi_abi abi, char *out) {
  static const char *const places[] = {"bindings/mpi", "../" BY_LIBRARIES "/banyan"};
  const char *name = abi == BY_MPI_OPENMPI ? "openmpi" : "mpich";
  char self[BY_PROGRAM_PATH], *end;
  if (!by_program_path(self) || !(end = strrchr(self, '/'))) return false;
  *end = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char *path = by_cli_print("%s/%s/libbanyan-%s.so", self, places[i], name);
    bool found = realpath(path, out) != NULL;
    free(path);
    if (found) return true;
  }
  return false;
}

/* Determines the mpirun, and its MPI library. Returns 0 if both are known; else the exit code. */
static int choose_launcher(const struct mpirun_options *options, char *const *words, enum by_mpi_abi *abi,
                           char *launcher) {
  const char *const usual[] = {"mpirun", NULL}, *const given[] = {options->mpirun, NULL};
  enum by_mpi_abi of_program = abi_of_program(words);
  *abi = options->abi >= 0 ? (enum by_mpi_abi)(options->abi + 1) : of_program;
  if (of_program != BY_MPI_NONE && of_program != *abi)
    return by_command_end(&mpirun_command, by_fail(BANYAN_ERR_UNSUPPORTED,
                                                   "the program is one of %s; leave out --abi, which is for scripts "
                                                   "and interpreters",
                                                   abis[of_program].name));
  const char *const *names = options->mpirun ? given : *abi == BY_MPI_NONE ? usual : abis[*abi].launchers;
  while (*names && !by_program_find(*names, launcher, BY_PROGRAM_PATH)) names++;
  if (!*names)
    return by_command_end(&mpirun_command,
                          by_fail(BANYAN_ERR_SYSTEM, "%s is not there: install %s, or name it with --mpirun",
                                  options->mpirun ? options->mpirun : "mpirun",
                                  *abi == BY_MPI_NONE ? "Open MPI or MPICH" : abis[*abi].name));
  enum by_mpi_abi of_launcher = abi_of_launcher(launcher);
  if (*abi == BY_MPI_NONE) *abi = of_launcher;
  if (*abi == BY_MPI_NONE)
    return by_command_end(&mpirun_command, by_fail(BANYAN_ERR_UNSUPPORTED,
                                                   "%s is neither of Open MPI nor of MPICH; use --abi", launcher));
  if (of_launcher != BY_MPI_NONE && of_launcher != *abi)
    return by_command_end(&mpirun_command, by_fail(BANYAN_ERR_UNSUPPORTED,
                                                   "the program is one of %s, and %s is of %s; choose with --mpirun",
                                                   abis[*abi].name, launcher, abis[of_launcher].name));
  return 0;
}

/* Returns the number of words with Banyan's options, which come first, including argv[0]. */
static int own_words(int argc, char **argv) {
  static const char *const flags[] = {"--help", "-h", "--version", "--quiet", "-q", "--verbose", "-v", "-vv"};
  int n = 1;
  while (n < argc) {
    const char *word = argv[n];
    bool takes_value = !strcmp(word, "--abi") || !strcmp(word, "--mpirun");
    bool is_own = takes_value || !strncmp(word, "--abi=", 6) || !strncmp(word, "--mpirun=", 9);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) is_own = is_own || !strcmp(word, flags[i]);
    if (!is_own) break;
    n += 1 + takes_value;
  }
  return n < argc ? n : argc;
}

/* Returns the value of LD_PRELOAD. The user's libraries come first: those that record calls of MPI intercept
 * MPI_Allreduce and call PMPI_Allreduce, which is Banyan's, too. */
static char *preload_of(const char *library) {
  const char *others = getenv("LD_PRELOAD");
  return others && *others ? by_cli_print("%s:%s", others, library) : by_cli_print("%s", library);
}

/* Builds the command line: mpirun, with an option that passes LD_PRELOAD to the ranks, and the user's words. Open MPI
 * needs it for each program, which ":" separates. */
static char **command_line(enum by_mpi_abi abi, char *launcher, const char *library, int n, char *const *words) {
  static char genv[] = "-genv", name[] = "LD_PRELOAD", x[] = "-x";
  char **out = by_cli_zeroed(3 * (size_t)n + 5, sizeof *out), *preload = preload_of(library);
  char *variable = by_cli_print("LD_PRELOAD=%s", preload);
  int at = 0;
  out[at++] = launcher;
  if (abi == BY_MPI_MPICH) {
    out[at++] = genv;
    out[at++] = name;
    out[at++] = preload;
  }
  for (int i = 0; i < n; i++) {
    if (abi == BY_MPI_OPENMPI && (i == 0 || !strcmp(words[i - 1], ":"))) {
      out[at++] = x;
      out[at++] = variable;
    }
    out[at++] = words[i];
  }
  return out;
}

/* Tells whether the user sets LD_PRELOAD by an option of mpirun, which replaces Banyan's. */
static bool sets_preload(int n, char *const *words) {
  static const char *const options[] = {"-x", "-env", "-genv"};
  for (int i = 1; i < n; i++)
    for (size_t o = 0; o < sizeof options / sizeof *options; o++)
      if (!strcmp(words[i - 1], options[o]) && !strncmp(words[i], "LD_PRELOAD", 10) && strchr("=", words[i][10]))
        return true;
  return false;
}

/* Parses Banyan's options, which end with NULL. */
static int parse_own(int own, char **argv, struct mpirun_options *options) {
  char **words = by_cli_zeroed((size_t)own + 1, sizeof *words);
  memcpy(words, argv, (size_t)own * sizeof *words);
  int exit_code = by_options_parse(&mpirun_command, own, words, options, NULL);
  free(words);
  return exit_code;
}

int by_cli_mpirun(int argc, char **argv) {
  struct mpirun_options options = {.abi = -1};
  enum by_mpi_abi abi;
  char launcher[BY_PROGRAM_PATH], library[BY_PROGRAM_PATH];
  int own = own_words(argc, argv), exit_code = parse_own(own, argv, &options);
  if (exit_code >= 0) return exit_code;
  if (own == argc) return by_options_misuse(&mpirun_command, "mpirun's arguments are missing, such as -n 4 ./program");
  if (sets_preload(argc - own, argv + own))
    return by_options_misuse(&mpirun_command,
                             "mpirun's LD_PRELOAD would take the place of Banyan's; set it before, as in "
                             "LD_PRELOAD=libother.so banyan mpirun ...");
  if ((exit_code = choose_launcher(&options, argv + own, &abi, launcher))) return exit_code;
  if (!find_library(abi, library))
    return by_command_end(&mpirun_command,
                          by_fail(BANYAN_ERR_UNSUPPORTED,
                                  "Banyan was built without %s, so it has no library for it; install what programs of "
                                  "%s are compiled with, and build Banyan again",
                                  abis[abi].name, abis[abi].name));
  execv(launcher, command_line(abi, launcher, library, argc - own, argv + own));
  return by_command_end(&mpirun_command, by_fail_errno(BANYAN_ERR_SYSTEM, errno, "starting %s", launcher));
}
