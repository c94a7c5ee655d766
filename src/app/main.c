#include "app/cli.h"

int cmd_serve(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return cli_fail(CLI_FAILED, "cotenant --help", "this build has no daemon");
}

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
