/* When the device ran what was launched. */
#ifndef LAYER_TIMES_H
#define LAYER_TIMES_H

/* Begins to note times beside a recording, where ASCEND_LAYER_TIMES asks for them. */
void times_start(const char *recording);

#endif
