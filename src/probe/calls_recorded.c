/* The answers as a file, both ways. */
#include "probe/calls.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/lines.h"

enum { FILE_BYTES_MOST = 1 << 20 };

#define BYTES_MOST (INT64_C(1) << 50)

void calls_clear(struct calls *calls)
{
	long page = sysconf(_SC_PAGESIZE);

	*calls = (struct calls){
		.page_bytes = page > 0 ? page : 4096,
		.kfd_available_bytes = -1,
		.hip_total_bytes = -1,
		.hip_free_bytes = -1,
		.cuda_total_bytes = -1,
		.cuda_free_bytes = -1,
		.cuda_integrated = -1,
	};
}

/* A size; -1 where it is missing, null, of another type or below 0; none is over BYTES_MOST. */
static int64_t size_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		return -1;
	double bytes = json_number_value(value);
	if (!(bytes >= 0))
		return -1;
	if (bytes > (double)BYTES_MOST)
		return BYTES_MOST; /* as large as any lie */
	return json_is_integer(value) ? json_integer_value(value) : (int64_t)bytes;
}

static void copy_text(char *out, size_t size, const json_t *value)
{
	const char *text = json_string_value(value);

	str_copy(out, size, str_from(text ? text : ""));
}

static struct calls_process *least_of(struct calls_nvml *gpu)
{
	struct calls_process *least = &gpu->process[0];

	for (uint32_t i = 1; i < gpu->processes; i++)
		if (gpu->process[i].used_bytes < least->used_bytes)
			least = &gpu->process[i];
	return least;
}

void calls_add_process(struct calls_nvml *gpu, pid_t pid, int64_t used_bytes)
{
	for (uint32_t i = 0; i < gpu->processes; i++) {
		struct calls_process *known = &gpu->process[i];
		if (known->pid != pid)
			continue;
		known->used_bytes = known->used_bytes > used_bytes ? known->used_bytes : used_bytes;
		return;
	}
	if (gpu->processes < CALLS_PROCESSES_MAX) {
		gpu->process[gpu->processes++] = (struct calls_process){ pid, used_bytes };
		return;
	}
	struct calls_process more = { pid, used_bytes }, *least = least_of(gpu);
	if (least->used_bytes < used_bytes) {
		struct calls_process goes = *least;
		*least = more;
		more = goes;
	}
	gpu->left_out++;
	gpu->left_out_bytes += gpu->left_out_bytes < BYTES_MOST ? more.used_bytes : 0;
}

static void take_processes(const json_t *list, struct calls_nvml *gpu)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		int64_t pid = size_of(item, "pid");
		int64_t used = size_of(item, "used_bytes");
		if (used >= 0 && pid > 0 && pid <= INT32_MAX)
			calls_add_process(gpu, (pid_t)pid, used);
	}
}

static void take_nvml(const json_t *list, struct calls *calls)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (calls->nvmls == CALLS_GPUS_MAX)
			return;
		if (!json_is_object(item))
			continue;
		struct calls_nvml *gpu = &calls->nvml[calls->nvmls++];
		copy_text(gpu->name, sizeof gpu->name, json_object_get(item, "name"));
		gpu->total_bytes = size_of(item, "total_bytes");
		gpu->free_bytes = size_of(item, "free_bytes");
		take_processes(json_object_get(item, "processes"), gpu);
	}
}

static void take_regions(const json_t *list, struct calls *calls)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (calls->regions == CALLS_REGIONS_MAX)
			return;
		if (!json_is_object(item))
			continue;
		struct calls_region *region = &calls->region[calls->regions++];
		const char *class = json_string_value(json_object_get(item, "class"));
		copy_text(region->card, sizeof region->card, json_object_get(item, "card"));
		region->vram = class && strncmp(class, "vram", 4) == 0;
		region->total_bytes = size_of(item, "total_bytes");
		region->used_bytes = size_of(item, "used_bytes");
	}
}

static void take_heaps(const json_t *list, struct calls *calls)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		int64_t bytes = size_of(item, "bytes");
		if (calls->heaps == CALLS_HEAPS_MAX)
			return;
		if (bytes >= 0)
			calls->heap[calls->heaps++] = (struct calls_heap){
				bytes, json_is_true(json_object_get(item, "device_local"))
			};
	}
}

static void take_apus(json_t *map, struct calls *calls)
{
	const char *key;
	json_t *value;

	json_object_foreach(map, key, value)
	{
		if (calls->apus == CALLS_GPUS_MAX)
			return;
		if (!json_is_boolean(value))
			continue;
		struct calls_apu *apu = &calls->apu[calls->apus++];
		str_copy(apu->card, sizeof apu->card, str_from(key));
		apu->apu = json_is_true(value);
	}
}

static void take_all(const json_t *root, struct calls *calls)
{
	const json_t *hip = json_object_get(root, "hip");
	const json_t *cuda = json_object_get(root, "cuda");
	const json_t *integrated = json_object_get(cuda, "integrated");
	int64_t page = size_of(root, "page_bytes");

	if (page >= 4096 && page <= 1 << 20 && (page & (page - 1)) == 0)
		calls->page_bytes = page;
	calls->kfd_available_bytes = size_of(root, "kfd_available_bytes");
	calls->hip_total_bytes = size_of(hip, "total_bytes");
	calls->hip_free_bytes = size_of(hip, "free_bytes");
	calls->cuda_total_bytes = size_of(cuda, "total_bytes");
	calls->cuda_free_bytes = size_of(cuda, "free_bytes");
	if (json_is_boolean(integrated))
		calls->cuda_integrated = json_is_true(integrated);
	take_apus(json_object_get(root, "amdgpu_is_apu"), calls);
	take_nvml(json_object_get(root, "nvml"), calls);
	take_regions(json_object_get(root, "xe_regions"), calls);
	take_heaps(json_object_get(root, "vulkan_heaps"), calls);
}

/* A size may be null: not told. */
static bool is_size(const json_t *value)
{
	return json_is_null(value) || (json_is_number(value) && json_number_value(value) >= 0);
}

/* Is whatever is named as a size or a yes or no one, however deep? */
static bool makes_sense(json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	json_array_foreach(value, i, item)
		if (!json_is_object(item) || !makes_sense(item))
			return false;
	json_object_foreach(value, key, item)
	{
		struct str name = str_from(key);
		bool size = str_is(name, "pid") || str_ends(name, "bytes");
		bool flag = str_is(name, "integrated") || str_is(name, "device_local");
		if ((size && !is_size(item)) || (flag && !json_is_boolean(item)) || !makes_sense(item))
			return false;
	}
	return true;
}

/* Of another kind than it should be: as good as not told. Nothing of it has to be there. */
static bool is_whole(json_t *root)
{
	static const char *const lists[] = { "nvml", "xe_regions", "vulkan_heaps" };
	static const char *const objects[] = { "amdgpu_is_apu", "hip", "cuda" };
	const char *card;
	json_t *item;

	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		const json_t *list = json_object_get(root, lists[i]), *object = json_object_get(root, objects[i]);
		if ((list && !json_is_array(list) && !json_is_null(list)) ||
		    (object && !json_is_object(object) && !json_is_null(object)))
			return false;
	}
	json_object_foreach(json_object_get(root, "amdgpu_is_apu"), card, item)
		if (!json_is_boolean(item))
			return false;
	return json_is_object(root) && makes_sense(root);
}

void calls_recorded(const char *root, struct calls *calls)
{
	char *text = xmalloc(FILE_BYTES_MOST);
	int length = lines_read_all(root, "/calls.json", text, FILE_BYTES_MOST);
	json_t *json = length > 0 ? json_loadb(text, (size_t)length, 0, NULL) : NULL;

	calls_clear(calls);
	calls->recorded = input_state_of(length, length > 0 ? (size_t)length : 0, is_whole(json));
	take_all(json, calls);
	json_decref(json);
	free(text);
}

static void put_size(json_t *object, const char *key, int64_t bytes)
{
	json_object_set_new(object, key, bytes < 0 ? json_null() : json_integer(bytes));
}

static json_t *nvml_json(const struct calls_nvml *gpu)
{
	json_t *object = json_object();
	json_t *processes = json_array();

	json_object_set_new(object, "name", json_string(gpu->name));
	put_size(object, "total_bytes", gpu->total_bytes);
	put_size(object, "free_bytes", gpu->free_bytes);
	for (uint32_t i = 0; i < gpu->processes; i++)
		json_array_append_new(processes, json_pack("{s:i, s:I}", "pid",
		                                           (int)gpu->process[i].pid, "used_bytes",
		                                           (json_int_t)gpu->process[i].used_bytes));
	json_object_set_new(object, "processes", processes);
	return object;
}

static void put_lists(json_t *root, const struct calls *calls)
{
	json_t *apus = json_object(), *gpus = json_array(), *regions = json_array();

	for (uint32_t i = 0; i < calls->apus; i++)
		json_object_set_new(apus, calls->apu[i].card, json_boolean(calls->apu[i].apu));
	for (uint32_t i = 0; i < calls->nvmls; i++)
		json_array_append_new(gpus, nvml_json(&calls->nvml[i]));
	for (uint32_t i = 0; i < calls->regions; i++) {
		const struct calls_region *region = &calls->region[i];
		json_t *object = json_pack("{s:s, s:s}", "card", region->card, "class", region->vram ? "vram" : "sysmem");
		put_size(object, "total_bytes", region->total_bytes);
		put_size(object, "used_bytes", region->used_bytes);
		json_array_append_new(regions, object);
	}
	json_object_set_new(root, "amdgpu_is_apu", apus);
	json_object_set_new(root, "nvml", gpus);
	json_object_set_new(root, "xe_regions", regions);
}

char *calls_text(const struct calls *calls)
{
	json_t *root = json_object();

	json_object_set_new(root, "page_bytes", json_integer(calls->page_bytes));
	if (calls->kfd_available_bytes >= 0)
		put_size(root, "kfd_available_bytes", calls->kfd_available_bytes);
	put_lists(root, calls);
	char *dumped = json_dumps(root, JSON_INDENT(1));
	char *text = xstrdup(dumped ? dumped : "{}");
	free(dumped);
	json_decref(root);
	return text;
}
