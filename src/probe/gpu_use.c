#include "probe/gpu_use.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/lines.h"
#include "probe/reading.h"

enum { DESCRIPTORS_MOST = 65536, REGIONS_MOST = 8, REGION_NAME = 16 };

#define BYTES_MOST (INT64_C(1) << 45)

/* One memory region of a client, as the keys of fdinfo tell it; -1 = not told. */
struct region {
	char name[REGION_NAME];
	int64_t resident, memory, total, shared;
};

struct client {
	char address[24];
	uint64_t id;
	bool has_id;
	struct region region[REGIONS_MOST];
	uint32_t regions;
};

void gpu_use_open(struct gpu_use *use, const char *root, const struct topology *topology)
{
	memset(use, 0, sizeof *use);
	use->root = root;
	use->topology = topology;
}

static struct region *region_named(struct client *client, struct str name)
{
	for (uint32_t i = 0; i < client->regions; i++)
		if (str_is(name, client->region[i].name))
			return &client->region[i];
	if (client->regions == REGIONS_MOST || name.length == 0 || name.length >= REGION_NAME)
		return NULL;
	struct region *region = &client->region[client->regions++];
	*region = (struct region){ .resident = -1, .memory = -1, .total = -1, .shared = -1 };
	str_copy(region->name, sizeof region->name, name);
	return region;
}

/* "123 KiB", "1 MiB", "4096": without a unit bytes. */
static int64_t value_of(struct str text)
{
	struct str rest;
	int64_t value;

	if (!lines_number(text, &value, &rest))
		return -1;
	rest = str_trim(rest);
	int64_t unit = str_is(rest, "KiB")   ? 1 << 10
	               : str_is(rest, "MiB") ? 1 << 20
	               : str_is(rest, "GiB") ? 1 << 30
	                                     : 1;
	return value <= BYTES_MOST / unit ? value * unit : BYTES_MOST;
}

static bool take_key(struct client *client, struct str key, const char *prefix, int64_t value,
                     size_t member)
{
	size_t length = strlen(prefix);

	if (!str_starts(key, prefix))
		return false;
	struct region *region =
	        region_named(client, (struct str){ key.data + length, key.length - length });
	if (region)
		*(int64_t *)(void *)((char *)region + member) = value;
	return true;
}

static void take_line(struct client *client, struct str line)
{
	struct str rest;
	struct str key = str_trim(str_cut(line, ':', &rest));

	if (!rest.data || !str_starts(key, "drm-"))
		return;
	if (str_is(key, "drm-pdev")) {
		str_copy(client->address, sizeof client->address, str_trim(rest));
		return;
	}
	int64_t value = value_of(rest);
	if (value < 0)
		return;
	if (str_is(key, "drm-client-id")) {
		client->id = (uint64_t)value;
		client->has_id = true;
	} else if (str_is(key, "drm-resident-memory"))
		take_key(client, STR("drm-resident-system"), "drm-resident-", value,
		         offsetof(struct region, resident));
	else if (!take_key(client, key, "drm-resident-", value,
	                   offsetof(struct region, resident)) &&
	         !take_key(client, key, "drm-memory-", value, offsetof(struct region, memory)) &&
	         !take_key(client, key, "drm-total-", value, offsetof(struct region, total)))
		take_key(client, key, "drm-shared-", value, offsetof(struct region, shared));
}

/* False where the file tells of no DRM client. */
static bool read_client(const char *root, pid_t pid, const char *fd, struct client *client)
{
	struct lines lines;
	struct str line;
	char name[64];

	*client = (struct client){ 0 };
	snprintf(name, sizeof name, "/proc/%d/fdinfo/%.16s", (int)pid, fd);
	if (lines_open(&lines, root, name) < 0)
		return false;
	for (int i = 0; i < 512 && lines_next(&lines, &line); i++)
		take_line(client, line);
	lines_close(&lines);
	return client->regions > 0;
}

/* The card's index, or CARDS_MAX. Where no address is told there is one card, or nobody knows. */
static uint32_t card_of(const struct topology *t, const struct client *client)
{
	for (uint32_t i = 0; i < t->cards.count; i++)
		if (client->address[0] && strcmp(client->address, t->cards.card[i].address) == 0)
			return i;
	return t->cards.count == 1 ? 0 : CARDS_MAX;
}

static bool is_new(struct gpu_use *use, uint32_t card, uint64_t id)
{
	for (uint32_t i = 0; i < use->clients; i++)
		if (use->client[i].card == card && use->client[i].id == id)
			return false;
	if (use->clients < GPU_CLIENTS_MAX)
		use->client[use->clients++] = (struct gpu_client){ card, id };
	return true;
}

static const struct device *device_of(const struct topology *t, uint32_t card)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (t->device[i].card == card)
			return &t->device[i];
	return NULL;
}

/* Where a region lies: in the device's own memory, in RAM, or in none that counts
 * (POOLS_KNOWN_MAX). */
static uint32_t pool_of(const struct device *device, const char *region)
{
	bool own = strncmp(region, "vram", 4) == 0 || strncmp(region, "local", 5) == 0;
	bool ram = strncmp(region, "gtt", 3) == 0 || strncmp(region, "system", 6) == 0 ||
	           strncmp(region, "gart", 4) == 0 || strncmp(region, "stolen", 6) == 0;

	if (ram || !own)
		return ram ? 0 : POOLS_KNOWN_MAX;
	return device->carveout != NO_POOL ? device->carveout : device->pool;
}

static int64_t bytes_of(const struct region *region)
{
	return region->resident >= 0 ? region->resident : region->memory >= 0 ? region->memory : region->total;
}

/* Of a card that is no device of ours: what it maps of the RAM is that all the same, its own memory is told beside. */
static void add_left_out(struct gpu_use *use, const struct client *client, uint32_t card, int64_t out[POOLS_KNOWN_MAX])
{
	static const struct device nobody = { .carveout = NO_POOL, .pool = NO_POOL };

	if (use->topology->cards.card[card].driver != CARD_NOUVEAU)
		return;
	for (uint32_t i = 0; i < client->regions; i++) {
		int64_t bytes = bytes_of(&client->region[i]);
		uint32_t pool = pool_of(&nobody, client->region[i].name);
		if (bytes > 0 && pool == 0)
			out[0] += bytes;
		else if (bytes > 0 && pool == NO_POOL)
			use->left_out_bytes += bytes;
	}
}

static void add_client(struct gpu_use *use, const struct client *client, uint32_t card,
                       int64_t out[POOLS_KNOWN_MAX])
{
	const struct device *device = device_of(use->topology, card);
	bool others = use->shared_told[card];

	if (!device) {
		add_left_out(use, client, card, out);
		return;
	}
	for (uint32_t i = 0; i < client->regions; i++) {
		const struct region *region = &client->region[i];
		uint32_t pool = pool_of(device, region->name);
		int64_t bytes = bytes_of(region);
		if (pool >= use->topology->pools || bytes <= 0)
			continue;
		if (others && region->shared > 0)
			bytes = bytes > region->shared ? bytes - region->shared : 0;
		use->shared_told[card] = use->shared_told[card] || region->shared > 0;
		out[pool] += bytes;
	}
}

/* ---- descriptors ---- */

static bool is_device_path(const char *path)
{
	return strncmp(path, "/dev/dri/", 9) == 0 || strncmp(path, "/dev/accel/", 11) == 0;
}

/* Look at one descriptor. `folder` is where its link lies; in a recording it may be missing. */
static void look_at(struct gpu_use *use, int folder, pid_t pid, const char *fd,
                    int64_t out[POOLS_KNOWN_MAX])
{
	char target[256];
	struct client client;

	ssize_t length = folder >= 0 ? readlinkat(folder, fd, target, sizeof target - 1) : -1;
	if (length >= 0) {
		target[length] = '\0';
		if (!is_device_path(target))
			return;
	} else if (!use->root[0])
		return;
	if (!read_client(use->root, pid, fd, &client))
		return;
	uint32_t card = card_of(use->topology, &client);
	if (card < CARDS_MAX && (!client.has_id || is_new(use, card, client.id)))
		add_client(use, &client, card, out);
}

/* Of fd/ on the machine: its links are cheap; of fdinfo/ in a recording without links. */
static bool look_at_all(struct gpu_use *use, pid_t pid, int64_t out[POOLS_KNOWN_MAX])
{
	char path[PATH_MAX];
	struct dirent *entry;
	const char *folder = use->root[0] ? "fdinfo" : "fd";

	int length = snprintf(path, sizeof path, "%s/proc/%d/%s", use->root, (int)pid, folder);
	if (length < 0 || (size_t)length >= sizeof path)
		return false;
	reading_note(path);
	DIR *list = opendir(path);
	if (!list)
		return errno == ENOENT || errno == ESRCH || errno == ENOTDIR;
	int links = dirfd(list);
	if (use->root[0]) {
		snprintf(path, sizeof path, "%s/proc/%d/fd", use->root, (int)pid);
		DIR *there = opendir(path);
		for (int i = 0; i < DESCRIPTORS_MOST && (entry = readdir(list)); i++)
			if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
				look_at(use, there ? dirfd(there) : -1, pid, entry->d_name, out);
		if (there)
			closedir(there);
	} else {
		for (int i = 0; i < DESCRIPTORS_MOST && (entry = readdir(list)); i++)
			if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
				look_at(use, links, pid, entry->d_name, out);
	}
	closedir(list);
	return true;
}

/* ---- the other witnesses ---- */

static void most(int64_t *to, int64_t bytes)
{
	if (bytes > *to)
		*to = bytes;
}

/* KFD counts what was asked for as VRAM, wherever it lies: on an APU in GTT mode that is RAM. */
static void look_at_kfd(const struct gpu_use *use, pid_t pid, int64_t out[POOLS_KNOWN_MAX])
{
	const struct topology *t = use->topology;
	char name[96], text[32];
	int64_t bytes;

	for (uint32_t i = 0; t->cards.has_kfd && i < t->devices; i++) {
		const struct device *device = &t->device[i];
		uint64_t id =
		        device->card < t->cards.count ? t->cards.card[device->card].kfd_gpu_id : 0;
		if (id == 0)
			continue;
		snprintf(name, sizeof name, "/sys/class/kfd/kfd/proc/%d/vram_%llu", (int)pid,
		         (unsigned long long)id);
		if (lines_read_all(use->root, name, text, sizeof text) > 0 &&
		    lines_number(str_from(text), &bytes, NULL) && bytes <= BYTES_MOST)
			most(&out[device->pool], bytes);
	}
}

static void look_at_nvml(const struct gpu_use *use, pid_t pid, int64_t out[POOLS_KNOWN_MAX])
{
	const struct topology *t = use->topology;
	int64_t sum[POOLS_KNOWN_MAX] = { 0 };

	for (uint32_t i = 0; i < t->devices; i++) {
		const struct device *device = &t->device[i];
		if (device->nvml >= t->calls.nvmls)
			continue;
		const struct calls_nvml *gpu = &t->calls.nvml[device->nvml];
		int64_t bytes = 0;
		for (uint32_t j = 0; j < gpu->processes; j++)
			if (gpu->process[j].pid == pid)
				most(&bytes, gpu->process[j].used_bytes);
		sum[device->pool] += bytes < BYTES_MOST ? bytes : BYTES_MOST;
	}
	for (uint32_t pool = 0; pool < t->pools; pool++)
		most(&out[pool], sum[pool]);
}

bool gpu_use_look(struct gpu_use *use, pid_t pid, int64_t out[POOLS_KNOWN_MAX])
{
	bool readable = true;

	memset(out, 0, POOLS_KNOWN_MAX * sizeof *out);
	use->left_out_bytes = 0;
	if (use->topology->devices == 0 && !topology_has_nouveau(use->topology))
		return true;
	if (use->topology->cards.count > 0)
		readable = look_at_all(use, pid, out);
	look_at_kfd(use, pid, out);
	look_at_nvml(use, pid, out);
	use->refused = use->refused || !readable;
	for (uint32_t pool = 0; pool < use->topology->pools; pool++)
		if (out[pool] > use->topology->pool[pool].size_bytes)
			out[pool] = use->topology->pool[pool].size_bytes;
	return readable;
}
