#ifndef APP_LENGTHS_H
#define APP_LENGTHS_H

#include <stddef.h>
#include <stdint.h>

/*
 * lengths - how long the conversations of one model under one API key get.
 *
 * Of the last conversations each with the most tokens that it came to, and how few
 * bytes of its prompts made a token. It is a plain value, stored as it is: what it
 * tells outlives the daemon.
 */
enum { LENGTHS_KEPT = 64, LENGTHS_MOST = 4096, LENGTHS_SURE = 8, LENGTHS_PROMPT_LEAST = 1024 };

struct lengths {
	uint64_t model; /* key of its file */
	uint64_t key;   /* of the API key's name; 0 = none was used */
	uint64_t next;  /* conversations ever */
	int64_t noted_at_ms; /* last */
	struct {
		uint64_t conversation;
		uint64_t tokens;
		uint64_t dense_milli; /* thousandths of a byte for each token, the fewest of a prompt; 0 = not known */
	} kept[LENGTHS_KEPT]; /* a ring */
};

/* A turn of `conversation` (0: not known, so it is one by itself) left it with so many tokens. */
void lengths_note(struct lengths *lengths, uint64_t conversation, int64_t tokens);
/* Its prompt of so many bytes was so many tokens. One that is mostly a chat template tells nothing. */
void lengths_note_prompt(struct lengths *lengths, uint64_t conversation, int64_t bytes, int64_t tokens);
/* So many tokens are enough for 95 of 100 of them; 0 where none is known. */
int64_t lengths_usual(const struct lengths *lengths);
/* Thousandths of a byte that a token of 95 of 100 of them has at least; 0 where fewer than LENGTHS_SURE told. */
int64_t lengths_dense_milli(const struct lengths *lengths);

/*
 * Of all models and keys. At LENGTHS_MOST a new one takes the place of that which was not noted for longest, which
 * `dropped`, where it is set, is told: what was stored of it is of no more use.
 */
struct lengths_table {
	struct lengths *rows;
	size_t count, capacity;
	void (*dropped)(void *ctx, const struct lengths *row);
	void *ctx;
};

/* The row of these; a new one where there is none. It stays where it is until the next call. */
struct lengths *lengths_of(struct lengths_table *table, uint64_t model, uint64_t key);
/* One that was stored. */
void lengths_add(struct lengths_table *table, const struct lengths *row);
void lengths_release(struct lengths_table *table);

#endif
