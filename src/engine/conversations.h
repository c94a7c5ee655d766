#ifndef ENGINE_CONVERSATIONS_H
#define ENGINE_CONVERSATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "engine/endpoint.h"
#include "engine/slots.h"

/*
 * conversations - what llama-server's slots hold: read, saved, given up, brought back.
 *
 * One talk is a few questions one after the other, and one answer at the end.
 *
 *   READ     what each slot holds, and the memory behind it
 *   CLEAR    save the slots that have a file's name; erase all; see that they are
 *            empty; give their memory back. -EBUSY where one of them runs: nothing
 *            was done. A save is believed only where as many tokens were written as
 *            the slot held: an engine may say that it saved, and save nothing.
 *   KEEP     for an engine that is to end: save the slots that have a file's name and do
 *            not run. What runs, and what is saved or not, stays as it is
 *   RESTORE  a file into a slot that does not run: an empty one, else the one that
 *            holds least
 *
 * Nobody else may send the engine work during CLEAR and RESTORE: the arbiter sees to that.
 * File names are bare: they lie in the folder that the engine was started with.
 */
enum conversations_work { CONVERSATIONS_READ, CONVERSATIONS_CLEAR, CONVERSATIONS_KEEP, CONVERSATIONS_RESTORE };

struct conversations_told {
	int error;               /* 0 or a negative errno: what was asked for was not done */
	char text[160];          /* what went wrong, for a person */
	struct slots_told slots; /* before anything was done; RESTORE, CLEAR: and after it where error is 0 */
	struct lazy_told lazy;   /* the same; reached false where there is no library */
	int64_t held_tokens;     /* in all slots, before anything was done */
	uint64_t saved;          /* bit of each slot (by its place) that was saved whole */
	uint64_t spoilt;         /* ... whose file was begun and is no good: it is there, whole or in part */
	int64_t saved_tokens;
	int64_t saved_bytes;
	int64_t restored_tokens;
	int64_t took_us;
};

enum { CONVERSATION_FILE_BYTES = 96 };

struct conversations_order {
	struct uv_loop_s *loop;
	enum conversations_work work;
	uint32_t after_ms; /* it begins then */
	struct endpoint endpoint;
	char lazy_socket[108];    /* "": no library there */
	char file[SLOTS_TOLD_MAX][CONVERSATION_FILE_BYTES]; /* CLEAR: by slot, "" = not saved; RESTORE: [0] */
	void *ctx;
	void (*done)(void *ctx, const struct conversations_told *told); /* not before start returned */
};

struct conversations_talk;

/* `done` follows, unless cancelled. */
struct conversations_talk *conversations_start(const struct conversations_order *order);
void conversations_cancel(struct conversations_talk *talk);

#endif
