/*
 * The machine gives no answer: a file or a driver hangs, or cannot be read any more. What the ledger says is from
 * before then, so nothing is loaded on it, and who waits for a load is told why. What is loaded goes on serving; what
 * ends is not seen to give its memory back, so its claim stays.
 */
#include "app/shell.h"

#include <stdio.h>

#include "base/log.h"
#include "base/units.h"

static void begin(struct shell *shell, const char *blocked, const char *text)
{
	bool first = shell->unread_since_us == 0;

	if (first)
		shell->unread_since_us = shell->sampled_at_us ? shell->sampled_at_us : shell_now_us();
	str_copy(shell->blocked, sizeof(shell->blocked), str_from(blocked));
	str_copy(shell->unread_text, sizeof(shell->unread_text), str_from(text));
	if (first && shell->phase != PHASE_CLOSING)
		log_error("the machine's memory cannot be read: %s; nothing is loaded until it can", text);
	struct event event = shell_event(EVENT_BLIND);
	shell_push(shell, &event);
}

void shell_unread_failed(struct shell *shell, const char *text)
{
	begin(shell, "", text);
}

void shell_unread_late(struct shell *shell, const char *what)
{
	char text[sizeof(shell->unread_text)];

	snprintf(text, sizeof(text), "%s gives no answer", what);
	begin(shell, what, text);
}

void shell_read_again(struct shell *shell)
{
	char span[UNITS_TEXT];

	if (shell->unread_since_us)
		log_info("the machine's memory can be read again, after %s",
		         units_duration(span, shell_now_us() - shell->unread_since_us));
	shell->unread_since_us = 0;
	shell->blocked[0] = shell->unread_text[0] = '\0';
}

void shell_tell_unseen(const struct shell *shell)
{
	for (uint32_t i = 0; i < shell->instances_used; i++) {
		const struct instance_row *row = &shell->instances[i];
		if (row->live)
			log_warn("what %s held was not seen to come back: the machine's memory cannot be read",
			         shell->conf->models[row->model].name);
	}
}
