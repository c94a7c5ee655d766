#include "app/unsaved.h"

#include <stdio.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/units.h"

int64_t unsaved_free_bytes(const char *folder)
{
	struct statvfs disk;

	if (statvfs(folder, &disk) < 0)
		return -1;
	return (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

static void tell_reason(char *out, size_t out_bytes, const struct unsaved_loss *loss)
{
	char takes[UNITS_TEXT], left[UNITS_TEXT];

	if (loss->free_bytes >= 0 && loss->free_bytes < loss->bytes)
		snprintf(out, out_bytes, "they take %s, and %s is free at %.150s", units_size(takes, loss->bytes),
		         units_size(left, loss->free_bytes), loss->folder);
	else
		snprintf(out, out_bytes, "what was written at %.150s is not whole", loss->folder);
}

void unsaved_note(struct unsaved *unsaved, const struct unsaved_loss *loss)
{
	if (!loss->conversations)
		return;
	unsaved->model = loss->model;
	unsaved->conversations += loss->conversations;
	unsaved->tokens += loss->tokens;
	unsaved->last_at_us = loss->at_us;
	tell_reason(unsaved->reason, sizeof(unsaved->reason), loss);
	if (!unsaved->failing)
		log_warn("%s: %lld conversation%s of %lld tokens could not be saved: %s. Until there is room, who goes "
		         "on with one waits while it is read anew; try: free some space there, or a smaller kv_keep",
		         loss->name, (long long)loss->conversations, loss->conversations == 1 ? "" : "s",
		         (long long)loss->tokens, unsaved->reason);
	unsaved->failing = true;
}

void unsaved_over(struct unsaved *unsaved)
{
	if (unsaved->failing)
		log_info("conversations are saved again; %lld of %lld tokens were lost", (long long)unsaved->conversations,
		         (long long)unsaved->tokens);
	unsaved->failing = false;
}
