/*
 * The delimiter begins with the only CR in it. So where a match breaks off, the
 * byte at hand is the one place where another can begin, and nothing is read
 * twice.
 */
#include "http/multipart.h"

#include <stdio.h>
#include <string.h>

#include "http/token.h"

enum state {
	IN_DELIMITER, /* before the first: its CRLF may be missing */
	BEHIND_DELIMITER,
	DASH,         /* of the closing one */
	LINE_END,     /* the LF behind a delimiter */
	HEAD_LINE,
	HEAD_LINE_END,
	BODY,
	BEHIND,       /* the closing delimiter */
};

enum field { FIELD_OTHER, FIELD_MODEL, FIELD_STREAM, FIELD_SIZE };

/* ---- Content-Type ---- */

/*
 * One "; name=value" from the front of `rest`; the value's quotes are taken off.
 * False: there is none, or it is not of that form.
 */
static bool take_parameter(struct str *rest, struct str *name, char *value, size_t value_bytes)
{
	size_t at = 0, length = 0;

	*rest = str_trim(*rest);
	*name = str_trim(str_cut(*rest, '=', rest));
	if (!rest->data || name->length == 0)
		return false;
	bool quoted = rest->length && rest->data[0] == '"';
	for (at = quoted; at < rest->length; at++) {
		char c = rest->data[at];
		if (quoted ? c == '"' : c == ';' || c == ' ' || c == '\t')
			break;
		if (quoted && c == '\\' && at + 1 < rest->length)
			c = rest->data[++at];
		if (length + 1 >= value_bytes)
			return false;
		value[length++] = c;
	}
	value[length] = '\0';
	if (quoted && at++ >= rest->length)
		return false;
	*rest = str_trim((struct str){ rest->data + at, rest->length - at });
	if (rest->length && rest->data[0] != ';')
		return false;
	if (rest->length)
		*rest = (struct str){ rest->data + 1, rest->length - 1 };
	return memchr(value, '\0', length) == NULL;
}

static bool is_boundary(const char *text)
{
	size_t length = strlen(text);

	if (length == 0 || text[length - 1] == ' ')
		return false;
	for (; *text; text++)
		if (!is_token_byte(*text) && !strchr("()+_,-./:=? ", *text))
			return false;
	return true;
}

bool multipart_boundary(struct str content_type, char out[MULTIPART_BOUNDARY_MAX + 1])
{
	struct str rest, name;
	struct str type = str_trim(str_cut(content_type, ';', &rest));
	char value[MULTIPART_BOUNDARY_MAX + 1];
	bool found = false;

	out[0] = '\0';
	if (!str_equal_nocase(type, STR("multipart/form-data")))
		return false;
	while (rest.data && str_trim(rest).length) {
		if (!take_parameter(&rest, &name, value, sizeof(value)))
			break;
		if (!str_equal_nocase(name, STR("boundary")))
			continue;
		if (found || !is_boundary(value)) {
			out[0] = '\0';
			return true;
		}
		found = true;
		str_copy(out, MULTIPART_BOUNDARY_MAX + 1, str_from(value));
	}
	return true;
}

/* ---- one part ---- */

void multipart_init(struct multipart *form, const char *boundary)
{
	memset(form, 0, offsetof(struct multipart, text));
	body_facts_init(&form->facts);
	int length = snprintf(form->delimiter, sizeof(form->delimiter), "\r\n--%s", boundary);
	form->delimiter_length = (uint32_t)length;
	form->state = IN_DELIMITER;
	if (!*boundary)
		form->fault = "its Content-Type names no boundary, or a bad one";
}

static bool wrong(struct multipart *form, const char *fault)
{
	form->fault = fault;
	return false;
}

static enum field field_of(const char *name)
{
	if (strcmp(name, "model") == 0)
		return FIELD_MODEL;
	if (strcmp(name, "size") == 0)
		return FIELD_SIZE;
	return strcmp(name, "stream") == 0 ? FIELD_STREAM : FIELD_OTHER;
}

static bool take_disposition(struct multipart *form, struct str value)
{
	struct str rest, name;
	struct str kind = str_trim(str_cut(value, ';', &rest));
	char text[BODY_MODEL_MAX + 1];
	bool has_name = false;

	if (form->named)
		return wrong(form, "a part has two Content-Dispositions");
	form->named = true;
	if (!str_equal_nocase(kind, STR("form-data")))
		return wrong(form, "a part is no form-data");
	while (rest.data && str_trim(rest).length) {
		if (!take_parameter(&rest, &name, text, sizeof(text))) {
			/* A file's name may be longer than what matters here; the part's own may not. */
			if (name.data && str_starts(name, "filename"))
				form->is_file = true;
			else
				return wrong(form, "a part's Content-Disposition cannot be read");
			return has_name || wrong(form, "a part's name stands behind one that is too long");
		}
		if (str_equal_nocase(name, STR("filename")) || str_equal_nocase(name, STR("filename*"))) {
			form->is_file = true;
		} else if (str_equal_nocase(name, STR("name"))) {
			if (has_name)
				return wrong(form, "a part has two names");
			has_name = true;
			form->field = field_of(text);
		}
	}
	return true;
}

static bool take_head_line(struct multipart *form)
{
	struct str value;
	struct str line = { form->text, form->length };
	struct str name = str_cut(line, ':', &value);

	if (!value.data || name.length == 0)
		return wrong(form, "a line of a part's head is no field");
	for (size_t i = 0; i < name.length; i++)
		if (!is_token_byte(name.data[i]))
			return wrong(form, "a line of a part's head is no field");
	if (str_equal_nocase(name, STR("Content-Disposition")))
		return take_disposition(form, value);
	return true;
}

static void begin_part(struct multipart *form)
{
	form->field = FIELD_OTHER;
	form->named = form->is_file = form->too_long = false;
	form->head_bytes = form->length = 0;
	form->state = HEAD_LINE;
}

static bool begin_body(struct multipart *form)
{
	unsigned bit = 1u << form->field;

	form->state = BODY;
	form->length = 0;
	form->matched = form->borrowed = 2; /* the blank line's CRLF: some would take it for the delimiter's */
	if (form->is_file)
		form->field = FIELD_OTHER;
	if (form->field == FIELD_OTHER)
		return true;
	if (form->seen & bit)
		return wrong(form, "a field comes twice");
	form->seen |= (uint8_t)bit;
	return true;
}

/* The delimiter was seen: what came before it is the part's value. */
static bool end_body(struct multipart *form)
{
	struct body_value value = { .kind = BODY_VALUE_STRING,
		                    .text = { form->text, form->length },
		                    .too_long = form->too_long };
	const char *fault = NULL;

	if (form->field == FIELD_MODEL) {
		fault = body_facts_note(&form->facts, BODY_KEY_MODEL, &value);
	} else if (form->field == FIELD_SIZE) {
		fault = body_facts_note(&form->facts, BODY_KEY_SIZE, &value);
	} else if (form->field == FIELD_STREAM) {
		bool yes = str_equal_nocase(value.text, STR("true")) || str_is(value.text, "1");
		value.kind = yes ? BODY_VALUE_TRUE : BODY_VALUE_FALSE;
		fault = body_facts_note(&form->facts, BODY_KEY_STREAM, &value);
	}
	form->field = FIELD_OTHER;
	form->length = 0;
	return !fault || wrong(form, fault);
}

/* ---- bytes ---- */

static void keep(struct multipart *form, const char *bytes, size_t count)
{
	if (form->field == FIELD_OTHER || form->too_long)
		return;
	if (form->length + count > BODY_MODEL_MAX) {
		form->too_long = true;
		return;
	}
	memcpy(form->text + form->length, bytes, count);
	form->length += (uint32_t)count;
}

static bool feed_body(struct multipart *form, struct str *in)
{
	while (in->length) {
		if (form->matched == 0) {
			const char *cr = memchr(in->data, '\r', in->length);
			size_t plain = cr ? (size_t)(cr - in->data) : in->length;
			keep(form, in->data, plain);
			in->data += plain;
			in->length -= plain;
			if (!cr)
				return true;
		}
		if (in->data[0] != form->delimiter[form->matched]) {
			keep(form, form->delimiter + form->borrowed, form->matched - form->borrowed);
			form->matched = form->borrowed = 0;
			continue;
		}
		in->data++;
		in->length--;
		if (++form->matched == form->delimiter_length) {
			if (form->borrowed)
				return wrong(form, "a boundary stands where a value begins");
			form->matched = 0;
			form->state = BEHIND_DELIMITER;
			return end_body(form);
		}
	}
	return true;
}

static bool feed_head_byte(struct multipart *form, char c)
{
	if (++form->head_bytes > MULTIPART_HEAD_MAX)
		return wrong(form, "a part's head is too long");
	if (form->state == HEAD_LINE) {
		if (c == '\r') {
			form->state = HEAD_LINE_END;
			return true;
		}
		if (c == '\n' || c == '\0')
			return wrong(form, "a line of a part's head does not end with CRLF");
		if (form->length == MULTIPART_LINE_MAX)
			return wrong(form, "a line of a part's head is too long");
		form->text[form->length++] = c;
		return true;
	}
	if (c != '\n')
		return wrong(form, "a line of a part's head does not end with CRLF");
	if (form->length == 0)
		return begin_body(form);
	if (!take_head_line(form))
		return false;
	form->length = 0;
	form->state = HEAD_LINE;
	return true;
}

static bool feed_byte(struct multipart *form, char c)
{
	switch ((enum state)form->state) {
	case IN_DELIMITER:
		if (form->matched == 0 && c == '-')
			form->matched = 2;
		if (c != form->delimiter[form->matched])
			return wrong(form, "it does not begin with its boundary");
		if (++form->matched == form->delimiter_length)
			form->state = BEHIND_DELIMITER;
		return true;
	case BEHIND_DELIMITER:
		if (c != '\r' && c != '-')
			return wrong(form, "something stands behind a boundary");
		form->state = c == '-' ? DASH : LINE_END;
		if (c == '\r' && ++form->parts > MULTIPART_PARTS_MAX)
			return wrong(form, "too many parts");
		return true;
	case DASH:
		form->state = BEHIND;
		return c == '-' || wrong(form, "something stands behind a boundary");
	case LINE_END:
		begin_part(form);
		return c == '\n' || wrong(form, "something stands behind a boundary");
	case HEAD_LINE:
	case HEAD_LINE_END:
		return feed_head_byte(form, c);
	case BODY:
	case BEHIND:
		break;
	}
	return true;
}

bool multipart_feed(struct multipart *form, struct str bytes)
{
	const char *begin = bytes.data;

	while (!form->fault && bytes.length && form->state != BEHIND) {
		if (form->state == BODY) {
			feed_body(form, &bytes);
			continue;
		}
		feed_byte(form, bytes.data[0]);
		bytes.data++;
		bytes.length--;
	}
	if (!form->fault && form->state == BEHIND)
		bytes = (struct str){ bytes.data + bytes.length, 0 };
	form->offset += (uint64_t)(bytes.data - begin);
	return !form->fault;
}

bool multipart_end(struct multipart *form)
{
	if (!form->fault && form->state != BEHIND)
		form->fault = "it ends before its closing boundary";
	return !form->fault;
}

const char *multipart_explain(const struct multipart *form, char out[MULTIPART_TEXT])
{
	snprintf(out, MULTIPART_TEXT, "%s (byte %llu)", form->fault, (unsigned long long)form->offset);
	return out;
}
