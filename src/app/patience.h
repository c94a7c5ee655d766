#ifndef APP_PATIENCE_H
#define APP_PATIENCE_H

/*
 * patience - for how long a file of the machine's may be asked by who has nothing else to do.
 *
 * A command, and the daemon before it serves, read the machine themselves. Where a file or a driver gives no answer
 * for ten seconds they say which, and end; without this they would stand there for ever, without a word.
 *
 *   patience_begin() -> the reading, on the same thread -> patience_end()
 *
 * One at a time. Where no thread is to be had there is no end to it.
 */
void patience_begin(const char *who);
void patience_end(void);

#endif
