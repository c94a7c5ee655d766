#include "engine/conversations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "engine/ask.h"

/* A slot's question waits behind a batch of another's prompt, which can take long on a CPU. */
enum { PATIENCE_MS = 120000 };

enum step { STEP_SLOTS, STEP_SAVE, STEP_ERASE, STEP_RESTORE, STEP_CHECK, STEP_DISCARD, STEP_LAZY };

struct conversations_talk {
	struct conversations_order order;
	struct conversations_told told;
	enum step step;
	uint32_t place;     /* SAVE, ERASE: of the slot */
	uint64_t began_us;
	struct ask *ask;
	uv_timer_t timer;
};

static void go_on(struct conversations_talk *talk);

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void conversations_cancel(struct conversations_talk *talk)
{
	if (talk->ask)
		ask_cancel(talk->ask);
	uv_timer_stop(&talk->timer);
	uv_close((uv_handle_t *)&talk->timer, on_closed);
}

static void finish(struct conversations_talk *talk)
{
	struct conversations_told told = talk->told;
	void (*done)(void *, const struct conversations_told *) = talk->order.done;
	void *ctx = talk->order.ctx;

	told.took_us = (int64_t)(uv_hrtime() / 1000 - talk->began_us);
	conversations_cancel(talk);
	done(ctx, &told);
}

static void fail(struct conversations_talk *talk, int error, const char *what)
{
	if (talk->step == STEP_SAVE)
		talk->told.spoilt |= UINT64_C(1) << talk->place;
	talk->told.error = error;
	snprintf(talk->told.text, sizeof(talk->told.text), "%s", what);
	finish(talk);
}

static void on_late(uv_timer_t *timer)
{
	fail(timer->data, -ETIMEDOUT, "its engine did not answer in time");
}

/* ---- what each answer means ---- */

static const struct slot_told *slot_at(const struct conversations_talk *talk)
{
	return &talk->told.slots.slot[talk->place];
}

static void took_slots(struct conversations_talk *talk, struct str body)
{
	static const enum step next[] = {
		[CONVERSATIONS_READ] = STEP_LAZY,
		[CONVERSATIONS_CLEAR] = STEP_SAVE,
		[CONVERSATIONS_KEEP] = STEP_SAVE,
		[CONVERSATIONS_RESTORE] = STEP_RESTORE,
	};
	struct slots_told *slots = &talk->told.slots;
	bool changes = talk->order.work == CONVERSATIONS_CLEAR;

	if (!slots_parse(body, slots)) {
		fail(talk, -EPROTO, "its engine does not tell its slots");
		return;
	}
	for (uint32_t i = 0; changes && i < slots->count; i++) {
		if (!slots->slot[i].busy)
			continue;
		fail(talk, -EBUSY, "one of its slots runs");
		return;
	}
	talk->told.held_tokens = 0;
	for (uint32_t i = 0; i < slots->count; i++)
		talk->told.held_tokens += slots->slot[i].tokens;
	talk->step = next[talk->order.work];
	talk->place = 0;
	go_on(talk);
}

static void took_save(struct conversations_talk *talk, int status, struct str body)
{
	int64_t saved = json_number(body, "n_saved"), bytes = json_number(body, "n_written");

	/* More than it held is as wrong as less: then the two do not speak of the same. */
	if (status == 200 && saved == slot_at(talk)->tokens) {
		talk->told.saved |= UINT64_C(1) << talk->place;
		talk->told.saved_tokens += saved;
		talk->told.saved_bytes += bytes > 0 ? bytes : 0;
	} else {
		talk->told.spoilt |= UINT64_C(1) << talk->place;
	}
	talk->place++;
	go_on(talk);
}

static void took_check(struct conversations_talk *talk, struct str body)
{
	struct slots_told *slots = &talk->told.slots;

	if (!slots_parse(body, slots)) {
		fail(talk, -EPROTO, "its engine does not tell its slots");
		return;
	}
	for (uint32_t i = 0; talk->order.work == CONVERSATIONS_CLEAR && i < slots->count; i++) {
		if (!slots->slot[i].busy && slots->slot[i].tokens == 0)
			continue;
		fail(talk, -EBUSY, "a slot was not empty after it was erased");
		return;
	}
	talk->step = talk->order.work == CONVERSATIONS_CLEAR ? STEP_DISCARD : STEP_LAZY;
	go_on(talk);
}

static void took_restore(struct conversations_talk *talk, int status, struct str body)
{
	talk->told.restored_tokens = json_number(body, "n_restored");
	if (status != 200 || talk->told.restored_tokens <= 0) {
		fail(talk, -EIO, "its engine could not restore the conversation");
		return;
	}
	talk->step = STEP_CHECK;
	go_on(talk);
}

static void took_lazy(struct conversations_talk *talk, int status, struct str body)
{
	if (!lazy_parse(body, &talk->told.lazy))
		talk->told.lazy = (struct lazy_told){ 0 };
	if (talk->step == STEP_DISCARD && status != 200) {
		fail(talk, -EIO, "its memory could not be given back");
		return;
	}
	finish(talk);
}

static void on_answer(void *ctx, int status, struct str body)
{
	struct conversations_talk *talk = ctx;

	talk->ask = NULL;
	if (status < 0 && talk->step != STEP_LAZY) {
		fail(talk, status, "its engine does not answer");
		return;
	}
	switch (talk->step) {
	case STEP_SLOTS:
		took_slots(talk, body);
		break;
	case STEP_SAVE:
		took_save(talk, status, body);
		break;
	case STEP_ERASE:
		talk->place++;
		go_on(talk); /* STEP_CHECK sees whether it was done */
		break;
	case STEP_RESTORE:
		took_restore(talk, status, body);
		break;
	case STEP_CHECK:
		took_check(talk, body);
		break;
	case STEP_DISCARD:
	case STEP_LAZY:
		took_lazy(talk, status, body);
		break;
	}
}

/* ---- the next question ---- */

static void question(struct conversations_talk *talk, const struct endpoint *endpoint, const char *path,
                     const char *post)
{
	struct ask_options options = {
		.loop = talk->order.loop,
		.endpoint = endpoint,
		.path = path,
		.post = post,
		.whole = true,
		.ctx = talk,
		.done = on_answer,
	};
	int code = ask_start(&options, &talk->ask);

	if (code == 0)
		return;
	talk->ask = NULL;
	if (talk->step == STEP_LAZY)
		finish(talk);
	else
		fail(talk, code, "its engine cannot be reached");
}

static void ask_slot(struct conversations_talk *talk, uint32_t id, const char *action, const char *file)
{
	char path[80], body[CONVERSATION_FILE_BYTES + 20] = "{}";

	snprintf(path, sizeof(path), "/slots/%u?action=%s", id, action);
	if (file)
		snprintf(body, sizeof(body), "{\"filename\":\"%s\"}", file);
	question(talk, &talk->order.endpoint, path, body);
}

/* The first slot from `place` on that holds anything, and for a save one with a name. */
static bool find_place(struct conversations_talk *talk, bool named)
{
	for (; talk->place < talk->told.slots.count; talk->place++)
		if (slot_at(talk)->tokens > 0 && (!named || (talk->order.file[talk->place][0] && !slot_at(talk)->busy)))
			return true;
	return false;
}

static void ask_restore(struct conversations_talk *talk)
{
	const struct slots_told *slots = &talk->told.slots;
	const struct slot_told *best = NULL;

	for (uint32_t i = 0; i < slots->count; i++)
		if (!slots->slot[i].busy && (!best || slots->slot[i].tokens < best->tokens))
			best = &slots->slot[i];
	if (!best)
		fail(talk, -EBUSY, "all of its slots run");
	else
		ask_slot(talk, best->id, "restore", talk->order.file[0]);
}

static void go_on(struct conversations_talk *talk)
{
	struct endpoint lazy = { 0 };

	str_copy(lazy.path, sizeof(lazy.path), str_from(talk->order.lazy_socket));
	if (talk->step == STEP_SAVE && !find_place(talk, true)) {
		talk->step = talk->order.work == CONVERSATIONS_KEEP ? STEP_LAZY : STEP_ERASE;
		talk->place = 0;
	}
	if (talk->step == STEP_ERASE && !find_place(talk, false))
		talk->step = STEP_CHECK;
	if ((talk->step == STEP_DISCARD || talk->step == STEP_LAZY) && !lazy.path[0]) {
		finish(talk);
		return;
	}
	switch (talk->step) {
	case STEP_SLOTS:
	case STEP_CHECK:
		question(talk, &talk->order.endpoint, "/slots", NULL);
		break;
	case STEP_SAVE:
		ask_slot(talk, slot_at(talk)->id, "save", talk->order.file[talk->place]);
		break;
	case STEP_ERASE:
		ask_slot(talk, slot_at(talk)->id, "erase", NULL);
		break;
	case STEP_RESTORE:
		ask_restore(talk);
		break;
	case STEP_DISCARD:
		question(talk, &lazy, "/discard", "{}");
		break;
	case STEP_LAZY:
		question(talk, &lazy, "/", NULL);
		break;
	}
}

static void begin(uv_timer_t *timer)
{
	struct conversations_talk *talk = timer->data;

	uv_timer_start(timer, on_late, PATIENCE_MS, 0);
	go_on(talk);
}

struct conversations_talk *conversations_start(const struct conversations_order *order)
{
	struct conversations_talk *talk = xcalloc(1, sizeof(*talk));

	talk->order = *order;
	talk->began_us = uv_hrtime() / 1000;
	uv_timer_init(order->loop, &talk->timer);
	talk->timer.data = talk;
	uv_timer_start(&talk->timer, begin, order->after_ms, 0);
	return talk;
}
