#ifndef PROBE_HOT_FILE_H
#define PROBE_HOT_FILE_H

#include "probe/sample.h"

/*
 * hot_file - page cache that must be counted as used: model files that an
 * engine has mapped and computes from.
 *
 * The kernel calls those pages available, but taking them away stops the
 * engine. Each file counts once, however many processes and owners map it; the
 * first owner that maps it bears it. How much of a mapping is resident would
 * cost a walk over all its pages (cachestat, smaps: 13 ms and more for each
 * GiB); the process' RssFile costs nothing and is at most its libraries off.
 *
 *   1. hot_files_open() with the owners' questions
 *   2. hot_files_look() or _recall() for each process of an owner
 *   3. hot_files_close() adds what was found to the owners and the sample
 */

/*
 * What a process has mapped of the files; reading it costs most, and it hardly changes. So it is recalled from one
 * sample to the next; how much of it is resident is looked at each time.
 */
struct hot_maps {
	enum { MAPS_NONE, MAPS_ONE, MAPS_MANY } kind;
	uint64_t file;         /* of ONE: hash of its path */
	uint64_t mapped_bytes; /* of it */
};

enum { HOT_FILES_MOST = SAMPLE_OWNERS_MAX * SAMPLE_FILES_MAX };

struct hot_file {
	const char *path;
	uint64_t key;           /* hash of the path */
	uint32_t first;         /* index of the first that is the same file */
	bool identified;        /* device and inode are known */
	uint64_t device;
	uint64_t inode;
	uint64_t mapped_bytes;  /* in the process being looked at */
	int64_t resident_bytes; /* the most of all processes so far */
	bool owned;
	uint32_t owner;         /* index, where owned */
};

struct hot_files {
	struct hot_file *file;
	uint32_t count;
	bool compared;                  /* device and inode were sought, and who is the same is known */
	bool wanted[SAMPLE_OWNERS_MAX]; /* has files at all: whose maps are worth reading */
};

void hot_files_open(struct hot_files *files, const struct sample *sample);
/* `resident_bytes` is the process' RssFile. What it has mapped. */
struct hot_maps hot_files_look(struct hot_files *files, const char *root, pid_t pid, uint32_t owner,
                               int64_t resident_bytes);
/* The same from what was found before; false where it has to be looked at again. */
bool hot_files_recall(struct hot_files *files, const struct hot_maps *maps, uint32_t owner, int64_t resident_bytes);
void hot_files_close(struct hot_files *files, struct sample *sample);

#endif
