#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *format, ...)
{
	if (!err)
		return code;

	va_list args;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	err->code = code;
	return code;
}

int err_wrap(struct err *err, const char *format, ...)
{
	if (!err)
		return -1;

	char inner[sizeof(err->text)];
	memcpy(inner, err->text, sizeof(inner));

	va_list args;
	va_start(args, format);
	int length = vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	if (length >= 0 && (size_t)length < sizeof(err->text))
		snprintf(err->text + length, sizeof(err->text) - (size_t)length, ": %s", inner);
	return err->code;
}
