#ifndef APP_KEPT_H
#define APP_KEPT_H

#include "app/saved.h"
#include "app/shell.h"
#include "engine/conversations.h"

/*
 * kept - what is known of the conversations in one engine, between shell_kept.c, which
 * hears what its slots hold, and shell_saved.c, which has them saved and brought back.
 */
enum { RECENT_MAX = 16 };

struct ended {
	uint64_t conversation;
	int64_t tokens; /* of prompt and answer; 0 = not told */
};

struct restoring; /* a conversation on its way back */
struct sealing;   /* files that were just written */

struct kept_talk {
	struct shell *shell;
	struct id instance;
	uint32_t model;
	uint64_t key;             /* of files that it can read */
	bool lazy;                /* else its cache is reserved whole, and nobody counts what it holds */
	struct kv_shape shape;
	int64_t state_bytes;      /* of recurrent layers: in the same buffers, and in base */
	struct conversations_talk *talk; /* NULL: nothing is asked */
	uint32_t ended, ended_when_asked;
	bool checked;
	bool plain;               /* the library had no effect: all of it is there */
	uint32_t slots;
	int64_t most_tokens[SLOTS_TOLD_MAX]; /* since the last discard */
	int64_t tokens;
	uint32_t recent_count;    /* requests that ended since the slots were read and none ran; oldest first */
	struct ended recent[RECENT_MAX];
	uint64_t conversation[SLOTS_TOLD_MAX]; /* that each slot holds; 0 = not known */
	int64_t held_tokens[SLOTS_TOLD_MAX];
	int64_t task[SLOTS_TOLD_MAX];
	bool clearing;            /* `talk` saves them, or their files are being sealed */
	uint64_t saving;          /* ... these slots' alone: the others are only given up */
	bool keeping;             /* ... because it is to end */
	bool clear_asked;         /* ... for the arbiter */
	bool stop_then;           /* what is asked is awaited, and then the engine is to end */
	bool keeps_all;           /* ... to be started anew: whatever `kv_keep` says */
	uint32_t runs_times;      /* that a slot still ran when it was to end */
	struct sealing *sealing;  /* NULL: none are */
	struct restoring *restoring;
};

/* ---- shell_kept.c ---- */

/* Its slots are read, at once or `after_ms`, unless they are asked something already. False: it cannot be reached. */
bool kept_ask(struct kept_talk *kept, uint32_t after_ms);
/* Whom to ask; false: nobody is there. */
bool kept_reach(const struct kept_talk *kept, struct conversations_order *order);

/* ---- shell_saved.c ---- */

/* Has it anything that is to be saved before it ends? */
bool kept_saves(const struct kept_talk *kept);
/* What is to be is saved, and then its engine is told to end. Nothing is being asked, and its slots were just read. */
void kept_save_and_stop(struct kept_talk *kept);
/* Its engine is gone: nobody waits for what is being done with its files. */
void kept_forget(struct kept_talk *kept);

#endif
