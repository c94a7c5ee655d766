#ifndef PROBE_SEEN_H
#define PROBE_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/cgroup.h"
#include "probe/hot_file.h"
#include "probe/handles.h"

/*
 * seen - what one sample leaves for the next, so that it need not be sought again.
 *
 * Of each process: that it was an owner's, with its status file left open (which stays that process', whoever
 * gets its number later) and what it had mapped; or that it was nobody's. Who was nobody's is nobody's still: no
 * process can join another session. Numbers are used again, though, and a process may get another parent,  so where
 * somebody is new among the owners, and now and then, all are looked at anew. And of the machine: its files, open, and the control groups that bound us.
 *
 *   seen_new() -> with each sample -> seen_free()
 *
 * Of those that are born between two looks at all, only their numbers are looked at: they are given in order.
 *
 * A look at all processes begins a new list, takes from the old one what is there still, and leaves it:
 * seen_begin(), seen_take() or seen_note() or seen_note_other() for each, seen_end(). One writer, one thread.
 */
enum { SEEN_MAX = 512, SEEN_OPEN_MAX = 256, SEEN_OTHERS_MAX = 8192 };

struct seen_process {
	pid_t pid;
	pid_t pgid;  /* of the owner that it was found to be of; 0: of one that has none */
	int status;  /* open; -1: too many are */
	struct hot_maps maps;
};

struct seen_list {
	struct seen_process process[SEEN_MAX]; /* in order of pid, as /proc is read */
	uint32_t count;
	bool whole;                            /* all that are owners' are in it */
	pid_t other[SEEN_OTHERS_MAX];          /* nobody's, in order too */
	uint32_t others;
};

struct seen {
	struct seen_list list[2];
	uint32_t now;              /* which of them is the last that was finished */
	uint32_t until_anew;       /* looks at all */
	pid_t newest[2];           /* the number given last, at the last sample and at the one before */
	bool anew;                 /* the look under way */
	struct {
		pid_t pgid, pid;   /* as they were asked for */
		bool found;        /* it had a process */
	} owner[SAMPLE_OWNERS_MAX];
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
/* What is open goes along. */
void seen_take(struct seen *seen, struct seen_process *process);
void seen_note(struct seen *seen, pid_t pid, pid_t pgid, const struct hot_maps *maps, bool stays);
void seen_note_other(struct seen *seen, pid_t pid);
void seen_end(struct seen *seen, const struct sample *sample);
/*
 * `newest`: the number given last, now. Who was born since the sample before the last has one in (*after, newest]: of
 * those of the last sample some may not have been there to be seen yet. False: that is not known, or they are many.
 */
bool seen_born(struct seen *seen, pid_t newest, pid_t *after);
/* Of an owner that is in the last list's look: one more, if it is not there yet. */
void seen_add(struct seen *seen, pid_t pid, pid_t pgid, const struct hot_maps *maps);
bool seen_has(const struct seen *seen, pid_t pid);
/* The last look was for this owner too: UINT32_MAX, or its place in owner[]. */
uint32_t seen_owner(const struct seen *seen, const struct sample_owner *owner);

#endif
