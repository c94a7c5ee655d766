#ifndef CONF_NUMBER_H
#define CONF_NUMBER_H

#include "conf/bind.h"

/*
 * number - values that are one number inside: bool, whole numbers, sizes,
 * durations, percentages, decimals, choices. False with a problem where the
 * node is none of the kind or out of its range.
 */
bool number_bind(struct binder *binder, const struct field *field, const struct node *node,
                 int64_t *out);

/* One of the field's choices; `out` may be NULL. */
bool number_choice(struct binder *binder, const struct field *field, const struct node *node,
                   const char *text, int64_t *out);

#endif
