#ifndef PROBE_TOPOLOGY_PARTS_H
#define PROBE_TOPOLOGY_PARTS_H

#include "probe/topology.h"

/*
 * topology_parts - how the files that make a topology call each other; nobody
 * else includes this.
 */
#define GIB (INT64_C(1) << 30)
#define MIB (INT64_C(1) << 20)

#define NOWHERE NO_POOL

static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t at_least_zero(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

/* Within `percent` of `of`. */
static inline bool is_near(int64_t bytes, int64_t of, int percent)
{
	int64_t apart = bytes > of ? bytes - of : of - bytes;
	return of > 0 && apart <= of / 100 * percent;
}

/* A number of a file below root, -1 where there is none; how it was is noted. */
int64_t topology_number(const char *root, struct topology *t, const char *name, bool needed, const char *effect);

/* Is there such a file, whatever it holds? */
bool topology_is_there(const char *root, const char *name);
bool topology_has_folder(const char *root, const char *name);

void topology_warn(struct topology *t, const char *code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* devices.c: what there is. Pool 0 must be there. */
void topology_find_devices(const char *root, struct topology *t);

/* use.c: the machine's counters. */
int topology_read_meminfo(const char *root, struct topology *t, struct err *err);

/* use.c: those of one node, where there is such a node. */
int topology_read_node(const char *root, struct topology *t, uint32_t node, struct meminfo *out);

/* use.c: U of each pool. */
int topology_read_use(const char *root, struct topology *t, struct err *err);

/* vendors.c: sizes that no device has are no longer there; after the calls, before the devices are looked for. */
void topology_disbelieve(struct topology *t);
/* vendors.c: warnings of values that contradict others; after the use. */
void topology_judge_vendors(struct topology *t);

/* views.c: all readings of each pool. After the use, before what is allocatable. */
void topology_list_views(struct topology *t);

/* allocatable.c: for each device and runtime. */
void topology_weigh(struct topology *t);

/* use.c: what GPUs map of system RAM, as far as their drivers or their clients tell. */
int64_t topology_gtt_used(const struct topology *t);

/* use.c: a region of xe's of that card, or NULL. */
const struct calls_region *topology_region(const struct topology *t, const struct card *card, bool vram);

#endif
