#include "probe/meminfo.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "probe/handles.h"
#include "probe/lines.h"
#include "probe/machine.h"
#include "probe/zones.h"

enum { KIB = 1024 };

static const struct counter {
	const char *name;
	size_t offset;
} counters[] = {
#define COUNTER(name, member)                                                                      \
	{                                                                                          \
		name, offsetof(struct meminfo, member)                                             \
	}
	COUNTER("MemTotal", total),
	COUNTER("MemFree", free),
	COUNTER("MemAvailable", available),
	COUNTER("Buffers", buffers),
	COUNTER("Cached", cached),
	COUNTER("FilePages", cached), /* a node's name for Cached + Buffers */
	COUNTER("SwapCached", swap_cached),
	COUNTER("Active(file)", active_file),
	COUNTER("Inactive(file)", inactive_file),
	COUNTER("Unevictable", unevictable),
	COUNTER("Mlocked", mlocked),
	COUNTER("AnonPages", anon),
	COUNTER("Shmem", shmem),
	COUNTER("KReclaimable", kreclaimable),
	COUNTER("SReclaimable", slab_reclaimable),
	COUNTER("SUnreclaim", slab_unreclaimable),
	COUNTER("PageTables", page_tables),
	COUNTER("SecPageTables", sec_page_tables),
	COUNTER("Percpu", percpu),
	COUNTER("VmallocUsed", vmalloc_used),
	COUNTER("Hugetlb", hugetlb),
	COUNTER("HugePages_Total", huge_pages),
	COUNTER("Hugepagesize", huge_size),
	COUNTER("Bounce", bounce),
	COUNTER("GPUActive", gpu_active),
	COUNTER("GPUReclaim", gpu_reclaim),
	COUNTER("SwapTotal", swap_total),
	COUNTER("SwapFree", swap_free),
	COUNTER("CmaFree", cma_free),
	COUNTER("NvMapMemUsed", nvmap_used),
#undef COUNTER
};

#define COUNTERS (sizeof counters / sizeof counters[0])

static int64_t *field_of(struct meminfo *m, const struct counter *counter)
{
	return (int64_t *)(void *)((char *)m + counter->offset);
}

static void take_line(struct meminfo *m, struct str line)
{
	struct str name;
	int64_t value;

	if (!lines_field(line, &name, &value))
		return;
	for (size_t i = 0; i < COUNTERS; i++)
		if (str_is(name, counters[i].name))
			*field_of(m, &counters[i]) =
			        counters[i].offset == offsetof(struct meminfo, huge_pages)
			                ? value
			                : value * KIB;
}

/* "Node 3 MemTotal: ..." is that of a node; what stands before the name goes. */
static struct str without_node(struct str line)
{
	struct str rest;

	if (!str_starts(line, "Node "))
		return line;
	str_cut(line, ' ', &rest);
	str_cut(rest, ' ', &rest);
	return rest.data ? str_trim(rest) : (struct str){ "", 0 };
}

static int read_file(struct handles *handles, const char *root, const char *name, struct meminfo *out)
{
	struct lines lines;
	struct str line;

	*out = MEMINFO_NONE;
	int rc = handles_lines(handles, &lines, root, name);
	if (rc < 0)
		return rc;
	while (lines_next(&lines, &line))
		take_line(out, without_node(line));
	lines_close(&lines);
	/* Kernels before 4.20 do not name the sum. */
	if (out->kreclaimable < out->slab_reclaimable)
		out->kreclaimable = out->slab_reclaimable;
	return out->total > 0 && out->free <= out->total ? 0 : -EBADMSG;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t meminfo_make_available(const struct meminfo *m, const struct zones *zones)
{
	int64_t lru = meminfo_lru_file(m), low = zones->low_bytes, slab = m->kreclaimable;

	if (zones->total_reserve_bytes == 0)
		return m->free;
	int64_t available = m->free - zones->total_reserve_bytes + lru - smaller(lru / 2, low) + slab - smaller(slab / 2, low);
	return available < 0 ? 0 : smaller(available, m->total);
}

static void make_available(const char *root, struct meminfo *m)
{
	struct zones zones;

	zones_read(NULL, root, ZONES_ALL_NODES, machine_page_bytes(root), &zones);
	m->available = meminfo_make_available(m, &zones);
	m->available_made = true;
}

int meminfo_read(struct handles *handles, const char *root, struct meminfo *out, struct err *err)
{
	int rc = read_file(handles, root, "/proc/meminfo", out);

	if (rc < 0 && rc != -EBADMSG)
		return err_set(err, rc, "%s/proc/meminfo: %s", root, strerror(-rc));
	if (out->total <= 0)
		return err_set(err, -EBADMSG, "%s/proc/meminfo: no MemTotal", root);
	if (rc == 0 && out->available < 0)
		make_available(root, out);
	if (rc < 0 || out->available > out->total)
		return err_set(err, -EBADMSG, "%s/proc/meminfo: more is free than there is", root);
	return 0;
}

int meminfo_read_node(const char *root, uint32_t node, struct meminfo *out)
{
	char name[80];

	snprintf(name, sizeof name, "/sys/devices/system/node/node%u/meminfo", node);
	return read_file(NULL, root, name, out);
}

int64_t meminfo_lru_file(const struct meminfo *m)
{
	return m->active_file + m->inactive_file;
}

void meminfo_add(struct meminfo *sum, const struct meminfo *part)
{
	struct meminfo from = *part;

	for (size_t i = 0; i < COUNTERS; i++) {
		int64_t *to = field_of(sum, &counters[i]);
		int64_t add = *field_of(&from, &counters[i]);
		if (strcmp(counters[i].name, "FilePages") == 0 || add < 0)
			continue;
		*to = *to < 0 ? add : *to + add;
	}
}
