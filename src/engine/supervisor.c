#include "engine/supervisor.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "engine/ending.h"
#include "engine/instance.h"
#include "io/keeper.h"

static struct instance *by_id(const struct supervisor *supervisor, struct id id)
{
	LIST_EACH(node, &supervisor->instances) {
		struct instance *instance = LIST_ENTRY(node, struct instance, node);
		if (id_equal(instance->id, id))
			return instance;
	}
	return NULL;
}

static struct instance *by_spawn(const struct supervisor *supervisor, uint64_t spawn_id)
{
	LIST_EACH(node, &supervisor->instances) {
		struct instance *instance = LIST_ENTRY(node, struct instance, node);
		if (instance->spawn_id == spawn_id)
			return instance;
	}
	return NULL;
}

static struct model_record *record_find(const struct supervisor *supervisor, const char *name)
{
	LIST_EACH(node, &supervisor->records) {
		struct model_record *record = LIST_ENTRY(node, struct model_record, node);
		if (strcmp(record->name, name) == 0)
			return record;
	}
	return NULL;
}

static struct model_record *record_of(struct supervisor *supervisor, const char *name)
{
	struct model_record *record = record_find(supervisor, name);

	if (record)
		return record;
	record = xcalloc(1, sizeof(*record));
	record->name = xstrdup(name);
	if (supervisor->log_dir)
		record->file = log_file_new(supervisor->options.loop, supervisor->log_dir, name);
	list_append(&supervisor->records, &record->node);
	return record;
}

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

static void let_go_of_group(struct instance *instance)
{
	if (instance->group[0])
		bound_remove(instance->group);
	instance->group[0] = '\0';
	instance->bound_bytes = 0;
}

/* Ends everything that is ours of it; the process is the keeper's business. */
static void instance_free(struct instance *instance)
{
	instance_stop_asking(instance);
	instance_close_log(instance);
	uv_close((uv_handle_t *)instance->timer, free_handle);
	if (instance->endpoint.path[0])
		unlink(instance->endpoint.path);
	if (instance->lazy_socket[0])
		unlink(instance->lazy_socket);
	let_go_of_group(instance);
	list_remove(&instance->node);
	instance->supervisor->instance_count--;
	redactor_release(&instance->redactor);
	explicit_bzero(instance->endpoint.key, sizeof(instance->endpoint.key));
	free(instance);
}

/* ---- what the keeper tells ---- */

static void on_spawned(void *ctx, uint64_t spawn_id, pid_t pid)
{
	struct supervisor *supervisor = ctx;
	struct instance *instance = by_spawn(supervisor, spawn_id);

	if (!instance)
		return;
	instance->pid = pid;
	if (instance->group[0] && !bound_holds(&supervisor->bounds, instance->group, pid)) {
		log_warn("%s: what it maps is not bounded: it could not be started in %s", instance->model->name,
		         instance->group);
		let_go_of_group(instance);
	}
	if (instance->state == INSTANCE_STARTING)
		instance_begin_loading(instance);
	supervisor->events.on_spawned(supervisor->events.ctx, instance->id, pid);
}

void instance_tell_gone(struct instance *instance)
{
	struct supervisor *supervisor = instance->supervisor;
	struct ending ending = instance->ending;
	struct id id = instance->id;

	instance_read_log(instance);
	instance_free(instance);
	supervisor->events.on_gone(supervisor->events.ctx, id, &ending);
}

static void on_failed(void *ctx, uint64_t spawn_id, int error, const char *what)
{
	struct supervisor *supervisor = ctx;
	struct instance *instance = by_spawn(supervisor, spawn_id);

	if (!instance)
		return;
	ending_not_started(instance->name, error, what, &instance->ending);
	if (instance->asked)
		instance->ending.fail = FAIL_NONE;
	instance_stop_asking(instance);
	instance->state = INSTANCE_ENDED;
	supervisor->events.on_ended(supervisor->events.ctx, instance->id, &instance->ending);
	instance_tell_gone(instance);
}

void instance_is_well(struct instance *instance)
{
	cgroup_read_oom("", &instance->supervisor->mounts, &instance->oom);
}

/* A kill that ended this one ended no other. */
static void explain_one_kill(struct supervisor *supervisor, const struct instance *ended)
{
	if (ended->ending.cause != CAUSE_GROUP_LIMIT && ended->ending.cause != CAUSE_MACHINE_FULL)
		return;
	LIST_EACH(node, &supervisor->instances) {
		struct instance *other = LIST_ENTRY(node, struct instance, node);
		other->oom.machine_kills++;
		other->oom.group_kills += other->oom.group_kills >= 0;
	}
}

static void on_ended(void *ctx, uint64_t spawn_id, int wait_status, const struct rusage *usage)
{
	struct supervisor *supervisor = ctx;
	struct instance *instance = by_spawn(supervisor, spawn_id);
	(void)usage;

	if (!instance)
		return;
	instance_stop_asking(instance);
	instance->state = INSTANCE_ENDED;
	instance_read_log(instance); /* its last words are still in the pipe */
	struct ending_facts facts = {
		.name = instance->name,
		.patterns = &instance->adapter->log,
		.log = log_tail_since(&instance->record->log, instance->log_start),
		.wait_status = wait_status,
		.was_ready = instance->was_ready,
		.asked = instance->asked,
		.killed = instance->killed,
		.before = instance->oom,
	};
	if (!instance->asked) { /* else nobody asks why, and a load may wait for it */
		cgroup_read_oom("", &supervisor->mounts, &facts.now);
		if (instance->group[0]) { /* it was alone there, and not in ours */
			facts.before.group_kills = 0;
			facts.now.group_kills = cgroup_read_kills("", instance->group);
		}
		kmsg_take(&supervisor->kmsg, instance->pid, &facts.told);
	}
	ending_judge(&facts, &instance->ending);
	explain_one_kill(supervisor, instance);
	supervisor->events.on_ended(supervisor->events.ctx, instance->id, &instance->ending);
}

static void on_gone(void *ctx, uint64_t spawn_id)
{
	struct instance *instance = by_spawn(ctx, spawn_id);

	if (instance)
		instance_tell_gone(instance);
}

static void on_restarted(void *ctx)
{
	(void)ctx; /* each engine of the dead keeper was reported; the new one needs nothing from us */
}

/* ---- start and end of it all ---- */

/* A daemon that was killed left its engines' sockets behind. */
static void remove_stale_sockets(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (str_starts(str_from(entry->d_name), "engine-") && str_ends(str_from(entry->d_name), ".sock"))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

struct supervisor *supervisor_new(const struct supervisor_options *options,
                                  const struct supervisor_events *events)
{
	struct supervisor *supervisor = xcalloc(1, sizeof(*supervisor));
	struct keeper_events told = { supervisor, on_spawned, on_failed, on_ended, on_gone, on_restarted };

	supervisor->options = *options;
	supervisor->events = *events;
	supervisor->socket_dir = xstrdup(options->socket_dir);
	supervisor->log_dir = options->log_dir ? xstrdup(options->log_dir) : NULL;
	supervisor->directory = getcwd(NULL, 0);
	supervisor->next_spawn_id = 1;
	list_init(&supervisor->instances);
	list_init(&supervisor->records);
	cgroup_find_mounts("", &supervisor->mounts);
	bounds_find(&supervisor->bounds, &supervisor->mounts);
	kmsg_open(&supervisor->kmsg);
	if (keeper_attach(options->keeper, options->loop, &told, NULL) < 0) {
		supervisor_free(supervisor);
		return NULL;
	}
	remove_stale_sockets(supervisor->socket_dir);
	return supervisor;
}

void supervisor_free(struct supervisor *supervisor)
{
	LIST_EACH(node, &supervisor->instances)
		instance_free(LIST_ENTRY(node, struct instance, node));
	LIST_EACH(node, &supervisor->records) {
		struct model_record *record = LIST_ENTRY(node, struct model_record, node);
		list_remove(&record->node);
		log_file_free(record->file);
		buf_release(&record->log.kept);
		free(record->name);
		free(record);
	}
	words_release(&supervisor->secrets);
	kmsg_close(&supervisor->kmsg);
	free(supervisor->log_dir);
	free(supervisor->socket_dir);
	free(supervisor->directory);
	free(supervisor);
}

/* ---- spawn ---- */

int supervisor_spawn(struct supervisor *supervisor, const struct spawn_order *order, struct err *err)
{
	const struct conf_model *model = order->model;
	const struct adapter *adapter = adapter_of(model);

	assert(!by_id(supervisor, order->instance));
	if (!adapter)
		return err_set(err, -ENOTSUP, "model '%s': engine '%s' is not built yet", model->name,
		               model->engine_name ? model->engine_name : "");
	if (supervisor->instance_count == supervisor->options.instances_max)
		return err_set(err, -EAGAIN, "%u engines run already", supervisor->instance_count);

	struct instance *instance = xcalloc(1, sizeof(*instance));
	instance->supervisor = supervisor;
	instance->id = order->instance;
	instance->spawn_id = supervisor->next_spawn_id++;
	instance->model = model;
	instance->adapter = adapter;
	instance->record = record_of(supervisor, model->name);
	instance->slots = order->slots ? order->slots : 1;
	instance->context_tokens = order->context_tokens;
	instance->file_bytes = order->file_bytes;
	instance->tuning = order->tuning;
	instance_is_well(instance);
	instance->timer = xcalloc(1, sizeof(*instance->timer));
	uv_timer_init(supervisor->options.loop, instance->timer);
	instance->timer->data = instance;
	list_append(&supervisor->instances, &instance->node);
	supervisor->instance_count++;

	if (conf_is_outside(model)) {
		instance->outside = true;
		instance_attach(instance);
		return 0;
	}
	int code = instance_start(instance, order, err);
	if (code < 0)
		instance_free(instance);
	return code;
}

/* ---- stop ---- */

static void send_signal(struct instance *instance, int number)
{
	keeper_signal(instance->supervisor->options.keeper, instance->spawn_id, number);
}

static void send_kill(struct instance *instance)
{
	instance->killed = true;
	send_signal(instance, SIGKILL);
}

static void next_signal(uv_timer_t *timer);

static void signal_after(struct instance *instance, uint32_t ms)
{
	uint32_t divisor = instance->supervisor->options.drain_divisor;

	uv_timer_start(instance->timer, next_signal, divisor ? ms / divisor : ms, 0);
}

static void send_term(struct instance *instance)
{
	const struct drain_rule *rule = &instance->adapter->drain;

	instance->terms = 1;
	send_signal(instance, SIGTERM);
	signal_after(instance, rule->term_again_ms ? rule->term_again_ms : rule->kill_ms);
}

static void next_signal(uv_timer_t *timer)
{
	struct instance *instance = timer->data;
	const struct drain_rule *rule = &instance->adapter->drain;

	if (instance->terms == 0) {
		send_term(instance);
		return;
	}
	if (instance->terms == 1 && rule->term_again_ms) {
		instance->terms++;
		send_signal(instance, SIGTERM);
		signal_after(instance, rule->kill_ms);
		return;
	}
	send_kill(instance);
}

static bool begin_stopping(struct instance *instance)
{
	if (!instance || instance->state == INSTANCE_ENDED)
		return false;
	instance_stop_asking(instance);
	instance->state = INSTANCE_STOPPING;
	instance->asked = true;
	return true;
}

void supervisor_stop(struct supervisor *supervisor, struct id id, uint32_t patience_ms)
{
	struct instance *instance = by_id(supervisor, id);
	bool stops = instance && instance->state == INSTANCE_STOPPING;

	if (stops && (instance->terms > 0 || instance->killed || instance->outside))
		return;
	if (!stops && !begin_stopping(instance))
		return;
	if (instance->outside) {
		instance_detach(instance);
		return;
	}
	if (patience_ms)
		uv_timer_start(instance->timer, next_signal, patience_ms, 0);
	else
		send_term(instance);
}

void supervisor_check(struct supervisor *supervisor, struct id id)
{
	struct instance *instance = by_id(supervisor, id);

	if (instance)
		instance_check(instance);
}

void supervisor_kill(struct supervisor *supervisor, struct id id)
{
	struct instance *instance = by_id(supervisor, id);

	if (!begin_stopping(instance))
		return;
	if (instance->outside)
		instance_detach(instance);
	else
		send_kill(instance);
}

/* ---- looking ---- */

bool supervisor_endpoint(const struct supervisor *supervisor, struct id id, struct endpoint *out)
{
	const struct instance *instance = by_id(supervisor, id);

	if (!instance || instance->state != INSTANCE_READY)
		return false;
	*out = instance->endpoint;
	return true;
}

bool supervisor_lazy_socket(const struct supervisor *supervisor, struct id id, char out[108])
{
	const struct instance *instance = by_id(supervisor, id);

	if (!instance || instance->state != INSTANCE_READY)
		return false;
	memcpy(out, instance->lazy_socket, sizeof(instance->lazy_socket));
	return true;
}

bool supervisor_owner(const struct supervisor *supervisor, struct id id, struct owner *out)
{
	const struct instance *instance = by_id(supervisor, id);

	if (!instance || !instance->pid)
		return false;
	*out = (struct owner){ .pgid = instance->outside ? 0 : instance->pid,
		               .pid = instance->outside ? instance->pid : 0 };
	return true;
}

const char *supervisor_bound_refused(const struct supervisor *supervisor)
{
	return supervisor->bounds.refused;
}

int64_t supervisor_bound_bytes(const struct supervisor *supervisor, struct id id)
{
	const struct instance *instance = by_id(supervisor, id);

	return instance ? instance->bound_bytes : 0;
}

void supervisor_raise_bound(struct supervisor *supervisor, struct id id, int64_t bytes)
{
	struct instance *instance = by_id(supervisor, id);

	if (!instance || !instance->group[0] || bytes <= instance->bound_bytes)
		return;
	int code = bound_raise(instance->group, bytes);
	if (code == 0) {
		instance->bound_bytes = bytes;
		return;
	}
	if (!instance->bound_failed)
		log_warn("%s: the bound of %s cannot be raised to what its engine needs: %s", instance->model->name,
		         instance->group, strerror(-code));
	instance->bound_failed = true;
	if (code == -ENOENT)
		let_go_of_group(instance); /* somebody removed it: nothing bounds the engine */
}

void supervisor_health_text(const struct supervisor *supervisor, struct id id, char *out,
                            size_t out_bytes)
{
	const struct instance *instance = by_id(supervisor, id);

	out[0] = '\0';
	if (instance && instance->state == INSTANCE_LOADING)
		instance_health_text(instance, out, out_bytes);
}

void supervisor_set_secrets(struct supervisor *supervisor, const char *const *secrets, size_t count)
{
	words_release(&supervisor->secrets);
	supervisor->secrets = (struct words){ 0 };
	for (size_t i = 0; i < count; i++)
		words_add(&supervisor->secrets, secrets[i]);
	LIST_EACH(node, &supervisor->instances)
		instance_learn_secrets(LIST_ENTRY(node, struct instance, node));
}

void supervisor_load_bytes(const struct supervisor *supervisor, struct id id, int64_t *out_bytes,
                           int64_t *out_total)
{
	const struct instance *instance = by_id(supervisor, id);

	*out_bytes = *out_total = 0;
	if (!instance || instance->file_bytes <= 0)
		return;
	*out_total = instance->file_bytes;
	*out_bytes = instance->bytes_moved < instance->file_bytes ? instance->bytes_moved
	                                                           : instance->file_bytes;
}

struct str supervisor_log(const struct supervisor *supervisor, const struct conf_model *model)
{
	const struct model_record *record = record_find(supervisor, model->name);

	return record ? log_tail_since(&record->log, 0) : STR("");
}
