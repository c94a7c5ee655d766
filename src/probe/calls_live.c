/* Asking the running machine: DRM and KFD by ioctl, NVML by its library. */
#include "probe/calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/cards.h"
#include "probe/nvml.h"
#include "probe/reading.h"

/*
 * Of the kernel's drm/amdgpu_drm.h, drm/xe_drm.h and linux/kfd_ioctl.h, which
 * not every system has: the numbers and the layout are the kernel's promise.
 */
struct amdgpu_info {
	uint64_t answer;
	uint32_t answer_bytes;
	uint32_t query;
	uint32_t arguments[4];
};

struct kfd_available {
	uint64_t available;
	uint32_t gpu_id;
	uint32_t pad;
};

struct xe_query {
	uint64_t extensions;
	uint32_t query;
	uint32_t size;
	uint64_t data;
	uint64_t reserved[2];
};

struct xe_region {
	uint16_t class;
	uint16_t instance;
	uint32_t min_page_size;
	uint64_t total_size;
	uint64_t used;
	uint64_t visible[2];
	uint64_t reserved[6];
};

struct xe_regions {
	uint32_t count;
	uint32_t pad;
	struct xe_region region[];
};

#define IOCTL_AMDGPU_INFO _IOW('d', 0x45, struct amdgpu_info)
#define IOCTL_KFD_AVAILABLE _IOWR('K', 0x23, struct kfd_available)
#define IOCTL_XE_QUERY _IOWR('d', 0x40, struct xe_query)

enum {
	AMDGPU_DEVICE_INFO = 0x16,
	AMDGPU_FUSION = 1, /* of ids_flags: an APU */
	AMDGPU_IDS_FLAGS_OFFSET = 136,
	XE_QUERY_REGIONS = 1,
	XE_CLASS_VRAM = 1,
	XE_ANSWER_MOST = 1 << 16,
};

static int open_device(const char *folder, const char *name)
{
	char path[64];

	snprintf(path, sizeof path, "%s%s", folder, name);
	reading_note(path); /* what is asked of it too */
	return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

static void ask_amdgpu(const struct card *card, int fd, struct calls *calls)
{
	unsigned char answer[1024] = { 0 };
	struct amdgpu_info info = { .answer = (uintptr_t)answer,
		                    .answer_bytes = sizeof answer,
		                    .query = AMDGPU_DEVICE_INFO };
	uint64_t flags;

	if (ioctl(fd, IOCTL_AMDGPU_INFO, &info) < 0 || calls->apus == CALLS_GPUS_MAX)
		return;
	memcpy(&flags, answer + AMDGPU_IDS_FLAGS_OFFSET, sizeof flags);
	struct calls_apu *apu = &calls->apu[calls->apus++];
	str_copy(apu->card, sizeof apu->card, str_from(card->name));
	apu->apu = flags & AMDGPU_FUSION;
}

static void take_regions(const struct card *card, const struct xe_regions *regions, size_t bytes,
                         struct calls *calls)
{
	size_t most = (bytes - sizeof *regions) / sizeof regions->region[0];

	for (size_t i = 0; i < regions->count && i < most && calls->regions < CALLS_REGIONS_MAX;
	     i++) {
		const struct xe_region *region = &regions->region[i];
		struct calls_region *to = &calls->region[calls->regions++];
		str_copy(to->card, sizeof to->card, str_from(card->name));
		to->vram = region->class == XE_CLASS_VRAM;
		to->total_bytes = region->total_size < INT64_MAX ? (int64_t)region->total_size : -1;
		/* Without CAP_PERFMON 0: topology_disbelieve() takes that for what it is. */
		to->used_bytes = region->used < INT64_MAX ? (int64_t)region->used : -1;
	}
}

static void ask_xe(const struct card *card, int fd, struct calls *calls)
{
	struct xe_query query = { .query = XE_QUERY_REGIONS };

	if (ioctl(fd, IOCTL_XE_QUERY, &query) < 0 || query.size < sizeof(struct xe_regions) ||
	    query.size > XE_ANSWER_MOST)
		return;
	struct xe_regions *regions = xcalloc(1, query.size);
	query.data = (uintptr_t)regions;
	if (ioctl(fd, IOCTL_XE_QUERY, &query) == 0)
		take_regions(card, regions, query.size, calls);
	free(regions);
}

static void ask_card(const struct card *card, struct calls *calls)
{
	bool asks = card->driver == CARD_AMDGPU || card->driver == CARD_XE;

	if (!asks || card->suspended || !card->render[0])
		return;
	int fd = open_device("/dev/dri/", card->render);
	if (fd < 0)
		return;
	if (card->driver == CARD_AMDGPU)
		ask_amdgpu(card, fd, calls);
	else
		ask_xe(card, fd, calls);
	close(fd);
}

static void ask_kfd(const struct cards *cards, struct calls *calls)
{
	calls->kfd_available_bytes = -1;
	for (uint32_t i = 0; i < cards->count; i++) {
		const struct card *card = &cards->card[i];
		struct kfd_available args = { .gpu_id = (uint32_t)card->kfd_gpu_id };
		if (card->kfd_gpu_id == 0 || card->suspended)
			continue;
		int fd = open_device("/dev/", "kfd");
		if (fd < 0)
			return;
		if (ioctl(fd, IOCTL_KFD_AVAILABLE, &args) == 0 && args.available < INT64_MAX)
			calls->kfd_available_bytes = (int64_t)args.available;
		close(fd);
		return;
	}
}

void calls_live(struct calls *calls, const struct cards *cards)
{
	calls_clear(calls);
	for (uint32_t i = 0; i < cards->count; i++)
		ask_card(&cards->card[i], calls);
	ask_kfd(cards, calls);
	nvml_ask(NULL, calls);
}

void calls_refresh(struct calls *calls, const struct cards *cards, struct nvml_session *nvml,
                   bool nvml_stays)
{
	calls->regions = 0;
	for (uint32_t i = 0; i < cards->count; i++)
		if (cards->card[i].driver == CARD_XE)
			ask_card(&cards->card[i], calls);
	ask_kfd(cards, calls);
	if (nvml)
		nvml_read(nvml, calls);
	else if (!nvml_stays)
		nvml_ask(NULL, calls);
}
