/*
 * sim_seeds FROM TO [interplay] [trace]: random worlds, one a seed. A broken one is named
 * together with the command line that repeats it, also where an assertion ends us.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/random.h"

static char repeat[128];

static void say_how_to_repeat(int signal)
{
	(void)signal;
	ssize_t written = write(STDERR_FILENO, repeat, strlen(repeat));
	(void)written;
	_exit(1);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: sim_seeds FROM TO [interplay] [trace]\n");
		return 2;
	}
	uint64_t from = strtoull(argv[1], NULL, 10);
	uint64_t to = strtoull(argv[2], NULL, 10);
	uint64_t steps = 0, loads = 0, evictions = 0, unserved = 0, broken = 0;

	bool interplay = argc > 3 && strcmp(argv[3], "interplay") == 0;
	bool trace = argc > 3 && strcmp(argv[argc - 1], "trace") == 0;
	const char *kind = interplay ? "interplay" : "random";

	signal(SIGABRT, say_how_to_repeat);
	for (uint64_t seed = from; seed <= to; seed++) {
		struct sim_result result;
		snprintf(repeat, sizeof(repeat),
		         "repeat: cotenant lab sim %s --seeds %" PRIu64 "-%" PRIu64 "\n", kind, seed, seed);
		struct sim_options options = { .seed = seed, .trace = trace ? stdout : NULL, .interplay = interplay };
		if (sim_run(&options, &result) != 0) {
			fprintf(stderr, "seed %" PRIu64 ": %s\n%s", seed, result.problem, repeat);
			broken++;
		}
		steps += result.steps;
		loads += result.counters.loads;
		evictions += result.counters.evictions;
		unserved += result.counters.unserved;
	}
	printf("%" PRIu64 " worlds, %" PRIu64 " steps, %" PRIu64 " loads, %" PRIu64 " evictions, %" PRIu64 " of them "
	       "before anybody was served\n", to - from + 1, steps, loads, evictions, unserved);
	/* Emergencies and those who wait for each other's room aside, who was loaded for somebody serves him. */
	bool in_vain = unserved * 20 > evictions + 40;
	if (in_vain)
		fprintf(stderr, "too many went before they had served anybody\n");
	return broken || in_vain ? 1 : 0;
}
