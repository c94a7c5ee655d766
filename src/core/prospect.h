#ifndef CORE_PROSPECT_H
#define CORE_PROSPECT_H

#include "core/place.h"

/*
 * prospect - what a want may hope for, and who is told that there is nothing.
 *
 * Who finds no room may find it once others have gone. But not all go: the pinned
 * stay, and so do mates; what they and others' use leave is the most that there
 * will be. A want that is too large even for that is refused, so that nobody goes
 * for it and its client need not wait:
 *
 *   never    too large beside nothing but the pinned, by the least that it takes
 *            and at the least foreign use ever seen. It is told so at once, for
 *            good. An upper bound refuses nobody: that is what being alone is for.
 *   not now  others' use is in the way, or the machine's memory is short. That is
 *            waited for, longer while it falls; then the client may ask again.
 *
 * An estimate alone does not say that a loaded model has no room for a request:
 * it is measured first.
 */

/*
 * Not on this machine. Where KV follows conversations, one of `need` has to have room as well; NULL: as large
 * as one that had none.
 */
bool prospect_never(const struct arbiter *a, const struct model *model, const struct amount *need,
                    struct verdict *out);

/* What it was measured to take at least, where that and no estimate is its bound; else 0. */
int64_t prospect_measured(const struct model *model);

/*
 * The account without those that may go for it; `busy`: once they have drained, too. `outlook` is without those
 * that leave already (outlook_coming).
 */
void prospect_clear(const struct arbiter *a, const struct want *want, bool busy, struct outlook *outlook);

/* Were all gone that may go, it would not be let in either, or not before `victim` is back. */
bool prospect_in_vain(const struct arbiter *a, const struct want *want, const struct outlook *coming,
                      const struct instance *victim);

/* One unit of work each; false: there is hope. `coming` is the account without who leaves. */
bool prospect_refuse(struct arbiter *a, const struct want *want, const struct outlook *coming);
/* Memory has been short for long and none that may go is left: who waits for a load is told so. */
bool prospect_refuse_pressed(struct arbiter *a);
/* Nobody has known for long what room there is: likewise. */
bool prospect_refuse_blind(struct arbiter *a);

#endif
