#ifndef APP_CLI_ARGS_H
#define APP_CLI_ARGS_H

#include "app/cli.h"

/*
 * cli_args - one verb's options and operands, read and explained by its table.
 */
enum { CLI_ARGS_RUN = -1 };

/* Fill `args`; CLI_ARGS_RUN, or the exit code where help was asked for or the usage is wrong (said). */
int cli_args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_args *args);

/* The verb's `--help`. */
void cli_args_help(const struct cli_verb *verb);

#endif
