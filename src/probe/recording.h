#ifndef PROBE_RECORDING_H
#define PROBE_RECORDING_H

#include "base/err.h"
#include "probe/topology.h"

/*
 * recording - this machine as a tree that --root reads, for a report.
 *
 * Only what the probe reads is saved, and of it only the lines that it needs:
 * no names of hosts, users or paths, no environments, of command lines only what a vLLM takes. Of
 * programs the largest and those that use a GPU are saved, by the kernel's name
 * of 15 letters; control groups lose their names and keep
 * their depth and their limits.
 */

/* Of what is below `root`; "" is this machine. `folder` is made; it must not hold a recording yet. 0 or a negative errno. */
int recording_save(const char *root, const char *folder, const struct topology *topology, struct err *err);

#endif
