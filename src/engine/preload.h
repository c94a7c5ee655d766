#ifndef ENGINE_PRELOAD_H
#define ENGINE_PRELOAD_H

#include <stddef.h>

#include "base/err.h"

/*
 * preload - where libcotenant-lazy.so is, and which programs can take it at all.
 *
 * What is judged here can be read off the files. Whether it does its work in an
 * engine is proved by running that engine (lazy_check.h).
 */

/*
 * The library's path: $COTENANT_LAZY_LIBRARY, else beside our own program, else
 * where `make install` puts it. -ENOENT where there is none (or the variable is empty).
 */
int preload_find(char *out, size_t out_bytes, struct err *err);

/*
 * 0: a dynamic program for our C library, without set-user-id or capabilities, or
 * a script (what it starts is not known). -ENOTSUP with the reason; -ENOENT: not found.
 */
int preload_suits(const char *program, struct err *err);

#endif
