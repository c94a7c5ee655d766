/*
 * What the arbiter wants, done. Nothing here decides: an action that cannot be
 * carried out becomes the event that says so.
 */
#include "app/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/dirs.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/estimate_params.h"

static void push_exited(struct shell *shell, struct id instance, enum fail fail, bool never_ready)
{
	struct event event = shell_event(EVENT_INSTANCE_EXITED);

	event.instance.instance = instance;
	event.instance.fail = fail;
	event.instance.never_ready = never_ready;
	shell_push(shell, &event);
}

static void spawn(struct shell *shell, const struct action *action)
{
	const struct conf_model *model = &shell->conf->models[action->model];
	struct instance_row *row = &shell->instances[action->instance.index];

	if (action->instance.index >= shell->instances_used)
		shell->instances_used = action->instance.index + 1;
	shell_kept_end(row);
	*row = (struct instance_row){ .id = action->instance,
		                      .sequence = action->instance_sequence,
		                      .model = action->model,
		                      .conf = shell->conf,
		                      .live = true,
		                      .unowned_bytes = shell_unowned_bytes(shell),
		                      .loaded_alone = true,
		                      .spawned_at_us = shell_now_us() };
	if (model->file)
		str_copy(row->file, sizeof(row->file), str_from(model->file));
	shell->last_error[action->model][0] = '\0';
	if (!shell_ask_engine(shell, action))
		shell_spawn(shell, action);
}

void shell_spawn_ended(struct shell *shell, struct id instance, enum fail fail)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (row)
		row->gone = true;
	push_exited(shell, instance, fail, false);
}

/* As the file says, or as loads of it taught, if that is more. */
static int64_t bound_bytes(const struct shell *shell, uint32_t model)
{
	int64_t bytes = estimate_bound_bytes(&shell->catalogue.rows[model].estimate);
	struct model_view view;

	if (bytes == 0 || !arbiter_model(shell->arbiter, model, &view))
		return bytes;
	int64_t claim = view.claim.bytes[0][USE_HOST];
	return claim > bytes ? claim : bytes;
}

void shell_spawn(struct shell *shell, const struct action *action)
{
	const struct conf_model *model = &shell->conf->models[action->model];
	struct instance_row *row = &shell->instances[action->instance.index];
	struct err err = { 0 };
	const struct catalogue_row *known = &shell->catalogue.rows[action->model];
	struct launch_tuning tuning;

	catalogue_tuning(known, &tuning);
	const char *save_folder = known->lazy || known->elastic.count ? shell->save_dir : NULL;
	/* An engine does not start without it, and somebody may have tidied up meanwhile. */
	if (save_folder && dirs_make(save_folder, &err) < 0) {
		log_warn("%s: conversations cannot be saved: %s", model->name, err.text);
		save_folder = NULL;
	}
	int code = supervisor_spawn(shell->supervisor,
	                            &(struct spawn_order){
	                                    .instance = action->instance,
	                                    .sequence = action->instance_sequence,
	                                    .model = model,
	                                    .slots = action->slots,
	                                    .context_tokens = action->context_tokens,
	                                    .file_bytes = known->file_bytes,
	                                    .tuning = tuning,
	                                    .bound_bytes = bound_bytes(shell, action->model),
	                                    .lazy_library = known->lazy ? shell->lazy_library : NULL,
	                                    .save_folder = save_folder,
	                            },
	                            &err);
	if (code == 0) {
		/* Its driver may find too little memory free: see shell_remedy.c. */
		if (shell_has_devices(shell))
			sampler_now(shell->sampler);
		shell_note_start(shell, row);
		shell_kept_begin(shell, row);
		return;
	}
	str_copy(shell->last_error[action->model], sizeof(shell->last_error[0]),
	         str_from(err.text));
	row->gone = true;
	/* -EAGAIN: a keeper that died is being replaced; the next try will find the new one. */
	push_exited(shell, action->instance, FAIL_LOAD_FAILED, code != -EAGAIN);
}

/* A measured load, kept beside what was predicted: this is what estimates are judged by. */
void shell_observe_load(struct shell *shell, const struct instance_row *instance, int64_t measured_bytes)
{
	const struct conf_model *model = &shell->conf->models[instance->model];
	const struct catalogue_row *row = &shell->catalogue.rows[instance->model];
	struct model_view view;

	/* It may have left the configuration while it loaded. */
	if (model->absent || conf_is_outside(model) ||
	    !arbiter_model(shell->arbiter, instance->model, &view))
		return;
	store_add_observation(
	        shell->store,
	        &(struct store_observation){
	                .at_ms = (instance->ready_at_us + shell_wall_offset_us()) / US_PER_MS,
	                .model = model->name,
	                .file = model->file ? model->file : "",
	                .build = model->engine_path ? model->engine_path : model->engine_name,
	                .estimate_bytes = amount_total(&row->spec.base),
	                .measured_base_bytes = measured_bytes,
	                .measured_peak_bytes = view.peak_bytes > measured_bytes ? view.peak_bytes : measured_bytes,
	                .load_ms = view.last_load_us / US_PER_MS,
	        });
	/* Conversations that began meanwhile are not the model's. */
	shell_learn_load(shell, instance->model, measured_bytes - view.kept_bytes);
}

static void note_leak(struct shell *shell, const struct instance_row *row)
{
	int64_t unowned = shell_unowned_bytes(shell);
	struct leak *leak = &shell->leaks[row->model];
	bool leaked = leak_slope_bytes(leak) > 0;
	char each[UNITS_TEXT];

	if (row->unowned_bytes < 0 || unowned < 0)
		return;
	leak_add(leak, unowned - row->unowned_bytes);
	if (!leaked && leak_slope_bytes(leak) > 0)
		log_warn("%s leaves %s behind each time that it is loaded; try: cotenant memory",
		         shell->conf->models[row->model].name, units_size(each, leak_slope_bytes(leak)));
}

static void release_row(struct shell *shell, uint64_t sequence)
{
	for (uint32_t i = 0; i < shell->instances_used; i++) {
		struct instance_row *row = &shell->instances[i];
		if (!row->live || row->sequence != sequence)
			continue;
		note_leak(shell, row);
		row->live = false;
	}
}

static void log_decision(struct shell *shell, const struct decision *decision)
{
	uint32_t left_out;
	struct buf text = BUF_INIT;

	if (!log_shows(journal_level(decision)) ||
	    !journal_takes(&shell->journal, decision, shell_now_us(), &left_out))
		return;
	api_decision_text(shell->api, decision, &text);
	if (left_out)
		buf_printf(&text, " (and %u more that were ended, not told one by one)", left_out);
	log_line(journal_level(decision), "%s", buf_cstr(&text));
	buf_release(&text);
}

static void keep_decision(struct shell *shell, const struct decision *decision)
{
	log_decision(shell, decision);
	api_on_decision(shell->api, decision);
	shell_warm_decided(shell, decision);
	if (decision->kind == DECISION_RELEASED) {
		release_row(shell, decision->instance);
		shell_keep_learned(shell, true);
	}
}

/* An engine that hangs, or loads for ever, says nothing itself: what its clients read is why it was ended. */
static void note_stall(struct shell *shell, const struct action *action)
{
	bool slow = action->reason == REASON_SLOW;
	const struct conf_model *model = &shell->conf->models[action->model];
	char span[UNITS_TEXT], health[320];

	supervisor_health_text(shell->supervisor, action->instance, health, sizeof(health));
	snprintf(shell->last_error[action->model], sizeof(shell->last_error[0]),
	         "its engine %s %s (%s) and was ended%s%s; try: cotenant logs %.60s",
	         slow ? "was not ready after" : "made no progress for",
	         units_duration(span, slow ? model->start_timeout_us : model->stall_timeout_us),
	         slow ? "start_timeout" : "stall_timeout", health[0] ? ": " : "", health, model->name);
	log_warn("%s: %s", model->name, shell->last_error[action->model]);
}

static void want_stop(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row)
		return;
	row->stop_wanted = true;
	shell_give_up_asking(shell, row);
}

void shell_carry_out(struct shell *shell, const struct action *action)
{
	switch ((enum action_type)action->type) {
	case ACTION_SPAWN:
		spawn(shell, action);
		break;
	case ACTION_DISCARD:
		shell_kept_discard(shell, action->instance);
		break;
	case ACTION_STOP:
		shell_context_stopped(shell, action);
		want_stop(shell, action->instance);
		gateway_forget_instance(shell->gateway, action->instance);
		shell_kept_stop(shell, action->instance, action->reason == REASON_CONTEXT);
		break;
	case ACTION_KILL:
	case ACTION_ABORT_LOAD:
		shell_context_stopped(shell, action);
		want_stop(shell, action->instance);
		if (action->reason == REASON_STALLED || action->reason == REASON_SLOW)
			note_stall(shell, action);
		gateway_forget_instance(shell->gateway, action->instance);
		supervisor_kill(shell->supervisor, action->instance);
		break;
	case ACTION_DISPATCH:
		if (!shell_kept_restore(shell, action))
			ticket_verdict(shell->tickets, action);
		break;
	case ACTION_CANCEL:
	case ACTION_REJECT:
	case ACTION_DONE:
		ticket_verdict(shell->tickets, action);
		break;
	case ACTION_TIMER:
		shell_arm(shell, action->at_us);
		break;
	case ACTION_RECORD:
		keep_decision(shell, &action->decision);
		break;
	case ACTION_DRAINED:
		shell_close(shell);
		break;
	case ACTION_WARM:
	case ACTION_COOL:
		shell_warm_order(shell, action);
		break;
	case ACTION_NONE:
	case ACTION_RESTART:
	case ACTION_SLEEP:
	case ACTION_WAKE:
	case ACTION_GROW:
	case ACTION_SHRINK:
	case ACTION_SOFT_RECLAIM:
	case ACTION_SAVE:
	case ACTION_RESTORE:
	case ACTION_GRANT:
	case ACTION_DENY:
	case ACTION_RECLAIM:
	case ACTION_TYPE_COUNT:
		/* The arbiter of this version asks for none of these. */
		log_error("action %u cannot be carried out", action->type);
		break;
	}
}
