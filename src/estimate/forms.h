#ifndef ESTIMATE_FORMS_H
#define ESTIMATE_FORMS_H

#include "estimate/estimate.h"

/*
 * forms - model files that are no GGUF, each with the engine that reads it.
 *
 * A form is told from the first bytes, never from a file's name. Errors are as
 * estimate_gguf() says.
 */

enum model_form {
	FORM_GGUF,        /* and whatever is unknown: its reader says what is wrong */
	FORM_WHISPER,     /* whisper.cpp's own form */
	FORM_SAFETENSORS,
};

enum model_form form_of(const struct byte_source *source);

int estimate_whisper(const struct byte_source *source, const struct estimate_params *params, struct estimate *out,
                     struct err *err);

/*
 * An image model, file by file; free() it. What a picture takes on top is said
 * for the size that the family was made for (512 or 1024 a side).
 */
struct checkpoint *checkpoint_new(void);
int checkpoint_add(struct checkpoint *checkpoint, const struct byte_source *source, struct err *err);
void checkpoint_sum(const struct checkpoint *checkpoint, const struct estimate_params *params, struct estimate *out);

/* One with all its parts in one file. */
int estimate_checkpoint(const struct byte_source *source, const struct estimate_params *params, struct estimate *out,
                        struct err *err);

#endif
