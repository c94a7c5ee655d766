#ifndef PROBE_PAGE_CACHE_H
#define PROBE_PAGE_CACHE_H

#include <stdint.h>

/*
 * How many bytes of this part of a file lie in the page cache; a negative errno where that cannot be
 * told. By cachestat(2), which costs by what is cached; on kernels before 6.5 by mincore(2), which costs
 * by what is asked for. Neither makes anything resident. `length` > 0; what is beyond the end is not there.
 */
int64_t page_cache_bytes(int fd, int64_t offset, int64_t length);

#endif
