#ifndef BASE_BANNED_H
#define BASE_BANNED_H

/*
 * banned - calls that invite the mistakes we do not want to make again.
 *
 * Forced into every translation unit by the build (-include), after the system
 * headers it names, so that a use fails to compile with the reason in its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Some C libraries have these two as macros, and poisoning a macro warns. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncat sprintf vsprintf gets strtok
#pragma GCC poison atoi atol atof gmtime localtime ctime asctime
#pragma GCC poison system popen tmpnam mktemp usleep rand srand

#endif
