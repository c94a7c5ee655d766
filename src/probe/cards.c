#include "probe/cards.h"

#include <dirent.h>
#include <errno.h>
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

/* A number of a file of a card; -1 where there is none. `needed`: it is there with such a driver. */
static int64_t read_number(const char *root, const struct card *card, const char *file, bool needed, const char *effect,
                           struct inputs *inputs)
{
	char name[128];
	int64_t value = -1;

	snprintf(name, sizeof name, "/sys/class/drm/%s/device/%s", card->name, file);
	enum input_state state = input_number(root, name, NULL, &value);
	if (state != INPUT_MISSING || needed)
		inputs_note(inputs, name, state, needed, effect);
	return state == INPUT_OK ? value : -1;
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
                         size_t size, struct inputs *inputs)
{
	struct lines lines;
	struct str line;
	char name[128];
	bool found = false;

	snprintf(name, sizeof name, "/sys/class/drm/%s/device/uevent", card);
	int code = lines_open(&lines, root, name);
	while (code == 0 && !found && lines_next(&lines, &line))
		if (str_starts(line, key)) {
			size_t skip = strlen(key);
			str_copy(out, size, (struct str){ line.data + skip, line.length - skip });
			found = true;
		}
	inputs_note(inputs, name, input_state_of(code, code == 0 ? lines.total : 0, found), false,
	            "whose device this is and where is known by other signs alone");
	if (code == 0)
		lines_close(&lines);
	return found;
}

static void find_driver(const char *root, struct card *card, struct inputs *inputs)
{
	char name[64] = "";

	if (uevent_value(root, card->name, "DRIVER=", name, sizeof name, inputs) ||
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
	         read_number(root, card, "mem_info_vram_total", false, "", NULL) >= 0)
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

static void fill_card(const char *root, struct card *card, struct inputs *inputs)
{
	static const char unknown[] = "what kind of device this is is known by other signs alone";
	int64_t device = read_number(root, card, "device", false, unknown, inputs);
	int64_t vendor = read_number(root, card, "vendor", device >= 0, unknown, inputs);

	if (device < 0 && vendor >= 0)
		device = read_number(root, card, "device", true, unknown, inputs);

	card->vendor_id = vendor > 0 ? (uint32_t)vendor : 0;
	card->device_id = device > 0 ? (uint32_t)device : 0;
	find_driver(root, card, inputs);
	if (!uevent_value(root, card->name, "PCI_SLOT_NAME=", card->address, sizeof card->address, NULL))
		link_name(root, card->name, "device", card->address, sizeof card->address);
	find_render(root, card);
	card->kfd_bank = -1;
	card->vram_total = card->visible_vram_total = card->gtt_total = -1;
	if (card->driver != CARD_AMDGPU)
		return;
	card->vram_total = read_number(root, card, "mem_info_vram_total", true,
	                               "how large its own memory (an APU's carve-out) is is not known, and it counts as none",
	                               inputs);
	card->visible_vram_total = read_number(root, card, "mem_info_vis_vram_total", false, "it is not shown", inputs);
	card->gtt_total = read_number(root, card, "mem_info_gtt_total", true,
	                              "how much of the RAM this GPU may map is not known, and bounds nothing", inputs);
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

static int64_t property(const char *root, const char *file, const char *key, struct inputs *inputs)
{
	struct lines lines;
	struct str line;
	int64_t value = -1;
	size_t length = strlen(key);

	int code = lines_open(&lines, root, file);
	while (code == 0 && lines_next(&lines, &line))
		if (str_starts(line, key) && line.length > length && line.data[length] == ' ')
			lines_number((struct str){ line.data + length, line.length - length },
			             &value, NULL);
	if (code != -ENOENT)
		inputs_note(inputs, file, input_state_of(code, code == 0 ? lines.total : 0, value >= 0), true,
		            "what KFD has is not known, and its limit on ROCm may be missing");
	if (code == 0)
		lines_close(&lines);
	return value;
}

/* The node's card: by render node or device, else the next of amdgpu that has none yet. */
static struct card *card_of_node(const char *root, uint32_t node, struct cards *cards, struct inputs *inputs)
{
	char file[96], render[24];

	snprintf(file, sizeof file, "/sys/class/kfd/kfd/topology/nodes/%u/properties", node);
	int64_t minor = property(root, file, "drm_render_minor", NULL);
	int64_t device = property(root, file, "device_id", inputs);
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

static void find_kfd(const char *root, struct cards *cards, struct inputs *inputs)
{
	char file[96];

	for (uint32_t node = 0; node < KFD_NODES_MOST; node++) {
		int64_t id = 0;
		snprintf(file, sizeof file, "/sys/class/kfd/kfd/topology/nodes/%u/gpu_id", node);
		enum input_state state = input_number(root, file, NULL, &id);
		bool has_id = state == INPUT_OK;
		if (state > INPUT_MISSING)
			inputs_note(inputs, file, state, true, "which node of KFD's is a GPU is known by other signs alone");
		snprintf(file, sizeof file,
		         "/sys/class/kfd/kfd/topology/nodes/%u/mem_banks/0/properties", node);
		int64_t bank = property(root, file, "size_in_bytes", has_id && id == 0 ? NULL : inputs);
		int64_t heap = property(root, file, "heap_type", NULL);
		/* The processors are nodes too: without an id, their banks of heap type 0. */
		if ((has_id && id == 0) || (!has_id && heap == 0) || (bank < 0 && id == 0))
			continue;
		struct card *card = card_of_node(root, node, cards, inputs);
		if (!card)
			continue;
		cards->has_kfd = true;
		card->kfd_bank = bank;
		card->kfd_gpu_id = (uint64_t)id;
	}
}

void cards_find(const char *root, struct cards *out, struct inputs *inputs)
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
		fill_card(root, card, inputs);
	}
	find_kfd(root, out, inputs);
	cards_read_use(root, out, NULL);
}

void cards_read_use(const char *root, struct cards *cards, struct inputs *inputs)
{
	for (uint32_t i = 0; i < cards->count; i++) {
		struct card *card = &cards->card[i];
		card->suspended = is_suspended(root, card->name);
		card->vram_used = card->gtt_used = -1;
		if (card->suspended || card->driver != CARD_AMDGPU)
			continue;
		card->vram_used = read_number(root, card, "mem_info_vram_used", true,
		                              "how much of its own memory is used is not known: all of it counts as used",
		                              inputs);
		card->gtt_used = read_number(root, card, "mem_info_gtt_used", true,
		                             "what this GPU maps of the RAM is not known, and counts as nothing", inputs);
	}
}
