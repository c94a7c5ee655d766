#ifndef API_MEMORY_H
#define API_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/arbiter.h"
#include "probe/programs.h"
#include "probe/topology.h"

/*
 * memory - the account of every byte, as JSON.
 *
 * With the daemon it is the arbiter's ledger; without one it is what a single
 * reading tells, and says so. In each pool the owners' measured bytes add up to
 * its unreclaimable use: instances, programs by name, leaks, and for what is left
 * of the RAM the system; of a GPU's own memory, which no system needs, the rest is
 * nobody's that is known. What is not known is null, and never 0.
 */
enum { MEMORY_BLOCKED_MAX = 2, MEMORY_LEFT_MAX = 4 };

struct memory_input {
	const struct arbiter *arbiter;   /* NULL: no daemon, the reading alone */
	const struct topology *topology; /* never NULL; its pools are the arbiter's */
	const struct programs *programs; /* NULL: nobody looked who else is there */
	int64_t (*leak)(void *ctx, uint32_t model, uint32_t *out_cycles); /* api_host.leak, or NULL */
	void *leak_ctx;
	int64_t baseline_bytes; /* of system RAM; -1 = not known: the reading's own use is taken */
	bool baseline_learned;  /* in a quiet minute, of this life or an earlier one */
	int64_t limit_bytes;    /* memory.limit; INT64_MAX = none */
	const char *unread;     /* why nothing was read for unread_us; NULL or "": it was */
	int64_t unread_us;
	const char *const *left_behind; /* NULL, or MEMORY_LEFT_MAX sentences, NULL or "" where there is none */
	const char *blocked[MEMORY_BLOCKED_MAX]; /* what gives no answer; NULL or "": nothing */
};

/* A new reference. */
json_t *memory_json(const struct memory_input *input);

/* [{"name", "state", "effect" where it is no use}]: a new reference. */
json_t *inputs_json(const struct inputs *inputs);

/* memory_owners.c: the owners alone; `baseline_bytes` is decided. For memory_json(). */
json_t *memory_owners_json(const struct memory_input *input, int64_t baseline_bytes);

/* Of the RAM's foreign use what the system needs by itself; `known_bytes` as baseline_bytes above. For /metrics too. */
int64_t memory_baseline(const struct topology *topology, int64_t known_bytes, int64_t foreign_bytes);

/* Bytes in a driver's pools that no process owns; 0 = none, -1 = nobody can tell. */
int64_t memory_leak_bytes(const struct memory_input *input);

#endif
