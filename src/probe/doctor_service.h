#ifndef PROBE_DOCTOR_SERVICE_H
#define PROBE_DOCTOR_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/*
 * doctor_service - for whom doctor looks: under which environment, limits and rights engines start.
 *
 * That is the daemon's where one runs, whoever asks; else it is who asks. What models get beside it stands in the
 * configuration. Each environment keeps whose it is, for that is where a variable is taken out again.
 *
 *   doctor_service_open() -> doctor_service_add() for each variable of a model -> doctor_service_close()
 */
enum { DOCTOR_ENVIRONMENTS_MAX = 64, DOCTOR_WHOSE_BYTES = 96, DOCTOR_GROUPS_MAX = 64 };

struct doctor_environment {
	char whose[DOCTOR_WHOSE_BYTES]; /* as the end of a sentence: "here", "for the daemon (PID 12)", "for chat" */
	char *words;                    /* "NAME=value", each ended by a NUL */
	size_t bytes;
	bool for_all;                   /* every engine has it, else one model's */
	bool refused;                   /* it is there and may not be read */
};

struct doctor_rights {
	bool known;
	uint32_t uid, gid;
	uint32_t group[DOCTOR_GROUPS_MAX];
	uint32_t groups;
	uint64_t capabilities; /* as bits */
};

struct doctor_service {
	pid_t pid; /* the daemon; 0: who asks */
	struct doctor_rights rights;
	struct doctor_environment environment[DOCTOR_ENVIRONMENTS_MAX];
	uint32_t environments;
};

/* `pid` 0: no daemon runs. A recording knows an environment of neither, or of the one that is in it. */
void doctor_service_open(struct doctor_service *service, const char *root, pid_t pid);
void doctor_service_close(struct doctor_service *service);

/* A variable that one model gets, or one of several of it: they are added one after the other. */
void doctor_service_add(struct doctor_service *service, const char *model, const char *name, const char *value);

/* Of a daemon " of the daemon (PID 12, uid 996)", else "". */
void doctor_service_whose(const struct doctor_service *service, char *out, size_t out_bytes);

/* "/proc/self/limits" or the daemon's. */
void doctor_service_file(const struct doctor_service *service, const char *name, char *out, size_t out_bytes);

/* The value of a variable there; data NULL where it is not set. */
struct str doctor_environment_value(const struct doctor_environment *environment, const char *name);

/* What a file of a process holds, "environ" as it is; false: it cannot be read. */
bool doctor_environment_read(const char *root, pid_t pid, struct doctor_environment *out);

enum doctor_may { DOCTOR_MAY, DOCTOR_MAY_NOT, DOCTOR_MAY_UNKNOWN };

/* Reading and writing, by the mode of the file and an access list beside it. Unknown: there is no such file, or such a list. */
enum doctor_may doctor_may_use(const struct doctor_rights *rights, const char *path);

#endif
