/*
 * What the layers below ask of the shell. Each answer is a read of its state or
 * one event in the queue; nothing here steps the arbiter.
 */
#include "app/shell.h"

#include <stdlib.h>
#include <string.h>

#include "api/progress.h"
#include "api/sentence.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

/* A sample older than this is taken anew before something is loaded. */
enum { STALE_US = 1000000 };

/* ---- the gateway ---- */

void shell_push_arrived(struct shell *shell, struct id ticket, const struct request_spec *spec)
{
	struct event event = shell_event(EVENT_REQUEST_ARRIVED);

	event.arrived.request = ticket;
	event.arrived.spec = *spec;
	shell->conversation_of[ticket.index] = spec->conversation;
	shell_context_arrived(shell, spec);
	shell_push(shell, &event);
}

static void on_request(void *ctx, struct id ticket, const struct request_spec *spec)
{
	struct shell *shell = ctx;
	bool wants_it = spec->kind == REQUEST_INFER || spec->kind == REQUEST_LOAD;
	bool unusable = shell->catalogue.rows[spec->model].error[0];

	/* While nothing is loaded the machine is looked at rarely: whoever loads wants to know how it is. */
	if (wants_it && shell->pace == PACE_EMPTY && shell_now_us() - shell->sampled_at_us > STALE_US)
		sampler_now(shell->sampler);
	if (wants_it && shell_has_devices(shell) && id_is_none(arbiter_instance(shell->arbiter, spec->model)))
		sampler_ask_devices(shell->sampler);
	/* Nobody is evicted for a file that cannot be used, or by what another file took. */
	if (wants_it && (unusable || (shell->conf->models[spec->model].file &&
	                              id_is_none(arbiter_instance(shell->arbiter, spec->model)))))
		shell_recheck(shell, ticket, spec);
	else
		shell_push_arrived(shell, ticket, spec);
}

static void push_request_end(struct shell *shell, enum event_type type, struct id ticket, enum fail fail)
{
	struct event event = shell_event(type);

	event.request.request = ticket;
	event.request.fail = fail;
	shell_push(shell, &event);
}

static void push_answered(struct shell *shell, const struct exchange_end *end)
{
	struct event event = shell_event(EVENT_REQUEST_FINISHED);

	event.request.request = end->ticket;
	event.request.fail = end->fail;
	event.request.tokens_in = end->tokens_in;
	event.request.tokens_out = end->tokens_out;
	event.request.prefill_tokens = end->prefill_tokens;
	event.request.prefill_us = end->prefill_us;
	event.request.decode_us = end->decode_us;
	shell_push(shell, &event);
}

static void on_request_end(void *ctx, const struct exchange_end *end)
{
	struct shell *shell = ctx;

	if (!id_is_none(end->ticket) && end->dispatched)
		push_answered(shell, end);
	else if (!id_is_none(end->ticket))
		push_request_end(shell, EVENT_REQUEST_GONE, end->ticket, end->fail);
	if (end->dispatched && end->model != MODEL_NONE && !id_is_none(end->ticket))
		shell_kept_ended(shell, arbiter_instance(shell->arbiter, end->model), shell->conversation_of[end->ticket.index],
		                 end->tokens_in + end->tokens_out);
	if (end->dispatched && !id_is_none(end->ticket))
		shell_context_ended(shell, end);
	api_on_request_end(shell->api, end);
	if (end->dispatched && !end->fail)
		shell_note_speed(shell, end->model, end->tokens_out, end->decode_us);
}

static struct event instance_event(enum event_type type, struct id instance)
{
	struct event event = shell_event(type);
	event.instance.instance = instance;
	return event;
}

static void on_return(void *ctx, struct id ticket, struct id instance)
{
	struct event event = instance_event(EVENT_INSTANCE_UNHEALTHY, instance);

	push_request_end(ctx, EVENT_REQUEST_FINISHED, ticket, FAIL_ENGINE_DIED);
	shell_push(ctx, &event);
}

static void on_refused(void *ctx, struct id ticket)
{
	push_request_end(ctx, EVENT_REQUEST_FINISHED, ticket, FAIL_CANCELLED);
}

static bool endpoint(void *ctx, struct id instance, struct endpoint *out)
{
	struct shell *shell = ctx;
	return supervisor_endpoint(shell->supervisor, instance, out);
}

static bool loaded(void *ctx, uint32_t model, struct id *out_instance)
{
	struct shell *shell = ctx;
	struct model_view view;
	struct endpoint unused;

	if (!arbiter_model(shell->arbiter, model, &view) ||
	    !supervisor_endpoint(shell->supervisor, view.instance, &unused))
		return false;
	*out_instance = view.instance;
	return true;
}

static void progress(void *ctx, struct id ticket, uint32_t model, char *out, uint32_t out_bytes)
{
	struct shell *shell = ctx;
	struct model_view view;

	out[0] = '\0';
	if (!arbiter_model(shell->arbiter, model, &view))
		return;
	uint32_t place = arbiter_queue_position(shell->arbiter, ticket);
	const char *name = shell->conf->models[model].name;
	struct load_progress load;
	if (load_progress(shell->supervisor, &view, shell_now_us(), &load)) {
		struct buf text = BUF_INIT;
		load_progress_text(&load, &text);
		snprintf(out, out_bytes, "loading %.60s: %s; place %u", name, buf_cstr(&text), place);
		buf_release(&text);
	} else if (view.state == MODEL_BUSY && place == 0) {
		snprintf(out, out_bytes, "%.100s works on it", name);
	} else if (view.state == MODEL_BUSY) {
		snprintf(out, out_bytes, "place %u in the queue of %.100s", place, name);
	} else {
		struct buf text = BUF_INIT;
		model_text(&view, shell_now_us(), &text);
		snprintf(out, out_bytes, "%s; place %u", buf_cstr(&text), place);
		buf_release(&text);
	}
}

/* What the model did meanwhile is why it did not answer. */
static void explain_state(const struct shell *shell, uint32_t model, char *out, uint32_t out_bytes)
{
	struct model_view view;
	struct buf text = BUF_INIT;

	if (!arbiter_model(shell->arbiter, model, &view))
		return;
	model_text(&view, shell_now_us(), &text);
	str_copy(out, out_bytes, buf_str(&text));
	buf_release(&text);
}

/* Who would lose something by an unload that somebody only wishes for. */
static void explain_holder(const struct shell *shell, uint32_t model, char *out, uint32_t out_bytes)
{
	struct model_view view;

	if (!arbiter_model(shell->arbiter, model, &view))
		return;
	if (view.spec->flags & MODEL_OUTSIDE)
		snprintf(out, out_bytes, "its server is not ours (url:), and is never ended");
	else if (view.running || view.queued)
		snprintf(out, out_bytes, "%u requests run on it and %u wait; try again when they are over",
		         view.running, view.queued);
	else if (view.pinned)
		snprintf(out, out_bytes, "it is pinned; try: cotenant unpin %.100s", view.spec->name);
	else
		snprintf(out, out_bytes, "it is %s; try again when it is idle", model_state_name(view.state));
}

void shell_explain(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes)
{
	struct shell *shell = ctx;

	out[0] = '\0';
	if (model >= shell->catalogue.count)
		return;
	if (fail == FAIL_WISH_REFUSED) {
		explain_holder(shell, model, out, out_bytes);
		return;
	}
	if (fail == FAIL_BLIND) {
		str_copy(out, out_bytes, str_from(shell->unread_text));
		return;
	}
	if (fail == FAIL_DEADLINE) {
		explain_state(shell, model, out, out_bytes);
		return;
	}
	if (fail != FAIL_LOAD_FAILED && fail != FAIL_BACKING_OFF && fail != FAIL_ENGINE_DIED &&
	    fail != FAIL_START_TIMEOUT && fail != FAIL_UNREACHABLE && fail != FAIL_OUT_OF_MEMORY)
		return;
	const char *file = shell->catalogue.rows[model].error;
	str_copy(out, out_bytes, str_from(file[0] ? file : shell->last_error[model]));
}

/* The load's own time, as far as it lies after `since_us`: what a request waited for it. */
static int64_t load_us(void *ctx, struct id instance, int64_t since_us)
{
	struct shell *shell = ctx;
	const struct instance_row *row = shell_instance(shell, instance);

	if (!row || row->ready_at_us <= since_us)
		return 0;
	return row->ready_at_us - (row->spawned_at_us > since_us ? row->spawned_at_us : since_us);
}

static uint64_t decision_of(void *ctx, uint64_t request)
{
	struct shell *shell = ctx;
	return api_decision_of(shell->api, request);
}

static void on_call(void *ctx, struct call *call)
{
	struct shell *shell = ctx;
	api_handle(shell->api, call);
}

static uint64_t sequence(void *ctx)
{
	struct shell *shell = ctx;
	return ++shell->next_sequence;
}

void shell_gateway_host(struct shell *shell, struct gateway_host *out)
{
	*out = (struct gateway_host){
		.ctx = shell,
		.on_request = on_request,
		.need = shell_need,
		.on_end = on_request_end,
		.on_return = on_return,
		.on_refused = on_refused,
		.elastic = shell_context_is_elastic,
		.may_exceed = shell_context_may_exceed,
		.counts_first = shell_context_counts_first,
		.allow = shell_context_allow,
		.context_now = shell_context_now,
		.outgrown = shell_context_outgrown,
		.endpoint = endpoint,
		.loaded = loaded,
		.progress = progress,
		.explain = shell_explain,
		.load_us = load_us,
		.decision = decision_of,
		.on_tokens = shell_on_tokens,
		.lacks = shell_lacks,
		.picture = shell_picture,
		.on_call = on_call,
		.sequence = sequence,
	};
}

_Static_assert((int)LEFT_BEHIND_MAX == (int)MEMORY_LEFT_MAX, "each has its sentence");

/* ---- the api ---- */

static const struct arbiter *api_arbiter(void *ctx)
{
	return ((struct shell *)ctx)->arbiter;
}

static const struct conf *api_conf(void *ctx)
{
	return ((struct shell *)ctx)->conf;
}

static const struct sample *api_sample(void *ctx)
{
	struct shell *shell = ctx;
	return shell->sample.total_bytes ? &shell->sample : NULL;
}

static void api_calibration(void *ctx, struct calibration *out)
{
	shell_calibration(ctx, out);
}

static const struct topology *api_topology(void *ctx)
{
	struct shell *shell = ctx;
	return shell->sample.total_bytes ? &shell->topology : NULL;
}

static const char *api_not_lazy(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;

	if (model >= shell->catalogue.count)
		return "";
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	return row->lazy && !row->not_lazy[0] ? NULL : row->not_lazy;
}

static int64_t api_context(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;

	return model < shell->catalogue.count ? shell_context_now(ctx, model) : 0;
}

static const struct estimate *api_estimate(void *ctx, uint32_t model)
{
	struct shell *shell = ctx;

	if (model >= shell->catalogue.count ||
	    shell->catalogue.rows[model].estimate.base_bytes == 0)
		return NULL;
	return &shell->catalogue.rows[model].estimate;
}

static const char *api_fault(void *ctx, uint32_t model)
{
	struct shell *shell = ctx;

	return model < shell->catalogue.count ? shell->catalogue.rows[model].error : "";
}

static const struct gateway_counters *api_gateway(void *ctx)
{
	return gateway_counters(((struct shell *)ctx)->gateway);
}

static void api_now(void *ctx, struct api_now *out)
{
	struct shell *shell = ctx;

	*out = (struct api_now){
		.now_us = shell_now_us(),
		.wall_offset_us = shell_wall_offset_us(),
		.stepped_at_us = shell->last_step_us,
		.sampled_at_us = shell->sampled_at_us,
		.baseline_bytes = shell->baseline_bytes,
		.baseline_learned = shell->baseline.known.bytes >= 0,
		.draining = shell->phase != PHASE_SERVING,
		.unread = shell->unread_text,
		.blocked = shell->blocked,
		.programs_blocked = shell->programs_blocked,
	};
	for (uint32_t i = 0; i < LEFT_BEHIND_MAX; i++)
		out->left_behind[i] = shell->left_behind[i].text;
}

static void api_gone(void *ctx, struct id ticket)
{
	push_request_end(ctx, EVENT_REQUEST_GONE, ticket, FAIL_CLIENT_GONE);
}

static void api_pin(void *ctx, uint32_t model, bool pin)
{
	struct event event = shell_event(EVENT_PIN);

	event.command.model = model;
	event.command.flag = pin;
	shell_push(ctx, &event);
}

static int64_t api_leak(void *ctx, uint32_t model, uint32_t *out_cycles)
{
	struct shell *shell = ctx;
	const struct leak *leak = &shell->leaks[model];

	*out_cycles = leak->cycles < LEAK_CYCLES ? leak->cycles : LEAK_CYCLES;
	return leak_slope_bytes(leak);
}

static bool api_plan(void *ctx, uint32_t model, struct plan *out)
{
	return shell_plan(ctx, model, out);
}

static void api_requests(void *ctx,
                         void (*each)(void *each_ctx, const struct exchange_view *request),
                         void *each_ctx)
{
	gateway_each(((struct shell *)ctx)->gateway, each, each_ctx);
}

static bool api_cancel(void *ctx, uint64_t sequence_number)
{
	return gateway_cancel(((struct shell *)ctx)->gateway, sequence_number);
}

/* ---- functions from other threads ---- */

struct posted {
	void (*fn)(void *arg);
	void *arg;
	struct posted *next;
};

static bool api_post(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct shell *shell = ctx;
	struct posted *posted = xmalloc(sizeof(*posted));

	*posted = (struct posted){ .fn = fn, .arg = arg };
	uv_mutex_lock(&shell->posted_lock);
	bool open = !shell->posted_closed;
	if (open) {
		struct posted **last = &shell->posted_first;
		while (*last)
			last = &(*last)->next;
		*last = posted;
		uv_async_send(&shell->posted);
	}
	uv_mutex_unlock(&shell->posted_lock);
	if (!open)
		free(posted);
	return open;
}

void shell_run_posted(struct shell *shell)
{
	uv_mutex_lock(&shell->posted_lock);
	struct posted *posted = shell->posted_first;
	shell->posted_first = NULL;
	uv_mutex_unlock(&shell->posted_lock);
	while (posted) {
		struct posted *next = posted->next;
		posted->fn(posted->arg);
		free(posted);
		posted = next;
	}
}

static bool unsaved(void *ctx, struct unsaved_view *out)
{
	const struct shell *shell = ctx;
	const struct unsaved *lost = &shell->unsaved;

	*out = (struct unsaved_view){ lost->model, lost->conversations, lost->tokens, lost->last_at_us, lost->reason };
	return lost->last_at_us > 0;
}

void shell_api_host(struct shell *shell, struct api_host *out)
{
	*out = (struct api_host){
		.ctx = shell,
		.arbiter = api_arbiter,
		.conf = api_conf,
		.sample = api_sample,
		.topology = api_topology,
		.calibration = api_calibration,
		.estimate = api_estimate,
		.not_lazy = api_not_lazy,
		.context_now = api_context,
		.fault = api_fault,
		.replaced = shell_replaced,
		.conversations = shell_each_conversation,
		.unsaved = unsaved,
		.gateway = api_gateway,
		.now = api_now,
		.sequence = sequence,
		.explain = shell_explain,
		.submit = on_request,
		.gone = api_gone,
		.pin = api_pin,
		.reload = shell_reload,
		.compact = shell_compact,
		.programs = shell_ask_programs,
		.leak = api_leak,
		.plan = api_plan,
		.requests = api_requests,
		.cancel = api_cancel,
		.post = api_post,
	};
}

/* ---- the supervisor ---- */

static void on_spawned(void *ctx, struct id instance, pid_t pid)
{
	struct event event = instance_event(EVENT_INSTANCE_SPAWNED, instance);
	event.instance.pid = pid;
	shell_push(ctx, &event);
}

static void on_progress(void *ctx, struct id instance, uint32_t permille)
{
	struct event event = instance_event(EVENT_INSTANCE_PROGRESS, instance);
	event.instance.permille = permille;
	shell_push(ctx, &event);
}

static void on_ready(void *ctx, struct id instance, uint32_t slots, uint32_t context_tokens)
{
	struct event event = instance_event(EVENT_INSTANCE_READY, instance);
	struct instance_row *row = shell_instance(ctx, instance);

	if (row)
		row->ready_at_us = event.at_us;
	if (row)
		row->unobserved = true;
	event.instance.slots = slots;
	event.instance.context_tokens = context_tokens;
	shell_push(ctx, &event);
	shell_kept_ask(ctx, instance);
	sampler_look_again(((struct shell *)ctx)->sampler); /* what it takes was not known until now */
}

static void on_ended(void *ctx, struct id instance, const struct ending *ending)
{
	struct shell *shell = ctx;
	struct instance_row *row = shell_instance(shell, instance);
	struct event event = instance_event(EVENT_INSTANCE_EXITED, instance);

	event.instance.fail = ending->fail;
	event.instance.exit_status = ending->wait_status;
	event.instance.cause = ending->cause;
	event.instance.never_ready = ending->never_ready;
	shell_push(shell, &event);
	if (!row || ending->fail == FAIL_NONE)
		return;
	str_copy(shell->last_error[row->model], sizeof(shell->last_error[0]),
	         str_from(ending->text));
	log_warn("%s: %s", shell->conf->models[row->model].name, ending->text);
	bool loading = row->ready_at_us == 0;
	if (loading && (ending->cause == CAUSE_GROUP_LIMIT || ending->cause == CAUSE_MACHINE_FULL))
		shell_learn_killed(shell, row->model);
	shell_outside_lost(shell, row->model);
}

static void on_gone(void *ctx, struct id instance, const struct ending *ending)
{
	struct shell *shell = ctx;
	struct instance_row *row = shell_instance(shell, instance);

	(void)ending;
	if (row) {
		row->gone = true;
		shell_kept_end(row);
	}
	shell_close_if_done(shell);
	/* The ladder starts anew at each end, also while another is awaited. */
	shell->pace = PACE_RELEASE;
	sampler_pace(shell->sampler, PACE_RELEASE);
}

static void on_log(void *ctx, const char *model, struct str text)
{
	struct shell *shell = ctx;

	if (shell->api)
		api_on_log(shell->api, model, text);
}

void shell_tell_secrets(struct shell *shell)
{
	const struct conf *conf = shell->conf;
	const char **keys = xcalloc(conf->key_count + 1, sizeof(*keys));

	for (size_t i = 0; i < conf->key_count; i++)
		keys[i] = conf->keys[i].key;
	supervisor_set_secrets(shell->supervisor, keys, conf->key_count);
	free(keys);
}

void shell_supervisor_events(struct shell *shell, struct supervisor_events *out)
{
	*out = (struct supervisor_events){
		.ctx = shell,
		.on_spawned = on_spawned,
		.on_progress = on_progress,
		.on_ready = on_ready,
		.on_ended = on_ended,
		.on_gone = on_gone,
		.on_unhealthy = shell_on_unhealthy,
		.on_log = on_log,
	};
}
