#include "api/value.h"

#include "base/buf.h"
#include "http/json_text.h"

json_t *json_name(const char *text)
{
	return text && *text ? json_lossy(str_from(text)) : json_null();
}

json_t *json_lossy(struct str text)
{
	json_t *value = json_stringn(text.length ? text.data : "", text.length);

	if (value)
		return value;
	struct buf quoted = BUF_INIT;
	json_append_string(&quoted, text);
	struct str string = buf_str(&quoted);
	value = json_loadb(string.data, string.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	buf_release(&quoted);
	return value ? value : json_string("");
}
