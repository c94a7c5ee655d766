#include "engine/ending.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { LINE_SHOWN = 240, LAST_WORDS = 4096 };

struct str log_line_text(struct str line, char *level)
{
	size_t at = 0;

	*level = 0;
	while (at < line.length && ((line.data[at] >= '0' && line.data[at] <= '9') || line.data[at] == '.'))
		at++;
	if (at == 0 || at + 3 > line.length || line.data[at] != ' ' || line.data[at + 2] != ' ')
		return line;
	char letter = line.data[at + 1];
	if (letter < 'A' || letter > 'Z')
		return line;
	*level = letter;
	return str_trim((struct str){ line.data + at + 3, line.length - at - 3 });
}

static bool has_any(struct str text, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if (memmem(text.data, text.length, *patterns, strlen(*patterns)))
			return true;
	return false;
}

struct verdict {
	struct str line;
	bool hopeless;
};

/*
 * While loading the first complaint is the cause and what follows repeats it;
 * later the last one is. A line that rules out another try comes before both.
 */
static struct verdict find_line(const struct ending_facts *facts)
{
	struct verdict verdict = { { "", 0 }, false };
	struct str last = { "", 0 };
	struct str complaint = { "", 0 };
	struct str rest = facts->log;

	while (rest.data) {
		char level;
		struct str line = str_trim(str_cut(rest, '\n', &rest));
		struct str text = log_line_text(line, &level);
		if (text.length == 0)
			continue;
		last = text;
		if (!facts->was_ready && has_any(text, facts->patterns->hopeless))
			return (struct verdict){ text, true };
		bool complains = level == 'E' || has_any(text, facts->patterns->telling);
		if (complains && (facts->was_ready || complaint.length == 0))
			complaint = text;
	}
	verdict.line = complaint.length ? complaint : last;
	return verdict;
}

/* Length of the UTF-8 character there; 0 where there is none. */
static size_t character_length(const unsigned char *at, size_t room)
{
	static const struct {
		unsigned char from;
		size_t length;
	} firsts[] = { { 0xF5, 0 }, { 0xF0, 4 }, { 0xE0, 3 }, { 0xC2, 2 }, { 0x80, 0 }, { 0, 1 } };
	size_t row = 0;

	while (at[0] < firsts[row].from)
		row++;
	size_t length = firsts[row].length;
	if (length > room)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xC0) != 0x80)
			return 0;
	return length;
}

/* What an engine prints may hold anything; what we show is text. */
static void append_shown(char *out, size_t out_bytes, struct str line)
{
	size_t at = strlen(out);
	size_t count = line.length < LINE_SHOWN ? line.length : LINE_SHOWN;

	for (size_t i = 0; i < count;) {
		const unsigned char *bytes = (const unsigned char *)line.data + i;
		size_t length = character_length(bytes, line.length - i);
		if (at + length + 1 >= out_bytes)
			break;
		if (length == 0)
			out[at++] = '?';
		else if (length == 1)
			out[at++] = bytes[0] < ' ' || bytes[0] == 127 ? ' ' : (char)bytes[0];
		else
			at = (size_t)((char *)mempcpy(out + at, bytes, length) - out);
		i += length ? length : 1;
	}
	out[at] = '\0';
}

/* An OOM kill in our group is ours; where the group's counts cannot be read, any on the machine may be. */
static enum end_cause cause_of_kill(const struct ending_facts *facts)
{
	const struct oom_count *before = &facts->before, *now = &facts->now;

	if (facts->told.pid > 0)
		return facts->told.limit ? CAUSE_GROUP_LIMIT : CAUSE_MACHINE_FULL;
	if (now->group_kills < 0 || before->group_kills < 0)
		return now->machine_kills > before->machine_kills ? CAUSE_MACHINE_FULL : CAUSE_KILLED;
	if (now->group_kills <= before->group_kills)
		return CAUSE_KILLED;
	return now->limit_hits > before->limit_hits ? CAUSE_GROUP_LIMIT : CAUSE_MACHINE_FULL;
}

/* What allocators say when they give up; the device's first, whose lines name it. */
static enum end_cause cause_of_words(struct str log)
{
	static const char *const device[] = {
		"cudaMalloc failed", "CUDA error: out of memory", "hipErrorOutOfMemory", "hipMalloc failed",
		"ROCm error: out of memory", "ErrorOutOfDeviceMemory", "NvMapMemAlloc", "NV_ERR_NO_MEMORY",
		"CUDA out of memory", "HIP out of memory", "ze_result_error_out_of_device_memory",
		"ERROR_OUT_OF_DEVICE_MEMORY", NULL, /* of Vulkan's, SYCL's and Level Zero's words */
	};
	static const char *const host[] = {
		"insufficient memory", "std::bad_alloc", "Cannot allocate memory", "MemoryError",
		"ErrorOutOfHostMemory", "ERROR_OUT_OF_HOST_MEMORY", "unable to allocate", "failed to allocate", NULL,
	};
	if (has_any(log, device))
		return CAUSE_DEVICE_FULL;
	return has_any(log, host) ? CAUSE_HOST_FULL : CAUSE_CRASHED;
}

static enum end_cause cause_of(const struct ending_facts *facts)
{
	if (WIFSIGNALED(facts->wait_status) && WTERMSIG(facts->wait_status) == SIGKILL)
		return cause_of_kill(facts);
	/* What it complained of long ago, and survived, did not end it. */
	struct str log = facts->log;
	if (facts->was_ready && log.length > LAST_WORDS)
		log = (struct str){ log.data + log.length - LAST_WORDS, LAST_WORDS };
	return cause_of_words(log);
}

static void describe_status(const struct ending_facts *facts, enum end_cause cause, char *out,
                            size_t out_bytes)
{
	const char *when = facts->was_ready ? "" : " while loading";
	int number = WIFSIGNALED(facts->wait_status) ? WTERMSIG(facts->wait_status) : 0;

	if (cause == CAUSE_GROUP_LIMIT)
		snprintf(out, out_bytes,
		         "%s was killed by the kernel for lack of memory%s: its control group's limit was "
		         "reached; raise it (memory.max, MemoryMax=, --memory), or set memory.limit below it",
		         facts->name, when);
	else if (cause == CAUSE_MACHINE_FULL)
		snprintf(out, out_bytes,
		         "%s was killed by the kernel for lack of memory%s: the machine had none left; "
		         "try: cotenant memory",
		         facts->name, when);
	else if (number == SIGKILL)
		snprintf(out, out_bytes, "%s was killed from outside%s (signal 9); the kernel counted no kill for memory",
		         facts->name, when);
	else if (number == SIGBUS)
		snprintf(out, out_bytes, "%s ended%s: a file that it had mapped was cut short", facts->name,
		         when);
	else if (number)
		snprintf(out, out_bytes, "%s was ended by signal %d (%s)%s", facts->name, number,
		         strsignal(number), when);
	else if (!facts->was_ready && WEXITSTATUS(facts->wait_status) == 0)
		snprintf(out, out_bytes,
		         "%s ended with status 0 while loading; an engine must not go into the background",
		         facts->name);
	else
		snprintf(out, out_bytes, "%s ended with status %d%s", facts->name,
		         WEXITSTATUS(facts->wait_status), when);
}

void ending_judge(const struct ending_facts *facts, struct ending *out)
{
	memset(out, 0, sizeof(*out));
	out->wait_status = facts->wait_status;
	if (facts->asked) {
		snprintf(out->text, sizeof(out->text), "%s was stopped%s", facts->name,
		         facts->killed ? " (killed)" : "");
		return;
	}
	out->fail = facts->was_ready ? FAIL_ENGINE_DIED : FAIL_LOAD_FAILED;
	out->cause = cause_of(facts);
	if (out->cause >= CAUSE_GROUP_LIMIT)
		out->fail = FAIL_OUT_OF_MEMORY;
	describe_status(facts, out->cause, out->text, sizeof(out->text));

	/* A killed one had no time to say anything: what stands last has nothing to do with it. */
	if (WIFSIGNALED(facts->wait_status) && WTERMSIG(facts->wait_status) == SIGKILL)
		return;
	struct verdict verdict = find_line(facts);
	out->never_ready = verdict.hopeless;
	if (verdict.line.length) {
		append_shown(out->text, sizeof(out->text), STR(": "));
		append_shown(out->text, sizeof(out->text), verdict.line);
	}
}

void ending_not_started(const char *name, int error, const char *what, struct ending *out)
{
	memset(out, 0, sizeof(*out));
	out->fail = FAIL_LOAD_FAILED;
	/* A shortage of processes or memory passes; a program that is not there does not come. */
	out->never_ready = error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR ||
	                   error == EISDIR || error == ELOOP;
	snprintf(out->text, sizeof(out->text), "%s could not be started: %.200s: %s", name, what,
	         strerror(error));
}
