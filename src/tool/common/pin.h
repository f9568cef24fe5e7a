/* Binds the process to the (which mod C)-th of the C cores it may use. Before
 * any thread exists, so that all inherit it. False if the kernel refuses. */
#ifndef BY_CLI_PIN_H
#define BY_CLI_PIN_H

#include <stdbool.h>

bool by_pin_process(int which);

#endif
