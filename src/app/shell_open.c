/*
 * Start and end of the daemon: what is opened in which order, and closed in the
 * reverse. What is not needed to serve (history, a higher file limit) is said
 * once and done without.
 */
#include "app/shell.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <app/version.h> /* made by the build */

#include "app/notify.h"
#include "app/patience.h"
#include "app/version.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

enum { HARD_STOP_MS = 20000, STORE_CLOSE_MS = 3000, LAST_WAIT_MS = 3000 };

static void make_boot_id(char out[9])
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint32_t)shell_now_us() ^ (uint32_t)getpid();
	snprintf(out, 9, "%08x", random);
}

static const char *limit_text(rlim_t limit, char out[32])
{
	if (limit == RLIM_INFINITY)
		snprintf(out, 32, "unlimited");
	else
		snprintf(out, 32, "%llu", (unsigned long long)limit);
	return out;
}

/* As far up as we may; where that is not enough, what it costs is said once. */
static void raise_limit(int which, const char *name, rlim_t wanted, const char *cost)
{
	struct rlimit limit;
	char has[32], wants[32];

	if (getrlimit(which, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	rlim_t before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	if (limit.rlim_cur > before && setrlimit(which, &limit) < 0)
		limit.rlim_cur = before;
	if (limit.rlim_cur < wanted)
		log_warn("the limit of %s stays at %s (wanted: %s): %s", name,
		         limit_text(limit.rlim_cur, has), limit_text(wanted, wants), cost);
}

static int open_folders(struct shell *shell, struct err *err)
{
	if (!dirs_runtime(shell->runtime_dir, sizeof(shell->runtime_dir)))
		return err_set(err, -ENAMETOOLONG, "the path of the run-time folder is too long");
	if (dirs_make(shell->runtime_dir, err) < 0 ||
	    dirs_check_private(shell->runtime_dir, err) < 0)
		return err_wrap(err, "run-time folder");
	if (shell->conf->socket_group &&
	    dirs_let_in(shell->runtime_dir, shell->conf->socket_group, err) < 0)
		return err->code;
	struct err state = { 0 };
	str_copy(shell->state_dir, sizeof(shell->state_dir), str_from(shell->conf->state_dir));
	if (dirs_make(shell->state_dir, &state) < 0)
		log_warn("no history: %s", state.text);
	leftovers_mark(shell->state_dir, shell->runtime_dir, shell->owner);
	return 0;
}

static void open_history(struct shell *shell)
{
	char path[DIR_PATH_MAX + 16];
	struct err err = { 0 };

	snprintf(path, sizeof(path), "%s/history.db", shell->state_dir);
	shell->store = store_open(path, &err);
	if (!shell->store)
		log_warn("no history: %s", err.text);
}

static int open_recording(struct shell *shell, struct err *err)
{
	if (!shell->options.record_path)
		return 0;
	shell->recorder = recorder_open(shell->options.record_path, &shell->limits, err);
	return shell->recorder ? 0 : err->code;
}

int64_t shell_reserve(const struct room_facts *facts, const struct conf *conf)
{
	return conf->memory_reserve_bytes != CONF_AUTO ? conf->memory_reserve_bytes
	                                               : facts->default_reserve_bytes;
}

int64_t shell_room(const struct room_facts *facts, const struct conf *conf)
{
	int64_t room = facts->total_bytes - shell_reserve(facts, conf) - facts->baseline_bytes;

	if (facts->group_bytes < room)
		room = facts->group_bytes;
	if (conf->memory_limit_bytes != CONF_AUTO && conf->memory_limit_bytes < room)
		room = conf->memory_limit_bytes;
	return room;
}

/* The first reading is taken here, before the loop: every limit is derived from it. */
static int read_machine(struct shell *shell, struct err *err)
{
	patience_begin("serve");
	int code = topology_find("", &shell->topology, err);

	if (code == 0)
		code = sample_read("", &shell->sample, err);
	patience_end();
	if (code < 0)
		return code;
	shell->sample.unreclaimable_bytes = shell->topology.pool[0].unreclaimable_bytes;
	shell->room_facts = (struct room_facts){
		.total_bytes = shell->sample.total_bytes,
		.baseline_bytes = shell->sample.unreclaimable_bytes,
		.default_reserve_bytes = sample_default_reserve(&shell->sample),
	};
	if (shell_has_devices(shell))
		shell_device_facts(shell, &shell->room_facts);
	shell->reserve_bytes = shell_reserve(&shell->room_facts, shell->conf);
	struct view_spec group;
	shell->room_facts.group_bytes = INT64_MAX;
	if (shell_cgroup_cap(shell, &shell->sample, &group))
		shell->room_facts.group_bytes = group.cap_bytes - (shell->sample.cgroup_use_unknown ? 0 : group.foreign_bytes);
	shell_tell_inputs(shell, &shell->topology.inputs);
	return 0;
}

/* What a configuration or a file's header says may be beyond what the arbiter counts in: as good as infinite. */
static int64_t countable(const struct shell *shell, int64_t bytes)
{
	int64_t most = arbiter_bytes_max(shell->arbiter);

	return bytes < most ? bytes : most;
}

void shell_push_machine(struct shell *shell)
{
	const struct conf *conf = shell->conf;
	struct event event = shell_event(EVENT_MACHINE);
	struct event_machine *machine = &event.machine;

	machine->pools = 1;
	machine->pool[0] = (struct pool_spec){ shell->sample.total_bytes,
		                               countable(shell, shell->reserve_bytes) };
	machine->views = shell_cgroup_cap(shell, &shell->sample, &machine->view[0]);
	shell->group_cap_told_bytes = machine->view[0].cap_bytes;
	machine->host_only = !shell_has_devices(shell);
	int64_t all_bytes = shell->sample.total_bytes;
	if (shell_has_devices(shell)) {
		shell_fill_pools(shell, machine);
		shell->caps_told = shell_caps(machine);
		for (uint32_t i = 1; i < machine->pools; i++)
			all_bytes += machine->pool[i].size_bytes;
	}
	/* One that the machine does not reach is none. */
	bool limited = conf->memory_limit_bytes != CONF_AUTO && conf->memory_limit_bytes < all_bytes;
	machine->limit_bytes = limited ? conf->memory_limit_bytes : INT64_MAX;
	machine->margin_permille = (int32_t)conf->memory_margin_permille;
	machine->policy = conf->policy;
	shell_push(shell, &event);

	event = shell_event(EVENT_WALL);
	event.wall.offset_us = shell_wall_offset_us();
	shell_push(shell, &event);
	event = shell_event(EVENT_SAMPLE);
	event.sample.unreclaimable_bytes[0] = shell->sample.unreclaimable_bytes;
	event.sample.view_foreign_bytes[0] = machine->view[0].foreign_bytes;
	if (shell_has_devices(shell))
		shell_fill_sample(shell, &event);
	shell_push(shell, &event);
}

static void make_countable(const struct shell *shell, struct amount *amount)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			amount->bytes[pool][use] = countable(shell, amount->bytes[pool][use]);
}

/* The set that a model is in, by a number that stays the same over reloads; 0 = none. */
static uint32_t set_number(const struct conf *conf, const char *model)
{
	const struct conf_set *set = conf_set_of(conf, model);
	return set ? (uint32_t)str_hash(str_from(set->name)) | 1 : 0;
}

void shell_fill_spec(const struct shell *shell, uint32_t model, const struct catalogue_row *row,
                     struct model_spec *spec)
{
	*spec = row->spec;
	spec->flags |= shell_context_is_grown(shell, model, row) ? MODEL_GROWN : 0;
	spec->file_bytes = shell_warm_bytes(shell, model);
	spec->set = set_number(shell->conf, shell->conf->models[model].name);
	if (shell_outside_is_up(shell, model) && spec->flags & MODEL_AUTOLOAD)
		spec->flags |= MODEL_PRELOAD;
	shell_place(shell, spec);
	shell_fill_idle_time(shell, &shell->conf->models[model], spec);
	make_countable(shell, &spec->base);
	make_countable(shell, &spec->per_request);
	make_countable(shell, &spec->peak);
	make_countable(shell, &spec->sigma);
	make_countable(shell, &spec->lower);
}

void shell_push_model(struct shell *shell, uint32_t model, bool renewed)
{
	struct event event = shell_event(EVENT_MODEL);

	event.model.model = model;
	shell_context_start(shell, model);
	shell_fill_spec(shell, model, &shell->catalogue.rows[model], &event.model.spec);
	event.model.spec.flags |= renewed ? MODEL_RENEW : 0;
	shell_push(shell, &event);
}

void shell_push_resized(struct shell *shell, uint32_t model, uint64_t request)
{
	struct event event = shell_event(EVENT_MODEL);

	event.model.model = model;
	shell_fill_spec(shell, model, &shell->catalogue.rows[model], &event.model.spec);
	event.model.spec.flags |= MODEL_RESIZE;
	event.model.request = request;
	shell_push(shell, &event);
}

static int open_engines(struct shell *shell, struct keeper *keeper, struct err *err)
{
	struct supervisor_events events;
	char logs[DIR_PATH_MAX + 8];
	struct err no_logs = { 0 };

	shell->keeper = keeper;
	snprintf(logs, sizeof(logs), "%s/logs", shell->state_dir);
	if (dirs_make(logs, &no_logs) < 0)
		log_warn("engines' logs are kept in memory alone: %s", no_logs.text);
	shell_supervisor_events(shell, &events);
	shell->supervisor = supervisor_new(
	        &(struct supervisor_options){
	                .loop = &shell->loop,
	                .keeper = keeper,
	                .socket_dir = shell->runtime_dir,
	                .log_dir = no_logs.text[0] ? NULL : logs,
	                .instances_max = shell->instance_capacity,
	                .owner = shell->owner,
	        },
	        &events);
	if (!shell->supervisor)
		return err_set(err, -ENOMEM, "engines cannot be supervised");
	shell_tell_secrets(shell);
	return 0;
}

static void on_leftover(pid_t pid, const char *command)
{
	log_warn("process %d (%s) was left by an engine of an earlier life of this daemon, and was ended", (int)pid,
	         command);
}

/* The run-time folder's lock is ours: whoever has our mark is of a life that is over. */
static void end_leftovers(const struct shell *shell)
{
	leftovers_end(shell->owner, on_leftover);
}

static int open_gateway(struct shell *shell, struct err *err)
{
	struct gateway_host host;
	struct gateway_options options = {
		.loop = &shell->loop,
		.conf = shell->conf,
		.tickets = shell->tickets,
		.boot_id = shell->boot_id,
		.socket_path = shell->socket_path,
	};

	if ((size_t)snprintf(shell->socket_path, sizeof(shell->socket_path), "%s/cotenant.sock",
	                     shell->runtime_dir) >= sizeof(shell->socket_path))
		return err_set(err, -ENAMETOOLONG,
		               "socket %s/cotenant.sock: the path is too long; set "
		               "RUNTIME_DIRECTORY to a shorter one",
		               shell->runtime_dir);
	shell_gateway_host(shell, &host);
	shell->gateway = gateway_new(&options, &host, err);
	return shell->gateway ? 0 : err->code;
}

static void open_api(struct shell *shell)
{
	struct api_host host;

	shell_api_host(shell, &host);
	shell->api = api_new(
	        &(struct api_options){
	                .boot_id = shell->boot_id,
	                .version = COTENANT_VERSION,
	                .tickets = shell->tickets,
	                .supervisor = shell->supervisor,
	                .store = shell->store,
	                .started_at_us = shell_now_us(),
	        },
	        &host);
}

/* ---- signals ---- */

static void on_hard_stop(uv_timer_t *timer)
{
	struct shell *shell = timer->data;

	log_warn("what was still open is cut");
	shell->phase = PHASE_CLOSING;
	uv_stop(&shell->loop);
}

/* What runs is cut, with the reason; who was asked to end already is not waited for. */
static void end_at_once(struct shell *shell)
{
	struct event event = shell_event(EVENT_SHUTDOWN);

	log_info("told to end at once: what runs is cut");
	shell->phase = PHASE_ENDING;
	shell_push(shell, &event);
	for (uint32_t i = 0; i < shell->instances_used; i++) {
		struct instance_row *row = &shell->instances[i];
		if (row->live && !row->gone && row->stop_wanted)
			supervisor_kill(shell->supervisor, row->id);
	}
	uv_timer_start(&shell->hard_stop, on_hard_stop, HARD_STOP_MS, 0);
}

static void on_end_signal(uv_signal_t *handle, int number)
{
	struct shell *shell = handle->data;

	if (shell->phase == PHASE_SERVING) {
		log_info("%s: no new requests; running ones finish (once more: end them)",
		         number == SIGINT ? "interrupted" : "told to end");
		shell_drain(shell);
		return;
	}
	if (shell->phase == PHASE_DRAINING)
		end_at_once(shell);
	else
		shell_close(shell);
}

static void on_hangup(uv_signal_t *handle, int number)
{
	(void)number;
	shell_reload(handle->data, NULL, NULL);
}

static void open_signals(struct shell *shell)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file-size limit is an error of write(2) like a full disk */
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		uv_signal_init(&shell->loop, &shell->signals[i]);
		shell->signals[i].data = shell;
		uv_signal_start(&shell->signals[i],
		                numbers[i] == SIGHUP ? on_hangup : on_end_signal, numbers[i]);
	}
	uv_timer_init(&shell->loop, &shell->hard_stop);
	uv_timer_init(&shell->loop, &shell->last_wait);
	shell->hard_stop.data = shell->last_wait.data = shell;
}

static void on_posted(uv_async_t *async)
{
	shell_run_posted(async->data);
}

static void warn_of_models(const struct shell *shell)
{
	for (size_t i = 0; i < shell->catalogue.count; i++)
		if (shell->catalogue.rows[i].error[0])
			log_warn("model %s cannot be loaded: %s", shell->conf->models[i].name,
			         shell->catalogue.rows[i].error);
}

static void say_hello(const struct shell *shell)
{
	char room[UNITS_TEXT], total[UNITS_TEXT];

	for (size_t i = 0; i < shell->conf->listens; i++) {
		const struct conf_listen *listen = &shell->conf->listen[i];
		if (listen->path)
			log_info("listening on unix:%s", listen->path);
		else
			log_info(strchr(listen->host, ':') ? "listening on http://[%s]:%u" : "listening on http://%s:%u",
			         listen->host, listen->port);
	}
	if (shell->room_bytes <= 0)
		log_warn("memory.reserve of %s and the system leave nothing of %s: no model can be loaded; try: a smaller reserve",
		         units_size(room, shell->reserve_bytes), units_size(total, shell->sample.total_bytes));
	log_info("%zu model%s; up to %s of %s for them; control socket %s",
	         shell->conf->model_count, shell->conf->model_count == 1 ? "" : "s",
	         units_size(room, shell->room_bytes > 0 ? shell->room_bytes : 0), units_size(total, shell->sample.total_bytes),
	         shell->socket_path);
}

int shell_open(struct shell *shell, const struct shell_options *options, struct conf *conf,
               struct keeper *keeper, struct err *err)
{
	memset(shell, 0, sizeof(*shell));
	shell->options = *options;
	shell->conf = conf;
	shell->stalls[0].fd = shell->stalls[1].fd = -1;
	shell->asleep_us = shell_asleep_us();
	make_boot_id(shell->boot_id);
	/* A parked request takes one descriptor, a running one two. */
	raise_limit(RLIMIT_NOFILE, "open files", 2 * (rlim_t)conf->limit_requests + 1024,
	            "with that many connections new ones have to wait");
	raise_limit(RLIMIT_MEMLOCK, "locked memory", RLIM_INFINITY,
	            "engines that lock their weights (--mlock) cannot");
	shell_stand_firm();
	if (open_folders(shell, err) < 0 || read_machine(shell, err) < 0 ||
	    shell_make_arbiter(shell, err) < 0)
		return err->code;
	uv_loop_init(&shell->loop);
	uv_mutex_init(&shell->posted_lock);
	uv_async_init(&shell->loop, &shell->posted, on_posted);
	shell->posted.data = shell;
	shell->tickets = tickets_new(shell->limits.requests);
	/* The socket's lock comes before all that a daemon that already runs here has in use: the
	 * sockets of its engines, its history, its recording. */
	if (open_gateway(shell, err) < 0 || dirs_hold(shell->state_dir, err) < 0)
		return err->code;
	end_leftovers(shell);
	open_history(shell);
	shell_open_baseline(shell);
	shell_find_lazy(shell);
	struct catalogue_ground ground;
	shell_ground(shell, &ground);
	ground.lazy.known_only = true;
	catalogue_build(conf, &ground, &shell->catalogue);
	warn_of_models(shell);
	if (open_recording(shell, err) < 0 || open_engines(shell, keeper, err) < 0)
		return err->code;
	open_api(shell);
	open_signals(shell);
	shell_open_programs(shell);
	shell_start_turns(shell);
	shell_watch_stalls(shell);

	shell_warm_open(shell);
	shell_open_contexts(shell);
	shell_load_saved(shell);
	shell_open_learning(shell);
	shell_open_words(shell);
	shell_open_usage(shell);
	shell_push_machine(shell);
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		shell_push_model(shell, i, false);
	shell_open_learned(shell);
	struct sampler_events sampler;
	shell_sampler_events(shell, &sampler);
	shell->sampler = sampler_new(&shell->loop, "", &shell->topology, &sampler);
	if (!shell->sampler)
		return err_set(err, -EAGAIN, "no thread is to be had that reads the machine");
	shell_look_outside(shell);
	shell_try_engines(shell);
	say_hello(shell);
	return 0;
}

/* ---- the end ---- */

void shell_drain(struct shell *shell)
{
	struct event event = shell_event(EVENT_SHUTDOWN);

	notify_stopping();
	shell->phase = PHASE_DRAINING;
	gateway_drain(shell->gateway);
	shell_push(shell, &event);
}

static bool any_engine_left(const struct shell *shell)
{
	for (uint32_t i = 0; i < shell->instances_used; i++)
		if (shell->instances[i].live && !shell->instances[i].gone)
			return true;
	return false;
}

/* Drained, or told for the third time: engines that are left are killed, and when the last is gone the loop
 * stops. */
void shell_close(struct shell *shell)
{
	shell_give_up_asking(shell, NULL);
	if (shell->phase == PHASE_CLOSING)
		return;
	shell->phase = PHASE_CLOSING;
	gateway_close_door(shell->gateway);
	for (uint32_t i = 0; i < shell->instances_used; i++)
		if (shell->instances[i].live && !shell->instances[i].gone)
			supervisor_kill(shell->supervisor, shell->instances[i].id);
	for (uint32_t i = 0; i < shell->instances_used; i++)
		shell_kept_end(&shell->instances[i]);
	uv_timer_start(&shell->hard_stop, on_hard_stop, HARD_STOP_MS, 0);
	shell_close_if_done(shell);
}

void shell_close_if_done(struct shell *shell)
{
	if (shell->phase == PHASE_CLOSING && !any_engine_left(shell) &&
	    gateway_exchanges(shell->gateway) == 0)
		uv_stop(&shell->loop);
}

static void close_handles(struct shell *shell)
{
	uv_handle_t *handles[] = {
		(uv_handle_t *)&shell->prepare,    (uv_handle_t *)&shell->check,
		(uv_handle_t *)&shell->idle,       (uv_handle_t *)&shell->timer,
		(uv_handle_t *)&shell->hard_stop,  (uv_handle_t *)&shell->posted,
		(uv_handle_t *)&shell->signals[0], (uv_handle_t *)&shell->signals[1],
		(uv_handle_t *)&shell->signals[2],
	};
	for (size_t i = 0; i < sizeof(handles) / sizeof(*handles); i++)
		uv_close(handles[i], NULL);
}

static void on_last_wait(uv_timer_t *timer)
{
	struct shell *shell = timer->data;

	shell->lost = true;
	uv_stop(&shell->loop);
}

/* A thread that reads what gives no answer cannot be called back: the process ends with it. */
static void end_loop(struct shell *shell)
{
	uv_timer_start(&shell->last_wait, on_last_wait, LAST_WAIT_MS, 0);
	uv_unref((uv_handle_t *)&shell->last_wait);
	uv_run(&shell->loop, UV_RUN_DEFAULT);
	if (shell->lost) {
		log_warn("%s gives no answer: the end does not wait for it", shell->blocked[0] ? shell->blocked : "a file");
		shell_tell_unseen(shell);
		return;
	}
	uv_close((uv_handle_t *)&shell->last_wait, NULL);
	uv_run(&shell->loop, UV_RUN_DEFAULT);
}

static void tear_down(struct shell *shell)
{
	/* Queries under way answer into the api: the store ends first, the api after its last
	 * answer. */
	gateway_free(shell->gateway);
	shell_keep_learned(shell, true);
	store_close(shell->store, STORE_CLOSE_MS);
	shell_run_posted(shell);
	api_free(shell->api);
	shell->api = NULL; /* engines' last words come after it */
	sampler_close(shell->sampler);
	warmer_free(shell->warmer);
	shell_close_outside(shell);
	shell_unwatch_stalls(shell);
	keeper_close(shell->keeper);
	supervisor_free(shell->supervisor);
	close_handles(shell);
	end_loop(shell);
	if (shell->recorder)
		recorder_close(shell->recorder);
	if (shell->lost)
		return;
	shell_close_programs(shell);
	tickets_free(shell->tickets);
	free(shell->warm);
	catalogue_release(&shell->catalogue);
	free(shell->saved);
	free(shell->words);
	free(shell->conversation_of);
	shell_close_learning(shell);
	shell_close_learned(shell);
	lengths_release(&shell->lengths);
	shell_free_retired(shell);
	conf_free(shell->conf);
	uv_loop_close(&shell->loop);
	shell_free_arbiter(shell);
}

int shell_run(struct shell *shell)
{
	notify_ready();
	uv_run(&shell->loop, UV_RUN_DEFAULT);
	tear_down(shell);
	return 0;
}
