#ifndef PROBE_MACHINE_H
#define PROBE_MACHINE_H

#include "probe/handles.h"
#include "probe/sample.h"

/*
 * machine - the files that tell of the machine as a whole. `handles`: NULL, or those that stay open.
 */

/* MemTotal, MemAvailable, MemFree and swap of /proc/meminfo. -EBADMSG where they make no sense. */
int machine_read_memory(struct handles *handles, const char *root, struct sample *sample, struct err *err);

/* High watermarks; and to what is available comes what processors keep on free lists of their own. */
void machine_read_zones(struct handles *handles, const char *root, struct sample *sample);

/* Counters of trouble and PSI: what is missing is 0, or -1 for PSI. */
void machine_read_pressure(struct handles *handles, const char *root, struct sample *sample);

/* avg10 of a file of PSI in hundredths of a percent; -1 where it does not tell. */
void machine_read_psi(struct handles *handles, const char *root, const char *name, int64_t *some_centi, int64_t *full_centi);

/* The number that a process or thread got last; they are given in order, until they begin anew. 0: not told. */
pid_t machine_newest_pid(struct handles *handles, const char *root);

/* What hardly changes: the source of power. */
void machine_read_slow(const char *root, struct sample *sample);

/* MemFree of this machine, at next to no cost; 0 where it is not told. */
int64_t machine_free_now(void);

/* Of the machine recorded in `root`, or of this one. */
int64_t machine_page_bytes(const char *root);

#endif
