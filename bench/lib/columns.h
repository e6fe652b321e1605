/* The columns of a benchmark: a cluster as it is on one machine of one user, the same as several people share it, and
 * one where each task runs as its user. */
#ifndef HAWK_BENCH_LIB_COLUMNS_H
#define HAWK_BENCH_LIB_COLUMNS_H

#include "bench/lib/figures.h"
#include "bench/lib/programs.h"
#include "net/identity.h"
#include "net/tls.h"

enum column {
    COLUMN_PLAIN,  /* no TLS, no users */
    COLUMN_SIGNED, /* TLS on every TCP connection; dists and workers require signatures */
    COLUMN_RUN_AS, /* the same; the daemons have no privilege, and hawk-run-as starts runners of users */
    COLUMNS,
};
/* Users that a machine of COLUMN_RUN_AS has accounts for. */
#define COLUMN_USERS 49u

/* Goes on in a machine (a mount namespace) that has these users, the daemons' user, and hawk-run-as. Nothing of it is
 * left when this process has ended. False, and a line on stdout: it cannot be made here. */
bool columns_enter_machine(void);

/* Where the daemons of a column live. */
struct site {
    enum column column;
    char dir[64], hawk[PATH_MAX];
};

/* From now on users' runners that start there verify what their user has signed (user_root). */
void columns_let_runners_verify(const struct site *p);

void site_make(struct site *p, enum column c, const char *hawk);
void site_remove(struct site *p);
/* As start_daemon(). The flags that its column, its role and its name need go before those that are given. */
pid_t site_start(const struct site *p, char addr[ADDRESS_MAX], enum role role, const char *name, ...)
    __attribute__((sentinel));
/* The credential of the user of that number, and $HAWK_TLS_* for libhawk. NULL: there is no TLS, and they are unset. */
struct tls *site_client(const struct site *p, unsigned user);

/* "WHAT", or "WHAT, TLS and signatures". */
const char *column_figure(char name[128], const char *what, enum column c);
/* A round's rates of one thing, and how they stand beside the plain one; 0: it was not measured. */
void columns_add(struct figures *f, const char *what, const char *unit, const double rates[COLUMNS]);
/* Prints what columns_add() has got of these, the medians beside each other. */
void columns_print(struct figures *f, const char *const *what, uint32_t n);

#endif
