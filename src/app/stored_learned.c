#include "app/stored_learned.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(struct learned_row, sure) == sizeof(struct numbered_learned), "what is new stands behind");
_Static_assert(sizeof(struct numbered_learned) != sizeof(struct stored_learned), "they are told apart by their size");

static int32_t number_of(const struct pool_names *names, uint64_t hash)
{
	for (int32_t i = 0; i < POOLS_MAX && hash; i++)
		if (names->hash[i] == hash)
			return i;
	return -1;
}

void stored_learned_of(const struct learned_row *row, const struct pool_names *names, struct stored_learned *out)
{
	*out = (struct stored_learned){ .version = STORED_LEARNED_VERSION, .row = *row };
	if (row->file_key == LEARNED_PACE)
		out->row.build_key = row->build_key < POOLS_MAX ? names->hash[row->build_key] : 0;
	else
		memcpy(out->pool, names->hash, sizeof(out->pool));
}

static bool number_anew(const struct stored_learned *stored, const struct pool_names *names, const struct amount *was,
                        struct amount *out)
{
	*out = (struct amount){ 0 };
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		int32_t number = number_of(names, stored->pool[pool]);
		for (uint32_t use = 0; use < USE_COUNT; use++) {
			if (was->bytes[pool][use] && number < 0)
				return false;
			if (was->bytes[pool][use])
				out->bytes[number][use] = was->bytes[pool][use];
		}
	}
	return true;
}

bool stored_learned_here(const struct stored_learned *stored, const struct pool_names *names, struct learned_row *out)
{
	const struct learned_row *row = &stored->row;

	if (stored->version != STORED_LEARNED_VERSION)
		return false;
	*out = *row;
	if (row->file_key == LEARNED_PACE) {
		int32_t number = number_of(names, row->build_key);
		out->build_key = (uint64_t)number;
		return number >= 0;
	}
	return number_anew(stored, names, &row->base, &out->base) && number_anew(stored, names, &row->peak, &out->peak) &&
	       number_anew(stored, names, &row->sigma, &out->sigma) && number_anew(stored, names, &row->sure, &out->sure);
}

void stored_learned_of_numbered(const struct numbered_learned *old, const struct pool_names *names,
                                struct stored_learned *out)
{
	struct learned_row row = { .file_key = old->file_key };

	/* What a pace keeps lies where other rows have their first amounts. */
	memcpy(&row, old, sizeof(*old));
	stored_learned_of(&row, names, out);
	if (old->file_key == LEARNED_PACE) /* that went by name already */
		out->row.build_key = old->build_key;
}
