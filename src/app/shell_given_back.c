/* Whether the machine has back what an ended engine had; see given_back.h. */
#include "app/shell.h"

#include <stdio.h>

#include "base/log.h"
#include "base/units.h"

static bool loads_alone(const struct shell *shell, const struct instance_row *row)
{
	for (uint32_t i = 0; i < shell->instances_used; i++) {
		const struct instance_row *other = &shell->instances[i];
		if (other != row && other->live && (other->ready_at_us == 0 || other->gone))
			return false;
	}
	return true;
}

static int64_t apart_of(const struct sample_owner *owner)
{
	return owner->shmem_bytes + owner->gpu_bytes[0];
}

/* What may stay behind of it, as long as it serves: then nobody takes anything away from it. */
static void note_live(struct shell *shell, struct instance_row *row, const struct sample_owner *owner)
{
	int64_t unowned = shell_unowned_bytes(shell);
	struct model_hold hold;

	if (unowned < 0 || row->ready_at_us == 0 || !arbiter_hold(shell->arbiter, row->model, &hold) ||
	    (hold.state != MODEL_IDLE && hold.state != MODEL_BUSY) || owner->processes == 0 || !owner->complete)
		return;
	/* What it took while it loaded that is nobody's: files, kernel memory. */
	if (row->served_bytes == 0 && row->loaded_alone && loads_alone(shell, row) && row->unowned_bytes >= 0 && unowned > row->unowned_bytes)
		row->beside_bytes = unowned - row->unowned_bytes;
	row->served_bytes = owner->own_bytes + owner->gpu_bytes[0] + row->beside_bytes;
	row->apart_bytes = apart_of(owner) + row->beside_bytes;
	row->unowned_last_bytes = unowned - row->beside_bytes;
}

static struct left_behind *free_place(struct shell *shell)
{
	struct left_behind *first = &shell->left_behind[0];

	for (uint32_t i = 0; i < LEFT_BEHIND_MAX; i++) {
		struct left_behind *left = &shell->left_behind[i];
		if (left->g.ended_at_us == 0)
			return left;
		if (left->g.ended_at_us < first->g.ended_at_us)
			first = left;
	}
	return first;
}

static void note_end(struct shell *shell, struct instance_row *row)
{
	int64_t unowned = shell_unowned_bytes(shell);

	if (row->end_noted || row->served_bytes == 0 || unowned < 0)
		return;
	row->end_noted = true;
	struct left_behind *left = free_place(shell);
	struct given_back g;
	given_back_begin(&g, shell_now_us(), row->apart_bytes, row->served_bytes, row->unowned_last_bytes, unowned);
	if (g.ended_at_us == 0)
		return;
	*left = (struct left_behind){ .g = g };
	bool files = shell->sample.shmem_bytes >= g.missing_bytes / 2;
	str_copy(left->model, sizeof(left->model), str_from(shell->conf->models[row->model].name));
	left->holder = files ? "a file in a tmpfs may have it; try: df -h -t tmpfs" : "a driver may have it, which a reboot gives back";
}

static void tell(struct left_behind *left, enum given_back_news news)
{
	char missing[UNITS_TEXT], had[UNITS_TEXT];

	units_size(missing, left->g.missing_bytes);
	units_size(had, left->g.had_bytes);
	if (news == GIVEN_BACK_LATE)
		snprintf(left->text, sizeof(left->text), "%s of the %s that %s had are not back: %s", missing, had, left->model,
		         left->holder);
	if (news == GIVEN_BACK_NEVER)
		snprintf(left->text, sizeof(left->text), "%s left %s of its %s behind, a minute after its end: %s", left->model,
		         missing, had, left->holder);
	if (news == GIVEN_BACK_WHOLE)
		log_info("what %s had is back now", left->model);
	else if (news != GIVEN_BACK_NO_NEWS)
		log_warn("%s", left->text);
}

void shell_judge_given_back(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners)
{
	int64_t unowned = shell_unowned_bytes(shell);

	for (uint32_t i = 0; i < LEFT_BEHIND_MAX && unowned >= 0; i++) {
		struct left_behind *left = &shell->left_behind[i];
		tell(left, given_back_look(&left->g, shell_now_us(), unowned));
		if (left->g.ended_at_us == 0)
			left->text[0] = '\0';
	}
	for (uint32_t i = 0; i < sample->owners; i++) {
		struct instance_row *row = shell_instance(shell, owners[i].instance);
		if (!row)
			continue;
		if (row->ready_at_us == 0)
			row->loaded_alone = row->loaded_alone && loads_alone(shell, row);
		if (owners[i].gone && sample->owner[i].processes == 0)
			note_end(shell, row);
		else if (!owners[i].gone)
			note_live(shell, row, &sample->owner[i]);
	}
}

bool shell_awaits_bytes(const struct shell *shell)
{
	for (uint32_t i = 0; i < LEFT_BEHIND_MAX; i++)
		if (shell->left_behind[i].g.ended_at_us && !shell->left_behind[i].g.given_up)
			return true;
	return false;
}
