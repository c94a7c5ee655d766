#ifndef APP_LENGTHS_H
#define APP_LENGTHS_H

#include <stdint.h>

/*
 * lengths - how long the conversations of one model under one API key get.
 *
 * Of the last conversations each with the most tokens that it came to. It is a
 * plain value, stored as it is: what it tells outlives the daemon.
 */
enum { LENGTHS_KEPT = 64 };

struct lengths {
	uint64_t model; /* key of its file */
	uint64_t key;   /* of the API key's name; 0 = none was used */
	uint64_t next;  /* conversations ever */
	struct {
		uint64_t conversation;
		uint64_t tokens;
	} kept[LENGTHS_KEPT]; /* a ring */
};

/* A turn of `conversation` (0: not known, so it is one by itself) left it with so many tokens. */
void lengths_note(struct lengths *lengths, uint64_t conversation, int64_t tokens);
/* So many tokens are enough for 95 of 100 of them; 0 where none is known. */
int64_t lengths_usual(const struct lengths *lengths);

#endif
