/* The machine's readings on their way to the arbiter. */
#include "app/shell.h"

#include <string.h>

#include "base/log.h"

static bool uses_gpu(const struct shell *shell, const struct instance_row *row)
{
	struct model_hold hold;

	if (!shell_has_devices(shell) || !arbiter_hold(shell->arbiter, row->model, &hold))
		return false;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		if (hold.claim.bytes[pool][USE_GPU] > 0)
			return true;
	return false;
}

static uint32_t add_owners(const struct shell *shell, bool gone, struct sampler_owner *out,
                           uint32_t count, uint32_t capacity)
{
	for (uint32_t i = 0; i < shell->instances_used && count < capacity; i++) {
		const struct instance_row *row = &shell->instances[i];
		struct sampler_owner *owner = &out[count];

		if (!row->live || row->gone != gone)
			continue;
		*owner = (struct sampler_owner){ .instance = row->id, .gone = gone, .loading = row->ready_at_us == 0,
			                  .gpu = uses_gpu(shell, row) };
		struct owner whose = { 0 };
		bool running = supervisor_owner(shell->supervisor, row->id, &whose);
		owner->owner.pgid = whose.pgid;
		owner->owner.pid = whose.pid;
		owner->owner.cgroup = whose.cgroup;
		if (!running && !gone)
			continue; /* asked for, not yet there */
		owner->owner.files[0] = row->file[0] ? row->file : NULL;
		owner->owner.hot_most_bytes = row->hot_most_bytes;
		count++;
	}
	return count;
}

/* Those whose release is awaited come first: a full sample must not hold up a load. */
static uint32_t sample_owners(void *ctx, struct sampler_owner *out, uint32_t capacity)
{
	uint32_t count = add_owners(ctx, true, out, 0, capacity);

	return add_owners(ctx, false, out, count, capacity);
}

int64_t shell_unowned_bytes(const struct shell *shell)
{
	const struct sample *sample = &shell->sample;
	int64_t bytes = sample->unreclaimable_bytes - sample->anon_bytes - sample->hot_file_bytes;

	for (uint32_t i = 0; i < sample->owners; i++)
		bytes -= sample->owner[i].gpu_bytes[0] + sample->owner[i].shmem_bytes;
	return bytes > 0 ? bytes : -1;
}

/*
 * What was found is all of it: every process was readable, and its group was
 * seen at all, which just after the fork may not be one yet. Of one that became
 * ready meanwhile it may be from before, when it had next to nothing.
 */
static bool is_whole(const struct shell *shell, const struct sampler_owner *asked, const struct sample_owner *found)
{
	const struct instance_row *row = shell_instance((struct shell *)shell, asked->instance);
	bool became_ready = asked->loading && row && row->ready_at_us > 0;

	return found->complete && !became_ready && (found->pgid <= 0 || found->processes > 0);
}

static void push_measured(struct shell *shell, const struct sampler_owner *asked,
                          const struct sample_owner *found)
{
	struct event event = shell_event(EVENT_MEASURED);
	bool gone = asked->gone && found->processes == 0;

	event.measured.instance = asked->instance;
	event.measured.own.bytes[0][USE_HOST] = gone ? 0 : found->own_bytes;
	for (uint32_t pool = 0; pool < POOLS_MAX && !gone; pool++)
		event.measured.own.bytes[pool][USE_GPU] = found->gpu_bytes[pool];
	event.measured.complete = gone || is_whole(shell, asked, found);
	event.measured.gone = gone;
	shell_push(shell, &event);
}

/*
 * A bound that its own memory fills leaves no room for what it maps: an engine that takes more than was planned would
 * read its file over and over. So it follows what is measured, upwards.
 */
static void raise_bound(struct shell *shell, const struct sampler_owner *asked, const struct sample_owner *found)
{
	enum { BESIDE_BYTES = 16 << 20, PAGE_OF_TABLE = 512 };
	const struct instance_row *row = shell_instance(shell, asked->instance);

	if (!row || row->hot_most_bytes == 0 || asked->gone)
		return;
	int64_t need = found->anon_bytes + row->hot_most_bytes + BESIDE_BYTES +
	               shell->catalogue.rows[row->model].file_bytes / PAGE_OF_TABLE;
	if (need > supervisor_bound_bytes(shell->supervisor, asked->instance))
		supervisor_raise_bound(shell->supervisor, asked->instance, need + BESIDE_BYTES);
}

/* A load is observed by the first sample that sees it ready. */
static void observe(struct shell *shell, const struct sampler_owner *asked, const struct sample_owner *found)
{
	struct instance_row *row = shell_instance(shell, asked->instance);
	int64_t bytes = found->own_bytes;

	if (!row || !row->unobserved || asked->gone || found->processes == 0 || !is_whole(shell, asked, found))
		return;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		bytes += found->gpu_bytes[pool];
	row->unobserved = false;
	shell_observe_load(shell, row, bytes);
}

/* The view of the control group as the arbiter knows it is no longer true. */
static bool cap_changed(const struct shell *shell, const struct sample *sample)
{
	struct view_spec cap = { 0 };

	shell_cgroup_cap(shell, sample, &cap);
	return cap.cap_bytes != shell->group_cap_told_bytes;
}

static void push_sample(struct shell *shell, const struct sample *sample)
{
	struct event event = shell_event(EVENT_SAMPLE);
	struct view_spec cap;
	bool known = true;

	event.sample.unreclaimable_bytes[0] = sample->unreclaimable_bytes;
	if (shell_has_devices(shell)) {
		known = shell_fill_sample(shell, &event);
	} else {
		known = !cap_changed(shell, sample);
		if (shell_cgroup_cap(shell, sample, &cap))
			event.sample.view_foreign_bytes[0] = cap.foreign_bytes;
	}
	if (!known)
		shell_push_machine(shell);
	shell_push(shell, &event);
}

static void on_sample(void *ctx, const struct sample *sample, const struct topology *topology,
                      const struct sampler_owner *owners, uint32_t count)
{
	struct shell *shell = ctx;

	shell_read_again(shell);
	sample_copy(&shell->sample, sample);
	if (topology)
		shell->topology = *topology;
	shell->sampled_at_us = shell_now_us();
	shell_tell_inputs(shell, &sample->inputs);
	if (topology)
		shell_tell_inputs(shell, &topology->inputs);
	shell_note_baseline(shell, sample);
	/* First: where all is well again, nobody more goes for what this sample shows released. */
	shell_judge_pressure(shell, sample, owners);
	for (uint32_t i = 0; i < count; i++)
		push_measured(shell, &owners[i], &sample->owner[i]);
	for (uint32_t i = 0; i < count; i++)
		raise_bound(shell, &owners[i], &sample->owner[i]);
	shell_judge_given_back(shell, sample, owners);
	for (uint32_t i = 0; i < count; i++)
		observe(shell, &owners[i], &sample->owner[i]);
	push_sample(shell, sample);
	shell_keep_learned(shell, false);
	shell_score_engines(shell, sample, owners);
	shell_note_power(shell, sample);
	shell_consider_remedy(shell, sample, owners);
	shell_consider_compaction(shell);
	shell_look_replaced(shell);
	shell_look_orphans(shell, sample);

	struct err err;
	if (store_take_error(shell->store, &err))
		log_error("%s", err.text);
}

static void on_failed(void *ctx, const char *text)
{
	shell_unread_failed(ctx, text);
}

static void on_late(void *ctx, const char *what)
{
	shell_unread_late(ctx, what);
}

void shell_sampler_events(struct shell *shell, struct sampler_events *out)
{
	*out = (struct sampler_events){
		.ctx = shell,
		.owners = sample_owners,
		.on_sample = on_sample,
		.on_failed = on_failed,
		.on_late = on_late,
	};
}
