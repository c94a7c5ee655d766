#include "probe/cards.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/lines.h"

enum {
	CARD_NUMBER_MOST = 256,
	KFD_NODES_MOST = 64,
	VENDOR_AMD = 0x1002,
	VENDOR_INTEL = 0x8086,
	VENDOR_NVIDIA = 0x10de
};

/* A number in decimal or with 0x, of a file of a card; -1 where there is none. */
static int64_t read_number(const char *root, const char *card, const char *file)
{
	char name[128], text[64];
	int64_t value;

	snprintf(name, sizeof name, "/sys/class/drm/%s/device/%s", card, file);
	if (lines_read_all(root, name, text, sizeof text) <= 0)
		return -1;
	if (str_starts(str_from(text), "0x"))
		return (int64_t)(strtoul(text, NULL, 16) & 0xffffffff);
	return lines_number(str_from(text), &value, NULL) ? value : -1;
}

static enum card_driver driver_named(struct str name)
{
	static const struct {
		const char *name;
		enum card_driver driver;
	} known[] = {
		{ "amdgpu", CARD_AMDGPU },      { "xe", CARD_XE },
		{ "i915", CARD_I915 },          { "nouveau", CARD_NOUVEAU },
		{ "nvidia", CARD_NVIDIA },      { "nvidia-drm", CARD_NVIDIA },
		{ "nv_platform", CARD_NVIDIA }, { "tegra", CARD_NVIDIA },
		{ "tegra-drm", CARD_NVIDIA },   { "nvgpu", CARD_NVIDIA },
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (str_is(name, known[i].name))
			return known[i].driver;
	return CARD_OTHER;
}

/* The last part of what a link points to; false where there is no link. */
static bool link_name(const char *root, const char *card, const char *file, char *out, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	int length = snprintf(path, sizeof path, "%s/sys/class/drm/%s/%s", root, card, file);

	if (length < 0 || (size_t)length >= sizeof path)
		return false;
	ssize_t got = readlink(path, target, sizeof target - 1);
	if (got <= 0)
		return false;
	target[got] = '\0';
	char *slash = strrchr(target, '/');
	str_copy(out, size, str_from(slash ? slash + 1 : target));
	return true;
}

/* A line's value of the device's uevent: "DRIVER=amdgpu". */
static bool uevent_value(const char *root, const char *card, const char *key, char *out,
                         size_t size)
{
	struct lines lines;
	struct str line;
	char name[128];
	bool found = false;

	snprintf(name, sizeof name, "/sys/class/drm/%s/device/uevent", card);
	if (lines_open(&lines, root, name) < 0)
		return false;
	while (!found && lines_next(&lines, &line))
		if (str_starts(line, key)) {
			size_t skip = strlen(key);
			str_copy(out, size, (struct str){ line.data + skip, line.length - skip });
			found = true;
		}
	lines_close(&lines);
	return found;
}

static void find_driver(const char *root, struct card *card)
{
	char name[64] = "";

	if (uevent_value(root, card->name, "DRIVER=", name, sizeof name) ||
	    link_name(root, card->name, "device/driver", name, sizeof name))
		card->driver = driver_named(str_from(name));
	if (card->driver != CARD_OTHER || name[0])
		return;
	/* A recording without the driver's name: by who made it, and by the files only one driver
	 * has. */
	if (card->vendor_id == VENDOR_NVIDIA)
		card->driver = CARD_NVIDIA;
	else if (card->vendor_id == VENDOR_INTEL)
		card->driver = CARD_I915;
	else if (card->vendor_id == VENDOR_AMD ||
	         read_number(root, card->name, "mem_info_vram_total") >= 0)
		card->driver = CARD_AMDGPU;
}

static bool is_suspended(const char *root, const char *card)
{
	char name[128], text[64];

	snprintf(name, sizeof name, "/sys/class/drm/%s/device/power/runtime_status", card);
	return lines_read_all(root, name, text, sizeof text) > 0 &&
	       str_starts(str_from(text), "suspended");
}

static void find_render(const char *root, struct card *card)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int length =
	        snprintf(path, sizeof path, "%s/sys/class/drm/%s/device/drm", root, card->name);

	if (length < 0 || (size_t)length >= sizeof path)
		return;
	DIR *folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (strncmp(entry->d_name, "renderD", 7) == 0)
			str_copy(card->render, sizeof card->render, str_from(entry->d_name));
	closedir(folder);
}

static void fill_card(const char *root, struct card *card)
{
	int64_t vendor = read_number(root, card->name, "vendor");
	int64_t device = read_number(root, card->name, "device");

	card->vendor_id = vendor > 0 ? (uint32_t)vendor : 0;
	card->device_id = device > 0 ? (uint32_t)device : 0;
	find_driver(root, card);
	if (!uevent_value(root, card->name, "PCI_SLOT_NAME=", card->address, sizeof card->address))
		link_name(root, card->name, "device", card->address, sizeof card->address);
	find_render(root, card);
	card->vram_total = read_number(root, card->name, "mem_info_vram_total");
	card->visible_vram_total = read_number(root, card->name, "mem_info_vis_vram_total");
	card->gtt_total = read_number(root, card->name, "mem_info_gtt_total");
	card->kfd_bank = -1;
}

/* "cardN" only: its connectors are called cardN-DP-1. In order of the numbers. */
static void list_cards(const char *root, bool there[CARD_NUMBER_MOST])
{
	char path[PATH_MAX];
	struct dirent *entry;
	uint64_t number;
	int length = snprintf(path, sizeof path, "%s/sys/class/drm", root);

	if (length < 0 || (size_t)length >= sizeof path)
		return;
	DIR *folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (strncmp(entry->d_name, "card", 4) == 0 &&
		    str_to_u64(str_from(entry->d_name + 4), &number) && number < CARD_NUMBER_MOST)
			there[number] = true;
	closedir(folder);
}

/* ---- KFD ---- */

static int64_t property(const char *root, const char *file, const char *key)
{
	struct lines lines;
	struct str line;
	int64_t value = -1;
	size_t length = strlen(key);

	if (lines_open(&lines, root, file) < 0)
		return -1;
	while (lines_next(&lines, &line))
		if (str_starts(line, key) && line.length > length && line.data[length] == ' ')
			lines_number((struct str){ line.data + length, line.length - length },
			             &value, NULL);
	lines_close(&lines);
	return value;
}

/* The node's card: by render node or device, else the next of amdgpu that has none yet. */
static struct card *card_of_node(const char *root, uint32_t node, struct cards *cards)
{
	char file[96], render[24];

	snprintf(file, sizeof file, "/sys/class/kfd/kfd/topology/nodes/%u/properties", node);
	int64_t minor = property(root, file, "drm_render_minor");
	int64_t device = property(root, file, "device_id");
	snprintf(render, sizeof render, "renderD%lld", (long long)minor);
	for (uint32_t i = 0; i < cards->count; i++)
		if (minor > 0 && strcmp(cards->card[i].render, render) == 0)
			return &cards->card[i];
	for (uint32_t i = 0; i < cards->count; i++) {
		struct card *card = &cards->card[i];
		bool same =
		        device <= 0 || card->device_id == 0 || card->device_id == (uint32_t)device;
		if (card->driver == CARD_AMDGPU && card->kfd_bank < 0 && same)
			return card;
	}
	return NULL;
}

static void find_kfd(const char *root, struct cards *cards)
{
	char file[96], text[32];

	for (uint32_t node = 0; node < KFD_NODES_MOST; node++) {
		uint64_t id = 0;
		snprintf(file, sizeof file, "/sys/class/kfd/kfd/topology/nodes/%u/gpu_id", node);
		bool has_id = lines_read_all(root, file, text, sizeof text) > 0;
		if (has_id)
			str_to_u64(str_cut(str_from(text), '\n', &(struct str){ 0 }), &id);
		snprintf(file, sizeof file,
		         "/sys/class/kfd/kfd/topology/nodes/%u/mem_banks/0/properties", node);
		int64_t bank = property(root, file, "size_in_bytes");
		int64_t heap = property(root, file, "heap_type");
		/* The processors are nodes too: without an id, their banks of heap type 0. */
		if ((has_id && id == 0) || (!has_id && heap == 0) || (bank < 0 && id == 0))
			continue;
		struct card *card = card_of_node(root, node, cards);
		if (!card)
			continue;
		cards->has_kfd = true;
		card->kfd_bank = bank;
		card->kfd_gpu_id = id;
	}
}

void cards_find(const char *root, struct cards *out)
{
	bool there[CARD_NUMBER_MOST] = { false };

	*out = (struct cards){ 0 };
	list_cards(root, there);
	for (uint32_t i = 0; i < CARD_NUMBER_MOST && out->count < CARDS_MAX; i++) {
		if (!there[i])
			continue;
		struct card *card = &out->card[out->count++];
		*card = (struct card){ 0 };
		snprintf(card->name, sizeof card->name, "card%u", i);
		fill_card(root, card);
	}
	find_kfd(root, out);
	cards_read_use(root, out);
}

void cards_read_use(const char *root, struct cards *cards)
{
	for (uint32_t i = 0; i < cards->count; i++) {
		struct card *card = &cards->card[i];
		card->suspended = is_suspended(root, card->name);
		card->vram_used = card->gtt_used = -1;
		if (card->suspended || card->driver != CARD_AMDGPU)
			continue;
		card->vram_used = read_number(root, card->name, "mem_info_vram_used");
		card->gtt_used = read_number(root, card->name, "mem_info_gtt_used");
	}
}
