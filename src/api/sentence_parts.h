#ifndef API_SENTENCE_PARTS_H
#define API_SENTENCE_PARTS_H

#include "api/sentence.h"

/*
 * sentence_parts - the words that sentences about what was decided, what is and what would be have in common, so
 * that the same thing is called the same. Private to sentence*.c.
 */
const char *sentence_name(const struct names *names, uint32_t model);
void sentence_size(struct buf *out, int64_t bytes);
void sentence_time(struct buf *out, int64_t us);
/* Are two sizes apart by more than a reading's noise? */
bool sentence_differ(int64_t one_bytes, int64_t other_bytes);
const char *sentence_plural(uint32_t count); /* "" or "s" */

/* What something waits for or is stopped by (enum reason), to stand behind "waits for"; NULL: no words. */
const char *sentence_waits_for(uint32_t reason);
/* Which bound leaves too little room, to stand behind "3.1 GiB free"; NULL: the machine's memory itself. */
const char *sentence_binds(uint32_t reason);

#endif
