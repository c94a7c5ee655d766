#ifndef PROBE_DOCTOR_PARTS_H
#define PROBE_DOCTOR_PARTS_H

#include "probe/doctor.h"

/*
 * doctor_parts - the checks behind the table of doctor.c.
 *
 * A check fills `found` and returns the status; wanted and fix stand in the
 * table and are replaced only where they depend on the machine.
 */
struct doctor {
	const char *root;
	const struct topology *topology;
	const struct programs *programs;
	const struct doctor_service *service; /* or NULL */
};

/* A setting that lasts, in a file of its own: of one that two fixes wrote only the second's line would be left. */
#define SYSCTL(key, value) "echo vm." key "=" value " > /etc/sysctl.d/90-cotenant-" key ".conf; sysctl --system (lasts)"

typedef enum finding_status doctor_check(const struct doctor *doctor, struct finding *f);

/* "found" in words; returns `status`, so that a check can end with it. */
enum finding_status found(struct finding *f, enum finding_status status, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
enum finding_status not_known(struct finding *f); /* "cannot be read" */

void want(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mend(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A number of a file; -1 where there is none. */
int64_t doctor_number(const struct doctor *doctor, const char *name);
/* The first line of a file; false where there is none. */
bool doctor_text(const struct doctor *doctor, const char *name, char *out, size_t size);
/* The first line of a file that starts so; what stands behind, without blanks. */
bool doctor_line(const struct doctor *doctor, const char *name, const char *start, char *out, size_t size);
int64_t doctor_zram_bytes(const struct doctor *doctor); /* of all devices, before compression; -1 = not told */
/* Does the kernel's command line have a word that starts so? */
bool doctor_booted_with(const struct doctor *doctor, const char *word);
/* Major, minor and patch as one number: 6.18.4 is 6018004; 0 where it is not known. */
int64_t doctor_kernel(const struct doctor *doctor, char *text, size_t size);
bool doctor_is_wsl(const struct doctor *doctor); /* by the name of its kernel */
/* The first device of a kind with a card of amdgpu's, or NULL. */
const struct card *doctor_apu(const struct doctor *doctor);

doctor_check check_inputs; /* doctor.c */
doctor_check check_kernel, check_release, check_firmware, check_wsl, check_carveout, check_rocm_pool, check_pages_limit,
        check_gttsize, check_page_pool, check_system_mem_limit, check_iommu, check_gtt_over_ram,
        check_xe_region, check_vendor_values, check_orphans, check_device_rights, check_nouveau; /* doctor_gpu.c */
doctor_check check_nvidia_driver, check_nvidia_settings, check_lfb, check_cma, check_l4t, check_jetson_zram, check_jetson_clocks,
        check_desktop; /* doctor_nvidia.c */
doctor_check check_swap, check_swappiness, check_min_free, check_watermark_scale,
        check_watermark_boost, check_thp, check_thp_defrag, check_proactive, check_unevictable,
        check_overcommit, check_huge_pages, check_tmpfs, check_memlock, check_psi, check_cgroup,
        check_oom_daemons, check_privileges, check_fragmentation, check_baseline,
        check_tuned; /* doctor_system.c */
doctor_check check_unified_env, check_hsa_override, check_hsa_caps, check_torch_conf; /* doctor_env.c */
doctor_check check_vllm, check_ray; /* doctor_engines.c */

#endif
