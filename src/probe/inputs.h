#ifndef PROBE_INPUTS_H
#define PROBE_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * inputs - what a reading of the machine stood on, and what of it was no use.
 *
 * Whoever reads a file notes here how that went, and what it means for the
 * answer; who shows the answer tells it by name. Nothing that could not be read
 * is filled with a guess in silence.
 *
 * Missing is an ordinary thing where a kernel or a platform has no such file;
 * only of an input that is `needed` it makes the answer worse. What is there and
 * cannot be used always does.
 */
enum input_state {
	INPUT_OK,
	INPUT_MISSING,    /* there is no such file */
	INPUT_UNREADABLE, /* it cannot be opened or read, or holds nothing */
	INPUT_NONSENSE,   /* it was read, and nothing in it is what stands there on a machine */
	INPUT_BLOCKED,    /* it was asked, and gives no answer */
};

enum { INPUTS_MAX = 48, INPUT_NAME_BYTES = 112 };

struct input {
	char name[INPUT_NAME_BYTES]; /* of a long path the end */
	enum input_state state;
	bool needed;
	const char *effect; /* what follows where it is no use, as half a sentence */
};

struct inputs {
	struct input list[INPUTS_MAX];
	uint32_t count;
};

/* Of one name the worst state stays. `inputs` may be NULL: nobody wants to know. */
void inputs_note(struct inputs *inputs, const char *name, enum input_state state, bool needed, const char *effect);

/* All of `from`. */
void inputs_add(struct inputs *inputs, const struct inputs *from);

/*
 * Is there news of this one: is it no use any more, or again of use? `told` keeps what was told of all, zeroed at first;
 * of what never was degraded there is nothing to tell.
 */
bool inputs_have_news(struct inputs *told, const struct input *input);

bool input_is_degraded(const struct input *input);
uint32_t inputs_degraded(const struct inputs *inputs);

/* "ok", "missing", "unreadable", "nonsense", "blocked" */
const char *input_state_name(enum input_state state);

/* "/proc/zoneinfo is missing: EFFECT" */
void input_describe(const struct input *input, char *out, size_t out_bytes);

/* Of what lines_open() or lines_read_all() returned, the bytes that were read, and whether anything made sense. */
enum input_state input_state_of(int code, size_t bytes, bool made_sense);

/* What follows where a file that several readers look at is no use. */
#define INPUTS_WITHOUT_AVAILABLE "MemAvailable is not in it: it is made of its parts, as the kernel makes it"
#define INPUTS_WITHOUT_ZONES "what the kernel keeps for itself is not known, and counts as nothing in U_bot and the reserve"
#define INPUTS_WITHOUT_VMSTAT "refaults, stalls and OOM kills are not seen, and compressed swap counts as nothing in U_bot"

/*
 * A file that holds one number, decimal or with 0x, and nothing else. `none` is the word that stands there where
 * there is no number (then INT64_MAX), or NULL. Only with INPUT_OK is `*value` set.
 */
enum input_state input_number(const char *root, const char *name, const char *none, int64_t *value);

#endif
