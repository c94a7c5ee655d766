#ifndef PROBE_SEEN_H
#define PROBE_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/cgroup.h"
#include "probe/hot_file.h"
#include "probe/group_sum.h"
#include "probe/handles.h"

/*
 * seen - what one sample leaves for the next, so that it need not be sought again.
 *
 * Of each process: that it was an owner's, with its status file left open (which stays that process', whoever
 * gets its number later), what it had mapped, and the share that it bears of its pages; or that it was nobody's. Who
 * was nobody's is nobody's still, as long as he stays in his session: numbers are used again, so that is asked now and
 * then. Where somebody is new among the owners all are looked at anew. And of the machine: its files, open, and the
 * control groups that bound us.
 *
 *   seen_new() -> with each sample -> seen_free()
 *
 * Of those that are born between two looks at all, only their numbers are looked at: they are given in order.
 *
 * A look at all processes begins a new list, takes from the old one what is there still, and leaves it:
 * seen_begin(), seen_take() or seen_note() or seen_note_other() for each, seen_end(). One writer, one thread.
 */
enum { SEEN_MAX = 512, SEEN_OPEN_MAX = 256, SEEN_OTHERS_MAX = 8192, SEEN_TAG_BYTES = 48 };

struct seen_process {
	pid_t pid;
	pid_t pgid;  /* of the owner that it was found to be of; 0: of one that has none */
	int status;  /* open; -1: too many are */
	struct hot_maps maps;
	uint32_t owner;               /* in the last look, UINT32_MAX: it was not there */
	struct process_memory memory; /* as it was then */
	struct share share;
	int64_t gpu_bytes;            /* of system RAM, likewise */
	struct {                      /* for who reads the samples: its oom_score_adj */
		bool known;           /* that it has `value`: until it is set, it is what its parent had */
		int16_t value;
		bool refused;         /* `asked` was, last */
		int16_t asked;
	} score;
};

struct seen_other {
	pid_t pid, session;
};

struct seen_owner {
	pid_t pgid, pid;   /* as they were asked for */
	bool found;        /* it had a process */
	pid_t keeper;      /* who started its leader; 0 = not known */
	char tag[SEEN_TAG_BYTES]; /* of its processes, where it was needed; see process_variable() */
	uint64_t members;  /* when its shares were read; 0 = they were not */
	int64_t bytes;     /* ... and what they had then, in all */
};

struct seen_list {
	struct seen_process process[SEEN_MAX]; /* in order of pid, as /proc is read */
	uint32_t count;
	bool whole;                            /* all that are owners' are in it */
	struct seen_other other[SEEN_OTHERS_MAX]; /* nobody's, in order too */
	uint32_t others;
};

struct seen {
	struct seen_list list[2];
	uint32_t now;              /* which of them is the last that was finished */
	uint32_t until_anew;       /* looks at all */
	pid_t newest[2];           /* the number given last, at the last sample and at the one before */
	bool anew;                 /* the look under way */
	bool strangers;            /* ... to which nobody is known to be nobody's */
	struct seen_owner owner[SAMPLE_OWNERS_MAX]; /* in the sample's order */
	uint32_t owners;
	struct handles handles;
	struct cgroup_mounts mounts;
	struct cgroup_limits limits;
	bool has_limits;           /* they were found */
};

struct seen *seen_new(void);
void seen_free(struct seen *seen);

/* The processes of owners, as the last look at all found them. */
struct seen_list *seen_last(struct seen *seen);

void seen_begin(struct seen *seen, const struct sample *sample);
/* The process as it was seen before, with its status open; NULL: it is to be looked at. */
struct seen_process *seen_before(struct seen *seen, pid_t pid);
bool seen_was_other(const struct seen *seen, pid_t pid);
/* The share that it was found to bear in an earlier look, and its score. */
void seen_recall(struct seen *seen, struct seen_process *process);
/* In the list that is being made: NULL, or the owner's process with that number. */
struct seen_process *seen_now(struct seen *seen, pid_t pid);
/* What is open goes along. */
void seen_take(struct seen *seen, struct seen_process *process);
/* Its status is opened where it stays; it returns where it was noted, NULL: there are too many. */
struct seen_process *seen_note(struct seen *seen, const struct seen_process *process, bool stays);
void seen_note_other(struct seen *seen, pid_t pid, pid_t session);
void seen_end(struct seen *seen, const struct sample *sample);
/*
 * `newest`: the number given last, now. Who was born since the sample before the last has one in (*after, newest]: of
 * those of the last sample some may not have been there to be seen yet. False: that is not known, or they are many.
 */
bool seen_born(struct seen *seen, pid_t newest, pid_t *after);
/* Of an owner that is in the last list's look: one more, if it is not there yet. */
void seen_add(struct seen *seen, const struct seen_process *process);
bool seen_has(const struct seen *seen, pid_t pid);
/* The last look was for this owner too: UINT32_MAX, or its place in owner[]. */
uint32_t seen_owner(const struct seen *seen, const struct sample_owner *owner);

#endif
