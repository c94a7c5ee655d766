/* doc/machine.md, printed or compared. */
#include "../docs_main.h"
#include "sim/sketch.h"

int main(int argc, char **argv)
{
	return docs_main(argc, argv, sketch_docs);
}
