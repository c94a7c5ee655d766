#ifndef APP_CLI_SIM_H
#define APP_CLI_SIM_H

#include "app/cli.h"
#include "sim/study.h"

/* cli_sim - `lab sim WORKLOAD|FILE.json`: a policy under a day's load, several seeds at once. */
int cli_sim_study(const struct cli_args *args, uint64_t first, uint64_t last);

/* Figures of so many policies (study_policy's order) as a picture. 0 or a negative errno. */
int cli_sim_svg(const char *path, const char *title, const struct study_result *results, uint32_t count);

/* The workloads and policies there are, one a line. */
void cli_sim_list(void);

#endif
