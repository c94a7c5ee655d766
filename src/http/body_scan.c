/*
 * A push-down automaton: `depth` and one bit a level are its stack, `state` says
 * what may come next. The body is mostly the inside of strings, and that is
 * skipped eight bytes at a time; all else goes byte by byte through step().
 *
 * Only strings and numbers that the facts need are copied (`capturing`), into
 * `text`: keys of the top level, the model, numbers of tokens. What does not fit
 * is marked too_long, never cut silently.
 */
#include "http/body_scan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "http/json_text.h"

enum state {
	STATE_MARK,  /* the first byte: a byte order mark may begin */
	STATE_MARK_REST,
	STATE_START, /* the top level's '{' */
	STATE_VALUE,
	STATE_VALUE_OR_END, /* behind '[' */
	STATE_KEY,          /* behind ',' in an object */
	STATE_KEY_OR_END,   /* behind '{' */
	STATE_COLON,
	STATE_AFTER_VALUE, /* ',' or the container's end */
	STATE_STRING,
	STATE_ESCAPE,
	STATE_HEX,
	STATE_LOW_BACKSLASH, /* behind a high surrogate comes "\u" and a low one */
	STATE_LOW_U,
	STATE_MINUS,
	STATE_ZERO,
	STATE_INTEGER,
	STATE_POINT,
	STATE_FRACTION,
	STATE_EXPONENT,
	STATE_EXPONENT_SIGN,
	STATE_EXPONENT_DIGITS,
	STATE_LITERAL,
	STATE_DONE,
	STATE_BROKEN,
};

_Static_assert(BODY_KEY_COUNT <= 32, "each key has its bit in seen");

void body_scan_init(struct body_scan *scan)
{
	*scan = (struct body_scan){ .state = STATE_MARK };
	body_facts_init(&scan->facts);
}

static void fail(struct body_scan *scan, const char *fault)
{
	scan->state = STATE_BROKEN;
	scan->fault = fault;
}

static void fail_field(struct body_scan *scan, enum body_key key, const char *fault)
{
	scan->fault_key = key;
	fail(scan, fault);
}

static bool in_object(const struct body_scan *scan)
{
	uint32_t level = scan->depth - 1;
	return scan->objects[level / 64] >> (level % 64) & 1;
}

/* Are the keys of this level ours to read: the top, or its "options"? */
static bool level_is_read(const struct body_scan *scan)
{
	return scan->depth == 1 ||
	       (scan->depth == 2 && scan->outer_key == BODY_KEY_OPTIONS && in_object(scan));
}

/* Is this the object of one message: what tells whose it is? */
static bool is_message(const struct body_scan *scan)
{
	return scan->depth == 3 && in_object(scan) &&
	       (scan->outer_key == BODY_KEY_MESSAGES || scan->outer_key == BODY_KEY_INPUT);
}

/* Is a conversation known again by this value of the top level? */
static bool opens_conversation(enum body_key key)
{
	return (key >= BODY_KEY_MESSAGES && key <= BODY_KEY_SYSTEM) || key == BODY_KEY_INSTRUCTIONS;
}

/* --- ends of keys and values --- */

static void key_ended(struct body_scan *scan)
{
	struct str text = { scan->text, scan->length };

	scan->state = STATE_COLON;
	scan->key = BODY_KEY_OTHER;
	if (is_message(scan) && !scan->too_long && str_is(text, "role"))
		scan->key = BODY_KEY_ROLE;
	if (!level_is_read(scan))
		return;
	enum body_key key = scan->too_long ? BODY_KEY_OTHER : body_key_find(text, scan->depth == 2);
	if (key != BODY_KEY_OTHER && (scan->seen >> key & 1)) {
		fail_field(scan, key, "this key comes twice");
		return;
	}
	scan->seen |= 1u << key;
	scan->key = (uint8_t)key;
}

/* A value ended; `end` is the offset behind it. */
static void value_ended(struct body_scan *scan, uint64_t end)
{
	enum body_key key = (enum body_key)scan->key;

	scan->state = scan->depth == 0 ? STATE_DONE : STATE_AFTER_VALUE;
	scan->capturing = false;
	if (scan->depth > 1 && scan->outer_key == BODY_KEY_PROMPT)
		body_facts_prompt_item_ended(&scan->facts, scan->depth - 1, end);
	if (scan->depth == 0 || key == BODY_KEY_OTHER)
		return;
	struct str text = { scan->text, scan->length };
	scan->key = BODY_KEY_OTHER;
	if (key == BODY_KEY_ROLE)
		scan->opening.of_user = scan->kind == BODY_VALUE_STRING && !scan->too_long &&
		                        str_is(text, "user");
	if (!level_is_read(scan))
		return;
	if (opens_conversation(key))
		scan->facts.conversation ^= opening_value_end(&scan->opening);
	struct body_value value = {
		.kind = (enum body_value_kind)scan->kind,
		.text = text,
		.too_long = scan->too_long,
		.at = scan->value_at,
		.length = end - scan->value_at,
	};
	const char *fault = body_facts_note(&scan->facts, key, &value);
	if (fault)
		fail_field(scan, key, fault);
}

/* --- containers and the beginnings of values --- */

static void open_container(struct body_scan *scan, bool is_object)
{
	if (scan->depth == BODY_SCAN_DEPTH_MAX) {
		fail(scan, "nested too deep");
		return;
	}
	if (scan->depth == 1)
		scan->outer_key = scan->key;
	scan->key = BODY_KEY_OTHER;
	uint64_t bit = UINT64_C(1) << (scan->depth % 64);
	if (is_object)
		scan->objects[scan->depth / 64] |= bit;
	else
		scan->objects[scan->depth / 64] &= ~bit;
	scan->depth++;
	scan->state = is_object ? STATE_KEY_OR_END : STATE_VALUE_OR_END;
}

static void close_container(struct body_scan *scan)
{
	scan->depth--;
	scan->kind = BODY_VALUE_CONTAINER;
	if (scan->depth == 1) {
		scan->key = scan->outer_key;
		scan->outer_key = BODY_KEY_OTHER;
	} else if (scan->depth == 2) {
		opening_message(&scan->opening);
	}
	value_ended(scan, scan->offset + 1);
}

static void begin_text(struct body_scan *scan, bool capturing)
{
	scan->capturing = capturing;
	scan->length = 0;
	scan->too_long = false;
}

static void begin_string(struct body_scan *scan, bool is_key)
{
	bool is_wanted = is_key ? level_is_read(scan) || is_message(scan)
	                        : scan->key == BODY_KEY_MODEL || scan->key == BODY_KEY_KEEP_ALIVE ||
	                                  scan->key == BODY_KEY_ROLE || scan->key == BODY_KEY_SIZE;

	begin_text(scan, is_wanted);
	if (!is_key)
		opening_string(&scan->opening);
	scan->is_key = is_key;
	scan->kind = BODY_VALUE_STRING;
	scan->state = STATE_STRING;
}

static void begin_literal(struct body_scan *scan, enum body_value_kind kind, const char *rest)
{
	scan->kind = (uint8_t)kind;
	scan->literal = rest;
	scan->state = STATE_LITERAL;
}

static void capture(struct body_scan *scan, const char *bytes, size_t count)
{
	size_t limit = scan->is_key ? BODY_KEY_MAX : BODY_MODEL_MAX;

	if (!scan->is_key)
		opening_text(&scan->opening, bytes, count);
	if (!scan->capturing)
		return;
	if (count > limit - scan->length) {
		scan->too_long = true;
		return;
	}
	memcpy(scan->text + scan->length, bytes, count);
	scan->length += (uint32_t)count;
}

static void begin_number(struct body_scan *scan, char c)
{
	scan->kind = BODY_VALUE_NUMBER;
	scan->is_key = false;
	begin_text(scan, scan->key != BODY_KEY_OTHER);
	capture(scan, &c, 1);
	scan->state = c == '-' ? STATE_MINUS : c == '0' ? STATE_ZERO : STATE_INTEGER;
}

static void begin_value(struct body_scan *scan, char c)
{
	if (scan->depth == 1)
		scan->value_at = scan->offset;
	if (scan->depth == 1 && opens_conversation((enum body_key)scan->key))
		opening_value(&scan->opening, scan->key);
	if ((scan->depth == 1 ? scan->key : scan->outer_key) == BODY_KEY_PROMPT)
		body_facts_prompt_item(&scan->facts, scan->depth - 1, c, scan->offset);
	switch (c) {
	case '{':
		open_container(scan, true);
		return;
	case '[':
		open_container(scan, false);
		return;
	case '"':
		begin_string(scan, false);
		return;
	case 't':
		begin_literal(scan, BODY_VALUE_TRUE, "rue");
		return;
	case 'f':
		begin_literal(scan, BODY_VALUE_FALSE, "alse");
		return;
	case 'n':
		begin_literal(scan, BODY_VALUE_NULL, "ull");
		return;
	default:
		if (c == '-' || (c >= '0' && c <= '9'))
			begin_number(scan, c);
		else
			fail(scan, "expected a value");
	}
}

/* --- strings --- */

/*
 * A sequence that json_plain_run() did not take is wrong, or cut by the end of the
 * slice: then byte by byte. The first says how many follow and where the second
 * must lie.
 */
static void begin_utf8(struct body_scan *scan, unsigned char c)
{
	scan->utf8_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	scan->utf8_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	if (c >= 0xc2 && c <= 0xdf)
		scan->utf8_left = 1;
	else if (c >= 0xe0 && c <= 0xef)
		scan->utf8_left = 2;
	else if (c >= 0xf0 && c <= 0xf4)
		scan->utf8_left = 3;
	else
		fail(scan, "not UTF-8");
}

static void string_ended(struct body_scan *scan)
{
	if (scan->is_key)
		key_ended(scan);
	else
		value_ended(scan, scan->offset + 1);
}

static void step_string(struct body_scan *scan, char c)
{
	unsigned char byte = (unsigned char)c;

	if (scan->utf8_left > 0) {
		if (byte < scan->utf8_low || byte > scan->utf8_high) {
			fail(scan, "not UTF-8");
			return;
		}
		scan->utf8_left--;
		scan->utf8_low = 0x80;
		scan->utf8_high = 0xbf;
		capture(scan, &c, 1);
	} else if (c == '"') {
		string_ended(scan);
	} else if (c == '\\') {
		scan->state = STATE_ESCAPE;
	} else if (byte < 0x20) {
		fail(scan, "a control byte in a string");
	} else {
		begin_utf8(scan, byte);
		capture(scan, &c, 1);
	}
}

static void capture_code(struct body_scan *scan, uint32_t code)
{
	char out[4];
	size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = count; i-- > 1; code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(lead[count] | code);
	capture(scan, out, count);
}

static void code_ended(struct body_scan *scan)
{
	bool is_high = scan->code >= 0xd800 && scan->code <= 0xdbff;
	bool is_low = scan->code >= 0xdc00 && scan->code <= 0xdfff;

	if ((scan->high != 0) != is_low) {
		fail(scan, "half of a surrogate pair");
		return;
	}
	if (is_high) {
		scan->high = scan->code;
		scan->state = STATE_LOW_BACKSLASH;
		return;
	}
	if (is_low)
		scan->code = 0x10000 + ((scan->high - 0xd800) << 10) + (scan->code - 0xdc00);
	scan->high = 0;
	scan->state = STATE_STRING;
	capture_code(scan, scan->code);
}

static void begin_hex(struct body_scan *scan)
{
	scan->hex_left = 4;
	scan->code = 0;
	scan->state = STATE_HEX;
}

static void step_escape(struct body_scan *scan, char c)
{
	static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";

	if (c == 'u') {
		begin_hex(scan);
		return;
	}
	const char *name = c ? strchr(names, c) : NULL;
	if (!name) {
		fail(scan, "an unknown escape");
		return;
	}
	capture(scan, &bytes[name - names], 1);
	scan->state = STATE_STRING;
}

static void step_hex(struct body_scan *scan, char c)
{
	char lower = (char)(c | 0x20);
	uint32_t digit;

	if (c >= '0' && c <= '9')
		digit = (uint32_t)(c - '0');
	else if (lower >= 'a' && lower <= 'f')
		digit = (uint32_t)(lower - 'a' + 10);
	else {
		fail(scan, "expected four hex digits behind \\u");
		return;
	}
	scan->code = scan->code * 16 + digit;
	if (--scan->hex_left == 0)
		code_ended(scan);
}

/* --- numbers --- */

/* True where `c` belongs to the number; else it ended, or broke. */
static bool step_number(struct body_scan *scan, char c)
{
	bool is_digit = c >= '0' && c <= '9';
	bool is_exponent = c == 'e' || c == 'E';
	enum state state = (enum state)scan->state;

	if (is_digit && state == STATE_MINUS)
		scan->state = c == '0' ? STATE_ZERO : STATE_INTEGER;
	else if (is_digit && (state == STATE_POINT || state == STATE_FRACTION))
		scan->state = STATE_FRACTION;
	else if (is_digit && state >= STATE_EXPONENT && state <= STATE_EXPONENT_DIGITS)
		scan->state = STATE_EXPONENT_DIGITS;
	else if (is_digit && state == STATE_INTEGER)
		scan->state = STATE_INTEGER;
	else if (c == '.' && (state == STATE_ZERO || state == STATE_INTEGER))
		scan->state = STATE_POINT;
	else if (is_exponent &&
	         (state == STATE_ZERO || state == STATE_INTEGER || state == STATE_FRACTION))
		scan->state = STATE_EXPONENT;
	else if ((c == '+' || c == '-') && state == STATE_EXPONENT)
		scan->state = STATE_EXPONENT_SIGN;
	else {
		bool is_whole = state == STATE_ZERO || state == STATE_INTEGER ||
		                state == STATE_FRACTION || state == STATE_EXPONENT_DIGITS;
		if (is_whole)
			value_ended(scan, scan->offset);
		else
			fail(scan, "expected a digit");
		return false;
	}
	capture(scan, &c, 1);
	return true;
}

/* --- the automaton --- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void step_after_value(struct body_scan *scan, char c)
{
	bool is_object = in_object(scan);

	if (c == ',')
		scan->state = is_object ? STATE_KEY : STATE_VALUE;
	else if (c == (is_object ? '}' : ']'))
		close_container(scan);
	else
		fail(scan, is_object ? "expected ',' or '}'" : "expected ',' or ']'");
}

/* Some editors and shells put one before UTF-8. RFC 8259 lets a reader overlook it, and engines do. */
static bool step_mark(struct body_scan *scan, char c)
{
	static const char mark[] = "\xEF\xBB\xBF";

	if (c == mark[scan->offset]) {
		scan->state = mark[scan->offset + 1] ? STATE_MARK_REST : STATE_START;
		return true;
	}
	if (scan->state == STATE_MARK_REST)
		fail(scan, "expected an object");
	else
		scan->state = STATE_START;
	return false;
}

/* Between tokens: blanks may come, then one byte that begins or ends something. */
static void step_structure(struct body_scan *scan, char c)
{
	if (is_blank(c)) {
		if (c == '\n') {
			scan->line++;
			scan->line_at = scan->offset + 1;
		}
		return;
	}
	enum state state = (enum state)scan->state;
	if (state == STATE_AFTER_VALUE)
		step_after_value(scan, c);
	else if (state == STATE_VALUE)
		begin_value(scan, c);
	else if (state == STATE_VALUE_OR_END && c == ']')
		close_container(scan);
	else if (state == STATE_VALUE_OR_END)
		begin_value(scan, c);
	else if (state == STATE_KEY_OR_END && c == '}')
		close_container(scan);
	else if (state == STATE_KEY_OR_END || state == STATE_KEY) {
		if (c == '"')
			begin_string(scan, true);
		else
			fail(scan, state == STATE_KEY ? "expected a key" : "expected a key or '}'");
	} else if (state == STATE_COLON) {
		if (c == ':')
			scan->state = STATE_VALUE;
		else
			fail(scan, "expected ':'");
	} else if (state == STATE_START) {
		scan->facts.replies.object_at = scan->offset;
		if (c == '{')
			open_container(scan, true);
		else
			fail(scan, "expected an object");
	} else {
		assert(state == STATE_DONE);
		fail(scan, "something follows the object");
	}
}

/* True where `c` was taken; false where it has to be seen again, or broke the body. */
static bool step(struct body_scan *scan, char c)
{
	switch ((enum state)scan->state) {
	case STATE_STRING:
		step_string(scan, c);
		break;
	case STATE_ESCAPE:
		step_escape(scan, c);
		break;
	case STATE_HEX:
		step_hex(scan, c);
		break;
	case STATE_LOW_BACKSLASH:
	case STATE_LOW_U:
		if (c != (scan->state == STATE_LOW_U ? 'u' : '\\'))
			fail(scan, "half of a surrogate pair");
		else if (scan->state == STATE_LOW_U)
			begin_hex(scan);
		else
			scan->state = STATE_LOW_U;
		break;
	case STATE_LITERAL:
		if (c != *scan->literal)
			fail(scan, "expected true, false or null");
		else if (*++scan->literal == '\0')
			value_ended(scan, scan->offset + 1);
		break;
	case STATE_MINUS:
	case STATE_ZERO:
	case STATE_INTEGER:
	case STATE_POINT:
	case STATE_FRACTION:
	case STATE_EXPONENT:
	case STATE_EXPONENT_SIGN:
	case STATE_EXPONENT_DIGITS:
		return step_number(scan, c);
	case STATE_MARK:
	case STATE_MARK_REST:
		return step_mark(scan, c);
	case STATE_START:
	case STATE_VALUE:
	case STATE_VALUE_OR_END:
	case STATE_KEY:
	case STATE_KEY_OR_END:
	case STATE_COLON:
	case STATE_AFTER_VALUE:
	case STATE_DONE:
		step_structure(scan, c);
		break;
	case STATE_BROKEN:
		break;
	}
	return scan->state != STATE_BROKEN;
}

bool body_scan_feed(struct body_scan *scan, struct str bytes)
{
	size_t at = 0;

	while (at < bytes.length && scan->state != STATE_BROKEN) {
		if (scan->state == STATE_STRING && scan->utf8_left == 0) {
			size_t run = json_plain_run(bytes.data + at, bytes.length - at);
			capture(scan, bytes.data + at, run);
			at += run;
			scan->offset += run;
			if (at == bytes.length)
				break;
		}
		if (step(scan, bytes.data[at])) {
			at++;
			scan->offset++;
		}
	}
	return scan->state != STATE_BROKEN;
}

bool body_scan_end(struct body_scan *scan)
{
	if (scan->state <= STATE_START)
		fail(scan, "expected an object");
	else if (scan->state != STATE_DONE && scan->state != STATE_BROKEN)
		fail(scan, "the body ends too early");
	return scan->state == STATE_DONE;
}

const char *body_scan_fault_field(const struct body_scan *scan)
{
	return body_key_name(scan->fault_key);
}

const char *body_scan_explain(const struct body_scan *scan, char out[BODY_SCAN_TEXT])
{
	assert(scan->fault);
	snprintf(out, BODY_SCAN_TEXT, "%s at line %llu, column %llu (byte %llu)", scan->fault,
	         (unsigned long long)scan->line + 1,
	         (unsigned long long)(scan->offset - scan->line_at) + 1,
	         (unsigned long long)scan->offset);
	return out;
}
