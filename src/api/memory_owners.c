/* Who has what: with a daemon its instances and the rest, without one the programs by name. */
#include <string.h>

#include "api/memory.h"
#include "api/value.h"

enum { PROGRAMS_SHOWN = 12, PROGRAM_LEAST = 64 << 20 };

/* What of each pool is not yet anybody's. */
struct rest {
	int64_t bytes[POOLS_KNOWN_MAX];
};

static int64_t take(struct rest *rest, uint32_t pool, int64_t bytes)
{
	int64_t taken = bytes < rest->bytes[pool] ? bytes : rest->bytes[pool];

	taken = taken > 0 ? taken : 0;
	rest->bytes[pool] -= taken;
	return taken;
}

static json_t *add_owner(json_t *owners, const char *kind, const char *name, int64_t claim,
                         int64_t measured)
{
	json_t *owner =
	        json_pack("{s:s, s:o, s:I, s:I}", "kind", kind, "name", json_lossy(str_from(name)),
	                  "claim_bytes", (json_int_t)claim, "measured_bytes", (json_int_t)measured);

	json_array_append_new(owners, owner);
	return owner;
}

static void add_by_pool(const struct memory_input *in, json_t *owner,
                        const int64_t bytes[POOLS_KNOWN_MAX])
{
	json_t *by_pool = json_object();

	for (uint32_t pool = topology_knows_ram(in->topology) ? 0 : 1; pool < in->topology->pools; pool++)
		json_object_set_new(by_pool, in->topology->pool[pool].name,
		                    json_integer(bytes[pool]));
	if (in->topology->pools > 1)
		json_object_set_new(owner, "by_pool", by_pool);
	else
		json_decref(by_pool);
}

int64_t memory_leak_bytes(const struct memory_input *in)
{
	return in->programs ? programs_leak_bytes(in->topology, in->programs) : 0;
}

static void add_programs(const struct memory_input *in, json_t *owners, struct rest *rest)
{
	const struct programs *programs = in->programs;

	for (uint32_t i = 0; i < programs->count && i < PROGRAMS_SHOWN; i++) {
		const struct program *program = &programs->list[i];
		int64_t bytes[POOLS_KNOWN_MAX] = { 0 }, sum = 0;
		for (uint32_t pool = 0; pool < in->topology->pools; pool++) {
			bytes[pool] =
			        take(rest, pool,
			             pool ? program->gpu_bytes[pool] : program_ram_bytes(program));
			sum += bytes[pool];
		}
		if (sum + program->swap_bytes + program->left_out_bytes < PROGRAM_LEAST) {
			for (uint32_t pool = 0; pool < in->topology->pools; pool++)
				rest->bytes[pool] += bytes[pool];
			continue;
		}
		json_t *owner = add_owner(owners, "foreign", program->name, 0, sum);
		add_by_pool(in, owner, bytes);
		json_object_set_new(owner, "processes", json_integer(program->processes));
		json_object_set_new(owner, "swap_bytes", json_integer(program->swap_bytes));
		if (program->left_out_bytes > 0) /* in no pool, and so in no sum */
			json_object_set_new(owner, "left_out_bytes", json_integer(program->left_out_bytes));
	}
}

static void add_leak(const struct memory_input *in, json_t *owners, struct rest *rest)
{
	int64_t bytes[POOLS_KNOWN_MAX] = { 0 };
	int64_t leak = memory_leak_bytes(in);

	if (leak <= 0)
		return;
	bytes[0] = take(rest, 0, leak);
	add_by_pool(in, add_owner(owners, "leak", "gpu driver", 0, bytes[0]), bytes);
}

static void add_rest(const struct memory_input *in, json_t *owners, const char *kind,
                     const char *name, const struct rest *rest)
{
	int64_t sum = 0;

	for (uint32_t pool = 0; pool < in->topology->pools; pool++)
		sum += rest->bytes[pool];
	add_by_pool(in, add_owner(owners, kind, name, 0, sum), rest->bytes);
}

/*
 * The rest of each pool: of the RAM by `kind`, of the GPUs' own memories nobody's that is known, for a system needs
 * none of those by itself.
 */
static void add_rests(const struct memory_input *in, json_t *owners, const char *kind, const char *name, const struct rest *rest)
{
	struct rest ram = { { rest->bytes[0] } }, others = *rest;
	int64_t unknown = 0;

	others.bytes[0] = 0;
	for (uint32_t pool = 1; pool < in->topology->pools; pool++)
		unknown += others.bytes[pool];
	if (topology_knows_ram(in->topology))
		add_rest(in, owners, kind, name, &ram);
	if (unknown > 0)
		add_rest(in, owners, "unknown", "not identified", &others);
}

/* One reading: programs by name, what nobody owns, and for the system the rest. */
static json_t *owners_of_reading(const struct memory_input *in)
{
	json_t *owners = json_array();
	struct rest rest = { 0 };

	for (uint32_t pool = 0; pool < in->topology->pools; pool++)
		rest.bytes[pool] = in->topology->pool[pool].unreclaimable_bytes;
	if (in->programs)
		add_programs(in, owners, &rest);
	add_leak(in, owners, &rest);
	add_rests(in, owners, "system", "baseline", &rest);
	return owners;
}

/* What stays behind each time: a line of foreign use, with its owner. */
static void add_slopes(const struct memory_input *in, json_t *owners, struct rest *rest)
{
	struct model_view model;

	for (uint32_t i = 0; in->leak && i < arbiter_models(in->arbiter); i++) {
		int64_t bytes[POOLS_KNOWN_MAX] = { 0 };
		uint32_t cycles = 0;
		int64_t each = in->leak(in->leak_ctx, i, &cycles);
		if (each <= 0 || !arbiter_model(in->arbiter, i, &model))
			continue;
		bytes[0] = take(rest, 0, each * cycles);
		json_t *owner = add_owner(owners, "leak", model.spec->name, 0, bytes[0]);
		add_by_pool(in, owner, bytes);
		json_object_set_new(owner, "bytes_per_cycle", json_integer(each));
		json_object_set_new(owner, "cycles", json_integer(cycles));
	}
}

/* Where KV follows use, what of the claim is for conversations. */
static void add_kv(json_t *owner, const struct model_view *model)
{
	if (!(model->spec->flags & MODEL_LAZY))
		return;
	json_object_set_new(owner, "kv_claim_bytes", json_integer(model->kv_bytes));
	json_object_set_new(owner, "kv_kept_bytes", json_integer(model->kept_bytes));
	json_object_set_new(owner, "tokens", json_integer(model->kept_tokens));
}

static void add_instances(const struct memory_input *in, json_t *owners)
{
	struct model_view model;

	for (uint32_t i = 0; i < arbiter_models(in->arbiter); i++)
		if (arbiter_model(in->arbiter, i, &model) && !id_is_none(model.instance)) {
			int64_t bytes[POOLS_KNOWN_MAX] = { 0 };
			for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
				bytes[pool] = amount_in_pool(&model.measured, pool);
			json_t *owner = add_owner(owners, "instance", model.spec->name, model.claim_bytes,
			                          model.measured_bytes);
			json_object_set_new(owner, "managed", json_boolean(!(model.spec->flags & MODEL_OUTSIDE)));
			add_by_pool(in, owner, bytes);
			add_kv(owner, &model);
		}
}

json_t *memory_owners_json(const struct memory_input *in, int64_t baseline_bytes)
{
	struct rest base = { { 0 } }, other = { { 0 } };
	json_t *owners;
	struct pool_view pool;

	if (!in->arbiter || arbiter_pools(in->arbiter) == 0)
		return owners_of_reading(in);
	owners = json_array();
	for (uint32_t i = 0; i < in->topology->pools && i < arbiter_pools(in->arbiter); i++) {
		arbiter_pool(in->arbiter, i, &pool);
		other.bytes[i] = pool.foreign_bytes;
	}
	/* Who has a name comes first: they were there, most of them, when the baseline was learned. */
	add_slopes(in, owners, &other);
	if (in->programs)
		add_programs(in, owners, &other);
	add_leak(in, owners, &other);
	base.bytes[0] = take(&other, 0, baseline_bytes);
	add_rest(in, owners, "system", "baseline", &base);
	add_rests(in, owners, "foreign", "other programs", &other);
	add_instances(in, owners);
	return owners;
}
