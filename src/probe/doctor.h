#ifndef PROBE_DOCTOR_H
#define PROBE_DOCTOR_H

#include "probe/programs.h"
#include "probe/topology.h"

/*
 * doctor - what of this machine's settings stands in the way of models.
 *
 * A table of checks; each that applies to the platform becomes one finding:
 * what was found, what is wanted, why, and the command or file that changes it.
 * What could not be looked at is "unknown" and never taken for good.
 */
enum finding_status {
	FINDING_OK,
	FINDING_ADVICE,
	FINDING_PROBLEM,
	FINDING_UNKNOWN,
};

enum { FINDINGS_MAX = 64, FINDING_BYTES = 320 };

struct finding {
	const char *id;
	enum finding_status status;
	uint32_t weight; /* how much it matters; higher first */
	char found[FINDING_BYTES];
	char wanted[FINDING_BYTES];
	const char *why;
	char fix[FINDING_BYTES]; /* "" where there is nothing to do */
};

struct findings {
	struct finding list[FINDINGS_MAX];
	uint32_t count;
};

/* `root` is "" on this machine. `service`: for whom, NULL: nothing is known of that. */
struct doctor_service;
void doctor_examine(const char *root, const struct topology *topology, const struct programs *programs,
                    const struct doctor_service *service, struct findings *out);

/* "ok", "advice", "problem", "unknown" */
const char *finding_status_name(enum finding_status status);

/*
 * The indices of the findings that matter most, problems before advice and the
 * heavier first; at most `most`. Returns how many.
 */
uint32_t doctor_foremost(const struct findings *findings, uint32_t *out, uint32_t most);

#endif
