/* The subcommands of `banyan`. Each gets the arguments from its own name on
 * (argv[0] is "run") and returns the exit code: 0 done, 1 failed, 2 misused;
 * `run` returns that of the ranks. They print results on standard output and
 * everything else on standard error. */
#ifndef BY_CLI_COMMANDS_H
#define BY_CLI_COMMANDS_H

struct by_subcommand {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help; /* one line; NULL: not listed */
};

/* Ends with a row without name. */
extern const struct by_subcommand by_subcommands[];

int by_cli_run(int argc, char **argv);
int by_cli_plan(int argc, char **argv);
int by_cli_lab(int argc, char **argv);
int by_cli_helper(int argc, char **argv);
int by_cli_server(int argc, char **argv);
int by_cli_keys(int argc, char **argv);
int by_cli_switch(int argc, char **argv);
int by_cli_manager(int argc, char **argv);
int by_cli_status(int argc, char **argv);
int by_cli_agent(int argc, char **argv);
int by_cli_topo(int argc, char **argv);
int by_cli_simulate(int argc, char **argv);
int by_cli_bench(int argc, char **argv);
int by_cli_doctor(int argc, char **argv);
/* What `run` starts on every host; talks to it over its standard input and output. */
int by_cli_run_host(int argc, char **argv);

#endif
