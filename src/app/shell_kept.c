/*
 * What conversations hold in engines whose KV follows use, on its way to the
 * arbiter: asked after each request's end, and once at the start, where it also
 * shows whether the preload library took effect.
 *
 * A slot's pages stay when its conversation gets shorter, until all is discarded:
 * so of each the most tokens it ever held count, and the sum is set right by what
 * the library says is there.
 */
#include "app/shell.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/dirs.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/conversations.h"
#include "engine/preload.h"

enum { TEMPLATE_TOKENS = 256 }; /* what a chat template puts around the words */

struct kept_talk {
	struct shell *shell;
	struct id instance;
	uint32_t model;
	struct kv_shape shape;
	int64_t state_bytes;      /* of recurrent layers: in the same buffers, and in base */
	struct conversations_talk *talk; /* NULL: nothing is asked */
	uint32_t ended, ended_when_asked;
	bool checked;
	bool plain;               /* the library had no effect: all of it is there */
	uint32_t slots;
	int64_t most_tokens[SLOTS_TOLD_MAX]; /* since the last discard */
	int64_t tokens;
};

/* ---- what a request may take ---- */

void shell_need(void *ctx, uint32_t model, int64_t prompt_bytes, int64_t reply_tokens, struct amount *out)
{
	const struct shell *shell = ctx;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	const struct conf_model *conf = &shell->conf->models[model];

	*out = (struct amount){ 0 };
	/* Of a picture that is named by its address nobody knows how many tokens it is. */
	if (!row->lazy || prompt_bytes < 0 || conf->mmproj)
		return;
	int64_t reply = reply_tokens >= 0 ? reply_tokens : conf->reply_tokens;
	int64_t most = row->spec.context_tokens ? row->spec.context_tokens : INT32_MAX;
	int64_t tokens = prompt_bytes < most ? prompt_bytes + TEMPLATE_TOKENS : most;
	tokens = reply < most - tokens ? tokens + reply : most;
	out->bytes[0][USE_HOST] = kv_shape_bytes(&row->kv, tokens);
}

/* ---- the library, the folder ---- */

/* Files of engines that are gone: nobody will read them again. */
static void empty_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

void shell_find_lazy(struct shell *shell)
{
	struct err err = { 0 };

	snprintf(shell->save_dir, sizeof(shell->save_dir), "%s/conversations", shell->state_dir);
	if (dirs_make(shell->save_dir, &err) < 0 ||
	    preload_find(shell->lazy_library, sizeof(shell->lazy_library), &err) < 0) {
		shell->lazy_library[0] = '\0';
		str_copy(shell->lazy_missing, sizeof(shell->lazy_missing), str_from(err.text));
	}
	empty_folder(shell->save_dir);
}

void shell_ground(struct shell *shell, struct catalogue_ground *out)
{
	*out = (struct catalogue_ground){
		.room_bytes = shell->room_bytes,
		.has_devices = shell_has_devices(shell),
		.lazy = {
			.library = shell->lazy_library[0] ? shell->lazy_library : NULL,
			.missing = shell->lazy_missing,
			.folder = shell->state_dir,
			.sockets = shell->runtime_dir,
			.environment = (const char *const *)environ,
		},
	};
}

/* ---- what is held ---- */

static void add_slot(struct event *event, uint32_t place, int64_t bytes)
{
	uint32_t row = place < HELD_SLOTS_MAX ? place : HELD_SLOTS_MAX - 1;

	event->held.slot_bytes[row] += bytes;
	if (event->held.slots < row + 1)
		event->held.slots = row + 1;
}

/* The slots' sum is what is there: what they cannot explain is counted with the largest. */
static void set_right(struct event *event, int64_t resident)
{
	int64_t *slot = event->held.slot_bytes;
	int64_t sum = 0;

	for (uint32_t i = 0; i < event->held.slots; i++)
		sum += slot[i];
	for (uint32_t left = event->held.slots; left && sum != resident; left--) {
		uint32_t largest = 0;
		for (uint32_t i = 1; i < event->held.slots; i++)
			if (slot[i] > slot[largest])
				largest = i;
		int64_t was = slot[largest];
		slot[largest] = was + resident - sum > 0 ? was + resident - sum : 0;
		sum += slot[largest] - was;
	}
}

static void push_held(struct kept_talk *kept, const struct conversations_told *told)
{
	struct event event = shell_event(EVENT_TOKENS_HELD);
	bool known = told && !kept->plain;

	event.held.instance = kept->instance;
	event.held.settled = kept->ended == kept->ended_when_asked;
	for (uint32_t i = 0; i < kept->slots; i++)
		add_slot(&event, i, known ? kv_shape_bytes(&kept->shape, kept->most_tokens[i])
		                          : kept->shape.full_bytes);
	event.held.tokens = kept->tokens;
	if (known && told->lazy.reached) {
		int64_t there = told->lazy.resident_bytes - kept->state_bytes;
		set_right(&event, there > 0 ? there : 0);
	}
	shell_push(kept->shell, &event);
}

/* Once: the cache was reserved in the library's hands, and is not there. */
static void check_effect(struct kept_talk *kept, const struct conversations_told *told)
{
	struct catalogue_row *row = &kept->shell->catalogue.rows[kept->model];
	int64_t expected = kept->shape.full_bytes * kept->slots;

	kept->checked = true;
	if (told->lazy.reached && told->lazy.reserved_bytes >= expected / 10 * 9)
		return;
	kept->plain = true;
	str_copy(row->not_lazy, sizeof(row->not_lazy), STR("the preload library took no effect in its engine"));
	log_warn("%s: %s; its cache is counted whole", kept->shell->conf->models[kept->model].name, row->not_lazy);
}

static void ask(struct kept_talk *kept);

static void on_told(void *ctx, const struct conversations_told *told)
{
	struct kept_talk *kept = ctx;

	kept->talk = NULL;
	if (told->error == 0) {
		kept->slots = told->slots.count;
		kept->tokens = 0;
		for (uint32_t i = 0; i < told->slots.count; i++) {
			int64_t tokens = told->slots.slot[i].tokens;
			kept->tokens += tokens;
			if (tokens > kept->most_tokens[i])
				kept->most_tokens[i] = tokens;
		}
		if (!kept->checked)
			check_effect(kept, told);
	}
	bool settled = kept->ended == kept->ended_when_asked;
	push_held(kept, told->error == 0 ? told : NULL);
	if (!settled)
		ask(kept);
}

static void ask(struct kept_talk *kept)
{
	struct supervisor *supervisor = kept->shell->supervisor;
	struct conversations_order order = {
		.loop = &kept->shell->loop,
		.work = CONVERSATIONS_READ,
		.ctx = kept,
		.done = on_told,
	};

	if (kept->talk)
		return;
	kept->ended_when_asked = kept->ended;
	if (!supervisor_endpoint(supervisor, kept->instance, &order.endpoint) ||
	    !supervisor_lazy_socket(supervisor, kept->instance, order.lazy_socket))
		return;
	kept->talk = conversations_start(&order);
}

void shell_kept_ask(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	row->kept->ended++;
	ask(row->kept);
}

/* ---- life ---- */

void shell_kept_begin(struct shell *shell, struct instance_row *row)
{
	const struct catalogue_row *known = &shell->catalogue.rows[row->model];

	if (!known->lazy)
		return;
	row->kept = xcalloc(1, sizeof(*row->kept));
	*row->kept = (struct kept_talk){
		.shell = shell,
		.instance = row->id,
		.model = row->model,
		.shape = known->kv,
		.state_bytes = known->estimate.host.recurrent_bytes,
		.slots = known->spec.slots < SLOTS_TOLD_MAX ? known->spec.slots : SLOTS_TOLD_MAX,
	};
}

void shell_kept_end(struct instance_row *row)
{
	if (!row->kept)
		return;
	if (row->kept->talk)
		conversations_cancel(row->kept->talk);
	free(row->kept);
	row->kept = NULL;
}
