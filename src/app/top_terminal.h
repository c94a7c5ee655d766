#ifndef APP_TOP_TERMINAL_H
#define APP_TOP_TERMINAL_H

#include <stdbool.h>

#include "base/str.h"

/*
 * top_terminal - the terminal while a full-screen verb has it.
 *
 * Between enter and leave it shows the other screen, without a cursor, and gives
 * each key as it is pressed, Ctrl-C too. However the program ends, the terminal
 * is left as it was found: on a signal, a failed assertion, a crash, exit(); only
 * SIGKILL is beyond that. There is one terminal, so this is the one place of the
 * command line that keeps a state of its own.
 */

/* Both ends must be terminals. 0 or a negative errno. Entering twice does nothing. */
int terminal_enter(void);
void terminal_leave(void);
/* As Ctrl-Z does it: leave, stop, and after `fg` enter again. */
void terminal_suspend(void);

/* Of the terminal; where it does not say, by $LINES and $COLUMNS. */
void terminal_size(int *out_rows, int *out_columns);
/* How wide a plain print may be: likewise, and `otherwise` where nothing is known. */
int terminal_columns(int otherwise);
/* All of it, also where the terminal takes little at a time. False: it is gone. */
bool terminal_write(struct str bytes);

enum key {
	KEY_NONE = 0,
	/* A printable key is its own byte. */
	KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_INTERRUPT, KEY_SUSPEND,
	KEY_REDRAW,
};

/* The next key of what was read, taken off its front; KEY_NONE where none is left. */
int terminal_key(struct str *input);

#endif
