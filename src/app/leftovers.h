#ifndef APP_LEFTOVERS_H
#define APP_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * leftovers - processes that an earlier life of this daemon could not end.
 *
 * The keeper ends what a dead daemon leaves; but where the keeper was killed as
 * well, the children of an engine that left its session live on, hold memory
 * and belong to nobody. So each engine's environment names its owner, children
 * inherit that, and the next life looks for it.
 *
 * The owner is a random number that is kept in the state folder, and the
 * run-time folder, which one daemon alone can hold at a time: so no process of
 * another daemon is ever meant, not even of one in another container.
 */
enum { LEFTOVERS_MARK = 4200 };

/* "COTENANT_OWNER=..." for the environment of engines. False where there is no such number to be had: "" then. */
bool leftovers_mark(const char *state_dir, const char *runtime_dir, char out[LEFTOVERS_MARK]);

/*
 * End every process that has the mark and is of our user; `told` hears of each, with its command. Call
 * it with the run-time folder locked and before any engine is started. Returns how many there were.
 */
uint32_t leftovers_end(const char *mark, void (*told)(pid_t pid, const char *command));

#endif
