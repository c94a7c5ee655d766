/* Whose environment, limits and rights doctor looks at: the daemon's where one runs, beside what models get. */
#include "../cmocka_all.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/doctor.h"
#include "probe/doctor_service.h"

static char folder[] = "/tmp/test-doctor-XXXXXX";

static void put(const char *name, const char *text, size_t bytes)
{
	char path[256];

	snprintf(path, sizeof path, "%s%s", folder, name);
	for (char *slash = strchr(path + sizeof folder, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fwrite(text, 1, bytes, file);
	fclose(file);
}

#define PUT(name, text) put(name, text, sizeof(text) - 1)

static const char *tree(const char *name)
{
	static char path[512];
	const char *trees = getenv("COTENANT_TEST_TREES");

	snprintf(path, sizeof path, "%s/%s", trees ? trees : "tests/trees", name);
	return path;
}

/* What doctor finds of a check on a recorded machine whose processes are those in `root`. */
static struct finding judge(const char *machine, const char *root, const struct doctor_service *service, const char *check)
{
	struct topology *topology = xcalloc(1, sizeof *topology);
	struct programs *programs = xcalloc(1, sizeof *programs);
	struct findings *findings = xcalloc(1, sizeof *findings);
	struct finding out = { .status = FINDING_UNKNOWN };
	struct err err;

	assert_int_equal(topology_find(tree(machine), topology, &err), 0);
	for (uint32_t i = 0; i < topology->cards.count; i++)
		snprintf(topology->cards.card[i].render, sizeof topology->cards.card[i].render, "renderD128");
	doctor_examine(root, topology, programs, service, findings);
	for (uint32_t i = 0; i < findings->count; i++)
		if (strcmp(findings->list[i].id, check) == 0)
			out = findings->list[i];
	free(findings);
	free(programs);
	free(topology);
	return out;
}

/* Each variable set and not set, where doctor runs. */
static void our_own_environment(void **state)
{
	static const struct {
		const char *machine, *check, *name, *value;
	} rows[] = {
		{ "strix-halo-gtt", "unified_memory_env", "GGML_CUDA_ENABLE_UNIFIED_MEMORY", "0" },
		{ "strix-halo-gtt", "hsa_override", "HSA_OVERRIDE_GFX_VERSION", "11.0.0" },
		{ "strix-halo-gtt", "hsa_caps", "GPU_MAX_HEAP_SIZE", "100" },
		{ "gb10", "torch_alloc", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True" },
	};
	static struct doctor_service service;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		unsetenv(rows[i].name);
		doctor_service_open(&service, "", 0);
		assert_int_equal(judge(rows[i].machine, "", &service, rows[i].check).status, FINDING_OK);
		doctor_service_close(&service);
		setenv(rows[i].name, rows[i].value, 1);
		doctor_service_open(&service, "", 0);
		struct finding f = judge(rows[i].machine, "", &service, rows[i].check);
		assert_int_equal(f.status, FINDING_ADVICE);
		assert_non_null(strstr(f.found, "here"));
		doctor_service_close(&service);
		unsetenv(rows[i].name);
	}
}

/* A daemon runs: its environment counts and not ours, and it is said whose it is. */
static void the_daemons_environment(void **state)
{
	static struct doctor_service service;

	(void)state;
	PUT("/proc/812/status", "Name:\tcotenant\nUid:\t1\t996\t996\t996\nGid:\t1\t995\t995\t995\nGroups:\t44 109 \n"
	                        "CapEff:\t0000000000000000\n");
	PUT("/proc/812/environ", "PATH=/bin\0HSA_OVERRIDE_GFX_VERSION=11.0.0\0");
	PUT("/proc/812/limits", "Max locked memory         8388608              8388608              bytes\n");
	setenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "1", 1);
	doctor_service_open(&service, folder, 812);
	assert_int_equal(judge("strix-halo-gtt", folder, &service, "unified_memory_env").status, FINDING_OK);
	struct finding f = judge("strix-halo-gtt", folder, &service, "hsa_override");
	assert_int_equal(f.status, FINDING_ADVICE);
	assert_non_null(strstr(f.found, "the daemon (PID 812, uid 996)"));
	f = judge("strix-halo-gtt", folder, &service, "memlock");
	assert_string_equal(f.found, "8 MiB of the daemon (PID 812, uid 996)");
	f = judge("strix-halo-gtt", folder, &service, "privileges");
	assert_non_null(strstr(f.found, "missing of the daemon (PID 812, uid 996)"));
	doctor_service_close(&service);
	unsetenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY");
}

static void an_environment_that_may_not_be_read(void **state)
{
	static struct doctor_service service;

	(void)state;
	PUT("/proc/813/status", "Name:\tcotenant\nUid:\t7\t7\t7\t7\n");
	doctor_service_open(&service, folder, 813);
	struct finding f = judge("strix-halo-gtt", folder, &service, "hsa_override");
	assert_int_equal(f.status, FINDING_UNKNOWN);
	assert_non_null(strstr(f.found, "may not be read"));
	/* What the configuration says is known all the same. */
	doctor_service_add(&service, "chat", "HSA_OVERRIDE_GFX_VERSION", "11.0.0");
	f = judge("strix-halo-gtt", folder, &service, "hsa_override");
	assert_int_equal(f.status, FINDING_ADVICE);
	assert_non_null(strstr(f.found, "for chat"));
	doctor_service_close(&service);
}

static void mode_of(const char *name, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof path, "%s%s", folder, name);
	assert_int_equal(chmod(path, mode), 0);
}

/* Whose groups let him open the devices: by the mode of each, for the user that engines run as. */
static void rights_of_the_services_user(void **state)
{
	static struct doctor_service service;
	char status[200];

	(void)state;
	PUT("/dev/kfd", "");
	PUT("/dev/dri/renderD128", "");
	int length = snprintf(status, sizeof status, "Uid:\t%u\t%u\t%u\t%u\nGid:\t9\t9\t9\t9\nGroups:\t4 %u\nCapEff:\t0\n", 996, 996, 996,
	                      996, getegid());
	put("/proc/814/status", status, (size_t)length);
	mode_of("/dev/kfd", 0660);
	mode_of("/dev/dri/renderD128", 0660);
	doctor_service_open(&service, folder, 814);
	struct finding f = judge("strix-halo-gtt", folder, &service, "device_rights");
	assert_int_equal(f.status, FINDING_OK);
	mode_of("/dev/kfd", 0600);
	f = judge("strix-halo-gtt", folder, &service, "device_rights");
	assert_int_equal(f.status, FINDING_PROBLEM);
	assert_string_equal(f.found, "/dev/kfd may not be opened by the user of the daemon (PID 814, uid 996)");
	assert_non_null(strstr(f.fix, "usermod -aG render,video $(id -nu 996)"));
	mode_of("/dev/kfd", 0606);
	mode_of("/dev/dri/renderD128", 0640); /* reading alone is not enough */
	assert_int_equal(judge("strix-halo-gtt", folder, &service, "device_rights").status, FINDING_PROBLEM);
	service.rights.capabilities = 1 << 1;
	assert_int_equal(judge("strix-halo-gtt", folder, &service, "device_rights").status, FINDING_OK);
	service.rights.known = false;
	assert_int_equal(judge("strix-halo-gtt", folder, &service, "device_rights").status, FINDING_UNKNOWN);
	doctor_service_close(&service);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_environment),
		cmocka_unit_test(the_daemons_environment),
		cmocka_unit_test(an_environment_that_may_not_be_read),
		cmocka_unit_test(rights_of_the_services_user),
	};

	if (!mkdtemp(folder))
		return 1;
	int code = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return code;
}
