#ifndef CORE_HELD_H
#define CORE_HELD_H

#include "core/state.h"

/*
 * held - the conversations that an engine still holds.
 *
 * An engine keeps what it has read of the last conversation in each slot. The next turn of one of them
 * reads only what is new; after an eviction all of it has to be read again, which can take longer than
 * the load. How long is known from answers: tokens held, times what a token of a prompt took lately.
 */

/* A turn of a conversation ended there and left so many tokens. */
void held_note(struct arbiter *a, struct instance *instance, const struct request *request, int64_t tokens);
/* It was told to give up all of them. */
void held_forget(struct instance *instance);
int64_t held_tokens(const struct instance *instance);
/*
 * Seconds to read again what is likely to be asked for again: each conversation counts less the longer
 * ago its last turn was. 0 where no answer told how fast prompts are read.
 */
double held_prefill_s(const struct arbiter *a, const struct instance *instance);

#endif
