#include "world.h"

#define MIB (INT64_C(1) << 20)

/* A model of 2 GiB on a machine with 10 for models; a pixel costs 6656 bytes. */
static void begin(struct world *world)
{
	world_init(world);
	world->models[1].engine = CONF_ENGINE_SD_SERVER;
	world->picture_pixel_bytes = 6656;
	world->picture_room_bytes = 10240 * MIB;
	world_open(world);
}

static void refuses(const char *path, const char *body, const char *text)
{
	struct world world;

	begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, path, body);
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	if (!has_heard(caller, "picture_too_large") || !has_heard(caller, text))
		fail_msg("%s: %s", body, heard(caller));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 400 "));
	assert_true(has_heard(caller, "x-should-retry: false"));
	assert_int_equal(world.requests, 0); /* nobody is asked, and nothing loaded for it */
	hang_up(caller);
	world_end(&world);
}

#define IMAGES "/v1/images/generations"
#define ASK(more) "{\"model\":\"small\"," more "}"

static void test_no_model_makes_it(void **state)
{
	(void)state;
	refuses(IMAGES, ASK("\"size\":\"1000000000x1000000000\""), "1000000000 x 1000000000");
	refuses(IMAGES, ASK("\"size\":\"99999999999999999999x64\""), "2147483647 x 64");
	refuses(IMAGES, ASK("\"size\":\"64x16385\""), "at most 16384 a side");
	refuses("/sdapi/v1/txt2img", ASK("\"width\":1000000000,\"height\":512"), "1000000000 x 512");
	refuses("/sdcpp/v1/img_gen", ASK("\"height\":1000000000"), "0 x 1000000000");
}

static void test_no_machine_has_so_much(void **state)
{
	(void)state;
	refuses(IMAGES, ASK("\"size\":\"4096x4096\""), "would take 104 GiB beside its model");
}

static void claims(const char *path, const char *body, int64_t bytes)
{
	struct world world;

	begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, path, body);
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].status, 200);
	assert_true(world.last_need_bytes == bytes);
	hang_up(caller);
	world_end(&world);
}

/* 0: as much as the model's usual picture. */
static void test_a_picture_claims_what_its_size_takes(void **state)
{
	(void)state;
	claims(IMAGES, ASK("\"size\":\"64x64\""), INT64_C(64) * 64 * 6656);
	claims(IMAGES, ASK("\"size\":\"1280x1280\""), INT64_C(1280) * 1280 * 6656); /* may be more than it really takes */
	claims(IMAGES, ASK("\"size\":\"auto\""), 0);
	claims(IMAGES, ASK("\"size\":\"-64x64\""), 0);
	claims(IMAGES, ASK("\"size\":\"0x0\""), 0);
	claims(IMAGES, ASK("\"size\":512"), 0);
	claims(IMAGES, ASK("\"size\":\"64x\""), 0);
	claims("/v1/completions", "{\"model\":\"chat\",\"size\":\"9999999x9999999\"}", 0); /* no model of pictures */
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(test_no_model_makes_it),
		cmocka_unit_test(test_no_machine_has_so_much),
		cmocka_unit_test(test_a_picture_claims_what_its_size_takes),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
