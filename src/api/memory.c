#include "api/memory.h"

#include <stdbool.h>
#include <string.h>

#include "api/value.h"
#include "base/units.h"

enum { LEAK_LEAST = 1 << 30 };

struct account {
	int64_t size, capacity, unreclaimable, foreign, held, free, usable, baseline;
	const char *usable_by; /* what sets it: memory.limit, the reserve, or the machine with its share for the unforeseen */
	enum reason free_by;   /* what sets it: capacity, view, limit; NONE = not known */
};

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t at_least_zero(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

static bool has_ledger(const struct memory_input *in)
{
	return in->arbiter && arbiter_pools(in->arbiter) > 0;
}

int64_t memory_baseline(const struct topology *t, int64_t known_bytes, int64_t foreign_bytes)
{
	/* As the kernel has it: what drivers hide on top is no baseline. */
	int64_t used = known_bytes >= 0 ? known_bytes : t && topology_knows_ram(t) ? t->mem.total - t->mem.available : foreign_bytes;

	return smaller(at_least_zero(used), foreign_bytes);
}

static int64_t baseline_of(const struct memory_input *in, uint32_t pool, int64_t foreign)
{
	return pool == 0 ? memory_baseline(in->topology, in->baseline_bytes, foreign) : foreign;
}

static struct account account_of(const struct memory_input *in, uint32_t at)
{
	const struct topology *t = in->topology;
	struct account a = { .size = t->pool[at].size_bytes,
		             .capacity = topology_capacity(t, at),
		             .unreclaimable = t->pool[at].unreclaimable_bytes,
		             .foreign = t->pool[at].unreclaimable_bytes };
	struct pool_view pool;

	a.free = smaller(topology_free(t, at), in->limit_bytes);
	if (has_ledger(in) && at < arbiter_pools(in->arbiter)) {
		arbiter_pool(in->arbiter, at, &pool);
		a = (struct account){ .size = pool.size_bytes,
			              .capacity = smaller(pool.capacity_bytes, topology_bound(t, at)),
			              .unreclaimable = pool.unreclaimable_bytes,
			              .foreign = pool.foreign_bytes,
			              .held = pool.held_bytes,
			              .free = at_least_zero(pool.free_bytes),
			              .free_by = (enum reason)pool.binds };
	}
	a.baseline = baseline_of(in, at, a.foreign);
	int64_t of_machine = topology_usable(t, at, a.baseline), of_limit = in->limit_bytes / 100 * 85;
	a.usable = smaller(of_machine, of_limit);
	a.usable_by = of_limit < of_machine ? "limit" : "machine";
	/* Of a small pool the reserve takes more than the share that is left free by advice. */
	if (a.usable > a.capacity) {
		a.usable = a.capacity;
		a.usable_by = "reserve";
	}
	return a;
}

static const char *role_name(enum view_role role)
{
	return role == VIEW_CAP ? "cap" : role == VIEW_READING ? "reading" : "ignored";
}

static json_t *views_json(const struct memory_input *in, uint32_t pool)
{
	json_t *views = json_array();

	for (uint32_t i = 0; i < in->topology->views; i++) {
		const struct view *view = &in->topology->view[i];
		if (view->pool != pool)
			continue;
		json_array_append_new(views, json_pack("{s:s, s:I, s:s, s:s}", "name", view->name,
		                                       "bytes", (json_int_t)view->bytes, "used_as",
		                                       role_name(view->role), "why", view->why));
	}
	if (pool == 0 && in->limit_bytes != INT64_MAX)
		json_array_append_new(
		        views, json_pack("{s:s, s:I, s:s, s:s}", "name", "memory.limit", "bytes",
		                         (json_int_t)in->limit_bytes, "used_as", "cap", "why",
		                         "the configuration's: what models may claim in all"));
	return views;
}

static json_t *known(bool is, int64_t value)
{
	return is ? json_integer(value) : json_null();
}

static json_t *pool_json(const struct memory_input *in, uint32_t at, const struct account *a)
{
	json_t *pool = json_object();

	json_object_set_new(pool, "name", json_string(in->topology->pool[at].name));
	json_object_set_new(pool, "size_bytes", json_integer(a->size));
	json_object_set_new(pool, "capacity_bytes", json_integer(a->capacity));
	json_object_set_new(pool, "usable_bytes", json_integer(a->usable));
	json_object_set_new(pool, "usable_bound_by", json_string(a->usable_by));
	json_object_set_new(pool, "unreclaimable_bytes", json_integer(a->unreclaimable));
	json_object_set_new(pool, "free_bytes", json_integer(a->free));
	json_object_set_new(pool, "free_bound_by", a->free_by ? json_string(reason_name(a->free_by)) : json_null());
	json_object_set_new(pool, "foreign_bytes", json_integer(a->foreign));
	json_object_set_new(pool, "claimed_bytes", json_integer(a->held));
	json_object_set_new(pool, "baseline_bytes", known(at == 0, a->baseline)); /* a card needs none by itself */
	if (at == 0) {
		const struct topology *t = in->topology;
		json_object_set_new(pool, "free_2m_bytes", known(t->free_2m_bytes >= 0, t->free_2m_bytes));
		json_object_set_new(pool, "swap_bytes", known(t->mem.swap_total >= 0, t->mem.swap_total));
		json_object_set_new(pool, "swap_free_bytes", known(t->mem.swap_free >= 0, t->mem.swap_free));
		json_object_set_new(pool, "huge_pages_bytes", known(t->mem.hugetlb >= 0, t->mem.hugetlb));
		json_object_set_new(pool, "shared_bytes", known(t->mem.shmem >= 0, t->mem.shmem));
		json_object_set_new(pool, "drift_bytes", known(t->drift_known, t->drift_bytes));
	}
	json_object_set_new(pool, "views", views_json(in, at));
	return pool;
}

/* ---- runtimes ---- */

enum runtime { RUNTIME_ROCM, RUNTIME_VULKAN, RUNTIME_CUDA };

static int64_t allocatable_of(const struct device *device, enum runtime runtime)
{
	switch (runtime) {
	case RUNTIME_ROCM:
		return device->rocm_bytes;
	case RUNTIME_VULKAN:
		return device->vulkan_bytes;
	case RUNTIME_CUDA:
		break;
	}
	return device->cuda_bytes;
}

/* The best device, and each beside it. */
static json_t *runtime_json(const struct topology *t, enum runtime runtime)
{
	json_t *devices = json_array();
	int64_t best = 0;
	bool all = true;

	for (uint32_t i = 0; i < t->devices; i++) {
		int64_t bytes = allocatable_of(&t->device[i], runtime);
		if (bytes < 0 && bytes != TAKE_UNKNOWN)
			continue;
		all = all && bytes >= 0;
		best = bytes > best ? bytes : best;
		json_array_append_new(devices, json_pack("{s:s, s:o}", "name", t->device[i].name,
		                                         "allocatable_bytes", known(bytes >= 0, bytes)));
	}
	return json_pack("{s:o, s:o}", "allocatable_bytes", known(all || best > 0, best), "devices", devices);
}

static json_t *runtimes_json(const struct memory_input *in, const struct account *ram)
{
	const struct topology *t = in->topology;
	int64_t cpu = t->allocatable_cpu_bytes;

	if (has_ledger(in)) /* its reserve may be the configuration's */
		cpu = smaller(cpu, at_least_zero(ram->capacity - ram->unreclaimable));

	return json_pack("{s:o, s:o, s:o, s:{s:o}}", "rocm", runtime_json(t, RUNTIME_ROCM),
	                 "vulkan", runtime_json(t, RUNTIME_VULKAN), "cuda",
	                 runtime_json(t, RUNTIME_CUDA), "cpu", "allocatable_bytes",
	                 known(topology_knows_ram(t), cpu));
}

/* ---- warnings ---- */

static void warn(json_t *warnings, const char *code, const char *message)
{
	json_array_append_new(warnings, json_pack("{s:s, s:s}", "code", code, "message", message));
}

static void warn_of_leaks(json_t *warnings, const struct memory_input *in)
{
	int64_t leak = memory_leak_bytes(in);
	char message[256], size[UNITS_TEXT];

	if (leak < 0) {
		warn(warnings, "gpu_owners_unknown",
		     "who holds the GPU's memory cannot be told: its driver does not say how much it is, or its processes cannot be "
		     "read");
	} else if (leak > LEAK_LEAST) {
		snprintf(message, sizeof message,
		         "%s of the GPU's memory belong to no process: a driver's leak, which a "
		         "reboot gives back "
		         "(from one reading)",
		         units_size(size, leak));
		warn(warnings, "gpu_memory_without_owner", message);
	}
}

static void warn_of_left_out(json_t *warnings, const struct memory_input *in)
{
	char message[256], size[UNITS_TEXT];

	if (!in->programs || in->programs->left_out_bytes == 0)
		return;
	snprintf(message, sizeof message, "programs hold %s of the memory of a card that nouveau runs: it is no pool, for nouveau does not tell its size",
	         units_size(size, in->programs->left_out_bytes));
	warn(warnings, "left_out_in_use", message);
}

static void warn_of_age(json_t *warnings, const struct memory_input *in)
{
	char message[320], span[UNITS_TEXT];

	if (!in->unread || !in->unread[0])
		return;
	snprintf(message, sizeof message, "%s: this is from %s ago, and nothing is loaded until the machine is read again",
	         in->unread, units_duration(span, in->unread_us));
	json_array_append_new(warnings, json_pack("{s:s, s:o}", "code", "not_read", "message", json_lossy(str_from(message))));
}

static json_t *warnings_json(const struct memory_input *in, const struct account *ram)
{
	const struct topology *t = in->topology;
	json_t *warnings = json_array();

	warn_of_age(warnings, in);
	for (size_t i = 0; in->left_behind && i < MEMORY_LEFT_MAX; i++)
		if (in->left_behind[i] && in->left_behind[i][0])
			json_array_append_new(warnings, json_pack("{s:s, s:o}", "code", "not_given_back", "message",
			                                          json_lossy(str_from(in->left_behind[i]))));
	for (uint32_t i = 0; i < t->warnings; i++)
		json_array_append_new(warnings,
		                      json_pack("{s:s, s:o}", "code", t->warning[i].code, "message",
		                                json_lossy(str_from(t->warning[i].message))));
	warn_of_leaks(warnings, in);
	warn_of_left_out(warnings, in);
	if (in->limit_bytes != INT64_MAX && in->limit_bytes > ram->capacity && t->pools == 1)
		warn(warnings, "limit_without_effect",
		     "memory.limit is more than the machine has after its reserve");
	if (has_ledger(in) ? ram->foreign + ram->held > ram->capacity
	                   : topology_knows_ram(t) && t->allocatable_cpu_bytes == 0)
		warn(warnings, "over_capacity",
		     "what is in use or claimed leaves nothing of the capacity: nothing more can "
		     "be loaded");
	if (t->mem.swap_free >= 0 && t->mem.swap_total - t->mem.swap_free > ram->size / 20)
		warn(warnings, "swap_in_use",
		     "more than a twentieth of the memory's size is swapped out: models will be "
		     "slow");
	if (topology_knows_ram(t) && !in->baseline_learned)
		warn(warnings, "baseline_from_one_reading",
		     in->arbiter ? "the system's baseline is the least that was in use so far: a minute in which nothing is loaded "
		                   "will tell it"
		                 : "the system's baseline is taken from this one reading; a running daemon "
		                   "learns it over time");
	return warnings;
}

/* What of a GPU's own memory nobody was found for: more than drivers take for themselves. */
static void warn_of_unidentified(json_t *warnings, const struct memory_input *in, const json_t *owners)
{
	char message[256], size[UNITS_TEXT];
	const json_t *owner;
	size_t i;

	json_array_foreach(owners, i, owner)
	{
		int64_t bytes = json_integer_value(json_object_get(owner, "measured_bytes"));
		if (strcmp(json_string_value(json_object_get(owner, "kind")), "unknown") != 0 || bytes <= LEAK_LEAST)
			continue;
		snprintf(message, sizeof message,
		         "%s of the GPU's own memory are in use, and nobody was found who holds them: a process that may not be looked "
		         "at%s, or a driver's leak",
		         units_size(size, bytes), in->topology->cards.count > 0 ? "" : ", or one in another container");
		warn(warnings, "gpu_memory_unidentified", message);
	}
}

json_t *inputs_json(const struct inputs *inputs)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->list[i];
		json_t *row = json_pack("{s:o, s:s}", "name", json_lossy(str_from(input->name)), "state",
		                        input_state_name(input->state));
		if (input_is_degraded(input))
			json_object_set_new(row, "effect", json_string(input->effect));
		json_array_append_new(array, row);
	}
	return array;
}

/* What hangs now was well when it was last read. */
static json_t *inputs_now_json(const struct memory_input *in)
{
	struct inputs now = in->topology->inputs;

	for (size_t i = 0; i < MEMORY_BLOCKED_MAX; i++)
		if (in->blocked[i] && in->blocked[i][0])
			inputs_note(&now, in->blocked[i], INPUT_BLOCKED, true, "what is told of the machine is from before");
	return inputs_json(&now);
}

json_t *memory_json(const struct memory_input *in)
{
	struct account ram = account_of(in, 0);
	json_t *json = json_object();
	json_t *pools = json_array();

	for (uint32_t i = topology_knows_ram(in->topology) ? 0 : 1; i < in->topology->pools; i++) {
		struct account a = account_of(in, i);
		json_array_append_new(pools, pool_json(in, i, &a));
	}
	json_object_set_new(json, "daemon", json_boolean(in->arbiter != NULL));
	json_object_set_new(json, "topology", json_string(topology_name(in->topology->kind)));
	json_object_set_new(json, "pools", pools);
	json_object_set_new(json, "owners", memory_owners_json(in, ram.baseline));
	json_object_set_new(json, "runtimes", runtimes_json(in, &ram));
	json_t *warnings = warnings_json(in, &ram);
	warn_of_unidentified(warnings, in, json_object_get(json, "owners"));
	json_object_set_new(json, "warnings", warnings);
	json_object_set_new(json, "inputs", inputs_now_json(in));
	return json;
}
