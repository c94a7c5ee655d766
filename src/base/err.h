#ifndef BASE_ERR_H
#define BASE_ERR_H

/*
 * err - the text of a failure, on the caller's stack.
 *
 * Functions whose failure a person will read take a `struct err *` as their
 * last argument and return 0 or a negative errno. Leaf code fills the text and
 * never logs; the layer that decides what to do logs once. A text says what was
 * being done, to what, and what is wrong: "model file '/m/a.gguf': cut short".
 * `err` may be NULL where the caller needs the code alone.
 */
struct err {
	int code; /* negative errno */
	char text[512];
};

/* Fill `err` and return `code` (a negative errno), so that a caller can return it at once. */
int err_set(struct err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "format: " before the text that is there; the code stays and is returned. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
