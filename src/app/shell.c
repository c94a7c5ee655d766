#include "app/shell.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

/* More than this in one turn, and reading sockets would wait too long. */
enum { EVENTS_PER_TURN = 4096, ACTIONS_PER_STEP = 64 };

/* The clocks drift by less. */
enum { SLEEP_LEAST_US = 1000000 };

/* The keeper holds no more; and the more there may be, the smaller are the amounts that can be summed. */
enum { ENGINES_MAX = 2048 };

static int64_t clock_us(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

int64_t shell_now_us(void)
{
	return clock_us(CLOCK_BOOTTIME);
}

int64_t shell_wall_offset_us(void)
{
	return clock_us(CLOCK_REALTIME) - clock_us(CLOCK_BOOTTIME);
}

struct event shell_event(enum event_type type)
{
	struct event event;

	/* Padding and unused bytes are recorded too: they must be zero. */
	memset(&event, 0, sizeof(event));
	event.type = type;
	event.at_us = shell_now_us();
	return event;
}

void shell_push(struct shell *shell, const struct event *event)
{
	if (shell->queue_count == shell->queue_capacity) {
		uint32_t capacity = shell->queue_capacity ? shell->queue_capacity * 2 : 64;
		struct event *queue = xcalloc(capacity, sizeof(*queue));
		for (uint32_t i = 0; i < shell->queue_count; i++)
			queue[i] = shell->queue[(shell->queue_start + i) % shell->queue_capacity];
		free(shell->queue);
		shell->queue = queue;
		shell->queue_start = 0;
		shell->queue_capacity = capacity;
	}
	if (shell->queue_count == 0)
		shell->queue_start = 0; /* what was used last is in the processor's cache still */
	memcpy(&shell->queue[(shell->queue_start + shell->queue_count++) % shell->queue_capacity], event,
	       event_used_bytes(event->type));
}

void shell_defer(struct shell *shell, const struct action *action)
{
	if (shell->deferred_count == shell->deferred_capacity) {
		shell->deferred_capacity =
		        shell->deferred_capacity ? shell->deferred_capacity * 2 : 16;
		shell->deferred = xrealloc(shell->deferred,
		                           shell->deferred_capacity * sizeof(*shell->deferred));
	}
	shell->deferred[shell->deferred_count++] = *action;
}

/* A copy: the ring may move while it is acted upon. */
static void shell_pop(struct shell *shell, struct event *out)
{
	const struct event *event = &shell->queue[shell->queue_start];

	memcpy(out, event, event_used_bytes(event->type));
	shell->queue_start = (shell->queue_start + 1) % shell->queue_capacity;
	shell->queue_count--;
}

static void carry_out_deferred(struct shell *shell)
{
	/* Carrying out may defer again: that waits for the next turn. */
	uint32_t count = shell->deferred_count;
	struct action *actions = shell->deferred;

	shell->deferred = NULL;
	shell->deferred_count = shell->deferred_capacity = 0;
	for (uint32_t i = 0; i < count; i++)
		shell_carry_out(shell, &actions[i]);
	free(actions);
}

static void step(struct shell *shell, const struct event *event)
{
	enum step more;
	int64_t began_us = shell_now_us();
	const struct arbiter_counters *counters = arbiter_counters(shell->arbiter);
	uint64_t impossible = counters->invalid_events;
	const struct event *told = event;
	uint32_t type = event->type;

	if (shell->recorder)
		recorder_event(shell->recorder, event);
	do {
		shell->actions.count = 0;
		more = arbiter_step(shell->arbiter, event, &shell->actions);
		event = NULL;
		if (shell->options.paranoid)
			arbiter_check(shell->arbiter);
		for (uint32_t i = 0; i < shell->actions.count; i++)
			shell_carry_out(shell, &shell->actions.items[i]);
	} while (more == STEP_MORE);
	if (type == EVENT_SAMPLE)
		shell_warm_commit(shell);
	if (counters->invalid_events != impossible && type == EVENT_LEARNED)
		shell_learned_impossible(shell, &told->learned);
	else if (counters->invalid_events != impossible)
		log_error("event %u was impossible and had no effect: a bug", type);
	shell->last_step_us = shell_now_us();
	api_on_step(shell->api, shell->last_step_us - began_us);
}

int64_t shell_asleep_us(void)
{
	return clock_us(CLOCK_BOOTTIME) - clock_us(CLOCK_MONOTONIC);
}

/* Before anything that was heard since: the one clock went on while the other stood. */
static void notice_sleep(struct shell *shell)
{
	int64_t asleep_us = shell_asleep_us();
	int64_t slept_us = asleep_us - shell->asleep_us;

	shell->asleep_us = asleep_us;
	if (slept_us < SLEEP_LEAST_US)
		return;
	struct event event = shell_event(EVENT_SUSPEND);
	event.at_us -= slept_us;
	step(shell, &event);
	event = shell_event(EVENT_RESUME);
	step(shell, &event);
	shell_woke(shell, slept_us);
}

void shell_turn(struct shell *shell)
{
	uint32_t left = EVENTS_PER_TURN;

	if (shell->phase == PHASE_CLOSING ||
	    (shell->queue_count == 0 && shell->deferred_count == 0))
		return;
	notice_sleep(shell);
	if (shell->deferred_count)
		carry_out_deferred(shell);
	while (shell->queue_count && left-- && shell->phase != PHASE_CLOSING) {
		struct event event;
		shell_pop(shell, &event);
		step(shell, &event);
	}
	if (shell->queue_count == 0)
		shell_tell_impossible(shell);
	if (shell->recorder)
		recorder_flush(shell->recorder);
	if (shell->phase != PHASE_CLOSING)
		shell_set_pace(shell);
}

static void on_idle(uv_idle_t *idle)
{
	(void)idle;
}

/*
 * Work left for the next turn (deferred verdicts, more events than one turn
 * takes) must not wait for a socket: an idle handle keeps the poll from
 * sleeping.
 */
static void turn(struct shell *shell)
{
	shell_turn(shell);
	bool left = shell->phase != PHASE_CLOSING && (shell->queue_count || shell->deferred_count);
	if (left)
		uv_idle_start(&shell->idle, on_idle);
	else
		uv_idle_stop(&shell->idle);
	shell_close_if_done(shell); /* a request may end behind its engine, and nothing else tells of it */
}

static void on_prepare(uv_prepare_t *prepare)
{
	turn(prepare->data);
}

static void on_check(uv_check_t *check)
{
	turn(check->data);
}

static void on_arbiter_timer(uv_timer_t *timer)
{
	struct event event = shell_event(EVENT_TICK);
	shell_push(timer->data, &event);
}

void shell_arm(struct shell *shell, int64_t at_us)
{
	int64_t wait_us = at_us - shell_now_us();

	uv_update_time(&shell->loop);
	uv_timer_start(&shell->timer, on_arbiter_timer,
	               wait_us > 0 ? (uint64_t)((wait_us + US_PER_MS - 1) / US_PER_MS) : 0, 0);
}

struct instance_row *shell_instance(struct shell *shell, struct id id)
{
	if (id.index >= shell->instances_used)
		return NULL;
	struct instance_row *row = &shell->instances[id.index];
	return row->live && id_equal(row->id, id) ? row : NULL;
}

/* How often to look at the machine follows from what is going on. */
void shell_set_pace(struct shell *shell)
{
	enum sampler_pace pace = shell_awaits_bytes(shell) ? PACE_STEADY : PACE_EMPTY;

	for (uint32_t i = 0; i < shell->instances_used; i++) {
		const struct instance_row *row = &shell->instances[i];
		struct model_hold hold;
		if (!row->live)
			continue;
		bool moving = !arbiter_hold(shell->arbiter, row->model, &hold) ||
		              (hold.state != MODEL_IDLE && hold.state != MODEL_BUSY);
		enum sampler_pace need = row->gone ? PACE_RELEASE
		                         : moving  ? PACE_MOVING
		                                   : PACE_STEADY;
		if (need > pace)
			pace = need;
	}
	if (pace != shell->pace)
		sampler_pace(shell->sampler, pace);
	shell->pace = pace;
	shell_let_go_of_retired(shell);
}

static void *map_zeroed(size_t bytes)
{
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return block == MAP_FAILED ? NULL : block;
}

bool shell_plan(struct shell *shell, uint32_t model, struct plan *out)
{
	size_t bytes = arbiter_bytes(&shell->limits);
	void *scratch = map_zeroed(bytes);

	if (!scratch)
		return false;
	bool known = arbiter_plan(shell->arbiter, model, scratch, out);
	munmap(scratch, bytes);
	return known;
}

int shell_make_arbiter(struct shell *shell, struct err *err)
{
	uint32_t engines = (uint32_t)shell->conf->limit_models + 16;

	shell->limits = (struct arbiter_limits){
		.models = (uint32_t)shell->conf->limit_models,
		.requests = (uint32_t)shell->conf->limit_requests,
		.instances = engines < ENGINES_MAX ? engines : ENGINES_MAX,
		.leases = (uint32_t)shell->conf->limit_leases,
	};
	size_t bytes = arbiter_bytes(&shell->limits);
	void *block = bytes ? map_zeroed(bytes) : NULL;
	if (!block)
		return err_set(err, -ENOMEM, "the arbiter's tables (%zu bytes); try smaller limits",
		               bytes);
	shell->arbiter = arbiter_init(block, &shell->limits);
	if (arbiter_bytes_max(shell->arbiter) < shell->sample.total_bytes)
		return err_set(err, -ERANGE, "limits.models: too many for a machine of this size; try: 1024");
	shell->actions.items = xcalloc(ACTIONS_PER_STEP, sizeof(struct action));
	shell->actions.capacity = ACTIONS_PER_STEP;
	shell->instance_capacity = shell->limits.instances;
	shell->instances = xcalloc(shell->instance_capacity, sizeof(*shell->instances));
	shell->last_error = xcalloc(shell->limits.models, sizeof(*shell->last_error));
	shell->leaks = xcalloc(shell->limits.models, sizeof(*shell->leaks));
	return 0;
}

void shell_free_arbiter(struct shell *shell)
{
	free(shell->queue);
	free(shell->deferred);
	free(shell->last_error);
	free(shell->leaks);
	free(shell->instances);
	free(shell->actions.items);
	munmap(shell->arbiter, arbiter_bytes(&shell->limits));
}

void shell_start_turns(struct shell *shell)
{
	uv_prepare_init(&shell->loop, &shell->prepare);
	uv_check_init(&shell->loop, &shell->check);
	uv_idle_init(&shell->loop, &shell->idle);
	uv_timer_init(&shell->loop, &shell->timer);
	shell->prepare.data = shell->check.data = shell->idle.data = shell->timer.data = shell;
	uv_prepare_start(&shell->prepare, on_prepare);
	uv_check_start(&shell->check, on_check);
}
