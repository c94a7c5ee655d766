#ifndef PROBE_OWNERS_H
#define PROBE_OWNERS_H

#include "base/err.h"
#include "probe/sample.h"

/*
 * owners - what each owner of a sample has.
 *
 * A process is an owner's by its session or group, by its number or its parent's, by its control group; where it left
 * its session by its parents, and where it lost those by the mark that the keeper put into its environment. Of what
 * the processes of an owner share each page counts once (group_sum.h).
 */

/* The answers of sample->owner[]; sample->seen is there. 0 or a negative errno. */
int owners_read(const char *root, struct sample *sample, struct err *err);

#endif
