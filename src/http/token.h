#ifndef HTTP_TOKEN_H
#define HTTP_TOKEN_H

#include <stdbool.h>
#include <string.h>

/* token - the bytes that names in HTTP are made of (RFC 9110, 5.6.2). */
static inline bool is_token_byte(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

#endif
