#ifndef APP_GIVEN_BACK_H
#define APP_GIVEN_BACK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * given_back - whether the machine has back what an ended engine had.
 *
 * That no process of it is left says nothing of its shared memory, which a file in a tmpfs keeps, nor of what a GPU's
 * driver held for it; its private memory is always freed. So what stands in the machine's account and is nobody's
 * private memory, and none of our engines', is compared: it rises, as an engine ends, by what that one left behind.
 * What others take later is not blamed on it: only what falls since counts. 95 % of it, or all but 256 MiB, have to
 * be back; after ten seconds it is told that they are not, after a minute that they will not come.
 */
struct given_back {
	int64_t ended_at_us; /* 0 = nothing is awaited */
	int64_t had_bytes;   /* shared, or held by a GPU, of system RAM */
	int64_t before_bytes; /* nobody's, while it was there */
	int64_t missing_bytes;
	bool late_told, given_up;
};

enum given_back_news {
	GIVEN_BACK_NO_NEWS,
	GIVEN_BACK_WHOLE,
	GIVEN_BACK_LATE,
	GIVEN_BACK_NEVER, /* it is no longer awaited, though it may come */
};

/* `had_bytes` of `whole_bytes` can stay behind. Begins only where they have. */
void given_back_begin(struct given_back *g, int64_t now_us, int64_t had_bytes, int64_t whole_bytes,
                      int64_t before_bytes, int64_t unowned_bytes);
/* A sample that was taken since. */
enum given_back_news given_back_look(struct given_back *g, int64_t now_us, int64_t unowned_bytes);

#endif
