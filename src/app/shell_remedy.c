/*
 * While engines load onto a GPU that shares the system's memory: whether enough of it is free for the driver, and who
 * makes room if not. At each sample, so at once after the start of an engine and every second until it is ready;
 * what it has to do takes seconds, and is done by a thread.
 */
#include "app/shell.h"

#include <stdlib.h>
#include <string.h>

#include "app/remedy.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "io/worker.h"

enum { EVERY_US = 5 * US_PER_S };

struct remedy_job {
	struct shell *shell;
	struct job job;
	struct remedy_memory before;
	struct remedy remedy;
};

static bool has_amd(const struct topology *t)
{
	return t->kind == TOPOLOGY_AMD_GTT || t->kind == TOPOLOGY_AMD_CARVEOUT || t->kind == TOPOLOGY_DISCRETE_AMD ||
	       t->kind == TOPOLOGY_MIXED;
}

bool shell_amd_serves(const struct shell *shell, bool pinned)
{
	struct model_view view;

	if (!has_amd(&shell->topology))
		return false;
	for (uint32_t i = 0; i < arbiter_models(shell->arbiter); i++) {
		int64_t bytes = 0;
		if (!arbiter_model(shell->arbiter, i, &view) || (pinned && !view.pinned))
			continue;
		for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
			bytes += view.claim.bytes[pool][USE_GPU];
		if (bytes > 0)
			return true;
	}
	return false;
}

/* What loads onto a GPU that shares the RAM have claimed of it and not yet taken. */
static int64_t coming_bytes(const struct shell *shell)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < arbiter_models(shell->arbiter); i++) {
		struct model_hold hold;
		struct model_view view;
		if (!arbiter_hold(shell->arbiter, i, &hold) || hold.state != MODEL_LOADING ||
		    hold.claim.bytes[0][USE_GPU] == 0 || !arbiter_model(shell->arbiter, i, &view))
			continue;
		int64_t left = view.claim.bytes[0][USE_GPU] - view.measured.bytes[0][USE_GPU];
		/* One whose memory is all there still loads: its driver wants some room until it is ready. */
		bytes += left > 1 ? left : 1;
	}
	return bytes;
}

static void fill_files(const struct shell *shell, struct remedy *remedy)
{
	for (uint32_t i = 0; i < shell->conf->model_count && remedy->files < REMEDY_FILES_MAX; i++) {
		const struct conf_model *model = &shell->conf->models[i];
		if (model->absent || !model->file || shell_is_mapped(shell, i))
			continue;
		if (str_copy(remedy->file[remedy->files], REMEDY_PATH_MAX, str_from(model->file)))
			remedy->files++;
	}
}

/* Ready, and the GPU has as much of it as its file is large: what it maps of that is there twice. */
static void fill_maps(const struct shell *shell, const struct sample *sample, const struct sampler_owner *owners,
                      struct remedy *remedy)
{
	for (uint32_t i = 0; i < sample->owners && remedy->maps < REMEDY_MAPS_MAX; i++) {
		const struct sample_owner *owner = &sample->owner[i];
		const struct instance_row *row = shell_instance((struct shell *)shell, owners[i].instance);
		if (!row || row->ready_at_us == 0 || owners[i].gone || owner->pgid <= 0 || owner->mapped_bytes == 0 ||
		    owner->gpu_bytes[0] < shell->catalogue.rows[row->model].file_bytes)
			continue;
		struct remedy_map *map = &remedy->map[remedy->maps];
		map->pid = owner->pgid;
		if (str_copy(map->path, sizeof(map->path), str_from(row->file)))
			remedy->maps++;
	}
}

static void run(struct job *job)
{
	remedy_run(&LIST_ENTRY(job, struct remedy_job, job)->remedy);
}

static void tell(struct shell *shell, const struct remedy_job *self)
{
	const struct remedy *remedy = &self->remedy;
	const struct remedy_memory *now = &remedy->facts.now;
	char before[UNITS_TEXT], after[UNITS_TEXT], before_large[UNITS_TEXT], after_large[UNITS_TEXT];
	struct buf steps = BUF_INIT;

	for (uint32_t step = 0; step < REMEDY_STEPS; step++)
		if (remedy->taken & 1u << step)
			buf_printf(&steps, "%s%s", buf_length(&steps) ? ", " : "", remedy_step_name(step));
	log_info("memory was made free for a load (%s): %s free before, %s now; in blocks of 2 MiB %s, now %s",
	         buf_length(&steps) ? buf_cstr(&steps) : "nothing could be done", units_size(before, self->before.free),
	         units_size(after, now->free), units_size(before_large, self->before.large),
	         units_size(after_large, now->large));
	buf_release(&steps);
	if (remedy->missing[0] && !shell->remedy_missed)
		log_warn("not all that would make memory free for a load may be done: %s (needs root); try: cotenant doctor",
		         remedy->missing);
	shell->remedy_missed |= remedy->missing[0] != '\0';
}

static void after_run(struct job *job)
{
	struct remedy_job *self = LIST_ENTRY(job, struct remedy_job, job);
	struct shell *shell = self->shell;

	shell->remedy_runs = false;
	tell(shell, self);
	if (shell->phase != PHASE_CLOSING)
		sampler_now(shell->sampler);
	free(self);
}

void shell_consider_remedy(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners)
{
	const struct topology *t = &shell->topology;
	struct remedy_facts facts = {
		.now = remedy_memory_of(&t->mem, t->free_2m_bytes),
		.nvidia_unified = topology_is_nvidia_unified(t),
	};

	if (!shell_has_devices(shell) || shell->remedy_runs || shell->phase != PHASE_SERVING ||
	    shell_now_us() - shell->remedy_at_us < EVERY_US)
		return;
	facts.coming_bytes = coming_bytes(shell);
	if (facts.coming_bytes == 0)
		return;
	facts.amd_serves = shell_amd_serves(shell, false);
	if (!remedy_is_needed(&facts))
		return;
	struct remedy_job *self = xcalloc(1, sizeof(*self));
	self->shell = shell;
	self->before = facts.now;
	self->remedy.root = "";
	self->remedy.facts = facts;
	fill_files(shell, &self->remedy);
	fill_maps(shell, sample, owners, &self->remedy);
	shell->remedy_runs = true;
	shell->remedy_at_us = shell_now_us();
	self->job = (struct job){ .run = run, .done = after_run };
	worker_start(&shell->loop, &self->job);
}
