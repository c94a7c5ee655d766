#include "api/memory.h"

#include <stdbool.h>

#include "api/value.h"
#include "base/units.h"

/* Of what the baseline leaves, this share is what models should take at most. */
enum { BUDGET_PERCENT = 85 };

struct account {
	int64_t size, capacity, unreclaimable, foreign, held, free, usable, baseline;
};

static int64_t at_least_zero(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool has_cgroup_limit(const struct sample *sample)
{
	return sample->cgroup_limit_bytes < sample->total_bytes;
}

/* What one more allocation on the host could take before harm. */
static int64_t allocatable(const struct memory_input *in, const struct account *a)
{
	const struct sample *sample = in->sample;
	int64_t room = a->capacity - a->unreclaimable;

	if (has_cgroup_limit(sample))
		room = smaller(room, sample->cgroup_limit_bytes - sample->cgroup_used_bytes);
	return at_least_zero(room);
}

static struct account account_of(const struct memory_input *in)
{
	const struct sample *sample = in->sample;
	struct account a = { .size = sample->total_bytes,
		             .unreclaimable = sample->unreclaimable_bytes,
		             .foreign = sample->unreclaimable_bytes };
	struct pool_view pool;
	int64_t caps = INT64_MAX;

	a.capacity = a.size - in->reserve_bytes;
	if (has_cgroup_limit(sample))
		caps = sample->cgroup_limit_bytes;
	caps = smaller(caps, in->limit_bytes);
	a.free = smaller(allocatable(in, &a), in->limit_bytes);
	if (in->arbiter && arbiter_pools(in->arbiter) > 0) {
		arbiter_pool(in->arbiter, 0, &pool);
		a = (struct account){ .size = pool.size_bytes,
			              .capacity = pool.capacity_bytes,
			              .unreclaimable = pool.unreclaimable_bytes,
			              .foreign = pool.foreign_bytes,
			              .held = pool.held_bytes,
			              .free = at_least_zero(pool.free_bytes) };
	}
	a.baseline = in->baseline_bytes < 0 ? a.foreign : smaller(in->baseline_bytes, a.foreign);
	a.usable = at_least_zero(smaller(a.size - a.baseline, caps)) / 100 * BUDGET_PERCENT;
	return a;
}

static void add_view(json_t *views, const char *name, int64_t bytes, const char *used_as)
{
	json_array_append_new(views, json_pack("{s:s, s:I, s:s}", "name", name, "bytes",
	                                       (json_int_t)bytes, "used_as", used_as));
}

static json_t *views_json(const struct memory_input *in)
{
	const struct sample *sample = in->sample;
	json_t *views = json_array();

	add_view(views, "MemAvailable", sample->available_bytes, "reading");
	add_view(views, "MemFree", sample->free_bytes, "ignored");
	add_view(views, "SwapFree", sample->swap_free_bytes, "ignored");
	if (has_cgroup_limit(sample))
		add_view(views, "cgroup", sample->cgroup_limit_bytes, "cap");
	if (in->limit_bytes != INT64_MAX)
		add_view(views, "memory.limit", in->limit_bytes, "cap");
	return views;
}

static json_t *pools_json(const struct memory_input *in, const struct account *a)
{
	json_t *pool = json_object();

	json_object_set_new(pool, "name", json_string("ram"));
	json_object_set_new(pool, "size_bytes", json_integer(a->size));
	json_object_set_new(pool, "capacity_bytes", json_integer(a->capacity));
	json_object_set_new(pool, "usable_bytes", json_integer(a->usable));
	json_object_set_new(pool, "unreclaimable_bytes", json_integer(a->unreclaimable));
	json_object_set_new(pool, "free_bytes", json_integer(a->free));
	json_object_set_new(pool, "foreign_bytes", json_integer(a->foreign));
	json_object_set_new(pool, "claimed_bytes", json_integer(a->held));
	json_object_set_new(pool, "views", views_json(in));
	return json_pack("[o]", pool);
}

static void add_owner(json_t *owners, const char *kind, const char *name, int64_t claim,
                      int64_t measured)
{
	json_array_append_new(owners, json_pack("{s:s, s:o, s:I, s:I}", "kind", kind, "name",
	                                        json_lossy(str_from(name)), "claim_bytes",
	                                        (json_int_t)claim, "measured_bytes",
	                                        (json_int_t)measured));
}

static json_t *owners_json(const struct memory_input *in, const struct account *a)
{
	json_t *owners = json_array();
	struct model_view model;

	add_owner(owners, "system", "baseline", 0, a->baseline);
	add_owner(owners, "foreign", "other programs", 0, a->foreign - a->baseline);
	for (uint32_t i = 0; in->arbiter && i < arbiter_models(in->arbiter); i++)
		if (arbiter_model(in->arbiter, i, &model) && !id_is_none(model.instance))
			add_owner(owners, "instance", model.spec->name, model.claim_bytes,
			          model.measured_bytes);
	return owners;
}

static json_t *runtime_json(int64_t bytes)
{
	return json_pack("{s:I}", "allocatable_bytes", (json_int_t)bytes);
}

static json_t *runtimes_json(const struct memory_input *in, const struct account *a)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "rocm", runtime_json(0), "vulkan", runtime_json(0), "cuda",
	                 runtime_json(0), "cpu", runtime_json(allocatable(in, a)));
}

static void warn(json_t *warnings, const char *code, const char *message)
{
	json_array_append_new(warnings,
	                      json_pack("{s:s, s:s}", "code", code, "message", message));
}

static json_t *warnings_json(const struct memory_input *in, const struct account *a)
{
	const struct sample *sample = in->sample;
	json_t *warnings = json_array();

	if (in->baseline_bytes < 0)
		warn(warnings, "baseline_from_one_reading",
		     "the system's baseline is taken from this one reading; a running daemon learns it over time");
	if (has_cgroup_limit(sample))
		warn(warnings, "cgroup_limit", "a control group allows less than the machine has");
	if (in->limit_bytes != INT64_MAX && in->limit_bytes > a->capacity)
		warn(warnings, "limit_without_effect",
		     "memory.limit is more than the machine has after its reserve");
	if (a->foreign + a->held > a->capacity)
		warn(warnings, "over_capacity",
		     "what is in use or claimed is more than the capacity: nothing more can be loaded");
	if (sample->swap_total_bytes - sample->swap_free_bytes > a->size / 20)
		warn(warnings, "swap_in_use",
		     "more than a twentieth of the memory's size is swapped out: models will be slow");
	return warnings;
}

json_t *memory_json(const struct memory_input *in)
{
	struct account a = account_of(in);
	json_t *json = json_object();

	json_object_set_new(json, "daemon", json_boolean(in->arbiter != NULL));
	json_object_set_new(json, "topology", json_string("cpu"));
	json_object_set_new(json, "pools", pools_json(in, &a));
	json_object_set_new(json, "owners", owners_json(in, &a));
	json_object_set_new(json, "runtimes", runtimes_json(in, &a));
	json_object_set_new(json, "warnings", warnings_json(in, &a));
	return json;
}
