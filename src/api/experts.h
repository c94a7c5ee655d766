#ifndef API_EXPERTS_H
#define API_EXPERTS_H

#include <jansson.h>

#include "api/inside.h"

/*
 * experts - what a mixture of experts, of which a part is kept (`experts: {resident}`), has in memory now,
 * beside what was declared.
 */

/* For `ps` and `show`; null where all its experts are kept, or it has none. */
json_t *experts_json(const struct api *api, const struct model_view *model, uint32_t index);
/* The same as the end of a sentence; nothing where it is null or was not measured. */
void experts_text(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out);

#endif
