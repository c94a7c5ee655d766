#ifndef CORE_RELIEF_H
#define CORE_RELIEF_H

#include "core/ledger.h"
#include "core/place.h"

/*
 * relief - idle conversations go before models do.
 *
 * An idle engine of a MODEL_LAZY can be rid of what its slots hold and serve on
 * at once: the shell saves what is to be kept, erases the slots and gives the
 * pages back (ACTION_DISCARD, answered by EVENT_CONVERSATION_ERASED). Least
 * valuable first: the seconds that it would take to read again what is likely to
 * be asked for again, by class, for each byte. Meanwhile nothing is sent to it,
 * and it is nobody's victim.
 */
enum { RELIEF_LEAST_BYTES = 16 << 20 }; /* less is not worth a conversation */

enum relief {
	RELIEF_NONE, /* would not help */
	RELIEF_DONE, /* one was told to go */
	RELIEF_WAIT, /* what is going already is enough */
};

/* For a want that finds no room in `coming`, where conversations alone would make it. */
enum relief relief_for(struct arbiter *a, const struct want *want, const struct outlook *coming);
/* Memory is short: the least valuable one goes, whoever needs it. False: there is none. */
bool relief_under_pressure(struct arbiter *a);
bool relief_is_coming(const struct arbiter *a);
/* EVENT_CONVERSATION_ERASED */
void relief_erased(struct arbiter *a, struct instance *instance, bool failed);

#endif
