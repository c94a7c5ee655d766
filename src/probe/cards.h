#ifndef PROBE_CARDS_H
#define PROBE_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/inputs.h"

/*
 * cards - the graphics devices as sysfs shows them.
 *
 * Sizes are bytes, -1 where the driver does not tell. A device that is
 * suspended is not asked for what it uses: asking may wake it.
 */
enum { CARDS_MAX = 8 };

enum card_driver {
	CARD_OTHER,
	CARD_AMDGPU,
	CARD_XE,
	CARD_I915,
	CARD_NVIDIA,
	CARD_NOUVEAU,
};

struct card {
	char name[16];    /* "card0" */
	char render[24];  /* "renderD128", "" = not known */
	char address[24]; /* of PCI, as fdinfo's drm-pdev; "" = not known */
	enum card_driver driver;
	uint32_t vendor_id;
	uint32_t device_id;
	bool suspended;
	int64_t vram_total, vram_used, visible_vram_total;
	int64_t gtt_total, gtt_used;
	int64_t kfd_bank;    /* KFD's first memory bank of it */
	uint64_t kfd_gpu_id; /* 0 = not known to KFD */
};

struct cards {
	struct card card[CARDS_MAX];
	uint32_t count;
	bool has_kfd;
};

/* By name; devices that only show a picture (virtual, BMC) are CARD_OTHER. `inputs` may be NULL. */
void cards_find(const char *root, struct cards *out, struct inputs *inputs);

/* What is used now. `inputs` may be NULL. */
void cards_read_use(const char *root, struct cards *cards, struct inputs *inputs);

#endif
