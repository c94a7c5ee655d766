/* Recordings: what was decided is decided again; what is no recording is told so. */
#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/random.h"
#include "sim/record.h"

/* A recorded world in memory. */
static char *record_world(uint64_t seed, uint32_t capacity, size_t *out_length,
                          struct sim_result *result)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, out_length);
	struct sim_options options = { .seed = seed, .record = out, .capacity = capacity };

	assert_non_null(out);
	assert_int_equal(sim_run(&options, result), 0);
	fclose(out);
	return bytes;
}

static int replay(char *bytes, size_t length, struct replay_result *result, struct err *err)
{
	FILE *in = fmemopen(bytes, length, "rb");
	assert_non_null(in);
	int code = replay_run(in, true, NULL, NULL, NULL, result, err);
	fclose(in);
	return code;
}

static void a_recorded_world_is_decided_again_byte_for_byte(void **state)
{
	struct sim_result result;
	struct replay_result again;
	size_t length;
	(void)state;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		char *bytes = record_world(seed, 0, &length, &result);
		assert_int_equal(replay(bytes, length, &again, NULL), 0);
		assert_false(again.cut_short);
		assert_true(again.actions == result.actions && again.hash == result.hash);
		assert_true(again.counters.loads == result.counters.loads);
		free(bytes);
	}
}

static void the_same_seed_is_the_same_run(void **state)
{
	struct sim_result one, two, three;
	(void)state;

	assert_int_equal(sim_run_random(7, NULL, &one), 0);
	assert_int_equal(sim_run_random(7, NULL, &two), 0);
	assert_int_equal(sim_run_random(8, NULL, &three), 0);
	assert_true(one.hash == two.hash && one.steps == two.steps);
	assert_true(one.hash != three.hash);
}

static void room_for_one_action_gives_the_same_run(void **state)
{
	struct sim_result one, many;
	(void)state;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		assert_int_equal(sim_run(&(struct sim_options){ .seed = seed, .capacity = 1 }, &one), 0);
		assert_int_equal(sim_run(&(struct sim_options){ .seed = seed, .capacity = 64 }, &many), 0);
		assert_true(one.hash == many.hash && one.actions == many.actions);
	}
}

static void a_recording_cut_short_plays_up_to_there(void **state)
{
	struct sim_result result;
	struct replay_result again;
	size_t length;
	char *bytes = record_world(3, 0, &length, &result);
	(void)state;

	assert_int_equal(replay(bytes, length - 3, &again, NULL), 0);
	assert_true(again.cut_short);
	assert_true(again.events > 0 && again.actions <= result.actions);
	free(bytes);
}

static void what_is_no_recording_is_told_so(void **state)
{
	struct sim_result result;
	struct replay_result again;
	struct err err;
	size_t length;
	char *bytes = record_world(3, 0, &length, &result);
	char *copy = malloc(length);
	(void)state;

	assert_int_equal(replay(bytes, 10, &again, &err), -EBADMSG);
	memcpy(copy, bytes, length);
	copy[0] = 'x';
	assert_int_equal(replay(copy, length, &again, &err), -EBADMSG);
	memcpy(copy, bytes, length);
	copy[8]++; /* the format */
	assert_int_equal(replay(copy, length, &again, &err), -ENOTSUP);
	memcpy(copy, bytes, length);
	copy[12]++; /* the core version */
	assert_int_equal(replay(copy, length, &again, &err), -ENOTSUP);
	memcpy(copy, bytes, length);
	memset(copy + 24, 0xff, 4); /* models */
	assert_int_equal(replay(copy, length, &again, &err), -EFBIG);
	memcpy(copy, bytes, length);
	memset(copy + 40, 0xff, 4); /* length of the first event */
	assert_int_equal(replay(copy, length, &again, &err), -EBADMSG);
	memcpy(copy, bytes, length);
	copy[44] ^= 1; /* its type: the length is another's */
	assert_int_equal(replay(copy, length, &again, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "recording"));
	free(copy);
	free(bytes);
}

/* Every byte of the first events turned: a refusal or another run, never a crash. */
static void a_damaged_recording_harms_nobody(void **state)
{
	struct sim_result result;
	struct replay_result again;
	size_t length;
	char *bytes = record_world(2, 0, &length, &result);
	size_t part = length < 6000 ? length : 6000;
	(void)state;

	for (size_t i = 40; i < part; i += 7) {
		bytes[i] ^= (char)0x80;
		int code = replay(bytes, part, &again, NULL);
		assert_true(code == 0 || code == -EBADMSG);
		bytes[i] ^= (char)0x80;
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recorded_world_is_decided_again_byte_for_byte),
		cmocka_unit_test(the_same_seed_is_the_same_run),
		cmocka_unit_test(room_for_one_action_gives_the_same_run),
		cmocka_unit_test(a_recording_cut_short_plays_up_to_there),
		cmocka_unit_test(what_is_no_recording_is_told_so),
		cmocka_unit_test(a_damaged_recording_harms_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
