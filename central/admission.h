/* Uses of invitations (admission.c). Private to central/. */
#ifndef HAWK_CENTRAL_ADMISSION_H
#define HAWK_CENTRAL_ADMISSION_H

#include "central/state.h"

void central_on_admit(struct central *c, const struct msg *in);
void central_on_journal_admitted(struct central *c, const struct msg *in);
void central_admission_write(struct central *c, const struct admission *a);
/* Answers whoever wants a certificate. */
void central_admission_answer(struct central *c, uint32_t client, int32_t err);
void central_admissions_free(struct central *c);

#endif
