/* Assertions that stay on in production; each states one thing (DESIGN 5.8). Never use them on network
 * input. */
#ifndef HAWK_BASE_CHECK_H
#define HAWK_BASE_CHECK_H

#include <stdnoreturn.h>

noreturn void check_failed(const char *expr, const char *file, int line);

#define CHECK(expr) ((expr) ? (void)0 : check_failed(#expr, __FILE__, __LINE__))

#endif
