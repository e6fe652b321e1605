/* Output and aborts of code under test: for test_base.c and test_units.c. */
#ifndef HAWK_TESTS_TEST_BASE_H
#define HAWK_TESTS_TEST_BASE_H

#include "base/blob.h"
#include "base/check.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/ids.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ring.h"
#include "base/rng.h"
#include "base/spread.h"
#include "base/units.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
