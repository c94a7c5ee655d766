/*
 * The level and the form are the only state of the process that lives below
 * app/: a log that had to be handed to every function would be handed on
 * unread. Both are set once, before any thread starts.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

static enum log_level level_shown = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	level_shown = level;
}

bool log_shows(enum log_level level)
{
	return level <= level_shown;
}

static int write_prefix(char *out, size_t bytes, enum log_level level)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	static const int priorities[] = { 3, 4, 6, 7 };

	if (getenv("JOURNAL_STREAM"))
		return snprintf(out, bytes, "<%d>", priorities[level]);

	struct timespec now;
	struct tm local;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	return snprintf(out, bytes, "%02d:%02d:%02d.%03ld %-5s ", local.tm_hour, local.tm_min,
	                local.tm_sec, now.tv_nsec / 1000000, names[level]);
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[2048];
	va_list args;

	if (!log_shows(level))
		return;
	int start = write_prefix(line, sizeof(line), level);
	va_start(args, format);
	int length = vsnprintf(line + start, sizeof(line) - (size_t)start - 1, format, args);
	va_end(args);
	if (length < 0)
		return;
	int end = start + length;
	if (end > (int)sizeof(line) - 2)
		end = (int)sizeof(line) - 2;
	line[end] = '\0';
	str_hide_passwords(line + start);
	end = start + (int)strlen(line + start);
	for (int i = start; i < end; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[end++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)end) < 0)
		return; /* nobody listens; there is nowhere to say so */
}
