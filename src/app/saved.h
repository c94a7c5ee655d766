#ifndef APP_SAVED_H
#define APP_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * saved - conversations that engines wrote to files when they had to give them up.
 *
 * Of each model the newest within its `kv_keep`; a file lives until it is brought
 * back or is too old for its model's share, also over a life of the daemon: its
 * name tells what it is of, and what no model of the next life would be started
 * with is removed. The folder is ours alone: a file holds what was said.
 *
 * An engine takes what it reads from a file for what was said: bytes that changed
 * make it answer something else, and where the end is missing it may abort. So it
 * writes under a name that nobody reads (saved_begin), and once the file is whole it
 * is given its own (saved_seal), which tells its length and a sum over it and over
 * whose it is. No file is read that does not agree with its name (saved_check).
 */
enum { SAVED_MAX = 256, SAVED_NAME_BYTES = 96 };

struct saved_conversation {
	uint32_t model;
	uint64_t conversation;
	uint64_t key; /* of the model's file and of what its engine was started with */
	int64_t tokens, bytes;
	uint64_t sum;
	int64_t at_us;
	char file[SAVED_NAME_BYTES]; /* bare */
};

struct saved {
	const char *folder;
	size_t count;
	struct saved_conversation list[SAVED_MAX]; /* oldest first */
};

/* The name that its file has while it is written by slot `slot`. */
void saved_begin(struct saved_conversation *entry, uint32_t slot);
/*
 * What was written is whole: fills in length, sum and name, and renames it. A negative errno: it could not
 * be read back, and is gone. May block, and touches nothing but the file.
 */
int saved_seal(const char *folder, struct saved_conversation *entry);
/* Writing it failed: what there is of its file goes. */
void saved_spoilt(const char *folder, const struct saved_conversation *entry);
/* 0; -EBADMSG: the file is not the one that was sealed. Another negative errno: it cannot be read. May block. */
int saved_check(const char *folder, const struct saved_conversation *entry);
/* What that says of the file: "is damaged". `out` is where it may be written. */
enum { SAVED_WRONG = 96 };
const char *saved_wrong(char out[SAVED_WRONG], int code);
/* A sealed one; older ones of its model go until all fit into `most_bytes`. */
void saved_put(struct saved *saved, const struct saved_conversation *entry, int64_t most_bytes);
/* Older ones of the model go until all fit into `most_bytes`. */
void saved_trim(struct saved *saved, uint32_t model, int64_t most_bytes);
const struct saved_conversation *saved_find(const struct saved *saved, uint32_t model, uint64_t conversation);
/* With its file. */
void saved_drop(struct saved *saved, uint32_t model, uint64_t conversation);
/*
 * What an earlier life left: of each of `count` models what has its key and its length, within its share; all else in
 * the folder is removed. `wall_offset_us`: wall clock - the clock of at_us.
 */
struct saved_share {
	uint64_t key;
	int64_t most_bytes;
};
void saved_load(struct saved *saved, const struct saved_share *models, uint32_t count, int64_t wall_offset_us);

#endif
