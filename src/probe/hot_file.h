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
 *   2. hot_files_look() for each process of an owner
 *   3. hot_files_close() adds what was found to the owners and the sample
 */
enum { HOT_FILES_MOST = SAMPLE_OWNERS_MAX * SAMPLE_FILES_MAX };

struct hot_file {
	const char *path;
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
	bool wanted[SAMPLE_OWNERS_MAX]; /* has files at all: whose maps are worth reading */
};

void hot_files_open(struct hot_files *files, const char *root, const struct sample *sample);
/* `resident_bytes` is the process' RssFile. True where it maps one of its owner's files. */
bool hot_files_look(struct hot_files *files, const char *root, pid_t pid, uint32_t owner,
                    int64_t resident_bytes);
void hot_files_close(struct hot_files *files, struct sample *sample);

#endif
