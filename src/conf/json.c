#include <string.h>

#include "base/buf.h"
#include "conf/bind.h"
#include "conf/text.h"

static const char *skip_digits(const char *at)
{
	while (*at >= '0' && *at <= '9')
		at++;
	return at;
}

/* JSON's own grammar, which is narrower than YAML's: no 0x1F, 1_000, .5 or +1. */
static bool is_json_number(const char *at)
{
	at += *at == '-';
	const char *digits = at;
	at = skip_digits(at);
	if (at == digits || (*digits == '0' && at - digits > 1))
		return false;
	if (*at == '.') {
		const char *fraction = at + 1;
		at = skip_digits(fraction);
		if (at == fraction)
			return false;
	}
	if (*at == 'e' || *at == 'E') {
		at++;
		at += *at == '+' || *at == '-';
		const char *exponent = at;
		at = skip_digits(exponent);
		if (at == exponent)
			return false;
	}
	return *at == '\0';
}

static void scalar(const struct node *node, struct buf *out)
{
	if (node_is_null(node))
		buf_append_str(out, STR("null"));
	else if (node->plain && (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0 ||
	                         is_json_number(node->text)))
		buf_append_str(out, str_from(node->text));
	else
		text_quote(str_from(node->text), out);
}

void bind_json(const struct node *node, struct buf *out)
{
	if (node->kind == NODE_SCALAR) {
		scalar(node, out);
		return;
	}
	bool map = node->kind == NODE_MAP;
	buf_append_char(out, map ? '{' : '[');
	NODE_EACH(child, node) {
		if (child != node->first)
			buf_append_str(out, STR(", "));
		if (map) {
			text_quote(str_from(child->key->text), out);
			buf_append_str(out, STR(": "));
		}
		bind_json(child, out); /* as deep as NODE_DEPTH_MAX */
	}
	buf_append_char(out, map ? '}' : ']');
}
