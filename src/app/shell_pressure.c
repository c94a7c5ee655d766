/*
 * Memory that runs out: what the probe judges becomes the arbiter's levels, and
 * while it is near, the machine is looked at more often.
 */
#include "app/shell.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "probe/cgroup.h"

_Static_assert((int)DANGER_WARN == (int)PRESSURE_WARN && (int)DANGER_CRIT == (int)PRESSURE_CRIT,
               "the probe's levels are the arbiter's");

/* What engines have of what they claimed: its growth surprises nobody. */
static int64_t promised(const struct shell *shell, const struct sample *sample,
                        const struct sampler_owner *owners, bool *loading)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < sample->owners; i++) {
		const struct instance_row *row = shell_instance((struct shell *)shell, owners[i].instance);
		struct model_hold hold;
		if (!row || !arbiter_hold(shell->arbiter, row->model, &hold))
			continue;
		int64_t own = sample->owner[i].own_bytes + sample->owner[i].gpu_bytes[0];
		int64_t claim = amount_in_pool(&hold.claim, 0);
		bytes += own < claim ? own : claim;
		*loading |= hold.state == MODEL_LOADING;
	}
	return bytes;
}

static void tell(struct shell *shell, const struct danger *danger)
{
	struct event event = shell_event(EVENT_PRESSURE);
	char left[UNITS_TEXT];

	/* While it is critical each sample tells how much is still missing. */
	if ((uint32_t)danger->level == shell->pressure && danger->level != DANGER_CRIT)
		return;
	if ((uint32_t)danger->level > shell->pressure)
		log_warn("memory is %s: %s (%s left)",
		         danger->level == DANGER_CRIT ? "nearly gone" : "getting short", danger->sign,
		         units_size(left, danger->left_bytes > 0 ? danger->left_bytes : 0));
	shell->pressure = (enum pressure)danger->level;
	event.pressure.level = (uint32_t)danger->level;
	event.pressure.short_bytes = danger->short_bytes;
	shell_push(shell, &event);
}

void shell_judge_pressure(struct shell *shell, const struct sample *sample,
                          const struct sampler_owner *owners)
{
	struct danger danger;
	struct danger_facts facts = {
		.sample = sample,
		.at_us = shell_now_us(),
		.reserve_bytes = shell->reserve_bytes,
		.free_2m_bytes = shell->topology.free_2m_bytes,
		.nvidia_unified = topology_is_nvidia_unified(&shell->topology),
	};

	facts.promised_bytes = promised(shell, sample, owners, &facts.loading);
	danger_judge(&shell->danger, &facts, &danger);
	tell(shell, &danger);
	/* Where nothing is loaded there is nothing that could go. */
	bool idle = sample->owners == 0 && danger.level == DANGER_NONE;
	sampler_within(shell->sampler, idle ? UINT32_MAX : danger.look_ms);
}

bool shell_cgroup_cap(const struct shell *shell, const struct sample *sample, struct view_spec *out)
{
	int64_t limit = sample->cgroup_limit_bytes;
	int64_t foreign = sample->cgroup_hard_bytes;

	if (limit >= sample->total_bytes)
		return false;
	/* It bounds us and the engines together; what is not theirs there is foreign to them. */
	for (uint32_t i = 0; i < sample->owners; i++)
		foreign -= sample->owner[i].own_bytes;
	*out = (struct view_spec){
		.cap_bytes = limit - danger_group_reserve(limit, shell->reserve_bytes),
		.foreign_bytes = foreign > 0 ? foreign : 0,
		.mask = VIEW_BIT(0, USE_HOST),
	};
	return true;
}

/* ---- the kernel's own word ---- */

static void on_stall(uv_poll_t *poll, int status, int events)
{
	struct shell *shell = poll->data;

	(void)events;
	if (status < 0)
		uv_poll_stop(poll);
	else
		sampler_now(shell->sampler);
}

static void watch(struct shell *shell, struct stall_watch *watch, const char *path)
{
	/* 150 ms of stalls in 2 s: shorter windows take a privilege. */
	static const char trigger[] = "some 150000 2000000";

	watch->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (watch->fd < 0)
		return;
	if (write(watch->fd, trigger, sizeof(trigger)) < 0 ||
	    uv_poll_init(&shell->loop, &watch->poll, watch->fd) < 0) {
		close(watch->fd);
		watch->fd = -1;
		return;
	}
	watch->poll.data = shell;
	uv_poll_start(&watch->poll, UV_PRIORITIZED, on_stall);
}

/* Of the nearest group of cgroup2 with a limit: there stalls begin long before the machine has any. */
static bool group_pressure_path(const struct shell *shell, char out[PATH_MAX])
{
	struct cgroup_mounts *mounts = xmalloc(sizeof(*mounts));
	struct cgroup_limits *limits = xmalloc(sizeof(*limits));

	cgroup_find_mounts("", mounts);
	cgroup_find_limits("", mounts, shell->sample.total_bytes, limits);
	bool there = cgroup_pressure_path(limits, out);
	free(mounts);
	free(limits);
	return there;
}

void shell_watch_stalls(struct shell *shell)
{
	char path[PATH_MAX];

	watch(shell, &shell->stalls[0], "/proc/pressure/memory");
	if (group_pressure_path(shell, path))
		watch(shell, &shell->stalls[1], path);
}

static void on_stall_closed(uv_handle_t *handle)
{
	struct stall_watch *watch = (struct stall_watch *)(void *)handle;

	close(watch->fd);
	watch->fd = -1;
}

void shell_unwatch_stalls(struct shell *shell)
{
	for (size_t i = 0; i < sizeof(shell->stalls) / sizeof(shell->stalls[0]); i++)
		if (shell->stalls[i].fd >= 0)
			uv_close((uv_handle_t *)&shell->stalls[i].poll, on_stall_closed);
}

/* ---- ourselves ---- */

enum { APART_BYTES = 32 * 1024 };

static bool may_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
		return true;
	memset(data, 0, sizeof(data));
	return syscall(SYS_capget, &header, data) == 0 &&
	       data[0].effective & (1u << CAP_IPC_LOCK);
}

void shell_stand_firm(void)
{
	/* Bodies of requests are unmapped when they are done with: of a heap that is locked nothing can be given back. */
	mallopt(M_MMAP_THRESHOLD, APART_BYTES);
	/* Each is done where it may be. With a limit on locked memory later mappings would fail. */
	setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - 10);
	if (may_lock())
		mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t unused = write(fd, "-900", 4);
	(void)unused;
	close(fd);
}
