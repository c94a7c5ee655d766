/* config-docs [FILE]: print doc/config.md; or, given the file, fail where it is not what the schema says now. */
#include "../docs_main.h"

#include "conf/conf.h"

int main(int argc, char **argv)
{
	return docs_main(argc, argv, conf_print_docs);
}
