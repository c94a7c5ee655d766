#ifndef HTTP_OPENING_H
#define HTTP_OPENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * opening - by what a conversation is known again.
 *
 * Each request of a conversation repeats all that was said before and adds to it, so what they have in
 * common is how it began: the system's text and the messages up to the first of the user. The hash of
 * these is the same for all of them, whatever the slices they came in, and nearly always another for
 * another conversation. Texts are taken as they read after their escapes, and of each only the
 * beginning: a picture in the first message is told apart by its first thousand bytes.
 *
 *   opening_value()    a value at the top level that belongs to it begins
 *   opening_string()     a string in it begins
 *   opening_text()       ... and goes on
 *   opening_message()    a message ended
 *   opening_value_end()
 */
enum { OPENING_TEXT_MAX = 1024, OPENING_BYTES_MAX = 16384 };

struct opening {
	uint64_t hash;      /* of the value being read */
	uint32_t of_string; /* bytes of this string that were taken */
	uint32_t taken;     /* bytes of this value */
	bool open;          /* a value is being read and its opening has not ended */
	bool of_user;       /* the message being read is the user's */
};

/* `salt` tells the values apart: system is not prompt. */
void opening_value(struct opening *opening, uint32_t salt);
void opening_string(struct opening *opening);
void opening_text(struct opening *opening, const char *bytes, size_t count);
void opening_message(struct opening *opening);
/* What the value adds to the conversation's hash by XOR, so that the order of the values does not count; 0 = nothing. */
uint64_t opening_value_end(struct opening *opening);

#endif
