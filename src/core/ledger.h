#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "core/state.h"

/*
 * ledger - the one account of every pool.
 *
 * Of a pool: U, unreclaimable use by the last sample; own, the measured bytes of
 * our instances; foreign = max(0, U - sum of own), everybody else; held, what
 * our instances must be counted with: of each the larger of claim and own,
 * always. So a promise not yet used is gone already, and learning may lower a
 * claim but never what is held below what is measured.
 *
 * An instance whose counters could not be read whole owns the growth of U that
 * nobody explains since its claim was opened, up to its claim; several such
 * share it in order of opening. Only ledger.c changes claim, own and the sums.
 *
 * An outlook is the account as it would be: with foreign use or holders other
 * than now. Questions are asked of an outlook, so that "would it fit if those
 * were gone" and "does it fit" are one piece of code.
 */
struct outlook {
	struct amount held;
	double variance[POOLS_MAX]; /* sum of the holders' sigma, squared */
	int64_t foreign[POOLS_MAX];
	int64_t view_foreign[VIEWS_MAX];
	uint32_t holders;
};

struct verdict {
	bool fits;
	bool alone;         /* only because nobody who could go is there */
	uint32_t binds;     /* enum reason: CAPACITY, VIEW or LIMIT */
	uint32_t pool;      /* or view */
	int64_t need_bytes; /* of what binds */
	int64_t room_bytes;
};

void ledger_set_machine(struct arbiter *a, const struct event_machine *machine);
void ledger_open(struct arbiter *a, struct instance *instance, const struct amount *claim);
void ledger_claim(struct arbiter *a, struct instance *instance, const struct amount *claim);
void ledger_close(struct arbiter *a, struct instance *instance);

/* What of all pools is in use, by the last sample. */
int64_t ledger_in_use(const struct arbiter *a);

/* The last sample before it goes is kept, for the day on which it has gone. */
void ledger_note_had(struct instance *instance, int64_t in_use);

/* It gave so much back, before any sample could show it: neither its own nor anybody's. */
void ledger_given_back(struct arbiter *a, struct instance *instance, int64_t bytes);

/* How sure one is of what it takes. */
void ledger_spread(struct arbiter *a, struct instance *instance, const struct amount *sigma);

/* `seen` is what it owns, where it could be read whole; others wait for the sample's end. */
void ledger_measured(struct arbiter *a, struct instance *instance);
/* Close a sample: U, foreign use of each view, and what is owned by those that could not be read whole. */
void ledger_sample(struct arbiter *a, const int64_t unreclaimable[POOLS_MAX],
                   const int64_t view_foreign[VIEWS_MAX]);

struct amount ledger_held_by(const struct instance *instance);
/* As of the last sample: what was measured since of ours is not set against an older U. */
int64_t ledger_foreign(const struct arbiter *a, uint32_t pool);
/* Before a unit of work: what outlooks are made of is summed once. */
void ledger_settle(struct arbiter *a);
/* So much of B, and at least what others may take before anybody sees it. */
int64_t ledger_kept(const struct arbiter *a, uint32_t pool, int64_t permille);

void outlook_now(const struct arbiter *a, struct outlook *outlook);
/* ... once those that leave are gone. */
struct outlook outlook_coming(const struct arbiter *a);
void outlook_remove(struct outlook *outlook, const struct instance *instance);
void outlook_restore(struct outlook *outlook, const struct instance *instance);
/* One more holder of so much, who is not there yet. */
void outlook_add(struct outlook *outlook, const struct amount *held, const struct amount *sigma);
/* With the least foreign use ever seen: what can be hoped for. */
void outlook_at_baseline(const struct arbiter *a, struct outlook *outlook);
/* ... and with none of ours. */
void outlook_empty(const struct arbiter *a, struct outlook *outlook);

/*
 * Is there room for `need`? With `sigma` the policy's margin is kept free as
 * well; without it (NULL) the answer is for one who is alone: up to B itself.
 * What binds is told either way.
 */
struct verdict outlook_weigh(const struct arbiter *a, const struct outlook *outlook,
                             const struct amount *need, const struct amount *sigma);

#endif
