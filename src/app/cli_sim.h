#ifndef APP_CLI_SIM_H
#define APP_CLI_SIM_H

#include "app/cli.h"

/* cli_sim - `lab sim WORKLOAD|FILE.json`: a policy under a day's load, several seeds at once. */
int cli_sim_study(const struct cli_args *args, uint64_t first, uint64_t last);

/* The workloads and policies there are, one a line. */
void cli_sim_list(void);

#endif
