#include "probe/doctor_service.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/lines.h"

enum { ENVIRONMENT_MOST = 1 << 20, DAC_OVERRIDE = 1 };

extern char **environ;

void doctor_service_file(const struct doctor_service *service, const char *name, char *out, size_t out_bytes)
{
	if (service && service->pid > 0)
		snprintf(out, out_bytes, "/proc/%d/%s", (int)service->pid, name);
	else
		snprintf(out, out_bytes, "/proc/self/%s", name);
}

void doctor_service_whose(const struct doctor_service *service, char *out, size_t out_bytes)
{
	out[0] = '\0';
	if (!service || service->pid <= 0)
		return;
	if (service->rights.known)
		snprintf(out, out_bytes, " of the daemon (PID %d, uid %u)", (int)service->pid, service->rights.uid);
	else
		snprintf(out, out_bytes, " of the daemon (PID %d)", (int)service->pid);
}

/* ---- environments ---- */

static void append(struct doctor_environment *environment, const char *text, size_t length)
{
	if (environment->bytes + length + 1 > ENVIRONMENT_MOST)
		return;
	environment->words = xrealloc(environment->words, environment->bytes + length + 1);
	memcpy(environment->words + environment->bytes, text, length);
	environment->words[environment->bytes + length] = '\0';
	environment->bytes += length + 1;
}

bool doctor_environment_read(const char *root, pid_t pid, struct doctor_environment *out)
{
	char name[48], *text = xmalloc(ENVIRONMENT_MOST);

	snprintf(name, sizeof name, "/proc/%d/environ", (int)pid);
	int length = lines_read_all(root, name, text, ENVIRONMENT_MOST);
	*out = (struct doctor_environment){ .words = text, .bytes = length > 0 ? (size_t)length + 1 : 0 };
	return length >= 0;
}

struct str doctor_environment_value(const struct doctor_environment *environment, const char *name)
{
	struct str value;

	for (size_t at = 0; at < environment->bytes; at += strlen(environment->words + at) + 1) {
		struct str key = str_cut(str_from(environment->words + at), '=', &value);
		if (value.data && str_is(key, name))
			return value;
	}
	return (struct str){ NULL, 0 };
}

static void add_inherited(struct doctor_service *service, const char *root)
{
	struct doctor_environment *inherited = &service->environment[0];

	if (service->pid > 0) {
		bool read = doctor_environment_read(root, service->pid, inherited);
		char whose[DOCTOR_WHOSE_BYTES];
		doctor_service_whose(service, whose, sizeof whose);
		snprintf(inherited->whose, sizeof inherited->whose, "for%s", whose[0] ? whose + 3 : "");
		inherited->refused = !read;
	} else if (root[0]) {
		return;
	} else {
		str_copy(inherited->whose, sizeof inherited->whose, STR("here"));
		for (char **word = environ; word && *word; word++)
			append(inherited, *word, strlen(*word));
	}
	inherited->for_all = true;
	service->environments = 1;
}

void doctor_service_add(struct doctor_service *service, const char *model, const char *name, const char *value)
{
	char whose[DOCTOR_WHOSE_BYTES], word[PATH_MAX];
	struct doctor_environment *own = NULL;

	snprintf(whose, sizeof whose, "in the configuration for %s", model);
	for (uint32_t i = 0; i < service->environments; i++)
		if (!service->environment[i].for_all && strcmp(service->environment[i].whose, whose) == 0)
			own = &service->environment[i];
	if (!own && service->environments == DOCTOR_ENVIRONMENTS_MAX)
		return;
	if (!own) {
		own = &service->environment[service->environments++];
		memcpy(own->whose, whose, sizeof whose);
	}
	int length = snprintf(word, sizeof word, "%s=%s", name, value);
	append(own, word, length < (int)sizeof word ? (size_t)length : sizeof word - 1);
}

/* ---- rights ---- */

static void take_line(struct doctor_rights *rights, struct str line)
{
	struct str rest, key = str_cut(line, ':', &rest);
	int64_t first, value;
	char *end, text[32];

	if (!rest.data)
		return;
	if (str_is(key, "CapEff")) {
		str_copy(text, sizeof text, str_trim(rest));
		rights->capabilities = strtoull(text, &end, 16);
		return;
	}
	if (str_is(key, "Groups")) {
		while (rights->groups < DOCTOR_GROUPS_MAX && lines_number(rest, &value, &rest))
			rights->group[rights->groups++] = (uint32_t)value;
		return;
	}
	/* The second of four is the effective one. */
	bool uid = str_is(key, "Uid");
	if ((!uid && !str_is(key, "Gid")) || !lines_number(rest, &first, &rest) || !lines_number(rest, &value, NULL))
		return;
	*(uid ? &rights->uid : &rights->gid) = (uint32_t)value;
	rights->known = rights->known || uid;
}

static void read_rights(struct doctor_service *service, const char *root)
{
	char name[48];
	struct lines lines;
	struct str line;

	doctor_service_file(service, "status", name, sizeof name);
	if (lines_open(&lines, root, name) < 0)
		return;
	while (lines_next(&lines, &line))
		take_line(&service->rights, line);
	lines_close(&lines);
}

static bool is_in_group(const struct doctor_rights *rights, uint32_t group)
{
	bool in = rights->gid == group;

	for (uint32_t i = 0; i < rights->groups; i++)
		in = in || rights->group[i] == group;
	return in;
}

enum doctor_may doctor_may_use(const struct doctor_rights *rights, const char *path)
{
	enum { READ_AND_WRITE = 6 };
	struct stat status;

	if (!rights->known || stat(path, &status) < 0)
		return DOCTOR_MAY_UNKNOWN;
	unsigned mode = status.st_mode;
	mode = rights->uid == status.st_uid ? mode >> 6 : is_in_group(rights, status.st_gid) ? mode >> 3 : mode;
	if ((mode & READ_AND_WRITE) == READ_AND_WRITE || rights->capabilities >> DAC_OVERRIDE & 1)
		return DOCTOR_MAY;
	return getxattr(path, "system.posix_acl_access", NULL, 0) > 0 ? DOCTOR_MAY_UNKNOWN : DOCTOR_MAY_NOT;
}

/* ---- all ---- */

void doctor_service_open(struct doctor_service *service, const char *root, pid_t pid)
{
	memset(service, 0, sizeof *service);
	service->pid = pid;
	read_rights(service, root);
	add_inherited(service, root);
}

void doctor_service_close(struct doctor_service *service)
{
	for (uint32_t i = 0; i < service->environments; i++)
		free(service->environment[i].words);
}
