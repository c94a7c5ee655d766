#ifndef CORE_IDS_H
#define CORE_IDS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * ids - names that die with what they name.
 *
 * A row of a table is reused; its generation is not. So an event of an older
 * life arrives with a stale generation and touches nothing. Generation 0 is
 * never live: a zeroed id names nobody. Ids stay inside the process; outside,
 * a thing is named `<boot, 8 hex digits>-<sequence>`, and a sequence is never
 * given twice in one boot.
 */
struct id {
	uint32_t index;
	uint32_t generation;
};

#define ID_NONE ((struct id){ UINT32_MAX, 0 })
#define MODEL_NONE UINT32_MAX

static inline bool id_equal(struct id a, struct id b)
{
	return a.index == b.index && a.generation == b.generation;
}

static inline bool id_is_none(struct id id)
{
	return id.generation == 0;
}

#endif
