#ifndef PROBE_RECORDING_H
#define PROBE_RECORDING_H

#include "base/err.h"
#include "probe/topology.h"

/*
 * recording - this machine as a tree that --root reads, for a report.
 *
 * Only what the probe reads is saved, and of it only the lines that it needs:
 * no names of hosts, users or paths, no command lines, no environments. Of
 * programs the largest and those that use a GPU are saved, by the kernel's name
 * of 15 letters; control groups lose their names.
 */

/* `folder` is made; it must not hold a recording yet. 0 or a negative errno. */
int recording_save(const char *folder, const struct topology *topology, struct err *err);

#endif
