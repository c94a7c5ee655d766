#ifndef ENGINE_ENDING_H
#define ENGINE_ENDING_H

#include <stdbool.h>

#include "base/str.h"
#include "engine/adapter.h"
#include "engine/supervisor.h"
#include "probe/cgroup.h"
#include "probe/kmsg.h"

/*
 * ending - why an engine ended, in words.
 *
 * An exit status says little: most engines end with 1 for a missing file, a
 * wrong flag and a full memory alike. What tells them apart is a line of their
 * log, so the line that says most is looked for and told.
 */
struct ending_facts {
	const char *name;       /* the program, as a person calls it */
	const struct log_patterns *patterns;
	struct str log;         /* what this engine printed, the end of it */
	int wait_status;
	bool was_ready;
	bool asked;             /* we told it to end */
	bool killed;            /* by a KILL of ours */
	struct oom_count before; /* when it was last well */
	struct oom_count now;
	struct kmsg_kill told;  /* by the kernel's log; pid 0 = nothing */
};

/*
 * The cause by all that is there to tell it. A kill by the kernel and one by a
 * person look alike to waitpid(2). The kernel's log names the victim; where it may
 * not be read, the kernel's counts tell them apart: of our control group where they
 * can be read, else of the machine. An engine that
 * gave up by itself is known by the line that its allocator printed.
 */
void ending_judge(const struct ending_facts *facts, struct ending *out);

/* It never ran: exec failed with `error` at `what`. */
void ending_not_started(const char *name, int error, const char *what, struct ending *out);

/*
 * A line without "time LEVEL " before its text; `*level` is the letter, or 0
 * where it has none of that form.
 */
struct str log_line_text(struct str line, char *level);

#endif
