#ifndef APP_UNSAVED_H
#define APP_UNSAVED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * unsaved - conversations that were to be saved and are lost, most often because the disk is full.
 *
 * Nothing breaks by that: who goes on with one waits until its prompt was read anew. So it is warned of once, with
 * what is lost and what helps, until a save succeeds again; how much it is in all stays to be asked for.
 */
struct unsaved {
	bool failing;
	uint32_t model;        /* of the last */
	int64_t conversations, tokens;
	int64_t last_at_us;    /* 0: none is lost */
	char reason[256];
};

struct unsaved_loss {
	uint32_t model;
	const char *name;
	const char *folder;
	int64_t conversations, tokens, bytes;
	int64_t free_bytes;    /* where they were to lie; -1 = not known */
	int64_t at_us;
};

void unsaved_note(struct unsaved *unsaved, const struct unsaved_loss *loss);
void unsaved_over(struct unsaved *unsaved); /* one was saved */
/* What a folder's disk has left; -1 = not known. May block. */
int64_t unsaved_free_bytes(const char *folder);

#endif
