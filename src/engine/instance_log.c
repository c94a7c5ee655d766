/*
 * The log. An engine must never wait for us: its pipe is read whenever there is
 * something, whole pages at a time, and what is old falls out at the other end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/instance.h"

/* One turn of the loop reads so much at most: others wait too. */
enum { READ_BYTES = 16 * 1024, READS_A_TURN = 8, READS_AT_END = 64 };

static void on_line(struct instance *instance, const char *line)
{
	const struct log_patterns *patterns = &instance->adapter->log;

	for (const struct load_stage *stage = patterns->stages; stage->pattern; stage++)
		if (strstr(line, stage->pattern))
			instance_reached(instance, stage->permille);
	for (const char *const *hint = patterns->ready_hints; *hint; hint++) {
		if (strstr(line, *hint)) {
			instance_ask_now(instance);
			return;
		}
	}
}

/* Lines matter while it loads; of a long one the beginning is enough. */
static void scan_lines(struct instance *instance, struct str bytes)
{
	for (size_t i = 0; i < bytes.length && instance->state == INSTANCE_LOADING; i++) {
		char byte = bytes.data[i];
		if (byte == '\n' || byte == '\r') {
			instance->line[instance->line_length] = '\0';
			instance->line_length = 0;
			on_line(instance, instance->line);
		} else if (instance->line_length + 1 < sizeof(instance->line)) {
			instance->line[instance->line_length++] = byte ? byte : ' ';
		}
	}
}

/* ---- secrets ---- */

/* What stands before the "@" of an address: a proxy's, a registry's. */
static void add_address(struct redactor *redactor, const char *word)
{
	const char *from = strstr(word, "://"), *at = from ? strrchr(from, '@') : NULL;

	if (!at)
		return;
	char *secret = xstrndup(from + 3, (size_t)(at - from) - 3);
	const char *password = strchr(secret, ':');
	redactor_add(redactor, secret);
	if (password)
		redactor_add(redactor, password + 1);
	free(secret);
}

static void add_flags(struct redactor *redactor, const struct conf_strings *words)
{
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->items[i], *equal = strchr(word, '=');
		add_address(redactor, word);
		if (word[0] != '-')
			continue;
		struct str rest, flag = str_cut(str_from(word), '=', &rest);
		char name[64];
		if (!str_copy(name, sizeof(name), flag) || !names_secret(name))
			continue;
		if (equal)
			redactor_add(redactor, equal + 1);
		else if (i + 1 < words->count && words->items[i + 1][0] != '-')
			redactor_add(redactor, words->items[i + 1]);
	}
}

void instance_learn_secrets(struct instance *instance)
{
	struct redactor *redactor = &instance->redactor;
	const struct conf_model *model = instance->model;
	const struct words *ours = &instance->supervisor->secrets;

	redactor_clear(redactor);
	redactor_add(redactor, instance->endpoint.key);
	for (size_t i = 0; i < ours->count; i++)
		redactor_add(redactor, ours->items[i]);
	for (size_t i = 0; i < model->env.count; i++)
		if (names_secret(model->env.items[i].name))
			redactor_add(redactor, model->env.items[i].value);
		else
			add_address(redactor, model->env.items[i].value);
	add_flags(redactor, &model->args);
	add_flags(redactor, &model->cmd_argv);
}

/* ---- what comes ---- */

/* Where it goes: the tail in memory, the file, who follows, and the scan for progress. */
static void take(struct instance *instance, struct str bytes, bool last)
{
	const struct supervisor_events *events = &instance->supervisor->events;
	struct model_record *record = instance->record;
	struct buf clean = BUF_INIT;

	if (last)
		redactor_flush(&instance->redactor, &clean);
	else
		redactor_feed(&instance->redactor, bytes, &clean);
	struct str text = buf_str(&clean);
	if (text.length) {
		log_tail_append(&record->log, text);
		if (record->file)
			log_file_append(record->file, text);
		if (events->on_log)
			events->on_log(events->ctx, record->name, text);
		scan_lines(instance, text);
	}
	buf_release(&clean);
}

/* In the file alone: many lives stand there, one after the other. */
static void mark_beginning(const struct instance *instance)
{
	char line[160], when[32];
	struct tm utc;
	time_t now = time(NULL);

	if (!instance->record->file)
		return;
	if (!gmtime_r(&now, &utc) || !strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc))
		return;
	int length = snprintf(line, sizeof(line), "=== %s %s begins\n", when, instance->name);
	log_file_append(instance->record->file, (struct str){ line, (size_t)length });
}

/* False where nothing more comes: it is empty for now, or ended. */
static bool read_once(struct instance *instance)
{
	char bytes[READ_BYTES];
	ssize_t length = read(instance->log_fd, bytes, sizeof(bytes));

	if (length < 0 && errno == EINTR)
		return true;
	if (length < 0 && errno == EAGAIN)
		return false;
	if (length <= 0) {
		instance_close_log(instance);
		return false;
	}
	take(instance, (struct str){ bytes, (size_t)length }, false);
	return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct instance *instance = poll->data;
	(void)status;
	(void)events;

	for (int i = 0; i < READS_A_TURN && instance->log_poll && read_once(instance); i++)
		;
}

void instance_read_log(struct instance *instance)
{
	for (int i = 0; i < READS_AT_END && instance->log_poll && read_once(instance); i++)
		;
}

int instance_open_log(struct instance *instance, int *out_write_fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end alone: an engine's writes wait as it expects */
	instance->log_poll = xcalloc(1, sizeof(*instance->log_poll));
	int status = uv_poll_init(instance->supervisor->options.loop, instance->log_poll, ends[0]);
	if (status < 0) {
		free(instance->log_poll);
		instance->log_poll = NULL;
		close(ends[0]);
		close(ends[1]);
		return status;
	}
	instance->log_poll->data = instance;
	instance->log_fd = ends[0];
	instance->log_start = instance->record->log.total;
	uv_poll_start(instance->log_poll, UV_READABLE, on_readable);
	mark_beginning(instance);
	*out_write_fd = ends[1];
	return 0;
}

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

void instance_close_log(struct instance *instance)
{
	if (!instance->log_poll)
		return;
	take(instance, STR(""), true);
	uv_poll_stop(instance->log_poll);
	close(instance->log_fd);
	uv_close((uv_handle_t *)instance->log_poll, free_handle);
	instance->log_poll = NULL;
}
