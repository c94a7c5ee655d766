/* The probe on recorded machines: every number is known. And on the same machines damaged. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "base/rng.h"
#include "probe/cgroup.h"
#include "probe/recording.h"
#include "probe/sample.h"
#include "probe/vllm.h"
#include "probe/seen.h"

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

static const char *tree(const char *name)
{
	static char path[512];
	const char *folder = getenv("COTENANT_TEST_TREES");
	snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/trees", name);
	return path;
}

static struct sample asked_of_hybrid(void)
{
	return (struct sample){ .owners = 3, .owner = {
		{ .pgid = 101, .files = { "/models/chat.gguf" }, .cgroup = "engine-1" },
		{ .pgid = 201, .files = { "/models/chat.gguf", "/models/other.gguf" } },
		{ .pgid = 999 } } };
}

static void owners_of_a_hybrid_machine(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = asked_of_hybrid();
	assert_int_equal(sample_read(tree("hybrid"), &sample, &err), 0);
	/* The group, one with brackets in its name, and one that left it but is in the cgroup; no zombie. */
	struct sample_owner *first = &sample.owner[0];
	assert_int_equal(first->processes, 3);
	assert_true(first->complete);
	assert_int_equal(first->anon_bytes, (512 + 100 + 50) * MIB + MIB + 256 * KIB);
	assert_int_equal(first->file_bytes, (3 * 1024 + 8 + 8) * MIB);
	struct sample_owner *second = &sample.owner[1];
	assert_int_equal(second->processes, 1);
	assert_int_equal(second->anon_bytes, GIB);
	assert_int_equal(sample.owner[2].processes, 0);
	/*
	 * chat.gguf once: as resident as where it is most so. other.gguf is a third
	 * of what the second maps, which has 2 GiB of 3 resident.
	 */
	assert_int_equal(sample.hot_file_bytes, 3 * GIB + 2 * GIB / 3);
	assert_int_equal(first->hot_file_bytes + second->hot_file_bytes, sample.hot_file_bytes);
	assert_int_equal(first->own_bytes, first->anon_bytes + first->hot_file_bytes);
	assert_int_equal(first->mapped_bytes, first->hot_file_bytes); /* all of it counts */
	int64_t pcp = 3 * 7 * 4 * KIB; /* free, on lists of processors */
	assert_int_equal(sample.unreclaimable_bytes, 24 * GIB - 20 * GIB - pcp + 3 * GIB + 2 * GIB / 3);
}

/* Of experts that are mapped a part counts; what lies in memory is told all the same. */
static void what_is_mapped_is_told_beyond_what_counts(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = asked_of_hybrid();
	sample.owners = 1;
	sample.owner[0].hot_most_bytes = 64 * MIB;
	assert_int_equal(sample_read(tree("hybrid"), &sample, &err), 0);
	assert_int_equal(sample.owner[0].hot_file_bytes, 64 * MIB);
	assert_int_equal(sample.owner[0].mapped_bytes, 3 * GIB);
}

static void the_whole_of_a_hybrid_machine(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = (struct sample){ 0 };
	assert_int_equal(sample_read(tree("hybrid"), &sample, &err), 0);
	assert_int_equal(sample.total_bytes, 24 * GIB);
	assert_int_equal(sample.free_bytes, 8 * GIB);
	assert_int_equal(sample.high_watermark_bytes, (16 + 3380 + 24600) * 4 * KIB);
	assert_int_equal(sample.psi_some_avg10_centi, 125);
	assert_int_equal(sample.psi_full_avg10_centi, 7);
	assert_int_equal(sample.oom_kills, 3);
	/* Of /jobs (10 of which 7 used) and /jobs/one (8 of which 2) the first leaves less. */
	assert_int_equal(sample.cgroup_limit_bytes, 10 * GIB);
	assert_int_equal(sample.cgroup_used_bytes, 7 * GIB);
	assert_int_equal(sample_default_reserve(&sample), 2 * GIB);
}

static void limits_of_cgroup2_and_large_pages(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = (struct sample){ 0 };
	assert_int_equal(sample_read(tree("cgroup2"), &sample, &err), 0);
	assert_int_equal(sample.cgroup_limit_bytes, 20 * GIB); /* the slice's max, not the service's high */
	assert_int_equal(sample.cgroup_used_bytes, 17 * GIB);
	assert_int_equal(sample.high_watermark_bytes, 1500 * 16 * KIB);
	assert_int_equal(sample.swap_total_bytes - sample.swap_free_bytes, 2 * GIB);
	assert_int_equal(sample.psi_some_avg10_centi, -1);
	assert_int_equal(sample.cgroup_some_avg10_centi, 1225); /* the slice's, of its own */
	assert_int_equal(sample.cgroup_full_avg10_centi, 310);
	assert_int_equal(sample.unreclaimable_bytes, 24 * GIB - 7 * 16 * KIB);
}

static void a_container_whose_path_is_elsewhere(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = (struct sample){ 0 };
	assert_int_equal(sample_read(tree("container"), &sample, &err), 0);
	assert_int_equal(sample.cgroup_limit_bytes, 100 * MIB);
	assert_int_equal(sample.cgroup_used_bytes, 0); /* all of it is inactive file */
}

static void a_machine_without_files_is_an_error(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	sample = (struct sample){ 0 };
	assert_int_equal(sample_read(tree("none"), &sample, &err), -ENOENT);
	assert_non_null(strstr(err.text, "meminfo"));
}

static void read_hybrid(struct sample *sample)
{
	struct err err = { 0 };

	assert_int_equal(sample_read(tree("hybrid"), sample, &err), 0);
}

/* At an engine's end too: whose release is awaited comes first then, and the others are fewer. */
static void a_quick_look_finds_the_same(void **state)
{
	static struct sample sample, first;

	(void)state;
	sample = asked_of_hybrid();
	sample.owners = 2;
	sample.owner[0].cgroup = NULL;
	sample.quick = true; /* nothing was seen yet: all are looked at */
	sample.seen = seen_new();
	read_hybrid(&sample);
	sample_copy(&first, &sample);
	assert_true(seen_last(sample.seen)->count > 0 && seen_last(sample.seen)->whole);
	read_hybrid(&sample);
	for (uint32_t i = 0; i < sample.owners; i++) {
		assert_int_equal(sample.owner[i].own_bytes, first.owner[i].own_bytes);
		assert_int_equal(sample.owner[i].hot_file_bytes, first.owner[i].hot_file_bytes);
		assert_int_equal(sample.owner[i].processes, first.owner[i].processes);
	}
	assert_int_equal(sample.cgroup_limit_bytes, first.cgroup_limit_bytes);
	assert_int_equal(sample.cgroup_used_bytes, first.cgroup_used_bytes);
	sample.owner[0] = (struct sample_owner){ 0 };
	read_hybrid(&sample);
	assert_int_equal(sample.owner[0].processes, 0);
	assert_int_equal(sample.owner[1].processes, 1);
	seen_last(sample.seen)->count = 0; /* it does look there alone */
	read_hybrid(&sample);
	assert_int_equal(sample.owner[1].processes, 0);
	seen_free(sample.seen);
}

static void one_who_was_not_looked_for_is_looked_for_among_all(void **state)
{
	static struct sample sample;

	(void)state;
	sample = asked_of_hybrid();
	sample.owners = 2;
	sample.owner[0].cgroup = NULL;
	sample.quick = true;
	sample.seen = seen_new();
	read_hybrid(&sample);
	seen_last(sample.seen)->count = 0;
	sample.owner[0].cgroup = "engine-1"; /* who came into it since is not known */
	read_hybrid(&sample);
	assert_int_equal(sample.owner[0].processes, 3);
	sample.owner[0].cgroup = NULL;
	seen_last(sample.seen)->count = sample.seen->owners = 0;
	read_hybrid(&sample);
	assert_int_equal(sample.owner[1].processes, 1);
	/* One of whom nobody was found may have come since. */
	sample.owner[0].pgid = 999;
	read_hybrid(&sample);
	assert_false(sample.seen->owner[0].found);
	assert_true(sample.seen->owner[1].found);
	assert_int_equal(sample.seen->owner[1].pgid, 201);
	seen_free(sample.seen);
}

/* A client on two descriptors counts once; what lies in the carve-out and what in the RAM stand apart. */
static void bytes_of_the_gpu_belong_to_their_owner(void **state)
{
	static struct topology topology;
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(topology_find(tree("strix-halo-busy"), &topology, &err), 0);
	assert_int_equal(topology.kind, TOPOLOGY_AMD_GTT);
	sample = (struct sample){ .topology = &topology, .owners = 1, .owner = { { .pgid = 800 } } };
	assert_int_equal(sample_read(tree("strix-halo-busy"), &sample, &err), 0);
	assert_int_equal(sample.owner[0].gpu_bytes[0], 51 * GIB);
	assert_int_equal(sample.owner[0].gpu_bytes[1], 100 * MIB);
	assert_true(sample.owner[0].complete);
	/* Without a topology nobody looks at descriptors. */
	sample.topology = NULL;
	assert_int_equal(sample_read(tree("strix-halo-busy"), &sample, &err), 0);
	assert_int_equal(sample.owner[0].gpu_bytes[0], 0);
}

/* What stands in no counter while it is quiet is no drift. */
static void the_usual_is_no_drift(void **state)
{
	static struct topology topology;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(topology_find(tree("strix-halo-leak"), &topology, &err), 0);
	int64_t missing = topology.unaccounted_bytes, drift = topology.drift_bytes, bottom = topology.u_bot_bytes;
	int64_t assumed = topology.mem.total / 100 < missing ? topology.mem.total / 100 : missing;
	assert_true(missing > 0);
	topology.usual_unaccounted_bytes = missing + GIB; /* never more than there is */
	assert_int_equal(topology_read(tree("strix-halo-leak"), &topology, &err), 0);
	assert_int_equal(topology.drift_bytes, drift - (missing - assumed));
	assert_int_equal(topology.u_bot_bytes, bottom + (missing - assumed));
}

static void a_unified_device_is_told_by_nvml(void **state)
{
	static struct topology topology;
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(topology_find(tree("gb10-loaded"), &topology, &err), 0);
	sample = (struct sample){ .topology = &topology, .owners = 1, .owner = { { .pgid = 501 } } };
	assert_int_equal(sample_read(tree("gb10-loaded"), &sample, &err), 0);
	assert_int_equal(sample.owner[0].gpu_bytes[0], topology.calls.nvml[0].process[0].used_bytes);
	assert_true(sample.owner[0].gpu_bytes[0] > 37 * GIB);
}

static bool warns(const struct topology *t, const char *code)
{
	for (uint32_t i = 0; i < t->warnings; i++)
		if (strcmp(t->warning[i].code, code) == 0)
			return true;
	return false;
}

/* More free than there is, a process with more than the card has: said, and believed by nobody. */
static void a_lying_nvml_is_not_believed(void **state)
{
	static struct topology topology;
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(topology_find(tree("a10g"), &topology, &err), 0);
	struct calls_nvml *gpu = &topology.calls.nvml[0];
	const struct pool *pool = &topology.pool[topology.device[0].pool];
	assert_false(warns(&topology, "vendor_value"));
	gpu->free_bytes = 3 * gpu->total_bytes;
	gpu->process[0] = (struct calls_process){ 77, INT64_C(1) << 49 };
	gpu->processes = 1;
	assert_int_equal(topology_read(tree("a10g"), &topology, &err), 0);
	assert_true(warns(&topology, "vendor_value"));
	assert_int_equal(pool->unreclaimable_bytes, pool->size_bytes);
	assert_int_equal(topology_free(&topology, topology.device[0].pool), 0);
	assert_true(topology.device[0].cuda_bytes <= 0);
	/* What it tells of a process is at most the card's. */
	assert_int_equal(topology_find(tree("gb10-loaded"), &topology, &err), 0);
	topology.calls.nvml[0].process[0].used_bytes = INT64_C(1) << 49;
	sample = (struct sample){ .topology = &topology, .owners = 1, .owner = { { .pgid = 501 } } };
	assert_int_equal(sample_read(tree("gb10-loaded"), &sample, &err), 0);
	assert_int_equal(sample.owner[0].gpu_bytes[0], topology.pool[0].size_bytes);
}

static void reserves_follow_the_size(void **state)
{
	struct sample sample = { .total_bytes = 8 * GIB };

	(void)state;
	assert_int_equal(sample_default_reserve(&sample), GIB); /* an eighth of a small one */
	sample.total_bytes = 200 * GIB;
	assert_int_equal(sample_default_reserve(&sample), sample.total_bytes / 100 * 3);
	sample.high_watermark_bytes = 5 * GIB;
	assert_int_equal(sample_default_reserve(&sample), 10 * GIB);
}

/* Copy a tree, each file cut or with bytes changed as the seed has it. */
static void copy_damaged(const char *from, const char *to, struct rng *rng)
{
	char source[1024], target[1024], bytes[16384];
	struct dirent *entry;
	DIR *folder = opendir(from);

	assert_non_null(folder);
	mkdir(to, 0700);
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
		snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
		int fd = open(source, O_RDONLY | O_CLOEXEC);
		ssize_t length = read(fd, bytes, sizeof bytes);
		close(fd);
		if (length < 0) {
			copy_damaged(source, target, rng);
			continue;
		}
		if (rng_below(rng, 8) == 0)
			continue;
		if (rng_below(rng, 4) == 0)
			length = (ssize_t)rng_below(rng, (uint64_t)length + 1);
		static const char odd[] = "\0\n 9-:,)/\xff";
		for (uint64_t n = rng_below(rng, 6); n > 0 && length > 0; n--)
			bytes[rng_below(rng, (uint64_t)length)] = odd[rng_below(rng, sizeof odd - 1)];
		fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, bytes, (size_t)length), length);
		close(fd);
	}
	closedir(folder);
}

static void remove_tree(const char *path)
{
	char inside[1024];
	struct dirent *entry;
	DIR *folder = opendir(path);

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
		if (unlink(inside) < 0)
			remove_tree(inside);
	}
	closedir(folder);
	rmdir(path);
}

static void damaged_machines_do_no_harm(void **state)
{
	static const char *const names[] = { "hybrid", "cgroup2", "container" };
	static struct sample sample;
	char path[] = "/tmp/test-trees-XXXXXX", copy[64];
	int answered = 0;

	(void)state;
	assert_non_null(mkdtemp(path));
	snprintf(copy, sizeof copy, "%s/tree", path);
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct rng rng = { seed };
		struct err err = { 0 };
		copy_damaged(tree(names[seed % 3]), copy, &rng);
		sample = asked_of_hybrid();
		int rc = sample_read(copy, &sample, &err);
		assert_true(rc == 0 || err.text[0]);
		if (rc == 0) {
			answered++;
			assert_true(sample.available_bytes <= sample.total_bytes);
			assert_true(sample.unreclaimable_bytes >= 0 && sample.cgroup_used_bytes >= 0);
			for (uint32_t i = 0; i < sample.owners; i++)
				assert_true(sample.owner[i].own_bytes >= 0);
		}
		remove_tree(copy);
	}
	assert_in_range(answered, 12, 59); /* some could be read, some not: both ways were taken */
	rmdir(path);
}

/* ---- recordings ---- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

/* A recorded machine, recorded: what it says is the same, groups and their versions included. */
static void same_when_recorded(const char *name)
{
	char folder[] = "/tmp/test-recording-XXXXXX";
	struct topology *before = calloc(1, sizeof *before), *after = calloc(1, sizeof *after);
	struct cgroup_mounts *mounts = calloc(2, sizeof *mounts);
	struct err err = { 0 };

	assert_non_null(mkdtemp(folder));
	assert_int_equal(topology_find(tree(name), before, &err), 0);
	assert_int_equal(recording_save(tree(name), folder, before, &err), 0);
	assert_int_equal(topology_find(folder, after, &err), 0);
	assert_int_equal(after->cgroup_limit_bytes, before->cgroup_limit_bytes);
	assert_int_equal(after->cgroup_used_bytes, before->cgroup_used_bytes);
	assert_int_equal(after->allocatable_bytes, before->allocatable_bytes);
	assert_int_equal(after->allocatable_cpu_bytes, before->allocatable_cpu_bytes);
	assert_int_equal(after->kind, before->kind);
	assert_int_equal(inputs_degraded(&after->inputs), inputs_degraded(&before->inputs));
	cgroup_find_mounts(tree(name), &mounts[0]);
	cgroup_find_mounts(folder, &mounts[1]);
	assert_int_equal(mounts[0].v2[0] != 0, mounts[1].v2[0] != 0);
	assert_int_equal(mounts[0].v1_memory[0] != 0, mounts[1].v1_memory[0] != 0);
	free(mounts);
	free(before);
	free(after);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void recordings_say_the_same(void **state)
{
	static const char *const names[] = { "hybrid", "cgroup2", "container", "strix-halo-container", "strix-halo-gtt", "gb10",
		                             "gh200" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		same_when_recorded(names[i]);
}

static void put_words(const char *root, const char *text, size_t length)
{
	char path[256];

	snprintf(path, sizeof path, "%s/proc", root);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/proc/77", root);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/proc/77/cmdline", root);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
}

static void a_vllm_says_what_it_takes(void **state)
{
	static const char with[] = "python3\0-m\0vllm.entrypoints.openai.api_server\0--gpu-memory-utilization\0000.92\0--port\0001";
	static const char joined[] = "/usr/bin/vllm\0serve\0--gpu-memory-utilization=0.7\0";
	static const char cache[] = "vllm\0serve\0secret-model\0--kv-cache-memory-bytes\0004G\0";
	static const char other[] = "llama-server\0--gpu-memory-utilization\0000.92\0";
	char folder[] = "/tmp/test-vllm-XXXXXX";
	struct vllm vllm;

	(void)state;
	assert_non_null(mkdtemp(folder));
	put_words(folder, with, sizeof with);
	assert_true(vllm_read(folder, 77, &vllm) && vllm.given && !vllm.cache_given);
	assert_int_equal(vllm.permille, 920);
	put_words(folder, joined, sizeof joined - 1);
	assert_true(vllm_read(folder, 77, &vllm));
	assert_int_equal(vllm.permille, 700);
	put_words(folder, cache, sizeof cache - 1);
	assert_true(vllm_read(folder, 77, &vllm) && !vllm.given && vllm.cache_given);
	assert_int_equal(vllm.permille, 900);
	put_words(folder, other, sizeof other - 1);
	assert_false(vllm_read(folder, 77, &vllm));
	assert_false(vllm_read(folder, 78, &vllm));
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_of_a_hybrid_machine),
		cmocka_unit_test(the_whole_of_a_hybrid_machine),
		cmocka_unit_test(what_is_mapped_is_told_beyond_what_counts),
		cmocka_unit_test(limits_of_cgroup2_and_large_pages),
		cmocka_unit_test(a_container_whose_path_is_elsewhere),
		cmocka_unit_test(a_machine_without_files_is_an_error),
		cmocka_unit_test(a_quick_look_finds_the_same),
		cmocka_unit_test(one_who_was_not_looked_for_is_looked_for_among_all),
		cmocka_unit_test(bytes_of_the_gpu_belong_to_their_owner),
		cmocka_unit_test(the_usual_is_no_drift),
		cmocka_unit_test(a_unified_device_is_told_by_nvml),
		cmocka_unit_test(a_lying_nvml_is_not_believed),
		cmocka_unit_test(reserves_follow_the_size),
		cmocka_unit_test(damaged_machines_do_no_harm),
		cmocka_unit_test(recordings_say_the_same),
		cmocka_unit_test(a_vllm_says_what_it_takes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
