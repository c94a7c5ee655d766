#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/*
 * log - lines for a person, on standard error.
 *
 * One line an event, "level: text", written with one write(2) so that lines of
 * several threads do not mix; under systemd (JOURNAL_STREAM set) each starts
 * with its "<N>" priority instead of time and level. Only the layer that
 * decides logs; libraries return errors. Never log a secret or a request body.
 * Control bytes in the text are shown as '?', so a peer cannot write to the
 * terminal.
 */
enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

void log_set_level(enum log_level level); /* INFO until told otherwise */

/* Is a line of that level written? For whoever would first have to put it together. */
bool log_shows(enum log_level level);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
